"""Anthropic: what the Messages API gets, and what is read from its answer."""

from typing import Any

import pytest

from loopback import KEY, TEXT, USAGE, Server, completion
from vendors import anthropic, ask, chat


def test_the_api_gets_system_and_messages(server: Server) -> None:
    answer = ask(anthropic(server.url, max_output_tokens=1000))
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1/messages")
    assert request.headers["content-type"] == "application/json"
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


def test_the_key_is_in_the_vendors_header(server: Server) -> None:
    ask(anthropic(server.url))
    headers = server.requests[0].headers
    assert KEY in (headers.get("x-api-key"), headers["authorization"].removeprefix("Bearer "))


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="without a setting"),
        pytest.param({"max_output_tokens": None}, id="with the setting null"),
    ],
)
def test_there_is_always_a_limit(server: Server, settings: dict[str, Any]) -> None:
    ask(anthropic(server.url, **settings))
    limit = server.requests[0].json["max_tokens"]
    assert isinstance(limit, int)
    assert limit > 0


@pytest.mark.parametrize(
    ("caching", "control"),
    [
        pytest.param(True, {"type": "ephemeral"}, id="for five minutes"),
        pytest.param("1h", {"type": "ephemeral", "ttl": "1h"}, id="for an hour"),
    ],
)
def test_a8_prompt_caching_marks_the_system_message(
    server: Server, caching: Any, control: dict[str, str]
) -> None:
    server.answer(
        body={
            **completion("anthropic", "Hi"),
            "usage": {
                "input_tokens": 11,
                "output_tokens": 7,
                "cache_read_input_tokens": 5,
                "cache_creation_input_tokens": 3,
            },
        }
    )
    answer = ask(anthropic(server.url, prompt_caching=caching))
    assert server.requests[0].json["system"] == [
        {"type": "text", "text": "Be brief.", "cache_control": control}
    ]
    assert answer.usage == {**USAGE, "cached_tokens": 5, "cache_write_tokens": 3}


def test_without_a_system_message_nothing_is_marked() -> None:
    wire = anthropic(prompt_caching=True).wire(chat(("system", " "), ("user", "Hello")))
    assert b"system" not in wire.body
    assert b"cache_control" not in wire.body


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param(
            [{"type": "text", "text": "One "}, {"type": "text", "text": "two"}],
            "One two",
            id="all text blocks",
        ),
        pytest.param(
            [
                {"type": "thinking", "thinking": "Hm.", "signature": "x"},
                {"type": "text", "text": "Yes"},
            ],
            "Yes",
            id="not the thoughts",
        ),
        pytest.param([], "", id="nothing where nothing is said"),
        pytest.param([{"type": "text", "text": " \u00fc\n"}], " \u00fc\n", id="any text"),
    ],
)
def test_the_answer_is(server: Server, content: list[Any], text: str) -> None:
    server.answer(body={**completion("anthropic", ""), "content": content})
    assert ask(anthropic(server.url)).text == text


def test_why_the_model_stopped_is_in_its_word(server: Server) -> None:
    server.answer(body={**completion("anthropic", "Hi"), "stop_reason": "max_tokens"})
    assert ask(anthropic(server.url)).finish_reason == "max_tokens"


def test_an_answer_without_usage_counts_nothing(server: Server) -> None:
    answer = completion("anthropic", "Hi")
    del answer["usage"]
    server.answer(body=answer)
    assert ask(anthropic(server.url)).usage == {}
