"""The messages that a suite expects as an answer, in whatever form it has them."""

import json
from contextlib import suppress
from typing import Any

from multiturn.files.media import FILE_TYPES, is_data
from multiturn.model.calls import Call
from multiturn.model.request import ChatMessage, turn_of
from multiturn.model.turns import Part, Turn
from multiturn.providers.anthropic.blocks import use_keys
from multiturn.providers.openai.blocks import call_keys
from multiturn.suites.block_forms import segment_of


def expected_messages(expected: Any) -> tuple[ChatMessage, ...]:
    """Return the messages that a suite expects; of several texts, the first.

    >>> expected_messages(["Paris", "Paris, France"])
    (ChatMessage(role='assistant', content='Paris'),)
    """
    match expected:
        case None:
            return ()
        case dict():
            return (_message(expected),)
        case [*items] if all(isinstance(item, dict) for item in items):
            return tuple(map(_message, items))
        case [first, *_]:
            return (ChatMessage("assistant", text_of(first)),)
    return (ChatMessage("assistant", text_of(expected)),)


def expected_turns(expected: Any) -> list[Turn]:
    """Return the messages that a suite expects, with calls in the form of any tool.

    >>> [call] = [{"id": "c1", "function": {"name": "now", "arguments": "{}"}}]
    >>> [turn] = expected_turns({"role": "assistant", "content": None, "tool_calls": [call]})
    >>> turn.content, turn.calls
    ('', (Call(id='c1', name='now'),))
    """
    items = expected if isinstance(expected, list) else [expected]
    messages = expected_messages(expected)
    if not all(isinstance(item, dict) for item in items):
        return list(map(turn_of, messages))
    return [_turn(message, item) for message, item in zip(messages, items, strict=True)]


def _turn(message: ChatMessage, item: dict[str, Any]) -> Turn:
    """Return a message with its calls; if one of them is none that is known, all are JSON."""
    content, listed = item.get("content"), item.get("tool_calls") or []
    segments = content if isinstance(content, list) else []
    uses = [each for each in segments if isinstance(each, dict) and each.get("type") == "tool_use"]
    calls = [*map(_call, listed if isinstance(listed, list) else [listed]), *map(_call, uses)]
    known = tuple(call for call in calls if call is not None)
    text = message.text
    if calls and len(known) == len(calls):
        text = text_of([each for each in segments if each not in uses]) if uses else text
        text = "" if content is None else text
    else:
        known = ()
    answers = item.get("tool_call_id") if message.role == "tool" else None
    parts = (Part("text", text),)
    is_answer = isinstance(answers, str)
    return Turn(message.role, parts, calls=known, answers=answers if is_answer else None)


def _call(item: Any) -> Call | None:
    """Return a call in our own form, OpenAI's, inspect_ai's or Anthropic's; None for another."""
    match item:
        case {"function": dict(function)}:
            keys = call_keys(item, function)
        case {"function": str(tool)}:
            keys = {**item, "name": tool}
        case dict():
            keys = {**item, **use_keys(item)}
        case _:
            return None
    called, named, given = (keys.get(key) for key in ("id", "name", "arguments"))
    if not isinstance(called, str) or not isinstance(named, str):
        return None
    given = {} if given is None else given
    if isinstance(given, str):
        with suppress(ValueError):
            given = json.loads(given)
    return Call(called, named, given) if isinstance(given, dict) else None


def _message(item: dict[str, Any]) -> ChatMessage:
    """Return a message; one without content, such as a tool call, becomes JSON."""
    content = item.get("content")
    if content is None:
        content = {key: item[key] for key in item if key not in ("role", "content")}
    return ChatMessage(item.get("role", "assistant"), text_of(content))


def text_of(content: Any) -> str:
    r"""Return content of a message as text: segments a line each, and what is no text as JSON.

    >>> text_of(["Here:", {"type": "image", "value": "a.png"}, {"sum": 5}])
    'Here:\n[image: a.png]\n{\n  "sum": 5\n}'
    """
    match content:
        case None:
            return ""
        case str(text) | {"type": "text", "value": str(text)}:
            return text
        case list():
            return "\n".join(map(text_of, content))
        case {"type": str(kind), "value": str(value)} if kind in FILE_TYPES:
            name = content.get("name") or (kind if is_data(value) else value)
            return f"[{kind}: {name}]"
        case dict() if (segment := segment_of(content)) is not None:
            return text_of(segment)
    return json.dumps(content, indent=2, ensure_ascii=False)
