"""Gemini: what generateContent gets, and what is read from its answer."""

from typing import Any

import pytest

from loopback import KEY, TEXT, USAGE, Server, completion
from vendors import HELLO, ask, chat, failure, gemini


def candidate(*parts: dict[str, Any], finish: str = "STOP") -> Any:
    """Return an answer with other parts in it."""
    content = {"role": "model", "parts": list(parts)}
    return {
        **completion("gemini", ""),
        "candidates": [{"content": content, "finishReason": finish}],
    }


def test_the_model_gets_system_instruction_and_contents(server: Server) -> None:
    messages = [("system", "Be brief."), ("user", "Hello"), ("assistant", "Hi"), ("user", "Help")]
    answer = ask(gemini(server.url), chat(*messages))
    (request,) = server.requests
    assert request.method == "POST"
    assert request.headers["x-goog-api-key"] == KEY
    assert KEY not in request.path
    assert request.headers["content-type"] == "application/json"
    body = request.json
    assert body["systemInstruction"]["parts"] == [{"text": "Be brief."}]
    assert body["contents"] == [
        {"role": "user", "parts": [{"text": "Hello"}]},
        {"role": "model", "parts": [{"text": "Hi"}]},
        {"role": "user", "parts": [{"text": "Help"}]},
    ]
    assert body.keys() <= {"systemInstruction", "contents", "generationConfig"}
    assert (answer.text, answer.usage, answer.finish_reason) == (TEXT, USAGE, "STOP")
    assert answer.raw == completion("gemini", TEXT)
    assert answer.retries == 0


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        pytest.param({}, "/v1beta/models/gemini-2.5-flash", id="v1beta by default"),
        pytest.param({"version": "v1"}, "/v1/models/gemini-2.5-flash", id="the target's"),
        pytest.param(
            {"model": "gemini-3-pro-preview"}, "/v1beta/models/gemini-3-pro-preview", id="model"
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


def test_the_sampling_is_in_the_generation_config(server: Server) -> None:
    ask(gemini(server.url, temperature=0.5, max_output_tokens=100))
    assert server.requests[0].json["generationConfig"] == {
        "temperature": 0.5,
        "maxOutputTokens": 100,
    }


@pytest.mark.parametrize("reason", ["SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST"])
def test_a_blocked_prompt_is_told_apart(server: Server, reason: str) -> None:
    feedback = {"blockReason": reason, "safetyRatings": []}
    server.answer(body={"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 4}})
    error = failure(gemini(server.url))
    assert (error.kind, error.retries, len(server.requests)) == ("content_filter", 0, 1)
    assert reason in str(error)
    assert error.wire == server.requests[0].body


@pytest.mark.parametrize("feedback", [None, {"safetyRatings": []}])
def test_feedback_that_blocks_nothing_is_no_error(server: Server, feedback: Any) -> None:
    server.answer(body={**completion("gemini", "Hi"), "promptFeedback": feedback})
    assert ask(gemini(server.url)).text == "Hi"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param(candidate({"text": "One "}, {"text": "two"}), "One two", id="all parts"),
        pytest.param(
            candidate({"text": "Hm.", "thought": True}, {"text": "Yes"}),
            "Yes",
            id="not the thoughts",
        ),
        pytest.param(candidate({"text": " \u00fc\n"}), " \u00fc\n", id="any text"),
        pytest.param(candidate(), "", id="nothing where there are no parts"),
    ],
)
def test_the_answer_is(server: Server, answer: Any, text: str) -> None:
    server.answer(body=answer)
    assert ask(gemini(server.url)).text == text


def test_an_answer_that_was_filtered_says_so(server: Server) -> None:
    server.answer(body={"candidates": [{"finishReason": "SAFETY", "index": 0}]})
    answer = ask(gemini(server.url))
    assert (answer.text, answer.finish_reason, answer.usage) == ("", "SAFETY", {})
