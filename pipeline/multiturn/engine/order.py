"""The order in which cases are sent: the first of those that share a prefix before the others."""

from collections.abc import Iterator
from typing import Literal, Self

from multiturn.engine.delivery import Delivery
from multiturn.engine.prefixes import WINDOW, WINDOW_BYTES, SharedPrefixes
from multiturn.providers.base import TargetProvider

Order = Literal["prefixes", "suite"]


class Queue:
    """Cases in the order in which they are sent; an iterator."""

    is_waiting = False  # whether none of those that are left can be sent before an answer arrives

    def __init__(self, deliveries: Iterator[Delivery]) -> None:
        self._deliveries = deliveries

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Delivery | None:
        """Return the next case; None if there is none at the moment."""
        return next(self._deliveries)

    def answered(self, delivery: Delivery) -> None:
        """Note that a case has its answer."""


class PrefixQueue(Queue):
    """Cases in an order that keeps shared prefixes together, within a window.

    Those that have no result in this run pass at once. An error in reading is raised once the cases
    before it have been yielded.
    """

    def __init__(
        self, deliveries: Iterator[Delivery], prefixes: SharedPrefixes, *, waits: bool
    ) -> None:
        super().__init__(deliveries)
        self._prefixes = prefixes
        self._waits = waits
        self._read: list[Delivery] = []  # of the window that is read
        self._size = 0  # of their requests, in bytes
        self._end: Exception | None = None  # of the deliveries: StopIteration, or an error
        # Of the window that is sent: each case, and the one whose answer it waits for.
        self._left: list[tuple[Delivery, Delivery | None]] = []
        self._open: set[int] = set()  # the id() of each case that others wait for

    def __next__(self) -> Delivery | None:
        """Return the next case; None after one that belongs to the next window was read."""
        if not self._left:
            return self._fill()
        for at, (delivery, first) in enumerate(self._left):
            if id(first) not in self._open:
                del self._left[at]
                return delivery
        self.is_waiting = True
        return None

    def answered(self, delivery: Delivery) -> None:
        """Let the cases be sent that share a prefix with this one."""
        self._open.discard(id(delivery))
        self.is_waiting = False

    def _fill(self) -> Delivery | None:
        """Read a case, and return it if it has no result; a full window is put into order."""
        if self._end is None:
            try:
                delivery = next(self._deliveries)
            except Exception as error:  # StopIteration, or what a generator of cases raises
                self._end = error
            else:
                if not delivery.has_result:
                    return delivery
                self._read.append(delivery)
                self._size += 0 if delivery.wire is None else len(delivery.wire.body)
        if self._end is not None and not self._read:
            raise self._end
        if self._end is not None or len(self._read) == WINDOW or self._size > WINDOW_BYTES:
            self._put_in_order()
        return None

    def _put_in_order(self) -> None:
        read, self._read, self._size = self._read, [], 0
        for at, first, _ in self._prefixes.place([delivery.wire for delivery in read]):
            self._left.append((read[at], None if first is None else read[first]))
        if self._waits:
            self._open = {id(first) for _, first in self._left if first is not None}


def in_order(deliveries: Iterator[Delivery], provider: TargetProvider, order: Order) -> Queue:
    """Return cases in the order in which they are sent: that of the suites if no cache is there."""
    if order == "suite" or provider.has_cache is False:
        return Queue(deliveries)
    return PrefixQueue(deliveries, SharedPrefixes(provider), waits=bool(provider.has_cache))
