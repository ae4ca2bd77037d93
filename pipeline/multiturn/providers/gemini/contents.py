"""Requests in the form of Gemini's generateContent."""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any
from urllib.parse import urlsplit

from msgspec import structs

from multiturn.errors import MultiturnError
from multiturn.files.media import EXTENSIONS, Base64, Media, kind_of_type
from multiturn.model.request import PreparedRequest, pieces_of
from multiturn.model.settings import Choice, JsonSchema
from multiturn.model.turns import Call, Thinking, Turn, Turns
from multiturn.providers import reading, settings
from multiturn.providers.reading import BodyForm, MediaReader, Piece
from multiturn.providers.settings import Key, Values

_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_ROLES = {"user": "user", "assistant": "model"}
_TYPES = {f".{name}": media_type for media_type, name in EXTENSIONS.items()}
_NAMES_OF_TYPES = {"audio/mpeg": "audio/mp3"}  # what Gemini's guide calls them


def write_content(request: PreparedRequest) -> dict[str, Any]:
    """Return the body of a request; the model is in its path."""
    system, form = request.system, request.settings.response_format
    written = settings.write_settings(request.settings, KEYS)
    config = written.pop("generationConfig", {})
    if form not in (None, "text"):
        config["responseMimeType"] = "application/json"
    if isinstance(form, JsonSchema):
        config["responseJsonSchema"] = form.schema
    tools = (structs.replace(tool, strict=None) for tool in request.tools)
    declared = [reading.write_tool(t, "parametersJsonSchema", t.parameters) for t in tools]
    body: dict[str, Any] = {
        "contents": _contents(request.messages),
        "systemInstruction": system and {"parts": [{"text": system.content}], "role": "user"},
        "tools": [{"functionDeclarations": declared}] if declared else None,
        "toolConfig": written.pop("toolConfig", None),
        "generationConfig": config,
    }
    return settings.with_body({**body, **written}, request.settings)


def _contents(messages: Turns) -> list[dict[str, Any]]:
    """Return contents; the results of a turn are one, without other parts (T4)."""
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


def _choice(choice: Choice) -> dict[str, Any]:
    if isinstance(choice, str):
        return {"mode": _MODES[choice]}
    return {"mode": "ANY", "allowedFunctionNames": [choice["name"]]}


_MODES_READ = {mode: choice for choice, mode in _MODES.items()}
_READ = ("systemInstruction", "contents", "tools", "model")
_SNAKE = re.compile("_([a-z])")
# Keys of what programs write, whose own keys and values are left as they are.
OF_PROGRAMS = (
    *("args", "arguments", "input", "response"),
    *("input_schema", "parameters", "parametersJsonSchema", "properties"),
)


def read_content(body: Mapping[str, Any], media: MediaReader) -> PreparedRequest:
    """Return the request that a body was written of; the name of the model is not in it."""
    body = camel(body)
    if body.get("cachedContent"):
        what = "refers to messages that Google stores; import a request that has all of them"
        raise MultiturnError(f"cachedContent {what}")
    reader = _Reader(media)
    system = reading.texts(_pieces_in(_with_role(body.get("systemInstruction"))))
    contents = reading.mappings(_listed(body.get("contents")))
    form, body = _read_format(body)
    listed = (each.get("functionDeclarations") for each in reading.mappings(body.get("tools")))
    declared = (each for functions in listed for each in reading.mappings(functions))
    return PreparedRequest(
        messages=tuple(found for each in contents for found in reader.turns(each)),
        system=reading.turn("system", system, media) if system else None,
        model=str(body.get("model") or ""),
        tools=tuple(reading.read_tool({**each, "parameters": _schema(each)}) for each in declared),
        settings=structs.replace(settings.read_settings(body, KEYS, _READ), response_format=form),
    )


def camel(value: Any) -> Any:
    """Return a body with the keys of its REST form; SDKs and proxies write snake_case, too."""
    if isinstance(value, list):
        return [camel(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for key, child in value.items():
        name = _SNAKE.sub(lambda match: match[1].upper(), key)
        name = key if name in value else name  # of two spellings, none hides the other
        found[name] = child if name in OF_PROGRAMS else camel(child)
    return found


def _listed(contents: Any) -> list[Any]:
    """Return contents as a list of mappings that have roles; one may stand alone."""
    listed = contents if isinstance(contents, list) else [contents]
    return [_with_role(each) for each in listed]


class _Reader:
    """Reads contents, and gives ids to calls that have none."""

    def __init__(self, media: MediaReader) -> None:
        self._media = media
        self._count = 0
        self._open: dict[str, str] = {}  # tools of the calls without a result, by their ids

    def turns(self, content: Values) -> Iterator[Turn]:
        """Yield the turns that a content is: each result is one of its own."""
        parts = [*reading.mappings(content.get("parts"))]
        if content.get("role") == "model":
            found = [piece for part in parts for piece in self._pieces(part)]
            yield from reading.assistant_turns(found, self._media)
            return
        results = [each["functionResponse"] for each in parts if "functionResponse" in each]
        for result in results:
            yield self._result(result)
        said = [*_pieces_in(content)]
        if said or not results:
            yield reading.turn("user", said, self._media)

    def _pieces(self, part: Values) -> Iterator[Piece]:
        if "functionCall" in part:
            yield self._call(part)
        elif thoughts := _thoughts(part):
            yield from thoughts
        else:
            yield from _pieces_in({"parts": [part]})

    def _call(self, part: Values) -> Call:
        given = part["functionCall"]
        if not isinstance(given, dict):
            raise MultiturnError("a functionCall is not an object")
        self._count += 1
        call_id, name = given.get("id") or f"call_{self._count}", given.get("name")
        self._open[str(call_id)] = str(name)
        return reading.read_call(
            call_id, name, given.get("args") or {}, part.get("thoughtSignature")
        )

    def _result(self, given: Any) -> Turn:
        if not isinstance(given, dict):
            raise MultiturnError("a functionResponse is not an object")
        call_id = given.get("id")
        if not call_id:  # it is of the first call of the tool that has no result
            name = str(given.get("name"))
            call_id = next((each for each in self._open if self._open[each] == name), call_id)
        self._open.pop(str(call_id), None)
        is_error, said = False, json.dumps(given.get("response"), ensure_ascii=False)
        match given.get("response"):
            case {"output": str(text), **others} if not others:
                said = text
            case {"error": str(text), **others} if not others:
                is_error, said = True, text
        pieces = [*([said] if said or "parts" not in given else []), *_pieces_in(given)]
        return reading.turn("tool", pieces, self._media, answers=call_id, is_error=is_error)


def _pieces_in(content: Any) -> Iterator[Any]:
    """Yield the texts of a content that are no thoughts, and the media."""
    for part in reading.mappings(content.get("parts")) if isinstance(content, dict) else ():
        match part:
            case {"thought": True}:
                pass
            case {"text": str(text)}:
                yield text
            case {"inlineData": {"data": str(data), **more}}:
                kind, name = str(more.get("mimeType")), more.get("displayName")
                named = {"name": name} if isinstance(name, str) and name else {}
                yield {"type": kind_of_type(kind), "value": reading.data_uri(data, kind), **named}
            case {"fileData": {"fileUri": str(url), **more}}:
                yield {"type": kind_of_type(str(more.get("mimeType"))), "value": url}


def _thoughts(part: Values) -> list[Thinking]:
    """Return a part that is a thought as a block of thinking; none of any other part."""
    if part.get("thought") is not True:
        return []
    return [reading.thinking_of("gemini", part.get("text"), part.get("thoughtSignature"))]


def _schema(given: Values) -> Any:
    """Return the parameters of a function as a JSON Schema."""
    schema = given.get("parametersJsonSchema")
    return _lower(given.get("parameters")) if schema is None else schema


def _lower(schema: Any) -> Any:
    """Return a schema of Gemini's as a JSON Schema, whose types are in lower case."""
    if isinstance(schema, list):
        return [_lower(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _lower(child) for key, child in schema.items()}
    if isinstance(schema.get("type"), str):
        found["type"] = schema["type"].lower()
    return found


def _read_choice(config: Any) -> Choice | None:
    match config:
        case {"mode": "ANY", "allowedFunctionNames": [str(name)]}:
            return {"name": name}
        case {"mode": str(mode), **rest} if not rest:
            return _MODES_READ.get(mode)
    return None


def _read_format(body: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    """Return the form that an answer must have, and the body without it."""
    match body.get("generationConfig"):
        case {"responseMimeType": "application/json", **config}:
            schema = config.pop("responseJsonSchema", None)
            form = JsonSchema(schema=schema) if isinstance(schema, dict) else "json"
            return form, {**body, "generationConfig": config}
    return None, body


_CONFIG = "generationConfig"
KEYS: settings.Keys = {
    "temperature": Key(f"{_CONFIG}.temperature", float),
    "max_output_tokens": Key(f"{_CONFIG}.maxOutputTokens"),
    "tool_choice": Key("toolConfig.functionCallingConfig", _choice, _read_choice),
    "top_p": Key(f"{_CONFIG}.topP"),
    "top_k": Key(f"{_CONFIG}.topK"),
    "stop": Key(f"{_CONFIG}.stopSequences", list, tuple),
    "seed": Key(f"{_CONFIG}.seed"),
    "frequency_penalty": Key(f"{_CONFIG}.frequencyPenalty"),
    "presence_penalty": Key(f"{_CONFIG}.presencePenalty"),
    "reasoning_effort": Key(
        f"{_CONFIG}.thinkingConfig.thinkingLevel",
        str.upper,
        lambda level: str(level).lower(),
        ("minimal", "low", "medium", "high", "xhigh"),
    ),
    "reasoning_tokens": Key(f"{_CONFIG}.thinkingConfig.thinkingBudget"),
    # It is in two keys, which ``write_content`` and ``read_content`` know.
    "response_format": Key(f"{_CONFIG}.responseMimeType", lambda _: None, lambda _: None),
    "service_tier": Key("serviceTier"),
}


def _same(body: Values) -> Values:
    """Return a body in camelCase, with its contents as a list of mappings that have roles."""
    same: Values = camel(body)
    same["contents"] = _listed(same.get("contents"))
    same["systemInstruction"] = _with_role(same.get("systemInstruction"), role="user")
    return reading.same_spelling(same, defaults=(("thought", False),), programs=OF_PROGRAMS)


def _with_role(content: Any, **role: str) -> Any:
    """Return a content as a mapping with a role; a text stands for one."""
    if isinstance(content, str):
        content = {"parts": [{"text": content}]}
    return {"role": "user", **content, **role} if isinstance(content, dict) else content


FORM = BodyForm(
    write_content,
    read_content,
    lambda body: 4 if "contents" in body else 0,
    _same,
    lambda _: {},
    _thoughts,
    keys=KEYS,
    # From the types of google-genai 3.4.0, on 22 November 2026; the API also takes snake_case.
    closed=(
        *(*_READ, "cachedContent", "cached_content", "generation_config"),
        *("system_instruction", "tool_config"),
    ),
)
