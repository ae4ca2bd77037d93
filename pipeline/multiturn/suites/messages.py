"""What other tools write as messages, calls, results and thinking, as nodes of ours."""

import json
import re
from contextlib import suppress
from typing import Any, TypeGuard

import msgspec
from msgspec import structs

from multiturn.documents.json_lines import node_of, read_value, values_in_json
from multiturn.documents.node import Node, Repeats, list_of, with_keys
from multiturn.documents.validation import read_as
from multiturn.errors import InputError, MultiturnError, RepeatsError, quoted
from multiturn.suites.keys import ROLE_NAMES, KeyCheck, block_forms, members_at, value_at
from multiturn.suites.media import as_segment, form_of

_MESSAGES = r"input_messages(?:\[(\d+)\](?:\.content\[(\d+)\])?)?"
_HALF = r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
_NO_OBJECT = "arguments are not a JSON object"
_MISPLACED = {  # among text
    "tool_use": "a call comes after text and thinking; write it last",
    "tool_result": "a result comes before text; write it first",
}


class WrittenMessage(Node, gc=False):
    """A message in our form, which knows where it was before it was rewritten."""

    name: str = ""  # what errors call it
    label: str = ""  # what they call it and its case
    first: int = 0  # index of its first segment, in the content as written
    calls_at: int | None = None  # index of its first call there; None if calls have a key

    @property
    def segments(self) -> list[Node]:
        """The segments of its content."""
        content = self.members.get("content")
        if content is None or content.is_null:
            return []
        return content.children if isinstance(content.children, list) else [content]

    def segment_label(self, at: int) -> str:
        """Return what errors call a segment of its content."""
        is_list = isinstance(self.children["content"].children, list)
        return f"{self.label}.content" + (f"[{self.first + at}]" if is_list else "")

    def call_label(self, at: int) -> str:
        """Return what errors call a call in it."""
        if self.calls_at is None:
            return f"{self.label}.tool_calls[{at}]"
        return f"{self.label}.content[{self.calls_at + at}]"


def path_as_written(case: Node, key: str, path: str) -> str:
    """Return a path in a case as somebody wrote it, with the messages below ``key``."""
    found = re.match(_MESSAGES, path)
    if found is None:
        return path
    if found[1]:
        message = case.children["input_messages"].children[int(found[1])]
        key = message.name
        if found[2]:
            key += f".content[{message.first + int(found[2])}]"
    return key + path[found.end() :]


class _Message(msgspec.Struct, gc=False):
    """What makes a JSON list in a text one of messages; no value is kept."""

    role: msgspec.Raw


def message_nodes(given: Node, files: Node | None, check: KeyCheck, label: str) -> Node:
    """Return the messages that an input means; ``files`` are attached before a text."""
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
            read = node_of(read_value(given.scalar), mark)
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
    inner = members_at(keys, key)
    tools = inner.get("tools")
    if tools is None or tools.value is None or not _are_messages(inner.get("messages")):
        return
    if "tools" in keys:
        raise check.both("tools", f"{key}.tools", tools, label)
    keys["tools"] = tools


def needs_text(files: Node, suite: str, label: str) -> MultiturnError:
    """Return the error for files beside what is not a text."""
    what = "input_files stand before an input that is text"
    what += "; attach files in the messages, as {type: file, value: PATH}"
    return InputError(what, where=files.key_place(suite, label))


def message_node(role: str, content: Node) -> Node:
    """Return a message."""
    keys = {"role": Node(role, content.mark), "content": content}
    return Node(None, content.mark, None, keys)


def _are_messages(given: Node | None) -> TypeGuard[Node]:
    nodes = given.children if given is not None else None
    return isinstance(nodes, list) and bool(nodes) and all("role" in n.members for n in nodes)


def _are_messages_in(text: str) -> bool:
    """Return whether a text is a JSON list of messages."""
    # msgspec refuses half of a character, which is for ``read_value`` to say.
    for known in (text, re.sub(_HALF, "", text)) if text.lstrip()[:1] == "[" else ():
        with suppress(msgspec.MsgspecError, RecursionError):
            return bool(msgspec.json.decode(known, type=list[_Message]))
    return False


class Rewriter:
    """Rewrites the messages of one case in our own form; ``read_as`` gets what is another tool's.

    A user message of Anthropic's becomes a message for each result in it, and one for the rest.
    """

    def __init__(
        self, check: KeyCheck, repeats: Repeats, read_as: dict[str, str], case: str
    ) -> None:
        self.check = check
        self.repeats = repeats
        self.read_as = read_as
        self.case = case  # what errors call it
        self.messages: list[WrittenMessage] = []
        self.tools: dict[str, Any] = {}  # the name of the tool of each call so far, by its id

    def add(self, message: Node, name: str) -> None:
        """Add a message, with each result in it as a message before it; errors call it a name."""
        keys = message.members
        segments = [keys["content"]] if "content" in keys else []
        if segments and isinstance(segments[0].children, list):
            segments = segments[0].children
        kinds = [value_at(each.members, "type") for each in segments]
        if not any(kinds) and keys.keys() <= {"role", "content"}:
            self._add(message, name)  # what is no mapping, too, is an error of its own
            return
        label = f"{self.case}: {name}"
        first, last = _leading(kinds, "tool_result"), _leading(kinds[::-1], "tool_use")
        end = len(kinds) - last
        for at, block in enumerate(segments[:first]):
            result = self._result(block, message, f"{label}.content[{at}]")
            self._add(result, f"{name}.content[{at}]")
        for at in range(first, end):
            if what := _MISPLACED.get(str(kinds[at])):
                where = segments[at].place(self.check.name, f"{label}.content[{at}]")
                raise MultiturnError(what, where=where)
        if 0 < first == len(kinds):
            self.check.check(message, "message", label=label)  # nobody else sees its keys
            return
        keys = dict(keys)
        if last:
            if value_at(keys, "tool_calls"):
                raise self.check.both("tool_calls", "tool_use", segments[end], label)
            uses = enumerate(segments[end:], end)
            calls = [self._use(use, message, f"{label}.content[{at}]") for at, use in uses]
            keys["tool_calls"] = list_of(calls, segments[end].mark)
        elif isinstance(listed := keys.get("tool_calls"), Node) and listed.value:
            keys["tool_calls"] = self._calls(listed, label)
        if first or last or "reasoning" in kinds:
            rest = enumerate(segments[first:end], first)
            left = [self._thought(block, f"{label}.content[{at}]") for at, block in rest]
            keys["content"] = list_of(left, keys["content"].mark)
        if value_at(keys, "tool_call_id") is not None:
            self._answer(keys, label)
        self._add(with_keys(message, keys), name, first, end if last else None)

    def _add(self, node: Node, name: str, first: int = 0, calls_at: int | None = None) -> None:
        fields = node.scalar, node.mark, node.source, node.children, node.key_mark
        message = WrittenMessage(*fields, name, f"{self.case}: {name}", first, calls_at)
        self.messages.append(message)
        if isinstance(node.children, dict):
            self._rewrite(message)
        calls = node.members.get("tool_calls", node).children
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call_id := value_at(call.members, "id"), str):
                self.tools[call_id] = value_at(call.members, "name")

    def _rewrite(self, message: WrittenMessage) -> None:
        """Rewrite what is left in a message that is not ours, in place."""
        keys: dict[str, Node] = message.children
        content, calls = keys.get("content"), keys.get("tool_calls")
        role = keys["role"].scalar if "role" in keys else None
        if role == "function":
            what = "the role function is OpenAI's old form; write role: tool, with tool_call_id"
            raise InputError(what, where=keys["role"].place(self.check.name, message.label))
        self.check.refuse(message, "message", label=message.label)
        if calls is not None and calls.value and (content is None or content.is_null):
            keys["content"] = list_of((), message.mark)
        if isinstance(role, str) and role in ROLE_NAMES:
            self.read_as[f"role {role}"] = ROLE_NAMES[role]
            keys["role"] = structs.replace(keys["role"], scalar=ROLE_NAMES[role])
        for at, part in enumerate(message.segments):
            form = form_of(part.value) if isinstance(part.children, dict) else None
            if form is not None:
                segment = as_segment(part, form, self.check, message.segment_label(at))
                self.read_as[f"type {part.value['type']}"] = segment.children["type"].value
                part.children = segment.children

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
        if self.repeats.add(values_in_json(written.value)):  # by aliases of the text
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
        # Nothing asks for the place of a value in it.
        return Node(value, written.mark, written.value, key_mark=written.key_mark)

    def _use(self, block: Node, message: Node, label: str) -> Node:
        """Return a call of Anthropic's in our form."""
        from multiturn.providers.anthropic.messages import use_keys

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
        if value_at(block.members, "type") != "reasoning":
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


def _leading(kinds: list[Any], kind: str) -> int:
    """Return how many blocks of a kind there are at the start."""
    return next((at for at, each in enumerate(kinds) if each != kind), len(kinds))
