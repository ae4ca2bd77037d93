"""The counts of tokens that vendors and agents give, under our names."""

from collections.abc import Mapping
from typing import Any


def counts(usage: Any, **names: str) -> Mapping[str, int]:
    """Return a vendor's token counts under our names; missing counts are left out.

    >>> counts({"in": 5, "more": {"hit": 3}}, input="in", cached="more.hit", output="out")
    {'input': 5, 'cached': 3}
    """
    found = {}
    for ours, path in names.items():
        value = usage
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, int):
            found[ours] = value
    return found
