"""Requests in the form of Anthropic's Messages API."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby
from typing import Any, TypeVar

from multiturn.files.media import Base64
from multiturn.model.request import PreparedRequest, pieces_of
from multiturn.model.settings import Choice, JsonSchema
from multiturn.model.turns import Thinking, Turn
from multiturn.providers import reading, settings
from multiturn.providers.reading import BodyForm, MediaReader, Piece
from multiturn.providers.settings import Key, Values

_V = TypeVar("_V")
# The keys of each form; those that may be None may be missing.
FORMS: Mapping[str, Mapping[str, Any]] = {
    "text": {"type": str, "text": str},
    "source": {"type": str, "source": Values},
    "source.base64": {"type": str, "data": str, "media_type": str},
    "source.url": {"type": str, "url": str},
    "source.text": {"type": str, "data": str, "media_type": str | None},
    "tool_use": {"type": str, "id": str, "name": str, "input": Values | None},
    "tool_result": {
        "type": str,
        "tool_use_id": str,
        "content": str | list[str | Values] | Values | None,
        "is_error": bool | None,
    },
}


def read_segment(block: Mapping[str, Any]) -> reading.Segment | None:
    """Return a text or media as a segment of ours; None for any other block."""
    match block:
        case {"type": "text", "text": str(text)}:
            return reading.segment("text", text)
        case {
            "type": "image" | "document" as kind,
            "source": {"type": "base64", "data": str(data), **keys},
        }:
            return reading.segment(kind, reading.data_uri(data, keys.get("media_type")))
        case {"type": "image" | "document" as kind, "source": {"type": "url", "url": str(url)}}:
            return reading.segment(kind, url)
        case {"source": {"type": "text", "data": str(text)}}:
            return reading.segment("text", text)
    return None


def use_keys(block: Mapping[str, _V]) -> dict[str, _V]:
    """Return the keys of a call as ours.

    >>> use_keys({"type": "tool_use", "id": "c1", "name": "now", "input": {}})
    {'id': 'c1', 'name': 'now', 'arguments': {}}
    """
    names = {"id": "id", "name": "name", "input": "arguments"}
    return {ours: block[theirs] for theirs, ours in names.items() if theirs in block}


def result_keys(block: Mapping[str, _V]) -> dict[str, _V]:
    """Return the keys of a result as those of our message of a tool."""
    names = {"tool_use_id": "tool_call_id", "content": "content", "is_error": "is_error"}
    return {ours: block[theirs] for theirs, ours in names.items() if theirs in block}


def write_message(request: PreparedRequest) -> dict[str, Any]:
    """Return the body of a request.

    Its form may have ``prompt_caching``: the system message is marked for the vendor's cache, for
    five minutes with true, or for as long as a text such as ``1h`` says.
    """
    system: Any = request.system and request.system.content
    if system and (caching := request.form.get("prompt_caching")):
        control = {"type": "ephemeral", **({"ttl": caching} if isinstance(caching, str) else {})}
        system = [{"type": "text", "text": system, "cache_control": control}]
    written = settings.write_settings(request.settings, KEYS)
    body = {
        "max_tokens": written.pop("max_tokens", None),
        "messages": _messages(request.messages),
        "model": request.model,
        "system": system,
        "temperature": written.pop("temperature", None),
        "tools": [
            reading.write_tool(tool, "input_schema", {"type": "object", **tool.parameters})
            for tool in request.tools
        ]
        or None,
    }
    return settings.with_body({**body, **written}, request.settings)


def _messages(turns: Iterable[Turn]) -> list[dict[str, Any]]:
    """Return messages, whose content is text, or blocks where there is more than text."""

    def role(turn: Turn) -> str:
        return "user" if turn.answers is not None else turn.role

    messages: list[dict[str, Any]] = []
    for name, run in groupby(turns, role):
        first, *others = run
        content: Any = first.content
        if others or first.is_more or first.has_media:
            content = [block for turn in (first, *others) for block in _blocks(turn)]
        messages.append({"role": name, "content": content})
    return messages


def _blocks(turn: Turn) -> Iterator[dict[str, Any]]:
    """Yield the blocks of a turn; text blocks must not be empty (A3)."""
    if turn.answers is not None:
        content = [*_pieces(turn)] if turn.has_media else turn.content
        yield {
            "type": "tool_result",
            "tool_use_id": turn.answers,
            **({"content": content} if turn.parts else {}),
            **({"is_error": True} if turn.is_error else {}),
        }
        return
    for block in turn.thinking:
        if block.data:
            yield {"type": "redacted_thinking", "data": block.data}
        else:
            yield {"type": "thinking", "thinking": block.text, "signature": block.signature}
    yield from _pieces(turn)
    for call in turn.calls:
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}


def _pieces(turn: Turn) -> Iterator[dict[str, Any]]:
    """Yield the texts, images and documents of a turn."""
    for piece in pieces_of(turn):
        if isinstance(piece, str):
            yield {"type": "text", "text": piece}
        elif piece.url:
            yield {"type": piece.kind, "source": {"type": "url", "url": piece.url}}
        else:
            data = {"media_type": piece.media_type, "data": Base64(piece)}
            yield {"type": piece.kind, "source": {"type": "base64", **data}}


def _choice(choice: Choice) -> dict[str, Any]:
    if isinstance(choice, str):
        return {"type": "any" if choice == "required" else choice}
    return {"type": "tool", **choice}


PROMPT = ("model", "system", "messages", "tools")  # keys of a body
_NAMES_OF_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def read_message(body: Mapping[str, Any], media: MediaReader) -> PreparedRequest:
    """Return the request that a body was written of."""
    system = reading.texts(_pieces_in(body.get("system")))
    messages, tools = (reading.mappings(body.get(key)) for key in ("messages", "tools"))
    # Tools of another type are the vendor's own.
    own = (each for each in tools if each.get("type") in (None, "custom"))
    control = [each.get("cache_control") for each in reading.mappings(body.get("system"))]
    caching = control[0].get("ttl", True) if control and isinstance(control[0], dict) else None
    return PreparedRequest(
        messages=tuple(turn for each in messages for turn in _read_turns(each, media)),
        system=reading.turn("system", system, media) if system else None,
        model=str(body.get("model") or ""),
        tools=tuple(reading.read_tool(each, "input_schema") for each in own),
        settings=settings.read_settings(body, KEYS, PROMPT),
        form={"prompt_caching": caching} if caching else {},
    )


def _read_turns(given: Values, media: MediaReader) -> Iterator[Turn]:
    """Yield the turns that a message is: each result is one of its own."""
    role, content = given.get("role"), given.get("content")
    if role == "user":
        for block in reading.mappings(content):
            if block.get("type") == "tool_result":
                said, answers = _pieces_in(block.get("content")), block.get("tool_use_id")
                is_error = block.get("is_error")
                yield reading.turn("tool", said, media, answers=answers, is_error=is_error)
        spoken = [*_pieces_in(content)]
        if spoken or not isinstance(content, list):
            yield reading.turn("user", spoken, media)
    elif role == "assistant":
        listed = content if isinstance(content, list) else [{"type": "text", "text": content}]
        found = [piece for each in reading.mappings(listed) for piece in _read_block(each)]
        yield from reading.assistant_turns(found, media)
    elif role == "system":
        yield reading.turn("system", reading.texts(_pieces_in(content)), media)


def _read_block(block: Values) -> Iterator[Piece]:
    """Yield what a block of the assistant's is."""
    if block.get("type") == "tool_use":
        yield reading.read_call(block.get("id"), block.get("name"), block.get("input") or {})
    elif thoughts := _thoughts(block):
        yield from thoughts
    elif (found := read_segment(block)) is not None and found["type"] == "text":
        yield found["value"]


def _thoughts(block: Values) -> list[Thinking]:
    """Return the thinking that a block is; none of any other block."""
    if block.get("type") == "thinking":
        return [reading.thinking_of("anthropic", block.get("thinking"), block.get("signature"))]
    if block.get("type") == "redacted_thinking":
        return [reading.thinking_of("anthropic", data=block.get("data"))]
    return []


def _pieces_in(content: Any) -> Iterator[Any]:
    return reading.pieces_of_blocks(content, read_segment)


def _read_choice(choice: Any) -> Choice | None:
    match choice:
        case {"type": "tool", "name": str(name)}:
            return {"name": name}
        case {"type": str(kind)}:
            return _NAMES_OF_CHOICES.get(kind)
    return None


def _write_format(form: Any) -> Values | None:
    return {"type": "json_schema", "schema": form.schema} if isinstance(form, JsonSchema) else None


def _read_format(form: Any) -> JsonSchema | None:
    match form:
        case {"type": "json_schema", "schema": dict(schema), **rest} if not rest:
            return JsonSchema(schema=schema)
    return None


def _read_budget(thinking: Any) -> int | None:
    match thinking:
        case {"type": "enabled", "budget_tokens": int(budget), **rest} if not rest:
            return budget
    return None


_EFFORTS = ("low", "medium", "high", "xhigh", "max")
KEYS: settings.Keys = {
    "max_output_tokens": Key("max_tokens"),
    "temperature": Key("temperature"),
    "parallel_tool_calls": Key(
        "tool_choice.disable_parallel_tool_use", lambda given: not given, lambda given: not given
    ),
    "tool_choice": Key("tool_choice", _choice, _read_choice),
    "top_p": Key("top_p"),
    "top_k": Key("top_k"),
    "stop": Key("stop_sequences", list, tuple),
    "reasoning_effort": Key("output_config.effort", values=_EFFORTS),
    "reasoning_tokens": Key(
        "thinking", lambda most: {"type": "enabled", "budget_tokens": most}, _read_budget
    ),
    "response_format": Key(
        "output_config.format", _write_format, _read_format, ("text", "json_schema")
    ),
    "service_tier": Key("service_tier"),
}


# What only bodies of Anthropic's have, among those with messages.
_KEYS = {"system", "anthropic_version", "stop_sequences", "thinking", "top_k", "mcp_servers"}
_BLOCKS = ("tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document")


def _likeness(body: Values) -> int:
    """Return how surely a body is Anthropic's; what OpenAI takes, too, is OpenAI's."""
    tools = reading.mappings(body.get("tools"))
    if not _KEYS.isdisjoint(body) or any("input_schema" in each for each in tools):
        return 2
    contents = (each.get("content") for each in reading.mappings(body.get("messages")))
    types = (block.get("type") for content in contents for block in reading.mappings(content))
    is_claude = str(body.get("model")).startswith("claude")
    return 2 if is_claude or any(each in _BLOCKS for each in types) else 0


def _settings(request: PreparedRequest) -> Values:
    found = dict(request.form)
    if request.settings.said().keys() & {"temperature", "top_p", "top_k"}:
        found["api_version"] = "2023-06-01"  # newer ones take none of them (A11)
    if any(turn.role == "system" for turn in request.messages):
        found["later_system"] = "keep"
    return found


FORM = BodyForm(
    write_message,
    read_message,
    _likeness,
    partial(
        reading.same_spelling,
        contents=("content", "system"),
        defaults=(("is_error", False), ("type", "custom")),
        programs=("input", "input_schema"),
    ),
    _settings,
    _thoughts,
    keys=KEYS,
    # From the types of anthropic 2.11.0, and of its older versions, on 22 November 2026.
    closed=(*PROMPT, "container", "context_management", "mcp_servers"),
)
