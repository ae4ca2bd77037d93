"""From the node of a case to the case, with what its suite gives to all."""

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
from msgspec import structs

from multiturn.documents.node import Node, list_of, measure, with_keys
from multiturn.documents.validation import check_finite, read_as
from multiturn.errors import InputError, MultiturnError, Place, cut, did_you_mean, quoted
from multiturn.files.finding import Files
from multiturn.files.media import FILE_TYPES
from multiturn.model.case import MAX_CASE_SIZE, PROMPT_KEY, Case, TestMessage
from multiturn.model.settings import SETTINGS, RequestSettings, SettingsKeys, settled
from multiturn.model.turns import ROLES
from multiturn.suites import calls
from multiturn.suites.dialects import Dialect
from multiturn.suites.keys import members_at, value_at
from multiturn.suites.media import check_segment, size_of_data
from multiturn.suites.messages import WrittenMessage, path_as_written
from multiturn.suites.plain import MAX_PLAIN, may_be_path, plain_messages
from multiturn.suites.schema import CaseKeys, MetadataKeys

_PATH_AS_TEXT = "suite.path_as_text"
_URL = "file://"


ATTACH = "to attach it, write {{type: file, value: {path}}}"
AS_GUIDELINE = "attach it in a message, and let guideline_patterns match it"
_OF_PLAIN = {"id", "input_messages", "outcome"}
_JSON_KEYS = ("metadata", "execution", "outcome", "expected_messages")  # of any values


class CaseReader:
    """Reads the cases of one file."""

    def __init__(self, files: Files, dialect: Dialect) -> None:
        self.name = dialect.name
        self.files = files
        self.dialect = dialect
        self.keys = dialect.keys

    def shared(self, suite: str, patterns: tuple[str, ...], head: Node | None = None) -> Case:
        """Return a case with what a suite gives to all; without a head, the case is a bare one."""
        case = Case(id="", input_messages=(), suite=suite, file=self.name, files=self.files)
        given = {}
        if head is not None:
            self.keys.check(head, "suite")
            given = self._given(head, case, "")
        return structs.replace(case, guideline_patterns=patterns, **given)

    def case_id(self, node: Node, label: str) -> str | None:
        """Return a case's id as it is written; None if it has none."""
        if not isinstance(node.children, dict):
            raise InputError("a case must be a mapping", where=node.place(self.name, label))
        given = node.children.get("id")
        case_id = as_written(given)
        if given is None or case_id is None:
            return None
        if type(case_id) is int:
            return str(case_id)
        if isinstance(case_id, str) and case_id.strip():
            return case_id
        what = "id must be text that is not blank"
        raise InputError(what, where=given.place(self.name, label))

    def case(self, node: Node, case_id: str, shared: Case, *places: str) -> Case:
        """Read one case; it may have the keys of ``places`` besides its own."""
        keys, outcome = node.children, value_at(node.children, "outcome")
        messages = plain_messages(keys, outcome) if self.dialect.is_ours(keys) else None
        names_tool = isinstance(shared.settings.tool_choice, dict)
        if messages is not None and keys.keys() <= _OF_PLAIN and not names_tool:
            said = {"input_messages": messages, "outcome": outcome}
            return structs.replace(shared, id=case_id, line=node.line, **said)
        label, key = f"case {quoted(case_id)}", ""
        if messages is None:
            node, key = self.dialect.case(node, label)
            unread = node
        else:
            unread = with_keys(node, {**keys, "input_messages": list_of((), node.mark)})
            self.dialect.check_texts(unread.children, label)
        called = partial(path_as_written, unread, key)
        case = read_as(unread, CaseKeys, where=self.name, label=label, called=called)
        if messages is None and not case.input_messages:
            what = f"{key} is empty; add a message"
            raise InputError(what, where=node.place(self.name, label))
        written = node.children["input_messages"]
        # It has about as many characters as its JSON has bytes, which are counted at once.
        is_long = len(msgspec.json.encode(case)) > MAX_PLAIN
        data = 0 if messages else size_of_data(written)
        if is_long and measure(node)[1] - data > MAX_CASE_SIZE:
            what = f"it is larger than {MAX_CASE_SIZE:,} characters, with its aliases expanded"
            raise InputError(what, where=node.place(self.name, label))
        self.keys.check(node, "case", *places, label=label)
        given = self._given(node, shared, label)
        tools = given["tools"]
        if messages is None:
            nodes = written.children
            messages = tuple([self._message(message, at) for at, message in enumerate(nodes)])
            calls.check_calls(messages, nodes, tools, self.name)
        calls.check_choice(given["settings"].tool_choice, node, tools, self.keys, label)
        return structs.replace(
            shared,
            id=case_id,
            input_messages=messages,
            line=node.line,
            outcome=case.outcome,
            conversation_id=as_written(node.children.get("conversation_id")),
            expected_messages=case.expected_messages,
            **given,
        )

    def _given(self, node: Node, shared: Case, label: str) -> dict[str, Any]:
        """Return what a suite or a case gives beside messages, over what all cases share."""
        for text in _guidelines_of(node):
            self._warn_of_path(text, label, AS_GUIDELINE)
        prompt, tools = self._system_prompt(node, label), calls.read_tools(node, self.keys, label)
        said, settings = node.children, self._settings(node, label)
        for key in filter(said.__contains__, _JSON_KEYS):
            check_finite(said[key], key, self.name, label)
        metadata = value_at(said, "metadata") or {}
        for key in MetadataKeys.__struct_fields__:
            metadata.pop(key, None)
        return {
            "system_prompt": shared.system_prompt if prompt is None else prompt,
            "guidelines": shared.guidelines + tuple(value_at(said, "guidelines") or ()),
            "places": self._places(node, shared),
            "tools": shared.tools if tools is None else tools,
            "metadata": {**shared.metadata, **metadata},
            "execution": _over(value_at(said, "execution"), shared.execution),
            "settings": settings.over(shared.settings),
            "hidden_characters": value_at(said, "hidden_characters") or shared.hidden_characters,
            "max_prompt_tokens": value_at(said, "max_prompt_tokens") or shared.max_prompt_tokens,
        }

    def _settings(self, node: Node, label: str) -> RequestSettings:
        """Return what the ``execution`` of a suite or a case says of the answer wanted."""
        execution = node.children.get("execution")
        if execution is None or not execution.members:
            return RequestSettings()
        label = f"{label}: execution".removeprefix(": ")
        self.keys.check(execution, "execution", label=label)
        keys = read_as(execution, SettingsKeys, where=self.name, label=label)
        keys = settled(keys, execution, self.files, self.name, f"{label}.")
        return RequestSettings(**keys.said())

    def warn_of_answer(self, line: Node, case: Case) -> None:
        """Warn, once in a file, of an answer in the prompt of a line for fine-tuning."""
        has_result = case.input_messages[-1].role == "assistant" and case.expected_messages is None
        if has_result and "messages" in line.children:
            what = (
                "the last message is the assistant's, and stays in the prompt;"
                " write an answer to compare with as expected_messages"
            )
            self.keys.warn("suite.answer_in_prompt", line.place(self.name), what, once=True)

    def _message(self, node: WrittenMessage, index: int) -> TestMessage:
        keys = node.children
        if len(keys) > 2:  # than the role and the content
            self.keys.check(node, "message", label=node.label)
        role, content = keys["role"], keys["content"]
        if role.scalar not in ROLES:
            what = f"there is no role {quoted(role.scalar)}; {did_you_mean(role.scalar, ROLES)}"
            raise InputError(what, where=role.place(self.name, node.label))
        is_list = isinstance(content.children, list)
        thinking = calls.leading_thinking(node, self.keys) if content.children else ()
        segments = node.segments[len(thinking) :]
        for at, segment in enumerate(segments, len(thinking)):
            self._segment(segment, node.segment_label(at))
        answers, is_error = calls.read_answers(node, self.keys)
        values = [segment.value for segment in segments]
        return TestMessage(
            role.scalar,
            values[0] if values and not is_list else values,
            node.line,
            tuple([segment.line for segment in segments]),
            "" if node.name == f"input_messages[{index}]" else node.name,
            calls.read_calls(node, self.keys),
            answers,
            is_error,
            thinking,
            node.first + len(thinking),
            tuple([segment.mark.column + 1 for segment in segments]),
        )

    def _segment(self, segment: Node, label: str) -> None:
        text = segment
        if isinstance(segment.children, dict):
            if "type" not in segment.children:
                keys = segment.members.items()
                kinds = {key: kind for key, kind in keys if kind.scalar in ("text", "file")}
                self.keys.refuse_misspelled(with_keys(segment, kinds), ["type"], label)
                match [*segment.value.items()]:
                    case [(str(kind), str(path))] if kind in FILE_TYPES:
                        advice = f"to attach it, write {{type: {kind}, value: {cut(path)}}}"
                        what = f"{{{kind}: {cut(path)}}} is sent as JSON; {advice}"
                        self.keys.warn(_PATH_AS_TEXT, segment.place(self.name, label), what)
            elif calls.is_thinking(segment):
                what = "thinking comes before the text; write it first"
                raise InputError(what, where=segment.place(self.name, label))
            elif "value" in segment.children:
                check_segment(segment, self.keys, label)
            if value_at(segment.children, "type") != "text":
                return
            text = segment.children.get("value", segment)
        self._warn_of_path(text, label, ATTACH)

    def _warn_of_path(self, text: Node, label: str, advice: str) -> None:
        """Warn of a text that is the path of a file; ``advice`` ends the sentence."""
        written = text.scalar
        if not isinstance(written, str) or not may_be_path(written):
            return
        inner, files = written.lstrip("/"), self.files
        is_file = any(os.path.isfile(os.path.join(folder, inner)) for folder in files.folders)
        with suppress(MultiturnError):  # a file that could not be attached
            if written.startswith(_URL) or (is_file and files.find(written)):
                what = f"{quoted(written)} is sent as text, not as the file; "
                what += advice.format(path=written.removeprefix(_URL))
                self.keys.warn(_PATH_AS_TEXT, text.place(self.name, label), what)

    def _system_prompt(self, node: Node, label: str) -> str | None:
        """Return the system prompt in the metadata of a suite or a case."""
        metadata = node.children.get("metadata")
        if metadata is None or metadata.value is None:
            return None
        inner = f"{label}: metadata".removeprefix(": ")
        keys = read_as(metadata, MetadataKeys, where=self.name, label=inner)
        self.keys.refuse_misspelled(
            metadata, ["systemPrompt"], inner, MetadataKeys.__struct_fields__
        )
        if keys.system_prompt is not None and keys.systemPrompt is not None:
            second = metadata.children["system_prompt"]
            raise self.keys.both("systemPrompt", "system_prompt", second, label)
        return keys.systemPrompt if keys.system_prompt is None else keys.system_prompt

    def _places(self, node: Node, shared: Case) -> Mapping[str, Place]:
        """Return where the texts are that are in no message, of a suite or of one of its cases."""
        own = {
            f"guidelines[{at}]": text.place(self.name)
            for at, text in enumerate(_guidelines_of(node), len(shared.guidelines))
        }
        for key, prompt in members_at(node.children, "metadata").items():
            if key in MetadataKeys.__struct_fields__ and not prompt.is_null:
                own[PROMPT_KEY] = prompt.place(self.name)
        for key, child in members_at(node.children, "execution").items():
            if key in SETTINGS:
                own[f"execution.{key}"] = child.key_place(self.name)
        return {**shared.places, **own} if own else shared.places


def _guidelines_of(node: Node) -> list[Node]:
    listed = node.children.get("guidelines")
    return (listed.children or []) if listed is not None else []


def as_written(node: Node | None) -> Any:
    """Return a value, but a plain scalar as its text: an id is 010 and not 10."""
    if node is None:
        return None
    return node.value if node.source is None or node.scalar is None else node.source


def _over(own: Any, shared: Any) -> Any:
    """Return what a case says over what its suite says: key by key, if both are mappings."""
    if isinstance(own, dict) and isinstance(shared, dict):
        return {**shared, **own}
    return shared if own is None else own
