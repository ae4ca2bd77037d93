"""Conversations in spans: OpenTelemetry's conventions for GenAI (1.37, and the ones of 2026).

OpenInference and Langfuse write the request body itself. LiteLLM writes messages of the conventions
whose parts, calls and results are those of Chat Completions.
"""

import json
from collections.abc import Collection, Iterator
from typing import Any

from msgspec import structs

from multiturn.errors import cut
from multiturn.files.media import kind_of_type
from multiturn.model.request import PreparedRequest
from multiturn.model.turns import ROLES, Role, Turn
from multiturn.providers import reading
from multiturn.providers.openai import chat
from multiturn.providers.reading import MediaReader, Segment
from multiturn.providers.settings import Key, Keys, Values, read_settings
from multiturn.providers.targets import KINDS
from multiturn.providers.trace import Trace, parsed

INPUT = "gen_ai.input.messages"
SYSTEM = "gen_ai.system_instructions"
_TOOLS = "gen_ai.tool.definitions"
_REQUEST = "gen_ai.request."
_CALL = ("id", "name", "arguments")
_VENDORS = {"anthropic": "anthropic", "gemini": "gemini"}  # whose thinking is its own
_FUNCTION = "llm.request.functions."
MESSAGES = ("messages", "contents", "input")  # in bodies, of which each has one
# Where OpenInference and Langfuse write a request body, its settings, and its model (2026-11-23).
_BODIES = (
    ("input.value", "llm.invocation_parameters", "llm.request.model_name"),
    tuple(f"langfuse.observation.{key}" for key in ("input", "model.parameters", "model.name")),
)
_ROLES: dict[str, Role] = {**{each: each for each in ROLES}, "developer": "system"}
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
    named = attributes.get("gen_ai.provider.name", attributes.get("gen_ai.system"))
    kinds = (kind for kind, row in KINDS.items() if named in row.provider.telemetry_names)
    reader = _Reader(next(kinds, "openai"), media)
    given = {
        key.removeprefix(_REQUEST): parsed(value)
        for key, value in attributes.items()
        if key.startswith(_REQUEST) and value is not None
    }
    if isinstance(top_k := given.get("top_k"), float) and top_k.is_integer():
        given["top_k"] = int(top_k)  # a double by the conventions
    settings, tools = read_settings(given, _SETTINGS, ("model",)), _tools_in(attributes)
    for key in settings.body or ():
        reader.lost.append(f"{_REQUEST}{key} is no setting of ours; it is left out")
    messages = enumerate(reading.blocks(parsed(attributes.get(INPUT))))
    turns = [turn for at, each in messages for turn in reader.turns(each, f"{INPUT}[{at}]")]
    system = [*reader.pieces(parsed(attributes.get(SYSTEM)), "system", SYSTEM)]
    if len(texts := reading.texts(system)) < len(system):
        reader.lost.append(f"{SYSTEM} has more than texts; that is left out")
    for at, tool in enumerate(tools):
        reader.leave(tool, ("name", "description", "parameters", "strict"), f"{_TOOLS}[{at}]")
    request = PreparedRequest(
        messages=tuple(turns),
        system=reading.turn("system", texts, media) if texts else None,
        model=str(given.get("model") or ""),
        tools=tuple(map(reading.read_tool, reading.mappings(tools))),
        settings=structs.replace(settings, body=None),
    )
    return Trace(provider=reader.provider, request=request, lost=reader.lost)


class _Reader:
    """Reads the messages of a span: those of the conventions, new and old, and those of LiteLLM.

    LiteLLM writes calls and results as keys of the message, as Chat Completions has them.
    """

    def __init__(self, provider: str, media: MediaReader) -> None:
        self.provider, self.media = provider, media
        self.lost: list[str] = []  # what has no place in ours

    def leave(self, given: Any, known: Collection[str], key: str) -> None:
        """Note the keys that are not known; of what is no mapping, all."""
        if not isinstance(given, dict):
            self.lost.append(f"{key} is left out")
            return
        for name, value in given.items():
            is_empty = value in (None, "", [], {}) or (name, value) == ("type", "function")
            if name not in known and not is_empty:
                self.lost.append(f"{key}.{cut(name)} is left out")

    def turns(self, given: Any, key: str) -> Iterator[Turn]:
        """Yield what a message says; each result is a turn of its own, as ours are."""
        role = _ROLES.get(str(given.get("role"))) if isinstance(given, dict) else None
        if role is None:
            self.lost.append(f"{key} is left out")
            return
        parts = reading.blocks(given.get("parts"))
        for call in reading.mappings(given.get("tool_calls")):
            function = call.get("function")
            keys = chat.call_keys(call, function if isinstance(function, dict) else {})
            parts = [*parts, {"type": "tool_call", **keys}]
        if not parts:
            self.lost.append(f"{key} has no parts: its content was not recorded")
        pieces = [*self.pieces(parts, role, f"{key}.parts")]
        self.leave(given, ("role", "parts", "tool_calls", "tool_call_id"), key)
        if answers := given.get("tool_call_id"):
            pieces = [self._result("\n".join(reading.texts(pieces)), answers)]
        results = [each for each in pieces if isinstance(each, Turn)]
        yield from results
        rest = [each for each in pieces if not isinstance(each, Turn)]
        if rest or not results:
            yield reading.turn(role, rest, self.media)

    def pieces(self, parts: Any, role: str, key: str) -> Iterator[Any]:
        """Yield the texts, media, thinking and calls of parts, and results as turns."""
        for at, part in enumerate(reading.blocks(parts)):
            where = f"{key}[{at}]"
            match part:
                case {"type": "text", "content": str(text), **more}:
                    yield text
                    self.leave(more, (), where)
                case {"type": "reasoning", "content": text, **more} if role == "assistant":
                    yield reading.thinking_of(_VENDORS.get(self.provider, "openai"), text)
                    self.leave(more, (), where)
                case {"type": "tool_call", **call} if role == "assistant":
                    call["arguments"] = reading.decoded(call.get("arguments"), where)
                    yield reading.read_call(*map(call.get, _CALL))
                    self.leave(call, _CALL, where)
                case {"type": "tool_call_response", **result}:
                    said = result.get("response", result.get("result"))
                    yield self._result(said, result.get("id"))
                    self.leave(result, ("id", "response", "result"), where)
                case _ if found := _segment(part):
                    yield found["value"] if found["type"] == "text" else found
                case _:
                    self.lost.append(f"{where} is left out")

    def _result(self, response: Any, answers: Any) -> Turn:
        """Return the turn of a result as a text, which Gemini has in an object."""
        match response:
            case {"output": str(text), **others} if self.provider == "gemini" and not others:
                response = text
        if not isinstance(response, str):
            response = json.dumps(response, ensure_ascii=False)
        return reading.turn("tool", [response], self.media, answers=answers)


def _segment(part: Any) -> Segment | None:
    """Return media of the conventions, or what Chat Completions has, as a segment."""
    if not isinstance(part, dict):
        return None
    kind = str(part.get("mime_type") or part.get("media_type") or part.get("modality"))
    match part:
        case {"type": "blob", "content": str(data)}:
            return {"type": kind_of_type(kind), "value": reading.data_uri(data, kind)}
        case {"type": "uri", "uri": str(url)}:
            return {"type": kind_of_type(kind), "value": url}
    found = None if "content" in part else chat.read_segment(part)
    if found is None or found["type"] == "text":
        return found
    return {"type": kind_of_type(found["type"]), "value": found["value"]}


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
