"""The files of the folder of snapshots that change, and cases by their names."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from multiturn.snapshots.locations import Key
from multiturn.snapshots.recorded import HEAD_ENDS

State = Literal["new", "changed", "renamed", "removed"]

_NAMED = 3  # cases that are named where there are many


class FileChange(Struct, frozen=True):
    """A file of the folder of snapshots that differs from what the suites give."""

    name: str  # its path, for messages
    case: Key | None  # whose snapshot it is; None for a list of files
    old: str  # its text; empty if there is none
    new: str  # the text that it should have; empty if it should not be there
    old_name: str = ""  # the earlier path, if its case was renamed

    @property
    def state(self) -> State:
        """What has become of the file, or of its case."""
        if self.old_name:
            return "renamed"
        if not self.old:
            return "new"
        return "changed" if self.new else "removed"

    def __str__(self) -> str:
        """Return what has become of the file, in words."""
        was = f"{self.old_name} -> " if self.old_name else ""
        return f"{self.state}: {was}{self.name}"

    @property
    def texts(self) -> tuple[str, str]:
        """The old and the new text to compare: a new name alone is no difference."""
        old = self.old
        if self.old_name:
            _, *rest = old.partition(HEAD_ENDS)
            old = "".join([self.new.partition(HEAD_ENDS)[0], *rest])
        return old, self.new


def name_cases(cases: Sequence[Key]) -> str:
    """Name cases, or the first of many, with their suites.

    >>> name_cases([("a.yaml", "one"), ("a.yaml", "two"), ("b.yaml", "one"), ("b.yaml", "two")])
    '4 cases, such as a.yaml: one, two; b.yaml: one'
    """
    suites: dict[str, list[str]] = {}
    for suite, case_id in cases[:_NAMED]:
        suites.setdefault(suite, []).append(case_id)
    names = "; ".join(f"{suite}: {', '.join(ids)}" for suite, ids in suites.items())
    return names if len(cases) <= _NAMED else f"{len(cases):,} cases, such as {names}"
