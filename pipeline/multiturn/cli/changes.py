"""The differences that ``multiturn snapshot`` finds, as text."""

import os
from collections.abc import Iterator, Sequence
from typing import Literal

import click

from multiturn.cli.drawing import as_text_diff, colored
from multiturn.review.changes import FileChange, Finding, in_words
from multiturn.review.diff import unified_diff
from multiturn.review.differences import distinct, lines_of
from multiturn.review.update import Said
from multiturn.text import visible

_NAMED = 3  # files of a folder that are named where there are many


def as_lines(found: Sequence[Said], show: Literal["once", "stat", "all"]) -> Iterator[str]:
    """Yield what was found as text; changes of privilege come first.

    Args:
        found: by ``Update.run``; errors are left out.
        show: each difference once, a line for each file, or the differences of each file.
    """
    for each in found:
        if isinstance(each, Finding):
            text = visible(str(each)).replace("\n", " ")
            heading = click.style("change of privilege: ", fg="red", bold=True)
            yield heading * each.is_privilege + text
    changes = [each for each in found if isinstance(each, FileChange)]
    rest: dict[tuple[str, str], int] = {}
    for change in changes:
        if show == "stat":
            yield _line(change) + _counts(change)
        elif show == "all" and change.state in ("changed", "renamed"):
            yield from [_line(change)] if change.state == "renamed" else []
            yield diff_of(change).removesuffix("\n")
        elif change.state != "changed" or change.case is None:
            key = change.state, os.path.dirname(change.name)
            rest[key] = rest.get(key, 0) + 1
            if show == "all" or rest[key] <= _NAMED:
                yield _line(change)
    if show == "once":
        for (state, folder), number in rest.items():
            if number > _NAMED:
                yield visible(f"{state}: {number - _NAMED:,} more in {folder}")
        yield from _differences([change for change in changes if change.case is not None])
    yield from (visible(each) for each in found if isinstance(each, str))


def diff_of(change: FileChange) -> str:
    """Return the unified diff of a file; empty if one side is all there is."""
    return as_text_diff(*change.texts, *_headings(change)) if change.old and change.new else ""


def _line(change: FileChange) -> str:
    if change.state == "foreign":
        return visible(f"no snapshot; remove it, or move it away: {change.name}")
    return visible(str(change))


def _counts(change: FileChange) -> str:
    old, new = map(lines_of, change.texts)
    signs = [line[0] for line in unified_diff(old, new, "", "")][2:]
    return f" +{signs.count('+')} -{signs.count('-')}"


def _differences(changes: Sequence[FileChange]) -> Iterator[str]:
    """Yield each difference of snapshots once, as the first of them has it."""
    changed = (
        (number, *change.texts)
        for number, change in enumerate(changes)
        if change.state in ("changed", "renamed")
    )
    for difference in distinct(changed):
        places = [changes[number] for number in difference.places]
        yield visible(in_words([place.case for place in places if place.case])) + ":"
        headings = (
            f"{sign * 3} {name}" for sign, name in zip("-+", _headings(places[0]), strict=True)
        )
        yield colored((*headings, *difference.lines)).removesuffix("\n")


def _headings(change: FileChange) -> tuple[str, str]:
    return f"{change.old_name or change.name} · recorded", f"{change.name} · now"
