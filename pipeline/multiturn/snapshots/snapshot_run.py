"""A run of ``multiturn snapshot``: it updates a folder, or finds where it differs from suites."""

import os
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext

from msgspec import Struct
from msgspec.structs import replace

from multiturn.engine.outcomes import Outcome
from multiturn.engine.selection import Selection, suite_names
from multiturn.engine.spans import Message
from multiturn.errors import MultiturnError, Place, option
from multiturn.files.paths import root_of
from multiturn.providers.base import TargetProvider
from multiturn.snapshots.attached_files import Attached
from multiturn.snapshots.changes import Change, ChangeGroups, FileChange, State
from multiturn.snapshots.folder import SnapshotFolder
from multiturn.snapshots.growth import prompt_growth
from multiturn.snapshots.lists import (
    FILES,
    PROMOTED,
    Lists,
    MediaBefore,
    OtherSuites,
    RecordedLists,
    other_suites,
    read_lists,
)
from multiturn.snapshots.locations import Key, folder_of, legal_path, location_of, name_in_root
from multiturn.snapshots.privilege import PrivilegeChange, privilege_changes
from multiturn.snapshots.renames import renames
from multiturn.snapshots.reviewed_case import ReviewedCase, review_outcome
from multiturn.snapshots.snapshot_file import (
    files_named_before,
    inline_guidelines_in,
    plain_text,
    recorded_case,
    recorded_messages,
    snapshot_text,
)
from multiturn.snapshots.target_lock import (
    LOCK,
    change_of_lock,
    is_lock,
    recorded_target,
    shared_parameters,
)
from multiturn.text import number_of

_FOLDER = "snapshots"
_STATES: tuple[State, ...] = ("new", "changed", "renamed", "removed")


class Scope:
    """The suites of a run, and the folders that stand for all suites below them.

    A suite outside its root, two of one name, or of several repositories are errors.
    """

    def __init__(
        self, selection: Selection, arguments: tuple[str, ...], snapshots: str | None
    ) -> None:
        self._root, self._arguments = selection.root, arguments
        self.snapshots = snapshots or self._default_folder()
        # The path of each suite in its root, by the path that was named or found.
        self.names = suite_names(selection, lambda path: name_in_root(path, self._root_of(path)))
        # The root of each folder, and how the names of the suites below it begin.
        self.folders = list(self._folders())

    def is_removed(self, suite: str) -> bool:
        """Return whether a suite was below a folder that the command names, and no longer is."""
        beside = os.path.dirname(os.path.realpath(self.snapshots))
        if os.path.isfile(os.path.join(beside, suite)):  # of another root
            return False
        return any(
            suite.startswith(prefix) and not os.path.isfile(os.path.join(root, suite))
            for root, prefix in self.folders
        )

    def _default_folder(self) -> str:
        """Return the folder of snapshots beside ``.git``, wherever below it the command is run."""
        roots = {os.path.realpath(self._root_of(path)) for path in self._arguments}
        tops = sorted(root for root in roots if os.path.exists(os.path.join(root, ".git")))
        if self._root is not None or not tops:
            return _FOLDER
        if len(roots) > 1:
            what = f"the suites are in several roots, as {' and '.join(sorted(roots)[:2])}"
            raise MultiturnError(f"{what}; name the folder of their snapshots (--dir)")
        return os.path.relpath(os.path.join(*tops, _FOLDER))

    def _folders(self) -> Iterator[tuple[str, str]]:
        """Leave out folders in no root: the name of a suite does not say that it was below."""
        for path in filter(os.path.isdir, self._arguments):
            root = self._root_of(path)
            if self._root is not None or os.path.exists(os.path.join(root, ".git")):
                real, top = os.path.realpath(path), os.path.realpath(root)
                yield top, "" if real == top else f"{name_in_root(path, root)}/"

    def _root_of(self, path: str) -> str:
        return self._root or root_of(path)


class Compared(Struct):
    """How the cases of a run compare with their recorded snapshots."""

    places: dict[Key, Place] = {}  # of the cases in their suites
    files: list[FileChange] = []  # the snapshots that differ
    messages: dict[Key | None, tuple[Message, ...]] = {}  # of the cases whose snapshots differ
    attached: dict[Key | None, Mapping[str, Attached]] = {}  # their attached files
    same: int = 0  # cases whose snapshot is as recorded
    failures: int = 0
    expected: set[str] = set()  # the snapshots that there should be
    broken: set[str] = set()  # suites with a case that could not be converted

    def privileges(self, file: FileChange, listed: Container[str]) -> list[PrivilegeChange]:
        """Return the changes of privilege in a changed case.

        ``listed`` are the files that are new or changed on the list of promoted files.
        """
        if file.case not in self.messages or not file.old:
            return []
        now = self.messages[file.case]
        return [
            privilege
            for privilege in privilege_changes(recorded_messages(file.old), now, listed)
            # An inline snapshot does not say whether a guideline was in a system message.
            if privilege.role or privilege.path not in inline_guidelines_in(file.new)
        ]

    def growth(self, file: FileChange) -> float | None:
        """Return by how much the prompt of a changed, new or removed case grows."""
        before, now = recorded_messages(file.old), self.messages.get(file.case, ())
        if file.old and not before:  # somebody has edited it
            return None
        # Where a snapshot has a guideline in full, its path stands beside it, and adds nothing.
        inline = dict.fromkeys(inline_guidelines_in(file.old), "")
        return prompt_growth(before, now, {}, {**self.attached.get(file.case, {}), **inline})


class Update(Struct, frozen=True, kw_only=True):
    """What a run found and, unless it was a check, wrote."""

    check: bool
    is_partial: bool  # only some cases of the suites were selected
    pipeline: str  # its name
    suites: frozenset[str]  # that there are
    files: Sequence[FileChange]  # of the folder
    places: Mapping[Key, Place]  # of the cases in their suites
    other_suites: int  # beside the selected ones, that have a file whose entry is new or changed
    same: int  # cases whose snapshot is as recorded
    failures: int
    # What is said in one line each: the changes of privilege, and then the attached files that
    # changed; empty for a run that writes all of them.
    findings: Sequence[Change] = ()
    changes: Sequence[Change] = ()  # what a reviewer decides on

    @property
    def summary(self) -> str:
        """One line for the end of the run."""
        counts = Counter(file.state for file in self.files if file.case)
        number = counts.total() + self.same
        states = (f"{counts[state]:,} {state}" for state in _STATES if counts[state])
        clauses = [
            f"{number_of(number, 'snapshot')}: {', '.join([*states, f'{self.same:,} same'])}"
        ]
        removed = {each.case[0] for each in self.files if each.case and not each.new}
        if gone := sorted(removed - self.suites):
            clauses.append(f"{number_of(len(gone), 'suite')} removed: {', '.join(gone)}")
        if self.failures:
            clauses.append(f"{self.failures:,} failed")
        clauses += self._of_check(counts["changed"] == number > 0) if self.check else self._of_run()
        return "; ".join(clauses)

    def _of_run(self) -> Iterator[str]:
        """Yield the clauses about the lists, after a run that writes."""
        names = [os.path.basename(each.name) for each in self.files if each.case is None]
        if names:
            *first, last = names
            others = f", also for {number_of(self.other_suites, 'other suite')}"
            changed = " and ".join(filter(None, (", ".join(first), last)))
            yield f"{changed} changed{others if self.other_suites else ''}"
        outdated = {PROMOTED if each.privileges else FILES for each in self.findings}
        if outdated:
            yield f"to update {' and '.join(sorted(outdated, reverse=True))}, run it for all cases"

    def _of_check(self, have_all_changed: bool) -> Iterator[str]:
        """Yield the clauses that say what a difference may come from, and what to do."""
        if self.changes and not self.is_partial:  # with --case, nothing is accepted
            yield f"{number_of(len(self.changes), 'difference')} to decide on"
        if have_all_changed and not self.is_partial:
            yield f"the pipeline is {self.pipeline}"
        if self.files or self.findings:
            first = "fix the errors, " if self.failures else ""
            others = ", for all cases," if self.findings else ""
            how = others if self.is_partial else ", or with --review,"
            yield f"if intended, {first}run snapshot without --check{how} and commit the result"


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
                for file in update.files:
                    write_change(folder, file)
                for key in stale:
                    folder.remove(location_of(*key))
        return update

    def compare(
        self, outcomes: Iterable[Outcome], on_error: Callable[[MultiturnError], None]
    ) -> tuple[SnapshotFolder, Lists, Compared]:
        """Compare the outcomes with the snapshots in the folder, and return the files to list.

        Raises:
            MultiturnError: a list is torn, or snapshots would stay that are compared with what
                another target gets.
        """
        folder = SnapshotFolder(self.scope.snapshots)
        self._refuse_other_target(folder)
        lists, compared = Lists(read_lists(folder, resolve=self.resolve)), Compared()
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
        return folder, lists, compared

    def _refuse_other_target(self, folder: SnapshotFolder) -> None:
        """Raise the error of a part of the cases, or of the suites, that have another target."""
        recorded, name = recorded_target(folder), self.provider.name if self.provider else ""
        if not recorded or recorded == name:
            return
        covered = {folder_of(suite) for suite in self.scope.names.values()}
        names = (n for n in folder.snapshots("", below=True) if os.path.dirname(n) not in covered)
        cases = filter(None, map(folder.case_of, names))
        if self.is_partial or any(not self.scope.is_removed(suite) for suite, _ in cases):
            what = f"the snapshots are of the target {recorded!r}: name it with {option('target')}"
            what += ", or run this for all suites and cases"
            raise MultiturnError(what, where=folder.shown(LOCK))

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
        if old.strip() and recorded_case(old) is None:
            what = "this is not a snapshot; move it away"
            return MultiturnError(what, where=folder.shown(name))
        compared.files.append(FileChange(folder.shown(name), case.key, old, new))
        if self.check:
            compared.messages[case.key] = case.judged
            compared.attached[case.key] = case.files
        return None

    def found(
        self, folder: SnapshotFolder, lists: Lists, compared: Compared
    ) -> tuple[Update, Mapping[Key, str]]:
        """Return what has changed, and the snapshots of cases that are gone."""
        recorded = read_lists(folder, resolve=self.resolve)
        also: set[str] = set()
        stale = {} if self.is_partial else self._stale(folder, compared)
        files = list(_with_renames(compared.files, stale, folder))
        if not self.is_partial:
            others = self.other_suites(folder, compared, stale)
            files += lists.changes(recorded, others, folder)
            also = lists.also_of(recorded, others) - compared.broken
            files += filter(None, [change_of_lock(folder, self.provider)])
        update = Update(
            check=self.check,
            is_partial=self.is_partial,
            pipeline=self.pipeline,
            suites=frozenset(self.scope.names.values()),
            files=files,
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


def _judged(update: Update, lists: Lists, recorded: RecordedLists, compared: Compared) -> Update:
    """Return an update with its findings, and, for a check, what a reviewer decides on."""
    promoted, groups = lists.privileges(recorded), ChangeGroups()
    listed = {change.path: set(cases) for change, cases in promoted.items()}
    named = {(each.words, each.path): [*cases] for each, cases in promoted.items()}
    new_files = _new_files(promoted)
    media: MediaBefore = {}
    files: list[FileChange] = []
    for file in update.files:
        if case := file.case:
            # All that is asked of a snapshot is asked here, so that it is read once.
            media |= files_named_before(file.old)
            words = list[str]()
            for each in compared.privileges(file, listed):
                words.append(each.words)
                named.setdefault((each.words, each.path), []).append(case)
            growth = compared.growth(file) if update.check else None
            words += new_files.get(case, ())
            file = replace(file, privileges=tuple(words), growth=growth)
        files.append(file)
        if update.check and (file.case or is_lock(file)):
            groups.add(file, *map(plain_text, file.texts))
    findings = [
        Change(kind="privilege", what=words, cases=tuple(cases), path=path, privileges=(words,))
        for (words, path), cases in named.items()
    ]
    findings += lists.unrecorded(recorded, media, listed, with_new=update.is_partial)
    update = replace(update, files=files, findings=findings)
    if not update.check:
        return update
    new = {file.case for file in files if file.case and file.state == "new"}
    attached = () if update.is_partial else lists.changed_files(recorded, promoted, new, media)
    return replace(update, changes=groups.changes(attached))


def _new_files(promoted: Mapping[PrivilegeChange, Iterable[Key]]) -> dict[Key, list[str]]:
    """Return the files that are new in the system message of each case, in words."""
    found: dict[Key, list[str]] = {}
    for change, cases in promoted.items():
        for case in cases if change.is_new else ():
            found.setdefault(case, []).append(change.words)
    return found


def _warn_of_conflicts(outcome: Outcome, case: ReviewedCase) -> None:
    """Warn of the attached texts that are not merged yet: the lists would have their digests."""
    files = None if outcome.conversion is None else outcome.conversion.case.files
    for path, file in case.files.items():
        if files is not None and isinstance(file, str):
            files.warn_of_conflict(path, file)


def _with_renames(
    files: Iterable[FileChange], stale: Mapping[Key, str], folder: SnapshotFolder
) -> Iterator[FileChange]:
    """Yield the changes of snapshots: changed ones, new and renamed ones, removed ones."""
    files = sorted(files, key=lambda file: not file.old)
    new = {each.case: each.new for each in files if each.case and not each.old}
    renamed, removed = renames(stale, new), dict(stale)
    for file in files:
        was = renamed.get(file.case) if file.case else None
        if was is None:
            yield file
        else:
            old_name = folder.shown(location_of(*was))
            yield replace(file, old=removed.pop(was), old_name=old_name)
    for key, old in removed.items():
        yield FileChange(folder.shown(location_of(*key)), key, old, "")


def write_change(folder: SnapshotFolder, file: FileChange) -> None:
    """Write the new text of a file; remove a list that should not be there."""
    if file.new:
        folder.write(file.location, file.new)
    elif file.case is None:
        folder.remove(file.location)
