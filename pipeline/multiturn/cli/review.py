"""Accepting the differences of snapshots one by one: by their keys, or at a terminal."""

import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from multiturn.cli.printing import echo
from multiturn.documents.output import standard_output
from multiturn.text import first_of, in_line, number_of

if TYPE_CHECKING:
    from multiturn.review.acceptance import Acceptance
    from multiturn.review.differences import Difference

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


def accept_keys(acceptance: "Acceptance", keys: Sequence[str]) -> str:
    """Accept the differences that have these keys, and return a summary."""
    chosen = acceptance.of_keys(keys)
    acceptance.accept(chosen)
    return _summary(len(chosen), acceptance)


def review(acceptance: "Acceptance") -> str:
    """Ask for each difference whether to accept it, and return a summary.

    Each is written at once, so that an interrupt loses no answer; back takes an answer back.
    """
    waiting, number = list(acceptance.pending), len(acceptance.pending)
    answered: list[tuple[list[Difference], int]] = []  # what waited, and how many were accepted
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
    return _summary(sum(accepted for _, accepted in answered), acceptance)


def _summary(accepted: int, acceptance: "Acceptance") -> str:
    words = f"{number_of(accepted, 'difference')} accepted, {len(acceptance.pending):,} left"
    lists = [change.name for change in acceptance.update.changes if change.case is None]
    if lists and not acceptance.update.differences:
        words += f"; snapshot without --check writes {first_of(lists)}"
    return words


def _screen(
    difference: "Difference", acceptance: "Acceptance", heading: str, like: int
) -> Iterator[str]:
    """Yield the lines of a screen: what it is, where it is, where it comes from, and the diff."""
    from multiturn.cli.changes import in_one_line, privilege_heading
    from multiturn.cli.rendering import colored_lines
    from multiturn.review.changes import name_cases

    more = f", and {like:,} more like this" * bool(like and not difference.privileges)
    yield click.style(f"{heading}: {difference.kind}{more}", bold=True)
    for privilege in difference.privileges:
        yield privilege_heading() + in_one_line(privilege)
    if difference.what and difference.what not in difference.privileges:
        yield in_one_line(difference.what)
    if not difference.cases:
        yield in_line(difference.changes[0].name)
    cases = number_of(len(difference.cases), "case")
    if difference.kind == "file":
        suites = first_of(acceptance.suites_of(difference), most=_NAMED)
        yield in_line(f"{cases}; accepted for all suites: {suites}")
    elif difference.cases:
        named = name_cases(difference.cases)
        yield in_line(named if named.startswith(cases) else f"{cases}: {named}")
    if words := difference.growth_in_words:
        yield words
    for origin in acceptance.origins_of(difference):
        yield in_line(f"from {origin}")
    yield ""
    if difference.kind == "file" and not difference.is_compared:
        is_same = all(line.startswith(" ") for line in difference.lines)
        unknown = "the recorded text is not known, or there is none; all of the new one:"
        yield "its text is as recorded; all of it:" if is_same else unknown
    yield from colored_lines(difference.lines)


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
