"""Servers that apply the vendors' rules take what passes check, and refuse what it refuses."""

import asyncio
import base64
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from histories import history
from media_files import image, pdf
from multiturn import ProviderError, ProviderRequest
from multiturn.providers.base import ChatProvider
from strict import (
    RefusedError,
    StrictServer,
    judge_anthropic,
    judge_gemini,
    judge_openai,
    judge_responses,
)
from vendors import PROVIDERS, chat

ALL = {"temperature": True, "final_assistant": True, "later_system": True, "chat": True}
U, A, S, T = ("user", "Hello"), ("assistant", "Hi \n"), ("system", "Late."), ("tool", "4")
# What check was clean of, and vendors refuse: the settings of a target, and a request.
CASES: dict[str, tuple[str, dict[str, Any], ProviderRequest]] = {
    "a temperature under Anthropic's current version": (
        *("anthropic", {"model": "claude-sonnet-4-6", "api_version": "2026-10-21"}),
        chat(U, temperature=0),
    ),
    "one of 1, too": (
        *("anthropic", {"model": "claude-sonnet-4-5", "api_version": "2026-10-21"}),
        chat(U, temperature=1),
    ),
    "a temperature of Opus 4.7": (
        "anthropic",
        {"model": "claude-opus-4-7"},
        chat(U, temperature=0),
    ),
    "a system message between users": (
        *("anthropic", {"model": "claude-opus-4-8", "later_system": "keep"}),
        chat(U, S, U),
    ),
    "a system message of an older model": (
        *("anthropic", {"model": "claude-opus-4-6", "later_system": "keep"}),
        chat(U, S),
    ),
    "a final assistant message of Opus 4.6": (
        *("anthropic", {"model": "claude-opus-4-6"}),
        chat(U, A),
    ),
    "gpt-5.5": ("openai", {"model": "gpt-5.5"}, chat(U, temperature=0.5)),
    "gpt-5.6": ("openai", {"model": "gpt-5.6-sol"}, chat(U, temperature=0)),
    "gpt-6": ("openai", {"model": "gpt-6-sol"}, chat(U, temperature=1)),
    "gpt-6-astra": ("openai", {"model": "gpt-6-astra"}, chat(U, temperature=0)),
    "a fine-tuned model": ("openai", {"model": "ft:gpt-5-mini:acme::1"}, chat(U, temperature=0)),
    "another": ("openai", {"model": "ft:o4-mini-2025-04-16:acme::1"}, chat(U, temperature=0)),
    "the old name of the limit": (
        *("openai", {"model": "o3", "max_tokens_field": "max_tokens"}),
        chat(U, max_output_tokens=5),
    ),
    "a model without Chat Completions": ("openai", {"model": "gpt-5-codex"}, chat(U)),
    "gpt-6 at the Responses API": (
        *("responses", {"model": "gpt-6-sol"}),
        chat(U, temperature=1),
    ),
    "a final model turn of Flash-Lite": (
        *("gemini", {"model": "gemini-3.5-flash-lite"}),
        chat(U, A),
    ),
}


@pytest.fixture(scope="module")
def strict() -> Iterator[StrictServer]:
    with StrictServer() as server:
        yield server


class AsOpenAI:
    """Takes a server of ours for OpenAI's own."""

    vendor = "openai"


def target(vendor: str, server: StrictServer, **settings: Any) -> Any:
    """Return a provider that takes the strict server for the vendor's own."""
    provider = PROVIDERS[vendor](server.url, **settings)
    if vendor in ("openai", "responses"):
        provider.__class__ = type("OpenAI", (AsOpenAI, type(provider)), {})
    return provider


def sent(provider: ChatProvider, *requests: ProviderRequest) -> list[str]:
    """Return ``ok`` for each request, ``refused`` before sending, or what the server says."""

    async def main() -> list[str]:
        async with provider:
            return [await say(request) for request in requests]

    async def say(request: ProviderRequest) -> str:
        try:
            await provider.invoke(request)
        except ProviderError as error:
            return "refused" if error.kind == "refused" else error.what
        return "ok"

    return asyncio.run(main())


@pytest.mark.parametrize(("vendor", "options", "request_"), CASES.values(), ids=CASES)
def test_is_refused_before_it_is_sent_and_by_the_vendor_if_it_were(
    vendor: str, options: dict[str, Any], request_: ProviderRequest, strict: StrictServer
) -> None:
    assert sent(target(vendor, strict, **options), request_) == ["refused"]
    if "later_system" not in options and "max_tokens_field" not in options:
        (said,) = sent(target(vendor, strict, **options, model_takes=ALL), request_)
        assert said.startswith("HTTP 400")


MODELS = {
    "anthropic": (
        "claude-opus-4-8",
        "claude-sonnet-4-6",
        "claude-haiku-4-5",
        "claude-3-5-sonnet-latest",
    ),
    "gemini": ("gemini-2.5-flash", "gemini-3.5-flash-lite", "gemini-3.8-flash"),
    "openai": (
        "gpt-4o",
        "o3",
        "gpt-5-mini",
        "gpt-5.6-sol",
        "gpt-6-astra",
        "gpt-6-sol",
        "ft:gpt-5:a::1",
    ),
    "responses": ("gpt-4o", "o3", "gpt-5.3-codex", "gpt-5.4", "gpt-6-astra", "gpt-7"),
}


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([(vendor, model) for vendor, models in MODELS.items() for model in models]),
    st.lists(
        st.sampled_from([U, A, S, T, ("user", " "), ("assistant", ""), ("system", "")]), max_size=6
    ),
    st.sampled_from([None, 0, 0.5, 1, 1.5, 2]),
    st.sampled_from([None, 5, 16]),
    st.sampled_from(["2023-06-01", "2026-10-21"]),
    st.booleans(),
)
def test_what_is_sent_is_never_refused_for_its_form(
    strict: StrictServer,
    model: tuple[str, str],
    messages: list[tuple[str, str]],
    temperature: float | None,
    limit: int | None,
    version: str,
    keeps: bool,
) -> None:
    vendor, name = model
    options: dict[str, Any] = {"model": name}
    if vendor == "anthropic":
        options |= {"api_version": version, "later_system": "keep" if keeps else "refuse"}
    if vendor == "openai":
        options["max_tokens_field"] = "max_tokens" if keeps else "max_completion_tokens"
    if vendor == "responses":
        options["system_as"] = "instructions" if keeps else "item"
    request = chat(*messages, temperature=temperature, max_output_tokens=limit)
    assert sent(target(vendor, strict, **options), request) in (["ok"], ["refused"])


CALL = {"type": "tool_use", "id": "c1", "name": "now", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "noon"}
SAID = {"type": "text", "text": "Hi"}
ASKED = {"type": "function", "id": "c1", "function": {"name": "now", "arguments": "{}"}}
ANSWERED = {"role": "tool", "tool_call_id": "c1", "content": "noon"}
CALLED = {"functionCall": {"id": "c1", "name": "now", "args": {}}}
FUNCTION_CALL = {"type": "function_call", "call_id": "c1", "name": "now", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "noon"}
THOUGHT: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "encrypted_content": "gAAA",
}
SPOKEN = {"role": "assistant", "content": "Hi"}
SIGNED = {**CALLED, "thoughtSignature": "c2ln"}
RESPONSE = {"functionResponse": {"id": "c1", "name": "now", "response": {"output": "noon"}}}
GIF = base64.b64encode(image("GIF")).decode()
SOURCE = {"type": "base64", "media_type": "image/gif", "data": GIF}
PICTURE: dict[str, Any] = {"type": "image", "source": SOURCE}
PART = {"type": "image_url", "image_url": {"url": f"data:image/gif;base64,{GIF}"}}
WRONG = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{GIF}"}}
DATA = {"inlineData": {"mimeType": "image/gif", "data": GIF}}
WRONG_DATA = {"inlineData": {"mimeType": "image/png", "data": GIF}}
PAPER = {"inlineData": {"mimeType": "application/pdf", "data": base64.b64encode(pdf()).decode()}}
# What a vendor takes after a message of the user's, and what it refuses, by the rule.
TURNS: dict[str, tuple[str, bool, list[Any]]] = {
    "Anthropic, a result": ("anthropic", True, [("assistant", [CALL]), ("user", [RESULT, SAID])]),
    "T2 another letter": (
        *("anthropic", False),
        [("assistant", [{**CALL, "id": "c:"}]), ("user", [{**RESULT, "tool_use_id": "c:"}])],
    ),
    "T3 text before a result": (
        *("anthropic", False),
        [("assistant", [CALL]), ("user", [SAID, RESULT])],
    ),
    "T3 no result": ("anthropic", False, [("assistant", [CALL]), ("user", "Hi")]),
    "T3 a call at the end": ("anthropic", False, [("assistant", [CALL])]),
    "T3 a result later": (
        *("anthropic", False),
        [("assistant", [CALL]), ("user", "Hi"), ("assistant", "Hi"), ("user", [RESULT])],
    ),
    "T8 no signature": (
        *("anthropic", False),
        [("assistant", [{"type": "thinking", "thinking": "Hm."}, SAID]), ("user", "Hi")],
    ),
    "A3 an empty text": (
        *("anthropic", False),
        [("assistant", [{**SAID, "text": " "}, CALL]), ("user", [RESULT])],
    ),
    "arguments as text": (
        *("anthropic", False),
        [("assistant", [{**CALL, "input": "{}"}]), ("user", [RESULT])],
    ),
    "Anthropic, an image in a result": (
        *("anthropic", True),
        [("assistant", [CALL]), ("user", [{**RESULT, "content": [PICTURE]}])],
    ),
    "A13 an image of the assistant": ("anthropic", False, [("assistant", [SAID, PICTURE])]),
    "an image of another type": (
        *("anthropic", False),
        [
            ("assistant", "Hi"),
            ("user", [{**PICTURE, "source": {**PICTURE["source"], "media_type": "image/png"}}]),
        ],
    ),
    "A3 an empty text beside an image": (
        *("anthropic", False),
        [("assistant", "Hi"), ("user", [PICTURE, {"type": "text", "text": "\n"}])],
    ),
    "OpenAI, an image": ("openai", True, [{"role": "user", "content": [PART]}]),
    "O19 an image of the assistant": ("openai", False, [{"role": "assistant", "content": [PART]}]),
    "OpenAI, an image of another type": ("openai", False, [{"role": "user", "content": [WRONG]}]),
    "T6 an image in a result": (
        *("openai", False),
        [
            {"role": "assistant", "content": None, "tool_calls": [ASKED]},
            {**ANSWERED, "content": [PART]},
        ],
    ),
    "OpenAI, a result": (
        *("openai", True),
        [{"role": "assistant", "content": None, "tool_calls": [ASKED]}, ANSWERED],
    ),
    "T1 a long id": (
        *("openai", False),
        [
            {"role": "assistant", "tool_calls": [{**ASKED, "id": "c" * 41}]},
            {**ANSWERED, "tool_call_id": "c" * 41},
        ],
    ),
    "T3 text between": (
        *("openai", False),
        [
            {"role": "assistant", "tool_calls": [ASKED]},
            {"role": "user", "content": "Hi"},
            ANSWERED,
        ],
    ),
    "T3 a call at OpenAI's end": ("openai", False, [{"role": "assistant", "tool_calls": [ASKED]}]),
    "O1 a result without a call": ("openai", False, [ANSWERED]),
    "arguments as an object": (
        *("openai", False),
        [
            {
                "role": "assistant",
                "tool_calls": [{**ASKED, "function": {"name": "now", "arguments": {}}}],
            },
            ANSWERED,
        ],
    ),
    "Responses, a result": (
        "responses",
        True,
        [THOUGHT, FUNCTION_CALL, OUTPUT, THOUGHT | {"id": "rs"}, SPOKEN],
    ),
    "arguments of an item as an object": (
        *("responses", False),
        [{**FUNCTION_CALL, "arguments": {}}, OUTPUT],
    ),
    "T3 no output": ("responses", False, [FUNCTION_CALL]),
    "T3 an output after a text": ("responses", False, [FUNCTION_CALL, SPOKEN, OUTPUT]),
    "T3 an output without a call": ("responses", False, [OUTPUT]),
    "T9 a call of the vendor's without its reasoning": (
        *("responses", False),
        [{**FUNCTION_CALL, "id": "fc_1"}, OUTPUT],
    ),
    "T9 reasoning that nothing follows": (
        *("responses", False),
        [THOUGHT, {"role": "user", "content": "Hi"}],
    ),
    "T9 reasoning at the end": ("responses", False, [THOUGHT]),
    "T9 the same reasoning again": ("responses", False, [THOUGHT, SPOKEN, THOUGHT, SPOKEN]),
    "T9 reasoning that is not encrypted": (
        *("responses", False),
        [{**THOUGHT, "encrypted_content": None}, SPOKEN],
    ),
    "T9 reasoning without a summary": (
        *("responses", False),
        [{key: value for key, value in THOUGHT.items() if key != "summary"}, SPOKEN],
    ),
    "T10 a long id": (
        *("responses", False),
        [{**FUNCTION_CALL, "call_id": "c" * 65}, {**OUTPUT, "call_id": "c" * 65}],
    ),
    "T11 a phase that a model does not know": (
        *("responses", False),
        [{**SPOKEN, "phase": "final_answer"}],
    ),
    "Gemini, a document": ("gemini", True, [("model", [PAPER]), ("user", [PAPER])]),
    "Gemini, a document in a result": (
        *("gemini", True),
        [
            ("model", [SIGNED]),
            ("user", [{"functionResponse": {**RESPONSE["functionResponse"], "parts": [PAPER]}}]),
        ],
    ),
    "G12 a GIF": ("gemini", False, [("model", [{"text": "Hi"}]), ("user", [DATA])]),
    "Gemini, an image of another type": (
        *("gemini", False),
        [("model", [{"text": "Hi"}]), ("user", [WRONG_DATA])],
    ),
    "Gemini, a result": ("gemini", True, [("model", [SIGNED]), ("user", [RESPONSE])]),
    "Gemini, text after a result": (
        *("gemini", True),
        [("model", [SIGNED]), ("user", [RESPONSE]), ("user", [{"text": "Hi"}])],
    ),
    "T4 text beside a result": (
        *("gemini", False),
        [("model", [SIGNED]), ("user", [RESPONSE, {"text": "Hi"}])],
    ),
    "T4 one result of two": (
        *("gemini", False),
        [("model", [SIGNED, CALLED]), ("user", [RESPONSE])],
    ),
    "T4 results apart": (
        *("gemini", False),
        [("model", [SIGNED, CALLED]), ("user", [RESPONSE]), ("user", [RESPONSE])],
    ),
    "T5 no signature": ("gemini", False, [("model", [CALLED]), ("user", [RESPONSE])]),
    "T5 none of an earlier turn": (
        *("gemini", True),
        [("model", [CALLED]), ("user", [RESPONSE]), ("user", [{"text": "Hi"}])],
    ),
    "a signature that is no base64": (
        *("gemini", False),
        [("model", [{**CALLED, "thoughtSignature": "ü"}]), ("user", [RESPONSE])],
    ),
}


@pytest.mark.parametrize(("vendor", "takes", "turns"), TURNS.values(), ids=TURNS)
def test_a_strict_server_judges(vendor: str, takes: bool, turns: list[Any]) -> None:
    hello = {"role": "user", "content": "Hello"}
    try:
        if vendor == "anthropic":
            messages = [hello, *({"role": role, "content": said} for role, said in turns)]
            body = {"model": "claude-haiku-4-5", "max_tokens": 5, "messages": messages}
            judge_anthropic(body, {"anthropic-version": "2023-06-01", "x-api-key": "k"})
        elif vendor == "openai":
            judge_openai({"model": "gpt-4o", "messages": [hello, *turns]})
        elif vendor == "responses":
            judge_responses({"model": "o3", "store": False, "input": [hello, *turns]})
        else:
            contents = [{"role": role, "parts": parts} for role, parts in turns]
            first = {"role": "user", "parts": [{"text": "Hello"}]}
            judge_gemini({"contents": [first, *contents]}, "gemini-3-pro-preview")
        found = True
    except RefusedError:
        found = False
    assert found is takes


@pytest.mark.parametrize("vendor", ["openai", "azure", "responses", "anthropic", "gemini"])
def test_a_server_takes_each_history_that_is_sent(vendor: str, strict: StrictServer) -> None:
    models = {
        "anthropic": ("claude-opus-4-8", "claude-haiku-4-5"),
        "gemini": ("gemini-2.5-flash", "gemini-3-pro-preview"),
        "responses": ("gpt-4o", "o3", "gpt-5.3-codex", "gpt-7"),
    }
    histories = [history(number) for number in range(15)]
    for model in models.get(vendor, ("gpt-4o",)):
        said = set(sent(target(vendor, strict, model=model), *histories))
        # Some lack a signature, and some end with the assistant.
        may_refuse = model in ("gemini-3-pro-preview", "claude-opus-4-8")
        assert said - ({"refused"} if may_refuse else set()) == {"ok"}
    if vendor == "gemini":
        skips = target(vendor, strict, model="gemini-3-pro-preview", thought_signature="skip")
        assert set(sent(skips, *histories)) == {"ok"}
