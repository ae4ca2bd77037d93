"""Conversion on several processes, with the output of one."""

import multiprocessing
import os
import signal
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct

from multiturn.assembly import Pipeline, request_of
from multiturn.batch import Batch, UnusableError
from multiturn.declaration import load_pipeline
from multiturn.ids import Ids
from multiturn.json_lines import Lines, split_lines
from multiturn.logs import Settings, configure
from multiturn.rendering import RENDERERS, record_of

PART_SIZE = 2**20  # bytes of a JSON Lines suite that a process takes at a time


class Work(Struct, frozen=True):
    """How the cases are converted.

    Attributes:
        pipeline: its name or file.
        format: a key of RENDERERS.
        strict: as for ``Batch.conversions``.
        verbose: as for ``Batch.conversions``.
        which: the arguments of Batch, but for the suites.
        log: how each process logs.
    """

    pipeline: str
    format: str
    strict: bool
    verbose: bool
    which: dict[str, Any]
    log: Settings


class _Done(Struct, frozen=True):
    """What became of a part.

    Attributes:
        mistakes: in their order.
        ids: those that were looked for and found.
        cases: id, line and length of what is written of each case; of a part of a suite only.
    """

    mistakes: list[str]
    ids: set[str]
    cases: list[tuple[str, int, int]]


class Part(Batch):
    """The cases of one suite, or of some of its lines; mistakes are kept for the parent."""

    def __init__(self, path: str, lines: Lines | None, which: dict[str, Any]) -> None:
        super().__init__((path,), **which)
        self._lines = lines
        self.mistakes: list[str] = []

    def lines(self) -> Lines | None:
        """Return which lines are read."""
        return self._lines

    def fail(self, message: str) -> None:
        """Keep a mistake."""
        self.mistakes.append(message)

    def check_ids(self) -> None:
        """Leave it to the parent, who sees all parts."""


def convert_on_workers(batch: Batch, work: Work, workers: int) -> Iterator[bytes]:
    """Yield what is written of the cases, in the order of the suites and of the cases in them.

    Args:
        batch: the suites; their mistakes are reported to it, in the same order.
        work: how they are converted.
        workers: how many processes there are.

    Raises:
        UnusableError: a process died, or no suite has a case that was asked for.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(workers, initializer=_prepare, initargs=(work.log,)) as pool,
    ):
        try:
            parts = [
                (path, lines, pool.submit(_convert, path, lines, work, f"{folder}/{number}"))
                for number, (path, lines) in enumerate(_parts(batch.paths))
            ]
            ids: dict[str, Ids] = {}
            for number, (path, lines, future) in enumerate(parts):
                done = future.result()
                for mistake in done.mistakes:
                    batch.fail(mistake)
                batch.ids |= done.ids
                output = Path(folder, str(number))
                with output.open("rb") as file:
                    if lines is None:
                        while chunk := file.read(PART_SIZE):
                            yield chunk
                    else:
                        seen = ids.setdefault(path, Ids())
                        yield from _distinct(file, path, done.cases, seen, batch)
                output.unlink()
            batch.check_ids()
        except BrokenProcessPool:
            raise UnusableError("a worker process died; try fewer --workers") from None
        finally:  # all is done, or, after an interrupt, nobody wants what they are still at
            for child in multiprocessing.active_children():
                child.terminate()
            pool.shutdown(cancel_futures=True)


def _parts(paths: list[str]) -> Iterator[tuple[str, Lines | None]]:
    for path in paths:
        if path.endswith(".jsonl") and os.path.isfile(path) and os.access(path, os.R_OK):
            with open(path, "rb") as file:
                for lines in split_lines(file, PART_SIZE):
                    yield path, lines
        else:
            yield path, None


def _prepare(log: Settings) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it, and ends us
    configure(log)


@cache
def _pipeline(name: str) -> Pipeline:
    """Load a pipeline once in each process."""
    return load_pipeline(name)


def _convert(path: str, lines: Lines | None, work: Work, output: str) -> _Done:
    """Convert a part into a file."""
    part = Part(path, lines, work.which)
    render = RENDERERS[work.format]
    pipeline = _pipeline(work.pipeline)
    cases = []
    with open(output, "wb") as file:
        for conversion in part.conversions(pipeline, strict=work.strict, verbose=work.verbose):
            case = conversion.case
            text = render(record_of(case.suite, request_of(conversion)))
            file.write(text)
            if lines is not None:
                cases.append((case.id, case.line, len(text)))
    return _Done(part.mistakes, part.ids, cases)


def _distinct(
    file: BinaryIO, path: str, cases: list[tuple[str, int, int]], seen: Ids, batch: Batch
) -> Iterator[bytes]:
    """Yield what is written of a part's cases, but of none whose id an earlier part has."""
    for case_id, line, length in cases:
        text = file.read(length)
        first = seen.add(case_id, line)
        if first is None:
            yield text
        else:
            what = f"the id {case_id!r} stands twice, first on line {first};"
            batch.fail(f"{path}:{line}:1: {what} ids are unique in a file")
