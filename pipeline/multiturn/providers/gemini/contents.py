"""Requests in the form of Gemini's generateContent."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any
from urllib.parse import urlsplit

from multiturn.files.media import EXTENSIONS, Base64, Media
from multiturn.model.calls import Tool
from multiturn.model.request import PreparedRequest
from multiturn.model.turns import Turn
from multiturn.providers.media_parts import pieces_of
from multiturn.providers.tool_layout import Choice

SPOKEN = ("systemInstruction", "contents", "tools")  # keys that messages and tools are in
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_ROLES = {"user": "user", "assistant": "model"}
_TYPES = {f".{name}": media_type for media_type, name in EXTENSIONS.items()}
_NAMES_OF_TYPES = {"audio/mpeg": "audio/mp3"}  # what Gemini's guide calls them


def write_content(request: PreparedRequest) -> dict[str, Any]:
    """Return the body of a request; the model is in its path."""
    system, temperature = request.system, request.temperature
    config: dict[str, Any] = {
        "temperature": None if temperature is None else float(temperature),
        "maxOutputTokens": request.max_output_tokens,
    }
    declared = [_declaration(tool) for tool in request.tools]
    choice = request.tool_choice
    body: dict[str, Any] = {
        "contents": _contents(request.messages),
        "systemInstruction": system and {"parts": [{"text": system.content}], "role": "user"},
        "tools": [{"functionDeclarations": declared}] if declared else None,
        "toolConfig": choice and {"functionCallingConfig": _choice(choice)},
        "generationConfig": {key: value for key, value in config.items() if value is not None},
    }
    return {key: value for key, value in body.items() if value is not None}


def _contents(messages: Iterable[Turn]) -> list[dict[str, Any]]:
    """Return contents; the results of a turn are one, without other parts (T4)."""
    messages = tuple(messages)
    names = {call.id: call.name for message in messages for call in message.calls}

    def kind(turn: Turn) -> tuple[str, bool]:
        is_result = turn.answers is not None
        return "user" if is_result else _ROLES.get(turn.role, turn.role), is_result

    return [
        {"parts": [part for turn in run for part in _parts(turn, names)], "role": role}
        for (role, _), run in groupby(messages, kind)
    ]


def _parts(turn: Turn, names: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the parts of a turn; text parts must not be empty (G5)."""
    if turn.answers is not None:
        pieces = pieces_of(turn)
        text = "\n".join(piece for piece in pieces if isinstance(piece, str))
        said = {"error" if turn.is_error else "output": text}
        name = names.get(turn.answers, "")
        response: dict[str, Any] = {"id": turn.answers, "name": name, "response": said}
        if turn.has_media:
            response["parts"] = [_data(piece) for piece in pieces if isinstance(piece, Media)]
        yield {"functionResponse": response}
        return
    for block in turn.thinking:
        yield {"text": block.text, "thought": True, "thoughtSignature": block.signature}
    for piece in pieces_of(turn):
        yield {"text": piece} if isinstance(piece, str) else _data(piece)
    for call in turn.calls:
        part = {"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}}
        yield {**part, "thoughtSignature": call.signature} if call.signature else part


def _data(media: Media) -> dict[str, Any]:
    """Return the bytes of media, or an address with the type that its ending tells, if it does."""
    if media.url:
        path = urlsplit(media.url).path.lower()
        media_type = next((_TYPES[end] for end in _TYPES if path.endswith(end)), "")
        named = {"mimeType": _NAMES_OF_TYPES.get(media_type, media_type)} if media_type else {}
        return {"fileData": {"fileUri": media.url, **named}}
    media_type = _NAMES_OF_TYPES.get(media.media_type, media.media_type)
    return {"inlineData": {"mimeType": media_type, "data": Base64(media)}}


def _declaration(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        **({"description": tool.description} if tool.description else {}),
        **({"parametersJsonSchema": tool.parameters} if tool.parameters else {}),
    }


def _choice(choice: Choice) -> dict[str, Any]:
    if isinstance(choice, str):
        return {"mode": _MODES[choice]}
    return {"mode": "ANY", "allowedFunctionNames": [choice["name"]]}
