"""Update a folder of snapshots, or report where it differs from the suites."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext

from msgspec import Struct
from msgspec.structs import replace

from multiturn.engine.outcomes import Outcome
from multiturn.engine.selection import Selection
from multiturn.errors import MultiturnError
from multiturn.providers.base import TargetProvider
from multiturn.snapshots.changes import FileChange
from multiturn.snapshots.findings import Compared, Update, judged
from multiturn.snapshots.folder import SnapshotFolder
from multiturn.snapshots.lists import (
    Lists,
    OtherSuites,
    other_suites,
    read_lists,
)
from multiturn.snapshots.locations import Key, folder_of, legal_path, location_of
from multiturn.snapshots.recorded import case_in
from multiturn.snapshots.renames import renames
from multiturn.snapshots.reviewed_case import ReviewedCase, review_outcome
from multiturn.snapshots.scope import Scope
from multiturn.snapshots.snapshot_file import snapshot_text
from multiturn.snapshots.target_lock import (
    change_of_lock,
    refuse_other_target,
    shared_parameters,
)


class SnapshotRun(Struct, frozen=True, kw_only=True):
    """What a run of ``multiturn snapshot`` is asked for.

    Attributes:
        selection: the cases.
        scope: their suites, and the folders that were named.
        pipeline: its name.
        check: write nothing.
        inline: repeat the texts of attached files.
        provider: of the target whose prompts are recorded, too; None for none.
        resolve: write lists anew that have a merge conflict.
    """

    selection: Selection
    scope: Scope
    pipeline: str
    check: bool
    inline: bool
    provider: TargetProvider | None = None
    resolve: bool = False

    @property
    def is_partial(self) -> bool:
        """Whether only some cases of the suites are selected."""
        return self.selection.is_partial

    def refuse_nothing(self) -> None:
        """Raise the error of a path where no suite is, unless its snapshots are to be removed."""
        missing = self.selection.missing
        for path, error in missing.items():
            if not os.path.isdir(path):
                raise error
        folder = SnapshotFolder(self.scope.snapshots)
        if not self.selection.suites and not any(map(folder.case_of, self._candidates(folder))):
            raise next(iter(missing.values()))

    def update(
        self, outcomes: Iterable[Outcome], on_error: Callable[[MultiturnError], None]
    ) -> Update:
        """Compare the outcomes of the selection with the folder, and write unless it is a check.

        With ``--strict``, nothing is written after an error. ``on_error`` gets the errors of cases.
        """
        folder, lists, compared = self.compare(outcomes, on_error)
        writes = not self.check and not (self.selection.strict and compared.failures)
        # Another run may write other suites of the folder now: its entries must not be lost.
        with folder.alone() if writes else nullcontext():
            update, stale = self.found(folder, lists, compared)
            if writes:
                for change in update.changes:
                    write(folder, change)
                for key in stale:
                    folder.remove(location_of(*key))
        return update

    def compare(
        self, outcomes: Iterable[Outcome], on_error: Callable[[MultiturnError], None]
    ) -> tuple[SnapshotFolder, Lists, Compared]:
        """Compare the outcomes with the snapshots in the folder, and return the files to list."""
        folder = SnapshotFolder(self.scope.snapshots)
        refuse_other_target(folder, self.provider, self.scope, is_partial=self.is_partial)
        # Raises the error of a torn list at once.
        lists = Lists(read_lists(folder, resolve=self.resolve))
        return folder, lists, self._compare(outcomes, folder, lists, on_error)

    def found(
        self, folder: SnapshotFolder, lists: Lists, compared: Compared
    ) -> tuple[Update, Mapping[Key, str]]:
        """Return what has changed, and the snapshots of cases that are gone."""
        recorded = read_lists(folder, resolve=self.resolve)
        also: set[str] = set()
        stale = {} if self.is_partial else self._stale(folder, compared)
        changes = list(_with_renames(compared.changes, stale, folder))
        if not self.is_partial:
            others = self.other_suites(folder, compared, stale)
            changes += lists.changes(recorded, others, folder)
            also = lists.also_of(recorded, others) - compared.broken
            changes += filter(None, [change_of_lock(folder, self.provider)])
        update = Update(
            check=self.check,
            is_partial=self.is_partial,
            pipeline=self.pipeline,
            suites=frozenset(self.scope.names.values()),
            changes=changes,
            places=compared.places,
            other_suites=len(also),
            same=compared.same,
            failures=compared.failures,
        )
        judges = self.check or self.is_partial
        return judged(update, lists, recorded, compared) if judges else update, stale

    def other_suites(
        self, folder: SnapshotFolder, compared: Compared, stale: Iterable[Key]
    ) -> OtherSuites:
        """Return the files of suites that this run does not cover."""
        return other_suites(folder, set(self.scope.names.values()) - compared.broken, stale)

    def _compare(
        self,
        outcomes: Iterable[Outcome],
        folder: SnapshotFolder,
        lists: Lists,
        on_error: Callable[[MultiturnError], None],
    ) -> Compared:
        compared = Compared()
        shared = {} if self.provider is None else shared_parameters(self.provider)
        for outcome in outcomes:
            case, error = review_outcome(outcome, self.provider)
            if error is not None:
                compared.broken.add(self.scope.names[outcome.suite])
            elif case is not None:
                if self.resolve:
                    _warn_of_conflicts(outcome, case)
                text = snapshot_text(case, inline=self.inline, shared=shared)
                error = self._compare_case(case, text, folder, compared)
                lists.add(case, inline=self.inline)
            if error is not None:
                compared.failures += 1
                on_error(error)
        return compared

    def _compare_case(
        self, case: ReviewedCase, new: str, folder: SnapshotFolder, compared: Compared
    ) -> MultiturnError | None:
        """Compare a case with its snapshot; return an error if the new one must not be written."""
        name, where = location_of(*case.key), case.case.where()
        compared.places[case.key] = where
        if name in compared.expected:
            what = f"its snapshot would replace another case's, {folder.shown(name)}"
            return MultiturnError(f"{what}; give it another id", where=where)
        compared.expected.add(name)
        old = folder.read(name) or ""
        if old == new:
            compared.same += 1
            return None
        if old.strip() and case_in(old) is None:
            what = "this is not a snapshot; move it away"
            return MultiturnError(what, where=folder.shown(name))
        compared.changes.append(FileChange(folder.shown(name), case.key, old, new))
        if self.check:
            compared.messages[case.key] = case.judged
            compared.files[case.key] = case.files
        return None

    def _stale(self, folder: SnapshotFolder, compared: Compared) -> dict[Key, str]:
        """Return the snapshots of cases that are gone; none of a suite that has an error."""
        suites = set(self.scope.names.values())
        stale: dict[Key, str] = {}
        for name in self._candidates(folder):
            case = None if name in compared.expected else folder.case_of(name)
            if case is None:
                continue
            suite = case[0]
            if suite not in compared.broken if suite in suites else self.scope.is_removed(suite):
                stale[case] = folder.read(name) or ""
        return stale

    def _candidates(self, folder: SnapshotFolder) -> Iterator[str]:
        for suite in self.scope.names.values():
            yield from folder.snapshots(folder_of(suite))
        for _, prefix in self.scope.folders:
            yield from folder.snapshots(legal_path(prefix), below=True)


def _warn_of_conflicts(outcome: Outcome, case: ReviewedCase) -> None:
    """Warn of the attached texts that are not merged yet: the lists would have their digests."""
    files = None if outcome.conversion is None else outcome.conversion.case.files
    for path, file in case.files.items():
        if files is not None and isinstance(file, str):
            files.warn_of_conflict(path, file)


def _with_renames(
    changes: Iterable[FileChange], stale: Mapping[Key, str], folder: SnapshotFolder
) -> Iterator[FileChange]:
    """Yield the changes of snapshots: changed ones, new and renamed ones, removed ones."""
    changes = sorted(changes, key=lambda change: not change.old)
    new = {each.case: each.new for each in changes if each.case and not each.old}
    renamed, removed = renames(stale, new), dict(stale)
    for change in changes:
        was = renamed.get(change.case) if change.case else None
        if was is None:
            yield change
        else:
            old_name = folder.shown(location_of(*was))
            yield replace(change, old=removed.pop(was), old_name=old_name)
    for key, old in removed.items():
        yield FileChange(folder.shown(location_of(*key)), key, old, "")


def write(folder: SnapshotFolder, change: FileChange) -> None:
    """Write the new text of a file; remove a list that should not be there."""
    name = location_of(*change.case) if change.case else os.path.basename(change.name)
    if change.new:
        folder.write(name, change.new)
    elif change.case is None:
        folder.remove(name)
