"""What a block of a test may take: time of computing, and memory of Python."""

import signal
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def limited(*, seconds: int = 5, megabytes: int | None = None) -> Iterator[None]:
    """Fail where a block takes more; one that computes for too long is stopped."""

    def fail(*_: object) -> None:
        raise AssertionError(f"still not done after {seconds} s of computing")

    before = signal.signal(signal.SIGPROF, fail)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    if megabytes is not None:
        tracemalloc.start()
    try:
        yield
        if megabytes is not None:
            assert tracemalloc.get_traced_memory()[1] < megabytes * 1_000_000
    finally:
        tracemalloc.stop()
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
