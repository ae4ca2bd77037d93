"""Annotations of GitHub Actions, for ``--format github``."""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TextIO, cast

from multiturn.cli.lines import Severity, message_of
from multiturn.errors import MultiturnError, Place
from multiturn.logs import Notice
from multiturn.paths import root_of
from multiturn.review.changes import FileChange, Finding, State, name_cases
from multiturn.review.diff import distinct
from multiturn.review.findings import Update
from multiturn.review.locations import Key
from multiturn.review.target import is_lock
from multiturn.text import first_of, visible

_LONGEST = 2_000  # characters of a difference; the report has all
_COMMAND = re.compile(r"((?:^|[\r\n])\s*):(?=:)")


def annotation(where: Place, message: str, *, title: str, severity: Severity = "error") -> str:
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
        f"{name}={_property(str(value))}" for name, value in properties.items() if value
    )
    command = "notice" if severity == "note" else severity
    return f"::{command} {written}::{without_commands(_escaped(visible(message)))}"


def without_commands(text: str) -> str:
    r"""Return lines that a runner of GitHub Actions does not take for commands.

    It looks for ``::name`` after blanks at a line's start, and for ``##[name]`` anywhere:
    https://github.com/actions/runner/blob/main/src/Runner.Common/ActionCommand.cs

    >>> print(without_commands("a ##[stop-commands]t\n    ::stop-commands::t"))
    a #\x23[stop-commands]t
        \x3a:stop-commands::t
    """
    return _COMMAND.sub(r"\1\\x3a", text).replace("##[", r"#\x23[")


class WithoutCommands:
    """A text stream to which no line that is written is a command to a runner."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text."""
        return self._stream.write(without_commands(text))

    def __getattr__(self, name: str) -> Any:
        """Return what else the stream has, but not the bytes below it."""
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self._stream, name)


def protect_runner() -> None:
    """Let no text on standard error be a command to a runner, from now on."""
    sys.stderr = cast("TextIO", WithoutCommands(sys.stderr))


def snapshot_annotations(
    update: Update, errors: Iterable[MultiturnError], warnings: Iterable[Notice] = ()
) -> Iterator[str]:
    """Yield an annotation for each distinct thing that a check of snapshots has found."""

    def at(where: Place, message: str, severity: Severity = "error") -> str:
        return annotation(where, message, title="multiturn snapshot --check", severity=severity)

    for notice in warnings:
        error = MultiturnError(notice.why, where=notice.where)
        yield at(notice.where, message_of(error), "warning")
    for finding in update.findings:
        message = "change of privilege: " * finding.is_privilege + str(finding)
        yield at(_place(finding, update.places), message)
    for error in errors:
        yield at(error.where, message_of(error))
    changed = [each for each in update.changes if each.case and each.old and each.new]
    for diff, cases in distinct((each.case, *each.texts) for each in changed if each.case):
        message = f"the prompt is not as recorded ({name_cases(cases)}):\n{_shortened(diff)}"
        yield at(update.places[cases[0]], message)
    locks = [each for each in update.changes if is_lock(each) and each.state == "changed"]
    for diff, names in distinct((each.name, *each.texts) for each in locks):
        message = f"what the target is sent is not as recorded:\n{_shortened(diff)}"
        yield at(Place(names[0]), message)
    others: dict[State, list[FileChange]] = {}
    for change in update.changes:
        if change.state != "changed" or (change.case is None and change not in locks):
            others.setdefault(change.state, []).append(change)
    for changes in others.values():
        first = changes[0]
        where = update.places.get(first.case) if first.case else None
        yield at(where or Place(first.name), first_of(list(map(str, changes)), most=1))


def _place(found: Finding, places: Mapping[Key, Place]) -> Place:
    """Return the place of the file that a finding is about, or else of its first case."""
    first = found.cases[0]
    suite = os.path.realpath(places[first].file)
    root = suite.removesuffix(first[0])
    if not found.path or root == suite:
        return places[first]
    return Place(os.path.relpath(root + found.path))


def _shortened(diff: Iterable[str]) -> str:
    lines = "\n".join(diff)
    return f"{lines[:_LONGEST]}…" if len(lines) > _LONGEST else lines


def _property(text: str) -> str:
    escaped = without_commands(_escaped(visible(text)))
    return escaped.replace(":", "%3A").replace(",", "%2C")


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\n", "%0A")  # no other line end is left


def _from_top(path: str) -> str:
    """Return a path from the top of its repository; as it is, if it is in none."""
    real = os.path.realpath(path)
    top = root_of(real)
    return os.path.relpath(real, top) if os.path.exists(os.path.join(top, ".git")) else path
