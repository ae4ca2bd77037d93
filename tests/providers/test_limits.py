"""The limits of one attempt: its time, the delay before the next one, and the size of an answer."""

import gzip
import json
import tracemalloc
import zlib

import pytest

from loopback import TEXT, Server, completion
from vendors import Connect, ask, each_vendor, failure

MIB = 2**20


@each_vendor
def test_an_answer_that_drips_is_a_time_out(connect: Connect, server: Server) -> None:
    # In pauses shorter than the limit, and for much longer than it.
    server.drip(0.1)
    error = failure(connect(server.url, max_retries=0, timeout_seconds=0.5))
    assert error.kind == "timeout"
    assert "0.5 s (timeout_seconds)" in error.what


@each_vendor
def test_an_attempt_after_one_that_dripped_may_succeed(connect: Connect, server: Server) -> None:
    server.drip(0.1)
    answer = ask(connect(server.url, max_retries=1, timeout_seconds=1))
    assert (answer.text, answer.retries) == (TEXT, 1)


@each_vendor
@pytest.mark.parametrize(
    ("headers", "delay"),
    [
        ({"retry-after": "1000000000", "retry-after-ms": "x"}, "1000000000 s"),
        ({"retry-after": "1", "retry-after-ms": "60001"}, "60.001 s"),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT", "retry-after-ms": "x"}, " s"),
        ({"retry-after": "inf", "retry-after-ms": "x"}, "inf s"),
    ],
)
def test_a_delay_above_a_minute_is_an_error_that_names_it(
    connect: Connect, server: Server, headers: dict[str, str], delay: str
) -> None:
    server.answer(body={"error": {"message": "slow down"}}, status=429, headers=headers, times=9)
    error = failure(connect(server.url, max_retries=2))
    assert (error.kind, error.retries, len(server.requests)) == ("rate_limit", 0, 1)
    assert error.what.startswith("HTTP 429: slow down; the server asks to wait ")
    assert error.what.endswith(f"{delay} (Retry-After); multiturn waits 60 s at most")


@each_vendor
@pytest.mark.parametrize("encoding", ["", "gzip", "deflate"])
def test_an_answer_has_16_mib_at_most(connect: Connect, server: Server, encoding: str) -> None:
    body = b"0" * (17 * MIB)
    body = {"": body, "gzip": gzip.compress(body), "deflate": zlib.compress(body)}[encoding]
    server.answer(body=body, headers={"content-encoding": encoding} if encoding else {})
    error = failure(connect(server.url))
    assert (error.kind, error.what) == ("malformed", "the answer is larger than 16 MiB")
    assert len(server.requests) == 1


@each_vendor
def test_a_small_answer_that_unpacks_to_much_takes_little_memory(
    connect: Connect, server: Server
) -> None:
    body = gzip.compress(b"0" * (100 * MIB))
    server.answer(body=body, headers={"content-encoding": "gzip"})
    server.answer(body=body, headers={"content-encoding": "gzip"})
    provider = connect(server.url)
    failure(provider)  # imports the SDK
    tracemalloc.start()
    try:
        failure(provider)
        assert tracemalloc.get_traced_memory()[1] < 60 * MIB
    finally:
        tracemalloc.stop()


@each_vendor
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_packed_answer_is_read(connect: Connect, server: Server, encoding: str) -> None:
    ask(connect(server.url))
    body = json.dumps(completion(server.requests[0].vendor, TEXT)).encode()
    packed = {"gzip": gzip.compress(body), "deflate": zlib.compress(body)}[encoding]
    server.answer(body=packed, headers={"content-encoding": encoding})
    assert ask(connect(server.url)).text == TEXT


@each_vendor
@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip"])
def test_an_answer_that_cannot_be_unpacked_is_malformed(
    connect: Connect, server: Server, encoding: str
) -> None:
    server.answer(body=b"\x00\x01\x02", headers={"content-encoding": encoding})
    error = failure(connect(server.url))
    assert (error.kind, len(server.requests)) == ("malformed", 1)
    assert error.what == f"the answer cannot be unpacked: its content-encoding is {encoding!r}"
