"""What is different between two texts, line by line, in bounded time."""

import difflib
import re
from collections.abc import Iterator, Sequence

_CONTEXT = 3  # lines
_MOST = 10_000_000  # pairs of lines to look at; past that, all between the ends counts as changed
_HEADING = re.compile(r"@@ -(\d+)(.*) \+(\d+)(.*) @@\Z")


class _Unlike(str):
    """A line that is like no other."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__


def unified_diff(old: list[str], new: list[str], old_name: str, new_name: str) -> Iterator[str]:
    """Yield the lines of a unified diff, headings included; none if the texts are the same.

    Args:
        old: lines, without their ends.
        new: lines, too.
        old_name: for the first heading.
        new_name: for the second.
    """
    head, tail = shared_ends(old, new)
    is_large = (len(old) - head - tail) * (len(new) - head - tail) > _MOST

    def cut(lines: list[str]) -> list[str]:
        middle = lines[head : len(lines) - tail]
        end = lines[len(lines) - tail :][:_CONTEXT]
        return [*lines[:head][-_CONTEXT:], *(map(_Unlike, middle) if is_large else middle), *end]

    left_out = max(head - _CONTEXT, 0)
    names = old_name, new_name
    for line in difflib.unified_diff(cut(old), cut(new), *names, n=_CONTEXT, lineterm=""):
        match = left_out and _HEADING.match(line)
        if match:
            first, second = (int(match[group]) + left_out for group in (1, 3))
            yield f"@@ -{first}{match[2]} +{second}{match[4]} @@"
        else:
            yield str(line)


def shared_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return how many tokens, or lines, are the same at the start, and how many more at the end.

    >>> shared_ends("abcd", "axd")
    (1, 1)
    """
    head = _shared(old, new)
    return head, _shared(old[head:][::-1], new[head:][::-1])


def _shared(old: Sequence[str], new: Sequence[str]) -> int:
    pairs = enumerate(zip(old, new, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(old), len(new)))
