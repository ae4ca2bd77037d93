"""What is OpenAI's Responses API only: errors in answers, batches, doubts and settings."""

import json
from typing import Any

import pytest

from loopback import KEY, Server, completion
from multiturn import ChatMessage, ProviderError, ProviderRequest
from multiturn.logs import Notice, warnings_to
from multiturn.model.calls import Call, Thinking
from multiturn.providers.batches import batches_of
from vendors import HELLO, ask, azure, chat, failure, openai, responses

AT_OPENAI = {"base_url": "https://api.openai.com/v1"}


@pytest.mark.parametrize(
    ("code", "kind"), [("server_error", "http"), ("rate_limit_exceeded", "rate_limit")]
)
def test_a_response_that_failed_is_an_error(code: str, kind: str, server: Server) -> None:
    error = {"code": code, "message": f"It broke ({KEY})."}
    server.answer(body={**completion("responses", ""), "status": "failed", "error": error})
    found = failure(responses(server.url))
    assert (found.kind, found.what, found.retries) == (kind, f"{code}: It broke (***).", 0)
    assert found.wire == server.requests[0].body


@pytest.mark.parametrize(
    "body", [{}, {"output": None}, {"output": [{}]}, {"output": [{"type": "message"}]}]
)
def test_a_response_without_a_form_is_malformed(body: dict[str, Any]) -> None:
    with pytest.raises(ProviderError) as caught:
        responses().answer(json.dumps(body))
    assert caught.value.kind == "malformed"


def test_errors_that_may_pass_are_retried(server: Server) -> None:
    server.fail(429, "slow down")
    server.fail(500, "try again")
    assert ask(responses(server.url)).retries == 2


@pytest.mark.parametrize(
    ("provider", "url", "endpoint"),
    [
        (responses(), "/v1/responses", "/v1/responses"),
        (openai(), "/v1/chat/completions", "/v1/chat/completions"),
        (azure(api="responses"), "/v1/responses", "/chat/completions"),
        (azure(), "/chat/completions", "/chat/completions"),
    ],
)
def test_a_batch_is_for(provider: Any, url: str, endpoint: str) -> None:
    """any-llm #1348 has Azure's guide: the service looks at each line."""
    api: Any = batches_of(provider)
    line = json.loads(api.line("digest", provider.wire(HELLO).body))
    assert (line["url"], api.endpoint) == (url, endpoint)
    assert line["body"] == json.loads(provider.wire(HELLO).body)


def doubts(provider: Any, request: ProviderRequest) -> list[str]:
    found: list[Notice] = []
    with warnings_to(found.append):
        provider.wire(request)
    return [notice.why for notice in found]


def test_t11_whether_a_model_wants_a_phase_is_said_where_nobody_knows() -> None:
    said = chat(("user", "Hello"), ("assistant", "Hi"), ("user", "Bye"))
    unknown = "not known whether gpt-7 takes a phase; say model_takes: {phase: true}, or"
    unknown += " {phase: false}"
    assert doubts(responses(**AT_OPENAI, model="gpt-7"), said) == [unknown]
    assert doubts(responses(**AT_OPENAI, model="gpt-7"), HELLO) == []
    assert doubts(responses(model="gpt-7"), said) == []  # the server is not OpenAI's
    assert doubts(azure(api="responses", model="gpt-5.4"), said) == [
        unknown.replace("gpt-7", "the model of the deployment gpt-5.4")
    ]
    known = azure(api="responses", model_takes={"phase": True})
    assert doubts(known, said) == []
    assert b'"phase":"final_answer"' in known.wire(said).body


def test_t9_two_reasoning_items_in_a_row_are_doubted() -> None:
    blocks = tuple(Thinking("", f"rs_{name}", "gAAA", "openai") for name in "ab")
    for thinking in (blocks, blocks[:1]):
        said = ChatMessage("assistant", "Hi", thinking=thinking)
        request = ProviderRequest(question="", chat_prompt=(ChatMessage("user", "Hi"), said))
        found = doubts(responses(**AT_OPENAI), request)
        assert any("T9" in doubt for doubt in found) is (len(thinking) == 2)


def test_an_answer_is_sent_again_as_it_came(server: Server) -> None:
    """The next turn of a conversation has the answer's thinking and calls, in the same form."""
    thought = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": text} for text in ("Hm.", "Well.")],
        "encrypted_content": "gAAA",
    }
    call = {"type": "function_call", "call_id": "c1", "name": "now", "arguments": '{"zone": "UTC"}'}
    server.answer(body={**completion("responses", ""), "output": [thought, {**call, "id": "fc_1"}]})
    answer = ask(responses(server.url))
    (item,) = answer.thinking
    thinking = [
        Thinking(part["text"], item["id"], item["encrypted_content"] * (at == 0), "openai")
        for at, part in enumerate(item["summary"])
    ]
    said = ChatMessage("assistant", answer.text, answer.tool_calls, thinking=tuple(thinking))
    result = ChatMessage("tool", "noon", tool_call_id="c1")
    assert answer.tool_calls == (Call("c1", "now", {"zone": "UTC"}),)
    request = ProviderRequest(question="", chat_prompt=(ChatMessage("user", "Hi"), said, result))
    ask(responses(server.url), request)
    assert server.requests[1].json["input"][2:] == [
        *(thought, call),
        {"type": "function_call_output", "call_id": "c1", "output": "noon"},
    ]
