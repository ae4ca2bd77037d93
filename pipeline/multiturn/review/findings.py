"""What a run of ``multiturn snapshot`` found: its changes, its findings and their summary."""

import os
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from multiturn.engine.spans import Message
from multiturn.errors import Place
from multiturn.files.media import Media
from multiturn.review.changes import FileChange, Finding, State
from multiturn.review.differences import Difference
from multiturn.review.lists import ChangedFile
from multiturn.review.locations import Key
from multiturn.review.lock_files import FILES, PROMOTED
from multiturn.review.privilege import PrivilegeChange, privilege_changes
from multiturn.review.promotion import PromotedChange
from multiturn.review.recorded import (
    inline_guidelines_in,
    messages_in,
    named_files_in,
    named_media_in,
)
from multiturn.text import number_of

_STATES: tuple[State, ...] = ("new", "changed", "renamed", "removed")


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
    files: Sequence[ChangedFile] = ()
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
        changed = [file.cases for file in self.files if file.is_listed]
        if changed:
            prompts = number_of(len(set().union(*changed)), "prompt")
            report = "see multiturn report --against HEAD, or the commit before the change"
            yield f"an attached file changed ({prompts}): {report}"
        if self.changes or self.findings:
            first = "fix the errors, " if self.failures else ""
            others = ", for all cases," if self.findings else ""
            how = others if self.is_partial else ", or with --review,"
            yield f"if intended, {first}run snapshot without --check{how} and commit the result"


def media_before(changes: Iterable[FileChange]) -> dict[str, Media | None]:
    """Return what the snapshots that have changed said of attached files; None of a text."""
    found: dict[str, Media | None] = {}
    for change in changes:
        if change.case and change.old:
            found |= dict.fromkeys(named_files_in(change.old)) | named_media_in(change.old)
    return found


def privileges_of(
    changes: Iterable[FileChange],
    messages: Mapping[Key, Sequence[Message]],
    listed: Container[str],
) -> dict[Key, list[PrivilegeChange]]:
    """Return the changes of privilege in each case whose snapshot has changed.

    Args:
        changes: the changed snapshots.
        messages: of the cases that have changed, as they are now.
        listed: the files that are new or changed on the list of promoted files.
    """
    found: dict[Key, list[PrivilegeChange]] = {}
    for change in changes:
        case = change.case
        if case is None or case not in messages or not change.old:
            continue
        for privilege in privilege_changes(messages_in(change.old), messages[case], listed):
            # An inline snapshot does not say whether a guideline was in a system message.
            if privilege.role or privilege.path not in inline_guidelines_in(change.new):
                found.setdefault(case, []).append(privilege)
    return found


def findings_of(
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
