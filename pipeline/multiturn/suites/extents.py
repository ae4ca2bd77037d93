"""What stands on a line of a suite: where the text, the message or the case begins and ends."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from yaml.events import (
    AliasEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from multiturn.documents.input import open_rewindable
from multiturn.documents.json_lines import is_json_lines
from multiturn.documents.yaml_reader import Reader, Source
from multiturn.errors import Place

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

    Raises:
        MultiturnError: the suite cannot be read.
    """
    at = line - 1
    if is_json_lines(path):
        return Extent(path, (at, 0), (line, 0))
    begun, around = [], set()
    with open_rewindable(path, path) as file:
        for start, value, end in _entries(Reader(Source(file, path))):
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
    while (event := reader.event()).__class__ is not StreamEndEvent:
        start, end = _position(event.start_mark), _position(event.end_mark)
        is_scalar = isinstance(event, ScalarEvent | AliasEvent)
        if is_scalar and opened and opened[-1][2] and key is None:
            key = start
            continue
        if isinstance(event, MappingStartEvent | SequenceStartEvent):
            opened.append((key or start, start, isinstance(event, MappingStartEvent)))
        elif is_scalar:
            yield key or start, start, end
        elif isinstance(event, MappingEndEvent | SequenceEndEvent):
            if start == end:  # without a bracket, it ends before the line of the next value
                end = (end[0], 0)
            first, start, _ = opened.pop()
            if opened:  # the document itself begins where its first key does
                yield first, start, end
        key = None


def _position(mark: Any) -> _Position:
    return mark.line, mark.column
