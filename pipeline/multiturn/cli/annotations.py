"""Annotations of GitHub Actions, for ``--format github``."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from multiturn.cli.lines import message_of
from multiturn.errors import MultiturnError, Place
from multiturn.files import find_root
from multiturn.review.changes import FileChange, Finding, Key, State, in_words
from multiturn.review.differences import distinct
from multiturn.review.update import Said
from multiturn.text import visible

_LONGEST = 2_000  # characters of a difference; the report has all


def annotation(
    where: Place, message: str, *, title: str, severity: Literal["error", "warning"] = "error"
) -> str:
    """Return the workflow command of an annotation.

    The file is named from the top of its repository. Escapes are those of the toolkit:
    https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts
    """
    properties = {
        "title": title,
        "file": where.file and _from_top(where.file),
        "line": where.line,
        "col": where.column,
    }
    written = ",".join(
        f"{name}={_escaped(visible(str(value))).replace(':', '%3A').replace(',', '%2C')}"
        for name, value in properties.items()
        if value
    )
    return f"::{severity} {written}::{_escaped(visible(message))}"


def snapshot_annotations(found: Sequence[Said], places: Mapping[Key, Place]) -> Iterator[str]:
    """Yield an annotation for each distinct thing that a check of snapshots has found."""

    def at(where: Place, message: str) -> str:
        return annotation(where, message, title="multiturn snapshot --check")

    for each in found:
        if isinstance(each, Finding):
            yield at(_place(each, places), "change of privilege: " * each.is_privilege + str(each))
        elif isinstance(each, MultiturnError):
            yield at(each.where, message_of(each))
    changes = [each for each in found if isinstance(each, FileChange)]
    changed = [each for each in changes if each.case and each.state in ("changed", "renamed")]
    for difference in distinct((change.case, *change.texts) for change in changed):
        cases = [case for case in difference.places if case]
        lines = "\n".join(difference.lines)
        lines = f"{lines[:_LONGEST]}…" if len(lines) > _LONGEST else lines
        yield at(places[cases[0]], f"another prompt than recorded, {in_words(cases)}:\n{lines}")
    others: dict[State, list[FileChange]] = {}
    for change in changes:
        if change.case is None or change.state != "changed":
            others.setdefault(change.state, []).append(change)
    for those in others.values():
        first = those[0]
        more = f" and {len(those) - 1:,} more" if len(those) > 1 else ""
        where = places.get(first.case) if first.case else None
        yield at(where or Place(first.name), f"{first}{more}")


def _place(found: Finding, places: Mapping[Key, Place]) -> Place:
    """Return the place of the file that a finding is about, or else of its first case."""
    first = found.cases[0]
    suite = os.path.realpath(places[first].file)
    root = suite.removesuffix(first[0])
    if not found.path or root == suite:
        return places[first]
    return Place(os.path.relpath(root + found.path))


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\n", "%0A")  # no other line end is left


def _from_top(path: str) -> str:
    """Return a path from the top of its repository; as it is, if it is in none."""
    real = os.path.realpath(path)
    top = find_root(Path(os.path.dirname(real)))
    return os.path.relpath(real, top) if os.path.exists(top / ".git") else path
