"""Conversations in spans: OpenTelemetry's conventions for GenAI (1.37, and the ones of 2026).

OpenInference and Langfuse write the request body itself. LiteLLM writes messages of the conventions
whose parts, calls and results are those of Chat Completions.
"""

import json
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
from multiturn.providers.trace import Trace, parsed, suite_call, suite_tool

INPUT = "gen_ai.input.messages"
SYSTEM = "gen_ai.system_instructions"
_TOOLS = "gen_ai.tool.definitions"
_REQUEST = "gen_ai.request."
_RESULT = "tool_call_response"
_MEDIA = ("blob", "uri")
_FUNCTION = "llm.request.functions."
MESSAGES = ("messages", "contents", "input")  # in bodies, of which each has one
# Where OpenInference and Langfuse write a request body, its settings, and its model (2026-11-23).
_BODIES = (
    ("input.value", "llm.invocation_parameters", "llm.request.model_name"),
    tuple(f"langfuse.observation.{key}" for key in ("input", "model.parameters", "model.name")),
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
    found, provider = _conversation(attributes), _provider_of(attributes)
    system, settings = reading.texts(_pieces(found[SYSTEM])), _settings_in(attributes)
    messages = (each for each in reading.mappings(found[INPUT]) if each.get("role") in _ROLES)
    request = PreparedRequest(
        messages=tuple(_turn(each, provider, media) for each in messages),
        system=reading.turn("system", system, media) if system else None,
        model=str(settings.get("model") or ""),
        tools=tuple(map(reading.read_tool, reading.mappings(found[_TOOLS]))),
        settings=structs.replace(read_settings(settings, _SETTINGS, ("model",)), body=None),
    )
    return Trace(provider=provider, request=request)


def _provider_of(attributes: Values) -> str:
    named = attributes.get("gen_ai.provider.name", attributes.get("gen_ai.system"))
    kinds = (kind for kind, row in KINDS.items() if named in row.provider.telemetry_names)
    return next(kinds, "openai")


def _settings_in(attributes: Values) -> Values:
    return {
        key.removeprefix(_REQUEST): parsed(value)
        for key, value in attributes.items()
        if key.startswith(_REQUEST) and value is not None
    }


def unread_telemetry(attributes: Values) -> Iterator[str]:
    """Yield what has no place in ours: settings, and contents that were not recorded."""
    unread = read_settings(_settings_in(attributes), _SETTINGS, ("model",)).body or {}
    yield from (f"{_REQUEST}{key} is no setting of ours; it is left out" for key in unread)
    for at, message in enumerate(_conversation(attributes)[INPUT]):
        if isinstance(message, dict) and message.get("role") in _ROLES and not message["parts"]:
            yield f"{INPUT}[{at}] has no parts: its content was not recorded"


def same_telemetry(attributes: Values) -> Values:
    """Return the conversation in attributes in one spelling, without the bytes of media."""
    found = _conversation(attributes)
    for message in reading.mappings(found[INPUT]):
        message["parts"] = [
            {"type": "media"} if isinstance(part, dict) and part.get("type") in _MEDIA else part
            for part in message["parts"]
        ]
    of_programs = ("arguments", "parameters", "response")
    return reading.same_spelling(found, defaults=(("type", "function"),), programs=of_programs)


def telemetry_again(request: PreparedRequest, has_system: bool) -> Values:
    """Return the conversation of a request as attributes.

    Its first message is that of the system instructions, if there are some.
    """
    messages = [{"role": each.role, "parts": [*_parts_of(each)]} for each in request.spoken]
    system: Any = messages.pop(0)["parts"] if has_system else None
    return {INPUT: messages, SYSTEM: system, _TOOLS: [*map(suite_tool, request.tools)]}


def _parts_of(turn: Turn) -> Iterator[Values]:
    if turn.answers is not None:
        yield {"type": _RESULT, "id": turn.answers, "response": turn.content}
        return
    yield from ({"type": "reasoning", "content": block.text} for block in turn.thinking)
    for part in turn.parts:
        yield {"type": "text", "content": part.text} if part.media is None else {"type": "media"}
    yield from ({"type": "tool_call", **suite_call(call)} for call in turn.calls)


def _conversation(attributes: Values) -> Values:
    """Return messages, system instructions and tools in the form of the newest conventions.

    Each result is a message of its own, as ours are. LiteLLM writes calls and results as keys of
    the message, as Chat Completions has them.
    """
    messages: list[Any] = []
    provider = _provider_of(attributes)
    for at, given in enumerate(reading.blocks(parsed(attributes.get(INPUT)))):
        if not isinstance(given, dict):
            messages.append(given)
            continue
        parts = [*_parts_in(given, f"{INPUT}[{at}]", provider)]
        message = {key: given[key] for key in given if key not in ("tool_calls", "tool_call_id")}
        if answers := given.get("tool_call_id"):
            said = "\n".join(reading.texts(_pieces(parts)))
            parts = [{"type": _RESULT, "id": answers, "response": said}]
        results = [each for each in reading.mappings(parts) if each.get("type") == _RESULT]
        messages += [{**message, "role": "tool", "parts": [each]} for each in results]
        rest = [each for each in parts if each not in results]
        if rest or not results:
            messages.append({**message, "parts": rest})
    return {INPUT: messages, SYSTEM: parsed(attributes.get(SYSTEM)), _TOOLS: _tools_in(attributes)}


def _parts_in(message: Values, key: str, provider: str) -> Iterator[Any]:
    for at, part in enumerate(reading.blocks(message.get("parts"))):
        is_chat = isinstance(part, dict) and "content" not in part
        segment = chat.read_segment(part) if is_chat else None
        match part:
            case {"type": "tool_call"}:
                yield {**part, "arguments": reading.decoded(part.get("arguments"), f"{key}.{at}")}
            case {"type": "tool_call_response"}:
                kept = {key: part[key] for key in part if key != "result"}
                yield {**kept, "response": _said_by(part, provider)}
            case _ if segment and segment["type"] == "text":
                yield {"type": "text", "content": segment["value"]}
            case _ if segment:
                yield {"type": "uri", "modality": segment["type"], "uri": segment["value"]}
            case _:
                yield part
    for call in reading.mappings(message.get("tool_calls")):
        function = call.get("function")
        keys = chat.call_keys(call, function if isinstance(function, dict) else {})
        arguments = reading.decoded(keys.get("arguments"), key)
        yield {"type": "tool_call", **keys, "arguments": arguments}


def _said_by(part: Values, provider: str) -> str:
    """Return a result as a text, which Gemini has in an object.

    Earlier conventions call it ``result``.
    """
    response = part.get("response", part.get("result"))
    match response:
        case {"output": str(text), **others} if provider == "gemini" and not others:
            return text
    return response if isinstance(response, str) else json.dumps(response, ensure_ascii=False)


def _turn(message: Values, provider: str, media: MediaReader) -> Turn:
    """Return the turn of a message: a result, or what somebody said."""
    parts, role = [*reading.mappings(message["parts"])], message["role"]
    pieces = [*_pieces(parts)]
    if parts and parts[0].get("type") == _RESULT:
        return reading.turn("tool", [parts[0]["response"]], media, answers=parts[0].get("id"))
    if role == "assistant":
        vendor = provider if provider in ("anthropic", "gemini") else "openai"
        reasoning = (part.get("content") for part in parts if part.get("type") == "reasoning")
        calls = (part for part in parts if part.get("type") == "tool_call")
        pieces = [
            *(reading.thinking_of(vendor, text) for text in reasoning),
            *pieces,
            *(reading.read_call(*map(each.get, ("id", "name", "arguments"))) for each in calls),
        ]
    return reading.turn(role, pieces, media)


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


def _tools_in(attributes: Values) -> list[Any]:
    """Return the definitions of tools, each with the keys of the conventions.

    LiteLLM writes each key of a tool as an attribute; pydantic-ai writes ``strict`` elsewhere.
    """
    tools = [*map(_function, reading.blocks(parsed(attributes.get(_TOOLS))))] or [
        {
            key: parsed(attributes.get(f"{_FUNCTION}{at}.{key}"))
            for key in ("name", "description", "parameters")
        }
        for at in range(len(attributes))
        if f"{_FUNCTION}{at}.name" in attributes
    ]
    match parsed(attributes.get("model_request_parameters")):
        case {"function_tools": list(listed)}:
            stricts = {each.get("name"): each.get("strict") for each in reading.mappings(listed)}
            named = reading.mappings(tools)
            tools = [{"strict": stricts.get(each.get("name")), **each} for each in named]
    return tools


def _function(given: Any) -> Any:
    """Return the definition of a tool; instrumentations also write OpenAI's and Anthropic's."""
    match given:
        case {"function": dict(function)}:
            return function
        case {"input_schema": dict(schema), **others}:
            return {**others, "parameters": schema}
    return given


def requests_in(value: Any) -> list[Values | None]:
    """Return what each span, event and log record in OTLP JSON says of a request.

    That is its attributes with messages, or a request body. None stands for a span without it.
    """
    if isinstance(value, list):
        return [request for each in value for request in requests_in(each)]
    if not isinstance(value, dict):
        return []
    own = ("attributes", "resource", "scope")
    below = requests_in([value[key] for key in value if key not in own])
    if "attributes" not in value:
        return below
    attributes = value["attributes"]
    if isinstance(attributes, list):
        attributes = _value({"kvlistValue": {"values": attributes}})
    request = _request_of(attributes) if isinstance(attributes, dict) else None
    return [request, *below] if request else [*filter(None, below)] or [None]


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
