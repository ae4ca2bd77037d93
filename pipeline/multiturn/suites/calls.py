"""Calls of tools, their results and thinking, in the messages of a suite."""

import json
from collections.abc import Iterable
from typing import Any

from multiturn.documents.node import Node
from multiturn.documents.validation import read_as
from multiturn.errors import MultiturnError, cut, did_you_mean, nearest, quoted
from multiturn.model.case import TestMessage
from multiturn.model.turns import Call, Thinking, Tool, unpaired
from multiturn.suites.keys import KeyCheck
from multiturn.suites.messages import Wording
from multiturn.suites.schema import CallKeys, HiddenKeys, ThinkingKeys
from multiturn.text import in_line

MAX_NAMED = 20  # tools that an error lists
_BLOCKS = ("thinking", "redacted_thinking")


def is_thinking(segment: Any) -> bool:
    """Return whether a segment of a content is a block of thinking."""
    return isinstance(segment, dict) and segment.get("type") in _BLOCKS


def read_calls(message: Node, check: KeyCheck, wording: Wording, index: int) -> tuple[Call, ...]:
    """Return the calls of a message, whose shape has been checked."""
    listed = message.children.get("tool_calls")
    if listed is None or not listed.children:
        return ()
    if message.children["role"].scalar != "assistant":
        what = "only the assistant calls tools; write tool_calls in a message of its role"
        raise MultiturnError(what, where=listed.key_place(check.name, wording.label(index)))
    return tuple(
        _call(call, check, f"{wording.label(index)}.{wording.call(index, at)}")
        for at, call in enumerate(listed.children)
    )


def read_answers(message: Node, check: KeyCheck, label: str) -> tuple[str | None, bool]:
    """Return the id of the call that a message answers, if it does, and whether the call failed."""
    answers, is_error = (message.children.get(key) for key in ("tool_call_id", "is_error"))
    if answers is not None and answers.value is not None:
        if message.children["role"].scalar != "tool":
            what = "a result has the role tool; write role: tool, or leave tool_call_id out"
            raise MultiturnError(what, where=answers.key_place(check.name, label))
        check_name(answers, "tool_call_id", check.name, label)
        return answers.value, is_error is not None and is_error.value is True
    if is_error is not None and is_error.value:
        what = "is_error is of the result of a call; add its tool_call_id"
        raise MultiturnError(what, where=is_error.key_place(check.name, label))
    return None, False


def read_thinking(message: Node, check: KeyCheck, label: str) -> tuple[Thinking, ...]:
    """Return the blocks of thinking that a message's content begins with."""
    found: list[Thinking] = []
    content = message.children["content"]
    is_list = isinstance(content.children, list)
    for at, block in enumerate(content.children if is_list else [content]):
        if not is_thinking(block.value):
            break
        key = f"content[{at}]" if is_list else "content"
        found.append(_block(block, message.children["role"].scalar, check, f"{label}.{key}"))
    return tuple(found)


def check_pairs(
    messages: tuple[TestMessage, ...], nodes: list[Node], wording: Wording, name: str
) -> None:
    """Refuse a call without its result, unless it is last, and the other way round."""
    index, call_id, wrong = unpaired(messages)
    if index >= 0:
        written = nodes[index].children
        place = written.get("tool_call_id", nodes[index])
        for call in written["tool_calls"].children if messages[index].calls else ():
            if call.children["id"].scalar == call_id:
                place = call.children["id"]
        what = f"the call {quoted(call_id)} {wrong}"
        raise MultiturnError(what, where=place.place(name, wording.label(index)))


def check_called(
    messages: tuple[TestMessage, ...],
    nodes: list[Node],
    tools: tuple[Tool, ...],
    wording: Wording,
    name: str,
) -> None:
    """Refuse a call of a tool that is not among those given, if any are."""
    names = dict.fromkeys(tool.name for tool in tools)
    for index, (message, node) in enumerate(zip(messages, nodes, strict=True)):
        for at, call in enumerate(message.calls if names else ()):
            if call.name not in names:
                what = no_tool(call.name, names)
                written = node.children["tool_calls"].children[at].children["name"]
                label = f"{wording.label(index)}.{wording.call(index, at)}"
                raise MultiturnError(what, where=written.place(name, label))


def no_tool(name: str, names: Iterable[str]) -> str:
    """Return what is wrong with the name of a tool that is not there."""
    known = [cut(each) for each in names]
    near = nearest(name, known)
    few = known if len(known) <= MAX_NAMED else [*known[:MAX_NAMED], "…"]
    return f"there is no tool {quoted(name)}; {did_you_mean(name, [near] if near else few)}"


def check_name(written: Node, key: str, name: str, label: str) -> None:
    """Refuse an id or a name that is blank, or that a transcript cannot show in a line."""
    text = written.value
    what = ""
    if not text.strip():
        what = f"{key} is blank; write it"
    elif in_line(text) != text or "\t" in text:
        what = f"{key} has a line break or a character that nobody sees; remove it"
    if what:
        raise MultiturnError(what, where=written.place(name, label))


def check_finite(written: Node, key: str, name: str, label: str) -> None:
    """Refuse ``.inf`` and ``.nan``, which JSON does not have."""
    try:
        json.dumps(written.value, allow_nan=False)
    except ValueError:
        what = f"{key}: a number in it is not finite, and JSON cannot hold it; quote it"
        raise MultiturnError(what, where=written.place(name, label)) from None


def _call(call: Node, check: KeyCheck, label: str) -> Call:
    check.check(call, "call", label=label)
    keys = read_as(call, CallKeys, where=check.name, label=label)
    for key in ("id", "name"):
        check_name(call.children[key], key, check.name, label)
    if keys.arguments:
        check_finite(call.children["arguments"], "arguments", check.name, label)
    return Call(
        keys.id, keys.name, keys.arguments or {}, keys.thought_signature or "", line=call.line
    )


def _block(block: Node, role: str, check: KeyCheck, label: str) -> Thinking:
    kind = block.children["type"].scalar
    if role != "assistant":
        what = f"only the assistant thinks; leave {kind} out, or write it as text"
        raise MultiturnError(what, where=block.place(check.name, label))
    check.check(block, kind, "block", label=label)
    if kind == "redacted_thinking":
        hidden = read_as(block, HiddenKeys, where=check.name, label=label)
        return Thinking("", hidden.signature or "", hidden.data, hidden.vendor, block.line)
    keys = read_as(block, ThinkingKeys, where=check.name, label=label)
    if keys.data and keys.vendor != "openai":
        what = "data beside the text is of OpenAI's models; write vendor: openai, or leave it out"
        raise MultiturnError(what, where=block.children["data"].key_place(check.name, label))
    signature, data = keys.signature or "", keys.data or ""
    return Thinking(keys.thinking, signature, data, keys.vendor, block.line)
