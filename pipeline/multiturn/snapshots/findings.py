"""What a run of ``multiturn snapshot`` found: its changes, its findings and their summary."""

import os
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from multiturn.engine.spans import Message
from multiturn.errors import Place
from multiturn.snapshots.attached import Attached
from multiturn.snapshots.changes import FileChange, State, name_cases
from multiturn.snapshots.differences import Difference, Differences, Facts
from multiturn.snapshots.growth import prompt_growth
from multiturn.snapshots.lists import Before, ChangedFile, Lists, RecordedLists
from multiturn.snapshots.locations import Key
from multiturn.snapshots.lock_files import FILES, PROMOTED
from multiturn.snapshots.plain_text import plain_text
from multiturn.snapshots.privilege import PrivilegeChange, privilege_changes
from multiturn.snapshots.promotion import PromotedChange
from multiturn.snapshots.recorded import files_before, inline_guidelines_in, messages_in
from multiturn.snapshots.target_lock import is_lock
from multiturn.text import number_of

_STATES: tuple[State, ...] = ("new", "changed", "renamed", "removed")


class Compared(Struct):
    """How the cases of a run compare with their recorded snapshots."""

    places: dict[Key, Place] = {}  # of the cases in their suites
    changes: list[FileChange] = []
    messages: dict[Key | None, tuple[Message, ...]] = {}  # of the cases whose snapshots differ
    files: dict[Key, Mapping[str, Attached]] = {}  # that they attach
    same: int = 0  # cases whose snapshot is as recorded
    failures: int = 0
    expected: set[str] = set()  # the snapshots that there should be
    broken: set[str] = set()  # suites with a case that could not be converted

    def privileges(self, change: FileChange, listed: Container[str]) -> list[PrivilegeChange]:
        """Return the changes of privilege in a changed case.

        ``listed`` are the files that are new or changed on the list of promoted files.
        """
        if change.case not in self.messages or not change.old:
            return []
        now = self.messages[change.case]
        return [
            privilege
            for privilege in privilege_changes(messages_in(change.old), now, listed)
            # An inline snapshot does not say whether a guideline was in a system message.
            if privilege.role or privilege.path not in inline_guidelines_in(change.new)
        ]

    def growth(self, change: FileChange) -> float | None:
        """Return by how much the prompt of a changed, new or removed case grows."""
        assert change.case is not None  # noqa: S101 - it is not of a list
        before, now = messages_in(change.old), self.messages.get(change.case, ())
        if change.old and not before:  # somebody has edited it
            return None
        # Where a snapshot has a guideline in full, its path stands beside it, and adds nothing.
        inline = dict.fromkeys(inline_guidelines_in(change.old), "")
        return prompt_growth(before, now, {}, {**self.files.get(change.case, {}), **inline})


class Finding(Struct, frozen=True):
    """A change of privilege, or of an attached file, in some cases."""

    what: str  # the change, in words
    cases: Sequence[Key]  # that have it
    is_privilege: bool
    path: str = ""  # of the file that it is about, from the root; empty for none

    def __str__(self) -> str:
        """Return it with the cases that have it, in words."""
        return f"{self.what} ({name_cases(self.cases)})"


class Update(Struct, frozen=True, kw_only=True):
    """What a run found and, unless it was a check, wrote."""

    check: bool
    is_partial: bool  # only some cases of the suites were selected
    pipeline: str  # its name
    suites: frozenset[str]  # that there are
    changes: Sequence[FileChange]
    places: Mapping[Key, Place]  # of the cases in their suites
    other_suites: int  # beside the selected ones, that have a file whose entry is new or changed
    same: int  # cases whose snapshot is as recorded
    failures: int
    # What is to be said of the changes; empty for a run that writes all of them.
    findings: Sequence[Finding] = ()  # changes of privilege, and then changed files
    differences: Sequence[Difference] = ()  # what a reviewer decides on
    growths: Mapping[Key, float | None] = {}  # of the prompts whose snapshots differ

    @property
    def summary(self) -> str:
        """One line for the end of the run."""
        counts = Counter(change.state for change in self.changes if change.case)
        number = counts.total() + self.same
        states = (f"{counts[state]:,} {state}" for state in _STATES if counts[state])
        clauses = [
            f"{number_of(number, 'snapshot')}: {', '.join([*states, f'{self.same:,} same'])}"
        ]
        removed = {each.case[0] for each in self.changes if each.case and not each.new}
        if gone := sorted(removed - self.suites):
            clauses.append(f"{number_of(len(gone), 'suite')} removed: {', '.join(gone)}")
        if self.failures:
            clauses.append(f"{self.failures:,} failed")
        clauses += self._of_check(counts["changed"] == number > 0) if self.check else self._of_run()
        return "; ".join(clauses)

    def _of_run(self) -> Iterator[str]:
        """Yield the clauses about the lists, after a run that writes."""
        names = [os.path.basename(each.name) for each in self.changes if each.case is None]
        if names:
            *first, last = names
            others = f", also for {number_of(self.other_suites, 'other suite')}"
            changed = " and ".join(filter(None, (", ".join(first), last)))
            yield f"{changed} changed{others if self.other_suites else ''}"
        outdated = {PROMOTED if each.is_privilege else FILES for each in self.findings}
        if outdated:
            yield f"to update {' and '.join(sorted(outdated, reverse=True))}, run it for all cases"

    def _of_check(self, have_all_changed: bool) -> Iterator[str]:
        """Yield the clauses that say what a difference may come from, and what to do."""
        if self.differences and not self.is_partial:  # with --case, nothing is accepted
            yield f"{number_of(len(self.differences), 'difference')} to decide on"
        if have_all_changed and not self.is_partial:
            yield f"the pipeline is {self.pipeline}"
        if self.changes or self.findings:
            first = "fix the errors, " if self.failures else ""
            others = ", for all cases," if self.findings else ""
            how = others if self.is_partial else ", or with --review,"
            yield f"if intended, {first}run snapshot without --check{how} and commit the result"


def judged(update: Update, lists: Lists, recorded: RecordedLists, compared: Compared) -> Update:
    """Return an update with what is to be said of its changes, and, for a check, decided."""
    promoted, found = lists.privileges(recorded), Differences()
    listed = {change.path for change in promoted}
    new_files = _new_files(promoted)
    media: Before = {}
    privileges: dict[Key, list[PrivilegeChange]] = {}
    growths: dict[Key, float | None] = {}
    for change in update.changes:
        facts = Facts()
        if case := change.case:
            # All that is asked of a snapshot is asked here, so that it is read once.
            media |= files_before(change.old)
            privileges[case] = compared.privileges(change, listed)
            growths[case] = compared.growth(change) if update.check else None
            words = [*map(str, privileges[case]), *new_files.get(case, ())]
            facts = Facts(words, growth=growths[case])
        if update.check and (case or is_lock(change)):
            found.add(change, facts, *map(plain_text, change.texts))
    files = lists.changed_files(recorded, media)
    findings = _findings(promoted, privileges, files, is_partial=update.is_partial)
    update = replace(update, findings=list(findings), growths=growths)
    if not update.check:
        return update
    new = {each.case for each in update.changes if each.case and each.state == "new"}
    texts = () if update.is_partial else lists.changed_texts(recorded, promoted, new, media)
    return replace(update, differences=found.found(texts))


def _new_files(promoted: Mapping[PromotedChange, Iterable[Key]]) -> dict[Key, list[str]]:
    """Return the files that are new in the system message of each case, in words."""
    found: dict[Key, list[str]] = {}
    for change, cases in promoted.items():
        for case in cases if change.is_new else ():
            found.setdefault(case, []).append(change.what)
    return found


def _findings(
    promoted: Mapping[PromotedChange, Sequence[Key]],
    privileges: Mapping[Key, Iterable[PrivilegeChange]],
    files: Iterable[ChangedFile],
    *,
    is_partial: bool,
) -> Iterator[Finding]:
    """Yield the changes of privilege, and then the changed files.

    Args:
        promoted: the files that are new or changed in system messages, with their cases.
        privileges: the other changes of privilege in each case.
        files: those that snapshots name, and whose text is not the recorded one.
        is_partial: only some cases are selected.
    """
    found: dict[tuple[str, str, bool], list[Key]] = {}  # the cases, by the rest of a Finding
    listed = {change.path: cases for change, cases in promoted.items()}
    for change, cases in promoted.items():
        found.setdefault((change.what, change.path, True), []).extend(cases)
    for case, each in privileges.items():
        for privilege in each:
            found.setdefault((str(privilege), privilege.path, True), []).append(case)
    for path, is_listed, attaching, what in files:
        # Without --case, the change of the list says which files are new.
        others = [case for case in attaching if case not in listed.get(path, ())]
        if others and (is_listed or is_partial):
            found.setdefault((what, path, False), []).extend(others)
    for (words, path, is_privilege), cases in found.items():
        yield Finding(words, cases, is_privilege, path)
