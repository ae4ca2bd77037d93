"""Azure OpenAI: what the deployment gets, and what is read from its answer."""

from typing import Any

import pytest

from loopback import KEY, TEXT, USAGE, Server, completion
from vendors import HELLO, ask, azure, failure

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]


def answered(message: Any, **choice: Any) -> Any:
    """Return an answer with another message in it."""
    answer = completion("azure", "")
    answer["choices"] = [{"index": 0, "finish_reason": "stop", "message": message, **choice}]
    return answer


def test_the_deployment_gets_the_messages(server: Server) -> None:
    answer = ask(azure(server.url))
    (request,) = server.requests
    assert request.method == "POST"
    assert request.path == (
        "/openai/deployments/gpt-4o/chat/completions?api-version=2024-12-01-preview"
    )
    assert request.headers["api-key"] == KEY
    assert "authorization" not in request.headers
    assert request.headers["content-type"] == "application/json"
    assert request.json["messages"] == MESSAGES
    assert request.json.keys() <= {"messages", "model"}
    assert (answer.text, answer.usage, answer.finish_reason) == (TEXT, USAGE, "stop")
    assert answer.raw == completion("azure", TEXT)
    assert answer.retries == 0


def test_model_and_version_are_those_of_the_target(server: Server) -> None:
    ask(azure(f"{server.url}/", model="my-deployment", version="2025-03-01"))
    assert server.requests[0].path == (
        "/openai/deployments/my-deployment/chat/completions?api-version=2025-03-01"
    )


def test_the_limit_is_max_completion_tokens(server: Server) -> None:
    ask(azure(server.url, temperature=0.5, max_output_tokens=100))
    body = server.requests[0].json
    assert (body["temperature"], body["max_completion_tokens"]) == (0.5, 100)
    assert "max_tokens" not in body


@pytest.mark.parametrize(
    "settings",
    [pytest.param({}, id="by default"), pytest.param({"max_retries": 2}, id="with retries")],
)
def test_o3_a_filtered_prompt_is_told_apart(server: Server, settings: dict[str, int]) -> None:
    server.fail(400, "The response was filtered.", code="content_filter", times=None)
    error = failure(azure(server.url, **settings))
    assert (error.kind, error.retries, len(server.requests)) == ("content_filter", 0, 1)
    assert "O3" in str(error)
    assert "The response was filtered." in str(error)


def test_o3_another_400_is_no_filtered_prompt(server: Server) -> None:
    server.fail(400, "content_filter is not a parameter", code="invalid_request_error")
    error = failure(azure(server.url))
    assert error.kind == "http"
    assert "O3" not in str(error)


def test_an_answer_that_was_filtered_says_so(server: Server) -> None:
    message = {"role": "assistant", "content": "Once upon a"}
    server.answer(body=answered(message, finish_reason="content_filter"))
    answer = ask(azure(server.url))
    assert (answer.text, answer.finish_reason) == ("Once upon a", "content_filter")


@pytest.mark.parametrize(
    ("message", "text"),
    [
        pytest.param({"content": None, "refusal": "I will not."}, "I will not.", id="a refusal"),
        pytest.param({"content": None}, "", id="no content"),
        pytest.param({"content": ""}, "", id="an empty content"),
        pytest.param({"content": " \u00fc\U0001f600\n"}, " \u00fc\U0001f600\n", id="any text"),
    ],
)
def test_the_answer_is_the_content_or_the_refusal(
    server: Server, message: dict[str, Any], text: str
) -> None:
    server.answer(body=answered({"role": "assistant", **message}))
    assert ask(azure(server.url)).text == text


def test_of_several_choices_the_first_is_taken(server: Server) -> None:
    answer = completion("azure", "first")
    answer["choices"] += completion("azure", "second")["choices"]
    server.answer(body=answer)
    assert ask(azure(server.url)).text == "first"


def test_an_answer_without_usage_counts_nothing(server: Server) -> None:
    answer = completion("azure", "Hi")
    del answer["usage"]
    server.answer(body=answer)
    assert ask(azure(server.url), HELLO).usage == {}
