"""The beginnings that requests share: what a vendor's prompt cache can find again."""

from bisect import bisect_left, insort
from collections import deque
from functools import lru_cache

from multiturn.providers.base import TargetProvider, Wire

ASSUMED_MINIMUM = 1024  # tokens, where it is not known from how many on the vendor caches
# Before each part of a request, so that equal texts of different roles are no common prefix. The
# model reads something of the kind, too.
_MARK = "\x1d"
_MOST_KEPT = 16 * 2**20  # characters of texts; then the oldest are forgotten, as caches do


class SharedPrefixes:
    """The texts of requests, and how much of each begins as an earlier one does.

    A prefix counts from the minimum on from which the vendor caches.

    Args:
        provider: of the target.
        estimates: whether an estimate of tokens will do; else the tables of a published tokenizer
            are loaded, which take 70 MB.

    Attributes:
        shared: about how many tokens are in a prefix of an earlier text.
        written: about how many tokens are such a prefix for the first time: what an ideal cache
            keeps.
    """

    def __init__(self, provider: TargetProvider, *, estimates: bool = False) -> None:
        self.provider = provider
        self.minimum = provider.cache_minimum or ASSUMED_MINIMUM
        self.shared = self.written = 0
        self._texts: list[str] = []  # in alphabetical order
        self._by_age: deque[str] = deque()
        self._size = 0  # of these, in characters
        self._kept: dict[str, int] = {}  # how many tokens of each text another one shares
        tokenizer = provider.tokenizer
        self._count = lru_cache(256)(tokenizer.estimate if estimates else tokenizer.count)

    def text(self, wire: Wire | None) -> str:
        """Return what a model reads of a request; empty if the request is too short to share."""
        # A token has at least one byte: most requests are too short, and are not even decoded.
        if wire is None or len(wire.shown) < self.minimum:
            return ""
        sent = self.provider.reads(wire)
        pairs = zip(sent.roles, sent.texts, strict=True)
        return "".join(f"{_MARK}{role}\n{text}" for role, text in pairs)

    def tokens(self, prefix: str) -> int:
        """Return how many tokens a prefix has; 0 if it is too short for the cache."""
        if len(prefix) * 4 < self.minimum:  # a character has at most four bytes
            return 0
        tokens = self._count(prefix)
        return tokens if tokens >= self.minimum else 0

    def longest(self, text: str) -> int:
        """Return the length of the longest prefix that a text shares with one of those here."""
        return nearest(self._texts, text)[0]

    def add(self, text: str) -> None:
        """Add the text of a request, as ``text`` returns it."""
        if not text:
            return
        length, other = nearest(self._texts, text)
        tokens = self.tokens(text[:length])
        if tokens:
            self.shared += tokens
            self.written += max(tokens - self._kept[other], 0)
            self._kept[other] = max(tokens, self._kept[other])
        self._kept[text] = max(tokens, self._kept.get(text, 0))
        insort(self._texts, text)
        self._by_age.append(text)
        self._size += len(text)
        while self._size > _MOST_KEPT:
            self._forget(self._by_age.popleft())

    def _forget(self, text: str) -> None:
        self._size -= len(text)
        at = bisect_left(self._texts, text)
        del self._texts[at]
        if self._texts[at : at + 1] != [text]:
            del self._kept[text]


def nearest(texts: list[str], text: str) -> tuple[int, str]:
    """Return the longest common prefix's length with a text of an ordered list, and that text.

    >>> nearest(["banana", "prepare", "present"], "prefix")
    (3, 'prepare')
    """
    at = bisect_left(texts, text)
    neighbors = texts[max(at - 1, 0) : at + 1]  # in this order, no other text shares more
    return max(((_common_length(text, other), other) for other in neighbors), default=(0, ""))


def _common_length(one: str, other: str) -> int:
    """Return the length of the longest common prefix of two texts.

    >>> _common_length("prefix", "prepare"), _common_length("", "x")
    (3, 0)
    """
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
