"""Requests in the form of Anthropic's Messages API."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from multiturn.files.media import Base64, Media
from multiturn.model.calls import Tool
from multiturn.model.request import PreparedRequest
from multiturn.model.turns import Turn
from multiturn.providers.media_parts import pieces_of
from multiturn.providers.tool_layout import Choice

SPOKEN = ("system", "messages", "tools")  # keys of a body that messages and tools are in
_CHOICES = {"required": "any"}  # what the API calls them


def write_message(request: PreparedRequest) -> dict[str, Any]:
    """Return the body of a request.

    Its form may have ``prompt_caching``: the system message is marked for the vendor's cache, for
    five minutes with true, or for as long as a text such as ``1h`` says.
    """
    system: Any = request.system and request.system.content
    if system and (caching := request.form.get("prompt_caching")):
        control = {"type": "ephemeral", **({"ttl": caching} if isinstance(caching, str) else {})}
        system = [{"type": "text", "text": system, "cache_control": control}]
    body = {
        "max_tokens": request.max_output_tokens,
        "messages": _messages(request.messages),
        "model": request.model,
        "system": system,
        "temperature": request.temperature,
        "tools": [_tool(tool) for tool in request.tools] or None,
        "tool_choice": request.tool_choice and _choice(request.tool_choice),
    }
    return {key: value for key, value in body.items() if value is not None}


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
        else:
            yield {"type": piece.kind, "source": _source(piece)}


def _source(media: Media) -> dict[str, Any]:
    if media.url:
        return {"type": "url", "url": media.url}
    return {"type": "base64", "media_type": media.media_type, "data": Base64(media)}


def _tool(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        **({"description": tool.description} if tool.description else {}),
        "input_schema": {"type": "object", **tool.parameters},
        **({"strict": tool.strict} if tool.strict is not None else {}),
    }


def _choice(choice: Choice) -> dict[str, Any]:
    if isinstance(choice, str):
        return {"type": _CHOICES.get(choice, choice)}
    return {"type": "tool", **choice}
