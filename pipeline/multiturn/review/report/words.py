"""What is different between two texts, word by word."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import accumulate, pairwise

from msgspec.structs import replace

from multiturn.review.line_diff import shared_ends
from multiturn.review.report.cases import Piece, Pieces, content_of

# Scripts that are written without spaces are compared sign by sign.
_SIGN = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WORD = re.compile(rf"[{_SIGN}]|[^\W{_SIGN}]+|\n|[^\S\n]+|[^\w\s]", re.UNICODE)
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_MOST = 10_000_000  # pairs of lines, or of words, to look at; past that, all counts as changed
_ALIKE = 0.3  # less in common, and a rewritten paragraph is read as a whole

Stretch = tuple[int, int]  # from and to, in characters


@lru_cache(100)  # the payloads of a case repeat its messages
def mark(before: Pieces, after: Pieces) -> tuple[Pieces, Pieces]:
    """Return two texts with what the other one lacks marked as changed.

    Args:
        before: a text in pieces.
        after: another one.
    """
    old, new = changes(content_of(before), content_of(after))
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
    head, tail = shared_ends(old, new)
    middle = old[head : len(old) - tail], new[head : len(new) - tail]
    blocks = [(0, 0, 0), (len(middle[0]), len(middle[1]), 0)]
    if 0 < len(middle[0]) * len(middle[1]) <= _MOST:
        blocks[1:] = SequenceMatcher(None, *middle).get_matching_blocks()
    at = [list(accumulate(map(len, tokens), initial=0)) for tokens in (old, new)]
    i = j = 0
    for a, b, size in blocks:
        if a > i or b > j:
            yield (
                (at[0][head + i], at[0][head + a]),
                (at[1][head + j], at[1][head + b]),
            )
        i, j = a + size, b + size


def _joined(text: str, stretches: list[Stretch]) -> list[Stretch]:
    """Return the stretches that are not empty, as one where only spaces are between them."""
    joined: list[Stretch] = []
    for start, end in stretches:
        if joined and text[joined[-1][1] : start].strip(" \t") == "":
            joined[-1] = (joined[-1][0], end)
        elif start < end:
            joined.append((start, end))
    return joined


def _marked(pieces: Pieces, stretches: list[Stretch]) -> Pieces:
    edges = [edge for stretch in stretches for edge in stretch]
    marked: list[Piece] = []
    at = 0
    for piece in pieces:
        end = at + len(piece.text)
        within = edges[bisect_right(edges, at) : bisect_left(edges, end)]
        for start, stop in pairwise((at, *within, end)):
            changed = bisect_right(edges, start) % 2 == 1  # behind a start, before its end
            text = piece.text[start - at : stop - at]
            marked.append(replace(piece, text=text, changed=changed))
        at = end
    return tuple(marked)
