"""What commands print, and what they say of cases that fail and of outputs."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from multiturn.documents.output import standard_output
from multiturn.errors import AccessError, MultiturnError, trace_of
from multiturn.text import in_line, indented, number_of

if TYPE_CHECKING:
    from multiturn.engine.converting import ConvertedCase
    from multiturn.model.conversion import Conversion


class Failures:
    """Says on standard error what has failed, with tracebacks if ``debug``, and counts it."""

    def __init__(self, *, debug: bool = False) -> None:
        self.debug = debug
        self.count = 0

    def conversions(self, outcomes: "Iterable[ConvertedCase]") -> "Iterator[Conversion]":
        """Yield the conversions; print the errors of the other cases."""
        for outcome in outcomes:
            if outcome.error is not None:
                self.add(outcome.error)
            elif outcome.conversion is not None:
                yield outcome.conversion

    def add(self, error: MultiturnError, trace: str = "") -> None:
        """Say why a case, or the rest of a suite, was skipped; another process has the trace."""
        if self.debug:
            self.say((trace or trace_of(error)).rstrip())
        else:
            self.say(str(error))

    def say(self, message: str) -> None:
        """Count a failure, and say why on standard error."""
        self.count += 1
        say(indented(message))

    def finish(self) -> None:
        """End the process with exit code 1 if anything failed."""
        if self.count:
            sys.exit(1)


def echo(text: str | bytes = "", *, nl: bool = True) -> None:
    """Print a text on standard output, which is kept for commands."""
    click.echo(text, file=standard_output(), nl=nl)


def say(text: str) -> None:
    """Print a line on standard error, also while counts are shown there."""
    # click.echo writes to the bytes below the stream of rich, which erases the counts.
    print(text, file=sys.stderr, flush=True)


def say_line(text: str) -> None:
    """Print a text on standard error as one line."""
    say(in_line(text))


def say_summary(text: str, *, err: bool = False) -> None:
    """Print how a command has gone as a whole, unless --quiet is given."""
    if not click.get_current_context().params["quiet"]:
        click.echo(in_line(text), file=None if err else standard_output(), err=err)


@contextmanager
def writing(output: str | None) -> Iterator[None]:
    """Name the output in the error if it cannot be written.

    Errors of standard output, which is None, end the command (see group.py).
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if output is None:
            raise
        raise AccessError(f"cannot write {output!r}: {error.strerror}") from error


def say_written(output: str | None, cases: int) -> None:
    """Say on a terminal how many cases a file has got; scripts see the exit code."""
    if output is not None and sys.stderr.isatty():
        click.echo(in_line(f"{output}: {number_of(cases, 'case')}"), err=True)
