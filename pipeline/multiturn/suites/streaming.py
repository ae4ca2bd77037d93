"""A suite's documents, case by case as the file is read; and what is on a line of a suite."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from typing import Any, BinaryIO, NamedTuple

import yaml
from msgspec import Struct, structs

from multiturn.documents.input import open_rewindable
from multiturn.documents.json_lines import Lines, is_json_lines, read_json_lines
from multiturn.documents.node import Node, Repeats
from multiturn.documents.yaml_reader import MERGE, Reader, Source, read_documents
from multiturn.errors import InputError, MultiturnError, Place
from multiturn.suites.keys import CASES
from multiturn.suites.plain import PlainCase, plain_line

MAX_YAML = 2**30  # bytes of a suite, which are in memory while it is read


class Document(Struct, frozen=True):
    """A document of a suite."""

    head: Node  # its keys; ``evalcases`` is an empty list if ``cases`` has the cases
    # each case or its error, read while it is iterated, before the next document. None if the
    # head has the cases
    cases: Iterator[Node | PlainCase | MultiturnError] | None = None
    at_margin: bool = True  # whether its keys begin at the margin; those of most suites do


def open_suite(path: str, name: str) -> AbstractContextManager[BinaryIO]:
    """Open a suite, or ``-``, for ``read_suite``."""
    if path.lower().endswith(".csv"):
        advice = f'write a suite beside it, with "tests: {os.path.basename(path)}"'
        raise InputError(f"a CSV file is not a suite; {advice}", where=name)
    return open_rewindable(path, name)


def suite_documents(
    file: BinaryIO,
    path: str,
    name: str,
    lines: Lines | None = None,
    repeats: Repeats | None = None,
    *,
    is_captured: bool = False,
) -> Iterator[Document]:
    """Yield the documents of a suite, each with all of its keys.

    A ``.jsonl`` file is one, of which ``lines`` are a part. In YAML, keys after the cases count for
    all of them: if a line after ``evalcases`` begins at the margin, there may be such keys, and the
    file is read twice.
    """
    if is_json_lines(path):
        empty = next(read_documents("evalcases: []", name))
        at_once = () if is_captured else (plain_line,)
        yield Document(empty, read_json_lines(file, name, lines, *at_once))
        return
    source = _source(file, name)
    if repeats is not None:
        repeats.length += len(source.data)
    heads: list[Node] | None = None
    for number, document in enumerate(_Stream(source, repeats=repeats).suite()):
        if document.cases is not None:
            key = next(iter(CASES & document.head.children.keys()))
            if heads is None and (not document.at_margin or source.has_keys_after(key)):
                heads = _heads(source)
            if heads is not None and number < len(heads):
                document = structs.replace(document, head=heads[number])
        yield document


def _source(file: BinaryIO, name: str) -> Source:
    if file.seek(0, os.SEEK_END) > MAX_YAML:
        raise InputError(f"over {MAX_YAML:,} bytes of YAML; write JSON Lines", where=name)
    file.seek(0)
    return Source(file.read(), name)


def read_list(data: bytes, name: str, repeats: Repeats) -> Iterator[Node]:
    """Yield each case of a file in YAML that is a list of them, or ``evalcases`` with one."""
    for document in _Stream(Source(data, name), repeats=repeats).suite(lists=True):
        if document.cases is None or document.head.children.keys() - CASES:
            what = "a file of cases is a list of them; name a suite itself"
            raise InputError(what, where=document.head.place(name))
        yield from document.cases  # type: ignore[misc]


def _heads(source: Source) -> list[Node]:
    """Read the source to its end, or to its first error, and return the keys of its documents."""
    heads = []
    # The second reading finds the error again, after the cases before it.
    with suppress(MultiturnError):
        for document in _Stream(source).suite():
            heads.append(document.head)
            for _ in document.cases or ():
                pass
    return heads


class _Stream(Reader):
    """Reads the list of cases one by one, and anything else as a whole."""

    broken = False

    def suite(self, *, lists: bool = False) -> Iterator[Document]:
        """Yield each document; one may be a list of cases, if ``lists`` are allowed."""
        for event in self.roots():
            kind = event.__class__
            if kind is yaml.MappingStartEvent and event.anchor is None:
                yield from self.root(event)
            elif kind is yaml.SequenceStartEvent and event.anchor is None and lists:
                yield Document(Node(None, event.start_mark, None, {}), self.items(event))
            else:
                yield Document(self.value(event))
            if self.broken:
                return

    def root(self, event: Any) -> Iterator[Document]:
        """Build a document's mapping; it is yielded at its cases, else at its end."""
        if event.tag is not None:
            self.check_tag(event, "map")
        head = Node(None, event.start_mark, None, {})
        streamed = False
        known: set[str] = set()  # its own keys; they win over merged ones
        merged: list[Node] = []
        self.depth += 1
        while (key := self.event()).__class__ is not yaml.MappingEndEvent:
            name = self.new_key(key, known)
            value = self.event()
            if name is MERGE:
                merged += self.mappings(self.value(value))
                continue
            known.add(name)
            is_list = value.__class__ is yaml.SequenceStartEvent and not value.anchor
            streams = name in CASES and is_list and not streamed
            child = Node(None, value.start_mark, None, []) if streams else self.value(value)
            child.key_mark = key.start_mark
            head.children[name] = child
            if streams:
                streamed = True
                cases = self.items(value)
                at_margin = event.start_mark.column == 0 and not event.flow_style
                head.merge(merged)
                yield Document(head, cases, at_margin)
                for _ in cases:
                    pass  # skip the cases that the caller did not take
                if self.broken:
                    return
        self.depth -= 1
        head.merge(merged)
        if not streamed:
            yield Document(head)

    def items(self, event: Any) -> Iterator[Node]:
        """Yield the values of a list; an error in them ends the documents, too."""
        self.broken = True
        if event.tag is not None:
            self.check_tag(event, "seq")
        self.depth += 1
        while (item := self.event()).__class__ is not yaml.SequenceEndEvent:
            values = self.values
            yield self.value(item)
            self.values = values
        self.depth -= 1
        self.broken = False


_Position = tuple[int, int]  # zero-based line and column


class Extent(NamedTuple):
    """What a line of a suite is about; the end is after it."""

    file: str
    start: _Position
    end: _Position
    around: frozenset[_Position] = frozenset()  # where the values begin that go on at the line

    def holds(self, place: Place) -> bool:
        """Return whether a text at a place is meant; one without a column is any on its line."""
        line, column = place.line - 1, place.column - 1 if place.column else self.start[1]
        if place.file != self.file:
            return False
        if not place.column and any(line == begin[0] for begin in self.around):
            return True
        return self.start <= (line, column) < self.end or (line, column) in self.around


def extent_at(path: str, line: int) -> Extent:
    """Return what a one-based line of a suite is about.

    It is all that begins on the line: a key with its value, or an item of a list, such as a message
    or a case; and a text, or a segment, that has begun before and goes on there.
    """
    at = line - 1
    if is_json_lines(path):
        return Extent(path, (at, 0), (line, 0))
    begun, around = [], set()
    with open_rewindable(path, path) as file:
        source = _source(file, path)
    for start, value, end in _entries(Reader(source)):
        if start[0] == at:
            begun.append((start, end))
        elif start[0] < at and end > (at, 0):
            around.add(value)
    start = min((start for start, _ in begun), default=(at, 0))
    end = max((end for _, end in begun), default=(at, 0))
    return Extent(path, start, end, frozenset(around))


def _entries(reader: Reader) -> Iterator[tuple[_Position, _Position, _Position]]:
    """Yield, for each value, where its key or else itself begins, where it begins, and its end."""
    opened: list[tuple[_Position, _Position, bool]] = []  # collections, and whether they have keys
    key: _Position | None = None
    while (event := reader.event()).__class__ is not yaml.StreamEndEvent:
        start, end = ((at.line, at.column) for at in (event.start_mark, event.end_mark))
        is_scalar = isinstance(event, yaml.ScalarEvent | yaml.AliasEvent)
        if is_scalar and opened and opened[-1][2] and key is None:
            key = start
            continue
        if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            opened.append((key or start, start, isinstance(event, yaml.MappingStartEvent)))
        elif is_scalar:
            yield key or start, start, end
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            if start == end:  # without a bracket, it ends before the line of the next value
                end = (end[0], 0)
            first, start, _ = opened.pop()
            if opened:  # the document itself begins where its first key does
                yield first, start, end
        key = None
