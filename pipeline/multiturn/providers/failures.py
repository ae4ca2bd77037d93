"""What ends a request and is no failure of it."""

from functools import cache


@cache
def passing() -> tuple[type[BaseException], ...]:
    """Return what ends a request and is no failure of it."""
    from asyncio import CancelledError  # takes 4 MB, which snapshots and reports do not need

    return CancelledError, KeyboardInterrupt, GeneratorExit
