"""Conversion in several processes."""

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.process import BaseProcess
from typing import Any

from multiturn.engine import converting
from multiturn.engine.converting import ConversionJob, RenderedCase, Slice
from multiturn.errors import MultiturnError
from multiturn.logs import LogSettings, configure
from multiturn.providers.agents.guard import die_with_parent
from multiturn.signals import ENDING, masked

_AHEAD = 3  # slices under way for each process, so that none waits for another
_PATIENCE = 1  # seconds for idle workers to end; those whose stages have left processes do not
_GRACE = 5  # seconds for a worker to end once it is killed


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
            future = executor.submit(converting.convert_slice, job, part)
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
    """Prepare a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it, and ends the workers
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    die_with_parent(parent, signal.SIGKILL)
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)  # a group, so that the parent ends what stages start, too
    configure(log)


def _watch(executor: Any, started: set[BaseProcess], ended: threading.Event) -> None:
    """End the wait for the rest of a result while whose sending a worker was killed."""
    sending = executor._result_queue._writer  # which is open in this process, too
    while not ended.wait(_PATIENCE):
        if any(worker.exitcode for worker in [*started]):
            _end(started)
            executor._result_queue = None  # its shutdown would close this once more
            sending.close()
            return


def _end(workers: Iterable[BaseProcess]) -> None:
    """Kill workers that have not ended well, with what their stages have started."""
    left = [(worker, worker.pid) for worker in workers if worker.exitcode != 0 and worker.pid]
    for worker, group in left:
        with contextlib.suppress(AttributeError, OSError):  # no groups on Windows
            os.killpg(group, signal.SIGKILL)
        worker.kill()
    for worker, _ in left:
        worker.join(_GRACE)
