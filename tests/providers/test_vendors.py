"""The vendors that use HTTP: what their servers get, and what is read from their answers."""

import json
from typing import Any

import pytest

from loopback import KEY, TEXT, USAGE, Server, completion
from multiturn import ProviderError
from vendors import (
    HELLO,
    PROVIDERS,
    Connect,
    anthropic,
    ask,
    azure,
    chat,
    each_vendor,
    entries,
    failure,
    gemini,
    openai,
)

LIMITED = {"temperature": 0.5, "max_output_tokens": 100}
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
SYSTEM = {"type": "text", "text": "Be brief."}
CHAT = {"messages": MESSAGES, "model": "gpt-4o", "max_completion_tokens": 100, "temperature": 0.5}


@pytest.mark.parametrize(
    ("connect", "path", "key", "body"),
    [
        pytest.param(
            *(openai, "/v1/chat/completions", {"authorization": f"Bearer {KEY}"}, CHAT),
            id="OpenAI",
        ),
        pytest.param(
            *(azure, "/openai/deployments/gpt-4o/chat/completions?api-version=2024-12-01-preview"),
            *({"api-key": KEY}, CHAT),
            id="Azure OpenAI",
        ),
        pytest.param(
            *(anthropic, "/v1/messages", {"authorization": f"Bearer {KEY}"}),
            {
                "model": "claude-sonnet-4-5",
                "system": "Be brief.",
                "messages": MESSAGES[1:],
                "max_tokens": 100,
                "temperature": 0.5,
            },
            id="Anthropic",
        ),
        pytest.param(
            *(gemini, "/v1beta/models/gemini-2.5-flash:generateContent", {"x-goog-api-key": KEY}),
            {
                "systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}]},
                "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
                "generationConfig": {"temperature": 0.5, "maxOutputTokens": 100},
            },
            id="Gemini",
        ),
    ],
)
def test_a_request_and_its_answer(
    connect: Connect, path: str, key: dict[str, str], body: Any, server: Server
) -> None:
    answer = ask(connect(server.url, **LIMITED))
    (request,) = server.requests
    assert (request.method, request.path, request.json) == ("POST", path, body)
    keys = {name: value for name, value in request.headers.items() if KEY in value}
    assert keys == key
    assert request.headers["content-type"] == "application/json"
    assert (answer.text, answer.usage, answer.retries) == (TEXT, USAGE, 0)
    assert answer.raw == completion(request.vendor, TEXT)


@pytest.mark.parametrize(
    ("connect", "settings", "path"),
    [
        (openai, {"base_url": "URL/openai/v1/"}, "/openai/v1/chat/completions"),
        (
            *(azure, {"endpoint": "URL/", "model": "mine", "version": "2025-03-01"}),
            "/openai/deployments/mine/chat/completions?api-version=2025-03-01",
        ),
        (
            *(gemini, {"version": "v1", "model": "gemini-3-pro"}),
            "/v1/models/gemini-3-pro:generateContent",
        ),
    ],
)
def test_the_target_says_where_a_request_goes(
    connect: Connect, settings: dict[str, str], path: str, server: Server
) -> None:
    given = {name: value.replace("URL", server.url) for name, value in settings.items()}
    ask(connect(server.url, **given))
    assert server.requests[0].path == path


def test_a_server_with_openais_api_gets_no_key_if_the_target_has_none(server: Server) -> None:
    assert ask(openai(server.url, api_key=None)).text == TEXT
    assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize(
    ("connect", "settings", "sent"),
    [
        pytest.param(
            *(openai, {"max_output_tokens": 100, "max_tokens_field": "max_tokens"}),
            {"max_tokens": 100, "max_completion_tokens": None},
            id="O4 the limit under its old name",
        ),
        pytest.param(*(anthropic, {}, {"max_tokens": 4096}), id="always a limit, for Anthropic"),
        pytest.param(
            *(anthropic, {"prompt_caching": True}),
            {"system": [{**SYSTEM, "cache_control": {"type": "ephemeral"}}]},
            id="A8 a mark for five minutes",
        ),
        pytest.param(
            *(anthropic, {"prompt_caching": "1h"}),
            {"system": [{**SYSTEM, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]},
            id="A8 a mark for an hour",
        ),
    ],
)
def test_the_target_says_what_is_in_the_body(
    connect: Connect, settings: dict[str, Any], sent: dict[str, Any]
) -> None:
    body = json.loads(connect(**settings).wire(HELLO).body)
    assert {key: body.get(key) for key in sent} == sent


def test_a8_without_a_system_message_nothing_is_marked() -> None:
    wire = anthropic(prompt_caching=True).wire(chat(("system", " "), ("user", "Hello")))
    assert b"system" not in wire.body


@pytest.mark.parametrize(("vendor", "entry"), entries("answers.yaml"))
def test_of_an_answer_is_read(vendor: str, entry: dict[str, Any]) -> None:
    body = {**completion(vendor, "Hi"), **entry[vendor]}
    answer = PROVIDERS[vendor]().answer(json.dumps(body))
    assert {name: getattr(answer, name) for name in entry["read"]} == entry["read"]


@each_vendor
def test_any_text_of_an_answer_is_kept_to_the_letter(connect: Connect) -> None:
    provider = connect()
    body = json.dumps(completion(provider.kind, " \u00fc\U0001f600\u2028\n"))
    assert provider.answer(body).text == " \u00fc\U0001f600\u2028\n"


def test_o3_a_prompt_that_azure_filters_is_told_apart(server: Server) -> None:
    server.fail(400, "The response was filtered.", code="content_filter", times=None)
    error = failure(azure(server.url))
    assert (error.kind, error.retries) == ("content_filter", 0)
    assert str(error) == "O3: The response was filtered."


def test_a_prompt_that_gemini_blocks_is_told_apart() -> None:
    with pytest.raises(ProviderError, match="the prompt was blocked: SAFETY") as caught:
        gemini().answer(json.dumps({"promptFeedback": {"blockReason": "SAFETY"}}))
    assert caught.value.kind == "content_filter"
