"""Each difference once, with those that have it."""

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Generic, TypeVar

from msgspec import Struct

from multiturn.review.diff import unified_diff

_T = TypeVar("_T", bound=Hashable)
_DIGEST = re.compile(r'.*\b[0-9a-f]{64}"?')


class Difference(Struct, Generic[_T], frozen=True):
    """What is different in the same way in several places.

    Attributes:
        lines: of a unified diff, as the first place has it; without the headings of the file.
        places: that have it.
    """

    lines: list[str]
    places: Sequence[_T]


def distinct(changed: Iterable[tuple[_T, str, str]]) -> Iterator[Difference[_T]]:
    r"""Yield each difference once; those that the same places have are one.

    What surrounds a difference, and digests, do not tell differences apart. A text that the chat
    and the question both have is shown once.

    Args:
        changed: places, with the old and the new text of each.

    >>> old, new = "a\nBe brief.\n", "a\nBe quick.\n"
    >>> for found in distinct([("x", old, new), ("y", old + "b\n", new + "b\n")]):
    ...     print(found.places, found.lines)
    ('x', 'y') ['@@ -1,2 +1,2 @@', ' a', '-Be brief.', '+Be quick.']
    """
    hunks: dict[Hashable, tuple[list[str], dict[_T, None]]] = {}
    for place, old, new in changed:
        for lines in _hunks(old, new):
            hunks.setdefault(_key(lines), (lines, {}))[1][place] = None
    together: dict[tuple[_T, ...], list[str]] = {}
    for lines, places in hunks.values():
        together.setdefault(tuple(places), []).extend(lines)
    for found, lines in together.items():
        yield Difference(lines, found)


def _hunks(old: str, new: str) -> Iterator[list[str]]:
    """Yield the hunks of a unified diff."""
    hunk: list[str] = []
    for number, line in enumerate(unified_diff(lines_of(old), lines_of(new), "", "")):
        if line.startswith("@@") and hunk:
            yield hunk
            hunk = []
        if number > 1:
            hunk.append(line)
    if hunk:
        yield hunk


def _key(hunk: list[str]) -> Hashable:
    """Return what tells a hunk from others: its changed lines, each stretch of them once."""
    stretches = (list(lines) for is_same, lines in groupby(hunk[1:], _is_same) if not is_same)
    return tuple(
        dict.fromkeys(
            tuple((line[0], line[1:].strip()) for line in lines if not _DIGEST.fullmatch(line))
            for lines in stretches
        )
    )


def _is_same(line: str) -> bool:
    return line.startswith(" ")


def lines_of(text: str) -> list[str]:
    """Return the lines of a text for a diff, which says where the last one has no end."""
    *lines, rest = text.split("\n")
    return [*lines, f"{rest}\n\\ No newline at end of file"] if rest else lines
