"""Giving the texts of a conversation to a function, which may change them."""

from collections.abc import Callable

from msgspec import structs

from multiturn.model.calls import mapped_call
from multiturn.model.checks import check_parts, kind_of
from multiturn.model.turns import Part, Parts, Turn


def mapped(parts: Parts, function: Callable[[Part], Part]) -> Parts:
    """Return parts as a function changes them; media, and what stages have added, stay."""
    changed = tuple(
        part if part.stage is not None or part.media is not None else function(part)
        for part in parts
    )
    try:
        check_parts(changed)
    except ValueError as error:
        raise TypeError(f"the function given to map_parts returned {error}") from None
    return changed


def asked(function: Callable[[Part], Part], part: Part) -> str:
    """Return the text that a function gives to a part that is in no turn.

    Raises:
        TypeError: it changed more than the text.
    """
    given = function(part)
    if not isinstance(given, Part) or not isinstance(given.text, str):
        what = kind_of(given if not isinstance(given, Part) else given.text)
        raise TypeError(f"the function given to map_parts returned {what} for {part.key}")
    if structs.replace(given, text=part.text) != part:
        what = f"may change only the text of a part of the kind {part.kind!r}"
        raise TypeError(f"the function given to map_parts {what}")
    return given.text


def calls_mapped(turn: Turn, function: Callable[[Part], Part]) -> Turn:
    """Return a turn with the texts in its calls' arguments as a function of parts gives them.

    Raises:
        TypeError: the function changed more than a part's text.
        ValueError: two keys become one.
    """
    if not turn.calls:
        return turn

    def ask(path: str, text: str, line: int) -> str:
        return asked(function, Part("argument", text, message=turn.message, line=line, key=path))

    calls = (mapped_call(each, f"tool_calls[{at}]", ask) for at, each in enumerate(turn.calls))
    return structs.replace(turn, calls=tuple(calls))
