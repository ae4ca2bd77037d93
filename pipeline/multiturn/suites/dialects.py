"""Suites as other tools write them: tables of what means the same, and documents rewritten so.

A suite is read as what it is, without an option: docs/suites.md has the table. Nodes keep their
places, so that errors name the line that somebody wrote.
"""

import json
import re
from collections.abc import Iterable, Mapping
from copy import copy

import msgspec

from multiturn.case import CASES_KEYS, MESSAGES_KEYS
from multiturn.documents.json_lines import node_of, read_json
from multiturn.documents.node import Node, Repeats, list_of, values_in, with_keys
from multiturn.errors import MultiturnError

SUITE_KEYS = dict.fromkeys(CASES_KEYS[1:], "evalcases")
CASE_KEYS = {
    **dict.fromkeys(MESSAGES_KEYS[1:], "input_messages"),
    "expected_output": "expected_messages",
    "expected_outcome": "outcome",
    "criteria": "outcome",
}
# Beside one of INPUT_KEYS only: elsewhere, a target is what a run sends prompts to.
ANSWER_KEYS = {"ideal": "expected_messages", "target": "expected_messages"}
INPUT_KEYS = frozenset(MESSAGES_KEYS[1:])
_SHARED = ("guidelines", "metadata", "execution")  # by all cases, as an input and vars are
_NAMES_CASES = ("imports", "scenarios")
# Of other tools, at suites and cases: they do not concern the prompt.
OTHER_KEYS = frozenset(
    {
        *("assert", "assertions", "assertScoringFunction", "defaultTest", "default_test"),
        *("environment", "env", "evaluator", "graders", "metrics", "mode"),
        *("assertionTemplates", "author", "budget_usd", "category", "depends_on", "early_exit"),
        *("evaluate_options", "experiment", "extensions", "license", "preprocessors", "repeat"),
        *("requires", "run", "suite", "targets", "timeout_seconds", "aggregation"),
        *("on_turn_failure", "options", "outputPath", "prompts", "provider", "providers"),
        *("rubrics", "sharing", "tags", "threshold", "workspace"),
    }
)
ROLES = {"developer": "system"}
CASES = frozenset(CASES_KEYS)
_WITH_INPUT = {**CASE_KEYS, **ANSWER_KEYS}
_REWRITTEN = frozenset({*CASE_KEYS, "input_files", "vars", "turns"})
_INPUT_ONLY = re.compile(r"\s*\{\{\s*(?:vars\.)?input\s*\}\}\s*")
_PLACEHOLDER = re.compile(r"\{\{-?\s*(?:vars\.)?(\w+)")


class _Message(msgspec.Struct, gc=False):
    """What makes a JSON list in a text one of messages; no value is kept."""

    role: msgspec.Raw


class Dialect:
    """Rewrites the documents of one suite; ``read_as`` has what was read by another name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.read_as: dict[str, str] = {}
        self._shared: dict[str, Node] = {}
        self._vars: dict[str, Node] | None = None  # of all cases; None if inputs are not in vars
        self._values_given = 0  # by the suite, to each of its cases
        self.repeats = Repeats()

    def inside(self, name: str) -> "Dialect":
        """Return the dialect for the cases in a file that the suite names."""
        inside = copy(self)
        inside.name = name
        return inside

    def suite(self, head: Node) -> Node:
        """Return the keys of a suite by our names; a bare case is for ``case``."""
        self._shared, self._vars, self._values_given = {}, None, 0
        if not isinstance(head.children, dict):
            return head
        keys = self._renamed(head.children, SUITE_KEYS, "")
        for key in _NAMES_CASES:
            if key in keys and keys[key].value:
                what = f"{key} name cases that are not read here; name their files as tests"
                raise MultiturnError(what, where=keys[key].key_place(self.name))
        cases = keys.get("evalcases")
        if cases is None:
            return head
        if isinstance(cases.value, str):  # a file of cases
            keys["evalcases"] = list_of([cases], cases.mark)
        defaults = [_children(keys.pop(name, None)) for name in ("default_test", "defaultTest")]
        if "prompts" in keys:
            self._check_prompts(keys["prompts"])
            self._vars = _children((defaults[0] or defaults[1]).get("vars"))
        self._shared = {key: keys.pop(key) for key in ("input", "input_files") if key in keys}
        if "input" in self._shared:
            self._shared["input"] = self._messages(self._shared["input"], None, "")
        given = [*self._shared.values(), *(self._vars or {}).values()]
        given += [keys[key] for key in _SHARED if key in keys]
        self._values_given = sum(map(values_in, given))
        return with_keys(head, keys)

    def check_repeats(self, node: Node) -> None:
        """Refuse a case if the suite has given too many values to its cases by now."""
        if self.repeats.add(self._values_given, node.mark):
            what = "the suite gives too many values to its cases, by its input, guidelines,"
            what += " metadata, vars or aliases; split it, or give less"
            raise MultiturnError(what, where=node.place(self.name))

    def case(self, node: Node, label: str) -> Node:
        """Return a case by our names; ``label`` is what errors call it."""
        if not isinstance(node.children, dict):
            return node
        if self._shared or self._vars is not None or not _REWRITTEN.isdisjoint(node.children):
            node = self._rewritten(node, label)
        messages = node.children.get("input_messages")
        if messages is not None and isinstance(messages.children, list):
            for index, message in enumerate(messages.children):
                if isinstance(message.children, dict):
                    self._message(message, label, index)
        return node

    def _rewritten(self, node: Node, label: str) -> Node:
        keys = dict(node.children)
        if "turns" in keys:
            what = "turns are played live, by a mode that multiturn does not have;"
            what += " write the conversation as input_messages"
            raise MultiturnError(what, where=keys["turns"].key_place(self.name, label))
        if self._vars is not None:
            given = {**self._vars, **_children(keys.pop("vars", None))}
            if "input" in given:
                self._check_plain(given["input"], given.keys(), label)
                keys.setdefault("input", given["input"])
        files, is_input = keys.pop("input_files", None), False
        skips = _children(keys.get("execution")).get("skip_defaults")
        shared = {} if skips is not None and skips.value is True else self._shared
        for key in INPUT_KEYS:
            if key in keys:
                is_input, is_text = True, isinstance(keys[key].value, str)
                attached = files or (shared.get("input_files") if is_text else None)
                keys[key] = self._messages(keys[key], attached, label)
        if files is not None and not is_input:
            raise self._needs_text(files, label)
        keys = self._renamed(keys, _WITH_INPUT if is_input else CASE_KEYS, label)
        if "input" in shared and "input_messages" in keys:
            before, own = shared["input"], keys["input_messages"]
            if isinstance(before.children, list) and isinstance(own.children, list):
                keys["input_messages"] = list_of([*before.children, *own.children], own.mark)
        return with_keys(node, keys)

    def _check_plain(self, given: Node, names: Iterable[str], label: str) -> None:
        """Refuse an input that other tools would render, or read from a file."""
        text = json.dumps(given.value, ensure_ascii=False)
        used = set(_PLACEHOLDER.findall(text)).intersection(names)
        if used or (isinstance(given.value, str) and given.value.startswith("file://")):
            what = f"the input uses the variable {min(used)!r}" if used else "the input is a file"
            what += "; multiturn takes conversations, not templates: write the text itself"
            raise MultiturnError(what, where=given.place(self.name, label))

    def _messages(self, given: Node, files: Node | None, label: str) -> Node:
        """Return the messages that an input means: a list, a text, or a mapping."""
        value, mark = given.value, given.mark
        if isinstance(value, list):
            if files is not None:
                raise self._needs_text(files, label)
            return given
        if isinstance(value, dict):
            message = given if "role" in value else _message_of("user", given)
            return list_of([message], mark)
        if not isinstance(value, str):
            return given  # an error, as for input_messages
        listed = self._messages_in(value, given, label)
        if listed is not None:
            return listed
        if files is not None:
            if not isinstance(files.children, list):
                what = "input_files must be a list of paths"
                raise MultiturnError(what, where=files.place(self.name, label))
            given = list_of([*map(_file_segment, files.children), given], mark)
        return list_of([_message_of("user", given)], mark)

    def _messages_in(self, text: str, given: Node, label: str) -> Node | None:
        """Return the messages of a text that is a JSON list of messages; None for any other."""
        try:
            msgspec.json.decode(text, type=list[_Message])
        except (msgspec.MsgspecError, RecursionError):
            return None
        try:
            messages = node_of(read_json(text), given.mark)
        except ValueError as error:
            raise MultiturnError(str(error), where=given.place(self.name, label)) from None
        self.repeats.add(values_in(messages), given.mark)  # by an alias, any number of times
        return messages

    def _needs_text(self, files: Node, label: str) -> MultiturnError:
        what = "input_files stand before an input that is text; attach files in the messages, as"
        return MultiturnError(
            f"{what} {{type: file, value: PATH}}", where=files.key_place(self.name, label)
        )

    def _message(self, message: Node, label: str, index: int) -> None:
        """Rewrite what is not ours in a message, in place."""
        keys = message.children
        role, content = keys.get("role"), keys.get("content")
        if "tool_calls" in keys:
            what = "tool_calls cannot be part of a chat prompt; leave the message out, or write"
            where = keys["tool_calls"].key_place(self.name, f"{label}: input_messages[{index}]")
            raise MultiturnError(f"{what} what was called as its content", where=where)
        if role is not None and isinstance(role.value, str) and role.value in ROLES:
            ours = ROLES[role.value]
            self.read_as[f"role {role.value}"] = ours
            role.value = message.value["role"] = ours
        if content is not None and isinstance(content.children, list):
            for number, part in enumerate(content.children):
                value = part.value
                if isinstance(value, dict) and "text" in value and value.get("type") == "text":
                    place = f"{label}: input_messages[{index}].content[{number}]"
                    self._rename_text(part, place)

    def _rename_text(self, part: Node, label: str) -> None:
        """Write ``value`` in place of ``text``, OpenAI's name, in place."""
        if "value" in part.value:
            what = "text and value are one thing; keep value"
            raise MultiturnError(what, where=part.children["text"].key_place(self.name, label))
        self.read_as["text of a part"] = "value"
        for mapping in (part.value, part.children):
            mapping["value"] = mapping.pop("text")

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
                what = f"{other} and {key} are one thing; keep one of them"
                raise MultiturnError(what, where=child.key_place(self.name, label))
            keys[name] = child
        return keys

    def _check_prompts(self, prompts: Node) -> None:
        """Refuse every prompt but the input itself: a template is no conversation."""
        for prompt in prompts.children if isinstance(prompts.children, list) else [prompts]:
            if not isinstance(prompt.value, str) or not _INPUT_ONLY.fullmatch(prompt.value):
                what = "multiturn takes conversations, not templates; write each case's messages"
                what += ' as its input, or the only prompt as "{{ input }}" with vars.input'
                raise MultiturnError(what, where=prompt.place(self.name))


def _children(node: Node | None) -> dict[str, Node]:
    return node.children if node is not None and isinstance(node.children, dict) else {}


def _message_of(role: str, content: Node) -> Node:
    keys = {"role": Node(role, content.mark), "content": content}
    return with_keys(Node({}, content.mark, size=content.size), keys)


def _file_segment(path: Node) -> Node:
    return with_keys(Node({}, path.mark), {"type": Node("file", path.mark), "value": path})


def _answer(given: Node) -> Node:
    """Return the messages that an expected answer means: a text or a mapping is one message."""
    if isinstance(given.value, list):
        return given
    message = given if "role" in _children(given) else _message_of("assistant", given)
    return list_of([message], given.mark)
