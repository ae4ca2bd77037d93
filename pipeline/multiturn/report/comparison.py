"""What is different between two sides: cases, grouped by cause, and the changes of privilege."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from multiturn.errors import quoted
from multiturn.pipelines.pipeline import Pipeline
from multiturn.providers.base import TargetProvider
from multiturn.report.causes import UNKNOWN_CODE, causes
from multiturn.report.sides import Entry, ReviewedSuites
from multiturn.report.undo import PipelineChange, Undoing, pipeline_changes
from multiturn.snapshots.attached import shown
from multiturn.snapshots.locations import Key
from multiturn.snapshots.privilege import privilege_changes
from multiturn.snapshots.promotion import (
    PromotedChange,
    PromotedLock,
    changes_of_privilege,
    in_order,
    lock_of,
)
from multiturn.snapshots.renames import renames
from multiturn.snapshots.reviewed_case import ReviewedCase
from multiturn.snapshots.snapshot_file import snapshot_text

Status = Literal["failed", "changed", "renamed", "added", "removed", "same"]
# Shown at once: a browser would need longer to lay out thousands of them than the rest of the page.
MOST_PRIVILEGES = 20
STATUSES: tuple[Status, ...] = get_args(Status)
_UNKNOWN = "it cannot be read, because its suite has an error"


class Warned(Struct, frozen=True):
    """A change of privilege in a case."""

    identity: object  # equal for what is one change in several cases
    words: str
    causes: tuple[str, ...] = ()  # that may have made it; empty where the words say it
    is_new: bool = False  # a file that was in no system message before

    def __str__(self) -> str:
        """Return it in words, with its cause if only one is possible."""
        return f"{self.words}, by {self.causes[0]}" if len(self.causes) == 1 else self.words


class Comparison(Struct, frozen=True):
    """A case, now and then."""

    status: Status  # failed if it cannot be converted now; renamed even if its texts differ
    now: Entry | None  # None if it was removed
    then: Entry | None = None  # None if it was not there, or nothing is compared
    causes: tuple[str, ...] = ()  # what has changed its texts, in words
    files: Mapping[str, str] = {}  # those of them that are attached files, by path
    privileges: tuple[Warned, ...] = ()

    @property
    def case(self) -> Entry:
        """The case, as it is, or else as it was."""
        case = self.now or self.then
        assert case is not None  # noqa: S101 - one of them is there
        return case

    @property
    def was(self) -> Entry | None:
        """The case as it was if it has another name now; else None."""
        return self.then if self.status == "renamed" else None


class Report(Struct):
    """What a report shows."""

    now: ReviewedSuites
    then: ReviewedSuites | None  # None to show the cases as they are
    against: str  # the revision of ``then``, as it is shown
    pipeline: tuple[str, ...]  # what has changed in it
    # By status; the changed ones with several causes, then the others, the most frequent cause
    # first; then in the order of the suites.
    comparisons: list[Comparison]
    errors: list[str]  # that belong to no case

    @property
    def sample(self) -> str:
        """Which part of the cases this is about, in words; empty for all of them."""
        sample = self.now.stages.sample
        return f"a sample of the cases: {sample}" if sample else ""

    @property
    def shown(self) -> str:
        """The name of the pipeline, and of the target whose prompts are shown."""
        stages = self.now.stages
        return f"{stages.pipeline} for {stages.target}" if stages.target else stages.pipeline

    def texts(self, comparison: Comparison) -> tuple[ReviewedCase | None, ReviewedCase | None]:
        """Return a case as it was and as it is; None where there is nothing to show of it."""
        then, now = comparison.then, comparison.now
        old = self.then.read(then) if self.then and then and not then.error else None
        new = self.now.read(now) if now and not now.error else None
        return old, new

    def image(self, digest: str) -> bytes | None:
        """Return the bytes of an image of either side; None if they are not known."""
        found = (side.image(digest) for side in (self.now, self.then) if side is not None)
        return next(filter(None, found), None)

    def privileges(self) -> dict[str, set[int]]:
        """Return each change of privilege once, in words, with the places of the comparisons.

        Its cause is one that all of these have, and one of them has no other.
        """
        changes: dict[object, list[Warned]] = {}
        places: dict[object, set[int]] = {}
        for at, comparison in enumerate(self.comparisons):
            for change in comparison.privileges:
                changes.setdefault(change.identity, []).append(change)
                places.setdefault(change.identity, set()).add(at)
        found: dict[str, set[int]] = {}
        # Files that get a privilege come first.
        for identity, same in sorted(changes.items(), key=lambda item: not item[1][0].is_new):
            change = min(same, key=lambda each: len(each.causes))
            if not all(set(change.causes) <= {*each.causes} for each in same):
                change = replace(change, causes=())
            found.setdefault(str(change), set()).update(places[identity])
        return found

    def removed_suites(self) -> list[str]:
        """Return the suites of which no case is left."""
        removed = {c.case.suite: None for c in self.comparisons if c.status == "removed"}
        left = {c.case.suite for c in self.comparisons if c.status != "removed"}
        return [suite for suite in removed if suite not in left]


def compare(
    now: ReviewedSuites,
    then: ReviewedSuites | None = None,
    against: str = "",
    pipeline: Pipeline | None = None,
    provider: TargetProvider | None = None,
) -> Report:
    """Compare the cases as they are with those of a revision, or take them as they are.

    Args:
        now: the cases as they are.
        then: those of the revision.
        against: the revision, as it is shown.
        pipeline: which has converted the cases of ``now``; it finds the causes of changes.
        provider: of the target whose prompts are compared; None for those of the pipeline.
    """
    errors, changes = list(now.errors), list[str]()
    if then is None or pipeline is None:
        found = [Comparison("failed" if c.error else "same", c) for c in now.cases.values()]
    else:
        errors += (f"at {against}: {each}" for each in then.errors if each not in errors)
        undoing = Undoing(pipeline, pipeline_changes(then.stages, now.stages), provider)
        found = list(_comparisons(now, then, undoing))
        if now.stages.pipeline != then.stages.pipeline:
            changes.append(f"{now.stages.pipeline} in place of {then.stages.pipeline}")
        changes += (change.words for change in undoing.changes)
    sizes = Counter(comparison.causes for comparison in found)
    first = {causes: at for at, causes in enumerate(sizes)}

    def order(comparison: Comparison) -> tuple[int, int, int, int]:
        status, why = STATUSES.index(comparison.status), comparison.causes
        return status, -min(len(why), 2), -sizes[why], first[why]

    found.sort(key=order)
    return Report(now, then, against, tuple(changes), found, errors)


def _comparisons(
    now: ReviewedSuites, then: ReviewedSuites, undoing: Undoing
) -> Iterator[Comparison]:
    """Yield each case of two sides, those of now first."""
    names = _renames(now, then)
    promoted_files = promotions(now, then)
    for key, case in now.cases.items():
        was = then.cases.get(names.get(key, key))
        if was is None and case.suite in then.broken:
            was = Entry(*key, error=_UNKNOWN)
        if case.error:
            yield Comparison("failed", case, was)
        elif was is not None and case.digest == was.digest:
            yield Comparison("renamed" if key in names else "same", case, was)
        else:
            new = now.read(case)
            paths = (entry.path for entry in in_order(case.promoted))
            promoted = {path: promoted_files[path] for path in paths if path in promoted_files}
            privileges = list(_promoted(new, promoted.values()))
            if was is None:
                yield Comparison("added", case, privileges=tuple(privileges))
                continue
            old = None if was.error else then.read(was)
            found = list(causes(case, was, new, old, undoing))
            why, files = (
                tuple(each.words for each in found),
                {e.file: e.words for e in found if e.file},
            )
            privileges += _other_privileges(new, old, why, undoing.changes, promoted)
            status: Status = "renamed" if key in names else "changed"
            yield Comparison(status, case, was, why, files, tuple(privileges))
    renamed = set(names.values())
    for key, case in then.cases.items():
        if key in now.cases or key in renamed:
            continue
        if case.suite in now.broken:
            yield Comparison("failed", replace(case, error=_UNKNOWN), case)
        else:
            yield Comparison("removed", None, case)


def _renames(now: ReviewedSuites, then: ReviewedSuites) -> dict[Key, Key]:
    """Return what the cases were called that have another id or suite now."""
    sides = []
    for side, other in ((then, now), (now, then)):
        sides.append(
            {
                key: snapshot_text(side.read(case))
                for key, case in side.cases.items()
                if key not in other.cases and not case.error and case.suite not in other.broken
            }
        )
    return renames(*sides)


def promotions(now: ReviewedSuites, then: ReviewedSuites) -> dict[str, PromotedChange]:
    """Return what is new or changed in system messages, by the file."""
    changes = changes_of_privilege(promoted_in(then), promoted_in(now))
    return {change.path: change for change in changes}


def promoted_in(side: ReviewedSuites) -> PromotedLock:
    """Return how the files of a side reach system messages."""
    return lock_of(each for case in side.cases.values() for each in case.promoted)


def _promoted(case: ReviewedCase, changes: Iterable[PromotedChange]) -> Iterator[Warned]:
    """Yield the files that are new or changed in a system message."""
    for change in changes:
        text = (
            f": {quoted(shown(case.files.get(change.path, '')).strip())}" if change.is_new else ""
        )
        yield Warned(change.what, change.what + text, is_new=change.is_new)


def _other_privileges(
    new: ReviewedCase,
    old: ReviewedCase | None,
    why: tuple[str, ...],
    pipeline: Sequence[PipelineChange],
    promoted: Container[str],
) -> Iterator[Warned]:
    """Yield the other changes of privilege in a case, and what made them.

    Left out are the files that are named already, and what a stage adds if the stages are the
    same: where there is a second guideline, for one, both get headers.
    """
    for change in privilege_changes(old.judged if old else (), new.judged, promoted):
        are_same = not pipeline and UNKNOWN_CODE not in why
        if change.stage is not None and are_same:
            continue
        of_stage = {each.words for each in pipeline if each.stage and each.stage == change.stage}
        by = tuple(each for each in why if each in of_stage)
        text = change.text if change.stage is None and not change.path else ""
        identity = change.role, change.was, change.path, change.stage, text
        yield Warned(identity, str(change), by or why)
