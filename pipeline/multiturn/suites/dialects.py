"""Suites as other tools write them, rewritten as ours.

A suite is read as what it is, without an option: docs/suites.md has the table. Nodes keep their
places, so that errors name the line that somebody wrote.
"""

from collections.abc import Mapping
from copy import copy

from multiturn.documents.node import Node, Repeats, RepeatsError, list_of, values_in, with_keys
from multiturn.errors import MultiturnError
from multiturn.suites.blocks import as_ours
from multiturn.suites.keys import KeyCheck, value_at
from multiturn.suites.messages import (
    Wording,
    message_of,
    messages_of,
    needs_text,
    rewrite,
    take_tools,
    values_in_text,
)
from multiturn.suites.promptfoo import Variables, take_messages, variables_of
from multiturn.suites.templates import Braces, braces_of, check_case
from multiturn.suites.vocabulary import ANSWER_NAMES, CASE_NAMES, INPUT_KEYS, OF_CASES, SUITE_NAMES

_WITH_INPUT = {**CASE_NAMES, **ANSWER_NAMES}
_SHARED = ("guidelines", "metadata", "execution", "tools")  # by all cases, as an input and vars are
_OF_PROMPTFOO = frozenset(("vars", "options"))
_REWRITTEN = frozenset({*CASE_NAMES, "input_files", "options", "vars"})


class Dialect:
    """Rewrites the documents of one suite; ``read_as`` has what was read by another name."""

    def __init__(self, name: str) -> None:
        self.keys = KeyCheck(name)
        self.read_as: dict[str, str] = {}
        self.variables = Variables()
        self._shared: dict[str, Node] = {}  # what stands before the input of each case
        self._braces = Braces()
        self._values_given = 0  # by the suite, to each of its cases
        self.repeats = Repeats()

    @property
    def name(self) -> str:
        """What errors call the file that is read."""
        return self.keys.name

    def inside(self, name: str) -> "Dialect":
        """Return the dialect for the cases in a file that the suite names."""
        inside = copy(self)
        inside.keys = KeyCheck(name)
        return inside

    def suite(self, head: Node) -> Node:
        """Return the keys of a suite by our names; a bare case is for ``case``."""
        self._shared, self.variables, self._braces = {}, Variables(), Braces()
        self._values_given = 0
        if not isinstance(head.children, dict):
            return head
        self.keys.refuse(head, "suite")
        keys = self._renamed(head.children, SUITE_NAMES, "")
        self._braces = braces_of(keys, self.name)
        cases = keys.get("evalcases")
        if cases is None:
            return head
        if isinstance(cases.value, str):  # a file of cases
            keys["evalcases"] = list_of([cases], cases.mark)
        self.variables = variables_of(keys, self.keys)
        take_tools(keys, "input", self.keys, "")
        self._shared = {key: keys.pop(key) for key in ("input", "input_files") if key in keys}
        self._check_shared()
        given = [*self._shared.values(), *self.variables.defaults.values()]
        given += [keys[key] for key in _SHARED if key in keys]
        self._values_given = sum(map(values_in, given))
        return with_keys(head, keys)

    def check_repeats(self, node: Node) -> None:
        """Refuse a case if the suite has given too many values to its cases by now."""
        keys = _children(node)
        inputs = [keys[key] for key in INPUT_KEYS if key in keys]
        if name := self.variables.messages:
            given = _children(keys.get("vars")).get(name, self.variables.defaults.get(name))
            inputs += [given] if given is not None else []
        # A text that is a list of messages in JSON may be the same in all cases, by an alias.
        values = self._values_given + sum(map(values_in_text, inputs))
        if values and self.repeats.add(values, node.mark):
            what = "the suite gives too many values to its cases, by its input, guidelines,"
            what += " metadata, vars or aliases; split it, or give less"
            raise RepeatsError(what, where=node.place(self.name))

    def case(self, node: Node, label: str) -> tuple[Node, Wording]:
        """Return a case by our names, and how to call its messages; ``label`` is the case's."""
        wording = Wording(label)
        if not node.children.keys() <= OF_CASES:
            self.keys.refuse(node, "case", label=label)
        is_ours = not self._shared and not self.variables.messages and not self._braces.beside
        if not is_ours or not _REWRITTEN.isdisjoint(node.children):
            node, wording = self._rewritten(node, label)
        messages = node.children.get("input_messages")
        if messages is not None and isinstance(messages.value, dict) and "type" in messages.value:
            what = f"{wording.key} is a template of OpenAI's evals; write the messages of each item"
            raise MultiturnError(f"{what} as a case", where=messages.place(self.name, label))
        if messages is not None and isinstance(messages.children, list):
            written = messages
            messages, wording = as_ours(messages, self.keys, wording, self.repeats)
            if messages is not written:
                node = with_keys(node, {**node.children, "input_messages": messages})
            for index, message in enumerate(messages.children):
                if isinstance(message.children, dict):
                    rewrite(message, self.keys, wording, index, self.read_as)
        return node, wording

    def _check_shared(self) -> None:
        """Refuse what no case could use of the suite's input and files."""
        given, files = self._shared.get("input"), self._shared.get("input_files")
        if given is not None and not isinstance(given.value, str | list | dict | None):
            what = "input must be a text, a message or a list of messages"
            raise MultiturnError(what, where=given.place(self.name))
        if given is not None:
            self._shared["input"] = messages_of(given, None, self.keys, "")
        _check_paths(files, self.name, "")

    def _rewritten(self, node: Node, label: str) -> tuple[Node, Wording]:
        keys = dict(node.children)
        variable = ""
        if self.variables.messages or not _OF_PROMPTFOO.isdisjoint(keys):
            variable = take_messages(self.variables, keys, self.keys, label)
        files, written = keys.pop("input_files", None), ""
        _check_paths(files, self.name, label)
        skips = value_at(_children(keys.get("execution")), "skip_defaults")
        shared = {} if skips is True else self._shared
        for key in INPUT_KEYS:
            if key in keys:
                written = variable if key == "input" and variable else key
                take_tools(keys, key, self.keys, label)
                keys[key] = self._messages(keys[key], files, shared.get("input_files"), label)
        if files is not None and files.value and not written:
            raise needs_text(files, self.name, label)
        keys = self._renamed(keys, _WITH_INPUT if written else CASE_NAMES, label)
        wording = Wording(label, written or "input_messages")
        messages = keys.get("input_messages")
        if messages is not None and not written and value_at(shared, "input_files"):
            self._warn_of_files(messages, label)
        if "input" in shared and messages is not None:
            before = shared["input"]
            if isinstance(before.children, list) and isinstance(messages.children, list):
                both = [*before.children, *messages.children]
                keys["input_messages"] = list_of(both, messages.mark)
                wording = Wording(label, wording.key, len(before.children))
        if self._braces.beside or "vars" in node.children:
            check_case(self._braces, keys, "vars" in node.children, self.name, label)
        return with_keys(node, keys), wording

    def _messages(
        self, given: Node, files: Node | None, shared_files: Node | None, label: str
    ) -> Node:
        """Return the messages of an input, with the case's files before it, or the suite's."""
        if files is not None and files.value is not None:
            return messages_of(given, files, self.keys, label)
        messages = messages_of(given, None, self.keys, label)
        if shared_files is None or not shared_files.value:
            return messages
        if isinstance(given.value, str) and messages.children[0].children["content"] is given:
            return messages_of(given, shared_files, self.keys, label)
        self._warn_of_files(given, label)
        return messages

    def _warn_of_files(self, messages: Node, label: str) -> None:
        what = "the suite's input_files are not attached, as the input is not a text; attach files"
        what += " in the messages, as {type: file, value: PATH}"
        self.keys.warn("suite.files_left_out", messages.key_place(self.name, label), what)

    def _renamed(
        self, written: Mapping[str, Node], names: Mapping[str, str], label: str
    ) -> dict[str, Node]:
        """Return the keys of a mapping by our names, and an expected answer as messages."""
        keys: dict[str, Node] = {}
        for key, child in written.items():
            name = names.get(key)
            if name is None:
                name = key
            else:
                self.read_as[key] = name
                if name == "expected_messages":
                    child = _answer(child)
            if name in keys:
                other = next(each for each in written if names.get(each, each) == name)
                raise self.keys.both(other, key, child, label)
            keys[name] = child
        return keys


def _children(node: Node | None) -> dict[str, Node]:
    return node.children if node is not None and isinstance(node.children, dict) else {}


def _check_paths(files: Node | None, suite: str, label: str) -> None:
    if files is not None and not isinstance(files.value, list | None):
        raise MultiturnError("input_files must be a list of paths", where=files.place(suite, label))


def _answer(given: Node) -> Node:
    """Return the messages that an expected answer means: a text or a mapping is one message."""
    if isinstance(given.value, list):
        return given
    message = given if "role" in _children(given) else message_of("assistant", given)
    return list_of([message], given.mark)
