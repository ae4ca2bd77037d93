"""What differs between two requests, and which of several is the nearest."""

import json
import os
import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from multiturn.errors import quoted
from multiturn.text import first_of

_NOTHING = ...  # in place of what only one request has
_MOST_COMPARED = 200  # items of two lists: their comparison takes the square of it


class Difference(NamedTuple):
    """A value that is another one in two bodies, or only in one; that is ``...`` in the other."""

    path: str
    old: Any
    new: Any

    def __str__(self) -> str:
        """Return it in words; of two texts, the words that differ."""
        if self.old is _NOTHING:
            return f"{self.path} is new: {_shown(self.new)}"
        if self.new is _NOTHING:
            return f"{self.path} is gone: {_shown(self.old)}"
        old, new = self._apart()
        return f"{self.path}: {_shown(old)} is now {_shown(new)}"

    @property
    def mask(self) -> str:
        """A rule for ``multiturn.toml`` that would mask the words that differ; empty for none."""
        old, new = self._apart()
        if not (isinstance(old, str) and isinstance(new, str)) or len(old.split()) > 3:
            return ""
        start = os.path.commonprefix([old, new])
        end = os.path.commonprefix([old[len(start) :][::-1], new[len(start) :][::-1]])[::-1]
        pattern = rf"{re.escape(start)}[\w.:+-]+{re.escape(end)}"
        return f"mask = [{{pattern = '{pattern}', as = \"changes\"}}]"

    def _apart(self) -> tuple[Any, Any]:
        """Return both values; of texts, without the words that both begin and end with."""
        if not (isinstance(self.old, str) and isinstance(self.new, str)):
            return self.old, self.new
        old, new = (re.findall(r"\s+|\S+", each) for each in (self.old, self.new))
        start = len(os.path.commonprefix([old, new]))
        end = len(os.path.commonprefix([old[start:][::-1], new[start:][::-1]]))
        return "".join(old[start : len(old) - end]), "".join(new[start : len(new) - end])


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return quoted(text)


def differences(old: Any, new: Any, path: str = "") -> Iterator[Difference]:
    """Yield what differs, by its path.

    >>> [*map(str, differences({"n": 1, "say": "Be brief."}, {"n": 1, "say": "Be kind."}))]
    ["say: 'brief.' is now 'kind.'"]
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            below = f"{path}.{key}".removeprefix(".")
            yield from differences(old.get(key, _NOTHING), new.get(key, _NOTHING), below)
    elif isinstance(old, list) and isinstance(new, list):
        for before, after in _aligned(old, new):
            for at in range(max(len(before), len(after))):
                was = old[before[at]] if at < len(before) else _NOTHING
                now = new[after[at]] if at < len(after) else _NOTHING
                index = before[at] if at < len(before) else after[at]
                yield from differences(was, now, f"{path}[{index}]")
    elif old != new or isinstance(old, bool) != isinstance(new, bool):
        yield Difference(path, old, new)


def _aligned(old: list[Any], new: list[Any]) -> Iterator[tuple[range, range]]:
    """Yield the ranges of two lists that differ, one beside the other."""
    if len(old) == len(new) or max(len(old), len(new)) > _MOST_COMPARED:
        yield range(len(old)), range(len(new))
        return
    written = ([json.dumps(each, sort_keys=True) for each in listed] for listed in (old, new))
    for what, *ends in SequenceMatcher(None, *written, autojunk=False).get_opcodes():
        if what != "equal":
            yield range(*ends[:2]), range(*ends[2:])


def nearest(body: Any, others: Sequence[Any]) -> int:
    """Return the index of the body with the fewest differences; there is at least one."""
    counts = [sum(1 for _ in differences(each, body)) for each in others]
    return counts.index(min(counts))


def in_words(found: Sequence[Difference]) -> str:
    """Return the first differences in words, and the number of the others.

    >>> in_words([*differences({}, {"seed": 1})])
    "seed is new: '1'"
    """
    return first_of([*map(str, found)])
