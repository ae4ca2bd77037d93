"""The limits of an answer: the delay before the next attempt, and its size.

All vendors have one client for HTTP, which is asked through OpenAI.
"""

import asyncio
import gzip
import json
import time
import tracemalloc
from pathlib import Path

import pytest

from loopback import TEXT, Server, Step, completion
from multiturn import ProviderError
from multiturn.providers.client import _SHORTEST_DELAY
from vendors import Connect, ask, each_vendor, failure, openai

MIB = 2**20
SLOW_DOWN = {"error": {"message": "slow down"}}


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
    server.answer(body=SLOW_DOWN, status=429, headers=headers, times=9)
    error = failure(openai(server.url, max_retries=2))
    assert (error.kind, error.retries, len(server.requests)) == ("rate_limit", 0, 1)
    assert error.what.startswith("HTTP 429: slow down; the server asks to wait ")
    assert error.what.endswith(f"{delay} (Retry-After), longer than the max_retry_delay of 60 s")


@each_vendor
def test_no_vendors_sdk_waits_longer_than_a_minute(connect: Connect, server: Server) -> None:
    headers = {"retry-after": "61", "retry-after-ms": "61000"}
    server.answer(body=SLOW_DOWN, status=429, headers=headers, times=9)
    assert "61 s (Retry-After)" in failure(connect(server.url)).what


def test_a_date_that_has_passed_is_no_reason_not_to_wait(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clocks differ: without a delay of our own, all retries would be sent at once."""
    monkeypatch.setattr("multiturn.providers.client._SHORTEST_DELAY", _SHORTEST_DELAY)
    headers = {"retry-after": "Fri, 31 Dec 1999 23:59:59 GMT", "retry-after-ms": "x"}
    server.answer(body=SLOW_DOWN, status=429, headers=headers)
    started = time.monotonic()
    assert ask(openai(server.url, max_retries=1)).retries == 1
    assert time.monotonic() - started > 0.37


def test_an_answer_has_16_mib_at_most(server: Server) -> None:
    server.answer(body=b"0" * (17 * MIB))
    error = failure(openai(server.url))
    assert (error.kind, error.what) == ("malformed", "the answer is larger than 16 MiB")
    assert len(server.requests) == 1


def test_a_packed_answer_is_read_as_far_as_the_limit(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"content-encoding": "gzip"}
    body = json.dumps(completion("openai", TEXT)).encode()
    server.answer(body=gzip.compress(body), headers=headers)
    provider = openai(server.url)
    assert ask(provider).text == TEXT
    monkeypatch.setattr("multiturn.providers.client.LARGEST_ANSWER", MIB)
    server.answer(body=gzip.compress(b"0" * (30 * MIB)), headers=headers)
    tracemalloc.start()
    try:
        assert failure(provider).what == "the answer is larger than 1 MiB"
        assert tracemalloc.get_traced_memory()[1] < 10 * MIB
    finally:
        tracemalloc.stop()


def test_a_file_that_drips_is_not_waited_for(server: Server, tmp_path: Path) -> None:
    """Its time is limited for each 64 KiB, so that only a large one may take longer."""
    server.then(Step(lambda request: (200, b"0" * 200), pause=0.01))
    provider = openai(server.url, timeout_seconds=0.3, max_retries=0)

    async def fetch() -> None:
        async with provider:
            with (tmp_path / "file").open("wb") as file:
                await provider.request("GET", "/files/a", into=file)

    with pytest.raises(ProviderError, match="no answer within"):
        asyncio.run(fetch())


@pytest.mark.parametrize("encoding", ["br", "gzip"])
def test_an_answer_that_cannot_be_unpacked_is_malformed(server: Server, encoding: str) -> None:
    server.answer(body=b"\x00\x01\x02", headers={"content-encoding": encoding})
    error = failure(openai(server.url))
    assert (error.kind, len(server.requests)) == ("malformed", 1)
    assert error.what == f"the answer cannot be unpacked: its content-encoding is {encoding!r}"
