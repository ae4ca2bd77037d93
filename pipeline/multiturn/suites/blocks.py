"""Calls, results and thinking as OpenAI, Anthropic and inspect_ai write them, rewritten as ours."""

import json
from typing import Any

from msgspec import structs

from multiturn.documents.json_lines import read_value, values_in_json
from multiturn.documents.node import Node, Repeats, list_of, with_keys
from multiturn.documents.validation import read_as
from multiturn.errors import MultiturnError, RepeatsError, quoted
from multiturn.suites.block_forms import block_forms
from multiturn.suites.keys import KeyCheck, value_at
from multiturn.suites.messages import Wording, WrittenMessage

_NO_OBJECT = "arguments are not a JSON object"
_OF_CALLS = {"tool_calls", "tool_call_id"}
_BLOCKS = ("tool_use", "tool_result", "reasoning")


def as_ours(
    messages: Node, check: KeyCheck, wording: Wording, repeats: Repeats
) -> tuple[Node, Wording]:
    """Return the messages of a case with all calls, results and thinking in our own form.

    A user message of Anthropic's becomes a message for each result in it, and one for the rest.
    """
    if not any(map(_has_more, messages.children)):
        return messages, wording
    blocks = _Blocks(check, wording, repeats)
    for index, message in enumerate(messages.children):
        blocks.add(message, index)
    if blocks.written != [WrittenMessage(wording.of(at)) for at in range(len(messages.children))]:
        wording = structs.replace(wording, written=tuple(blocks.written))
    return list_of(blocks.messages, messages.mark), wording


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
        segments = _segments_of(message)
        first = _leading(segments, "tool_result")
        for at, block in enumerate(segments[:first]):
            result = self._result(block, message, f"{label}.content[{at}]")
            self._add(result, WrittenMessage(f"{name}.content[{at}]"))
        last = _leading(segments[::-1], "tool_use")
        uses = segments[len(segments) - last :]
        rest = segments[first : len(segments) - last]
        for at, block in enumerate(rest, first):
            self._check_order(block, f"{label}.content[{at}]")
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

    def _check_order(self, block: Node, label: str) -> None:
        if _type_of(block) == "tool_use":
            what = "a call comes after text and thinking; write it last"
        elif _type_of(block) == "tool_result":
            what = "a result comes before text; write it first"
        else:
            return
        raise MultiturnError(what, where=block.place(self.check.name, label))

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
        self._check_role(block, message, "assistant", label)
        self.check.check(block, "tool_use", "block", label=label)
        read_as(block, block_forms()["tool_use"], where=self.check.name, label=label)
        return with_keys(block, use_keys(block.children))

    def _result(self, block: Node, message: Node, label: str) -> Node:
        """Return a result of Anthropic's as a message of a tool."""
        from multiturn.providers.anthropic.messages import result_keys

        self._check_role(block, message, "user", label)
        self.check.check(block, "tool_result", "block", label=label)
        read_as(block, block_forms()["tool_result"], where=self.check.name, label=label)
        keys = {"role": Node("tool", block.mark), **result_keys(block.children)}
        if value_at(keys, "content") is None:
            keys["content"] = list_of((), block.mark)
        return with_keys(block, keys)

    def _check_role(self, block: Node, message: Node, role: str, label: str) -> None:
        if value_at(message.members, "role") != role:
            what = f"{_type_of(block)} is a part of a message with role: {role}; move it there"
            raise MultiturnError(what, where=block.place(self.check.name, label))

    def _thought(self, block: Node, label: str) -> Node:
        """Return a block of inspect_ai's reasoning as thinking; any other as it is."""
        if _type_of(block) != "reasoning":
            return block
        self.check.check(block, "reasoning", "block", label=label)
        read_as(block, block_forms()["reasoning"], where=self.check.name, label=label)
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
        for key in ("name", "function"):
            named = keys.pop(key, None)
            if named is None or named.value is None or not isinstance(call_id, str):
                continue
            if call_id not in self.tools:  # which is an error of its own
                continue
            if named.value != self.tools[call_id]:
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
    if keys.keys() & _OF_CALLS and (
        value_at(keys, "tool_calls") or value_at(keys, "tool_call_id") is not None
    ):
        return True
    content = keys.get("content")
    if content is None or content.children is None:
        return False
    blocks = content.children if isinstance(content.children, list) else [content]
    for block in blocks:  # without a generator, as all messages are asked
        kind = block.children.get("type") if isinstance(block.children, dict) else None
        if kind is not None and kind.scalar in _BLOCKS:
            return True
    return False


def _segments_of(message: Node) -> list[Node]:
    content = message.children.get("content")
    if content is None or content.value is None:
        return []
    return content.children if isinstance(content.children, list) else [content]


def _type_of(block: Node) -> Any:
    return value_at(block.members, "type")


def _leading(blocks: list[Node], kind: str) -> int:
    """Return how many blocks of a kind there are at the start."""
    return next((at for at, block in enumerate(blocks) if _type_of(block) != kind), len(blocks))
