"""Requests in the form of Amazon Bedrock's Converse API."""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from multiturn.files.media import Base64, Media
from multiturn.model.request import PreparedRequest, pieces_of
from multiturn.model.settings import Choice, RequestSettings
from multiturn.model.turns import Thinking, Tool, Turn
from multiturn.providers.reading import (
    BodyForm,
    MediaReader,
    Piece,
    assistant_turns,
    data_uri,
    mappings,
    read_call,
    read_tool,
    same_spelling,
    segment,
    texts,
    thinking_of,
    turn,
)
from multiturn.providers.settings import Key, Keys, Values, read_settings, with_body, write_settings


def write_converse(request: PreparedRequest) -> dict[str, Any]:
    """Return the body of a request; the model is in its path (B1)."""
    settings = write_settings(request.settings, KEYS)
    tools = {"tools": [_tool(tool) for tool in request.tools]} if request.tools else {}
    tools |= settings.pop("toolConfig", {})
    body = {
        "inferenceConfig": settings.pop("inferenceConfig", None),
        "messages": _messages(request.messages),
        "system": [{"text": request.system.content}] if request.system else None,
        "toolConfig": tools or None,
    }
    return with_body({**body, **settings}, request.settings)


def _messages(turns: Iterable[Turn]) -> list[dict[str, Any]]:
    """Return messages; results are blocks of the user's (B6)."""

    def role(turn: Turn) -> str:
        return "user" if turn.answers is not None else turn.role

    return [
        {"content": [block for turn in run for block in _blocks(turn)], "role": name}
        for name, run in groupby(turns, role)
    ]


def _blocks(turn: Turn) -> Iterator[dict[str, Any]]:
    """Yield the blocks of a turn."""
    if turn.answers is not None:
        result = {"content": [*_pieces(turn)], "toolUseId": turn.answers}
        yield {"toolResult": {**result, **({"status": "error"} if turn.is_error else {})}}
        return
    for block in turn.thinking:
        if block.data:
            yield {"reasoningContent": {"redactedContent": block.data}}
        else:
            thought = {"signature": block.signature, "text": block.text}
            yield {"reasoningContent": {"reasoningText": thought}}
    yield from _pieces(turn)
    for call in turn.calls:
        yield {"toolUse": {"input": call.arguments, "name": call.name, "toolUseId": call.id}}


def _pieces(turn: Turn) -> Iterator[dict[str, Any]]:
    """Yield the texts, images and documents of a turn."""
    for piece in pieces_of(turn):
        yield {"text": piece} if isinstance(piece, str) else {piece.kind: _media(piece)}


def _media(media: Media) -> dict[str, Any]:
    """Return an image, or a document, which has a name (B4)."""
    name = {"name": media.name} if media.kind == "document" else {}
    source = {"bytes": Base64(media)}
    return {"format": media.media_type.partition("/")[2], **name, "source": source}


def _tool(tool: Tool) -> dict[str, Any]:
    spec = {
        "name": tool.name,
        **({"description": tool.description} if tool.description else {}),
        "inputSchema": {"json": {"type": "object", **tool.parameters}},
        **({"strict": tool.strict} if tool.strict is not None else {}),
    }
    return {"toolSpec": spec}


def _choice(choice: Choice) -> dict[str, Any]:
    if isinstance(choice, str):
        return {{"required": "any"}.get(choice, choice): {}}
    return {"tool": dict(choice)}


_READ = ("messages", "modelId", "system")


def read_converse(body: Mapping[str, Any], media: MediaReader) -> PreparedRequest:
    """Return the request that a body was written of; of SDKs' parameters, also the model."""
    system = texts(_pieces_in(body.get("system")))
    tools = _mapping(body.get("toolConfig"))
    specs = (_mapping(each.get("toolSpec")) for each in mappings(tools.get("tools")) if each)
    messages = (t for each in mappings(body.get("messages")) for t in _read_turns(each, media))
    return PreparedRequest(
        messages=tuple(messages),
        system=turn("system", system, media) if system else None,
        model=str(body.get("modelId") or ""),
        tools=tuple(
            read_tool({**each, "parameters": _mapping(each.get("inputSchema")).get("json")})
            for each in specs
            if each
        ),
        settings=_read_settings(body, tools),
    )


def _mapping(value: Any) -> Values:
    return value if isinstance(value, dict) else {}


def _read_turns(given: Values, media: MediaReader) -> Iterator[Turn]:
    """Yield the turns that a message is: each result is one of its own."""
    role, content = given.get("role"), [*mappings(given.get("content"))]
    if role == "assistant":
        yield from assistant_turns((p for block in content for p in _read_block(block)), media)
        return
    results = [_mapping(each["toolResult"]) for each in content if "toolResult" in each]
    for each in results:
        said, is_error = _pieces_in(each.get("content")), each.get("status") == "error"
        yield turn("tool", said, media, answers=each.get("toolUseId"), is_error=is_error)
    spoken = [*_pieces_in(content)]
    if spoken or not results:
        yield turn("system" if role == "system" else "user", spoken, media)


def _read_block(block: Values) -> Iterator[Piece]:
    """Yield what a block of the assistant's is."""
    match block:
        case {"toolUse": {**call}}:
            yield read_call(call.get("toolUseId"), call.get("name"), call.get("input") or {})
        case {"reasoningContent": _}:
            yield from thoughts(block)
        case _:
            yield from _pieces_in([block])


def thoughts(block: Values) -> Iterator[Thinking]:
    """Yield the thinking of a block; its signature is that of Anthropic's models."""
    match block.get("reasoningContent"):
        case {"reasoningText": {**said}}:
            yield thinking_of("anthropic", said.get("text"), said.get("signature"))
        case {"redactedContent": data}:
            yield thinking_of("anthropic", data=data)


def _pieces_in(content: Any) -> Iterator[Any]:
    """Yield the texts and the media of a content."""
    for block in mappings(content):
        match block:
            case {"text": str(text)}:
                yield text
            case {"json": value}:
                yield json.dumps(value, ensure_ascii=False)
            case {"image": {"format": kind, "source": {"bytes": str(data)}}}:
                yield segment("image", data_uri(data, f"image/{kind}"))
            case {"document": {"source": {"text": str(text)}}}:
                yield text
            case {"document": {"format": kind, "source": {"bytes": str(data)}, **more}}:
                named = {"filename": more.get("name")}
                yield segment("document", data_uri(data, f"application/{kind}"), named)


def _read_choice(choice: Any) -> Choice | None:
    match choice:
        case {"tool": {"name": str(name)}}:
            return {"name": name}
        case {"any": _}:
            return "required"
        case {"auto": _}:
            return "auto"
    return None


_CONFIG = "inferenceConfig"
KEYS: Keys = {
    "max_output_tokens": Key(f"{_CONFIG}.maxTokens"),
    "temperature": Key(f"{_CONFIG}.temperature"),
    "top_p": Key(f"{_CONFIG}.topP"),
    "stop": Key(f"{_CONFIG}.stopSequences", list, tuple),
    "tool_choice": Key("toolConfig.toolChoice", _choice, _read_choice),
    "reasoning_effort": Key("outputConfig.effort"),
}


def _read_settings(body: Mapping[str, Any], tools: Values) -> RequestSettings:
    others = {key: value for key, value in tools.items() if key != "tools"}
    return read_settings({**body, "toolConfig": others}, KEYS, _READ)


def _likeness(body: Values) -> int:
    """Return how surely a body is of this form: its blocks have no type."""
    if "messages" not in body:
        return 0
    contents = (each.get("content") for each in mappings(body["messages"]))
    untyped = any("type" not in block for content in contents for block in mappings(content))
    return 5 if untyped or not {_CONFIG, "toolConfig", "modelId"}.isdisjoint(body) else 0


FORM = BodyForm(
    write_converse,
    read_converse,
    _likeness,
    lambda body: same_spelling(
        {key: value for key, value in body.items() if key != "modelId"},
        defaults=(("status", "success"),),
        programs=("input", "json"),
    ),
    lambda _: {},
    thoughts,
    keys=KEYS,
    closed=(*_READ, "toolConfig"),
)
