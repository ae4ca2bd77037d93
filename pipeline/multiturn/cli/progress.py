"""Progress on a terminal."""

import re
import sys
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import Any, Self, TypeVar

from multiturn.engine.selection import Selection

_T = TypeVar("_T")
_A_CASE = re.compile(rb"""input_messages["']?\s*:""")


def estimate(selection: Selection) -> int | None:
    """Return about how many cases are selected, without loading them; None if unknown."""
    if selection.case_ids:
        return len(selection.case_ids)
    if "-" in selection.suites:
        return None
    try:
        return sum(map(_count_cases, selection.suites))
    except OSError:  # whoever loads it says so
        return None


def _count_cases(path: str) -> int:
    with open(path, "rb") as lines:  # one by one: a suite may be larger than memory
        return sum(len(_A_CASE.findall(line)) for line in lines)


def show_progress(items: Iterable[_T], what: str) -> Iterator[_T]:
    """Yield the items; from the second second on, count them on standard error.

    Nothing is shown unless standard error is a terminal, and standard output, which would be
    torn by the counter, is not.
    """
    if not sys.stderr.isatty() or sys.stdout.isatty():
        yield from items
        return
    items = iter(items)
    start = monotonic()
    count = 0
    for item in items:
        yield item
        count += 1
        if monotonic() - start > 1:
            break
    else:
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    with Progress(
        SpinnerColumn(),
        TextColumn("{task.completed:,} {task.description}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as progress:
        task = progress.add_task(what, total=None, completed=count)
        for item in items:
            yield item
            progress.advance(task)


class RunProgress:
    """The counts of a run, and the time that is left, on a terminal.

    Args:
        selection: which cases; how many they are, about, is looked up only for a terminal.
        hidden: standard output is on the terminal, too, and would be torn.
    """

    def __init__(self, selection: Selection, *, hidden: bool = False) -> None:
        self.selection = selection
        self.hidden = hidden
        self.done = self.failed = self.retried = 0
        self._progress: Any = None

    def __enter__(self) -> Self:
        if not self.hidden and sys.stderr is not None and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            self._progress = Progress(
                BarColumn(),
                TextColumn("{task.description}, left:"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._progress.add_task("0 done", total=estimate(self.selection))
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def count(self, failed: bool, retries: int, past: int) -> None:
        """Count a result; ``past`` is how many cases are over at least, reused ones included."""
        self.done += 1
        self.failed += failed
        self.retried += retries > 0
        if self._progress is not None:
            words = f"{self.done:,} done, {self.failed:,} failed, {self.retried:,} retried"
            self._progress.update(self._task, completed=max(self.done, past), description=words)
