"""What commands say of cases that fail and of outputs that cannot be written; exit codes."""

import errno
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import click

from multiturn.text import indented, visible


class UnusableError(click.ClickException):
    """What was asked for cannot be done at all: exit code 2, as for a wrong option."""

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(visible(message))


class Failures:
    """Says on standard error what has failed, and counts it.

    Args:
        debug: show tracebacks.
    """

    def __init__(self, *, debug: bool = False) -> None:
        self.debug = debug
        self.count = 0

    def add(self, error: Exception, trace: str = "") -> None:
        """Say why a case, or the rest of a suite, was skipped.

        Args:
            error: what is wrong.
            trace: its traceback, where another process has it.
        """
        if self.debug:
            self.say((trace or "".join(traceback.format_exception(error))).rstrip())
        else:
            self.say(str(error))

    def say(self, message: str) -> None:
        """Count a failure, and say why on standard error."""
        self.count += 1
        click.echo(indented(message), err=True)

    def finish(self) -> None:
        """End the process with exit code 1 if anything failed."""
        if self.count:
            sys.exit(1)


@contextmanager
def writing(output: str | None) -> Iterator[None]:
    """Say what is wrong with an output that cannot be written; a closed pipe is no error.

    Args:
        output: its path; None for standard output.

    Raises:
        UnusableError: it cannot be written.
    """
    try:
        yield
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        if output is None:  # what is still in the buffer must not fail once more at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        what = f"cannot write {output or '-'!r}: {error.strerror}"
        raise UnusableError(what) from error
