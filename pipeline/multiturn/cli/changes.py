"""The differences that ``multiturn snapshot`` finds, as text."""

import os
from collections.abc import Iterator, Sequence
from typing import Literal

import click

from multiturn.cli.rendering import as_text_diff, colored_lines
from multiturn.review.changes import FileChange, name_cases
from multiturn.review.diff import unified_diff
from multiturn.review.differences import Difference
from multiturn.review.findings import Update
from multiturn.review.growth import growth_in_words
from multiturn.text import in_line, visible

_NAMED = 3  # files of a folder that are named where there are many


def as_lines(update: Update, show: Literal["once", "stat", "all"]) -> Iterator[str]:
    """Yield what was found as text; changes of privilege come first.

    Each difference is shown once, or each file has a line, or all its differences.
    """
    for finding in update.findings:
        yield privilege_heading() * finding.is_privilege + in_one_line(str(finding))
    changes = update.changes
    if not update.check:  # the summary counts what is new or changed
        changes = [each for each in changes if each.case and each.state in ("renamed", "removed")]
    if show == "once":
        yield from _files(changes, update)
        for difference in update.differences:
            if difference.kind not in ("new", "removed"):
                yield from as_diff(difference)
    for change in changes if show == "stat" else ():
        signs = [line[0] for line in unified_diff(*change.texts, "", "")][2:]
        yield f"{in_line(str(change))} +{signs.count('+')} -{signs.count('-')}"
    for change in changes if show == "all" else ():
        if change.state != "changed":
            yield in_line(str(change))
        if diff := diff_of(change):
            yield diff.removesuffix("\n")


def privilege_heading() -> str:
    """Return the words before a change of privilege."""
    return click.style("change of privilege: ", fg="red", bold=True)


def in_one_line(text: str) -> str:
    """Return words that may quote a text of a suite."""
    return visible(text).replace("\n", " ")


def _files(changes: Sequence[FileChange], update: Update) -> Iterator[str]:
    """Yield the first files of each folder and state.

    The lists of digests are named only: findings say in words what has changed there.
    """
    folders: dict[tuple[str, str], list[FileChange]] = {}
    for change in changes:
        if change.state != "changed" or change.case is None:
            folders.setdefault((change.state, os.path.dirname(change.name)), []).append(change)
    for (state, folder), those in folders.items():
        for change in those[:_NAMED]:
            is_compared = change.old and change.new  # then growth is said above the difference
            case = None if is_compared else change.case
            growth = None if case is None else update.growths.get(case)
            yield in_line(str(change)) + _in_parentheses(growth_in_words(growth, 1))
        if len(those) > _NAMED:
            yield in_line(f"{state}: {len(those) - _NAMED:,} more in {folder}")


def as_diff(difference: Difference) -> Iterator[str]:
    """Yield the cases of a difference, and its lines; nothing where no text differs."""
    if not difference.lines or not difference.is_compared:
        return
    if difference.path:
        old = new = name = difference.path
    else:
        old, new = _names(difference.changes[0])
        name = name_cases(difference.cases)
    yield f"{in_line(name)}{_in_parentheses(difference.growth_in_words)}:"
    names = in_line(f"--- {old} · recorded"), in_line(f"+++ {new} · now")
    yield from colored_lines((*names, *difference.lines))


def _in_parentheses(words: str) -> str:
    return f" ({words})" if words else ""


def diff_of(change: FileChange) -> str:
    """Return the unified diff of a file; empty if one side is all there is."""
    old, new = _names(change)
    names = f"{old} · recorded", f"{new} · now"
    return as_text_diff(*change.texts, *names) if change.old and change.new else ""


def _names(change: FileChange) -> tuple[str, str]:
    return change.old_name or change.name, change.name
