"""What ``snapshot`` prints: text, a line of JSON for each thing, or annotations; what it asks."""

import os
import re
import shutil
import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import nullcontext
from operator import attrgetter
from typing import Literal

import click
from toolz import groupby

from multiturn.cli.annotations import annotation, no_commands, protect_runner
from multiturn.cli.lines import Severity, SnapshotCase, SnapshotLine, message_without_place
from multiturn.cli.options import SuiteOptions
from multiturn.cli.printing import Failures, echo, say_summary
from multiturn.cli.rendering import as_text_diff, colored_lines
from multiturn.documents.output import standard_output
from multiturn.engine.converting import ConvertedCase
from multiturn.errors import MultiturnError, Place, cut
from multiturn.explaining.record import to_json
from multiturn.logs import Notice, warnings_to
from multiturn.snapshots.changes import Change, FileChange, State, growth_in_words, name_cases
from multiturn.snapshots.folder import SnapshotFolder
from multiturn.snapshots.lists import conflicts_in
from multiturn.snapshots.locations import Key
from multiturn.snapshots.snapshot_run import SnapshotRun, SnapshotUpdate
from multiturn.snapshots.text_diff import unified_diff
from multiturn.text import first_of, in_line, number_of, visible

Show = Literal["once", "stat", "all"]

_NAMED = 3  # files of a folder that are named where there are many
_LONGEST = 2_000  # characters of a difference in an annotation; the report has all
_MOST = 10  # errors of a step that GitHub shows
_PRIVILEGE = "change of privilege: "
_HEADING = click.style(_PRIVILEGE, fg="red", bold=True)
_ANSWERS = {"a": "[a]ccept", "s": "[s]kip", "A": "[A]ll like this", "b": "[b]ack", "q": "[q]uit"}
_NOT_ALL = "a change of privilege is never part of all"
_LINES_BELOW = 3  # the question, and a blank line on both sides


def print_update(
    run: SnapshotRun, converted: Iterable[ConvertedCase], options: SuiteOptions, show: Show
) -> None:
    """Check the snapshots, or write them, and print what has changed; a difference exits with 1."""
    failures, format_ = options.failures, options.format_
    warnings: list[Notice] = []
    is_github, is_strict = format_ == "github", run.selection.strict
    if is_github:
        protect_runner()
    with (
        nullcontext() if format_ == "json" else no_commands(),
        warnings_to(warnings.append) if is_github and not is_strict else nullcontext(),
    ):
        if run.resolve:
            for file in conflicts_in(SnapshotFolder(run.scope.snapshots)):
                sides = (f"{file.name} · {side}" for side in ("ours", "theirs"))
                echo(as_text_diff(*file.texts, *sides), nl=False)
        update = SnapshotUpdate(run, converted, failures.add)
        if is_strict and not run.check:
            failures.finish()
        if format_ == "text":
            for text in text_lines(update, show):
                echo(text)
            say_summary(update.summary)
    if format_ == "json":
        for line in snapshot_lines(update):
            echo(to_json(line), nl=False)
    elif is_github:
        for text in snapshot_annotations(update, warnings):
            echo(text)
    if run.check and (update.files or update.findings):
        sys.exit(1)


def text_lines(update: SnapshotUpdate, show: Show) -> Iterator[str]:
    """Yield what was found as text; changes of privilege come first."""
    for finding in update.findings:
        yield _HEADING * bool(finding.privileges) + _in_one_line(str(finding))
    files = update.files
    if not update.run.check:  # the summary counts what is new or changed
        files = [each for each in files if each.case and each.state in ("renamed", "removed")]
    if show == "once":
        yield from _first_files(files)
        for change in update.changes:
            if change.kind not in ("new", "removed"):
                yield from _as_diff(change)
    for file in files if show == "stat" else ():
        signs = [line[0] for line in unified_diff(*file.texts, "", "")][2:]
        yield f"{in_line(str(file))} +{signs.count('+')} -{signs.count('-')}"
    for file in files if show == "all" else ():
        if file.state != "changed":
            yield in_line(str(file))
        if diff := _file_diff(file):
            yield diff.removesuffix("\n")


def _in_one_line(text: str) -> str:
    """Return words that may quote a text of a suite."""
    return visible(text).replace("\n", " ")


def _first_files(files: Iterable[FileChange]) -> Iterator[str]:
    """Yield the first files of each folder and state; of lists of digests, only the names."""
    listed = (file for file in files if file.state != "changed" or file.case is None)
    folders = groupby(lambda file: (file.state, os.path.dirname(file.name)), listed)
    for (state, folder), those in folders.items():
        for file in those[:_NAMED]:
            is_compared = file.old and file.new  # then growth is said above the difference
            growth = None if is_compared else file.growth
            yield in_line(str(file)) + _in_parentheses(growth_in_words(growth, 1))
        if len(those) > _NAMED:
            yield in_line(f"{state}: {len(those) - _NAMED:,} more in {folder}")


def _as_diff(change: Change) -> Iterator[str]:
    """Yield the cases of a change, and its lines; nothing where no text differs."""
    if not change.lines or not change.is_compared:
        return
    if change.path:
        old = new = name = change.path
    else:
        old, new = change.files[0].names
        name = name_cases(change.cases) or new
    yield f"{in_line(name)}{_in_parentheses(change.growth_in_words)}:"
    names = in_line(f"--- {old} · recorded"), in_line(f"+++ {new} · now")
    yield from colored_lines((*names, *change.lines))


def _in_parentheses(words: str) -> str:
    return f" ({words})" if words else ""


def _file_diff(file: FileChange) -> str:
    """Return the unified diff of a file; empty if one side is all there is."""
    old, new = file.names
    names = f"{old} · recorded", f"{new} · now"
    return as_text_diff(*file.texts, *names) if file.old and file.new else ""


def snapshot_lines(update: SnapshotUpdate) -> Iterator[SnapshotLine]:
    """Yield the lines of what a check of snapshots has found, with the errors of cases."""
    # With --case, nothing is accepted.
    changes = () if update.run.selection.is_partial else update.changes
    of_files = {each.path: each for each in changes if each.kind == "file"}
    lines = [_line(each, key=each.key) for each in of_files.values()]
    for finding in update.findings:
        # The line of a file says what has changed in it, and whether that is a change of privilege.
        of_file = of_files.get(finding.path)
        if of_file is None or not {*finding.privileges} <= {*of_file.privileges}:
            lines += _finding_lines(finding, changes)
    yield from sorted(lines, key=lambda line: line.kind != "privilege")
    for error in update.errors:
        yield SnapshotLine(kind="failed", file=error.where.file or None, what=str(error))
    keys = {file.name: each.key for each in changes for file in each.files}
    for file in update.files:
        yield SnapshotLine(
            kind=file.state,
            key=keys.get(file.name),
            file=file.name,
            was_file=file.old_name or None,
            cases=(SnapshotCase(*file.case),) if file.case else (),
            diff=click.unstyle(_file_diff(file)) or None,
            growth=_tokens(file.growth),
        )


def _finding_lines(finding: Change, changes: Iterable[Change]) -> Iterator[SnapshotLine]:
    """Yield a line for each change that has what a finding is about."""
    left = set(finding.cases)
    for each in changes:
        cases = left.intersection(each.cases)
        if finding.what in each.privileges and (cases or not finding.cases):  # of the target
            left -= cases
            yield _line(finding, key=each.key, cases=cases)
    if left:
        yield _line(finding, key=None, cases=left)


def _line(change: Change, *, key: str | None, cases: Container[Key] | None = None) -> SnapshotLine:
    """Return the line of a change of privilege or of a file, for all of its cases or some."""
    return SnapshotLine(
        kind="privilege" if change.privileges else "text",
        key=key,
        file=change.path or None,
        cases=tuple(SnapshotCase(*case) for case in change.cases if cases is None or case in cases),
        what=change.what,
        diff="\n".join(change.lines) if change.key and change.is_compared else None,
        growth=_tokens(change.growth),
    )


def _tokens(growth: float | None) -> int | None:
    return None if growth is None else round(growth)


def snapshot_annotations(update: SnapshotUpdate, warnings: Iterable[Notice]) -> Iterator[str]:
    """Yield annotations for what a check of snapshots has found, what matters most first.

    There is one for each change, and after ten a warning that says how many more there are.
    """

    def at(where: Place, message: str, severity: Severity = "error") -> str:
        return annotation(where, message, title="multiturn snapshot --check", severity=severity)

    found = [*_of_findings(update), *_of_errors(update.errors), *_of_changes(update)]
    found.sort(key=lambda each: not each[1].startswith(_PRIVILEGE))
    yield from (at(where, message) for where, message in found[:_MOST])
    if len(found) > _MOST:
        more = number_of(len(found) - _MOST, "more difference")
        yield at(Place(""), f"{more}; multiturn snapshot --check shows them", "warning")
    for notice in warnings:
        error = MultiturnError(notice.why, where=notice.where)
        yield at(notice.where, message_without_place(error), "warning")


def _of_errors(errors: Iterable[MultiturnError]) -> Iterator[tuple[Place, str]]:
    """Yield the first of the errors with the same words, and how many others there are."""
    for error, *others in groupby(attrgetter("what"), errors).values():
        more = f" (and {len(others):,} more with the same words)" * bool(others)
        yield error.where, message_without_place(error) + more


def _of_findings(update: SnapshotUpdate) -> Iterator[tuple[Place, str]]:
    """Yield what is found and is in no change: with --case, files are only named."""
    files = {each.path for each in update.changes if each.kind == "file"}
    named = {what for each in update.changes for what in each.privileges}
    for finding in update.findings:
        if finding.what not in named and (finding.privileges or finding.path not in files):
            message = _PRIVILEGE * bool(finding.privileges) + str(finding)
            yield update.place_of(finding), message


def _of_changes(update: SnapshotUpdate) -> Iterator[tuple[Place, str]]:
    """Yield each change; cases that are new or removed, and the lists, are only named."""
    named: dict[State, tuple[Place, list[str]]] = {}
    for each in update.changes:
        if each.kind not in ("new", "removed") or each.privileges:
            yield update.place_of(each), _message(each)
            continue
        for file in each.files:
            named.setdefault(file.state, (update.place_of(each), []))[1].append(str(file))
    for file in () if update.changes else update.files:
        named.setdefault(file.state, (Place(file.name), []))[1].append(str(file))
    for place, names in named.values():
        yield place, first_of(names, most=1)


def _message(change: Change) -> str:
    """Return a change in words, with the start of its lines."""
    if change.kind == "file":
        words = change.what
    elif change.kind == "renamed":
        words = first_of(list(map(str, change.files)), most=1)
    elif change.cases:
        words = "the prompt is not as recorded"
    else:
        words = "what the target is sent is not as recorded"
    if change.cases:
        details = [name_cases(change.cases), change.growth_in_words]
        words += f" ({', '.join(filter(None, details))})"
    lines = [f"{_PRIVILEGE}{each}" for each in change.privileges if each != change.what]
    first = _PRIVILEGE * (change.what in change.privileges) + words
    shown = cut("\n".join(change.lines), _LONGEST) if change.is_compared else ""
    return "\n".join(filter(None, [*lines, f"{first}:" if shown else first, shown]))


def refuse_no_terminal() -> None:
    """Raise the error of ``--review`` where nobody can answer."""
    if not (sys.stdin.isatty() and standard_output().isatty()):
        what = "--review needs a terminal, and this is not one: --check --format json gives each"
        raise click.UsageError(f"{what} difference a key, and --accept KEY takes it")


def accept_changes(
    run: SnapshotRun, converted: Iterable[ConvertedCase], failures: Failures, keys: Sequence[str]
) -> None:
    """Accept the changes that have these keys, or without keys those that somebody accepts."""
    with no_commands():
        acceptance = SnapshotUpdate(run, converted, failures.add)
        if run.selection.strict:
            failures.finish()
        if keys:
            acceptance.accept(acceptance.of_keys(keys))
        else:
            review_changes(acceptance)
        left = len(acceptance.pending)
        accepted = number_of(len(acceptance.changes) - left, "difference")
        say_summary(f"{accepted} accepted, {left:,} left")


def review_changes(acceptance: SnapshotUpdate) -> None:
    """Ask for each change whether to accept it, and write it at once; back undoes that."""
    waiting, number = list(acceptance.pending), len(acceptance.pending)
    answered: list[tuple[list[Change], list[Change]]] = []  # what waited, and what was accepted
    while waiting:
        shown, *others = waiting
        # Changes of privilege come first, and have no [A], so none of them is among these.
        like = [each for each in others if each.kind == shown.kind]
        heading = f"{number - len(others)} of {number:,}"
        refused = {*("A" if shown.privileges else ""), *("" if answered else "b")}
        keys = [key for key in _ANSWERS if key not in refused]
        answer = _answer(keys, [*_screen(shown, acceptance, heading, len(like))])
        if answer == "q":
            break
        if answer == "b":
            waiting, accepted = answered.pop()
            if accepted:
                acceptance.take_back()
            continue
        chosen = {"a": [shown], "A": [shown, *like], "s": []}[answer]
        if chosen:
            acceptance.accept(chosen)
        answered.append((waiting, chosen))
        waiting = [each for each in others if each not in chosen]


def _screen(change: Change, acceptance: SnapshotUpdate, heading: str, like: int) -> Iterator[str]:
    """Yield the lines of a screen: what it is, where it is, where it comes from, and the diff."""
    more = f", and {like:,} more like this" * bool(like and not change.privileges)
    yield click.style(f"{heading}: {change.kind}{more}", bold=True)
    for privilege in change.privileges:
        yield _HEADING + _in_one_line(privilege)
    if change.what and change.what not in change.privileges:
        yield _in_one_line(change.what)
    if not change.cases:
        yield in_line(change.files[0].name)
    cases = number_of(len(change.cases), "case")
    if change.kind == "file":
        yield f"{cases}; accepted for all suites that attach it"
    elif change.cases:
        named = name_cases(change.cases)
        yield in_line(named if named.startswith(cases) else f"{cases}: {named}")
    if words := change.growth_in_words:
        yield words
    for origin in acceptance.origins_of(change):
        yield in_line(f"from {origin}")
    yield ""
    if change.kind == "file" and not change.is_compared:
        is_same = all(line.startswith(" ") for line in change.lines)
        unknown = "the recorded text is not known, or there is none; all of the new one:"
        yield "its text is as recorded; all of it:" if is_same else unknown
    yield from colored_lines(change.lines)


def _answer(keys: Sequence[str], lines: list[str]) -> str:
    """Show a screen, and return the key of an answer; ``q`` at the end of input."""
    height = max(shutil.get_terminal_size().lines - _LINES_BELOW, 1)
    answers = "  ".join(_ANSWERS[key] for key in keys)
    click.clear()
    while True:
        page, lines = lines[:height], lines[height:]
        for line in page:
            echo(line)
        more = f"  [m]ore: {number_of(len(lines), 'line')}" * bool(lines)
        echo(f"\n{answers}{more}")
        while (key := _key()) not in keys and not (key == "m" and lines):
            echo(f"{_NOT_ALL}\n{answers}{more}" if key == "A" else f"{answers}{more}")
        if key != "m":
            return key


# What a terminal sends of a key, a mouse or itself, by ECMA-48 and xterm's list of sequences.
_SEQUENCE = r"""(?xs) \x1b (?:
    \[ (?: M.{3} | \[. | (?!M) [0-?]* [ -/]* [@-Z\\-~] )  # CSI; the old mouse, Linux's F keys
    | O. | [\]PX^_] .* (?: \x07 | \x1b\\ )               # SS3; OSC and other strings
    | [^\[O\]PX^_]                                       # a letter with Alt
)"""


def _key() -> str:
    """Return a key, or a sequence of keys and mouse that is none; ``q`` at the end of input."""
    try:
        key = click.getchar()
        # A slow line brings a sequence in pieces, of which the last may be a letter of an answer.
        while key[0] == "\x1b" and not re.match(_SEQUENCE, key):
            key += click.getchar()
    except EOFError:
        return "q"
    return key
