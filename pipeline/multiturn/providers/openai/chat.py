"""Messages, tools and answers in the form of Chat Completions, which many other tools use, too."""

import json
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any, TypeVar

from multiturn.errors import MultiturnError
from multiturn.files.media import EXTENSIONS, Base64, Detail, Media, address_or_uri, file_name
from multiturn.model.request import PreparedRequest, content_of
from multiturn.model.settings import Choice
from multiturn.model.turns import Call, Tool, Turn
from multiturn.providers import reading, settings
from multiturn.providers.reading import BodyForm, MediaReader
from multiturn.providers.settings import Key, Values

_V = TypeVar("_V")
# The keys of each form; those that may be None may be missing.
FORMS: Mapping[str, Mapping[str, Any]] = {
    "text": {"type": str, "text": str},
    "image_url": {"type": str, "image_url": Values | str},
    "image_url.image_url": {"url": str, "detail": Detail | None},
    "file": {"type": str, "file": Values},
    "file.file": {"file_data": str, "filename": str | None},
    "input_audio": {"type": str, "input_audio": Values},
    "input_audio.input_audio": {"data": str, "format": str},
    "input_image": {"type": str, "image_url": str, "detail": Detail | None},
    "input_file": {
        "type": str,
        **dict.fromkeys(("file_data", "file_url", "filename"), str | None),
        "detail": Detail | None,
    },
}


def read_segment(block: Mapping[str, Any]) -> reading.Segment | None:
    """Return a text or media as a segment of ours; None for any other block."""
    match block:
        case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
            return reading.segment("text", text)
        case {"type": "image_url", "image_url": {"url": str(url), **keys}}:
            return reading.segment("image", url, keys)
        case {"type": "image_url" | "input_image", "image_url": str(url), **keys}:
            return reading.segment("image", url, keys)
        case {"type": "file", "file": {"file_data": str(data), **keys}}:
            return reading.segment("file", reading.data_uri(data), keys)
        case {"type": "input_file", "file_data": str(data), **keys}:
            return reading.segment("file", reading.data_uri(data), keys)
        case {"type": "input_file", "file_url": str(url), **keys}:
            return reading.segment("document", url, keys)
        case {"type": "input_audio", "input_audio": {"data": str(data), **keys}}:
            return reading.segment("audio", reading.data_uri(data, f"audio/{keys.get('format')}"))
    return None


def call_keys(call: Mapping[str, _V], function: Mapping[str, _V]) -> dict[str, _V]:
    """Return the keys of a call as ours; ``function`` is what the call has under that key.

    >>> call_keys({"id": "c1"}, {"name": "now", "arguments": "{}"})
    {'id': 'c1', 'name': 'now', 'arguments': '{}'}
    """
    others = {key: value for key, value in call.items() if key not in ("type", "function")}
    return {**others, **{key: function[key] for key in ("name", "arguments") if key in function}}


def pieces(content: Any) -> Iterator[Any]:
    """Yield the texts and the media of a content.

    >>> [*pieces([{"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": "a"}])]
    ['Hi', {'type': 'image', 'value': 'a'}]
    """
    return reading.pieces_of_blocks(content, read_segment)


def write_chat(request: PreparedRequest) -> dict[str, Any]:
    """Return the body of a request.

    Its form may have ``system_role``, which is ``developer``; ``max_tokens_field``, which is
    ``max_tokens``; and ``prompt_caching``, which marks the system message for the cache.
    """
    form = request.form
    role, limit = form.get("system_role", ""), form.get("max_tokens_field", _LIMITS[0])
    messages = [chat_message(each, role * (each.role == "system")) for each in request.messages]
    keys = {**KEYS, "max_output_tokens": Key(limit)}
    written = settings.write_settings(request.settings, keys)
    body = {
        "messages": messages,
        "model": request.model,
        limit: written.pop(limit, None),
        "prompt_cache_options": caching_of(request, messages, "text"),
        "temperature": written.pop("temperature", None),
        "tools": [chat_tool(tool) for tool in request.tools] or None,
    }
    return settings.with_body({**body, **written}, request.settings)


def caching_of(request: PreparedRequest, messages: list[Any], text_type: str) -> Any:
    """Mark the system message for the cache, if that is wanted; return how prompts are cached.

    Without a system message nothing is marked, and the vendor caches nothing of the request.
    """
    if not request.form.get("prompt_caching"):
        return None
    mode = {"mode": "explicit"}
    leading = takewhile(lambda message: message.role == "system", request.messages)
    if at := len(list(leading)):
        last = messages[at - 1]
        text = {"type": text_type, "text": last["content"], "prompt_cache_breakpoint": mode}
        messages[at - 1] = {**last, "content": [text]}
    return mode


def chat_message(turn: Turn, role: str = "") -> dict[str, Any]:
    """Return a turn as a message, without thinking; ``role`` is another name of its role.

    Images, documents and audio in it have a ``Base64`` where their bytes belong.

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
        said["tool_calls"] = []
        for call in turn.calls:
            arguments = json.dumps(call.arguments, ensure_ascii=False)
            function = {"name": call.name, "arguments": arguments}
            said["tool_calls"].append({"id": call.id, "type": "function", "function": function})
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


def chat_tool(tool: Tool) -> dict[str, Any]:
    """Return the definition of a tool.

    >>> chat_tool(Tool("now", "The time."))
    {'type': 'function', 'function': {'name': 'now', 'description': 'The time.'}}
    """
    return {"type": "function", "function": reading.write_tool(tool, "parameters", tool.parameters)}


_OLD = ("functions", "function_call")
_READ = ("messages", "model", "tools")
_LIMITS = ("max_completion_tokens", "max_tokens")


def read_chat(body: Mapping[str, Any], media: MediaReader) -> PreparedRequest:
    """Return the request that a body was written of."""
    if old := [key for key in _OLD if body.get(key)]:
        raise MultiturnError(f"{old[0]} is OpenAI's old form, which is not read")
    given = [*reading.mappings(body.get("messages"))]
    limits = [key for key in _LIMITS if body.get(key) is not None]
    form = role_form(given)
    if limits[:1] == ["max_tokens"]:
        form["max_tokens_field"] = "max_tokens"
    functions = (each.get("function") for each in functions_of(body))
    caching = body.get("prompt_cache_options")
    is_ours = caching == {"mode": "explicit"}
    read = (*_READ, *limits[1:], *(["prompt_cache_options"] if is_ours else []))
    keys = {**KEYS, "max_output_tokens": Key((*limits, *_LIMITS)[0])}
    return PreparedRequest(
        messages=tuple(
            found
            for at, each in enumerate(given)
            for found in _read_message(each, f"messages[{at}]", media)
        ),
        model=str(body.get("model") or ""),
        tools=tuple(reading.read_tool(each) for each in functions if isinstance(each, dict)),
        settings=settings.read_settings(body, keys, read),
        form={**form, **({"prompt_caching": True} if is_ours else {})},
    )


def _read_message(given: Values, key: str, media: MediaReader) -> Iterator[Turn]:
    content = given.get("content")
    match given.get("role"):
        case "system" | "developer":
            yield reading.turn("system", reading.texts(pieces(content)), media)
        case "user":
            yield reading.turn("user", pieces(content), media)
        case "assistant":
            listed = enumerate(reading.mappings(given.get("tool_calls")))
            calls = [_read_call(each, f"{key}.tool_calls[{at}]") for at, each in listed]
            yield from reading.assistant_turns([*said_in(given), *calls], media)
        case "tool":
            yield reading.turn("tool", pieces(content), media, answers=given.get("tool_call_id"))
        case "function":
            raise MultiturnError(f"{key}: the role function is OpenAI's old form, not read")


def _read_call(given: Values, key: str) -> Call:
    function = given.get("function")
    if not isinstance(function, dict):
        raise MultiturnError(f"{key} is not a call of a function")
    keys = call_keys(given, function)
    arguments = reading.decoded(keys.get("arguments"), f"{key}.function.arguments")
    return reading.read_call(keys.get("id"), keys.get("name"), arguments)


def said_in(given: Values) -> list[str]:
    """Return the texts of an assistant's message, or else of its refusal."""
    content = given.get("content")
    refusals = [each.get("refusal") for each in (*reading.mappings(content), given)]
    return reading.texts(pieces(content)) or reading.texts(refusals)


def functions_of(body: Mapping[str, Any]) -> Iterator[Values]:
    """Yield the tools that are functions of the caller's, not of the vendor's."""
    return (each for each in reading.mappings(body.get("tools")) if each.get("type") == "function")


def read_choice(choice: Any) -> Choice | None:
    """Return whether the model must call a tool; None for what has no place in a request."""
    match choice:
        case "auto" | "none" | "required":
            return str(choice)
        case {"type": "function", "function": {"name": str(name)}}:
            return {"name": name}
        case {"type": "function", "name": str(name)}:
            return {"name": name}
    return None


def role_form(messages: list[Values]) -> Values:
    """Return the form of messages whose system messages are the developer's."""
    roles = [each.get("role") for each in messages]
    is_developer = "developer" in roles and "system" not in roles
    return {"system_role": "developer"} if is_developer else {}


def _stops(written: Any) -> Any:
    """Return the texts before which an answer ends: one may stand alone."""
    return tuple(written) if isinstance(written, list) else (written,)


KEYS: settings.Keys = {
    "temperature": Key("temperature"),
    "tool_choice": Key(
        "tool_choice",
        lambda it: it if isinstance(it, str) else {"type": "function", "function": {**it}},
        read_choice,
    ),
    "top_p": Key("top_p"),
    "stop": Key("stop", list, _stops),
    "seed": Key("seed"),
    "frequency_penalty": Key("frequency_penalty"),
    "presence_penalty": Key("presence_penalty"),
    "reasoning_effort": Key("reasoning_effort"),
    "response_format": Key("response_format", settings.write_format, settings.read_format),
    "parallel_tool_calls": Key("parallel_tool_calls"),
    "verbosity": Key("verbosity"),
    "service_tier": Key("service_tier"),
}


# What only bodies of OpenAI's have, among those with messages.
_ROLES = ("developer", "tool", "function")


def _likeness(body: Values) -> int:
    messages, tools = ([*reading.mappings(body.get(key))] for key in ("messages", "tools"))
    roles = [each.get("role") for each in messages]
    is_sure = (
        roles[:1] == ["system"]
        or any(each in roles for each in _ROLES)
        or any("tool_calls" in each for each in messages)
        or any("function" in each for each in tools)
    )
    return 3 if is_sure else 1


def _same(body: Values) -> Any:
    stop = {} if body.get("stop") is None else {"stop": [*_stops(body["stop"])]}
    return reading.same_spelling(
        {**body, **stop},
        contents=("content",),
        defaults=(("detail", "auto"), ("type", "function")),
        programs=("parameters",),
    )


FORM = BodyForm(
    write_chat,
    read_chat,
    _likeness,
    _same,
    lambda request: dict(request.form),
    keys={**KEYS, "max_output_tokens": Key(_LIMITS[0])},
    # From the types of openai 3.52.0 on 22 November 2026; the last two from vLLM's.
    closed=(
        *(*_READ, *_LIMITS, "audio", "functions", "function_call", "modalities", "prediction"),
        *("prompt_cache_options", "web_search_options", "chat_template", "documents"),
    ),
)
