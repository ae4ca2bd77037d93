"""Messages, tools and answers in the form of the Chat Completions API.

Many other tools use this form, too.
"""

import json
import re
from contextlib import suppress
from itertools import takewhile
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from multiturn.files.media import EXTENSIONS, Base64, Media
from multiturn.model.calls import Call, Tool
from multiturn.model.request import PreparedRequest, content_of
from multiturn.model.turns import Turn
from multiturn.providers.base import ProviderResponse
from multiturn.providers.layout import Layout
from multiturn.providers.media_parts import (
    address_or_uri,
    file_name,
    move_from_results,
    want_types,
    want_user_media,
)
from multiturn.providers.tool_layout import (
    Choice,
    Names,
    leave_out_thinking,
    pair_results,
    rename_ids,
    tell_errors,
)
from multiturn.providers.usage import counts

_IDS = Names("T1", re.compile(".{1,40}", re.DOTALL))


def lay_out_for_chat(layout: Layout, *, is_asked: bool = True) -> None:
    """Repair what the Chat Completions API refuses of calls, results, thinking, media and roles.

    Args:
        layout: the messages.
        is_asked: whether a model is to answer them, and not to learn from them.
    """
    if layout.has_more:
        leave_out_thinking(layout, "T8", lambda *_: "that this API does not take")
        if is_asked:
            pair_results(layout)
        rename_ids(layout, _IDS)
        tell_errors(layout, "O15")
    layout.tools_as_user("O1")
    if layout.has_media:
        move_from_results(layout, lambda *_: False)
        want_user_media(layout, "O19")
        what = "write the path of a file"
        want_types(layout, "O20", lambda media: media.kind == "image" or not media.url, what)


SPOKEN = ("messages", "tools")  # keys of a body that the messages and the tools are in


def write_chat(request: PreparedRequest) -> dict[str, Any]:
    """Return the body of a request.

    Its form may have ``system_role``, which is ``developer``; ``max_tokens_field``, which is
    ``max_tokens``; and ``prompt_caching``, which marks the system message for the cache.
    """
    form = request.form
    role = form.get("system_role", "")
    messages = [chat_message(each, role * (each.role == "system")) for each in request.messages]
    body = {
        "messages": messages,
        "model": request.model,
        form.get("max_tokens_field", "max_completion_tokens"): request.max_output_tokens,
        "prompt_cache_options": caching_of(request, messages, "text"),
        "temperature": request.temperature,
        "tools": [chat_tool(tool) for tool in request.tools] or None,
        "tool_choice": request.tool_choice and chat_choice(request.tool_choice),
    }
    return {key: value for key, value in body.items() if value is not None}


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
        said["tool_calls"] = [_written_call(call) for call in turn.calls]
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


def _written_call(call: Call) -> dict[str, Any]:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def called(call_id: str, name: str, arguments: Any) -> Call:
    """Return a call of an answer; arguments that are no JSON object, as models write, stay text."""
    with suppress(ValueError):
        arguments = msgspec.json.decode(arguments or "{}", type=dict[str, Any])
    return Call(call_id, name, arguments)


def chat_choice(choice: Choice) -> str | dict[str, Any]:
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


class _Function(Struct):
    name: str
    arguments: Any = None


class _Call(Struct):
    id: str
    function: _Function


class _Message(Struct):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(Struct):
    message: _Message
    finish_reason: str | None = None


class ChatAnswer(Struct):
    """An answer of the API."""

    choices: Annotated[list[_Choice], Meta(min_length=1)]
    usage: Any = None


def answer_of_chat(answer: ChatAnswer) -> ProviderResponse:
    """Return the first choice of an answer; a refusal by the model is an answer, too."""
    choice = answer.choices[0]
    message = choice.message
    return ProviderResponse(
        text=message.content or message.refusal or "",
        tool_calls=tuple(
            called(call.id, call.function.name, call.function.arguments)
            for call in message.tool_calls or ()
        ),
        usage=counts(
            answer.usage,
            input_tokens="prompt_tokens",
            output_tokens="completion_tokens",
            cached_tokens="prompt_tokens_details.cached_tokens",
        ),
        finish_reason=choice.finish_reason,
        is_refusal=bool(message.refusal) or choice.finish_reason == "content_filter",
    )
