"""Conversations with calls, on the wire: vendors take every body, and nothing is lost in it."""

import json
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import pytest

from histories import conversion_of, history
from media_histories import media_history
from multiturn import ChatMessage, Conversion, ProviderError, ProviderRequest
from multiturn.logs import Notice, warnings_to
from multiturn.model.turns import Call, Tool
from multiturn.pipelines.pipeline import request_of
from multiturn.providers.targets import batches_of
from multiturn_stages.render_tools import render_tools
from multiturn_stages.trim_history import trim_history
from strict import judge_anthropic, judge_gemini, judge_openai, judge_responses
from vendors import PROVIDERS, echo, entries

HELLO = {"role": "user", "content": "Hello"}
HISTORIES = int(os.environ.get("HISTORIES", "150"))  # make test-tools tries 3000
SPEAKERS = ("user", "assistant")
HEADERS = {"anthropic-version": "2023-06-01", "authorization": "Bearer x"}


class Read(NamedTuple):
    """What a body says, in whatever form."""

    texts: str  # of all messages, joined
    calls: list[tuple[str, Any]]  # name and arguments
    results: list[tuple[str, str, bool]]  # name of the tool, text, and whether it failed


def of_request(request: ProviderRequest) -> Read:
    """Return what a body should say, with the results in the order of the calls' messages."""
    messages = request.chat_prompt or ()
    calls = {call.id: call for message in messages for call in message.tool_calls}
    owner = {call.id: at for at, message in enumerate(messages) for call in message.tool_calls}
    answers = [message for message in messages if message.tool_call_id is not None]
    answers.sort(key=lambda message: owner[message.tool_call_id or ""])
    return Read(
        plain(m.content for m in messages if m.role != "system" and m.tool_call_id is None),
        [(call.name, dict(call.arguments)) for call in calls.values()],
        [(calls[m.tool_call_id or ""].name, str(m.content).strip(), m.is_error) for m in answers],
    )


def plain(texts: Any) -> str:
    """Return texts without the line breaks that joining them may add."""
    return "".join("".join(texts).split())


def of_openai(body: Any) -> Read:
    names = {
        call["id"]: call["function"]["name"]
        for message in body["messages"]
        for call in message.get("tool_calls", ())
    }
    results = [message for message in body["messages"] if message["role"] == "tool"]
    return Read(
        plain(m["content"] or "" for m in body["messages"] if m["role"] in ("user", "assistant")),
        [
            (call["function"]["name"], json.loads(call["function"]["arguments"]))
            for message in body["messages"]
            for call in message.get("tool_calls", ())
        ],
        [
            (
                names[message["tool_call_id"]],
                message["content"].removeprefix("error: ").strip(),
                message["content"].startswith("error: "),
            )
            for message in results
        ],
    )


def of_responses(body: Any) -> Read:
    calls = [item for item in body["input"] if item.get("type") == "function_call"]
    names = {call["call_id"]: call["name"] for call in calls}
    return Read(
        plain(item["content"] for item in body["input"] if item.get("role", "") in SPEAKERS),
        [(call["name"], json.loads(call["arguments"])) for call in calls],
        [
            (
                names[item["call_id"]],
                item["output"].removeprefix("error: ").strip(),
                item["output"].startswith("error: "),
            )
            for item in body["input"]
            if item.get("type") == "function_call_output"
        ],
    )


def blocks_of(body: Any) -> Iterator[Any]:
    for message in body["messages"]:
        if isinstance(message["content"], str):
            yield {"type": "text", "text": message["content"]}
        else:
            yield from message["content"]


def of_anthropic(body: Any) -> Read:
    blocks = [*blocks_of(body)]
    calls = [block for block in blocks if block["type"] == "tool_use"]
    names = {block["id"]: block["name"] for block in calls}
    return Read(
        plain(block["text"] for block in blocks if block["type"] == "text"),
        [(block["name"], block["input"]) for block in calls],
        [
            (names[b["tool_use_id"]], b.get("content", "").strip(), b.get("is_error", False))
            for b in blocks
            if b["type"] == "tool_result"
        ],
    )


def of_gemini(body: Any) -> Read:
    parts = [part for content in body["contents"] for part in content["parts"]]
    results = [part["functionResponse"] for part in parts if "functionResponse" in part]
    return Read(
        plain(part["text"] for part in parts if "text" in part and not part.get("thought")),
        [
            (part["functionCall"]["name"], part["functionCall"]["args"])
            for part in parts
            if "functionCall" in part
        ],
        [
            (each["name"], "".join(each["response"].values()).strip(), "error" in each["response"])
            for each in results
        ],
    )


JUDGES: dict[str, tuple[Callable[[Any], None], Callable[[Any], Read]]] = {
    "openai": (judge_openai, of_openai),
    "azure": (judge_openai, of_openai),
    "responses": (judge_responses, of_responses),
    "anthropic": (lambda body: judge_anthropic(body, HEADERS), of_anthropic),
    "gemini": (lambda body: judge_gemini(body, "gemini-2.5-flash"), of_gemini),
}


def sent(provider: Any, request: ProviderRequest) -> Any:
    """Return a decoded body; doubts are no affair of this test."""
    with warnings_to(lambda _: None):
        return msgspec.json.decode(provider.wire(request).body)


@pytest.mark.parametrize("vendor", JUDGES)
def test_a_vendor_takes_the_body_of_any_history_and_all_of_it_is_in_there(vendor: str) -> None:
    judge, read = JUDGES[vendor]
    provider = PROVIDERS[vendor]()
    for number in range(HISTORIES):
        request = history(number)
        body = sent(provider, request)
        judge(body)
        found, expected = read(body), of_request(request)
        assert (number, found.calls, found.results) == (number, expected.calls, expected.results)
        # A message may have moved behind results, so that the order of texts may differ.
        assert sorted(found.texts) == sorted(expected.texts)


def without_tools(conversion: Conversion) -> Conversion:
    chance = random.Random(len(conversion.turns))
    choices: dict[str, Any] = {"definition": chance.choice(("", "[Tool {name}]: "))}
    return render_tools(conversion, **choices, neighbors=chance.choice(("join", "keep")))


def trimmed(conversion: Conversion) -> Conversion:
    chance, number = random.Random(len(conversion.turns)), len(conversion.exchanges)
    keep_first = chance.choice((0, 0, 1, 2))
    return trim_history(conversion, exchanges=chance.randint(1, number), keep_first=keep_first)


@pytest.mark.parametrize("change", [trimmed, without_tools])
@pytest.mark.parametrize("vendor", JUDGES)
def test_a_vendor_takes_what_stages_leave_of_any_history_that_it_takes(
    vendor: str, change: Callable[[Conversion], Conversion]
) -> None:
    judge, _ = JUDGES[vendor]
    provider, taken = PROVIDERS[vendor](), 0
    for number in range(HISTORIES if HISTORIES > 300 else 60):
        for request in (history(number), media_history(number, vendor)):
            whole = conversion_of(request)
            try:
                judge(sent(provider, request_of(whole)))
            except ProviderError:
                continue
            taken += 1
            left = request_of(change(whole))
            judge(sent(provider, left))
            if change is without_tools:
                messages = left.chat_prompt or ()
                assert not any(m.tool_calls or m.tool_call_id for m in messages), number
                assert not left.tools
    assert taken > number


@pytest.mark.parametrize("model", ["gpt-4o", "o3", "gpt-5.3-codex", "gpt-7"])
def test_openai_takes_the_items_of_any_history_for(model: str) -> None:
    provider = PROVIDERS["responses"](base_url="https://api.openai.com/v1", model=model)
    for number in range(HISTORIES // 3):
        request = history(number)
        body = sent(provider, request)
        judge_responses(body)
        assert of_responses(body).calls == of_request(request).calls
        for item, following in pairwise((*body["input"], {})):
            assert item.get("type") != "reasoning" or following.get("role") in ("assistant", None)
        has_thinking = any(item.get("type") == "reasoning" for item in body["input"])
        assert ("include" in body) is (model == "o3" or (model != "gpt-4o" and has_thinking))
        assert not (has_thinking and model == "gpt-4o")


@pytest.mark.parametrize(("vendor", "entry"), entries("calls.yaml"))
def test_a_vendor_gets(vendor: str, entry: dict[str, Any]) -> None:
    provider = PROVIDERS[vendor](**entry.get("settings", {}), default_system="omit")
    given = [{"content": "", **each} for each in entry.get("given", [HELLO])]
    fields = {"question": "Hello", "chat_prompt": given, **entry.get("request", {})}
    request = msgspec.convert(fields, ProviderRequest)
    expected = entry[vendor]
    if isinstance(expected, str):
        with pytest.raises(ProviderError) as caught:
            sent(provider, request)
        assert (caught.value.kind, str(caught.value)) == ("refused", expected)
        return
    body = sent(provider, request)
    found = {"repairs": [*provider.wire(request).repairs], **body}
    assert {key: found.get(key) for key in expected} == expected


@pytest.mark.parametrize("vendor", JUDGES)
def test_a_batch_has_the_same_body(vendor: str) -> None:
    provider = PROVIDERS[vendor]()
    wire = provider.wire(history(0))
    line = json.loads(batches_of(provider).line("digest", wire.body))
    body = line.get("params") or line.get("request") or line.get("body")
    assert body == json.loads(wire.body)


def test_echo_shows_calls_and_tools() -> None:
    call = Call("c:1", "now", {"zone": "UTC"})
    request = ProviderRequest(
        question="",
        chat_prompt=(ChatMessage("user", "Hi"), ChatMessage("assistant", "", (call,))),
        tools=(Tool("now", "The time."),),
    )
    body = sent(echo(), request)
    shown = {"id": "c:1", "name": "now", "arguments": {"zone": "UTC"}}
    assert body["messages"][-1] == {"role": "assistant", "content": "", "tool_calls": [shown]}
    assert body["tools"] == [{"name": "now", "description": "The time."}]


def test_t7_calls_without_tools_are_doubted_at_anthropic() -> None:
    request = msgspec.structs.replace(history(0), tools=())
    for vendor in JUDGES:
        doubts: list[Notice] = []
        with warnings_to(doubts.append):
            PROVIDERS[vendor]().wire(request)
        assert any("T7" in str(doubt) for doubt in doubts) == (vendor == "anthropic")


@pytest.mark.parametrize(
    ("model", "takes"),
    [
        ("gemini-3-pro-preview", False),
        ("gemini-3-flash-preview", False),
        ("gemini-3.5-flash-lite", False),
        ("models/gemini-2.5-pro", True),
        ("gemini-2.0-flash-001", True),
        ("gemini-4-neon", None),
        ("gemini-flash-latest", None),
    ],
)
def test_t5_a_signature_is_needed_by(model: str, takes: bool | None) -> None:
    """llm-gemini #119 and envoyproxy/ai-gateway #2366 for Gemini 3, octos #1897 for older ones."""
    call = Call("c1", "now")
    messages = (
        ChatMessage("user", "Hi"),
        ChatMessage("assistant", "", (call,)),
        ChatMessage("tool", "noon", tool_call_id="c1"),
    )
    request = ProviderRequest(question="", chat_prompt=messages)
    for settings in ({}, {"model_takes": {"unsigned_calls": True}}):
        doubts: list[Notice] = []
        refused = ""
        try:
            with warnings_to(doubts.append):
                PROVIDERS["gemini"](model=model, **settings).wire(request)
        except ProviderError as error:
            refused = str(error)
        found = None if doubts else not refused
        assert found == (True if settings else takes)


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
@pytest.mark.parametrize("name", ["é{}", "{}" + "x" * 40, "x" * 35 + "{}" + "é" * 9])
def test_thousands_of_ids_are_renamed_at_once(vendor: str, name: str) -> None:
    ids = [name.format(chr(0x4E00 + at // 2)) + "é" * (at % 2) for at in range(8_000)]
    calls = tuple(Call(each, "now") for each in ids)
    results = (ChatMessage("tool", "noon", tool_call_id=each) for each in ids)
    messages = (ChatMessage("user", "Hi"), ChatMessage("assistant", "", calls), *results)
    request = ProviderRequest(question="", chat_prompt=messages, tools=(Tool("now"),))
    start = time.process_time()
    wire = PROVIDERS[vendor]().wire(request)
    assert time.process_time() - start < 3  # each id against all others takes 10 and more
    sent = set(re.findall(r'"(?:tool_call_id|tool_use_id)": ?"([^"]*)"', wire.body.decode()))
    assert len(sent) == len(ids)
    assert max(map(len, sent)) <= 40
