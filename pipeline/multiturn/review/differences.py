"""Differences that several texts share, each shown once."""

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from multiturn.review.diff import unified_diff

_T = TypeVar("_T", bound=Hashable)
_CONTEXT = 3  # lines of context after a change
_DIGEST = re.compile(r'.*\b[0-9a-f]{64}"?')


class Difference(Struct, Generic[_T], frozen=True):
    """A difference that several places share.

    Attributes:
        lines: of the unified diff of the first place, without file headings.
        places: that have this difference.
    """

    lines: list[str]
    places: Sequence[_T]


def distinct(changed: Iterable[tuple[_T, str, str]]) -> Iterator[Difference[_T]]:
    r"""Yield each difference once; differences that the same places have are joined.

    Differences are equal if their changed lines are, whatever the context, the indentation and the
    digests. So a text that is in both the chat and the question is shown once.

    Args:
        changed: each place, with its old and its new text.

    >>> old, new = "a\nBe brief.\n", "a\nBe quick.\n"
    >>> for found in distinct([("x", old, new), ("y", old + "b\n", new + "b\n")]):
    ...     print(found.places, found.lines)
    ('x', 'y') ['@@', ' a', '-Be brief.', '+Be quick.']
    """
    found: dict[Hashable, tuple[tuple[_T, str], list[str], dict[_T, None]]] = {}
    for place, old, new in changed:
        keyed = [(_key(lines), heading, lines) for heading, lines in _stretches(old, new)]
        for key, heading, lines in keyed:
            if key or not any(key for key, *_ in keyed):  # a digest follows from its text
                found.setdefault(key, ((place, heading), lines, {}))[2][place] = None
    together: dict[tuple[_T, ...], list[str]] = {}
    headings: dict[tuple[_T, ...], tuple[_T, str]] = {}
    for heading_of, lines, places in found.values():
        group = tuple(places)
        if headings.get(group) != heading_of:  # not in the hunk of the stretch before
            together.setdefault(group, []).append("@@")
        headings[group] = heading_of
        together[group] += lines
    for group, lines in together.items():
        yield Difference(lines, group)


def _stretches(old: str, new: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each stretch of changed lines, with its context, and the heading of its hunk."""
    heading, stretch = "", list[str]()
    after = 0  # lines of context so far after the changed ones of this stretch
    for line in list(unified_diff(lines_of(old), lines_of(new), "", ""))[2:]:
        is_changed, is_heading = line[0] in "+-", line.startswith("@@")
        if after > 0 and (is_changed or is_heading or after == _CONTEXT):
            yield heading, stretch
            stretch, after = [], 0
        if is_heading:
            heading = line
            continue
        after += not is_changed and any(each[0] in "+-" for each in stretch)
        stretch.append(line)
    if stretch:
        yield heading, stretch


def _key(stretch: list[str]) -> Hashable:
    """Return the changed lines of a stretch without digests: its identity."""
    changed = (line for line in stretch if line[0] in "+-" and not _DIGEST.fullmatch(line))
    return tuple((line[0], line[1:].strip()) for line in changed)


def lines_of(text: str) -> list[str]:
    """Return the lines of a text for a diff, which says where the last one has no end."""
    *lines, rest = text.split("\n")
    return [*lines, f"{rest}\n\\ No newline at end of file"] if rest else lines
