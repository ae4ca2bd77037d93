"""A value of a document, YAML or JSON, with its place."""

from collections.abc import Iterable
from typing import Any, Protocol

import msgspec
from msgspec import structs

from multiturn.errors import Place

MAX_DEPTH = 100
# Each takes some hundred bytes, and more of a message: a case stays far below 100 MB.
MAX_VALUES = 100_000
# Values that a document may repeat: so many, and so many more for each of its characters.
MAX_REPEATED = 1_000_000
MAX_REPEATED_BY_LENGTH = 4


class Mark(Protocol):
    """A place in a document, as libyaml gives it: zero-based line, column and position."""

    line: int
    column: int
    index: int


class Node(msgspec.Struct, gc=False):
    """A value of a document, with its place."""

    value: Any  # None, bool, int, float, str, list or dict with str keys
    mark: Mark  # where it starts
    source: str | None = None  # a plain scalar as it was written, where it does not read as text
    children: Any = None  # the nodes of a list or a dict, by index or key
    size: int = 0  # its characters and values, as if every alias in it were written out
    height: int = 0  # the levels below it, for a node that has an anchor
    values: int = 1  # how many there are in it, counted likewise, for a node that has an anchor
    key_mark: Mark | None = None  # where its key starts, in a mapping

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
        """Add the keys of other mappings that this one does not have; of two, the first counts.

        YAML 1.1 calls it merge keys, which most tools for YAML 1.2 still read.
        """
        for other in others:
            for name, child in other.children.items():
                if name not in self.children:
                    self.children[name] = child
                    self.value[name] = child.value


class Repeats(msgspec.Struct):
    """Counts the values that one place of a document gives to others.

    Aliases do so, and what a suite gives to all of its cases. A short document could mean any
    number of values: they may grow with its length, not with its square.
    """

    values: int = 0
    before: int = 0  # the length of other files that were read as part of the document

    def add(self, values: int, mark: Mark) -> bool:
        """Count values that are repeated at a place; return whether they are too many by now."""
        self.values += values
        return self.values > self._most(mark)

    def are_many(self, mark: Mark) -> bool:
        """Return whether a tenth of the values that may be repeated have been, up to a place."""
        return self.values * 10 > self._most(mark)

    def _most(self, mark: Mark) -> int:
        return MAX_REPEATED + (self.before + mark.index) * MAX_REPEATED_BY_LENGTH


def count_values(node: Node) -> int:
    """Return how many values there are in a node, with its aliases expanded."""
    children = node.children.values() if isinstance(node.children, dict) else node.children or ()
    return 1 + sum(map(count_values, children))


def place_of(name: str, mark: Mark, label: str = "") -> Place:
    """Return the place that a mark means in a file."""
    return Place(name, mark.line + 1, mark.column + 1, label)


def with_keys(node: Node, keys: dict[str, Node]) -> Node:
    """Return a copy of a mapping with other keys."""
    values = {key: child.value for key, child in keys.items()}
    return structs.replace(node, value=values, children=keys)


def list_of(nodes: Iterable[Node], mark: Mark) -> Node:
    """Return a list of nodes, at a place."""
    nodes = list(nodes)
    size = sum(node.size for node in nodes)
    return Node([node.value for node in nodes], mark, None, nodes, size)
