"""YAML text to plain values and the place of each, in one pass over libyaml's events.

PyYAML's own loaders read YAML 1.1, to which ``yes``, ``12:30`` and ``2024-01-01`` are not text.
Suites are written by people for YAML 1.2 tools, so scalars are read by the 1.2 core schema
(https://yaml.org/spec/1.2.2/#103-core-schema), and nothing in a document can name a Python type.
"""

import gc
import io
from collections.abc import Callable, Container, Iterator
from typing import Any, cast

import yaml
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
from multiturn.documents.node import MAX_DEPTH, MAX_VALUES, Mark, Node, place_of
from multiturn.documents.source import Source, yaml_errors_placed
from multiturn.errors import MultiturnError, cut, quoted

# What aliases may add to a document, in characters: ten thousand uses of two pages of text.
MAX_ALIASED = 100_000_000

_TAG = "tag:yaml.org,2002:"
# Read the same whether they are plain or quoted.
_COMMON_KEYS = frozenset({"id", "role", "content", "type", "value", "input_messages", "outcome"})
MERGE = "".join(("<", "<"))  # compared by identity: a quoted "<<" is a key like any other


def read_documents(source: str | bytes, name: str, most_values: int = MAX_VALUES) -> Iterator[Node]:
    r"""Yield each document of a YAML stream; LF and CRLF line ends are the same.

    Args:
        source: the stream.
        name: what errors call it.
        most_values: of a document, with its aliases expanded.

    >>> [node.value for node in read_documents("at: 12:30\nok: [yes, 010, ~]", "x")]
    [{'at': '12:30', 'ok': ['yes', 10, None]}]
    """
    data = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
    stream = Source(io.BytesIO(data), name)
    with yaml_errors_placed(stream):
        yield from Reader(stream, most_values).documents()


class Reader:
    """One stream on its way from events to nodes."""

    def __init__(self, source: Source, most_values: int = MAX_VALUES) -> None:
        self.most_values = most_values
        self.next: Callable[[], Any] = yaml.CSafeLoader(source).get_event
        self.name = source.name
        self.original = source.original if source.has_stand_ins else None
        self.anchors: dict[str, Node] = {}
        self.depth = 0
        self.deepest = 0  # level reached since the innermost open anchor
        self.size = 0  # nodes and characters so far, as if every alias were written out
        self.aliased = 0
        self.values = 0  # that are kept: those of a case go with it

    def error(self, what: str, mark: Mark) -> MultiturnError:
        """Return an error at a place of the stream."""
        return MultiturnError(what, where=place_of(self.name, mark))

    def documents(self) -> Iterator[Node]:
        """Yield each document."""
        while (event := self.next()).__class__ is not StreamEndEvent:
            if event.__class__ is DocumentStartEvent:
                self.anchors.clear()
                self.values = 0
                yield self.tree(self.next())

    def tree(self, event: Any) -> Node:
        """Build a value; what is built is a tree, in which a collector finds nothing."""
        enabled = gc.isenabled()
        gc.disable()
        try:
            return self.node(event)
        finally:
            if enabled:
                gc.enable()

    def node(self, event: Any) -> Node:
        """Build the value that begins with an event."""
        kind = event.__class__
        values = self.values
        self.values = values + 1
        if values >= self.most_values:
            raise self.too_many(event)
        if kind is ScalarEvent and event.anchor is None:
            return self.scalar(event)
        if kind is AliasEvent:
            return self.alias(event)
        before, deepest = self.size, self.deepest
        if event.anchor is not None:
            self.deepest = self.depth
        if kind is ScalarEvent:
            node = self.scalar(event)
        else:
            self.depth += 1
            if self.depth > self.deepest:
                self.reach(self.depth, event)
            node = self.mapping(event) if kind is MappingStartEvent else self.sequence(event)
            self.depth -= 1
        node.size = self.size - before
        if event.anchor is not None:
            node.height = self.deepest - self.depth
            node.values = self.values - values
            self.deepest = max(self.deepest, deepest)
            self.anchors[event.anchor] = node
        return node

    def reach(self, depth: int, event: Any) -> None:
        """Note how deep a value goes, and refuse what goes too deep."""
        self.deepest = max(self.deepest, depth)
        if depth > MAX_DEPTH:
            raise self.error(f"nested deeper than {MAX_DEPTH} levels", event.start_mark)

    def alias(self, event: Any) -> Node:
        """Return the value that an alias stands for."""
        node = self.anchors.get(event.anchor)
        if node is None:
            raise self.error(
                f"the alias *{cut(event.anchor)} has no finished anchor before it;"
                f" write &{cut(event.anchor)} in front of a value above",
                event.start_mark,
            )
        self.reach(self.depth + node.height, event)
        self.values += node.values - 1
        if self.values > self.most_values:
            raise self.too_many(event)
        self.size += node.size
        self.aliased += node.size
        if self.aliased > MAX_ALIASED:
            raise self.error(
                f"the alias *{cut(event.anchor)} makes this document too large:"
                f" aliases may add {MAX_ALIASED:,} characters in all",
                event.start_mark,
            )
        return Node(
            *(node.value, event.start_mark, node.source, node.children),
            *(node.size, node.height, node.values),
        )

    def too_many(self, event: Any) -> MultiturnError:
        """Return the error for a case, or what is around the cases, that is too large."""
        what = f"over {self.most_values:,} values in one case, with its aliases expanded"
        return self.error(what, event.start_mark)

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
        """Return a key that is not known yet."""
        name: Any = event.value if event.__class__ is ScalarEvent else None
        if name not in _COMMON_KEYS or event.anchor is not None or event.tag is not None:
            name = self.key(event)
        if name in known:
            raise self.error(f"duplicate key {quoted(name)}; keep one of them", event.start_mark)
        return cast("str", name)

    def key(self, event: Any) -> str:
        """Return a key as it was written: to JSON, every key is text."""
        mark: Mark = event.start_mark
        if event.__class__ in (ScalarEvent, AliasEvent):
            node = self.node(event)
            name = node.value if node.source is None else node.source
            if isinstance(name, str):
                is_merge = name == MERGE and event.__class__ is ScalarEvent and event.implicit[0]
                return MERGE if is_merge else name
        raise self.error("a key must be text, not a list or a mapping", mark)

    def scalar(self, event: Any) -> Node:
        """Read a scalar by the core schema."""
        text: str = event.value
        self.size += len(text) + 1
        if self.original is not None:
            text = self.original(text, escapes=event.style == '"')
        if event.tag is not None:
            self.check_tag(event, "str")
        elif event.implicit[0]:
            try:
                value = read_plain(text)
            except ValueError as error:
                raise self.error(f"{error}; quote it", event.start_mark) from None
            if value is not text:
                return Node(value, event.start_mark, text)
        return Node(text, event.start_mark)

    def check_tag(self, event: Any, own: str) -> None:
        """Refuse a tag that is not the value's own."""
        if event.tag not in ("!", _TAG + own):
            what = f"the tag {quoted(event.tag.replace(_TAG, '!!'))} is refused"
            advice = "values are plain text, numbers, lists and mappings"
            raise self.error(f"{what}; {advice}", event.start_mark)
