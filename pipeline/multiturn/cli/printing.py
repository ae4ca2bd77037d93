"""What commands print: results, summaries, errors and progress."""

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import click

from multiturn.documents.output import standard_output
from multiturn.errors import AccessError, MultiturnError, trace_of
from multiturn.text import in_line, indented, number_of

if TYPE_CHECKING:
    from multiturn.engine.selection import Selection
    from multiturn.logs import Notice


_EXAMPLES = 3  # of many errors, or warnings, with the same words
_MOST_WORDS = 10_000  # that are counted


class Failures:
    """Says on standard error what has failed, with tracebacks if ``debug``, and counts it.

    Of many errors, or warnings, with the same words, as of a setting that a model refuses, it says
    the first ones, and at the end how many more there are; with ``debug`` it says all.
    """

    def __init__(self, *, debug: bool = False) -> None:
        self.debug = debug
        self.count = 0
        self._same = Counter[tuple[str, str]]()  # the kind, and the words

    def add(self, error: MultiturnError, trace: str = "") -> None:
        """Say why a case, or the rest of a suite, was skipped; another process has the trace."""
        self.count += 1
        if self.is_example("error", error.what):
            say(indented((trace or trace_of(error)).rstrip() if self.debug else str(error)))

    def warn(self, notice: "Notice") -> None:
        """Say a warning."""
        from multiturn.logs import warn, warnings_to

        if self.is_example("warning", notice.why):
            with warnings_to(None):
                warn(notice)

    def is_example(self, kind: str, words: str) -> bool:
        """Count an error or a warning, and return whether it is to be said."""
        if (kind, words) in self._same or len(self._same) < _MOST_WORDS:
            self._same[kind, words] += 1
        return self.debug or self._same[kind, words] <= _EXAMPLES

    def say(self, message: str) -> None:
        """Count a failure, and say why on standard error."""
        self.count += 1
        say(indented(message))

    def close(self) -> None:
        """Say how many errors and warnings were not said."""
        for (kind, words), number in self._same.items():
            if number > _EXAMPLES and not self.debug:
                more = number_of(number - _EXAMPLES, f"more {kind}")
                say(indented(f"{more} with the same words; --debug names each: {words}"))
        self._same.clear()

    def finish(self) -> None:
        """End the process with exit code 1 if anything failed."""
        self.close()
        if self.count:
            sys.exit(1)


def echo(text: str | bytes = "", *, nl: bool = True) -> None:
    """Print a text on standard output, which is kept for commands."""
    click.echo(text, file=standard_output(), nl=nl)


def echo_lines(lines: Iterable[str]) -> None:
    """Print many lines on standard output as they come; none has colors."""
    output = standard_output()
    output.writelines(f"{line}\n" for line in lines)
    output.flush()


def echo_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows on standard output, in columns of one width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    echo_lines(in_line("  ".join(map(str.ljust, row, widths)).rstrip()) for row in rows)


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
    """Name the output in the error if it cannot be written; standard output is for group.py."""
    try:
        yield
    except OSError as error:
        if output is None or isinstance(error, BrokenPipeError):
            raise
        raise AccessError(f"cannot write {output!r}: {error.strerror}") from error


def say_written(output: str | None, cases: int) -> None:
    """Say on a terminal how many cases a file has got; scripts see the exit code."""
    if output is not None and sys.stderr.isatty():
        click.echo(in_line(f"{output}: {number_of(cases, 'case')}"), err=True)


_T = TypeVar("_T")
_DELAY = 1  # seconds until counts are shown
_PAUSE = 0.1  # seconds between two counts of cases
_A_CASE = re.compile(rb"""\b(?:input_messages|input|messages)["']?\s*:""")


class Progress:
    """Shows counts on standard error, if that is a terminal, ten times a second after the first."""

    def __init__(self, estimate: Callable[[], int | None], *, hidden: bool) -> None:
        self.estimate = estimate  # returns the total, or None; it is called only to show it
        self.hidden = hidden or not sys.stderr.isatty()
        self._begun = monotonic()
        self._due = self._begun + _DELAY
        self._shown: Any = None

    def close(self) -> None:
        """Erase the counts."""
        if self._shown is not None:
            self._shown.stop()

    def update(self, done: int, words: str) -> None:
        """Show how many are done, in words, and the time left if it is known."""
        # To count each case takes rich longer than to convert it, and nobody reads so fast.
        if not self.hidden and monotonic() >= self._due:
            self._show(done, words)
            self._due = monotonic() + _PAUSE

    def _show(self, done: int, words: str) -> None:
        if self._shown is None:
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            total = self.estimate()
            time = TimeElapsedColumn() if total is None else TimeRemainingColumn()
            text = TextColumn("{task.description}" + (", left:" if total else ""))
            self._shown = Bar(BarColumn(), text, time, console=Console(stderr=True), transient=True)
            self._task = self._shown.add_task(words, total=total)
            self._shown.tasks[0].start_time = self._begun
            self._shown.start()
        self._shown.update(self._task, completed=done, description=words)


def show_progress(cases: Iterable[_T], *, prints: bool) -> Iterator[_T]:
    """Yield the cases, and count them on a terminal, unless the command prints cases there."""
    is_mixed = prints and standard_output().isatty()
    with closing(Progress(lambda: None, hidden=is_mixed)) as progress:
        for count, case in enumerate(cases, 1):
            yield case
            if not progress.hidden:
                progress.update(count, number_of(count, "case"))


def estimated_cases(selection: "Selection") -> int | None:
    """Return about how many cases are selected, without loading them; None if unknown."""
    # A pipe can be read only once.
    if selection.is_partial or not all(map(os.path.isfile, selection.suites)):
        return None
    count = 0
    try:
        for path in selection.suites:
            with open(path, "rb") as lines:  # line by line: a suite may be larger than memory
                count += sum(len(_A_CASE.findall(line)) for line in lines)
    except OSError:  # the error is shown where the suite is loaded
        return None
    return count
