"""Accepting the differences of snapshots one by one: by their keys, or at a terminal."""

import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence

import click

from multiturn.cli.annotations import no_commands
from multiturn.cli.printing import Failures, echo, say_summary
from multiturn.cli.rendering import colored_lines
from multiturn.cli.snapshot_output import in_one_line, privilege_heading
from multiturn.documents.output import standard_output
from multiturn.engine.converting import ConvertedCase
from multiturn.snapshots.changes import Change, name_cases
from multiturn.snapshots.snapshot_run import Acceptance, SnapshotRun
from multiturn.text import first_of, in_line, number_of

_ANSWERS = {
    "a": "[a]ccept",
    "s": "[s]kip",
    "A": "[A]ll like this",
    "b": "[b]ack",
    "q": "[q]uit",
}
_NOT_ALL = "a change of privilege is never part of all"
_LINES_BELOW = 3  # the question, and a blank line on both sides
_NAMED = 10  # suites of a file


def refuse_no_terminal() -> None:
    """Raise the error of ``--review`` where nobody can answer."""
    if not (sys.stdin.isatty() and standard_output().isatty()):
        what = "--review asks at a terminal, and this is none: --check --format json gives each"
        raise click.UsageError(f"{what} difference a key, and --accept KEY takes it")


def accept_changes(
    run: SnapshotRun, converted: Iterable[ConvertedCase], failures: Failures, keys: Sequence[str]
) -> None:
    """Accept the changes that have these keys, or without keys those that somebody accepts."""
    with no_commands():
        acceptance = Acceptance(run, converted, failures.add)
        acceptance.find()
        if run.selection.strict:
            failures.finish()
        chosen = acceptance.of_keys(keys)
        if keys:
            acceptance.accept(chosen)
        accepted = len(chosen) if keys else review_changes(acceptance)
        say_summary(_summary(accepted, acceptance))


def review_changes(acceptance: Acceptance) -> int:
    """Ask for each change whether to accept it, and return how many were accepted.

    Each is written at once, so that an interrupt loses no answer; back takes an answer back.
    """
    waiting, number = list(acceptance.pending), len(acceptance.pending)
    answered: list[tuple[list[Change], int]] = []  # what waited, and how many were accepted
    while waiting:
        shown, *others = waiting
        # Changes of privilege come first, and have no [A], so none of them is among these.
        like = [each for each in others if each.kind == shown.kind]
        heading = f"{number - len(others)} of {number:,}"
        refused = {*("A" if shown.privileges else ""), *("" if answered else "b")}
        keys = [key for key in _ANSWERS if key not in refused]
        match _answer(keys, [*_screen(shown, acceptance, heading, len(like))]):
            case "a":
                chosen = [shown]
            case "A":
                chosen = [shown, *like]
            case "s":
                chosen = []
            case "b":
                waiting, accepted = answered.pop()
                if accepted:
                    acceptance.take_back()
                continue
            case _:
                break
        if chosen:
            acceptance.accept(chosen)
        answered.append((waiting, len(chosen)))
        waiting = [each for each in others if each not in chosen]
    return sum(accepted for _, accepted in answered)


def _summary(accepted: int, acceptance: Acceptance) -> str:
    words = f"{number_of(accepted, 'difference')} accepted, {len(acceptance.pending):,} left"
    lists = [change.name for change in acceptance.files if change.case is None]
    if lists and not acceptance.changes:
        words += f"; snapshot without --check writes {first_of(lists)}"
    return words


def _screen(change: Change, acceptance: Acceptance, heading: str, like: int) -> Iterator[str]:
    """Yield the lines of a screen: what it is, where it is, where it comes from, and the diff."""
    more = f", and {like:,} more like this" * bool(like and not change.privileges)
    yield click.style(f"{heading}: {change.kind}{more}", bold=True)
    for privilege in change.privileges:
        yield privilege_heading() + in_one_line(privilege)
    if change.what and change.what not in change.privileges:
        yield in_one_line(change.what)
    if not change.cases:
        yield in_line(change.files[0].name)
    cases = number_of(len(change.cases), "case")
    if change.kind == "file":
        suites = first_of(acceptance.suites_of(change), most=_NAMED)
        yield in_line(f"{cases}; accepted for all suites: {suites}")
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


def _key() -> str:
    """Return a key; empty for one that is no letter, ``q`` at the end of input.

    A slow line brings an arrow in pieces, of which the last may be a letter that is an answer.
    """
    try:
        if (key := click.getchar()) != "\x1b":
            return key
        rest = ""
        while not re.fullmatch(r"\[[0-9;]*[A-Za-z~]|O[A-Za-z]|[^\[O].*", rest):
            rest += click.getchar()
    except EOFError:
        return "q"
    return ""
