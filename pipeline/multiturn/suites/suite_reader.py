"""Suites: YAML files to validated cases, with errors that name the place."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress

from msgspec import structs

from multiturn.documents.input import check_path
from multiturn.documents.json_lines import Lines, is_json_lines
from multiturn.documents.node import Node, place_of
from multiturn.documents.validation import read_as
from multiturn.documents.yaml_reader import read_documents
from multiturn.errors import InputError, MultiturnError, Place, RepeatsError, quoted
from multiturn.files.finding import Files, Texts
from multiturn.files.paths import path_in, real_path, root_of
from multiturn.logs import Notice, debug
from multiturn.model.case import CASES_KEYS, MESSAGES_KEYS, Case
from multiturn.suites.case_files import LINES, Globs, cases_in_file, files_at
from multiturn.suites.case_reader import CaseReader
from multiturn.suites.dialects import Dialect
from multiturn.suites.guideline_patterns import UnusedPatterns, patterns_of
from multiturn.suites.keys import value_at
from multiturn.suites.plain import PlainCase
from multiturn.suites.schema import SuiteKeys
from multiturn.suites.streaming import Document, open_suite, suite_documents
from multiturn.text import utf8

STDIN = "<stdin>"
_FORMS = 'a suite has "evalcases:", a bare case has "input_messages:"'
MAX_CASES_FILE = 40_000_000  # bytes of a file of cases that a suite names

SuiteItem = Case | MultiturnError | Notice


def duplicate_id(case_id: str, first: int, where: Place) -> MultiturnError:
    """Return the error for an id that an earlier case has, on the line ``first``."""
    return InputError(
        f"duplicate id {quoted(case_id)}, first used on line {first}; ids are unique in a file"
    ).at(where, "")


def files_of_cases(path: str) -> Iterator[str]:
    """Yield the real path of each file of cases that a suite names; errors are for its reader."""
    suite = SuiteReader(path)
    with suppress(MultiturnError), open_suite(path, path) as file:
        for document in suite_documents(file, path, path):
            head = suite.dialect.suite(document.head)
            listed = head.members.get("evalcases")
            for node in document.cases or (listed.children if listed else ()):
                if isinstance(node, Node) and isinstance(node.scalar, str):
                    paths = suite.globs.files(node.value.removeprefix("file://"))
                    found = [suite.files.find(path) for path in paths]
                    yield from (os.path.join(suite.files.root, each) for each in found)


class SuiteReader:
    """Reads a suite."""

    is_captured = False  # whether its lines are requests of a program
    is_part = False  # whether not all lines of the file are read

    def __init__(
        self,
        source: str,  # path of a YAML file, of a ``.jsonl`` file, or ``-`` for standard input
        root: str | None = None,  # attached files are read inside it only; None for the suite's own
        patterns: tuple[str, ...] | None = None,  # in place of the suite's and of its config's
        texts: Texts | None = None,  # the attached files read so far, by the suites of a run
        name: str | None = None,  # what errors call the suite; by default, its path
    ) -> None:
        check_path(f"{source}{root or ''}")
        self.source = source
        self.name = name or (STDIN if source == "-" else source)
        real = real_path(STDIN if source == "-" else source)
        folder = os.path.dirname(real)
        self.texts = Texts() if texts is None else texts
        self.files = Files(folder, root_of(folder) if root is None else root, self.texts)
        self.files.suite = path_in(self.files.root, real)
        self.globs = Globs(self.files.folders[0], self.files.root)
        # In results, it has its path from the root of its project; without a project, its name.
        is_project = root is not None or os.path.exists(os.path.join(self.files.root, ".git"))
        is_file = source != "-" and "://" not in self.name  # what is elsewhere is copied here
        self.suite = (self.files.suite if is_project and is_file else None) or self.name
        self.given_patterns = patterns
        self.dialect = Dialect(self.name)
        self.files_read: set[str] = set()  # files of cases, by their paths from the root
        self.lines: dict[str, int] = {}  # of the cases so far, by their ids
        self.count = 0  # of the cases so far
        self.reader = CaseReader(self.files, self.dialect)

    def read(self, lines: Lines | None = None) -> Iterator[SuiteItem]:
        """Yield each case, or its error, and warnings; ``lines`` are of a ``.jsonl``."""
        document, repeats, self.is_part = None, self.dialect.repeats, lines is not None
        with open_suite(self.source, self.name) as file:
            given = (file, self.source, self.name, lines, repeats)
            for document in suite_documents(*given, is_captured=self.is_captured):
                try:
                    yield from self.cases(document)
                except RepeatsError as error:
                    yield error
                    return
                except MultiturnError as error:
                    yield error
        yield from self.reader.keys.rest()
        if document is None:
            raise InputError(f"it is empty; {_FORMS}", where=self.name)

    def cases(self, document: Document) -> Iterator[SuiteItem]:
        """Yield each case of a document, or the error in its place."""
        if not isinstance(document.head.children, dict):
            where = document.head.place(self.name)
            raise InputError(f"{_FORMS}; this has neither", where=where)
        head = self.dialect.suite(document.head)
        suite = read_as(head, SuiteKeys, where=self.name)
        is_case = not {*MESSAGES_KEYS, "turns"}.isdisjoint(head.members)
        if is_case == (suite.evalcases is not None):
            raise self.no_cases(head, "both" if is_case else "neither")
        patterns, own = self.given_patterns, None
        if patterns is None:
            patterns = patterns_of(head, suite, self.files, self.name)
            own = head.children.get("guideline_patterns")
        self.unused = UnusedPatterns(own, self.name)
        if suite.evalcases is None:
            name = "stdin" if self.source == "-" else os.path.basename(self.source)
            file_id = utf8(re.sub(r"(?i)(\.eval)?\.(ya?ml|json)$", "", name))
            shared = structs.replace(self.reader.shared(self.suite, patterns), id=file_id)
            yield from self.case(head, "", shared, self.reader, "suite")
            yield from self.unused.warnings()
            return
        shared = self.reader.shared(self.suite, patterns, head)
        yield from self.reader.keys.warnings()
        index, is_lines = -1, is_json_lines(self.source)
        for index, node in enumerate(document.cases or head.children["evalcases"].children):
            label = "" if is_lines else f"evalcases[{index}]"
            if isinstance(node, Node) and isinstance(node.scalar, str):
                yield from self.cases_of(node, label, shared)
            else:
                yield from self.case(node, label, shared, self.reader)
        if index < 0 and not (is_lines and self.is_part):
            listed = head.children.get("evalcases", head)
            where = Place(self.name) if is_lines else listed.place(self.name)
            yield Notice("suite.no_cases", where, "the suite has no cases; add one")
        yield from self.unused.warnings()
        if self.dialect.read_as:
            debug("suite.read_as", suite=self.name, **self.dialect.read_as)

    def case(
        self,
        node: Node | PlainCase | MultiturnError,
        label: str,
        shared: Case,
        reader: CaseReader,
        *places: str,
    ) -> Iterator[SuiteItem]:
        """Yield what there is to warn of, then the case or its error."""
        if isinstance(node, Node):
            reader.dialect.check_repeats(node)
        known_id = ""
        self.count += 1
        found: Case | MultiturnError
        try:
            if isinstance(node, MultiturnError):
                raise node
            line = node.mark.line + 1
            if isinstance(node, PlainCase):
                case_id = node.id or str(line)
            else:
                given = reader.case_id(node, label)
                case_id = given or shared.id or self.id_for(node, reader, label)
            if case_id in self.lines:
                where = place_of(reader.name, node.mark, label)
                raise duplicate_id(case_id, self.lines[case_id], where)
            self.lines[case_id] = line
            known_id = case_id
            if isinstance(node, PlainCase):
                if node.key != "input_messages":
                    self.dialect.read_as[node.key] = "input_messages"
                found = structs.replace(
                    shared,
                    id=case_id,
                    input_messages=node.messages,
                    line=line,
                    outcome=node.outcome,
                )
            else:
                found = reader.case(node, case_id, shared, *places)
                if not label and not shared.id:
                    reader.warn_of_answer(node, found)
        except MultiturnError as error:
            error.case_id = known_id
            found = error
        self.unused.see(found)
        yield from reader.keys.warnings()
        yield found

    def id_for(self, node: Node, reader: CaseReader, label: str) -> str:
        """Return the id of a case that has none: promptfoo and data sets give their cases none."""
        has_vars = bool(self.dialect.variables.messages) or "vars" in node.children
        if label and not has_vars:
            reader.keys.refuse(node, "case", label=label)
            where = node.place(reader.name, label)
            raise InputError("the case has no id; add one", where=where)
        name = value_at(node.children, "description")
        if has_vars and isinstance(name, str) and name.strip() and name not in self.lines:
            return name
        number = str(self.count if label else node.line)
        stem = os.path.splitext(os.path.basename(reader.name))[0]
        return f"{stem}-{number}" if number in self.lines else number  # in another file of cases

    def cases_of(self, named: Node, label: str, shared: Case) -> Iterator[SuiteItem]:
        """Yield each case of the file, or of the files of a glob, that a suite names for cases."""
        try:
            paths = self.globs.files(named.value.removeprefix("file://"))
            for path in [self.files.find(path) for path in paths]:
                for file, case_id in files_at(self.files, path):
                    yield from self.cases_in(file, case_id, shared)
        except RepeatsError:
            raise
        except MultiturnError as error:
            if not any(error.where):
                error.where = named.place(self.name, label)
            self.unused.see(error)
            yield error

    def cases_in(self, path: str, case_id: str, shared: Case) -> Iterator[SuiteItem]:
        """Yield each case of a file of cases; one with an id of its own has only that case."""
        if path in self.files_read:
            raise InputError(f"the file of cases {path!r} is named twice")
        self.files_read.add(path)
        root, place = self.files.root, os.path.join(self.files.root, path)
        text = Files(root, root).read(path, MAX_CASES_FILE)  # which is not kept
        name = os.path.relpath(place)
        files = Files(os.path.dirname(place), root, self.texts)
        files.suite = self.files.suite
        reader = CaseReader(files, self.dialect.inside(name))
        inside = structs.replace(shared, file=name, files=files, id=case_id)
        repeats = self.dialect.repeats
        repeats.length += len(text)
        if case_id:
            documents = list(read_documents(text, name, repeats=repeats))
            if len(documents) != 1:
                raise InputError("this must be one case", where=name)
            yield from self.case(documents[0], "", inside, reader)
        else:
            has_vars = bool(self.dialect.variables.messages)
            index = -1
            for index, node in enumerate(cases_in_file(text, name, repeats, has_vars=has_vars)):
                label = "" if name.lower().endswith(LINES) else f"[{index}]"
                yield from self.case(node, label, inside, reader)
            if index < 0:
                yield Notice("suite.no_cases", Place(name), "the file has no cases; add one")
        yield from reader.keys.rest()

    def no_cases(self, head: Node, found: str) -> MultiturnError:
        """Return the error for a document that is both a suite and a case, or neither."""
        if "evalcases" in head.members and head.members["evalcases"].value is None:
            what = 'there are no cases; write them below, each as "- id: NAME" with input_messages'
            return InputError(what, where=head.children["evalcases"].key_place(self.name))
        if found == "neither":
            self.reader.keys.refuse_misspelled(head, (*CASES_KEYS, *MESSAGES_KEYS))
        return InputError(f"{_FORMS}; this has {found}", where=head.place(self.name))
