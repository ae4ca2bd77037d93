"""Conversations in OpenTelemetry's semantic conventions for GenAI (1.37, and the ones of 2026)."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from multiturn.traces.trace import (
    Trace,
    Values,
    call,
    data_uri,
    decoded,
    kind_of,
    mappings,
    media,
    message,
    read_value,
    renamed,
    tool,
)

INPUT = "gen_ai.input.messages"
_SYSTEM = "gen_ai.system_instructions"
_TOOLS = "gen_ai.tool.definitions"
_REQUEST = "gen_ai.request."
_NAMES = {
    f"{_REQUEST}temperature": "temperature",
    f"{_REQUEST}max_tokens": "max_output_tokens",
}
# The value of gen_ai.provider.name, or of gen_ai.system before, and the provider that asks there.
_PROVIDERS = {
    "anthropic": "anthropic",
    "gcp.gemini": "gemini",
    "gcp.gen_ai": "gemini",
    "gemini": "gemini",
    "azure.ai.openai": "azure",
}


def read_telemetry(attributes: Values) -> Trace:
    """Return what the attributes of a span or an event say."""
    given = {key: _parsed(value) for key, value in attributes.items() if key.startswith("gen_ai.")}
    named = given.get("gen_ai.provider.name", given.get("gen_ai.system"))
    provider = _PROVIDERS.get(str(named), "openai")
    system = [*_texts(given.get(_SYSTEM))]
    messages = [message("system", system)] if system else []
    for at, each in enumerate(mappings(given.get(INPUT))):
        messages += _messages(each, provider, f"{INPUT}[{at}]")
    others = {
        key.removeprefix(_REQUEST): value
        for key, value in given.items()
        if key.startswith(_REQUEST) and key not in _NAMES and value is not None
    }
    return Trace(
        form="telemetry",
        provider=provider,
        messages=messages,
        tools=[tool(_function(each), "parameters") for each in mappings(given.get(_TOOLS))],
        execution={**others, **renamed(given, _NAMES)},
    )


def left_out(attributes: Values) -> Iterator[str]:
    """Yield what of the messages is in no part that is read, each by its key."""
    for key in (INPUT, _SYSTEM):
        listed = _parsed(attributes.get(key))
        for at, each in enumerate(mappings(listed)):
            parts = mappings(each.get("parts")) if key == INPUT else [each]
            for number, part in enumerate(parts):
                inner = f"{key}[{at}].parts[{number}]" if key == INPUT else f"{key}[{at}]"
                kinds = _READ if key == INPUT else _READ[:1]
                if part.get("type") not in kinds:
                    yield f"{inner} is left out: its type is {str(part.get('type'))[:60]!r}"
            if key == INPUT and each.get("role") not in ("system", "user", "assistant", "tool"):
                yield f"{key}[{at}] is left out: its role is {str(each.get('role'))[:60]!r}"
            elif key == INPUT and each.get("name") is not None:
                yield f"{key}[{at}].name is left out"


_READ = ("text", "tool_call", "tool_call_response", "reasoning", "blob", "uri")


def _messages(given: Values, provider: str, key: str) -> Iterator[Values]:
    """Yield the messages that one is: each result is one of its own."""
    parts = [*mappings(given.get("parts"))]
    role, texts = given.get("role"), [*_pieces(parts)]
    results = [each for each in parts if each.get("type") == "tool_call_response"]
    for part in results:
        response = part.get("response", part.get("result"))
        said = response if isinstance(response, str) else json.dumps(response, ensure_ascii=False)
        yield message("tool", [said], tool_call_id=part.get("id"))
    if role == "assistant":
        vendor = provider if provider in ("anthropic", "gemini") else "openai"
        thoughts = [
            {"type": "thinking", "thinking": part.get("content"), "vendor": vendor}
            for part in parts
            if part.get("type") == "reasoning"
        ]
        calls = [
            call(part.get("id"), part.get("name"), decoded(part.get("arguments"), f"{key}.{at}"))
            for at, part in enumerate(parts)
            if part.get("type") == "tool_call"
        ]
        yield message("assistant", [*thoughts, *texts], tool_calls=calls)
    elif role in ("system", "user", "tool") and (texts or not results):
        yield message(role, texts)


def _texts(parts: Any) -> Iterator[str]:
    return (each for each in _pieces(parts) if isinstance(each, str))


def _pieces(parts: Any) -> Iterator[Any]:
    if isinstance(parts, str):
        yield parts
    for part in mappings(parts):
        kind, modality = part.get("mime_type"), part.get("modality")
        match part:
            case {"type": "text", "content": str(text)}:
                yield text
            case {"type": "blob", "content": str(data)}:
                yield media(kind_of(kind or modality), data_uri(kind, data))
            case {"type": "uri", "uri": str(url)}:
                yield media(kind_of(kind or modality), url)


def _function(given: Values) -> Values:
    """Return the definition of a tool; instrumentations also write OpenAI's form."""
    function = given.get("function")
    return function if isinstance(function, dict) else given


def _parsed(value: Any) -> Any:
    """Return an attribute; a span has structures as JSON texts."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        with suppress(ValueError):
            return read_value(value)
    return value


def attributes_in(value: Any) -> Iterator[Values]:
    """Yield the attributes of each span, event and log record in OTLP JSON that has messages."""
    if isinstance(value, list):
        for each in value:
            yield from attributes_in(each)
    elif isinstance(value, dict):
        found = value.get("attributes")
        if isinstance(found, list):
            found = {each.get("key"): _value(each.get("value")) for each in mappings(found)}
        if isinstance(found, dict) and INPUT in found:
            yield {key: each for key, each in found.items() if isinstance(key, str)}
        for each in value.values():
            if isinstance(each, list | dict):
                yield from attributes_in(each)


def _value(given: Any) -> Any:
    """Return an AnyValue of OTLP as JSON has it."""
    match given:
        case {"arrayValue": dict(listed)}:
            return [_value(each) for each in mappings(listed.get("values"))]
        case {"kvlistValue": dict(listed)}:
            keys = mappings(listed.get("values"))
            return {str(each.get("key")): _value(each.get("value")) for each in keys}
        case {"intValue": str(digits)} if digits.lstrip("-").isdecimal() and digits.isascii():
            return int(digits[:20])
        case {**only} if len(only) == 1:
            return next(iter(only.values()))
    return None
