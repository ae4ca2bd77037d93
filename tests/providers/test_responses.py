"""What is OpenAI's Responses API only: errors in answers, batches, doubts and settings."""

import base64
import json
from typing import Any

import pytest

from loopback import KEY, Server, completion
from media_files import image, pdf, wav
from multiturn import ChatMessage, Media, ProviderError, ProviderRequest
from multiturn.logs import Notice, warnings_to
from multiturn.model.turns import Call, Thinking
from multiturn.providers.batch_api import BatchPart
from multiturn.providers.openai.responses import read_response
from multiturn.providers.targets import batches_of
from strict import judge_responses
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
        responses().answer(json.dumps(body).encode())
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
    _, batch = api.creation(BatchPart("token"), None)
    assert (line["url"], batch["endpoint"]) == (url, endpoint)
    assert line["body"] == json.loads(provider.wire(HELLO).body)


def test_a_response_that_failed_in_a_batch_is_an_error() -> None:
    failed = {"status": "failed", "error": {"code": "server_error", "message": "It broke."}}
    body = {**completion("responses", ""), **failed}
    line = {"custom_id": "d", "response": {"status_code": 200, "body": body}, "error": None}
    with pytest.raises(ProviderError, match=r"^server_error: It broke\.$"):
        batches_of(responses()).read(json.dumps(line).encode())


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


@pytest.mark.parametrize(
    ("ids", "said"), [(("rs_a", "rs_b"), "in a row"), (("",), "without its id"), (("rs_a",), "")]
)
def test_t9_what_sources_dispute_of_reasoning_items_is_said(ids: Any, said: str) -> None:
    thinking = tuple(Thinking("", name, "gAAA", "openai") for name in ids)
    message = ChatMessage("assistant", "Hi", thinking=thinking)
    request = ProviderRequest(question="", chat_prompt=(ChatMessage("user", "Hi"), message))
    found = [doubt for doubt in doubts(responses(**AT_OPENAI), request) if "T9" in doubt]
    assert [said in doubt for doubt in found] == [True] * bool(said)


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


PNG = Media.of(image(), "shots/a.png", detail="high")
PDF = Media.of(pdf(), "b.pdf")
WAV = Media.of(wav(), "c.wav")
PAGE = Media("image", url="https://example.org/d.png")
MANUAL = Media("document", url="https://example.org/e.pdf")
CALL = Call("c1", "look")
IN_BASE64 = [base64.b64encode(data).decode() for data in (image(), pdf())]
ITEMS_OF_MEDIA = [
    {
        "type": "input_image",
        "image_url": f"data:image/png;base64,{IN_BASE64[0]}",
        "detail": "high",
    },
    {
        "type": "input_file",
        "filename": "b.pdf",
        "file_data": f"data:application/pdf;base64,{IN_BASE64[1]}",
    },
    {"type": "input_image", "image_url": "https://example.org/d.png", "detail": "auto"},
    {"type": "input_file", "file_url": "https://example.org/e.pdf"},
]


def items(provider: Any, *messages: ChatMessage) -> tuple[list[Any], tuple[str, ...]]:
    """Return the items after a system message and one of the user, and the repairs."""
    before = (ChatMessage("system", "Be brief."), ChatMessage("user", "Hi"))
    request = ProviderRequest(question="", chat_prompt=(*before, *messages))
    with warnings_to(lambda _: None):
        wire = provider.wire(request)
    body = json.loads(wire.body)
    judge_responses({**body, "model": "o3"})
    return body["input"][2:], wire.repairs


def test_images_and_documents_are_parts_of_a_message() -> None:
    content = ("Look:", PNG, PDF, PAGE, "and", MANUAL)
    (item,), repairs = items(responses(**AT_OPENAI, model="o3"), ChatMessage("user", content))
    image, document, page, manual = ITEMS_OF_MEDIA
    said = [{"type": "input_text", "text": text} for text in ("Look:", "and")]
    parts = [said[0], image, document, page, said[1], manual]
    assert (item, repairs) == ({"role": "user", "content": parts}, ())


def test_t6_they_stay_in_a_result_where_that_is_known_to_be_taken() -> None:
    said = ChatMessage("assistant", "", (CALL,))
    result = ChatMessage("tool", (PNG, PDF, PAGE, MANUAL), tool_call_id="c1", is_error=True)
    for provider in (responses(**AT_OPENAI, model="o3"), azure(api="responses")):
        (_, found), repairs = items(provider, said, result)
        error = {"type": "input_text", "text": "error: "}
        assert found["output"] == [error, *ITEMS_OF_MEDIA]
        assert [repair.partition(":")[0] for repair in repairs] == ["O15"]
    found_items, repairs = items(responses(model_takes={}), said, result)
    assert [item.get("type") or item["role"] for item in found_items] == [
        *("function_call", "function_call_output", "user"),
    ]
    assert "T6: sent 4 files of a result in a user message after it" in repairs


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (
            ChatMessage("user", ("Hear", WAV)),
            "O22: in the Responses API, a message must not have audio",
        ),
        (
            ChatMessage("assistant", ("Look", PNG)),
            "O21: in the Responses API, images and documents",
        ),
    ],
)
def test_what_the_api_takes_nowhere_is_refused(message: ChatMessage, why: str) -> None:
    provider = responses(**AT_OPENAI, model="gpt-4o")
    request = ProviderRequest(question="", chat_prompt=(message, ChatMessage("user", "Hi")))
    with pytest.raises(ProviderError, match="^" + why):
        provider.wire(request)


def test_media_go_out_as_they_are_shown(server: Server) -> None:
    provider = responses(server.url)
    request = ProviderRequest(question="", chat_prompt=(ChatMessage("user", ("Look", PNG)),))
    answer = ask(provider, request)
    (sent,) = server.requests
    assert sent.body == provider.wire(request).body == answer.wire
    assert sent.json["input"][-1]["content"][1] == ITEMS_OF_MEDIA[0]
    line = batches_of(provider).line("digest", provider.wire(request).body)
    assert json.loads(line)["body"]["input"] == sent.json["input"]


def test_neighboring_empty_messages_are_read_as_two_turns() -> None:
    said = {"role": "assistant", "content": ""}
    read = read_response({"input": [said, {**said, "phase": "commentary"}]}, lambda _: None)
    assert [turn.role for turn in read.messages] == ["assistant", "assistant"]
    assert read.form == {"phases": {1: "commentary"}}
