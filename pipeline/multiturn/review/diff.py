"""What is different between two texts, by lines and by words, in bounded time."""

import difflib
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

from msgspec.structs import replace

from multiturn.prompts.provenance import Span, Spans, text_of

_MOST = 10_000_000  # pairs of lines, or of words, to look at; beyond, all of them are different

# Scripts that are written without spaces are compared sign by sign.
_SIGN = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WORD = re.compile(rf"[{_SIGN}]|[^\W{_SIGN}]+|\n|[^\S\n]+|[^\w\s]", re.UNICODE)
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_ALIKE = 0.3  # less in common, and a rewritten paragraph is read as a whole

Stretch = tuple[int, int]  # from and to, in characters


class _Matcher(difflib.SequenceMatcher[str]):
    """Compares two sequences of lines or words; the time that it takes is bounded."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        self.a, self.b = old, new
        self.opcodes: Any = None  # difflib keeps its result here

    def get_matching_blocks(self) -> list[difflib.Match]:
        """Return what both have in common: the ends, and what difflib finds between them."""
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
    """Return lines as a heading counts them: from 1, or from the line before if there are none."""
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


@lru_cache(100)  # the payloads of a case repeat its messages
def mark(before: Spans, after: Spans) -> tuple[Spans, Spans]:
    """Return two texts with what the other one lacks marked as changed.

    Args:
        before: a text in spans.
        after: another one.
    """
    old, new = changes(text_of(before), text_of(after))
    return _marked(before, old), _marked(after, new)


@lru_cache(100)  # a change of a guideline is the same one in many cases
def changes(before: str, after: str) -> tuple[list[Stretch], list[Stretch]]:
    r"""Return the stretches of each text that the other one lacks.

    >>> changes("Be nice.", "Be nice.\nBe brief.")
    ([], [(8, 18)])
    >>> changes("Answer in one sentence.", "Answer in two short sentences.")
    ([(10, 22)], [(10, 29)])
    """
    old: list[Stretch] = []
    new: list[Stretch] = []
    if before == after:
        return old, new
    # Each line ends, so that the last one is the same where another follows it.
    for a, b in _different(f"{before}\n", f"{after}\n", _LINE):
        if a[1] > len(before):
            a, b = _last(a, b)
        for (c, d), (e, f) in _words(before[slice(*a)], after[slice(*b)]):
            old.append((a[0] + c, a[0] + d))
            new.append((b[0] + e, b[0] + f))
    return _joined(before, old), _joined(after, new)


@lru_cache(100)  # the question of a case repeats its messages
def _words(before: str, after: str) -> list[tuple[Stretch, Stretch]]:
    """Return the stretches of two texts in which their words differ."""
    pairs = list(_different(before, after, _WORD))
    changed = sum(end - start for stretches in pairs for start, end in stretches)
    if changed > (1 - _ALIKE) * (len(before) + len(after)):
        return [((0, len(before)), (0, len(after)))]
    return pairs


def _last(before: Stretch, after: Stretch) -> tuple[Stretch, Stretch]:
    """Return the stretches at the end without the line ends that the texts do not have.

    Where only one text goes on, the line end before that is new.
    """
    (a, b), (c, d) = before, after
    more = a == b or c == d
    return (a - more, b - 1), (c - more, d - 1)


def _different(
    before: str, after: str, token: re.Pattern[str]
) -> Iterator[tuple[Stretch, Stretch]]:
    """Yield the stretches that differ, in units of a kind of token."""
    old, new = token.findall(before), token.findall(after)
    first, second = (list(accumulate(map(len, tokens), initial=0)) for tokens in (old, new))
    for tag, a, b, c, d in _Matcher(old, new).get_opcodes():
        if tag != "equal":
            yield (first[a], first[b]), (second[c], second[d])


def _joined(text: str, stretches: list[Stretch]) -> list[Stretch]:
    """Return the stretches that are not empty, as one where only spaces are between them."""
    joined: list[Stretch] = []
    for start, end in stretches:
        if joined and text[joined[-1][1] : start].strip(" \t") == "":
            joined[-1] = (joined[-1][0], end)
        elif start < end:
            joined.append((start, end))
    return joined


def _marked(spans: Spans, stretches: list[Stretch]) -> Spans:
    edges = [edge for stretch in stretches for edge in stretch]
    marked: list[Span] = []
    at = 0
    for span in spans:
        end = at + len(span.text)
        within = edges[bisect_right(edges, at) : bisect_left(edges, end)]
        for start, stop in pairwise((at, *within, end)):
            changed = bisect_right(edges, start) % 2 == 1  # after a start, before its end
            text = span.text[start - at : stop - at]
            marked.append(replace(span, text=text, changed=changed))
        at = end
    return tuple(marked)
