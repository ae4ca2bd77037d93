"""Progress on a terminal."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from time import monotonic
from typing import Any, TypeVar

from multiturn.documents.output import standard_output
from multiturn.engine.selection import Selection
from multiturn.text import number_of

_T = TypeVar("_T")
_PAUSE = 0.1  # seconds between two counts of cases
_A_CASE = re.compile(rb"""\b(?:input_messages|input|messages)["']?\s*:""")


class Progress:
    """Shows counts on standard error, if that is a terminal, ten times a second.

    Args:
        estimate: returns the total, or None if it is unknown; it is called only to show it.
        hidden: whether nothing is shown.
        delay: seconds until counts are shown.
    """

    def __init__(
        self, estimated_cases: Callable[[], int | None], *, hidden: bool, delay: float = 0
    ) -> None:
        self.estimate = estimated_cases
        self.hidden = hidden or not sys.stderr.isatty()
        self._begun = monotonic()
        self._due = self._begun + delay
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
    """Yield the cases, and count them on a terminal once a second has passed.

    Args:
        cases: to be counted.
        prints: whether the command prints cases meanwhile. If standard output is a terminal, too,
            the count would stand between their lines, so none is shown.
    """
    is_mixed = prints and standard_output().isatty()
    with closing(Progress(lambda: None, hidden=is_mixed, delay=1)) as progress:
        for count, case in enumerate(cases, 1):
            yield case
            progress.update(count, number_of(count, "case"))


def estimated_cases(selection: Selection) -> int | None:
    """Return about how many cases are selected, without loading them; None if unknown."""
    if selection.sample is not None:
        return selection.sample.size
    if selection.case_ids:
        return len(selection.case_ids)
    if not all(map(os.path.isfile, selection.suites)):  # a pipe can be read only once
        return None
    count = 0
    try:
        for path in selection.suites:
            with open(path, "rb") as lines:  # line by line: a suite may be larger than memory
                count += sum(len(_A_CASE.findall(line)) for line in lines)
    except OSError:  # the error is shown where the suite is loaded
        return None
    return count
