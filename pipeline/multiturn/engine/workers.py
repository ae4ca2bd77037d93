"""Conversion on several processes, with the output of one."""

import errno
import gc
import mmap
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Self

from msgspec import Struct

from multiturn.engine.batch import Batch, UnusableError
from multiturn.engine.parts import (
    Done,
    Event,
    Part,
    RecordedIds,
    Slice,
    Whole,
    share_out,
    slices_of,
)
from multiturn.logs import Settings, configure
from multiturn.pipelines.pipeline import Pipeline, request_of
from multiturn.prompts.record import Record, record_of

_SHARES = 16  # for each process, so that all end at about the same time
_MOMENT = 0.05  # seconds for which one worker is waited for before others are looked at
_UNWRITABLE = 100  # and the number of the reason, is the exit code of a worker that cannot write
_SIGNALS = {signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}
_DIED = "a worker process died; try fewer --workers"


class Work(Struct, frozen=True):
    """How the cases are converted.

    Attributes:
        pipeline: what converts them.
        render: makes what is written of a case; a function of a module.
        strict: as for ``Batch.conversions``.
        verbose: as for ``Batch.conversions``.
        named: as in Batch.
        which: the arguments of Batch, but for the suites.
        log: how each process logs.
    """

    pipeline: Pipeline
    render: Callable[[Record], bytes]
    strict: bool
    verbose: bool
    named: frozenset[str]
    which: dict[str, Any]
    log: Settings


def convert_on_workers(batch: Batch, work: Work, workers: int) -> Iterator[bytes | memoryview]:
    """Yield what is written of the cases, in the order of the suites and of the cases in them.

    The suites are shared out by their sizes, into more shares than processes: this one takes them
    from the first on, and yields at once what it converts; the others take them from the last on,
    and keep their output in files until all meet.

    Args:
        batch: the suites; their mistakes are reported to it, in the same order.
        work: how they are converted.
        workers: how many processes there are, this one included.

    Raises:
        UnusableError: a process died, its output cannot be kept, or no suite has a case that was
            asked for.
    """
    shares = share_out(list(slices_of(batch.paths)), workers * _SHARES)
    whole = Whole(batch)
    # Windows keeps a file while it is mapped.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, ExitStack() as stack:
        with _signals_kept():
            children = [
                stack.enter_context(_Child(shares, work, folder))
                for _ in range(min(workers, len(shares)) - 1)
            ]
        own = 0
        for number in _taken(folder, range(len(shares))):
            for child in children:
                child.check()
            for piece in shares[number]:
                if piece.lines is None:
                    part = Part(piece.path, None, work.which, batch.fail, work.named)
                else:
                    fail, ids = partial(whole.fail, piece.path), whole.ids_of(piece.path)
                    part = Part(piece.path, piece.lines, work.which, fail, work.named, ids)
                yield from _texts(part, work)
                batch.ids |= part.ids
            own = number + 1
        while children:
            seconds = _MOMENT if len(children) > 1 else None
            children = [child for child in children if child.is_busy(seconds)]
        for number in range(own, len(shares)):
            yield from _kept(whole, f"{folder}/{number}")
        batch.check_ids()


class _Child:
    """Another process that takes shares, from its start to its end.

    Args:
        shares: what there is to convert.
        work: how.
        folder: where it keeps what it makes.
    """

    def __init__(self, shares: list[list[Slice]], work: Work, folder: str) -> None:
        self._folder = folder
        # Forking is quickest, and safe: there are no threads yet.
        context = multiprocessing.get_context("fork" if sys.platform == "linux" else None)
        self._process = context.Process(target=_work, args=(shares, work, folder))

    def __enter__(self) -> Self:
        gc.freeze()  # else its collector would copy all memory that it shares with this process
        try:
            self._process.start()
        except OSError as error:
            what = f"cannot start a process: {_reason(error)}; try fewer --workers"
            raise UnusableError(what) from error
        return self

    def __exit__(self, *_: object) -> None:
        """End it, with what its stages have started, unless it has ended well."""
        pid = self._process.pid
        if pid is None or self._process.exitcode == 0:
            return
        for name, end in (("SIGTERM", self._process.terminate), ("SIGKILL", self._process.kill)):
            with suppress(AttributeError, OSError):  # Windows has no groups; or it is none yet
                os.killpg(pid, getattr(signal, name))
            end()
            self._process.join(5)
            if self._process.exitcode is not None:
                break

    def is_busy(self, seconds: float | None) -> bool:
        """Wait some time for its end; raise UnusableError if it died or could not write."""
        self._process.join(seconds)
        self.check()
        return self._process.exitcode is None

    def check(self) -> None:
        """Raise UnusableError if it died or could not write."""
        code = self._process.exitcode or 0
        if code > _UNWRITABLE:
            raise _unwritable(self._folder, os.strerror(code - _UNWRITABLE))
        if code:
            raise UnusableError(_DIED)


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Let signals wait: one that came while a process starts would be lost, or the process."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _taken(folder: str, numbers: Iterable[int]) -> Iterator[int]:
    """Yield those shares that no other process has; whoever makes the file of one, takes it."""
    for number in numbers:
        try:
            open(f"{folder}/{number}", "xb").close()
        except FileExistsError:
            continue
        except OSError as error:
            raise _unwritable(folder, _reason(error)) from error
        yield number


def _kept(whole: Whole, output: str) -> Iterator[memoryview]:
    """Yield what a process has made of a share; raise UnusableError if it could not."""
    try:
        data = Path(f"{output}.done").read_bytes()
    except FileNotFoundError:
        raise UnusableError(_DIED) from None
    done: Done = pickle.loads(data)  # noqa: S301 - ours
    with open(output, "rb") as file:
        empty = os.fstat(file.fileno()).st_size == 0  # which cannot be mapped
        kept = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    yield from whole.texts(done, memoryview(kept))


def _texts(batch: Batch, work: Work) -> Iterator[bytes]:
    """Yield what is written of each case."""
    for conversion in batch.conversions(work.pipeline, strict=work.strict, verbose=work.verbose):
        yield work.render(record_of(conversion.case.suite, request_of(conversion)))


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__


def _unwritable(folder: str, reason: str) -> UnusableError:
    what = f"cannot write below {folder!r}: {reason}"
    return UnusableError(f"{what}; set TMPDIR to a folder with room")


def _work(shares: list[list[Slice]], work: Work, folder: str) -> None:
    """Convert shares, but for the first, until none is left."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it, and ends us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)  # a group, so that the parent ends what stages start, too
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    configure(work.log)
    try:
        with suppress(UnusableError):  # who cannot take a share leaves it to the others
            for number in _taken(folder, range(len(shares) - 1, 0, -1)):
                _convert(shares[number], work, f"{folder}/{number}")
    except OSError as error:
        sys.exit(_UNWRITABLE + (error.errno or errno.EIO))
    finally:
        # Ends the executors of stages, as at the end of any process; multiprocessing does it after
        # it has waited for their processes, which would not end.
        threading._shutdown()  # type: ignore[attr-defined]


def _convert(share: list[Slice], work: Work, output: str) -> None:
    """Convert a share into its file, and write beside it what was done."""
    events: list[Event] = []
    ids: set[str] = set()
    with open(output, "r+b", 2**16) as file:
        for piece in share:
            for size in _written(piece, work, events, ids, file):
                last = events[-1] if events else None
                if piece.lines is not None:
                    events.append((size,))
                elif isinstance(last, int):
                    events[-1] = last + size
                else:
                    events.append(size)
    Path(f"{output}.done").write_bytes(pickle.dumps(Done(events, ids)))


def _written(
    piece: Slice, work: Work, events: list[Event], ids: set[str], file: BinaryIO
) -> Iterator[int]:
    """Write each case of a slice, and yield its size in bytes."""

    def fail(message: str) -> None:
        events.append(message if piece.lines is None else (piece.path, message))

    known = None if piece.lines is None else RecordedIds(piece.path, events)
    part = Part(piece.path, piece.lines, work.which, fail, work.named, known)
    for text in _texts(part, work):
        file.write(text)
        yield len(text)
    ids |= part.ids
