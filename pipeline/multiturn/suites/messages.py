"""What other tools write as messages, as nodes of messages."""

import re
from typing import TypeGuard

import msgspec

from multiturn.documents.json_lines import node_of, read_json, values_in_json
from multiturn.documents.node import Node, list_of
from multiturn.errors import InputError, MultiturnError
from multiturn.model.turns import ROLES
from multiturn.suites.keys import OF_MESSAGES, ROLE_NAMES, KeyCheck
from multiturn.suites.media import as_segment, is_of_other_tool

_OF_PLAIN = {"role", "content"}
_MESSAGES = r"input_messages(?:\[(\d+)\](?:\.content\[(\d+)\])?)?"
_HALF = r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
PROMPT_FILE = "PROMPT.md"


class WrittenMessage(msgspec.Struct, frozen=True, gc=False):
    """Where a message was before its blocks were rewritten as messages and calls."""

    name: str
    first: int = 0  # index of its first segment, in the content as written
    calls: int | None = None  # index of its first call there; None if calls have a key


class Wording(msgspec.Struct, frozen=True, gc=False):
    """What errors call the messages of a case: by the key that somebody wrote."""

    case: str  # what errors call the case
    key: str = "input_messages"
    shared: int = 0  # how many of the messages are those of the suite's ``input``
    written: tuple[WrittenMessage, ...] = ()  # of each message, if any has been rewritten

    def of(self, index: int) -> str:
        """Return the name of a message."""
        if self.written:
            return self.written[index].name
        if index < self.shared:
            return f"the suite's input[{index}]"
        return f"{self.key}[{index - self.shared}]"

    def moved(self, index: int) -> str:
        """Return the name of a message; empty if it stands where it is read."""
        is_ours = self.key == "input_messages" and not self.shared and not self.written
        return "" if is_ours else self.of(index)

    def label(self, index: int) -> str:
        """Return what errors call a message and its case."""
        return f"{self.case}: {self.of(index)}"

    def first(self, index: int) -> int:
        """Return the index of a message's first segment, in the content as somebody wrote it."""
        return self.written[index].first if self.written else 0

    def call(self, index: int, at: int) -> str:
        """Return what errors call a call in a message."""
        first = self.written[index].calls if self.written else None
        return f"tool_calls[{at}]" if first is None else f"content[{first + at}]"

    def path(self, path: str) -> str:
        """Return a path below ``input_messages`` as somebody wrote it."""
        return re.sub(_MESSAGES, self._renamed, path, count=1)

    def _renamed(self, found: re.Match[str]) -> str:
        if not found[1]:
            return self.key
        index = int(found[1])
        below = f".content[{self.first(index) + int(found[2])}]" if found[2] else ""
        return f"{self.of(index)}{below}"


class _Message(msgspec.Struct, gc=False):
    """What makes a JSON list in a text one of messages; no value is kept."""

    role: msgspec.Raw


def message_nodes(given: Node, files: Node | None, check: KeyCheck, label: str) -> Node:
    """Return the messages that an input means: a list, a text, or a mapping.

    ``files`` are the paths of those that stand before a text.
    """
    mark = given.mark
    if isinstance(given.children, dict):
        messages = given.children.get("messages")
        if not _are_messages(messages):
            message = given if "role" in given.children else message_node("user", given)
            return list_of([message], mark)
        check.check(given, "input", label=label)
        given = messages
    if isinstance(given.children, list):
        if files is not None:
            raise needs_text(files, check.name, label)
        return given
    if not isinstance(given.scalar, str):
        return given  # an error, as for input_messages
    if _are_messages_in(given.scalar):
        try:
            read = node_of(read_json(given.scalar), mark)
        except ValueError as error:
            raise InputError(str(error), where=given.place(check.name, label)) from None
        return message_nodes(read, files, check, label)
    if files is not None:
        segments = [
            Node(None, path.mark, None, {"type": Node("file", path.mark), "value": path})
            for path in files.children
        ]
        given = list_of([*segments, given], mark)
    return list_of([message_node("user", given)], mark)


def values_in_text(given: Node) -> int:
    """Return how many values a text has that is a JSON list of messages; 0 for any other input."""
    is_json = isinstance(given.scalar, str) and _are_messages_in(given.value)
    return values_in_json(given.value) if is_json else 0


def take_tools(keys: dict[str, Node], key: str, check: KeyCheck, label: str) -> None:
    """Write the tools beside the messages of an input as those of its case or suite."""
    inner = keys[key].members if key in keys else {}
    tools = inner.get("tools")
    if tools is None or tools.value is None or not _are_messages(inner.get("messages")):
        return
    if "tools" in keys:
        raise check.both("tools", f"{key}.tools", tools, label)
    keys["tools"] = tools


def needs_text(files: Node, suite: str, label: str) -> MultiturnError:
    """Return the error for files beside what is not a text."""
    paths = [path for path in files.value if isinstance(path, str)]
    if any(path.rpartition("/")[2] == PROMPT_FILE for path in paths):
        what = f"{PROMPT_FILE} is not read as the input; write its text as input"
    else:
        what = (
            "input_files stand before an input that is text;"
            " attach files in the messages, as {type: file, value: PATH}"
        )
    return InputError(what, where=files.key_place(suite, label))


def are_plain(messages: list[Node]) -> bool:
    """Return whether all messages are texts of roles of ours, as most are; quick."""
    for message in messages:
        keys = message.children
        if not isinstance(keys, dict) or keys.keys() != _OF_PLAIN or keys["content"].children:
            return False
        if keys["role"].scalar not in ROLES:
            return False
    return True


def rewrite(
    message: Node, check: KeyCheck, wording: Wording, index: int, read_as: dict[str, str]
) -> None:
    """Rewrite what is not ours in a message, in place; ``read_as`` gets what that is."""
    keys: dict[str, Node] = message.children
    content, calls = keys.get("content"), keys.get("tool_calls")
    role = keys["role"].scalar if "role" in keys else None
    if role == "function":
        what = "the role function is OpenAI's old form; write role: tool, with tool_call_id"
        raise InputError(what, where=keys["role"].place(check.name, wording.label(index)))
    if not keys.keys() <= OF_MESSAGES:
        check.refuse(message, "message", label=wording.label(index))
    if calls is not None and calls.value and (content is None or content.is_null):
        keys["content"] = content = list_of((), message.mark)
    if isinstance(role, str) and role in ROLE_NAMES:
        read_as[f"role {role}"] = ROLE_NAMES[role]
        keys["role"].scalar = ROLE_NAMES[role]
    if content is None or content.children is None:
        return
    is_list = isinstance(content.children, list)
    for number, part in enumerate(content.children if is_list else [content]):
        if not isinstance(part.children, dict) or not is_of_other_tool(part):
            continue
        key = f"content[{wording.first(index) + number}]" if is_list else "content"
        segment = as_segment(part, check, f"{wording.label(index)}.{key}")
        read_as[f"type {part.value['type']}"] = segment.children["type"].value
        if is_list:
            content.children[number] = segment
        else:
            keys["content"] = segment


def message_node(role: str, content: Node) -> Node:
    """Return a message."""
    keys = {"role": Node(role, content.mark), "content": content}
    return Node(None, content.mark, None, keys, content.size)


def _are_messages(given: Node | None) -> TypeGuard[Node]:
    nodes = given.children if given is not None else None
    return isinstance(nodes, list) and bool(nodes) and all("role" in n.members for n in nodes)


def _are_messages_in(text: str) -> bool:
    """Return whether a text is a JSON list of messages."""
    # msgspec refuses half of a character, which is for ``read_json`` to say.
    return text.lstrip()[:1] == "[" and (_is_list(text) or _is_list(re.sub(_HALF, "", text)))


def _is_list(text: str) -> bool:
    try:
        return bool(msgspec.json.decode(text, type=list[_Message]))
    except (msgspec.MsgspecError, RecursionError):
        return False
