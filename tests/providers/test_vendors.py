"""The vendors that use HTTP: what their servers get, and what is read from their answers."""

import json
from typing import Any

import pytest
from msgspec.structs import asdict

from loopback import KEY, TEXT, USAGE, Server, completion
from multiturn import ProviderError
from vendors import PROVIDERS, anthropic, ask, azure, chat, entries, failure


@pytest.mark.parametrize(("vendor", "entry"), entries("requests.yaml"))
def test_a_request_and_its_answer(vendor: str, entry: dict[str, Any], server: Server) -> None:
    settings = {
        name: value.replace("URL", server.url) if isinstance(value, str) else value
        for name, value in entry[vendor].items()
    }
    answer = ask(PROVIDERS[vendor](server.url, **settings))
    (request,) = server.requests
    body = request.json
    keys = {name: text.replace(KEY, "KEY") for name, text in request.headers.items() if KEY in text}
    assert (request.method, request.path) == ("POST", entry.get("path", request.path))
    assert request.headers["content-type"] == "application/json"
    assert keys == entry.get("keys", keys)
    assert body == entry.get("body", body)
    assert {name: body.get(name) for name in entry.get("has", {})} == entry.get("has", {})
    assert (answer.text, answer.usage, answer.retries) == (TEXT, USAGE, 0)
    assert answer.raw == completion(request.vendor, TEXT)


def test_a8_without_a_system_message_nothing_is_marked() -> None:
    wire = anthropic(prompt_caching=True).wire(chat(("system", " "), ("user", "Hello")))
    assert b"system" not in wire.body


@pytest.mark.parametrize(("vendor", "entry"), entries("answers.yaml"))
def test_of_an_answer_is_read(vendor: str, entry: dict[str, Any]) -> None:
    body = {**completion(vendor, "Hi"), **entry[vendor]}
    answer = asdict(PROVIDERS[vendor]().answer(json.dumps(body).encode()))
    answer["tool_calls"] = [[call.id, call.name, call.arguments] for call in answer["tool_calls"]]
    assert {name: answer[name] for name in entry["read"]} == entry["read"]


@pytest.mark.parametrize("vendor", [vendor for vendor in PROVIDERS if vendor != "echo"])
def test_any_text_of_an_answer_is_kept_to_the_letter(vendor: str) -> None:
    body = json.dumps(completion(vendor, " \u00fc\U0001f600\u2028\n"))
    assert PROVIDERS[vendor]().answer(body).text == " \u00fc\U0001f600\u2028\n"


def test_o3_a_prompt_that_azure_filters_is_told_apart(server: Server) -> None:
    server.fail(400, "The response was filtered.", code="content_filter", times=None)
    error = failure(azure(server.url))
    assert (error.kind, error.retries) == ("content_filter", 0)
    assert str(error) == "O3: The response was filtered."


def test_a_prompt_that_gemini_blocks_is_told_apart() -> None:
    with pytest.raises(ProviderError, match="the prompt was blocked: SAFETY") as caught:
        PROVIDERS["gemini"]().answer('{"promptFeedback": {"blockReason": "SAFETY"}}')
    assert caught.value.kind == "content_filter"
