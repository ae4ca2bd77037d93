"""The order in which cases are sent: the first of those that share a prefix before the others."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from itertools import chain
from operator import itemgetter
from typing import Literal, Self

from multiturn.engine.delivery import Delivery, request_size
from multiturn.engine.prefixes import SharedPrefixes, nearest
from multiturn.providers.base import TargetProvider

Order = Literal["prefixes", "suite"]
WINDOW = 1_000  # cases that are put into order together, at most
WINDOW_BYTES = 16 * 2**20  # of their requests, at most
_WORTH_WAITING = 500  # characters of a prefix that another request is about to bring into the cache


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
    """Cases in an order that keeps shared prefixes together.

    For that, cases are read ahead once no other one can be sent: first a single one, then each time
    twice as many, and never more than a thousand. Those that have no result in this run pass at
    once. An error in reading is raised once the cases before it have been yielded.
    """

    def __init__(
        self, deliveries: Iterator[Delivery], prefixes: SharedPrefixes, *, waits: bool
    ) -> None:
        super().__init__(deliveries)
        self._prefixes = prefixes  # of the requests that were answered
        self._waits = waits
        self._end: Exception | None = None  # of the deliveries: StopIteration, or an error
        self._ahead = 1  # number of cases to read ahead
        self._read: list[tuple[str, Delivery]] = []  # those so far, with their texts
        self._left: list[tuple[str, Delivery]] = []  # read before, in the order of sending
        self._size = 0  # of all these requests, in bytes
        self._is_blocked = False  # whether all that are left wait for requests under way
        self._under_way: list[str] = []  # texts of these requests, in alphabetical order

    def __next__(self) -> Delivery | None:
        """Return the next case; None if another one was read, or all wait for an answer."""
        if not self._is_blocked:
            for at, (text, delivery) in enumerate(self._left):
                if not self._must_wait(text):
                    del self._left[at]
                    self._size -= request_size(delivery)
                    if self._waits:
                        insort(self._under_way, text)
                    return delivery
        self._is_blocked = True
        is_full = len(self._left) + len(self._read) >= WINDOW or self._size > WINDOW_BYTES
        if self._end is None and not is_full:
            return self._read_one()
        if self._read:
            self._put_in_order()
        elif self._left:
            self.is_waiting = True
        elif self._end is not None:
            raise self._end
        return None

    def answered(self, delivery: Delivery) -> None:
        """Let the cases be sent that share a prefix with this one."""
        self.is_waiting = self._is_blocked = False
        if self._waits:
            text = self._prefixes.text(delivery.wire)
            del self._under_way[bisect_left(self._under_way, text)]
            self._prefixes.add(text)

    def _must_wait(self, text: str) -> bool:
        """Return whether a request under way will bring more of a text into the cache."""
        length, _ = nearest(self._under_way, text)
        if length < self._prefixes.longest(text) + _WORTH_WAITING:
            return False
        return self._prefixes.tokens(text[:length]) > 0

    def _read_one(self) -> Delivery | None:
        """Read a case, and return it if it has no result."""
        try:
            delivery = next(self._deliveries)
        except Exception as error:  # StopIteration, or what a generator of cases raises
            self._end = error
            return None
        if not delivery.has_result:
            return delivery
        self._size += request_size(delivery)
        self._read.append((self._prefixes.text(delivery.wire), delivery))
        if len(self._read) >= self._ahead:
            self._put_in_order()
            self._ahead *= 2
        return None

    def _put_in_order(self) -> None:
        """Put those together that share a prefix; such groups are in the order of their first."""
        groups: dict[str | int, list[tuple[str, Delivery]]] = {}
        for at, held in enumerate(self._left + self._read):
            beginning = held[0][: self._prefixes.minimum]  # a token has a character, mostly more
            groups.setdefault(beginning or at, []).append(held)
        in_groups = (sorted(group, key=itemgetter(0)) for group in groups.values())
        self._left = [*chain.from_iterable(in_groups)]
        self._read = []
        self._is_blocked = False


def in_order(deliveries: Iterator[Delivery], provider: TargetProvider, order: Order) -> Queue:
    """Return cases in the order in which they are sent: that of the suites if no cache is there."""
    if order == "suite" or provider.has_cache is False:
        return Queue(deliveries)
    prefixes = SharedPrefixes(provider, estimates=True)
    return PrefixQueue(deliveries, prefixes, waits=bool(provider.has_cache))
