"""Characters that nobody sees, in which a prompt can have what its reviewers do not read.

They are joiners, marks of direction, selectors and tags where Unicode and RFC 5892 have no use.
"""

import os
import re
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, lru_cache
from itertools import islice

# Unicode's Default_Ignorable_Code_Point, but the soft hyphen, and its marks of annotations.
_MAY_HIDE = (
    "([\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff])"
)
_DIRECTIONS = {"\u200e": {"L"}, "\u200f": {"R", "AL"}, "\u061c": {"R", "AL"}}
_ASCII = bytes(range(128))
MOST_HIDDEN = 1_000
# Compiles a pattern once; this takes less than the cache of ``re``.
compiled = cache(re.compile)
_LONGEST = 16  # characters; the longest sequence that has a use is one of ten


def without(seen: bytes, text: bytes) -> str:
    """Return a text in UTF-8 without some bytes of ASCII: a search in the few others is faster."""
    return text.translate(None, seen).decode("utf-8", "surrogatepass")


@lru_cache(8)  # many cases have the same guidelines
def hidden_in(text: str) -> tuple[int, ...]:
    """Return the first thousand indexes of what nobody sees in a text, and has no use there."""
    if text.isascii():
        return ()
    if not compiled(_MAY_HIDE).search(without(_ASCII, text.encode("utf-8", "surrogatepass"))):
        return ()
    if all(_has_use(text, at.start()) for at in re.finditer(_MAY_HIDE, text)):
        return ()
    return tuple(islice(_each_hidden(text), MOST_HIDDEN))


def _each_hidden(text: str) -> Iterator[int]:
    end = 0  # of what was searched: the slow pattern sees only what is around its characters
    for at in (each.start() for each in re.finditer(_MAY_HIDE, text)):
        if at >= end and (found := _uses_and_hidden().search(text, max(end, at - _LONGEST))):
            end = found.end()
            if found[1] and not _has_use(text, at):
                yield at


def _has_use(text: str, at: int) -> bool:
    """Return whether a mark of direction is beside its letters, or a joiner between letters."""
    if letters := _DIRECTIONS.get(text[at]):
        beside = filter(str.isalpha, text[max(at - 1, 0) : at + 2])
        return any(unicodedata.bidirectional(each) in letters for each in beside)
    if text[at] in "\u200c\u200d":
        from idna.core import valid_contextj

        with suppress(ValueError):  # beside a character without a name, such as a line break
            return valid_contextj(text[max(at - 50, 0) : at + 50], min(at, 50))  # a long text fails
    return False


@cache
def _uses_and_hidden() -> "re.Pattern[str]":
    """Return a pattern of sequences that have a use, and of what may hide elsewhere, as a group."""
    from emoji import EMOJI_DATA as EMOJI  # with the pattern, this takes a tenth of a second

    joined = [each for each in EMOJI if "\u200d" in each or "\U000e007f" in each]
    in_both_forms = {each[0] for each in EMOJI if "variant" in EMOJI[each] or each[1:2] == "\ufe0f"}
    sequences = *sorted(joined, key=len, reverse=True), f"[{''.join(in_both_forms)}][\ufe0e\ufe0f]"
    with open(os.path.join(os.path.dirname(__file__), "variants.txt"), encoding="ascii") as file:
        variants = file.read().split("\n")
    return re.compile("|".join([*sequences, *variants[1:-1], _MAY_HIDE]))
