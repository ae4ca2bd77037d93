"""Progress on a terminal, once a run has lasted a second."""

import sys
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import TypeVar

_T = TypeVar("_T")


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
