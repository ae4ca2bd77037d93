"""Update a folder of snapshots, or report where it differs from the suites."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from multiturn.engine.outcomes import Outcome
from multiturn.engine.provenance import Message, messages_of
from multiturn.engine.selection import Selection
from multiturn.errors import MultiturnError, Place
from multiturn.model import Conversion
from multiturn.review.changes import FileChange, Finding, State
from multiturn.review.folder import SnapshotFolder
from multiturn.review.lists import FILES, PROMOTED, ChangedFile, Lists
from multiturn.review.privilege import privilege_changes
from multiturn.review.renames import renames
from multiturn.review.scope import Scope
from multiturn.review.snapshots import (
    Key,
    case_in,
    folder_of,
    inline_guidelines_in,
    legal_path,
    location_of,
    messages_in,
    snapshot_text,
    texts_of_files,
)
from multiturn.suites.discovery import find_suites
from multiturn.text import number_of

_STATES: tuple[State, ...] = ("new", "changed", "renamed", "removed")


class Update:
    """One run of ``multiturn snapshot``: the selected cases, and the folder of their snapshots."""

    def __init__(
        self,
        selection: Selection,
        arguments: tuple[str, ...],  # the files and folders that were named
        folder: str | None,  # of the snapshots; None for ``snapshots``, see Scope
        *,
        check: bool,  # write nothing
        inline: bool,  # repeat the texts of files
        pipeline: str,  # its name
    ) -> None:
        list(find_suites(path for path in arguments if not os.path.isdir(path)))
        self.scope = Scope(selection, arguments, folder)
        self.folder = SnapshotFolder(self.scope.snapshots)
        self.is_partial, self.is_strict = bool(selection.case_ids), selection.strict
        self.check, self.inline, self.pipeline = check, inline, pipeline
        self.places: dict[Key, Place] = {}  # of the cases in their suites
        self.findings: list[Finding] = []  # changes of privilege, and then changed files
        self.changes: list[FileChange] = []
        self.summary = ""  # one line for the end of the run
        self._names = list(self.scope.names.values())
        self._same = 0  # cases whose snapshot is as recorded
        self._failures = 0
        self._wanted: set[str] = set()  # the snapshots that there should be
        self._broken: set[str] = set()  # suites with a case that could not be converted
        self._messages: dict[Key, tuple[Message, ...]] = {}  # of the cases that differ
        if not selection.suites and not any(map(self.folder.case_of, self._candidates())):
            list(find_suites(arguments))  # raises the error that says what is missing

    def run(self, outcomes: Iterable[Outcome]) -> Iterator[MultiturnError]:
        """Compare, and then write; yield the errors of cases.

        With ``--strict``, nothing is written after an error.
        """
        lists = Lists(self.folder, self._names)
        for outcome in outcomes:
            suite = self.scope.names[outcome.suite]
            error = outcome.error
            if error is not None:
                self._broken.add(suite)
            elif outcome.conversion is not None:
                error = self._compare(suite, outcome.conversion, lists)
            if error is not None:
                self._failures += 1
                yield error
        stale = {} if self.is_partial else self._stale()
        self.changes = list(self._with_renames(stale))
        if not self.is_partial:
            self.changes += lists.changes(self._broken, self.scope.is_removed)
        files = list[ChangedFile]()
        if self.check or self.is_partial:
            files += lists.changed_files()
            self.findings = list(self._findings(lists, files))
        self.summary = self._summary(files)
        if not self.check and not (self.is_strict and self._failures):
            self._write(stale)

    def _compare(self, suite: str, conversion: Conversion, lists: Lists) -> MultiturnError | None:
        case = conversion.case
        key, name = (suite, case.id), location_of(suite, case.id)
        self.places[key] = case.where()
        named = {} if self.inline else texts_of_files(conversion)
        lists.add(key, conversion, named)
        if name in self._wanted:
            what = f"its snapshot would replace another case's, {self.folder.shown(name)}"
            return MultiturnError(f"{what}; give it another id", where=case.where())
        self._wanted.add(name)
        old, new = self.folder.read(name) or "", snapshot_text(conversion, named)
        if old == new:
            self._same += 1
            return None
        if old.strip() and case_in(old) is None:
            what = "this is not a snapshot; move it away"
            return MultiturnError(what, where=self.folder.shown(name))
        self.changes.append(FileChange(self.folder.shown(name), key, old, new))
        if self.check:
            self._messages[key] = messages_of(conversion)
        return None

    def _stale(self) -> dict[Key, str]:
        """Return the snapshots of cases that are gone; none of a suite that has an error."""
        stale: dict[Key, str] = {}
        for name in self._candidates():
            case = None if name in self._wanted else self.folder.case_of(name)
            if case is None:
                continue
            suite = case[0]
            is_known = suite in self._names
            if suite not in self._broken if is_known else self.scope.is_removed(suite):
                stale[case] = self.folder.read(name) or ""
        return stale

    def _candidates(self) -> Iterator[str]:
        for suite in self._names:
            yield from self.folder.snapshots(folder_of(suite))
        for _, prefix in self.scope.folders:
            yield from self.folder.snapshots(legal_path(prefix), below=True)

    def _with_renames(self, stale: Mapping[Key, str]) -> Iterator[FileChange]:
        """Yield the changes of snapshots: changed ones, new and renamed ones, removed ones."""
        new = {each.case: each.new for each in self.changes if each.case and not each.old}
        renamed, removed = renames(stale, new), dict(stale)
        for change in sorted(self.changes, key=lambda change: not change.old):
            was = renamed.get(change.case) if change.case else None
            if was is None:
                yield change
            else:
                old_name = self.folder.shown(location_of(*was))
                yield replace(change, old=removed.pop(was), old_name=old_name)
        for key, old in removed.items():
            yield FileChange(self.folder.shown(location_of(*key)), key, old, "")

    def _findings(self, lists: Lists, files: Iterable[ChangedFile]) -> Iterator[Finding]:
        found: dict[tuple[str, str, bool], list[Key]] = {}  # the cases, by the rest of a Finding
        promoted: set[tuple[str, str]] = set()
        for file, cases in lists.privileges():
            promoted.add((file.suite, file.path))
            found.setdefault((file.what, file.path, True), []).extend(cases)
        for change in self.changes:
            case = change.case
            if case is None or case not in self._messages or not change.old:
                continue
            for privilege in privilege_changes(messages_in(change.old), self._messages[case]):
                # An inline snapshot does not say whether a guideline was in a system message.
                if not privilege.role and privilege.path in inline_guidelines_in(change.new):
                    continue
                # A file that becomes a guideline is named by its pattern already.
                is_file = privilege.role == "system" and privilege.stage is None
                if not is_file or (case[0], privilege.path) not in promoted:
                    found.setdefault((str(privilege), privilege.path, True), []).append(case)
        for suite, path, is_listed, cases in files:
            what = "has another text" if is_listed else f"is not in {FILES}"
            # Without --case, the change of the list says which files are new.
            if (suite, path) not in promoted and (is_listed or self.is_partial):
                found.setdefault((f"{path} {what}", path, False), []).extend(cases)
        for (words, path, is_privilege), cases in found.items():
            yield Finding(words, cases, is_privilege, path)

    def _write(self, stale: Iterable[Key]) -> None:
        for change in self.changes:
            name = location_of(*change.case) if change.case else os.path.basename(change.name)
            if change.new:
                self.folder.write(name, change.new)
            elif change.case is None:
                self.folder.remove(name)
        for key in stale:
            self.folder.remove(location_of(*key))

    def _summary(self, files: Iterable[ChangedFile]) -> str:
        counts = Counter(change.state for change in self.changes if change.case)
        number = counts.total() + self._same
        states = (f"{counts[state]} {state}" for state in _STATES if counts[state])
        clauses = [f"{number_of(number, 'snapshot')}: {', '.join([*states, f'{self._same} same'])}"]
        removed = {each.case[0] for each in self.changes if each.case and not each.new}
        gone = sorted(removed.difference(self._names))
        if gone:
            clauses.append(f"{number_of(len(gone), 'suite')} removed: {', '.join(gone)}")
        if self._failures:
            clauses.append(f"{self._failures} failed")
        if not self.check:
            names = [os.path.basename(each.name) for each in self.changes if each.case is None]
            if names:
                clauses.append(f"{' and '.join(names)} changed")
            about = {PROMOTED if each.is_privilege else FILES for each in self.findings}
            if about:
                outdated = " and ".join(sorted(about, reverse=True))
                clauses.append(f"for {outdated}, run it without --case")
            return "; ".join(clauses)
        if counts["changed"] == number > 0 and not self.is_partial:
            clauses.append(f"the pipeline is {self.pipeline}")
        changed = [file.cases for file in files if file.is_listed]
        if changed:
            prompts = number_of(len(set().union(*changed)), "prompt")
            report = "see multiturn report --against HEAD, or the commit before the change"
            clauses.append(f"a file has another text in {prompts}: {report}")
        if self.changes or self.findings:
            first = "mend what has failed, " if self._failures else ""
            whole = " and --case" if self.is_partial and self.findings else ""
            clauses.append(
                f"if that is meant, {first}run snapshot without --check{whole}, and commit"
            )
        return "; ".join(clauses)
