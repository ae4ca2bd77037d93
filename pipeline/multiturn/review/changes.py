"""The differences that ``multiturn snapshot`` finds, to be printed in any format."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

Key = tuple[str, str]  # suite and id
State = Literal["new", "changed", "renamed", "removed", "same", "foreign"]

_HEAD_ENDS = "\nchat_prompt:"
_NAMED = 3  # cases that are named where there are many


class FileChange(Struct, frozen=True):
    """A file of the folder of snapshots that differs from what the suites give.

    Attributes:
        state: of the file, or of its case; ``foreign`` if the file is not a snapshot.
        name: its path, for messages.
        case: whose snapshot it is; None for a list of files.
        old: its text; empty if there is none.
        new: the text that it should have; empty if it should not be there.
        old_name: the earlier path, if its case was renamed.
    """

    state: State
    name: str
    case: Key | None = None
    old: str = ""
    new: str = ""
    old_name: str = ""

    def __str__(self) -> str:
        """Return what has become of the file, in words."""
        was = f"{self.old_name} -> " if self.old_name else ""
        return f"{self.state}: {was}{self.name}"

    @property
    def texts(self) -> tuple[str, str]:
        """The old and the new text to compare: a new name alone is no difference."""
        if self.state != "renamed":
            return self.old, self.new
        return self.new.partition(_HEAD_ENDS)[0] + "".join(
            self.old.partition(_HEAD_ENDS)[1:]
        ), self.new


class Finding(Struct, frozen=True):
    """A change of privilege, or of an attached file, in some cases.

    Attributes:
        what: the change, in words.
        cases: that have it.
        is_privilege: whether it is a change of privilege.
        path: of the file that it is about, from the root; empty for none.
    """

    what: str
    cases: tuple[Key, ...]
    is_privilege: bool
    path: str = ""

    def __str__(self) -> str:
        """Return it with the cases that have it, in words."""
        return f"{self.what} ({in_words(self.cases)})"


def in_words(cases: Sequence[Key]) -> str:
    """Name cases, or the first of many, with their suites.

    >>> in_words([("a.yaml", "one"), ("a.yaml", "two"), ("b.yaml", "one"), ("b.yaml", "two")])
    '4 cases, such as a.yaml: one, two; b.yaml: one'
    """
    suites: dict[str, list[str]] = {}
    for suite, case_id in cases[:_NAMED]:
        suites.setdefault(suite, []).append(case_id)
    names = "; ".join(f"{suite}: {', '.join(ids)}" for suite, ids in suites.items())
    return names if len(cases) <= _NAMED else f"{len(cases):,} cases, such as {names}"
