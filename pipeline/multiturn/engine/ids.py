"""The ids of a file of any length, in some 20 bytes each."""

from array import array


class Ids:
    """Remembers on which line an id stood first.

    A dict would take ten times the memory, which for a large suite is most of all that a
    conversion needs. Ids are told apart by their 64-bit hashes.

    >>> ids = Ids()
    >>> ids.add("a", 3), ids.add("b", 5), ids.add("a", 9)
    (None, None, 3)
    """

    def __init__(self) -> None:
        self._count = 0
        self._resize(64)

    def add(self, name: str, line: int) -> int | None:
        """Return the line on which an id stood first; None if it is new, and then note it."""
        key = hash(name) or 1
        at = self._slot(key)
        if self._hashes[at]:
            return self._lines[at]
        self._hashes[at], self._lines[at] = key, line
        self._count += 1
        if self._count * 8 > len(self._hashes) * 7:
            old = zip(self._hashes, self._lines, strict=True)
            self._resize(len(self._hashes) * 2)
            for key, line in old:
                if key:
                    at = self._slot(key)
                    self._hashes[at], self._lines[at] = key, line
        return None

    def _slot(self, key: int) -> int:
        """Return where a hash is, or would be."""
        mask = len(self._hashes) - 1
        at = key & mask
        while self._hashes[at] not in (0, key):
            at = (at + 1) & mask
        return at

    def _resize(self, slots: int) -> None:
        self._hashes = array("q", bytes(8 * slots))
        self._lines = array("I", bytes(4 * slots))
