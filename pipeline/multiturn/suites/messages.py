"""What other tools write as messages, calls, results and thinking, as nodes of ours."""

import json
import re
from contextlib import suppress
from typing import Any, TypeGuard

import msgspec
from msgspec import structs

from multiturn.documents.json_lines import node_of, read_json, read_value, values_in_json
from multiturn.documents.node import Node, Repeats, list_of, with_keys
from multiturn.documents.validation import read_as
from multiturn.errors import InputError, MultiturnError, RepeatsError, quoted
from multiturn.model.turns import ROLES
from multiturn.suites.keys import OF_MESSAGES, ROLE_NAMES, KeyCheck, block_forms, value_at
from multiturn.suites.media import as_segment, is_of_other_tool

_OF_PLAIN = {"role", "content"}
_MESSAGES = r"input_messages(?:\[(\d+)\](?:\.content\[(\d+)\])?)?"
_HALF = r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
PROMPT_FILE = "PROMPT.md"
_NO_OBJECT = "arguments are not a JSON object"
_OF_CALLS = {"tool_calls", "tool_call_id"}
_BLOCKS = ("tool_use", "tool_result", "reasoning")
_MISPLACED = {  # among text
    "tool_use": "a call comes after text and thinking; write it last",
    "tool_result": "a result comes before text; write it first",
}


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
    what = "input_files stand before an input that is text"
    what += "; attach files in the messages, as {type: file, value: PATH}"
    if any(path.rpartition("/")[2] == PROMPT_FILE for path in paths):
        what = f"{PROMPT_FILE} is not read as the input; write its text as input"
    return InputError(what, where=files.key_place(suite, label))


def _are_plain(messages: list[Node]) -> bool:
    """Return whether all messages are texts of roles of ours, as most are; quick."""
    for message in messages:
        keys = message.children
        if not isinstance(keys, dict) or keys.keys() != _OF_PLAIN or keys["content"].children:
            return False
        if keys["role"].scalar not in ROLES:
            return False
    return True


def _rewrite(
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
    for key, part in segments_by_key(message, wording.first(index)).items():
        if isinstance(part.children, dict) and is_of_other_tool(part):
            segment = as_segment(part, check, f"{wording.label(index)}.{key}")
            read_as[f"type {part.value['type']}"] = segment.children["type"].value
            part.children = segment.children


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
    for known in (text, re.sub(_HALF, "", text)) if text.lstrip()[:1] == "[" else ():
        with suppress(msgspec.MsgspecError, RecursionError):
            return bool(msgspec.json.decode(known, type=list[_Message]))
    return False


def as_ours(
    messages: Node, check: KeyCheck, wording: Wording, repeats: Repeats, read_as: dict[str, str]
) -> tuple[Node, Wording]:
    """Return the messages of a case in our own form; ``read_as`` gets what is another tool's.

    A user message of Anthropic's becomes a message for each result in it, and one for the rest.
    """
    if _are_plain(messages.children):
        return messages, wording
    if any(map(_has_more, messages.children)):
        blocks = _Blocks(check, wording, repeats)
        for index, message in enumerate(messages.children):
            blocks.add(message, index)
        names = [WrittenMessage(wording.of(at)) for at in range(len(messages.children))]
        if blocks.written != names:
            wording = structs.replace(wording, written=tuple(blocks.written))
        messages = list_of(blocks.messages, messages.mark)
    for index, message in enumerate(messages.children):
        if isinstance(message.children, dict):
            _rewrite(message, check, wording, index, read_as)
    return messages, wording


class _Blocks:
    """Rewrites the messages of one case, and knows where each has been."""

    def __init__(self, check: KeyCheck, wording: Wording, repeats: Repeats) -> None:
        self.check = check
        self.wording = wording
        self.repeats = repeats
        self.messages: list[Node] = []
        self.written: list[WrittenMessage] = []
        self.tools: dict[Any, Any] = {}  # the name of the tool of each call so far, by its id

    def add(self, message: Node, index: int) -> None:
        """Add a message, with each result in it as a message before it."""
        label, name = self.wording.label(index), self.wording.of(index)
        if not _has_more(message):
            self._add(message, WrittenMessage(name))
            return
        segments = [*segments_by_key(message).values()]
        first = _leading(segments, "tool_result")
        for at, block in enumerate(segments[:first]):
            result = self._result(block, message, f"{label}.content[{at}]")
            self._add(result, WrittenMessage(f"{name}.content[{at}]"))
        last = _leading(segments[::-1], "tool_use")
        uses = segments[len(segments) - last :]
        rest = segments[first : len(segments) - last]
        for at, block in enumerate(rest, first):
            if what := _MISPLACED.get(str(_type_of(block))):
                where = block.place(self.check.name, f"{label}.content[{at}]")
                raise MultiturnError(what, where=where)
        if first and not rest and not uses:
            self.check.check(message, "message", label=label)  # nobody else sees its keys
            return
        keys = dict(message.children)
        if uses:
            if value_at(keys, "tool_calls"):
                raise self.check.both("tool_calls", "tool_use", uses[0], label)
            at = first + len(rest)
            calls = [self._use(use, message, label, at + each) for each, use in enumerate(uses)]
            keys["tool_calls"] = list_of(calls, uses[0].mark)
        elif isinstance(listed := keys.get("tool_calls"), Node) and listed.value:
            keys["tool_calls"] = self._calls(listed, label)
        if first or uses or any(_type_of(block) == "reasoning" for block in rest):
            numbered = enumerate(rest, first)
            content = [self._thought(block, f"{label}.content[{at}]") for at, block in numbered]
            keys["content"] = list_of(content, message.children["content"].mark)
        if value_at(keys, "tool_call_id") is not None:
            self._answer(keys, label)
        calls_at = first + len(rest) if uses else None
        self._add(with_keys(message, keys), WrittenMessage(name, first, calls_at))

    def _add(self, message: Node, written: WrittenMessage) -> None:
        self.messages.append(message)
        self.written.append(written)
        calls = value_at(message.members, "tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict) and isinstance(call.get("id"), str):
                self.tools[call["id"]] = call.get("name")

    def _calls(self, listed: Node, label: str) -> Node:
        """Return the calls of a list in our form; what is not a list of mappings stays as it is."""
        if not isinstance(listed.value, list):
            return listed
        calls = [
            self._call(call, f"{label}.tool_calls[{at}]") if isinstance(call.value, dict) else call
            for at, call in enumerate(listed.children)
        ]
        return structs.replace(list_of(calls, listed.mark), key_mark=listed.key_mark)

    def _call(self, call: Node, label: str) -> Node:
        """Return a call of OpenAI's or inspect_ai's in our form."""
        self.check.refuse(call, "call", label=label)
        keys = dict(call.children)
        kind = keys.pop("type", None)
        if kind is not None and kind.value not in ("function", None):
            what = (
                f"only functions are called; leave out what has the type {quoted(str(kind.value))}"
            )
            raise MultiturnError(what, where=kind.place(self.check.name, label))
        function = keys.pop("function", None)
        if function is not None and isinstance(function.value, dict):
            label = f"{label}.function"
            self.check.check(function, "function", label=label)
            for key in ("name", "arguments"):
                if value_at(keys, key):
                    raise self.check.both(key, f"function.{key}", function, label)
            from multiturn.providers.openai.chat import call_keys

            keys = call_keys(keys, function.children)
        elif function is not None:
            if value_at(keys, "name"):
                raise self.check.both("name", "function", function, label)
            keys["name"] = function
        if isinstance(value_at(keys, "arguments"), str):
            keys["arguments"] = self._parsed(keys["arguments"], label)
        return with_keys(call, keys)

    def _parsed(self, written: Node, label: str) -> Node:
        """Return arguments that are written as a JSON text."""
        where = written.place(self.check.name, label)
        if self.repeats.add(values_in_json(written.value), written.mark):  # by aliases of the text
            what = "the suite repeats too many values in arguments; write fewer calls by aliases"
            raise RepeatsError(what, where=where)
        try:
            value = read_value(written.value)
        except json.JSONDecodeError as error:
            what = f"{_NO_OBJECT}: {error.msg}; correct them, or write a mapping"
            raise MultiturnError(what, where=where) from None
        except ValueError as error:
            raise MultiturnError(f"{_NO_OBJECT}: {error}", where=where) from None
        if not isinstance(value, dict):
            raise MultiturnError(f"{_NO_OBJECT}; write {{}} for none", where=where)
        size = len(written.value)  # nothing asks for the place of a value in it
        return Node(value, written.mark, None, None, size, key_mark=written.key_mark)

    def _use(self, block: Node, message: Node, label: str, at: int) -> Node:
        """Return a call of Anthropic's in our form."""
        from multiturn.providers.anthropic.messages import use_keys

        label = f"{label}.content[{at}]"
        self._check(block, "tool_use", label, message, "assistant")
        return with_keys(block, use_keys(block.children))

    def _result(self, block: Node, message: Node, label: str) -> Node:
        """Return a result of Anthropic's as a message of a tool."""
        from multiturn.providers.anthropic.messages import result_keys

        self._check(block, "tool_result", label, message, "user")
        keys = {"role": Node("tool", block.mark), **result_keys(block.children)}
        if value_at(keys, "content") is None:
            keys["content"] = list_of((), block.mark)
        return with_keys(block, keys)

    def _check(
        self, block: Node, kind: str, label: str, message: Node | None = None, role: str = ""
    ) -> None:
        if message is not None and value_at(message.members, "role") != role:
            what = f"{kind} is a part of a message with role: {role}; move it there"
            raise MultiturnError(what, where=block.place(self.check.name, label))
        self.check.check(block, kind, "block", label=label)
        read_as(block, block_forms()[kind], where=self.check.name, label=label)

    def _thought(self, block: Node, label: str) -> Node:
        """Return a block of inspect_ai's reasoning as thinking; any other as it is."""
        if _type_of(block) != "reasoning":
            return block
        self._check(block, "reasoning", label)
        given = block.children
        summary, redacted = value_at(given, "summary"), value_at(given, "redacted")
        if summary and not redacted:
            what = "summary is of reasoning that is redacted; leave it out"
            raise MultiturnError(what, where=given["summary"].key_place(self.check.name, label))
        kind = "redacted_thinking" if redacted and not summary else "thinking"
        found = {"type": Node(kind, block.mark)}
        found["data" if redacted else "thinking"] = given["reasoning"]
        if summary:  # of OpenAI's models
            found["thinking"] = given["summary"]
        return with_keys(
            block, found | {name: given[name] for name in ("signature", "vendor") if name in given}
        )

    def _answer(self, keys: dict[str, Node], label: str) -> None:
        """Take what OpenAI and inspect_ai write in a result beside its id and its content."""
        call_id = keys["tool_call_id"].value
        is_known = isinstance(call_id, str) and call_id in self.tools  # else an error of its own
        for key in ("name", "function"):
            named = keys.pop(key, None)
            if is_known and named is not None and named.value not in (None, self.tools[call_id]):
                called = quoted(str(self.tools[call_id]))
                what = f"{key}: the call {quoted(call_id)} is of {called}; correct one of them"
                raise MultiturnError(what, where=named.place(self.check.name, label))
        error = keys.pop("error", None)
        if error is None or error.value is None:
            return
        said = error.children.get("message") if isinstance(error.children, dict) else error
        if said is None or not isinstance(said.value, str):
            what = "error must be a mapping with a message"
            raise MultiturnError(what, where=error.place(self.check.name, label))
        if value_at(keys, "content"):
            raise self.check.both("content", "error", error, label)
        keys |= {"content": said, "is_error": Node(True, error.mark)}


def _has_more(message: Node) -> bool:
    """Return whether a message has calls, a result, or blocks of other tools; quick, as few do."""
    keys = message.members
    if not _OF_CALLS.isdisjoint(keys) and (
        value_at(keys, "tool_calls") or value_at(keys, "tool_call_id") is not None
    ):
        return True
    content = keys.get("content", message)
    for block in content.children if isinstance(content.children, list) else [content]:
        kind = block.children.get("type") if isinstance(block.children, dict) else None
        if kind is not None and kind.scalar in _BLOCKS:
            return True
    return False


def segments_by_key(message: Node, first: int = 0) -> dict[str, Node]:
    """Return the segments of a message by what errors call them; ``first`` is the first index."""
    content = message.members.get("content")
    if content is None or content.is_null:
        return {}
    if not isinstance(content.children, list):
        return {"content": content}
    return {f"content[{at}]": segment for at, segment in enumerate(content.children, first)}


def _type_of(block: Node) -> Any:
    return value_at(block.members, "type")


def _leading(blocks: list[Node], kind: str) -> int:
    """Return how many blocks of a kind there are at the start."""
    return next((at for at, block in enumerate(blocks) if _type_of(block) != kind), len(blocks))
