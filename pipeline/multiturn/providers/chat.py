"""Messages and tools in the form of the Chat Completions API, which many other tools use, too."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from multiturn.files.media import EXTENSIONS, Media
from multiturn.files.media_json import Base64
from multiturn.model.calls import Call, Tool
from multiturn.model.request import content_of
from multiturn.model.turns import Turn
from multiturn.providers.media_parts import address_or_uri, file_name


def chat_message(turn: Turn, role: str = "") -> dict[str, Any]:
    """Return a turn as a message; thinking has no place in it.

    Images, documents and audio in it have a ``Base64`` where their bytes belong.

    Args:
        turn: its role is sent, unless ``role`` is another name of it.
        role: such as ``developer``.

    >>> chat_message(Turn("assistant", calls=(Call("c1", "weather", {"city": "Paris"}),)))
    ... # doctest: +NORMALIZE_WHITESPACE
    {'role': 'assistant', 'content': None,
     'tool_calls': [{'id': 'c1', 'type': 'function',
                     'function': {'name': 'weather', 'arguments': '{"city": "Paris"}'}}]}
    >>> chat_message(Turn("tool", answers="c1"))
    {'role': 'tool', 'content': '', 'tool_call_id': 'c1'}
    """
    content: Any = content_of(turn)
    if not isinstance(content, str):
        content = [_part(piece) for piece in content]
    said: dict[str, Any] = {"role": role or turn.role, "content": content}
    if turn.answers is not None:
        said["tool_call_id"] = turn.answers
    if turn.calls:
        said["content"] = content or None
        said["tool_calls"] = [_call(call) for call in turn.calls]
    return said


def _part(piece: str | Media) -> dict[str, Any]:
    """Return a text, an image, a document or audio as a part of a user message."""
    if isinstance(piece, str):
        return {"type": "text", "text": piece}
    if piece.kind == "image":
        detail = {} if piece.detail is None else {"detail": piece.detail}
        return {"type": "image_url", "image_url": {"url": address_or_uri(piece), **detail}}
    if piece.kind == "document":
        file = {"filename": file_name(piece), "file_data": address_or_uri(piece)}
        return {"type": "file", "file": file}
    audio = {"data": Base64(piece), "format": EXTENSIONS.get(piece.media_type, "")}
    return {"type": "input_audio", "input_audio": audio}


def _call(call: Call) -> dict[str, Any]:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def called(call_id: str, name: str, arguments: Any) -> Call:
    """Return a call of an answer; arguments that are no JSON object, as models write, stay text."""
    with suppress(ValueError):
        arguments = msgspec.json.decode(arguments or "{}", type=dict[str, Any])
    return Call(call_id, name, arguments)


def chat_choice(choice: str | Mapping[str, str]) -> str | dict[str, Any]:
    """Return whether the model must call a tool, and which.

    >>> chat_choice({"name": "now"})
    {'type': 'function', 'function': {'name': 'now'}}
    """
    return choice if isinstance(choice, str) else {"type": "function", "function": dict(choice)}


def chat_tool(tool: Tool) -> dict[str, Any]:
    """Return the definition of a tool.

    >>> chat_tool(Tool("now", "The time."))
    {'type': 'function', 'function': {'name': 'now', 'description': 'The time.'}}
    """
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    if tool.parameters:
        function["parameters"] = tool.parameters
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}
