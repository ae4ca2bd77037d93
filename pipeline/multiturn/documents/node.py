"""A value of a document, YAML or JSON, with its place."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import structs

from multiturn.errors import Place

MAX_DEPTH = 100
# Each takes some hundred bytes, and more of a message: a case stays far below 100 MB.
MAX_VALUES = 100_000
# Values that a document may repeat: so many, and so many more for each of its characters.
MAX_REPEATED = 1_000_000
MAX_REPEATED_BY_LENGTH = 4


class Mark(msgspec.Struct, gc=False):
    """A place in a document: zero-based line and column. Those of libyaml are alike."""

    line: int
    column: int = 0


class Node(msgspec.Struct, gc=False):
    """A value of a document, with its place."""

    scalar: Any  # None, bool, int, float or str; of a list or a dict, None
    mark: Mark  # where it starts
    source: str | None = None  # a plain scalar as it was written, where it does not read as text
    children: Any = None  # the nodes of a list or a dict, by index or key
    key_mark: Mark | None = None  # where its key starts, in a mapping

    @property
    def value(self) -> Any:
        """The value without places; of a list or a mapping it is made anew."""
        return _value_of(self)

    @property
    def is_null(self) -> bool:
        """Whether it is neither a list nor a mapping, nor any other value."""
        return self.scalar is None and self.children is None

    @property
    def members(self) -> "dict[str, Node]":
        """The nodes of a mapping, by their keys; of any other value, none."""
        return self.children if isinstance(self.children, dict) else {}

    @property
    def line(self) -> int:
        """One-based line where it starts."""
        return self.mark.line + 1

    def key_place(self, name: str, label: str = "") -> Place:
        """Return the place of its key, in a mapping."""
        return place_of(name, self.key_mark or self.mark, label)

    def place(self, name: str, label: str = "") -> Place:
        """Return the place of its start."""
        return place_of(name, self.mark, label)

    def merge(self, others: Iterable["Node"]) -> None:
        """Add what merge keys (YAML 1.1) bring and it does not have; of two, the first counts."""
        for other in others:
            self.children |= {k: v for k, v in other.members.items() if k not in self.children}


class Repeats(msgspec.Struct):
    """Counts the values that aliases repeat, and those that a suite gives to all of its cases.

    They may grow with the length of the document, not with its square.
    """

    length: int = 0  # of the document, with the files that are read as part of it
    values: int = 0

    def add(self, values: int) -> bool:
        """Count values that are repeated; return whether they are too many by now."""
        self.values += values
        return self.values > MAX_REPEATED + self.length * MAX_REPEATED_BY_LENGTH


def _value_of(node: Node) -> Any:
    # Most values are scalars, and to call a function takes longer than to read them.
    children = node.children
    if children is None:
        return node.scalar
    if isinstance(children, dict):
        return {k: v.scalar if v.children is None else _value_of(v) for k, v in children.items()}
    return [each.scalar if each.children is None else _value_of(each) for each in children]


def measure(node: Node) -> tuple[int, int, int]:
    """Return how many values a node has, their characters and levels; aliases count in full."""
    if node.children is None:
        text = node.scalar if node.source is None else node.source
        return 1, 1 + (len(text) if isinstance(text, str) else 0), 0
    values, size, levels, nodes = 1, 1, 0, node.children
    if isinstance(nodes, dict):
        size, nodes = 1 + len(nodes) + sum(map(len, nodes)), nodes.values()
    for more_values, more_size, below in map(measure, nodes):
        values, size, levels = values + more_values, size + more_size, max(levels, below)
    return values, size, levels + 1


def is_deeper(value: Any, levels: int) -> bool:
    """Return whether a value without places has more levels of lists and mappings than so many."""
    if isinstance(value, dict | list):
        if not levels:
            return True
        for child in value.values() if isinstance(value, dict) else value:
            if is_deeper(child, levels - 1):
                return True
    return False


def place_of(name: str, mark: Mark, label: str = "") -> Place:
    """Return the place that a mark means in a file."""
    return Place(name, mark.line + 1, mark.column + 1, label)


def with_keys(node: Node, keys: dict[str, Node]) -> Node:
    """Return a copy of a mapping with other keys."""
    return structs.replace(node, children=keys)


def list_of(nodes: Iterable[Node], mark: Mark) -> Node:
    """Return a list of nodes, at a place."""
    return Node(None, mark, None, list(nodes))
