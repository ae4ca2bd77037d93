"""YAML text to plain values and the place of each, in one pass over libyaml's events.

PyYAML's own loaders read YAML 1.1, to which ``yes``, ``12:30`` and ``2024-01-01`` are not text.
Suites are written by people for YAML 1.2 tools, so scalars are read by the 1.2 core schema
(https://yaml.org/spec/1.2.2/#103-core-schema), and nothing in a document can name a Python type.
"""

import io
from collections.abc import Callable, Container, Iterator
from typing import Any

import yaml
from msgspec import structs
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    StreamEndEvent,
)

from multiturn.documents.core_schema import read_plain
from multiturn.documents.node import (
    MAX_DEPTH,
    MAX_VALUES,
    Mark,
    Node,
    Repeats,
    RepeatsError,
    place_of,
)
from multiturn.documents.source import Source, placed
from multiturn.errors import MultiturnError, cut, quoted

# What aliases may add to a document, in characters: ten thousand uses of two pages of text.
MAX_ALIASED = 100_000_000

_TAG = "tag:yaml.org,2002:"
MERGE = "".join(("<", "<"))  # compared by identity: a quoted "<<" is a key like any other


def read_documents(
    source: str | bytes, name: str, most_values: int = MAX_VALUES, repeats: Repeats | None = None
) -> Iterator[Node]:
    r"""Yield each document of a YAML stream; LF and CRLF line ends are the same.

    Args:
        source: the stream.
        name: what errors call it.
        most_values: of a document, with its aliases expanded.
        repeats: counts what aliases repeat, if several streams are one document.

    >>> [node.value for node in read_documents("at: 12:30\nok: [yes, 010, ~]", "x")]
    [{'at': '12:30', 'ok': ['yes', 10, None]}]
    """
    data = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
    reader = Reader(Source(io.BytesIO(data), name), most_values, repeats)
    for event in reader.roots():
        yield reader.tree(event)


class Reader:
    """One stream on its way from events to nodes."""

    def __init__(
        self, source: Source, most_values: int = MAX_VALUES, repeats: Repeats | None = None
    ) -> None:
        self.source = source
        self.most_values = most_values
        self.next: Callable[[], Any] = yaml.CSafeLoader(source).get_event
        self.original = source.original if source.has_stand_ins else None
        self.anchors: dict[str, Node] = {}
        self.depth = 0
        self.size = 0  # nodes and characters so far, as if every alias were written out
        self.aliased = 0
        self.values = 0  # that are kept: those of a case go with it
        self.repeats = repeats or Repeats()

    def error(self, what: str, mark: Mark) -> MultiturnError:
        """Return an error at a place of the stream."""
        return MultiturnError(what, where=place_of(self.source.name, mark))

    def roots(self) -> Iterator[Any]:
        """Yield the event with which the value of each document begins."""
        while (event := self.event()).__class__ is not StreamEndEvent:
            if event.__class__ is DocumentStartEvent:
                self.anchors.clear()
                self.values = 0
                yield self.event()

    def event(self) -> Any:
        """Return the next event; an error of libyaml has its place."""
        try:
            return self.next()
        except yaml.YAMLError as error:
            raise placed(error, self.source) from None

    def tree(self, event: Any) -> Node:
        """Build the value that begins with an event; an error of libyaml has its place."""
        try:
            return self.node(event)
        except yaml.YAMLError as error:
            raise placed(error, self.source) from None

    def node(self, event: Any) -> Node:
        """Build the value that begins with an event."""
        # This runs for each value of a suite. Events have no subclasses, so comparing the class is
        # as right as isinstance, and faster.
        kind = event.__class__
        if kind is AliasEvent:
            return self.alias(event)
        size, values = self.size, self.values
        self.values += 1
        if self.values > self.most_values:
            raise self.too_many(event)
        if kind is ScalarEvent:
            node = self.scalar(event)
        else:
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise self.too_deep(event)
            node = self.mapping(event) if kind is MappingStartEvent else self.sequence(event)
            self.depth -= 1
        node.size = self.size - size
        # An alias is counted as if it were written out, so a node that has an anchor keeps its
        # numbers: to count again at each alias would take quadratic time.
        if event.anchor is not None:
            node.height = _height(node)
            node.values = self.values - values
            self.anchors[event.anchor] = node
        return node

    def too_many(self, event: Any) -> MultiturnError:
        """Return the error for a case, or what is around the cases, that is too large."""
        what = f"over {self.most_values:,} values in one case, with its aliases expanded"
        return self.error(what, event.start_mark)

    def too_deep(self, event: Any) -> MultiturnError:
        """Return the error for a value in too many others."""
        return self.error(f"nested deeper than {MAX_DEPTH} levels", event.start_mark)

    def alias(self, event: Any) -> Node:
        """Return the value that an alias stands for."""
        node = self.anchors.get(event.anchor)
        name = cut(event.anchor)
        if node is None:
            raise self.error(
                f"the alias *{name} has no finished anchor before it;"
                f" write &{name} in front of a value above",
                event.start_mark,
            )
        if self.depth + node.height > MAX_DEPTH:
            raise self.too_deep(event)
        self.values += node.values
        if self.values > self.most_values:
            raise self.too_many(event)
        if self.repeats.add(node.values, event.start_mark):
            what = f"with the alias *{name}, this document repeats too many values"
            where = place_of(self.source.name, event.start_mark)
            raise RepeatsError(f"{what}; write less below &{name}", where=where)
        self.size += node.size
        self.aliased += node.size
        if self.aliased > MAX_ALIASED:
            raise self.error(
                f"the alias *{name} makes this document too large:"
                f" aliases may add {MAX_ALIASED:,} characters in all",
                event.start_mark,
            )
        return structs.replace(node, mark=event.start_mark, key_mark=None)

    def sequence(self, event: Any) -> Node:
        """Build a list."""
        if event.tag is not None:
            self.check_tag(event, "seq")
        next_event, read = self.next, self.node
        children = []
        while (item := next_event()).__class__ is not SequenceEndEvent:
            children.append(read(item))
        self.size += 1
        return Node([child.value for child in children], event.start_mark, None, children)

    def mapping(self, event: Any) -> Node:
        """Build a mapping with text keys, each there once."""
        if event.tag is not None:
            self.check_tag(event, "map")
        next_event, read = self.next, self.node
        children: dict[str, Node] = {}
        values: dict[str, Any] = {}
        merged: list[Node] = []
        while (key := next_event()).__class__ is not MappingEndEvent:
            name = self.new_key(key, children)
            child = read(next_event())
            if name is MERGE:
                merged += self.mappings(child)
                continue
            children[name] = child
            child.key_mark = key.start_mark
            values[name] = child.value
        self.size += 1
        node = Node(values, event.start_mark, None, children)
        if merged:
            node.merge(merged)
        return node

    def mappings(self, node: Node) -> list[Node]:
        """Return the mappings that a merge key brings: it has one, or a list of them."""
        nodes: list[Node] = node.children if isinstance(node.value, list) else [node]
        if not all(isinstance(each.value, dict) for each in nodes):
            raise self.error("the merge key << takes a mapping, or a list of mappings", node.mark)
        return nodes

    def new_key(self, event: Any, known: Container[str]) -> str:
        """Return a key as it was written: in JSON, every key is text. A known one is an error."""
        name: str | None = None
        if event.__class__ is ScalarEvent and event.anchor is None and event.tag is None:
            name = event.value if self.original is None else self.original(event)
            self.size += len(event.value) + 1
        elif event.__class__ in (ScalarEvent, AliasEvent):
            node = self.node(event)
            name = node.value if node.source is None else node.source
        if not isinstance(name, str):
            what = "a key must be text, not a list or a mapping; quote a text that begins with {"
            raise self.error(what, event.start_mark)
        if name == MERGE and event.__class__ is ScalarEvent and event.implicit[0]:
            name = MERGE
        if name in known:
            raise self.error(f"duplicate key {quoted(name)}; keep one of them", event.start_mark)
        return name

    def scalar(self, event: Any) -> Node:
        """Read a scalar by the core schema."""
        text = event.value if self.original is None else self.original(event)
        self.size += len(event.value) + 1
        if event.tag is not None:
            self.check_tag(event, "str")
        elif event.implicit[0]:
            try:
                value = read_plain(text)
            except ValueError as error:
                raise self.error(str(error), event.start_mark) from None
            if value is not text:
                return Node(value, event.start_mark, text)
        return Node(text, event.start_mark)

    def check_tag(self, event: Any, own: str) -> None:
        """Refuse a tag that is not the value's own."""
        if event.tag not in ("!", _TAG + own):
            what = f"the tag {quoted(event.tag.replace(_TAG, '!!'))} is refused"
            advice = "values are plain text, numbers, lists and mappings"
            raise self.error(f"{what}; {advice}", event.start_mark)


def _height(node: Node) -> int:
    """Return how many levels a value has; one with an anchor keeps the number."""
    if node.height or node.children is None:
        return node.height
    children = node.children.values() if isinstance(node.children, dict) else node.children
    return 1 + max(map(_height, children), default=0)
