"""The beginnings that requests share: what a vendor's prompt cache can find again."""

import hashlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from multiturn.providers.base import TargetProvider, Wire

ASSUMED_MINIMUM = 1024  # tokens, where it is not known from how many on the vendor caches
# Before each part of a request, so that equal texts of different roles are no common prefix. The
# model reads something of the kind, too.
_MARK = "\x1d"
WINDOW = 1_000  # requests that are compared with each other
WINDOW_BYTES = 16 * 2**20  # of these, at most
_STEPS = 8  # a prefix of an earlier call that ends inside a part is known to an eighth
_MOST_KNOWN = 500_000  # digests, in 50 MB; then older ones are forgotten, as caches do


class Placed(NamedTuple):
    """A request in the order in which a cache finds most."""

    at: int  # index of the request
    # index of the request that brings the shared prefix into the cache; None if it is there
    # already, or nothing is shared
    first: int | None
    shared: int  # about how many of its tokens are in a prefix of an earlier request


class SharedPrefixes:
    """Finds, for each request, the longest prefix that an earlier request has, too.

    A prefix counts from the minimum on from which the vendor caches. Requests of one call are
    compared by their texts; those of earlier calls by hashes of their prefixes, so that memory does
    not hold the texts.
    """

    def __init__(self, provider: TargetProvider) -> None:
        self.provider = provider
        self.minimum = provider.cache_minimum or ASSUMED_MINIMUM
        self._known: set[bytes] = set()
        self._added: list[Wire] = []
        self._size = 0  # of these, in bytes
        self._shared = self._written = 0
        self._count = lru_cache(16)(provider.tokenizer.count)

    def add(self, wire: Wire) -> None:
        """Add a request to those of which ``shared`` tells."""
        if len(wire.body) < self.minimum:
            return
        self._added.append(wire)
        self._size += len(wire.body)
        if len(self._added) == WINDOW or self._size > WINDOW_BYTES:
            self._place_added()

    def shared(self) -> int:
        """Return about how many tokens of the added requests are in a prefix of an earlier one."""
        self._place_added()
        return self._shared

    def written(self) -> int:
        """Return about how many tokens of the added requests are such a prefix for the first time.

        They are what an ideal cache keeps.
        """
        self._place_added()
        return self._written

    def _place_added(self) -> None:
        placed = self.place(self._added)
        shared = {at: tokens for at, _, tokens in placed}
        kept = dict(shared)
        for _, first, tokens in placed:
            if first is not None:
                kept[first] = max(kept[first], tokens)
        self._shared += sum(shared.values())
        self._written += sum(kept.values()) - sum(shared.values())
        self._added, self._size = [], 0

    def place(self, wires: Sequence[Wire | None]) -> list[Placed]:
        """Return requests in an order that keeps those with a shared prefix together.

        These groups, and the requests that share nothing, are in the order of their first ones. A
        case without a request keeps its place, too.
        """
        # A token has at least one byte: most requests are too short, and are not even decoded.
        texts = {
            index: self._text(wire)
            for index, wire in enumerate(wires)
            if wire is not None and len(wire.body) >= self.minimum
        }
        groups = [[Placed(index, None, 0)] for index in range(len(wires)) if index not in texts]
        digests: set[bytes] = set()
        branches: list[tuple[int, int]] = []
        before: int | None = None
        for index in sorted(texts, key=texts.__getitem__):
            text = texts[index]
            length = 0 if before is None else _common_length(texts[before], text)
            first = None if before is None else _first(branches, length, before)
            known = self._tokens(text[: self._known_length(text, digests)])
            shared = self._tokens(text[:length])
            if not shared:
                groups.append([])
            brings = first if shared > known else None
            groups[-1].append(Placed(index, brings, max(shared, known)))
            before = index
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        self._known |= digests
        groups.sort(key=lambda group: min(placed.at for placed in group))
        return [placed for group in groups for placed in group]

    def _text(self, wire: Wire) -> str:
        sent = self.provider.reads(wire)
        pairs = zip(sent.roles, sent.texts, strict=True)
        return "".join(f"{_MARK}{role}\n{text}" for role, text in pairs)

    def _tokens(self, prefix: str) -> int:
        """Return how many tokens a prefix has; 0 if it is too short for the cache."""
        if len(prefix) * 4 < self.minimum:  # a character has at most four bytes
            return 0
        tokens = self._count(prefix)
        return tokens if tokens >= self.minimum else 0

    def _known_length(self, text: str, digests: set[bytes]) -> int:
        """Return the length of the longest prefix that an earlier call had.

        The set gets the digests of the prefixes of this text.
        """
        hashed, at, known, is_known = hashlib.blake2b(digest_size=8), 0, 0, True
        for end in _ends(text, self.minimum):
            hashed.update(text[at:end].encode("utf-8", "surrogatepass"))
            digest, at = hashed.digest(), end
            is_known = is_known and digest in self._known
            known = end if is_known else known
            digests.add(digest)
        return known


def _ends(text: str, minimum: int) -> Iterator[int]:
    """Yield where the prefixes of a text end whose digests are kept: at parts, and in between."""
    at = minimum // 2  # few characters are more than two tokens
    while at < len(text):
        yield at
        step = at + max(at // _STEPS, 1)
        part = text.find(_MARK, at + 1, step)
        at = step if part < 0 else part
    yield len(text)


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


def _first(branches: list[tuple[int, int]], length: int, before: int) -> int:
    """Return the first of some texts, in alphabetical order, that begins as the next one does.

    Args:
        branches: the lengths at which texts have branched off from those before, ever longer,
            each with the first text that has this prefix; changed for the next text.
        length: of the prefix that the next text shares with the one before it.
        before: the index of that one.
    """
    first = before
    while branches and branches[-1][0] > length:
        _, first = branches.pop()
    if branches and branches[-1][0] == length:
        return branches[-1][1]
    branches.append((length, first))
    return first
