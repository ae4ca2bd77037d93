"""Gemini: what generateContent gets, and what is read from its answer."""

import json
from typing import Any

import pytest

from loopback import KEY, TEXT, USAGE, Server, completion
from multiturn import ProviderError
from vendors import HELLO, ask, chat, gemini


def test_the_model_gets_system_instruction_and_contents(server: Server) -> None:
    messages = [("system", "Be brief."), ("user", "Hello"), ("assistant", "Hi"), ("user", "Help")]
    answer = ask(gemini(server.url, temperature=0.5, max_output_tokens=100), chat(*messages))
    (request,) = server.requests
    assert request.method == "POST"
    assert request.headers["x-goog-api-key"] == KEY
    assert KEY not in request.path
    assert request.headers["content-type"] == "application/json"
    assert request.json == {
        "systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Hello"}]},
            {"role": "model", "parts": [{"text": "Hi"}]},
            {"role": "user", "parts": [{"text": "Help"}]},
        ],
        "generationConfig": {"temperature": 0.5, "maxOutputTokens": 100},
    }
    assert (answer.text, answer.usage, answer.finish_reason) == (TEXT, USAGE, "STOP")
    assert (answer.raw, answer.retries) == (completion("gemini", TEXT), 0)


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        pytest.param({}, "/v1beta/models/gemini-2.5-flash", id="v1beta by default"),
        pytest.param(
            {"version": "v1", "model": "gemini-3-pro"}, "/v1/models/gemini-3-pro", id="the target's"
        ),
    ],
)
def test_the_path_names_the_version_and_the_model(
    server: Server, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], path: str
) -> None:
    monkeypatch.setenv("GOOGLE_GENAI_API_VERSION", "v9")
    ask(gemini(server.url, **settings))
    assert server.requests[0].path == f"{path}:generateContent"


def test_the_version_is_in_the_digest() -> None:
    first, second = gemini(version="v1"), gemini(version="v1beta")
    assert first.wire(HELLO).digest() != second.wire(HELLO).digest()


@pytest.mark.parametrize("reason", ["SAFETY", "BLOCKLIST"])
def test_a_blocked_prompt_is_told_apart(reason: str) -> None:
    feedback = {"blockReason": reason, "safetyRatings": []}
    body = {"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 4}}
    with pytest.raises(ProviderError, match=f"blocked: {reason}") as caught:
        gemini().answer(json.dumps(body))
    assert caught.value.kind == "content_filter"


def said(*parts: dict[str, Any]) -> dict[str, Any]:
    content = {"role": "model", "parts": list(parts)}
    return {"candidates": [{"content": content, "finishReason": "STOP"}]}


@pytest.mark.parametrize(
    ("changes", "read"),
    [
        pytest.param(
            said({"text": "One "}, {"text": "two"}), {"text": "One two"}, id="all its parts"
        ),
        pytest.param(
            said({"text": "Hm.", "thought": True}, {"text": "Yes"}),
            {"text": "Yes"},
            id="no thought",
        ),
        pytest.param(said({"text": " \u00fc\n"}), {"text": " \u00fc\n"}, id="any text"),
        pytest.param(said(), {"text": ""}, id="nothing where there are no parts"),
        pytest.param(
            {"candidates": [{"finishReason": "SAFETY", "index": 0}], "usageMetadata": None},
            {"text": "", "finish_reason": "SAFETY", "usage": {}},
            id="that it was filtered",
        ),
        pytest.param({"promptFeedback": None}, {"text": "Hi"}, id="no feedback"),
        pytest.param(
            {"promptFeedback": {"safetyRatings": []}}, {"text": "Hi"}, id="feedback without a block"
        ),
        pytest.param(
            {"usageMetadata": {"promptTokenCount": 9, "cachedContentTokenCount": 4}},
            {"usage": {"input_tokens": 9, "cached_tokens": 4}},
            id="the tokens of the cache",
        ),
    ],
)
def test_of_an_answer_is_read(changes: dict[str, Any], read: dict[str, Any]) -> None:
    answer = gemini().answer(json.dumps({**completion("gemini", "Hi"), **changes}))
    assert {name: getattr(answer, name) for name in read} == read
