"""The rate of requests to a target."""

from collections import deque
from time import monotonic

# The server counts: a second more than a minute, for those that take longer to arrive than others.
_PERIOD = 61.0


async def at_once() -> None:
    """Wait for nothing, where there is no limit."""


class Rate:
    """Lets at most so many requests go in any 60 seconds, evenly spread.

    A leaky bucket, such as that of aiolimiter, lets up to twice as many go in the first minute.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._last = -_PERIOD  # when the request goes whose turn is last
        self._gone: deque[float] = deque(maxlen=most)  # when the last ones went

    async def turn(self) -> None:
        """Wait until another request may go, and count it."""
        import asyncio  # takes 4 MB, which snapshots and reports do not need

        self._last = max(self._last + _PERIOD / self._most, monotonic())
        await asyncio.sleep(self._last - monotonic())
        # Where something has blocked the event loop, several turns are late, and come at once.
        while len(self._gone) == self._most and (late := self._gone[0] + _PERIOD - monotonic()) > 0:
            await asyncio.sleep(late)
        self._gone.append(monotonic())
