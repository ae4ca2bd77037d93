"""What is different between two sides: cases, grouped by cause, and the changes of privilege."""

from collections import Counter
from collections.abc import Container, Iterator
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from multiturn.errors import quoted
from multiturn.review.lockfile import (
    PromotedChange,
    Promotion,
    changes_of_privilege,
    in_order,
)
from multiturn.review.privilege import privilege_changes
from multiturn.review.renames import Key, renames
from multiturn.review.report.causes import UNKNOWN_CODE, causes
from multiturn.review.report.side import Entry, Reviewed, Side
from multiturn.review.report.stages import pipeline_changes

Status = Literal["failed", "changed", "renamed", "added", "removed", "same"]
STATUSES: tuple[Status, ...] = ("failed", "changed", "renamed", "added", "removed", "same")
_UNKNOWN = "it is not among the cases that can be read; the suite has an error"


class Comparison(Struct, frozen=True):
    """A case, now and then.

    Attributes:
        status: ``failed`` if it cannot be converted now; ``renamed`` even if its texts differ.
        now: the case; None if it was removed.
        then: the case at the other revision; None if it was not there, or is not looked at.
        causes: what changed its texts: one, unless several things that it is made of have changed.
        privileges: its changes of privilege in words, each with what tells it from others.
    """

    status: Status
    now: Entry | None
    then: Entry | None = None
    causes: tuple[str, ...] = ()
    privileges: tuple[tuple[object, str], ...] = ()

    @property
    def error(self) -> str:
        """Why it failed, or had failed before it was removed."""
        return self.case.error

    @property
    def case(self) -> Entry:
        """The case, as it is, or else as it was."""
        case = self.now or self.then
        assert case is not None  # noqa: S101 - one of them is there
        return case


class Report(Struct):
    """What a report shows.

    Attributes:
        now: the cases as they are.
        then: as they were; None to show them as they are.
        against: the revision of ``then``, as it is shown; empty for none.
        pipeline: what has changed in it.
        comparisons: each case, in an order for reading: by status; the changed ones that no single
            cause explains come first, then the others by their causes, that of most cases first.
        errors: that belong to no case.
    """

    now: Side
    then: Side | None
    against: str
    pipeline: tuple[str, ...]
    comparisons: list[Comparison]
    errors: list[str]

    def texts(self, comparison: Comparison) -> tuple[Reviewed | None, Reviewed | None]:
        """Return a case as it was and as it is; None where there is nothing to show of it."""
        then, now = comparison.then, comparison.now
        old = self.then.read(then) if self.then and then and not then.error else None
        new = self.now.read(now) if now and not now.error else None
        return old, new

    def privileges(self) -> dict[str, list[Comparison]]:
        """Return the changes of privilege in words, with the cases that have them."""
        words: dict[object, str] = {}
        cases: dict[str, list[Comparison]] = {}
        for comparison in self.comparisons:
            for key, text in comparison.privileges:
                cases.setdefault(words.setdefault(key, text), []).append(comparison)
        return cases

    def removed_suites(self) -> list[str]:
        """Return the suites of which no case is left."""
        removed = {c.case.suite: None for c in self.comparisons if c.status == "removed"}
        left = {c.case.suite for c in self.comparisons if c.status != "removed"}
        return [suite for suite in removed if suite not in left]


def compare(now: Side, then: Side | None = None, against: str = "") -> Report:
    """Compare the cases of two sides.

    Args:
        now: the cases as they are.
        then: as they were; None to take them as they are.
        against: the revision of ``then``, as it is to be shown.
    """
    errors, changes = list(now.errors), tuple[str, ...]()
    if then is None:
        found = [Comparison("failed" if c.error else "same", c) for c in now.cases.values()]
    else:
        errors += (f"at {against}: {each}" for each in then.errors if each not in errors)
        changes = tuple(pipeline_changes(then.stages, now.stages, now.pipeline))
        found = list(_comparisons(now, then, changes))
        if now.pipeline != then.pipeline:
            changes = f"{now.pipeline} in place of {then.pipeline}", *changes
    sizes = Counter(comparison.causes for comparison in found)
    first = {causes: at for at, causes in enumerate(sizes)}

    def order(comparison: Comparison) -> tuple[int, int, int, int]:
        causes = comparison.causes
        status, number = STATUSES.index(comparison.status), min(len(causes), 2)
        return status, -number, -sizes[causes], first[causes]

    found.sort(key=order)  # stable: the order of the suites within each cause
    return Report(now, then, against, changes, found, errors)


def _comparisons(now: Side, then: Side, pipeline: tuple[str, ...]) -> Iterator[Comparison]:
    """Yield each case of two sides, those of now first."""
    names = _renames(now, then)
    promotions = _promotions(now, then)
    for key, case in now.cases.items():
        was = then.cases.get(names.get(key, key))
        if was is None and case.suite in then.broken:
            was = Entry(*key, error=_UNKNOWN)
        files = {
            entry.path: promotions[case.suite, entry.path]
            for entry in in_order(case.promoted)
            if (case.suite, entry.path) in promotions
        }
        privileges: list[tuple[object, str]] = []
        for path, change in files.items():
            text = ""
            if change.is_new:
                text = f": {quoted(now.read(case).files.get(path, '').strip())}"
            privileges.append((change.what, change.what + text))
        if case.error:
            yield Comparison("failed", case, was)
        elif was is None:
            yield Comparison("added", case, privileges=tuple(privileges))
        elif case.digest == was.digest:
            yield Comparison("renamed" if key in names else "same", case, was)
        else:
            new, old = now.read(case), Reviewed() if was.error else then.read(was)
            why = tuple(causes(case, new, was, old, pipeline))
            privileges += _privileges(new, old, why, pipeline, files)
            status: Status = "renamed" if key in names else "changed"
            yield Comparison(status, case, was, why, tuple(privileges))
    renamed = set(names.values())
    for key, case in then.cases.items():
        if key in now.cases or key in renamed:
            continue
        if case.suite in now.broken:
            yield Comparison("failed", replace(case, error=_UNKNOWN), case)
        else:
            yield Comparison("removed", None, case)


def _renames(now: Side, then: Side) -> dict[Key, Key]:
    """Return what the cases were called that have another id or suite now."""
    sides = []
    for side, other in ((then, now), (now, then)):
        sides.append(
            {
                key: side.read(case).sections[0]
                for key, case in side.cases.items()
                if key not in other.cases and not case.error and case.suite not in other.broken
            }
        )
    return renames(*sides)


def _promotions(now: Side, then: Side) -> dict[tuple[str, str], PromotedChange]:
    """Return what is new or changed in system messages, by the suite and the file."""
    locks: list[dict[str, tuple[Promotion, ...]]] = []
    for side in (then, now):
        found: dict[str, set[Promotion]] = {}
        for case in side.cases.values():
            found.setdefault(case.suite, set()).update(case.promoted)
        locks.append({suite: in_order(promotions) for suite, promotions in found.items()})
    return {(change.suite, change.path): change for change in changes_of_privilege(*locks)}


def _privileges(
    new: Reviewed,
    old: Reviewed,
    why: tuple[str, ...],
    pipeline: tuple[str, ...],
    named: Container[str],
) -> Iterator[tuple[object, str]]:
    """Yield the other changes of privilege in a case, and what made them.

    Left out are the files that are named already, and what a stage adds if the stages are the
    same: where there is a second guideline, for one, both get headers.
    """
    for change in privilege_changes(old.chat or (), new.chat or ()):
        are_same = not pipeline and UNKNOWN_CODE not in why
        if change.path in named or (change.stage is not None and are_same):
            continue
        by = tuple(each for each in pipeline if each.startswith(f"{change.stage}.")) or why
        text = change.text if change.stage is None and not change.path else ""
        key = change.role, change.was, change.path, change.stage, text, by
        yield key, f"{change}, by {by[0]}" if len(by) == 1 else str(change)
