"""Line-by-line differences between two texts, in bounded time."""

import difflib
from collections.abc import Iterator, Sequence
from typing import Any

_MOST = 10_000_000  # pairs of lines to compare; beyond, all lines count as different


class _Matcher(difflib.SequenceMatcher[str]):
    """Compares two sequences of lines in bounded time."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        self.a, self.b = old, new
        self.opcodes: Any = None  # difflib keeps its result here

    def get_matching_blocks(self) -> list[difflib.Match]:
        """Return the common blocks: the shared ends, and those that difflib finds between them."""
        old, new = self.a, self.b
        head, tail = shared_ends(old, new)
        middle = old[head : len(old) - tail], new[head : len(new) - tail]
        blocks = [(0, 0, head)]
        if len(middle[0]) * len(middle[1]) <= _MOST:
            found = difflib.SequenceMatcher(None, *middle).get_matching_blocks()
            blocks += ((a + head, b + head, size) for a, b, size in found)
        blocks += ((len(old) - tail, len(new) - tail, tail), (len(old), len(new), 0))
        return [difflib.Match(*block) for block in blocks]


def unified_diff(old: list[str], new: list[str], old_name: str, new_name: str) -> Iterator[str]:
    """Yield the lines of a unified diff, headings included; none if the texts are the same.

    Args:
        old: lines, without their ends.
        new: lines, too.
        old_name: for the first heading.
        new_name: for the second.
    """
    if old == new:
        return
    yield from (f"--- {old_name}", f"+++ {new_name}")
    for group in _Matcher(old, new).get_grouped_opcodes():
        (_, a, _, c, _), (_, _, b, _, d) = group[0], group[-1]
        yield f"@@ -{_range(a, b)} +{_range(c, d)} @@"
        for tag, a, b, c, d in group:
            if tag == "equal":
                yield from (f" {line}" for line in old[a:b])
            else:
                yield from (f"-{line}" for line in old[a:b])
                yield from (f"+{line}" for line in new[c:d])


def _range(start: int, stop: int) -> str:
    """Return a range of lines as a hunk heading writes it; an empty one has the line before."""
    number = stop - start
    return f"{start + 1}" if number == 1 else f"{start + (number > 0)},{number}"


def shared_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return how many items two sequences share at the start, and how many more at the end.

    >>> shared_ends("abcd", "axd")
    (1, 1)
    """
    head = _shared(old, new)
    return head, _shared(old[head:][::-1], new[head:][::-1])


def _shared(old: Sequence[str], new: Sequence[str]) -> int:
    pairs = enumerate(zip(old, new, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(old), len(new)))


def changed_lines(old: str, new: str) -> str:
    """Return which lines of the new text have changed, as one range, in words."""
    before, after = old.split("\n"), new.split("\n")
    head, tail = shared_ends(before, after)
    first, last = head + 1, max(len(after) - tail, head + 1)
    return f"line {first}" if first == last else f"lines {first}–{last}"  # noqa: RUF001 - a range
