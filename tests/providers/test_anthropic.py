"""Anthropic: what the Messages API gets, and what is read from its answer."""

import json
from typing import Any

import pytest

from loopback import KEY, TEXT, USAGE, Server, completion
from vendors import anthropic, ask, chat


def test_the_api_gets_system_and_messages(server: Server) -> None:
    answer = ask(anthropic(server.url, max_output_tokens=1000))
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1/messages")
    assert request.headers["content-type"] == "application/json"
    key = request.headers.get("x-api-key") or request.headers["authorization"]
    assert key.removeprefix("Bearer ") == KEY
    assert "anthropic-version" in request.headers
    assert request.json == {
        "model": "claude-sonnet-4-5",
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": 1000,
    }
    assert (answer.text, answer.usage, answer.finish_reason) == (TEXT, USAGE, "end_turn")
    assert answer.raw == completion("anthropic", TEXT)
    assert answer.retries == 0


@pytest.mark.parametrize(
    ("settings", "sent"),
    [
        pytest.param({}, {"max_tokens": 4096}, id="there is always a limit"),
        pytest.param(
            {"prompt_caching": True},
            {"system": [{"cache_control": {"type": "ephemeral"}}]},
            id="A8 marks the system message for five minutes",
        ),
        pytest.param(
            {"prompt_caching": "1h"},
            {"system": [{"cache_control": {"type": "ephemeral", "ttl": "1h"}}]},
            id="A8 marks it for an hour",
        ),
    ],
)
def test_the_body_has(settings: dict[str, Any], sent: dict[str, Any]) -> None:
    wire = anthropic(**settings).wire(chat(("system", "Be brief."), ("user", "Hello")))
    for block in sent.get("system", ()):
        block.update({"type": "text", "text": "Be brief."})
    assert sent.items() <= json.loads(wire.body).items()


def test_without_a_system_message_nothing_is_marked() -> None:
    wire = anthropic(prompt_caching=True).wire(chat(("system", " "), ("user", "Hello")))
    assert b"system" not in wire.body
    assert b"cache_control" not in wire.body


def thought(text: str) -> dict[str, str]:
    return {"type": "thinking", "thinking": text, "signature": "x"}


def said(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


CACHE = {"cache_read_input_tokens": 5, "cache_creation_input_tokens": 3}


@pytest.mark.parametrize(
    ("changes", "read"),
    [
        pytest.param(
            {"content": [said("One "), said("two")]}, {"text": "One two"}, id="all text blocks"
        ),
        pytest.param({"content": [thought("Hm."), said("Yes")]}, {"text": "Yes"}, id="no thoughts"),
        pytest.param({"content": []}, {"text": ""}, id="nothing where nothing is said"),
        pytest.param({"content": [said(" \u00fc\n")]}, {"text": " \u00fc\n"}, id="any text"),
        pytest.param(
            {"stop_reason": "max_tokens"}, {"finish_reason": "max_tokens"}, id="why it stopped"
        ),
        pytest.param({"usage": None}, {"usage": {}}, id="no usage where nothing is counted"),
        pytest.param(
            {"usage": {**USAGE, **CACHE}},
            {"usage": {**USAGE, "cached_tokens": 5, "cache_write_tokens": 3}},
            id="the tokens of the cache",
        ),
    ],
)
def test_of_an_answer_is_read(changes: dict[str, Any], read: dict[str, Any]) -> None:
    answer = anthropic().answer(json.dumps({**completion("anthropic", "Hi"), **changes}))
    assert {name: getattr(answer, name) for name in read} == read
