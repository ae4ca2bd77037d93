"""Cases whose messages are texts and files in our own form, as those of most are: read at once.

What is written in any other form, or may be warned of, is left to the reader of all forms.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from multiturn.documents.node import MAX_VALUES, Mark, Node
from multiturn.model.case import MAX_CASE_SIZE, MESSAGES_KEYS, TestMessage
from multiturn.model.turns import Role

MAX_PLAIN = MAX_CASE_SIZE // 3  # characters of the messages of a case, or of all else in it
_PATH = re.compile(r"\S*(?:/\S*|\.\w+)")
_LONGEST = 1000

Messages = tuple[TestMessage, ...]


def may_be_path(text: str) -> bool:
    """Return whether a text looks like a path; quick, as each text is asked for."""
    return len(text) <= _LONGEST and " " not in text and _PATH.fullmatch(text) is not None


class _Segment(Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["text", "file"]
    value: str


class _Message(Struct, forbid_unknown_fields=True, gc=False):
    role: Role
    content: str | list[str | _Segment]


class _Line(Struct, forbid_unknown_fields=True):
    """The keys of a case that has no others than most have."""

    id: str | None = None
    outcome: str | None = None
    input_messages: list[_Message] = []
    input: list[_Message] = []
    messages: list[_Message] = []


class PlainCase(Struct):
    """A case of a line of JSON, or of a mapping."""

    id: str | None
    outcome: str | None
    key: str  # which has the messages
    messages: Messages
    mark: Mark


_decode = msgspec.json.Decoder(_Line).decode


def plain_line(line: bytes, mark: Mark) -> PlainCase | None:
    """Return the case of a line of JSON; None if it is for the reader of all forms."""
    if len(line) > MAX_PLAIN:
        return None
    try:
        given = _decode(line)
    except ValueError:
        return None
    case = _case(given, mark)
    if case is None:
        return None
    # Of equal keys, msgspec keeps the last one. So the line must have no more texts than the case.
    texts = 1 + 2 * (given.id is not None) + 2 * (given.outcome is not None)
    for message in case.messages:
        texts += 3
        if isinstance(message.content, str):
            texts += 1
        else:
            texts += sum([1 if isinstance(each, str) else 4 for each in message.content])
    escaped = line.count(b'"') - 2 * texts
    if escaped and (escaped != line.count(b'\\"') or b"\\\\" in line):
        return None  # a backslash before a quote may be escaped itself
    return case if 2 * texts < MAX_VALUES else None


def plain_mapping(given: Any) -> PlainCase | None:
    """Return the case of a mapping of a program; None if it is for the reader of all forms."""
    try:
        line = msgspec.convert(given, _Line)
        msgspec.json.encode(line)  # refuses half of a character
    except ValueError:
        return None
    return _case(line, Mark(-1, -1))


def plain_messages(keys: Mapping[str, Node], outcome: Any) -> Messages | None:
    """Return the messages of a case in a suite; None if it is for the reader of all forms."""
    listed = keys.get("input_messages")
    if listed is None or not isinstance(listed.children, list):
        return None
    try:
        # A struct takes half of the time that msgspec needs for a list[_Message].
        line = msgspec.convert({"input_messages": listed.value, "outcome": outcome}, _Line)
    except msgspec.ValidationError:
        return None
    return _messages(line, "input_messages", listed.mark, listed.children)


def _case(line: _Line, mark: Mark) -> PlainCase | None:
    keys = [key for key in MESSAGES_KEYS if getattr(line, key)]
    is_blank = line.id is not None and not line.id.strip()
    if len(keys) != 1 or is_blank:
        return None
    messages = _messages(line, keys[0], mark)
    if messages is None or (keys[0] == "messages" and messages[-1].role == "assistant"):
        return None  # the last message may be an answer
    return PlainCase(line.id, line.outcome, keys[0], messages, mark)


def _messages(given: _Line, key: str, mark: Mark, nodes: Sequence[Node] = ()) -> Messages | None:
    """Return messages at the places of their nodes, or all at one place."""
    found: list[TestMessage] = []
    size, outcome = 0, given.outcome or ""
    if "{{" in outcome or len(outcome) > MAX_PLAIN:
        return None
    line, column = mark.line + 1, mark.column + 1
    for at, message in enumerate(getattr(given, key)):
        content, count = message.content, 1
        if isinstance(content, str):
            if "{{" in content or may_be_path(content):
                return None  # it may be a template, or the path of a file
            size += len(content)
        else:
            for segment in content:
                if isinstance(segment, str):
                    text, is_file = segment, False
                else:
                    text, is_file = segment.value, segment.type == "file"
                if "{{" in text or (":" in text if is_file else may_be_path(text)):
                    return None  # the path of a file may be an address
                size += len(text)
            content, count = msgspec.to_builtins(content), len(content)
        if not nodes:
            lines, columns = (line,) * count, (column,) * count
        else:
            node, line = nodes[at].children["content"], nodes[at].mark.line + 1
            lines, columns = (node.mark.line + 1,), (node.mark.column + 1,)
            if node.children is not None:
                lines = tuple([segment.mark.line + 1 for segment in node.children])
                columns = tuple([segment.mark.column + 1 for segment in node.children])
        name = "" if key == "input_messages" else f"{key}[{at}]"
        found.append(TestMessage(message.role, content, line, lines, name, content_columns=columns))
    return tuple(found) if found and size <= MAX_PLAIN else None
