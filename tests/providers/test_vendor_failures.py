"""What goes wrong at a vendor, and what becomes of it."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from loopback import TEXT, Server, Step
from multiturn import ProviderError
from multiturn.providers.replies import error_of
from vendors import HELLO, Connect, anthropic, ask, azure, each_vendor, failure

FAILURES: dict[str, tuple[Callable[[Server], None], dict[str, Any], str, int, str]] = {
    "errors of the server are tried again": (
        lambda server: server.fail(503, "No.", times=None),
        {"max_retries": 3},
        *("http", 3, "HTTP 503: No."),
    ),
    "twice without a setting": (
        lambda server: server.fail(500, "No.", times=None),
        {},
        *("http", 2, "HTTP 500: No."),
    ),
    "not at all where the target says so": (
        lambda server: server.fail(429, "slow down", times=None),
        {"max_retries": 0},
        *("rate_limit", 0, "HTTP 429: slow down"),
    ),
    "a key that is refused": (
        lambda server: server.fail(401, "no such key"),
        {},
        *("access_denied", 0, "HTTP 401: no such key; check the api_key of the target 't'"),
    ),
    "an address that is not there": (
        lambda server: server.fail(404, "404 page not found"),
        {},
        *("http", 0, "not found; check the model and the address of the target 't'"),
    ),
    "a connection that is cut before the answer": (
        lambda server: server.stall(times=None),
        {"max_retries": 0},
        *("connection", 0, "the connection of the target 't' failed"),
    ),
    "a connection that is cut in the middle of the answer": (
        lambda server: server.stall(20, times=None),
        {"max_retries": 0},
        *("connection", 0, "check the target's address and the network"),
    ),
    "an answer that stalls is tried again": (
        lambda server: server.stall(seconds=30, times=None),
        {"max_retries": 1, "timeout_seconds": 0.2},
        *("timeout", 1, "no answer within 0.2 s (timeout_seconds)"),
    ),
    "an answer that stalls in the middle": (
        lambda server: server.stall(20, seconds=30, times=None),
        {"max_retries": 0, "timeout_seconds": 0.2},
        *("timeout", 0, "no answer within 0.2 s (timeout_seconds)"),
    ),
    "an answer that drips, in pauses shorter than the limit and for much longer": (
        lambda server: server.then(Step(server.act, pause=0.05)),
        {"max_retries": 0, "timeout_seconds": 0.2},
        *("timeout", 0, "no answer within 0.2 s (timeout_seconds)"),
    ),
    "a redirect, which is not followed": (
        lambda server: server.answer(status=307, headers={"location": "/elsewhere"}),
        {},
        *("http", 0, "HTTP 307: "),
    ),
    "an answer that is not JSON": (
        lambda server: server.answer(body='{"choices": ['),
        {},
        *("malformed", 0, "not in the vendor's format"),
    ),
}


@pytest.fixture
def own_time(server: Server, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what has time go on only where the server waits: no request is late before."""
    now = [0.0]

    def wait(seconds: float) -> None:
        now[0] += seconds

    def stop() -> None:
        server.waits = wait
        monkeypatch.setattr(asyncio.BaseEventLoop, "time", lambda _: now[0])
        monkeypatch.setattr("multiturn.providers.client._SHORTEST_DELAY", 0)

    return stop


@each_vendor
@pytest.mark.parametrize(
    ("step", "settings", "kind", "retries", "words"), FAILURES.values(), ids=FAILURES
)
def test_the_error_says_what_has_failed(
    connect: Connect,
    server: Server,
    step: Callable[[Server], None],
    settings: dict[str, Any],
    kind: str,
    retries: int,
    words: str,
    own_time: Callable[[], None],
) -> None:
    step(server)
    if kind == "timeout":
        own_time()
    provider = connect(server.url, **settings)
    error = failure(provider)
    assert (error.kind, error.retries, len(server.requests)) == (kind, retries, retries + 1)
    assert words in str(error)
    assert error.wire == provider.wire(HELLO).body == server.requests[-1].body


@each_vendor
def test_after_a_failure_the_provider_goes_on(connect: Connect, server: Server) -> None:
    provider = connect(server.url, max_retries=1)
    server.fail(429, "slow down", times=3)
    assert failure(provider).kind == "rate_limit"
    answer = ask(provider)
    assert (answer.text, answer.retries) == (TEXT, 1)
    assert answer.wire == server.requests[-1].body


@pytest.mark.parametrize("connect", [azure, anthropic])
def test_a_cut_connection_is_tried_again_where_the_sdk_does_so(
    connect: Connect, server: Server
) -> None:
    server.stall()
    answer = ask(connect(server.url, max_retries=1))
    assert (answer.text, answer.retries, len(server.requests)) == (TEXT, 1, 2)


@each_vendor
def test_nobody_listens(connect: Connect) -> None:
    assert failure(connect(max_retries=0)).kind == "unreachable"


def content(text: Any) -> Any:
    """Return an answer of any vendor whose text is something else."""
    return {
        "choices": [{"message": {"content": text}}],
        "content": [{"type": "text", "text": text}],
        "candidates": [{"content": {"parts": [{"text": text}]}}],
    }


@each_vendor
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xff\xfe{}", id="bytes that are no text"),
        pytest.param(b"[" * 100_000, id="lists in lists"),
        *([], None, 7),
        pytest.param({"choices": [], "content": None, "candidates": []}, id="no answer at all"),
        pytest.param({"error": {"message": "no"}}, id="an error that says 200"),
        pytest.param(
            {"choices": [{"message": None}], "content": [None], "candidates": [None]}, id="nulls"
        ),
        pytest.param(content(["Hi"]), id="a list where the text should be"),
        pytest.param({**content(7), "content": content(None)["content"]}, id="no text"),
    ],
)
def test_an_answer_in_another_format_is_malformed(connect: Connect, body: Any) -> None:
    text = body if isinstance(body, bytes) else json.dumps(body)
    with pytest.raises(ProviderError, match="format") as caught:
        connect().answer(text.encode() if isinstance(text, str) else text)
    assert caught.value.kind == "malformed"


PAGE = "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
REASON = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
LOCALIZED = {"@type": "type.googleapis.com/google.rpc.LocalizedMessage", "locale": "en-US"}


@pytest.mark.parametrize(
    ("text", "message", "kind"),
    [
        pytest.param("", "without a reason", "http", id="nothing"),
        pytest.param(" null\n", "null", "http", id="null"),
        pytest.param('{"error":"no"}', '{"error":"no"}', "http", id="an error without a message"),
        pytest.param('{"error":{"message":null,"code":7}}', "None", "http", id="a message of null"),
        pytest.param('[{"error":7}]', '[{"error":7}]', "http", id="a list"),
        pytest.param('{"error":{"message":"content_filter"}}', "content_filter", "http", id="text"),
        pytest.param(
            PAGE + "no " * 300, (PAGE + "no " * 300)[:500], "http", id="the page of a proxy"
        ),
        pytest.param(
            json.dumps({"error": {"message": "No.", "details": [LOCALIZED, REASON]}}),
            *("No.", "access_denied"),
            id="a key that Gemini calls invalid",
        ),
        pytest.param(
            json.dumps({"error": {"message": "API_KEY_INVALID", "details": [LOCALIZED]}}),
            *("API_KEY_INVALID", "http"),
            id="another detail of Gemini",
        ),
        pytest.param(
            '{"error":{"message":"No.","details":"No."}}', "No.", "http", id="details in a text"
        ),
    ],
)
def test_an_error_without_a_code(text: str, message: str, kind: str) -> None:
    error = error_of(400, text.encode(), [])
    assert (error.kind, error.status, error.what) == (kind, 400, f"HTTP 400: {message}")
