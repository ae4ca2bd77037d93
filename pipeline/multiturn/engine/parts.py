"""Parts of a batch that several processes convert, and what they give, made one again."""

import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from msgspec import Struct

from multiturn.documents.json_lines import Lines, split_lines
from multiturn.engine.batch import Batch
from multiturn.engine.ids import Ids
from multiturn.suites.loading import twice_error

SLICE_SIZE = 2**20  # bytes of a JSON Lines suite that one process takes


class Slice(NamedTuple):
    """A suite, or some of the lines of one.

    Attributes:
        path: of the suite.
        lines: which lines; None for the whole suite.
        size: in bytes.
    """

    path: str
    lines: Lines | None
    size: int


def slices_of(paths: list[str]) -> Iterator[Slice]:
    """Yield what processes may convert each by itself, in the order of the suites."""
    for path in paths:
        size = 0
        ranges: list[Lines] = []
        try:
            size = os.path.getsize(path)
            if path.endswith(".jsonl") and os.path.isfile(path):
                with open(path, "rb") as file:
                    ranges = list(split_lines(file, SLICE_SIZE))
        except OSError:  # whoever converts it says so
            pass
        yield from [Slice(path, lines, SLICE_SIZE) for lines in ranges] or [Slice(path, None, size)]


def share_out(slices: list[Slice], number: int) -> list[list[Slice]]:
    """Return the slices in a number of runs, or fewer, that are about the same size."""
    total = sum(piece.size for piece in slices) or 1
    shares: list[list[Slice]] = [[] for _ in range(number)]
    before = 0
    for piece in slices:
        shares[number * (2 * before + piece.size) // (2 * total + 1)].append(piece)
        before += piece.size
    return [share for share in shares if share] or [[]]


# What a process tells of its share: how many bytes of the output come next, or a mistake. Of a
# suite that others have parts of, it tells the path, id and line of each case first, then its bytes
# in a tuple, or a mistake with the path.
Event = int | str | tuple[int] | tuple[str, str] | tuple[str, str, int]


class Done(Struct, frozen=True):
    """What a process has made of its share.

    Attributes:
        events: in their order.
        ids: those that were looked for and found.
    """

    events: list[Event]
    ids: set[str]


class Part(Batch):
    """The cases of one suite, or of some of its lines; the whole hears what is wrong with them.

    Args:
        path: of the suite.
        lines: which lines; None for all.
        which: the arguments of Batch, but for the suites.
        fail: gets each mistake.
        named: as in Batch.
        ids: as for ``load_suite``.
    """

    def __init__(
        self,
        path: str,
        lines: Lines | None,
        which: dict[str, Any],
        fail: Callable[[str], None],
        named: frozenset[str] = frozenset(),
        ids: Ids | None = None,
    ) -> None:
        super().__init__((), **which)
        self.paths = [path]
        self.named = named
        self._lines = lines
        self._fail = fail
        self._ids = ids

    def lines(self) -> Lines | None:
        """Return which lines are read."""
        return self._lines

    def known_ids(self) -> Ids | None:
        """Return the ids of the other lines."""
        return self._ids

    def fail(self, message: str) -> None:
        """Pass a mistake on."""
        self._fail(message)

    def check_ids(self) -> None:
        """Leave it to the whole, which sees all parts."""


class Whole:
    """Takes up what the parts give, as if one process had done it.

    Args:
        batch: hears of mistakes.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.ids: dict[str, Ids] = {}
        self.said: set[tuple[str, str]] = set()

    def ids_of(self, path: str) -> Ids:
        """Return the ids that a suite has so far."""
        return self.ids.setdefault(path, Ids())

    def fail(self, path: str, message: str) -> None:
        """Say what is wrong with a suite that has parts, once."""
        if (path, message) not in self.said:
            self.said.add((path, message))
            self.batch.fail(message)

    def texts(self, done: Done, output: memoryview) -> Iterator[memoryview]:
        """Yield what another process has written, but for cases whose id an earlier part has."""
        twice = ""
        for event in done.events:
            match event:
                case int(size) | (int(size),):
                    if isinstance(event, int) or not twice:
                        yield output[:size]
                    output = output[size:]
                case str(message):
                    self.batch.fail(message)
                case path, message:
                    if not twice or not message.startswith(twice):
                        self.fail(path, message)
                case path, case_id, line:
                    first = self.ids_of(path).add(case_id, line)
                    twice = "" if first is None else f"{path}:{line}:"
                    if first is not None:
                        self.batch.report(twice_error(case_id, first, f"{twice}1"))
        self.batch.ids |= done.ids


class RecordedIds(Ids):
    """Ids that the whole will tell apart."""

    def __init__(self, path: str, events: list[Event]) -> None:
        super().__init__()
        self.path = path
        self.events = events

    def add(self, name: str, line: int) -> None:
        """Record an id; whether it is new is not known here."""
        self.events.append((self.path, name, line))
