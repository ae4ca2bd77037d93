"""What is tried again, after how long, and what never is."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from batch_server import BatchServer, write_targets
from loopback import TEXT, Server
from multiturn import MultiturnError, load_target
from running import run, write_suite
from vendors import Connect, ask, each_vendor, failure, openai

MESSAGE = {"error": {"message": "slow down"}}
PASSING = (408, 409, 429, 500, 502, 503, 504, 529, 599)
FINAL = (400, 401, 402, 403, 404, 405, 410, 413, 422, 424, 451)


@each_vendor
@pytest.mark.parametrize("status", PASSING)
def test_an_error_that_may_pass_is_tried_again(
    connect: Connect, status: int, server: Server
) -> None:
    server.fail(status, "not now", times=2)
    answer = ask(connect(server.url, max_retries=2))
    assert (answer.text, answer.retries, len(server.requests)) == (TEXT, 2, 3)
    assert len({request.body for request in server.requests}) == 1


@each_vendor
@pytest.mark.parametrize("status", FINAL)
def test_an_error_that_stays_is_not_tried_again(
    connect: Connect, status: int, server: Server
) -> None:
    server.fail(status, "no", times=None)
    error = failure(connect(server.url, max_retries=2))
    assert (error.status, error.retries, len(server.requests)) == (status, 0, 1)


@each_vendor
@pytest.mark.parametrize("sent", [0, 20], ids=["before the answer", "within the answer"])
def test_a_connection_that_breaks_is_tried_again(
    connect: Connect, sent: int, server: Server
) -> None:
    server.stall(sent, times=2)
    answer = ask(connect(server.url, max_retries=2))
    assert (answer.text, answer.retries, len(server.requests)) == (TEXT, 2, 3)


@each_vendor
@pytest.mark.parametrize("limit", [0, 1, 2])
def test_it_ends_after_as_many_retries_as_are_allowed(
    connect: Connect, limit: int, server: Server
) -> None:
    server.fail(503, "not now", times=None)
    error = failure(connect(server.url, max_retries=limit))
    assert (error.retries, len(server.requests)) == (limit, limit + 1)


@each_vendor
def test_the_server_may_say_whether_to_try_again(connect: Connect, server: Server) -> None:
    server.answer(status=400, body=MESSAGE, headers={"x-should-retry": "true"})
    assert ask(connect(server.url, max_retries=1)).retries == 1
    server.answer(status=503, body=MESSAGE, headers={"x-should-retry": "false"}, times=None)
    assert failure(connect(server.url, max_retries=1)).retries == 0


@each_vendor
def test_an_odd_word_does_not_say_it(connect: Connect, server: Server) -> None:
    server.answer(status=503, body=MESSAGE, headers={"x-should-retry": "perhaps"})
    assert ask(connect(server.url, max_retries=1)).retries == 1


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return for how many seconds requests wait before they are sent again, and let none do so."""
    found: list[float] = []

    async def note(seconds: float) -> None:
        found.extend([seconds] if seconds else [])

    monkeypatch.setattr("asyncio.sleep", note)
    return found


def in_seconds(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@each_vendor
@pytest.mark.parametrize(
    ("headers", "least", "most"),
    [
        pytest.param({"retry-after": "1", "retry-after-ms": None}, 1, 1, id="seconds"),
        pytest.param({"retry-after": "0.7", "retry-after-ms": None}, 0.7, 0.7, id="a fraction"),
        pytest.param({"retry-after": "50", "retry-after-ms": "700"}, 0.7, 0.7, id="milliseconds"),
        pytest.param({"retry-after": "date", "retry-after-ms": None}, 20, 30, id="a date"),
    ],
)
def test_the_server_says_how_long_to_wait(
    connect: Connect,
    headers: Mapping[str, str | None],
    least: float,
    most: float,
    server: Server,
    waits: list[float],
) -> None:
    if headers["retry-after"] == "date":
        headers = {**headers, "retry-after": in_seconds(30)}
    server.answer(status=429, body=MESSAGE, headers=headers)
    assert ask(connect(server.url, max_retries=1)).retries == 1
    (wait,) = waits
    assert least <= wait <= most


@pytest.mark.parametrize(
    "word",
    ["", "soon", "-5", "-inf", "nan", "0", "1e-9", "\u0661", "Fri, 31 Feb 2026 25:00:00", "1,5"],
)
@pytest.mark.parametrize("name", ["retry-after", "retry-after-ms"])
def test_a_delay_that_is_none_does_not_last(
    name: str, word: str, server: Server, waits: list[float]
) -> None:
    headers = {"retry-after": None, "retry-after-ms": None, name: word}
    server.answer(status=429, body=MESSAGE, headers=headers)
    assert ask(openai(server.url, max_retries=1)).retries == 1
    (wait,) = waits
    assert 0 <= wait <= 1


@pytest.mark.parametrize(
    ("headers", "settings"),
    [
        ({"retry-after": "61", "retry-after-ms": None}, {}),
        ({"retry-after": None, "retry-after-ms": "60001"}, {}),
        ({"retry-after": "inf", "retry-after-ms": None}, {}),
        ({"retry-after": "9" * 400, "retry-after-ms": None}, {}),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT", "retry-after-ms": None}, {}),
        ({"retry-after": "2", "retry-after-ms": None}, {"max_retry_delay": 1}),
        ({"retry-after": None, "retry-after-ms": "60"}, {"max_retry_delay": 0.05}),
        ({"retry-after": "3600", "retry-after-ms": None}, {"max_retry_delay": 3599}),
    ],
)
@each_vendor
def test_a_longer_delay_than_the_target_allows_is_an_error_at_once(
    connect: Connect, headers: dict[str, str], settings: dict[str, Any], server: Server
) -> None:
    server.answer(status=429, body=MESSAGE, headers=headers, times=None)
    start = time.monotonic()
    error = failure(connect(server.url, max_retries=3, **settings))
    assert time.monotonic() - start < 1.5
    assert (error.kind, error.retries, len(server.requests)) == ("rate_limit", 0, 1)
    assert error.what.startswith("HTTP 429: slow down; ")
    assert "max_retry_delay" in error.what


@each_vendor
def test_a_delay_that_the_target_allows_is_waited_for(
    connect: Connect, server: Server, waits: list[float]
) -> None:
    server.answer(status=503, body=MESSAGE, headers={"retry-after": "1", "retry-after-ms": None})
    assert ask(connect(server.url, max_retries=1, max_retry_delay=1)).retries == 1
    assert waits == [1]


@pytest.mark.parametrize("given", ["x", -1, "nan", True, [60]])
def test_a_setting_that_is_no_delay_is_refused(
    given: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with BatchServer() as server:
        write_targets(tmp_path, server, max_retry_delay=given)
    with pytest.raises(MultiturnError, match=r"targets\.yaml:1:\d+: .*max_retry_delay"):
        load_target("openai")


def test_each_attempt_has_its_own_time(server: Server) -> None:
    server.stall(seconds=3, times=1)
    start = time.monotonic()
    answer = ask(openai(server.url, max_retries=1, timeout_seconds=0.5))
    assert (answer.retries, time.monotonic() - start < 3) == (1, True)


TROUBLES: list[int | None] = [None, 408, 409, 429, 500, 503, 529]


@pytest.mark.parametrize("status", TROUBLES)
@pytest.mark.parametrize("acted", [True, False])
@pytest.mark.parametrize("vendor", ["openai", "azure", "anthropic", "gemini"])
def test_creating_a_batch_is_never_tried_again_before_it_was_looked_for(
    vendor: str, acted: bool, status: int | None, batch_server: BatchServer, tmp_path: Path
) -> None:
    if (status, acted) == (409, True):
        pytest.skip("it says that nothing was done")
    write_suite(tmp_path, ["one"])
    write_targets(tmp_path, batch_server, max_retries=5)
    batch_server.trouble("create", status, acted=acted)
    arguments = ("--batch", "--output", "out.jsonl", "--poll", "0.001", "--resume")
    for _ in range(2):
        run("a.eval.yaml", "--target", vendor, *arguments, folder=tmp_path)
    operations = batch_server.operations
    assert "create" in operations
    assert ("create", "create") not in pairwise(operations)
    assert batch_server.sent() == {"one": 1}


@pytest.mark.parametrize("vendor", ["openai", "azure", "anthropic", "gemini"])
def test_no_word_of_the_server_has_a_batch_created_again(
    vendor: str, batch_server: BatchServer, tmp_path: Path
) -> None:
    write_suite(tmp_path, ["one"])
    write_targets(tmp_path, batch_server, max_retries=5)
    take = batch_server.take
    refused: list[str] = []

    def again(request: Any) -> Any:
        step = take(request)
        if batch_server.operations[-1] == "create" and not refused:
            refused.append("once")
            return step._replace(make=lambda _: (400, MESSAGE), headers={"x-should-retry": "true"})
        return step

    batch_server.take = again  # type: ignore[method-assign]
    arguments = ("--batch", "--output", "out.jsonl", "--poll", "0.001", "--target", vendor)
    done = run("a.eval.yaml", *arguments, folder=tmp_path)
    assert (done.returncode, batch_server.operations.count("create")) == (2, 1)
    assert "HTTP 400: slow down" in done.stderr


@pytest.mark.parametrize("operation", ["upload", "list", "look", "results"])
@pytest.mark.parametrize("vendor", ["openai", "azure", "anthropic", "gemini"])
def test_what_only_reads_or_uploads_is_tried_again(
    vendor: str, operation: str, batch_server: BatchServer, tmp_path: Path
) -> None:
    if (vendor, operation) == ("anthropic", "upload"):
        pytest.skip("Anthropic's batches are one request")
    write_suite(tmp_path, ["one"])
    write_targets(tmp_path, batch_server, max_retries=2)
    if operation == "list":
        batch_server.trouble("create", 500, acted=True)
    batch_server.trouble(operation, 503)
    arguments = ("--batch", "--output", "out.jsonl", "--poll", "0.001", "--target", vendor)
    done = run("a.eval.yaml", *arguments, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert batch_server.sent() == {"one": 1}
