"""The cases of an async iterable, for what takes one case after another."""

import asyncio
from collections.abc import AsyncIterable, Iterator

from multiturn.engine.given import Given


class Arriving(Iterator[Given]):
    """An iterator over the cases of an async iterable; ``next`` is for one that has arrived."""

    def __init__(self, cases: AsyncIterable[Given]) -> None:
        self._cases = aiter(cases)
        self._next: asyncio.Task[Given | Exception] | None = None

    def pending(self) -> asyncio.Task[Given | Exception] | None:
        """Return the task that ends when the next case arrives; None if it has arrived."""
        if self._next is None:
            self._next = asyncio.create_task(self._arrival())
        return None if self._next.done() else self._next

    async def _arrival(self) -> Given | Exception:
        try:
            return await anext(self._cases)
        except Exception as error:  # also the end; nobody may ask for it
            return error

    def __next__(self) -> Given:
        """Return the case that has arrived, or raise what the async iterable raises."""
        assert self._next is not None  # noqa: S101 - pending has returned None
        arrived, self._next = self._next.result(), None
        if isinstance(arrived, StopAsyncIteration):
            raise StopIteration
        if isinstance(arrived, Exception):
            raise arrived
        return arrived
