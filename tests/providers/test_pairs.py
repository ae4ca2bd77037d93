"""What is written of a request can be read again: two laws, for each vendor and API."""

import json
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from histories import history
from media_histories import media_history
from multiturn import ChatMessage, ProviderError, ProviderRequest
from multiturn.files.media import Media
from multiturn.model.request import PreparedRequest, content_of
from multiturn.model.settings import JsonSchema, RequestSettings
from multiturn.model.turns import Thinking, Turn
from multiturn.providers.anthropic.messages import read_message
from multiturn.providers.base import Wire
from multiturn.providers.gemini.contents import read_content
from multiturn.providers.openai.chat import read_chat
from multiturn.providers.openai.responses import read_response
from multiturn.providers.reading import MediaReader
from multiturn.traces.suite import Attached
from vendors import Connect, anthropic, azure, chat, gemini, openai, responses

HISTORIES = int(os.environ.get("HISTORIES", "100"))  # make test-tools tries 3000
MEDIA = Attached(None, "").read
Reader = Callable[[Mapping[str, Any], MediaReader], PreparedRequest]
APIS: dict[str, tuple[Connect, Reader]] = {
    "openai": (openai, read_chat),
    "azure": (azure, read_chat),
    "responses": (responses, read_response),
    "anthropic": (anthropic, read_message),
    "gemini": (gemini, read_content),
}
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "openai": [
        {},
        {"system_role": "developer", "max_tokens_field": "max_tokens", "max_output_tokens": 64},
        {"prompt_caching": True, "model_takes": {"cache_breakpoints": True}, "temperature": 0},
    ],
    "azure": [{}, {"temperature": 0.5}],
    "responses": [
        {},
        {"system_as": "instructions", "system_role": "developer", "model_takes": {"phase": True}},
        {"prompt_caching": True, "model_takes": {"cache_breakpoints": True, "result_media": True}},
    ],
    "anthropic": [{}, {"prompt_caching": "1h"}, {"prompt_caching": True, "max_output_tokens": 9}],
    "gemini": [{}, {"temperature": 1, "max_output_tokens": 100}],
}


def requests(api: str) -> Iterator[ProviderRequest]:
    for number in range(HISTORIES):
        yield history(number)
        yield media_history(number, api)
    yield chat(("user", ""), ("assistant", ""), ("user", "Hi"))
    yield chat(("system", "Be brief."), ("system", "Be kind."), ("user", "Hi"))
    first = Thinking("First.", "rs_1", "ab", "openai")
    then = Thinking("Then.", "rs_1", vendor="openai")  # more of the same item
    said = ChatMessage("assistant", "Hello", thinking=(first, then))
    user = ChatMessage("user", "Hi")
    yield ProviderRequest(question="", chat_prompt=(user, said, user))


SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
# Values of each setting that no body of any vendor leaves out.
VALUES: dict[str, list[Any]] = {
    "temperature": [0, 0.5, 1.0],
    "top_p": [0, 0.25, 1],
    "top_k": [1, 40],
    "max_output_tokens": [16, 4000],
    "stop": [("END",), ("a", "\n")],
    "seed": [0, -7],
    "frequency_penalty": [-2.0, 0.5],
    "presence_penalty": [0, 1.5],
    "reasoning_effort": ["minimal", "high"],
    "reasoning_tokens": [0, 2048],
    "response_format": ["json", JsonSchema(schema=SCHEMA, name="place", strict=True), "text"],
    "tool_choice": ["auto", "required"],
    "parallel_tool_calls": [True, False],
    "verbosity": ["low", "high"],
    "service_tier": ["auto"],
    "body": [{"own": {"a": [1, None]}, "more": False}],
}
# Those of an API that takes others.
OWN_VALUES: dict[str, dict[str, list[Any]]] = {
    "anthropic": {
        "max_output_tokens": [3000, 4000],  # more than reasoning_tokens (A22)
        "reasoning_effort": ["low", "high"],
        "reasoning_tokens": [1024, 2048],
        "response_format": VALUES["response_format"][1:],  # no "json"
    },
}
TAKEN = dict.fromkeys({*VALUES, "forced_tool_choice"} - {"body"}, True)


def values_of(api: str, name: str) -> list[Any]:
    """Return the values of a setting that an API takes."""
    return OWN_VALUES.get(api, {}).get(name, VALUES[name])


def some_settings(api: str, at: int) -> RequestSettings:
    """Return settings that an API has; each of them in some requests."""
    chance = random.Random(at)
    connect, _ = APIS[api]
    known = connect().form.keys
    named = [name for name in VALUES if name == "body" or name in known]
    chosen = {name: chance.choice(values_of(api, name)) for name in named if chance.random() < 0.3}
    return RequestSettings(**chosen)


def wires(api: str) -> Iterator[Wire]:
    """Yield what is sent of random requests with all settings, but for those that are refused."""
    connect, _ = APIS[api]
    for at, request in enumerate(requests(api)):
        settings = SETTINGS[api][at % len(SETTINGS[api])]
        settings = {**settings, "model_takes": {**TAKEN, **settings.get("model_takes", {})}}
        try:
            yield connect(**settings).wire(replace(request, settings=some_settings(api, at)))
        except ProviderError:
            continue


@pytest.mark.parametrize("api", APIS)
def test_what_is_read_of_a_body_is_written_as_the_same_bytes(api: str) -> None:
    connect, read = APIS[api]
    provider, count = connect(), 0
    for wire in wires(api):
        assert provider.encode(provider.write(read(json.loads(wire.body), MEDIA))) == wire.body
        count += 1
    assert count > HISTORIES


# What a body cannot hold, by API, and what becomes of it.
def same_turn(turn: Turn, api: str) -> Any:
    """Return what a body of an API holds of a turn."""
    pieces = content_of(turn)
    listed: list[str | Media] = [pieces] if isinstance(pieces, str) else [*pieces]
    if api == "gemini" and turn.answers is not None:  # the text of a result comes first
        words = [piece for piece in listed if isinstance(piece, str)]
        listed = ["\n".join(words), *(each for each in listed if not isinstance(each, str))]
    content = [same_media(each, api) for each in listed if each != ""]
    thinking = () if api in ("openai", "azure") else turn.thinking  # T8: the form has no thinking
    calls = [
        (call.id, call.name, call.arguments, call.signature if api == "gemini" else "")
        for call in turn.calls
    ]
    has_errors = api in ("anthropic", "gemini")  # O15: OpenAI's forms do not tell them
    is_error = turn.is_error and has_errors
    return turn.role, content, thinking, calls, turn.answers, is_error


def same_media(piece: str | Media, api: str) -> Any:
    if isinstance(piece, str):
        return piece
    # An address without a type is a document to Gemini's reader; no other form knows details.
    kind = "" if piece.url else piece.kind
    detail = (piece.detail or "auto" if api == "responses" else piece.detail) or ""
    has_detail = api in ("openai", "azure", "responses") and piece.kind == "image"
    return kind, piece.url, piece.digest, detail if has_detail else ""


def same_request(request: PreparedRequest, api: str) -> Any:
    tools = [
        (
            tool.name,
            tool.description,
            # Anthropic's schemas must be of objects.
            {"type": "object", **tool.parameters} if api == "anthropic" else tool.parameters,
            # G9: Gemini's tools are never strict; those of Responses say that they are not.
            {"gemini": None, "responses": bool(tool.strict)}.get(api, tool.strict),
        )
        for tool in request.tools
    ]
    system = request.system and request.system.content
    turns = [same_turn(turn, api) for turn in request.messages]
    return (
        [*items(turns)] if api == "responses" else turns,
        system,
        "" if api == "gemini" else request.model,  # Gemini's is in the path
        tools,
        same_settings(request.settings, api),
    )


def same_settings(settings: RequestSettings, api: str) -> RequestSettings:
    """Return settings without what the form of an API cannot hold."""
    form = settings.response_format
    if api in ("anthropic", "gemini"):
        if isinstance(form, JsonSchema):  # the schema alone
            settings = replace(settings, response_format=JsonSchema(schema=form.schema))
        elif form == "text":  # by saying nothing
            settings = replace(settings, response_format=None)
    return settings


def items(turns: list[Any]) -> Iterator[Any]:
    """Yield the items of turns: those of neighboring turns of the assistant's are not apart."""
    for role, content, thinking, calls, answers, is_error in turns:
        yield from reasoning(thinking)
        if content or not (thinking or calls):
            yield role, content, answers, is_error
        yield from ((role, "call", call) for call in calls)


def reasoning(thinking: Iterable[Thinking]) -> list[tuple[str, str, list[str]]]:
    """Return the id, the encrypted content and the texts of each item: an empty text is none."""
    found: list[tuple[str, str, list[str]]] = []
    for block in thinking:
        if not found or block.data or block.signature != found[-1][0]:
            found.append((block.signature, block.data, []))
        found[-1][2].extend([block.text] if block.text else [])
    return found


@pytest.mark.parametrize("api", APIS)
def test_what_is_read_of_a_body_is_the_request_as_the_rules_left_it(api: str) -> None:
    _, read = APIS[api]
    for wire in wires(api):
        found = read(json.loads(wire.body), MEDIA)
        assert wire.prepared is not None
        assert same_request(found, api) == same_request(wire.prepared, api)
