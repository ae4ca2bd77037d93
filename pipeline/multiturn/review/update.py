"""Update a folder of snapshots, or report where it differs from the suites."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from multiturn.engine.outcomes import Outcome
from multiturn.engine.selection import Selection
from multiturn.errors import MultiturnError
from multiturn.model import Conversion
from multiturn.prompts.provenance import Message, messages_of
from multiturn.review.changes import FileChange, Finding, Key, State
from multiturn.review.folder import SnapshotFolder
from multiturn.review.lists import Lists
from multiturn.review.lockfile import PROMOTED
from multiturn.review.privilege import PrivilegeChange, privilege_changes
from multiturn.review.renames import renames
from multiturn.review.scope import Scope
from multiturn.review.snapshots import (
    folder_of,
    kept_location,
    legal_path,
    location_of,
    messages_in,
    snapshot_text,
    texts_of_files,
)
from multiturn.suites.discovery import find_suites
from multiturn.text import number_of

Said = str | FileChange | Finding | MultiturnError
_COUNTED: tuple[State, ...] = ("new", "changed", "renamed", "removed", "same")


class _Suite(Struct):
    """What is known of a selected suite.

    Attributes:
        wanted: the snapshots of its cases; contains None if the id of a case is unknown.
        is_broken: whether one of its cases could not be converted.
    """

    wanted: set[str | None] = set()
    is_broken: bool = False


class Update:
    """One run of ``multiturn snapshot``: the selected cases, and the folder of their snapshots.

    Args:
        selection: which cases; not of standard input.
        arguments: the files and folders that were named.
        folder: of the snapshots; None for ``snapshots`` in the repository of the suites, or here.
        check: whether to write nothing.
        inline: whether snapshots repeat the texts of files.
        pipeline: the name of the pipeline.

    Raises:
        MultiturnError: there is no such suite, one is outside its root, two have one name, or are
            of several repositories.

    Attributes:
        counts: number of snapshots by state.
        failures: number of cases or suites that have failed.
        differs: whether any file of the folder differs from what the suites give.
        summary: one line for the end of the run.
    """

    def __init__(
        self,
        selection: Selection,
        arguments: tuple[str, ...],
        folder: str | None,
        *,
        check: bool,
        inline: bool,
        pipeline: str,
    ) -> None:
        list(find_suites(path for path in arguments if not os.path.isdir(path)))
        self.scope = Scope(selection, arguments, folder)
        self.is_partial = bool(selection.case_ids)
        self.folder = SnapshotFolder(self.scope.snapshots)
        self.check, self.inline, self.pipeline = check, inline, pipeline
        self.counts: Counter[State] = Counter()
        self.failures = 0
        self.differs = False
        self.summary = ""
        self._suites = {name: _Suite() for name in self.scope.names.values()}
        self._new: dict[Key, str] = {}  # the snapshots of cases that have none
        self._messages: dict[Key, tuple[Message, ...]] = {}  # of these cases
        self._privileges: dict[PrivilegeChange, list[Key]] = {}
        if not selection.suites and not any(map(self.folder.case_of, self._candidates())):
            list(find_suites(arguments))  # raises the error that says what is missing

    def run(self, outcomes: Iterable[Outcome]) -> Iterator[Said]:
        """Compare and write; yield differences, errors and remarks.

        Args:
            outcomes: of the selected cases.

        Raises:
            MultiturnError: a file of the folder cannot be read or written.
        """
        lists = Lists(self.folder, self._suites)
        for outcome in outcomes:
            name = self.scope.names[outcome.suite]
            if outcome.error is not None:
                self._suites[name].is_broken = True
                self._suites[name].wanted.add(kept_location(name, outcome.error))
                yield self._failed(outcome.error)
            elif outcome.conversion is not None:
                yield from self._compare(name, outcome.conversion, lists)
        foreign, stale = ([], {}) if self.is_partial else self._stale()
        changes = [*foreign, *self._settle(stale)]
        whole = [name for name, suite in self._suites.items() if not suite.is_broken]
        written = [] if self.is_partial else list(lists.changes(whole, self._is_removed))
        findings = list(self._findings(lists)) if self.check or self.is_partial else []
        self.differs |= bool(changes or written or findings)
        yield from (change for change in changes if self.check or change.state != "new")
        for change in written:
            if self.check:
                yield change
            elif change.state == "removed":
                self.folder.remove(os.path.basename(change.name))
            else:
                self.folder.write(os.path.basename(change.name), change.new)
        yield from findings
        for name, suite in self._suites.items():
            if suite.is_broken and not self.check and lists.has(name):
                files = "promoted.lock and files.lock keep"
                yield f"{files} what they have of {name} until all its cases can be converted"
        self.summary = self._summary(changes, written, findings, len(lists.with_changed_files()))

    def _failed(self, error: MultiturnError) -> MultiturnError:
        self.failures += 1
        return error

    def _compare(self, suite: str, conversion: Conversion, lists: Lists) -> Iterator[Said]:
        case, known = conversion.case, self._suites[suite]
        name = location_of(suite, case.id)
        named = {} if self.inline else texts_of_files(conversion)
        lists.add(suite, conversion, named)
        if name in known.wanted:
            what = f"its snapshot would replace another case's, {self.folder.shown(name)}"
            yield self._failed(MultiturnError(f"{what}; give it another id", where=case.where()))
            return
        known.wanted.add(name)
        old, new = self.folder.read(name), snapshot_text(conversion, named)
        if old == new:
            self.counts["same"] += 1
            return
        if self.folder.is_foreign(name):
            what = "this is not a snapshot; move it away"
            yield self._failed(MultiturnError(what, where=self.folder.shown(name)))
            return
        if not self.check:
            self.folder.write(name, new)
        if old is None:
            self._new[suite, case.id] = new
            self._messages[suite, case.id] = messages_of(conversion) if self.check else ()
            return
        self.counts["changed"] += 1
        if self.check:
            self.differs = True
            yield FileChange("changed", self.folder.shown(name), (suite, case.id), old, new)
            for change in privilege_changes(messages_in(old), messages_of(conversion)):
                self._privileges.setdefault(change, []).append((suite, case.id))

    def _stale(self) -> tuple[list[FileChange], dict[Key, str]]:
        """Return files that are not snapshots, and the snapshots of cases that are gone."""
        folders = set(map(folder_of, self._suites))
        wanted = set().union(*(suite.wanted for suite in self._suites.values()))
        foreign: list[FileChange] = []
        stale: dict[Key, str] = {}
        for name in dict.fromkeys(self._candidates()):
            if name in wanted:
                continue
            case = self.folder.case_of(name)
            if case is None:
                if os.path.dirname(name) in folders and not self.folder.is_foreign(name):
                    foreign.append(FileChange("foreign", self.folder.shown(name)))
                continue
            known = self._suites.get(case[0])
            if self._is_removed(case[0]) if known is None else None not in known.wanted:
                stale[case] = self.folder.read(name) or ""
        return foreign, stale

    def _settle(self, stale: Mapping[Key, str]) -> Iterator[FileChange]:
        """Remove stale snapshots; yield what is new, renamed and removed."""
        renamed = renames(stale, self._new) if stale and self._new else {}
        for key, new in self._new.items():
            name, was = self.folder.shown(location_of(*key)), renamed.get(key)
            if was is None:
                self.counts["new"] += 1
                yield FileChange("new", name, key, "", new)
                continue
            self.counts["renamed"] += 1
            old, old_name = stale[was], self.folder.shown(location_of(*was))
            yield FileChange("renamed", name, key, old, new, old_name)
            for change in privilege_changes(messages_in(old), self._messages[key]):
                self._privileges.setdefault(change, []).append(key)
        gone = set(renamed.values())
        for key, old in stale.items():
            if not self.check:
                self.folder.remove(location_of(*key))
            if key not in gone:
                self.counts["removed"] += 1
                yield FileChange("removed", self.folder.shown(location_of(*key)), key, old)

    def _findings(self, lists: Lists) -> Iterator[Finding]:
        """Yield changes of privilege, and then changed files."""
        privileges: dict[tuple[str, str], list[Key]] = {}  # by what it is, and the file's path
        texts: dict[tuple[str, str], list[Key]] = {}
        promoted: set[Key] = set()
        for what, place, cases in () if lists.is_new else lists.privileges():
            promoted.add(place)
            privileges.setdefault((what, place[1]), []).extend(cases)
        for change, cases in self._privileges.items():
            # A file that becomes a guideline is named by its pattern already.
            is_file = change.role == "system" and change.stage is None
            rest = [(s, i) for s, i in cases if not is_file or (s, change.path) not in promoted]
            privileges.setdefault((str(change), change.path), []).extend(rest)
        for what, path, cases in (
            *lists.texts(),
            *(lists.unlisted() if self.check and self.is_partial else ()),  # else the list differs
        ):
            texts.setdefault((what, path), []).extend(cases)
        for found in (privileges, texts):
            yield from (
                Finding(what, tuple(cases), found is privileges, path)
                for (what, path), cases in found.items()
                if cases
            )

    def _candidates(self) -> Iterator[str]:
        for suite in self._suites:
            yield from self.folder.snapshots(folder_of(suite))
        for _, prefix in self.scope.folders:
            yield from self.folder.snapshots(legal_path(prefix), below=True)

    def _is_removed(self, suite: str) -> bool:
        return self.scope.is_removed(suite, self.folder.beside)

    def _summary(
        self,
        changes: list[FileChange],
        lists: list[FileChange],
        findings: list[Finding],
        with_changed_files: int,
    ) -> str:
        number = self.counts.total()
        counts = (f"{self.counts[s]} {s}" for s in _COUNTED if self.counts[s] or s == "same")
        summary = f"{number_of(number, 'snapshot')}: {', '.join(counts)}"
        gone = {c.case[0] for c in changes if c.state == "removed" and c.case} - {*self._suites}
        if gone:
            summary += f"; {number_of(len(gone), 'suite')} removed: {', '.join(sorted(gone))}"
        if self.failures:
            summary += f"; {self.failures} failed"
        if not self.check:
            names = " and ".join(os.path.basename(change.name) for change in lists)
            summary += f"; {names} changed" if lists else ""
            return summary + f"; for {PROMOTED}, run it without --case" * bool(findings)
        if self.counts["changed"] == number > 0 and not self.is_partial:
            summary += f"; the pipeline is {self.pipeline}"
        if with_changed_files:
            prompts = number_of(with_changed_files, "prompt")
            summary += (
                f"; a file has another text in {prompts}: see multiturn report --against HEAD"
            )
        if (
            self.counts["changed"]
            or lists
            or findings
            or any(c.state != "foreign" for c in changes)
        ):
            first = "mend what has failed, " * bool(self.failures)
            whole = " and --case" * bool(self.is_partial and findings)
            summary += f"; if that is meant, {first}run it without --check{whole}, and commit"
        return summary
