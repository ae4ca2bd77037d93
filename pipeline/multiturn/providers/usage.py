"""The counts of tokens that vendors and agents give, under our names."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

_MOST = 2**53  # tokens; beyond it, floats are not exact


TokenCount = Annotated[int, Meta(ge=0, le=_MOST)]


class InputTokens(Struct):
    """What an endpoint answers that counts the tokens of a request."""

    input_tokens: TokenCount


def counts(usage: Any, **names: str) -> Mapping[str, int]:
    """Return a vendor's token counts under our names; what is missing, or no count, is left out.

    A name is a path in the vendor's counts, or several with ``+`` between, which are added up.

    >>> usage = {"in": 5, "thought": 1, "more": {"hit": 3}}
    >>> counts(usage, input="in+thought", cached="more.hit", output="out")
    {'input': 6, 'cached': 3}
    """
    found = {}
    for ours, paths in names.items():
        values = [value for path in paths.split("+") if (value := _at(usage, path)) is not None]
        if values:
            found[ours] = sum(values)
    return found


def _at(usage: Any, path: str) -> int | None:
    for key in path.split("."):
        usage = usage.get(key) if isinstance(usage, dict) else None
    return usage if isinstance(usage, int) and 0 <= usage <= _MOST else None
