"""Annotations of GitHub Actions, for ``--format github``."""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TextIO, cast

from multiturn.cli.lines import Severity, message_without_place
from multiturn.errors import MultiturnError, Place
from multiturn.files.paths import root_of
from multiturn.logs import Notice
from multiturn.review.changes import FileChange, State, name_cases
from multiturn.review.differences import Difference
from multiturn.review.findings import Update
from multiturn.review.locations import Key
from multiturn.text import first_of, number_of, visible

_LONGEST = 2_000  # characters of a difference; the report has all
_MOST = 10  # errors of a step that GitHub shows
_PRIVILEGE = "change of privilege: "
_COMMAND = re.compile(r"((?:^|[\r\n])\s*):(?=:)")


def annotation(where: Place, message: str, *, title: str, severity: Severity) -> str:
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
    update: Update, errors: Iterable[MultiturnError], warnings: Iterable[Notice]
) -> Iterator[str]:
    """Yield annotations for what a check of snapshots has found, what matters most first.

    GitHub shows ten errors and ten warnings of a step: there is one for each difference, and
    after ten of them a warning that says how many more there are.
    """

    def at(where: Place, message: str, severity: Severity = "error") -> str:
        return annotation(where, message, title="multiturn snapshot --check", severity=severity)

    found = [
        *_of_findings(update),
        *((error.where, message_without_place(error)) for error in errors),
    ]
    found += _of_differences(update)
    found.sort(key=lambda each: not each[1].startswith(_PRIVILEGE))
    yield from (at(where, message) for where, message in found[:_MOST])
    if len(found) > _MOST:
        more = number_of(len(found) - _MOST, "more difference")
        yield at(Place(""), f"{more}; multiturn snapshot --check shows them", "warning")
    for notice in warnings:
        error = MultiturnError(notice.why, where=notice.where)
        yield at(notice.where, message_without_place(error), "warning")


def _of_findings(update: Update) -> Iterator[tuple[Place, str]]:
    """Yield what is found and is in no difference: with --case, files are only named."""
    files = {each.path for each in update.differences if each.kind == "file"}
    said = {what for each in update.differences for what in each.privileges}
    for finding in update.findings:
        if finding.what not in said and (finding.is_privilege or finding.path not in files):
            message = _PRIVILEGE * finding.is_privilege + str(finding)
            yield _place(finding.path, finding.cases[0], update.places), message


def _of_differences(update: Update) -> Iterator[tuple[Place, str]]:
    """Yield each difference; cases that are new or removed, and the lists, are only named."""
    named: dict[State, list[FileChange]] = {}
    for each in update.differences:
        if each.kind in ("new", "removed") and not each.privileges:
            named.setdefault(each.changes[0].state, []).extend(each.changes)
            continue
        place = Place(each.changes[0].name) if each.changes else Place("")
        if each.cases:
            place = _place(each.path, each.cases[0], update.places, each.line)
        yield place, _message(each)
    if not update.differences:
        for change in update.changes:
            named.setdefault(change.state, []).append(change)
    for changes in named.values():
        first = changes[0]
        where = update.places.get(first.case) if first.case else None
        yield where or Place(first.name), first_of(list(map(str, changes)), most=1)


def _message(difference: Difference) -> str:
    """Return a difference in words, with the start of its lines."""
    if difference.kind == "file":
        words = difference.what
    elif difference.kind == "renamed":
        words = first_of(list(map(str, difference.changes)), most=1)
    elif difference.cases:
        words = "the prompt is not as recorded"
    else:
        words = "what the target is sent is not as recorded"
    if difference.cases:
        details = [name_cases(difference.cases), difference.growth_in_words]
        words += f" ({', '.join(filter(None, details))})"
    lines = [f"{_PRIVILEGE}{each}" for each in difference.privileges if each != difference.what]
    first = _PRIVILEGE * (difference.what in difference.privileges) + words
    shown = _shortened(difference.lines) if difference.is_compared else ""
    return "\n".join(filter(None, [*lines, f"{first}:" if shown else first, shown]))


def _place(path: str, case: Key, places: Mapping[Key, Place], line: int = 0) -> Place:
    """Return the place of an attached file, or of a line of it, or else of a case."""
    suite = os.path.realpath(places[case].file)
    root = suite.removesuffix(case[0])
    if not path or root == suite:
        return places[case]
    return Place(os.path.relpath(root + path), line)


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
