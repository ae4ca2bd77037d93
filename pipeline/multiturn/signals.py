"""Signals that end a process, kept off while they would be lost."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

ENDING = {signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}


@contextmanager
def masked(how: Literal["SIG_BLOCK", "SIG_UNBLOCK"]) -> Iterator[None]:
    """Block or unblock the signals that end a process, where the system can.

    A signal that came while a process starts would be lost, or the process. A process that was
    started while signals were blocked blocks them, too, until it unblocks them.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(getattr(signal, how), ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
