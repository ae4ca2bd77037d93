"""What differs between a request body and the one that is sent for it again."""

import json
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

from multiturn.errors import cut

_MOST_COMPARED = 200  # items of two lists: their comparison takes the square of it


def differences(given: Any, again: Any, path: str = "") -> Iterator[str]:
    """Yield what differs, one sentence each, by its path in the given body.

    >>> [*differences({"n": 1, "user": "me"}, {"n": 2})]
    ['n is sent as 2', 'user is left out']
    """
    if isinstance(given, dict) and isinstance(again, dict):
        for key in {**given, **again}:
            below = f"{path}.{cut(key)}".removeprefix(".")
            if key not in again:
                yield f"{below} is left out"
            elif key not in given:
                yield f"{below} is added: {_shown(again[key])}"
            else:
                yield from differences(given[key], again[key], below)
    elif isinstance(given, list) and isinstance(again, list):
        yield from _of_lists(given, again, path)
    elif given != again or isinstance(given, bool) != isinstance(again, bool):
        yield f"{path} is sent as {_shown(again)}"


def _of_lists(given: list[Any], again: list[Any], path: str) -> Iterator[str]:
    if max(len(given), len(again)) > _MOST_COMPARED:
        for at, (mine, theirs) in enumerate(zip(given, again, strict=False)):
            yield from differences(mine, theirs, f"{path}[{at}]")
        if len(given) != len(again):
            yield f"{path} has {len(given)} items, of which {len(again)} are sent"
        return
    for mine, theirs in _aligned(given, again):
        start, end = mine.start, mine.stop
        if not theirs:
            yield from (f"{path}[{at}] is left out" for at in mine)
        elif not mine:
            yield f"{path}[{start}] has another before it: {_shown(again[theirs.start])}"
        elif len(mine) == len(theirs):
            for one, other in zip(mine, theirs, strict=True):
                yield from differences(given[one], again[other], f"{path}[{one}]")
        else:
            named = f"{path}[{start}]" + (f" to [{end - 1}]" if end - start > 1 else "")
            number = "one" if len(theirs) == 1 else str(len(theirs))
            yield f"{named} become {number}: {_shown(again[theirs.start])}"


def _aligned(given: list[Any], again: list[Any]) -> Iterator[tuple[range, range]]:
    """Yield the ranges of two lists that differ, one beside the other.

    Items are first aligned by what they are, then, where their numbers differ, by their kinds.
    """
    for mine, theirs in _unlike(_texts(given), _texts(again)):
        kinds = [_kind(given[at]) for at in mine], [_kind(again[at]) for at in theirs]
        if len(mine) == len(theirs) or set(kinds[0]) == set(kinds[1]):
            yield mine, theirs
            continue
        matcher = SequenceMatcher(None, *kinds, autojunk=False)
        for _, start, end, low, high in matcher.get_opcodes():
            yield mine[start:end], theirs[low:high]


def _unlike(first: list[str], second: list[str]) -> Iterator[tuple[range, range]]:
    for what, start, end, low, high in SequenceMatcher(None, first, second, False).get_opcodes():
        if what != "equal":
            yield range(start, end), range(low, high)


def _texts(items: list[Any]) -> list[str]:
    return [json.dumps(each, sort_keys=True) for each in items]


def _kind(item: Any) -> str:
    """Return the role or the type of an item."""
    return str(item.get("role", item.get("type"))) if isinstance(item, dict) else ""


def _shown(value: Any) -> str:
    return cut(json.dumps(value, ensure_ascii=False))
