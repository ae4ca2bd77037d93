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
    """Yield what was found as text; changes of privilege come first, and errors are left out.

    Each difference is shown once, or each file has a line, or all its differences.
    """
    for each in found:
        if isinstance(each, Finding):
            text = visible(str(each)).replace("\n", " ")
            heading = click.style("change of privilege: ", fg="red", bold=True)
            yield heading * each.is_privilege + text
    changes = [each for each in found if isinstance(each, FileChange)]
    if show == "once":
        yield from _once(changes)
    for change in changes if show == "stat" else ():
        old, new = map(lines_of, change.texts)
        signs = [line[0] for line in unified_diff(old, new, "", "")][2:]
        yield f"{_line(change)} +{signs.count('+')} -{signs.count('-')}"
    for change in changes if show == "all" else ():
        if change.state != "changed":
            yield _line(change)
        if change.state in ("changed", "renamed"):
            yield diff_of(change).removesuffix("\n")
    yield from (visible(each) for each in found if isinstance(each, str))


def _once(changes: Sequence[FileChange]) -> Iterator[str]:
    """Yield the first files of each folder and state, then each difference once."""
    folders: dict[tuple[str, str], list[FileChange]] = {}
    for change in changes:
        if change.state != "changed" or change.case is None:
            folders.setdefault((change.state, os.path.dirname(change.name)), []).append(change)
    for (state, folder), those in folders.items():
        yield from map(_line, those[:_NAMED])
        if len(those) > _NAMED:
            yield visible(f"{state}: {len(those) - _NAMED:,} more in {folder}")
    changed = [each for each in changes if each.case and each.state in ("changed", "renamed")]
    for difference in distinct((number, *each.texts) for number, each in enumerate(changed)):
        places = [changed[number] for number in difference.places]
        yield visible(in_words([place.case for place in places if place.case])) + ":"
        old, new = _headings(places[0])
        yield colored((f"--- {old}", f"+++ {new}", *difference.lines)).removesuffix("\n")


def diff_of(change: FileChange) -> str:
    """Return the unified diff of a file; empty if one side is all there is."""
    return as_text_diff(*change.texts, *_headings(change)) if change.old and change.new else ""


def _headings(change: FileChange) -> tuple[str, str]:
    return f"{change.old_name or change.name} · recorded", f"{change.name} · now"


def _line(change: FileChange) -> str:
    if change.state == "foreign":
        return visible(f"no snapshot; remove it, or move it away: {change.name}")
    return visible(str(change))
