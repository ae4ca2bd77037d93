"""Update a folder of snapshots, or report where it differs from the suites."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext

from msgspec import Struct
from msgspec.structs import replace

from multiturn.engine.outcomes import Outcome
from multiturn.engine.selection import Selection
from multiturn.engine.spans import Message
from multiturn.errors import MultiturnError, Place
from multiturn.providers.base import TargetProvider
from multiturn.review.attached import Attached, texts_in
from multiturn.review.changes import FileChange
from multiturn.review.differences import differences
from multiturn.review.findings import Update, findings_of, media_before, privileges_of
from multiturn.review.folder import SnapshotFolder
from multiturn.review.growth import prompt_growth
from multiturn.review.lists import Lists, OtherSuites, RecordedLists, other_suites, read_lists
from multiturn.review.locations import Key, folder_of, legal_path, location_of
from multiturn.review.privilege import PrivilegeChange
from multiturn.review.promotion import PromotedChange
from multiturn.review.recorded import case_in, inline_guidelines_in, messages_in
from multiturn.review.renames import renames
from multiturn.review.reviewed import ReviewedCase, review_outcome
from multiturn.review.scope import Scope
from multiturn.review.snapshots import snapshot_text
from multiturn.review.target import (
    change_of_lock,
    is_lock,
    refuse_other_target,
    shared_parameters,
)


class Compared(Struct):
    """How the cases of a run compare with their recorded snapshots."""

    places: dict[Key, Place] = {}  # of the cases in their suites
    changes: list[FileChange] = []
    messages: dict[Key, tuple[Message, ...]] = {}  # of the cases whose snapshots differ
    files: dict[Key, Mapping[str, Attached]] = {}  # that they attach
    same: int = 0  # cases whose snapshot is as recorded
    failures: int = 0
    expected: set[str] = set()  # the snapshots that there should be
    broken: set[str] = set()  # suites with a case that could not be converted

    def growth(self, change: FileChange) -> float | None:
        """Return by how much the prompt of a changed, new or removed case grows."""
        assert change.case is not None  # noqa: S101 - it is not of a list
        before, now = messages_in(change.old), self.messages.get(change.case, ())
        if change.old and not before:  # somebody has edited it
            return None
        # Where a snapshot has a guideline in full, its path stands beside it, and adds nothing.
        inline = dict.fromkeys(inline_guidelines_in(change.old), "")
        return prompt_growth(before, now, {}, {**self.files.get(change.case, {}), **inline})


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
        return _judged(update, lists, recorded, compared) if judges else update, stale

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
                for path, text in texts_in(case.files).items() if self.resolve else ():
                    if case.case.files is not None:
                        case.case.files.warn_of_conflict(path, text)
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


def _judged(update: Update, lists: Lists, recorded: RecordedLists, compared: Compared) -> Update:
    """Return an update with what is to be said of its changes, and, for a check, decided."""
    media = media_before(update.changes)
    promoted, files = lists.privileges(recorded), list(lists.changed_files(recorded, media))
    listed = {change.path for change in promoted}
    privileges = privileges_of(update.changes, compared.messages, listed)
    findings = findings_of(promoted, privileges, files, is_partial=update.is_partial)
    update = replace(update, findings=list(findings), files=files)
    if not update.check:
        return update
    new = {each.case for each in update.changes if each.case and each.state == "new"}
    texts = () if update.is_partial else lists.changed_texts(recorded, promoted, new, media)
    growths = {each.case: compared.growth(each) for each in update.changes if each.case}
    found = differences(
        # Lists have no difference, because they follow from the others.
        (change for change in update.changes if change.case or is_lock(change)),
        texts,
        privileges=_facts(promoted, privileges),
        growths=growths,
    )
    return replace(update, differences=found, growths=growths)


def _facts(
    promoted: Mapping[PromotedChange, Iterable[Key]],
    privileges: Mapping[Key, Iterable[PrivilegeChange]],
) -> dict[Key, list[str]]:
    """Return the changes of privilege in each case, in words, and the files that are new there."""
    facts = {case: list(map(str, each)) for case, each in privileges.items()}
    for change, cases in promoted.items():
        for case in cases if change.is_new else ():
            facts.setdefault(case, []).append(change.what)
    return facts


def write(folder: SnapshotFolder, change: FileChange) -> None:
    """Write the new text of a file; remove a list that should not be there."""
    name = location_of(*change.case) if change.case else os.path.basename(change.name)
    if change.new:
        folder.write(name, change.new)
    elif change.case is None:
        folder.remove(name)
