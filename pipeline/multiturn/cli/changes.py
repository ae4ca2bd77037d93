"""The differences that ``multiturn snapshot`` finds, as text."""

import os
from collections.abc import Iterator, Sequence
from typing import Literal

import click

from multiturn.cli.drawing import as_text_diff, colored
from multiturn.review.changes import FileChange, name_cases
from multiturn.review.diff import distinct, unified_diff
from multiturn.review.findings import Update
from multiturn.review.target import is_lock
from multiturn.text import in_line, visible

_NAMED = 3  # files of a folder that are named where there are many


def as_lines(update: Update, show: Literal["once", "stat", "all"]) -> Iterator[str]:
    """Yield what was found as text; changes of privilege come first.

    Each difference is shown once, or each file has a line, or all its differences.
    """
    for finding in update.findings:
        text = visible(str(finding)).replace("\n", " ")
        heading = click.style("change of privilege: ", fg="red", bold=True)
        yield heading * finding.is_privilege + text
    changes = update.changes
    if not update.check:  # the summary counts what is new or changed
        changes = [each for each in changes if each.case and each.state in ("renamed", "removed")]
    if show == "once":
        yield from _once(changes)
    for change in changes if show == "stat" else ():
        signs = [line[0] for line in unified_diff(*change.texts, "", "")][2:]
        yield f"{in_line(str(change))} +{signs.count('+')} -{signs.count('-')}"
    for change in changes if show == "all" else ():
        if change.state != "changed":
            yield in_line(str(change))
        if diff := diff_of(change):
            yield diff.removesuffix("\n")


def _once(changes: Sequence[FileChange]) -> Iterator[str]:
    """Yield the first files of each folder and state, then each difference once.

    The lists of digests have none: findings say in words what has changed there.
    """
    folders: dict[tuple[str, str], list[FileChange]] = {}
    for change in changes:
        if change.state != "changed" or change.case is None:
            folders.setdefault((change.state, os.path.dirname(change.name)), []).append(change)
    for (state, folder), those in folders.items():
        yield from (in_line(str(change)) for change in those[:_NAMED])
        if len(those) > _NAMED:
            yield in_line(f"{state}: {len(those) - _NAMED:,} more in {folder}")
    for change in filter(is_lock, changes):
        if diff := diff_of(change):
            yield diff.removesuffix("\n")
    changed = {each.case: each for each in changes if each.case and each.old and each.new}
    for lines, cases in distinct((case, *each.texts) for case, each in changed.items()):
        yield in_line(name_cases(cases)) + ":"
        old, new = _headings(changed[cases[0]])
        yield colored((f"--- {old}", f"+++ {new}", *lines)).removesuffix("\n")


def diff_of(change: FileChange) -> str:
    """Return the unified diff of a file; empty if one side is all there is."""
    return as_text_diff(*change.texts, *_headings(change)) if change.old and change.new else ""


def _headings(change: FileChange) -> tuple[str, str]:
    return f"{change.old_name or change.name} · recorded", f"{change.name} · now"
