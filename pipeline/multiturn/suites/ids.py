"""The ids of a suite, which are unique in it."""

from typing import NamedTuple

from multiturn.errors import MultiturnError, Place, quoted


class Key(NamedTuple):
    """Which case of its suite something is about.

    Attributes:
        case_id: as the suite has it; None where it is not known.
        line: one-based line of the case.
        where: its place.
    """

    case_id: str | None = None
    line: int = 0
    where: Place = Place()


class CaseIds:
    """The ids of a suite, which are unique in it, each with its line."""

    def __init__(self) -> None:
        self._lines: dict[str, int] = {}

    def duplicate(self, key: Key) -> MultiturnError | None:
        """Return the error for an id that an earlier case has; None for a new one, or none."""
        if key.case_id is None:
            return None
        first = self._lines.get(key.case_id)
        if first is None:
            self._lines[key.case_id] = key.line
            return None
        what = f"duplicate id {quoted(key.case_id)}, first used on line {first}"
        return MultiturnError(f"{what}; ids are unique in a file", where=key.where, case_id="")
