"""A suite's documents, case by case, while the rest of the file is still to be read."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from yaml.events import (
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from multiturn.documents.json_lines import Lines, read_json_lines
from multiturn.documents.node import Node
from multiturn.documents.source import Source, mistakes_placed, open_rewindable
from multiturn.documents.yaml_events import MERGE, Reader, read_documents
from multiturn.errors import MultiturnError

CASES = "evalcases"


class Document(NamedTuple):
    """A document of a suite.

    Attributes:
        head: its keys; ``evalcases`` is an empty list where the cases come one by one.
        cases: each, or what is wrong with it; to be taken before the next document is. None
            where the head has them.
        at_margin: whether its keys begin at the margin, as they do in all but odd suites.
    """

    head: Node
    cases: Iterator[Node | MultiturnError] | None = None
    at_margin: bool = True


@contextmanager
def open_suite(path: str, name: str, lines: Lines | None = None) -> Iterator[Iterator[Document]]:
    """Open a suite for reading its documents; a ``.jsonl`` file is one.

    Args:
        path: of the suite, or ``-``.
        name: what errors call it.
        lines: the lines to read of a ``.jsonl`` file; None for all.

    Raises:
        MultiturnError: it cannot be read.
    """
    with open_rewindable(path, name) as file:
        if path.endswith(".jsonl"):
            empty = next(read_documents(f"{CASES}: []", name))
            yield iter([Document(empty, read_json_lines(file, name, lines))])
        else:
            yield stream_documents(Source(file, name))


def stream_documents(source: Source) -> Iterator[Document]:
    """Yield each document of a suite, with all of its keys.

    Keys that stand behind the cases count for all of them. A look at the margin of the rest of
    the file tells whether there may be any; only then is the file read twice.

    Raises:
        MultiturnError: at the first mistake, with ``name:line:column``.
    """
    heads: list[Node] | None = None
    with mistakes_placed(source):
        for number, document in enumerate(_Stream(source).suite()):
            if document.cases is None:
                yield document
                continue
            if heads is None and not (document.at_margin and not source.key_behind(CASES)):
                heads = _heads(source)
            if heads is None or number >= len(heads):
                yield document
            else:
                yield document._replace(head=heads[number])


def _heads(source: Source) -> list[Node]:
    """Read the source to its end, or to its first mistake, for the keys of its documents."""
    heads = []
    with source.again():
        try:
            with mistakes_placed(source):
                for document in _Stream(source).suite():
                    heads.append(document.head)
                    for _ in document.cases or ():
                        pass
        except MultiturnError:
            pass  # it comes again, behind the cases that stand before it
    return heads


class _Stream(Reader):
    """Reads the list of cases one by one, and anything else as a whole."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.source = source
        self.broken = False

    def suite(self) -> Iterator[Document]:
        while not self.broken and (event := self.next()).__class__ is not StreamEndEvent:
            if event.__class__ is DocumentStartEvent:
                self.anchors.clear()
                self.values = 0
                event = self.next()
                if event.__class__ is MappingStartEvent and event.anchor is None:
                    yield from self.root(event)
                else:
                    yield Document(self.tree(event))

    def root(self, event: Any) -> Iterator[Document]:
        """Build a document's mapping; it is yielded at its cases, else at its end."""
        if event.tag is not None:
            self.check_tag(event, "map")
        head = Node({}, event.start_mark, None, {})
        streamed = False
        known: set[str] = set()  # its own keys; they win over merged ones
        merged: list[Node] = []
        self.depth += 1
        while (key := self.next()).__class__ is not MappingEndEvent:
            name = self.new_key(key, known)
            value = self.next()
            if name is MERGE:
                merged += self.mappings(self.tree(value))
                continue
            known.add(name)
            streams = name == CASES and value.__class__ is SequenceStartEvent and not value.anchor
            child = Node([], value.start_mark, None, []) if streams else self.tree(value)
            child.key_mark = key.start_mark
            head.children[name] = child
            head.value[name] = child.value
            if streams:
                streamed = True
                cases = self.items(value)
                at_margin = event.start_mark.column == 0 and not event.flow_style
                head.merge(merged)
                yield Document(head, cases, at_margin)
                for _ in cases:
                    pass  # what the caller did not want
                if self.broken:
                    return
        self.depth -= 1
        head.merge(merged)
        if not streamed:
            yield Document(head)

    def items(self, event: Any) -> Iterator[Node]:
        """Yield a list's values; the caller gets its mistake, and the documents end with it."""
        self.broken = True
        with mistakes_placed(self.source):
            if event.tag is not None:
                self.check_tag(event, "seq")
            self.depth += 1
            while (item := self.next()).__class__ is not SequenceEndEvent:
                values = self.values
                yield self.tree(item)
                self.values = values
            self.depth -= 1
        self.broken = False
