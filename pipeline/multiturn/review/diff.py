"""Line-by-line differences between texts, in bounded time, and those that several share."""

import difflib
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

_T = TypeVar("_T", bound=Hashable)
_MOST = 10_000_000  # pairs of lines to compare; beyond, all lines count as different
_CONTEXT = 3  # lines of context after a change
_HUNK = "@@"
_DIGEST = re.compile(r'.*\b[0-9a-f]{64}"?')


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


def unified_diff(old_text: str, new_text: str, old_name: str, new_name: str) -> Iterator[str]:
    """Yield the lines of a unified diff, headings included; none if the texts are the same."""
    if old_text == new_text:
        return
    old, new = _lines(old_text), _lines(new_text)
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


def _lines(text: str) -> list[str]:
    """Return the lines of a text for a diff, which says where the last one has no end."""
    *lines, rest = text.split("\n")
    return [*lines, f"{rest}\n\\ No newline at end of file"] if rest else lines


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


def distinct(changed: Iterable[tuple[_T, str, str]]) -> Iterator[tuple[list[str], tuple[_T, ...]]]:
    r"""Yield each difference once, as lines of a diff, with the places that have it.

    Differences are equal if their changed lines are, whatever the context, the indentation and the
    digests. So a text that is in both the chat and the question is shown once. Differences that
    the same places have are joined.

    Args:
        changed: each place, with its old and its new text.

    >>> old, new = "a\nBe brief.\n", "a\nBe quick.\n"
    >>> for lines, places in distinct([("x", old, new), ("y", old + "b\n", new + "b\n")]):
    ...     print(places, lines)
    ('x', 'y') ['@@', ' a', '-Be brief.', '+Be quick.']
    """
    found: dict[Hashable, tuple[tuple[_T, int], list[str], dict[_T, None]]] = {}
    for place, old, new in changed:
        stretches = list(_stretches(_lines(old), _lines(new)))
        keys = list(map(_key, stretches))
        for number, (key, lines) in enumerate(zip(keys, stretches, strict=True)):
            if key or not any(keys):  # a digest follows from its text
                found.setdefault(key, ((place, number), lines, {}))[2][place] = None
    together: dict[tuple[_T, ...], list[str]] = {}
    last: dict[tuple[_T, ...], tuple[_T, int]] = {}
    for (place, number), lines, places in found.values():
        group = tuple(places)
        shown = together.setdefault(group, [])
        if lines[0] != _HUNK and last.get(group) != (place, number - 1):
            shown.append(_HUNK)
        shown += lines
        last[group] = place, number
    for group, lines in together.items():
        yield lines, group


def _stretches(old: list[str], new: list[str]) -> Iterator[list[str]]:
    """Yield each stretch of changed lines with its context, the first of a hunk with its mark."""
    changes = [opcode for opcode in _Matcher(old, new).get_opcodes() if opcode[0] != "equal"]
    ends = [start for _, start, *_ in changes[1:]]
    shown = -1  # how many of the old lines
    for (_, a, b, c, d), below in zip(changes, [*ends, len(old)], strict=False):
        above, after = max(shown, a - _CONTEXT, 0), min(b + _CONTEXT, below)
        yield [
            *([_HUNK] if above > shown else []),
            *(f" {line}" for line in old[above:a]),
            *(f"-{line}" for line in old[a:b]),
            *(f"+{line}" for line in new[c:d]),
            *(f" {line}" for line in old[b:after]),
        ]
        shown = after


def _key(stretch: list[str]) -> Hashable:
    """Return the changed lines of a stretch without digests: its identity."""
    changed = (line for line in stretch if line[0] in "+-" and not _DIGEST.fullmatch(line))
    return tuple((line[0], line[1:].strip()) for line in changed)
