"""Conversion in several processes."""

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from typing import Any, Literal

from multiturn.engine import converting
from multiturn.engine.converting import ConversionJob, RenderedCase, Slice
from multiturn.errors import MultiturnError
from multiturn.logs import LogSettings, configure
from multiturn.providers.agents.guard import die_with_parent

_ENDING = {signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}


@contextmanager
def masked(how: Literal["SIG_BLOCK", "SIG_UNBLOCK"]) -> Iterator[None]:
    """Block or unblock the signals that end a process, where the system can.

    A signal that came while a process starts would be lost, or the process. A process that was
    started while signals were blocked blocks them, too, until it unblocks them.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(getattr(signal, how), _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_AHEAD = 3  # slices under way for each process, so that none waits for another
_PATIENCE = 1  # seconds for idle workers to end; those whose stages have left processes do not
_GRACE = 5  # seconds for workers to end after a signal, together


def on_processes(
    job: ConversionJob, workers: int, log: LogSettings
) -> Generator[RenderedCase, None, None]:
    """Yield what became of each selected case, in the order of the suites, from processes."""
    # Forking is quickest, and safe: there are no threads yet.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else None)
    executor = ProcessPoolExecutor(workers, context, _begin, (log, os.getpid()))
    started: set[BaseProcess] = set()
    patience = 0.0
    ended = threading.Event()
    watch = threading.Thread(target=_watch, args=(executor, started, ended), daemon=True)

    def submit(part: Slice) -> "Future[list[RenderedCase]]":
        with masked("SIG_BLOCK"):
            future = executor.submit(_convert, job, part)
            started.update(multiprocessing.active_children())
            if watch.ident is None:  # not before the processes are forked
                watch.start()
        return future

    try:
        parts = (part for path in job.selection.suites for part in converting.slices_of(path, path))
        results = converting.results_in_order(submit, parts, workers * _AHEAD)
        for items in converting.checked_slices(job.selection, results):
            yield from items
        patience = _PATIENCE
    except BrokenProcessPool:
        raise MultiturnError("a worker process died; try fewer --workers") from None
    finally:
        # A second interrupt must not leave workers behind: Python would wait for them at its end.
        with masked("SIG_BLOCK"):
            end = threading.Thread(target=executor.shutdown, kwargs={"cancel_futures": True})
            end.start()
            end.join(patience)
            _end(started)
            end.join()
            ended.set()


def _begin(log: LogSettings, parent: int) -> None:
    """Prepare a worker process, in which signals wait except while _convert runs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it, and ends the workers
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    die_with_parent(parent, signal.SIGKILL)
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)  # a group, so that the parent ends what stages start, too
    configure(log)


@masked("SIG_UNBLOCK")
def _convert(job: ConversionJob, part: Slice) -> list[RenderedCase]:
    """Convert a slice in a worker process.

    A signal ends the process here only. If it did while a result is sent, the parent would wait
    for the rest of it.
    """
    return converting.convert_slice(job, part)


def _watch(executor: Any, started: set[BaseProcess], ended: threading.Event) -> None:
    """End the wait for the rest of a result while whose sending a worker was killed."""
    sending = executor._result_queue._writer  # which is open in this process, too
    while not ended.wait(_PATIENCE):
        if any(worker.exitcode for worker in [*started]):
            _end(started)
            sending.close()
            return


def _end(workers: Iterable[BaseProcess]) -> None:
    """Terminate workers that have not ended well, with what their stages have started."""
    left = [(worker, worker.pid) for worker in workers if worker.exitcode != 0 and worker.pid]
    for names in (("SIGTERM", "SIGCONT"), ("SIGKILL",)):  # a stopped process only hears SIGKILL
        for worker, group in left:
            for name in names:
                with contextlib.suppress(AttributeError, OSError):  # no groups on Windows
                    os.killpg(group, getattr(signal, name))
            worker.terminate() if "SIGTERM" in names else worker.kill()
        end = time.monotonic() + _GRACE
        for worker, _ in left:
            worker.join(max(0.0, end - time.monotonic()))
        left = [(worker, group) for worker, group in left if worker.exitcode is None]
