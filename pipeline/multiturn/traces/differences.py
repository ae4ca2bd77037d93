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
    first, second = ([json.dumps(each, sort_keys=True) for each in side] for side in (given, again))
    if first == second:
        return
    if max(len(first), len(second)) > _MOST_COMPARED:
        for at, (mine, theirs) in enumerate(zip(given, again, strict=False)):
            yield from differences(mine, theirs, f"{path}[{at}]")
        if len(first) != len(second):
            yield f"{path} has {len(first)} items, of which {len(second)} are sent"
        return
    for what, start, end, low, high in SequenceMatcher(None, first, second, False).get_opcodes():
        if what == "delete":
            yield from (f"{path}[{at}] is left out" for at in range(start, end))
        elif what == "insert":
            yield f"{path}[{start}] has another before it: {_shown(again[low])}"
        elif what == "replace" and end - start == high - low:
            for at in range(end - start):
                below = f"{path}[{start + at}]"
                yield from differences(given[start + at], again[low + at], below)
        elif what == "replace":
            named = f"{path}[{start}]" + (f" to [{end - 1}]" if end - start > 1 else "")
            number = "one" if high - low == 1 else str(high - low)
            yield f"{named} become {number}: {_shown(again[low])}"


def _shown(value: Any) -> str:
    return cut(json.dumps(value, ensure_ascii=False))
