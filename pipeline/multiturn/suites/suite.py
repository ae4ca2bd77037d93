"""Suites: YAML files to validated cases, with errors that name the place."""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from multiturn.documents.json_lines import Lines
from multiturn.documents.source import check_path
from multiturn.documents.validation import read_as
from multiturn.documents.yaml_events import Node, read_documents
from multiturn.errors import MultiturnError, Place, did_you_mean
from multiturn.files import Files, Texts, find_root
from multiturn.model import Case, TestMessage
from multiturn.suites.patterns import guideline_matcher
from multiturn.suites.schema import CaseKeys, ConfigKeys, MessageKeys, Metadata, SuiteKeys
from multiturn.suites.settings import SuiteSettings
from multiturn.suites.streaming import Document, open_suite
from multiturn.turns import ROLES

STDIN = "<stdin>"
CONFIG = ".agentv/config.yaml"
MAX_CASE_SIZE = 10_000_000


class Key(NamedTuple):
    """Which case of its suite something is about.

    Attributes:
        case_id: as the suite has it; None where it is not known.
        line: one-based line of the case.
        where: its place.
    """

    case_id: str | None = None
    line: int = 0
    where: Place = Place()


class CaseIds:
    """The ids of a suite, which are unique in it, each with its line."""

    def __init__(self) -> None:
        self._lines: dict[str, int] = {}

    def duplicate(self, key: Key) -> MultiturnError | None:
        """Return the error for an id that an earlier case has; None for a new one, or none."""
        if key.case_id is None:
            return None
        first = self._lines.get(key.case_id)
        if first is None:
            self._lines[key.case_id] = key.line
            return None
        what = f"duplicate id {key.case_id!r}, first used on line {first}"
        return MultiturnError(f"{what}; ids are unique in a file", where=key.where, case_id="")


def load_suite(
    source: str | Path,
    *,
    root: str | Path | None = None,
    guideline_patterns: Iterable[str] | None = None,
    texts: Texts | None = None,
    on_error: Callable[[MultiturnError], None] | None = None,
) -> Iterator[Case]:
    """Yield the cases of a suite, in their order.

    Args:
        source: path of a YAML file, of a ``.jsonl`` file with one case a line, or ``-`` for
            YAML on standard input.
        root: attached files are read inside it only; by default the nearest folder above the
            suite that holds ``.git``, else the suite's own.
        guideline_patterns: used instead of those of the suite and of ``.agentv/config.yaml``.
        texts: the attached files read so far, to be shared by the suites of a run.
        on_error: called with each error, and the suite goes on with the next case; without it
            the first error is raised.

    Raises:
        MultiturnError: the suite or a case is not as the format wants it; with its place.
    """
    ids = CaseIds()
    for key, found in read_cases(source, root, guideline_patterns, texts):
        found = ids.duplicate(key) or found
        if isinstance(found, Case):
            yield found
        elif on_error is None:
            raise found
        else:
            on_error(found)


def read_cases(
    source: str | Path,
    root: str | Path | None = None,
    guideline_patterns: Iterable[str] | None = None,
    texts: Texts | None = None,
    lines: Lines | None = None,
    name: str | None = None,
) -> Iterator[tuple[Key, Case | MultiturnError]]:
    """Yield each case of a suite, or the error in its place; ids may be duplicates.

    Args:
        source: as for ``load_suite``, and so are the next three.
        root: as for ``load_suite``.
        guideline_patterns: as for ``load_suite``.
        texts: as for ``load_suite``.
        lines: the lines to read of a ``.jsonl`` file; None for all.
        name: what errors and results call the suite; by default, its path.
    """
    try:
        check_path(f"{source}{root or ''}")
        suite = _Suite(str(source), root, guideline_patterns, texts, name)
        document = None
        with open_suite(suite.source, suite.name, lines) as documents:
            for document in documents:
                try:
                    yield from suite.cases(document)
                except MultiturnError as error:
                    yield Key(), error
        if document is None:
            what = 'it is empty; a suite has "evalcases:", a bare case has "input_messages:"'
            raise MultiturnError(what, where=suite.name)
    except MultiturnError as error:
        yield Key(), error


class _Suite:
    """One suite on its way from text to cases."""

    def __init__(
        self,
        source: str,
        root: str | Path | None,
        patterns: Iterable[str] | None,
        texts: Texts | None,
        name: str | None,
    ) -> None:
        self.source = source
        self.name = name or (STDIN if source == "-" else source)
        folder = Path.cwd() if source == "-" else Path(os.path.realpath(source)).parent
        self.files = Files(folder, Path(root) if root is not None else find_root(folder), texts)
        self.given_patterns = None if patterns is None else tuple(patterns)
        self.is_lines = source.endswith(".jsonl")
        self.settings = SuiteSettings(self.name)

    def cases(self, document: Document) -> Iterator[tuple[Key, Case | MultiturnError]]:
        """Yield each case of a document, or the error in its place."""
        head = document.head
        suite = read_as(head, SuiteKeys, where=self.name)
        is_case = "input_messages" in head.value
        if is_case == (suite.evalcases is not None):
            raise self.settings.no_cases(head, is_case)
        execution = self.settings.execution(head)
        shared = Case(
            id="",
            input_messages=(),
            suite=self.name,
            system_prompt=self.settings.system_prompt(head),
            guidelines=tuple(suite.guidelines or ()),
            guideline_patterns=self.patterns(head, suite),
            metadata=_without_prompt(suite.metadata),
            temperature=execution.temperature,
            max_output_tokens=execution.max_output_tokens,
            files=self.files,
        )
        if is_case:
            self.settings.warn_unknown(head, CaseKeys, SuiteKeys)
        else:
            self.settings.warn_unknown(head, SuiteKeys)
        nodes: Iterable[Node | MultiturnError] = [head]
        if not is_case:
            nodes = document.cases or head.children["evalcases"].children
        for index, node in enumerate(nodes):
            key = Key()
            found: Case | MultiturnError
            try:
                if isinstance(node, MultiturnError):
                    raise node
                label = "" if is_case or self.is_lines else f"evalcases[{index}]"
                where = node.place(self.name, label)
                key = Key(self.case_id(node, where, is_case), node.line, where)
                found = self.case(node, key.case_id or "", shared, is_case)
            except MultiturnError as error:
                error.case_id = key.case_id or ""
                found = error
            yield key, found

    def case_id(self, node: Node, where: Place, is_bare: bool) -> str:
        """Return a case's id as it is written; a bare case has its file's name."""
        if not isinstance(node.children, dict):
            raise MultiturnError("a case is a mapping", where=where)
        given = node.children.get("id")
        if given is not None and given.value is not None:
            case_id = _as_written(given)
            if not isinstance(case_id, str) or not case_id.strip():
                raise MultiturnError("id must be text", where=given.place(self.name, where.label))
        elif is_bare:
            name = "stdin" if self.source == "-" else Path(self.source).name
            case_id = re.sub(r"(\.eval)?\.ya?ml$", "", name)
        else:
            raise MultiturnError("the case has no id; add one", where=where)
        return case_id

    def case(self, node: Node, case_id: str, shared: Case, is_bare: bool) -> Case:
        """Read one case, beside what its suite gives to all."""
        label = f"case {case_id!r}"
        case = read_as(node, CaseKeys, where=self.name, label=label)
        if not case.input_messages:
            raise MultiturnError("it has no messages", where=node.place(self.name, label))
        if node.size > MAX_CASE_SIZE:
            what = f"it is larger than {MAX_CASE_SIZE:,} characters, its aliases written out"
            raise MultiturnError(what, where=node.place(self.name, label))
        if not is_bare:
            self.settings.warn_unknown(node, CaseKeys)
        own_prompt = None if is_bare else self.settings.system_prompt(node, label)
        own = self.settings.execution(node, label)
        nodes = node.children["input_messages"].children
        return Case(
            id=case_id,
            input_messages=tuple(
                self.message(nodes[index], message, index, label)
                for index, message in enumerate(case.input_messages)
            ),
            suite=self.name,
            line=node.line,
            system_prompt=shared.system_prompt if own_prompt is None else own_prompt,
            guidelines=shared.guidelines + (() if is_bare else tuple(case.guidelines or ())),
            guideline_patterns=shared.guideline_patterns,
            metadata={**shared.metadata, **_without_prompt(case.metadata)},
            outcome=case.outcome,
            conversation_id=_as_written(node.children.get("conversation_id")),
            expected_messages=case.expected_messages,
            execution=case.execution,
            temperature=shared.temperature if own.temperature is None else own.temperature,
            max_output_tokens=own.max_output_tokens or shared.max_output_tokens,
            files=self.files,
        )

    def message(self, node: Node, message: MessageKeys, index: int, label: str) -> TestMessage:
        """Read one message, and the line of each of its segments."""
        self.settings.warn_unknown(node, MessageKeys)
        role = message.role
        if role not in ROLES:
            what = f"there is no role {role!r}; {did_you_mean(role, ROLES)}"
            label = f"{label}: input_messages[{index}]"
            raise MultiturnError(what, where=node.children["role"].place(self.name, label))
        content = node.children["content"]
        segments = content.children if isinstance(content.children, list) else [content]
        lines = tuple([segment.line for segment in segments])
        return TestMessage(role, message.content, node.line, lines)

    def patterns(self, node: Node, suite: SuiteKeys) -> tuple[str, ...]:
        """Return the caller's guideline patterns, else the suite's, else the nearest config's."""
        if self.given_patterns is not None:
            return self.given_patterns
        if suite.guideline_patterns is not None:
            return _checked(suite.guideline_patterns, node, self.name)
        for folder in self.files.folders:
            path = Path(folder, CONFIG)
            if os.path.exists(path):
                name = path.relative_to(self.files.root).as_posix()
                text = self.files.read(self.files.find(f"/{name}"), 1_048_576)
                for config in read_documents(text, name):
                    patterns = read_as(config, ConfigKeys, where=name).guideline_patterns
                    return _checked(patterns or [], config, name)
                break
        return ()


def _as_written(node: Node | None) -> Any:
    """Return a value, but a plain scalar as its text: an id is 010 and not 10."""
    if node is None or node.value is None:
        return None
    return node.value if node.source is None else node.source


def _checked(patterns: list[str], node: Node, name: str) -> tuple[str, ...]:
    try:
        guideline_matcher(tuple(patterns))
    except MultiturnError as error:
        where = node.children["guideline_patterns"].place(name)
        raise MultiturnError(error.what, where=where) from None
    return tuple(patterns)


def _without_prompt(metadata: Metadata | None) -> Metadata:
    keys = (metadata or {}).items()
    return {key: value for key, value in keys if key not in ("systemPrompt", "system_prompt")}
