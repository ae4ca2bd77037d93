"""Conversations in spans: OpenTelemetry's conventions for GenAI (1.37, and the ones of 2026).

OpenInference and Langfuse write the request body itself. LiteLLM writes messages of the conventions
whose parts, calls and results are those of Chat Completions.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from msgspec import structs

from multiturn.files.media import kind_of_type
from multiturn.model.request import PreparedRequest
from multiturn.model.turns import Turn
from multiturn.providers import reading
from multiturn.providers.openai import chat
from multiturn.providers.reading import MediaReader
from multiturn.providers.settings import Key, Keys, Values, read_settings
from multiturn.providers.targets import KINDS
from multiturn.traces.trace import Trace, parsed, suite_call, suite_tool

INPUT = "gen_ai.input.messages"
SYSTEM = "gen_ai.system_instructions"
_TOOLS = "gen_ai.tool.definitions"
_REQUEST = "gen_ai.request."
_RESULT = "tool_call_response"
MESSAGES = ("messages", "contents", "input")  # in bodies, of which each has one
# Where OpenInference and Langfuse write a request body, its settings, and its model (2026-11-23).
_BODIES = (
    ("input.value", "llm.invocation_parameters", "llm.request.model_name"),
    (
        "langfuse.observation.input",
        "langfuse.observation.model.parameters",
        "langfuse.observation.model.name",
    ),
)
_ROLES = ("system", "user", "tool", "assistant")
_NAMES = {"max_output_tokens": "max_tokens", "stop": "stop_sequences"}
_SETTINGS: Keys = {
    name: Key(_NAMES.get(name, name))
    for name in (
        *("temperature", "max_output_tokens", "top_p", "top_k", "stop", "seed"),
        *("frequency_penalty", "presence_penalty"),
    )
}


def read_telemetry(attributes: Values, media: MediaReader) -> Trace:
    """Return what the attributes of a span or an event say."""
    given = {key: parsed(value) for key, value in attributes.items() if key.startswith("gen_ai.")}
    provider = _provider_of(attributes)
    system = reading.texts(_pieces(given.get(SYSTEM)))
    messages = [
        each
        for at, message in enumerate(map(_in_parts, reading.mappings(given.get(INPUT))))
        for each in _turns(message, provider, f"{INPUT}[{at}]", media)
    ]
    settings = _settings_in(given)
    tools = reading.mappings(_tools_in(attributes))
    request = PreparedRequest(
        messages=tuple(messages),
        system=reading.turn("system", system, media) if system else None,
        model=str(settings.get("model") or ""),
        tools=tuple(map(reading.read_tool, tools)),
        settings=structs.replace(read_settings(settings, _SETTINGS, ("model",)), body=None),
    )
    return Trace(provider=provider, request=request)


def _provider_of(attributes: Values) -> str:
    named = attributes.get("gen_ai.provider.name", attributes.get("gen_ai.system"))
    kinds = (kind for kind, row in KINDS.items() if named in row.provider.telemetry_names)
    return next(kinds, "openai")


def _settings_in(attributes: Values) -> Values:
    return {
        key.removeprefix(_REQUEST): value
        for key, value in attributes.items()
        if key.startswith(_REQUEST) and value is not None
    }


def unread_settings(attributes: Values) -> Iterator[str]:
    """Yield the settings of a request that have no place in ours, one sentence each."""
    unread = read_settings(_settings_in(attributes), _SETTINGS, ("model",)).body or {}
    yield from (f"{_REQUEST}{key} is no setting of ours; it is left out" for key in unread)
    for at, message in enumerate(reading.mappings(parsed(attributes.get(INPUT)))):
        if message.get("role") in _ROLES and not _in_parts(message).get("parts"):
            yield f"{INPUT}[{at}] has no parts: its content was not recorded"


def same_telemetry(attributes: Values) -> Values:
    """Return the conversation in attributes in one spelling, with each result as a message."""
    messages: list[Any] = []
    provider = _provider_of(attributes)
    for each in map(_in_parts, reading.blocks(parsed(attributes.get(INPUT)))):
        listed = each.get("parts") if isinstance(each, dict) else None
        if not isinstance(listed, list):
            messages.append(each)
            continue
        parts = [_same_part(part, provider) for part in listed]
        results = [each for each in reading.mappings(parts) if each.get("type") == _RESULT]
        messages += [{"role": "tool", "parts": [part]} for part in results]
        rest = [part for part in parts if part not in results]
        if rest or not results or any(each[key] for key in each.keys() - {"role", "parts"}):
            messages.append({**each, "parts": rest})
    found = {INPUT: messages, SYSTEM: parsed(attributes.get(SYSTEM))}
    found[_TOOLS] = _tools_in(attributes)
    of_programs = ("arguments", "parameters", "response")
    same: Values = reading.same_spelling(
        found, defaults=(("type", "function"),), programs=of_programs
    )
    return same


def telemetry_again(request: PreparedRequest, has_system: bool) -> Values:
    """Return the conversation of a request as attributes.

    Its first message is that of the system instructions, if there are some.
    """
    messages: list[Values] = [
        {"role": each.role, "parts": [*_parts_of(each)]} for each in request.spoken
    ]
    system = messages.pop(0)["parts"] if has_system else None
    return {INPUT: messages, SYSTEM: system, _TOOLS: [*map(suite_tool, request.tools)]}


def _parts_of(turn: Turn) -> Iterator[Values]:
    if turn.answers is not None:
        yield {"type": _RESULT, "id": turn.answers, "response": turn.content}
        return
    yield from ({"type": "reasoning", "content": block.text} for block in turn.thinking)
    for part in turn.parts:
        yield {"type": "text", "content": part.text} if part.media is None else {"type": "media"}
    yield from ({"type": "tool_call", **suite_call(call)} for call in turn.calls)


def _same_part(part: Any, provider: str) -> Any:
    match part:
        case {"type": "tool_call_response"}:
            kept = {key: part[key] for key in part if key != "result"}
            return {**kept, "response": _said_by(part, provider)}
        case {"type": "blob" | "uri"}:
            return {"type": "media"}
    return part


def _turns(given: Values, provider: str, key: str, media: MediaReader) -> Iterator[Turn]:
    """Yield the turns that a message is: each result is one of its own."""
    parts = [*reading.mappings(given.get("parts"))]
    role, said = given.get("role"), [*_pieces(parts)]
    results = [each for each in parts if each.get("type") == _RESULT]
    for part in results:
        yield reading.turn("tool", [_said_by(part, provider)], media, answers=part.get("id"))
    if role == "assistant":
        vendor = provider if provider in ("anthropic", "gemini") else "openai"
        reasoning = (part for part in parts if part.get("type") == "reasoning")
        thoughts = [reading.thinking_of(vendor, part.get("content")) for part in reasoning]
        calls = [
            reading.read_call(
                part.get("id"),
                part.get("name"),
                reading.decoded(part.get("arguments"), f"{key}.{at}"),
            )
            for at, part in enumerate(parts)
            if part.get("type") == "tool_call"
        ]
        yield reading.turn("assistant", [*thoughts, *said, *calls], media)
    elif role in _ROLES and (said or not results):
        yield reading.turn(role, said, media)


def _said_by(part: Values, provider: str) -> str:
    """Return a result as a text, which Gemini has in an object.

    Earlier conventions call it ``result``.
    """
    response = part.get("response", part.get("result"))
    match response:
        case {"output": str(text), **others} if provider == "gemini" and not others:
            return text
    return response if isinstance(response, str) else json.dumps(response, ensure_ascii=False)


def _pieces(parts: Any) -> Iterator[Any]:
    if isinstance(parts, str):
        yield parts
    for part in reading.mappings(parts):
        kind = str(part.get("mime_type") or part.get("media_type") or part.get("modality"))
        match part:
            case {"type": "text", "content": str(text)}:
                yield text
            case {"type": "blob", "content": str(data)}:
                yield {"type": kind_of_type(kind), "value": reading.data_uri(data, kind)}
            case {"type": "uri", "uri": str(url)}:
                yield {"type": kind_of_type(kind), "value": url}


def _in_parts(message: Any) -> Any:
    """Return a message whose parts are those of the conventions, not of Chat Completions."""
    if not isinstance(message, dict):
        return message
    found = {key: message[key] for key in message if key not in ("tool_calls", "tool_call_id")}
    parts = [*map(_part_of, reading.blocks(message.get("parts")))]
    for call in reading.mappings(message.get("tool_calls")):
        function = call.get("function")
        keys = chat.call_keys(call, function if isinstance(function, dict) else {})
        parts.append({"type": "tool_call", **keys})
    if message.get("tool_call_id"):
        said = "\n".join(reading.texts(_pieces(parts)))
        parts = [{"type": _RESULT, "id": message["tool_call_id"], "response": said}]
    return {**found, "parts": parts} if "parts" in found or parts else found


def _part_of(part: Any) -> Any:
    segment = chat.read_segment(part) if isinstance(part, dict) and "content" not in part else None
    if segment is None:
        return part
    if segment["type"] == "text":
        return {"type": "text", "content": segment["value"]}
    return {"type": "uri", "modality": segment["type"], "uri": segment["value"]}


def _tools_in(attributes: Values) -> list[Any]:
    """Return the definitions of tools, each with the keys of the conventions.

    LiteLLM writes each key of a tool as an attribute; pydantic-ai writes ``strict`` elsewhere.
    """
    tools = [*map(_function, reading.blocks(parsed(attributes.get(_TOOLS))))]
    if not tools:
        named = filter(re.compile(r"llm\.request\.functions\.\d+\.name").fullmatch, attributes)
        keys = ("name", "description", "parameters")
        tools = [
            {key: parsed(attributes.get(each[: -len("name")] + key)) for key in keys}
            for each in named
        ]
    match parsed(attributes.get("model_request_parameters")):
        case {"function_tools": list(listed)}:
            stricts = {each.get("name"): each.get("strict") for each in reading.mappings(listed)}
            tools = [{"strict": stricts.get(each.get("name")), **each} for each in tools]
    return tools


def _function(given: Any) -> Any:
    """Return the definition of a tool; instrumentations also write OpenAI's and Anthropic's."""
    match given:
        case {"function": dict(function)}:
            return function
        case {"input_schema": dict(schema), **others}:
            return {**others, "parameters": schema}
    return given


def requests_in(value: Any) -> Iterator[Values | None]:
    """Yield what each span, event and log record in OTLP JSON says of a request.

    That is its attributes with messages, or a request body. None stands for a span without it.
    """
    if isinstance(value, list):
        for each in value:
            yield from requests_in(each)
    elif isinstance(value, dict):
        found = value.get("attributes")
        if isinstance(found, list):
            found = _value({"kvlistValue": {"values": found}})
        request = _request_of(found) if isinstance(found, dict) else None
        below = [
            each
            for key, child in value.items()
            if key not in ("attributes", "resource", "scope") and isinstance(child, list | dict)
            for each in requests_in(child)
        ]
        if "attributes" in value:
            below = [request, *below] if request else [each for each in below if each] or [None]
        yield from below


def _request_of(attributes: Values) -> Values | None:
    if INPUT in attributes:
        return attributes
    kinds = (("openinference.span.kind", "LLM"), ("langfuse.observation.type", "generation"))
    if any(attributes.get(key, kind) != kind for key, kind in kinds):
        return None
    for body, settings, model in _BODIES:
        found, more = parsed(attributes.get(body)), parsed(attributes.get(settings))
        found = {"messages": found} if isinstance(found, list) else found
        if isinstance(found, dict) and any(key in found for key in MESSAGES):
            named = {"model": attributes[model]} if attributes.get(model) else {}
            return {**named, **(more if isinstance(more, dict) else {}), **found}
    return None


def _value(given: Any) -> Any:
    """Return an AnyValue of OTLP as JSON has it."""
    match given:
        case {"arrayValue": dict(listed)}:
            return [_value(each) for each in reading.mappings(listed.get("values"))]
        case {"kvlistValue": dict(listed)}:
            keys = reading.mappings(listed.get("values"))
            return {str(each.get("key")): _value(each.get("value")) for each in keys}
        case {"intValue": str(digits)} if digits.lstrip("-").isdecimal() and digits.isascii():
            return int(digits[:20])
        case {**only} if len(only) == 1:
            return next(iter(only.values()))
    return None
