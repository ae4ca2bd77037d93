"""Conversion on several processes, with the output of one."""

import gc
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Self

from msgspec import Struct

from multiturn.assembly import Pipeline, request_of
from multiturn.batch import Batch, UnusableError
from multiturn.ids import Ids
from multiturn.json_lines import Lines, split_lines
from multiturn.logs import Settings, configure
from multiturn.model import Case
from multiturn.rendering import RENDERERS, record_of

SLICE_SIZE = 2**20  # bytes of a JSON Lines suite that one process takes
_CHUNK = 2**18  # bytes that are copied at a time


class Work(Struct, frozen=True):
    """How the cases are converted.

    Attributes:
        pipeline: what converts them.
        format: a key of RENDERERS.
        strict: as for ``Batch.conversions``.
        verbose: as for ``Batch.conversions``.
        which: the arguments of Batch, but for the suites.
        log: how each process logs.
    """

    pipeline: Pipeline
    format: str
    strict: bool
    verbose: bool
    which: dict[str, Any]
    log: Settings


class Slice(NamedTuple):
    """A suite, or some of the lines of one.

    Attributes:
        path: of the suite.
        lines: which lines; None for the whole suite.
        size: in bytes.
    """

    path: str
    lines: Lines | None
    size: int


class _Done(Struct, frozen=True):
    """What a process has made of its share.

    Attributes:
        events: in their order: a mistake; how many bytes of the output come next; or path, id, line
            and bytes of one case, of a suite whose other parts may have its id, too.
        ids: those that were looked for and found.
        error: why it could not go on.
    """

    events: list[str | int | tuple[str, str, int, int]]
    ids: set[str]
    error: str = ""


class Part(Batch):
    """The cases of one suite, or of some of its lines; the whole hears what is wrong with them.

    Args:
        path: of the suite.
        lines: which lines; None for all.
        which: the arguments of Batch, but for the suites.
        fail: gets each mistake.
    """

    def __init__(
        self, path: str, lines: Lines | None, which: dict[str, Any], fail: Callable[[str], None]
    ) -> None:
        super().__init__((path,), **which)
        self._lines = lines
        self._fail = fail

    def lines(self) -> Lines | None:
        """Return which lines are read."""
        return self._lines

    def fail(self, message: str) -> None:
        """Pass a mistake on."""
        self._fail(message)

    def check_ids(self) -> None:
        """Leave it to the whole, which sees all parts."""


def convert_on_workers(batch: Batch, work: Work, workers: int) -> Iterator[bytes]:
    """Yield what is written of each case, in the order of the suites and of the cases in them.

    The suites are shared out by their sizes. This process takes the first share, and yields at
    once what it converts; the others keep their output in files until it is their turn.

    Args:
        batch: the suites; their mistakes are reported to it, in the same order.
        work: how they are converted.
        workers: how many processes there are, this one included.

    Raises:
        UnusableError: a process died, its output cannot be kept, or no suite has a case that was
            asked for.
    """
    ids: dict[str, Ids] = {}

    def is_new(path: str, case_id: str, line: int) -> bool:
        first = ids.setdefault(path, Ids()).add(case_id, line)
        if first is not None:
            what = f"the id {case_id!r} stands twice, first on line {first};"
            batch.fail(f"{path}:{line}:1: {what} ids are unique in a file")
        return first is None

    own, *others = share_out(list(_slices(batch.paths)), workers)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        children = [
            stack.enter_context(_Child(share, work, f"{folder}/{number}"))
            for number, share in enumerate(others)
        ]
        for piece in own:
            for child in children:
                child.check()
            here = Part(piece.path, piece.lines, work.which, batch.fail)
            for case, text in _texts(here, work):
                if piece.lines is None or is_new(piece.path, case.id, case.line):
                    yield text
            batch.ids |= here.ids
        for child in children:
            done = child.done()
            if done.error:
                what = f"cannot write below {folder!r}: {done.error}"
                raise UnusableError(f"{what}; set TMPDIR to a folder with room")
            batch.ids |= done.ids
            with open(child.output, "rb", 0) as file:
                for event in done.events:
                    if isinstance(event, str):
                        batch.fail(event)
                    elif isinstance(event, int):
                        while event and (text := file.read(min(event, _CHUNK))):
                            event -= len(text)
                            yield text
                    else:
                        text = file.read(event[-1])
                        if is_new(*event[:-1]):
                            yield text
            os.unlink(child.output)
        batch.check_ids()


class _Child:
    """Another process, from its start to its end.

    Args:
        share: what it converts.
        work: how.
        output: the file that it writes.
    """

    def __init__(self, share: list[Slice], work: Work, output: str) -> None:
        self.output = output
        # Forking is quickest, and safe: there are no threads yet.
        context = multiprocessing.get_context("fork" if sys.platform == "linux" else None)
        self._process = context.Process(target=_convert, args=(share, work, output), daemon=True)
        gc.freeze()  # else its collector would copy all memory that it shares with this process
        self._process.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()  # all is done, or nobody wants what it is still at
        self._process.join()

    def check(self) -> None:
        """Raise UnusableError if it died."""
        if self._process.exitcode:
            raise UnusableError("a worker process died; try fewer --workers")

    def done(self) -> _Done:
        """Wait for what it has made; raise UnusableError if it died."""
        self._process.join()
        self.check()
        done: _Done = pickle.loads(Path(f"{self.output}.done").read_bytes())  # noqa: S301 - ours
        return done


def _slices(paths: list[str]) -> Iterator[Slice]:
    for path in paths:
        size = 0
        ranges: list[Lines] = []
        try:
            size = os.path.getsize(path)
            if path.endswith(".jsonl") and os.path.isfile(path):
                with open(path, "rb") as file:
                    ranges = list(split_lines(file, SLICE_SIZE))
        except OSError:  # whoever converts it says so
            pass
        yield from [Slice(path, lines, SLICE_SIZE) for lines in ranges] or [Slice(path, None, size)]


def share_out(slices: list[Slice], workers: int) -> list[list[Slice]]:
    """Return the slices in as many runs, or fewer, that are about the same size."""
    total = sum(piece.size for piece in slices) or 1
    shares: list[list[Slice]] = [[] for _ in range(workers)]
    before = 0
    for piece in slices:
        shares[workers * (2 * before + piece.size) // (2 * total + 1)].append(piece)
        before += piece.size
    return [share for share in shares if share] or [[]]


def _texts(batch: Batch, work: Work) -> Iterator[tuple[Case, bytes]]:
    """Yield each case with what is written of it."""
    render = RENDERERS[work.format]
    for conversion in batch.conversions(work.pipeline, strict=work.strict, verbose=work.verbose):
        case = conversion.case
        yield case, render(record_of(case.suite, request_of(conversion)))


def _convert(share: list[Slice], work: Work, output: str) -> None:
    """Convert a share into a file, and write beside it what was done."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it, and ends us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    configure(work.log)
    events: list[Any] = []
    ids: set[str] = set()
    error = ""
    try:
        with open(output, "wb") as file:
            for piece in share:
                batch = Part(piece.path, piece.lines, work.which, events.append)
                for case, text in _texts(batch, work):
                    file.write(text)
                    if piece.lines is not None:
                        events.append((piece.path, case.id, case.line, len(text)))
                    elif events and isinstance(events[-1], int):
                        events[-1] += len(text)
                    else:
                        events.append(len(text))
                ids |= batch.ids
    except OSError as full:
        os.truncate(output, 0)
        events, error = [], full.strerror or type(full).__name__
    Path(f"{output}.done").write_bytes(pickle.dumps(_Done(events, ids, error)))
