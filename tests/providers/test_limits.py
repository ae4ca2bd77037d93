"""The limits of one attempt: its time, the delay before the next one, and the size of an answer.

All vendors have one client for HTTP, which is asked through OpenAI.
"""

import gzip
import json
import tracemalloc
import zlib
from collections.abc import Callable

import pytest

from loopback import TEXT, Server, completion
from vendors import Connect, ask, each_vendor, failure, openai

MIB = 2**20
PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
}


@each_vendor
def test_an_answer_that_drips_is_a_time_out(connect: Connect, server: Server) -> None:
    # In pauses shorter than the limit, and for much longer than it.
    server.drip(0.1)
    error = failure(connect(server.url, max_retries=0, timeout_seconds=0.3))
    assert error.kind == "timeout"
    assert "0.3 s (timeout_seconds)" in error.what


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
    server: Server, headers: dict[str, str], delay: str
) -> None:
    server.answer(body={"error": {"message": "slow down"}}, status=429, headers=headers, times=9)
    error = failure(openai(server.url, max_retries=2))
    assert (error.kind, error.retries, len(server.requests)) == ("rate_limit", 0, 1)
    assert error.what.startswith("HTTP 429: slow down; the server asks to wait ")
    assert error.what.endswith(f"{delay} (Retry-After); multiturn waits 60 s at most")


@each_vendor
def test_no_vendors_sdk_waits_longer_than_a_minute(connect: Connect, server: Server) -> None:
    headers = {"retry-after": "61", "retry-after-ms": "61000"}
    server.answer(body={"error": {"message": "slow down"}}, status=429, headers=headers, times=9)
    assert "61 s (Retry-After)" in failure(connect(server.url)).what


@pytest.mark.parametrize("encoding", PACK)
def test_an_answer_has_16_mib_at_most(server: Server, encoding: str) -> None:
    body = PACK[encoding](b"0" * (17 * MIB))
    server.answer(body=body, headers={"content-encoding": encoding} if encoding else {})
    error = failure(openai(server.url))
    assert (error.kind, error.what) == ("malformed", "the answer is larger than 16 MiB")
    assert len(server.requests) == 1


def test_a_small_answer_that_unpacks_to_much_takes_little_memory(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("multiturn.providers.limits.LARGEST_ANSWER", MIB)
    body = gzip.compress(b"0" * (30 * MIB))
    server.answer(body=body, headers={"content-encoding": "gzip"}, times=2)
    provider = openai(server.url)
    failure(provider)  # imports the SDK
    tracemalloc.start()
    try:
        assert failure(provider).what == "the answer is larger than 1 MiB"
        assert tracemalloc.get_traced_memory()[1] < 10 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_packed_answer_is_read(server: Server, encoding: str) -> None:
    body = PACK[encoding](json.dumps(completion("azure", TEXT)).encode())
    server.answer(body=body, headers={"content-encoding": encoding})
    assert ask(openai(server.url)).text == TEXT


@pytest.mark.parametrize("encoding", ["br", "gzip"])
def test_an_answer_that_cannot_be_unpacked_is_malformed(server: Server, encoding: str) -> None:
    server.answer(body=b"\x00\x01\x02", headers={"content-encoding": encoding})
    error = failure(openai(server.url))
    assert (error.kind, len(server.requests)) == ("malformed", 1)
    assert error.what == f"the answer cannot be unpacked: its content-encoding is {encoding!r}"
