"""Where the bytes of images, documents and audio lie in a run."""

import os
from threading import Lock
from typing import IO

from multiturn.errors import MultiturnError

_IN_MEMORY = 4_000_000  # bytes of a run; with more, all lie in a temporary file


class Store:
    """The bytes of the media that a run reads, each once; many lie in a temporary file."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}  # in memory, by digest
        self._places: dict[str, tuple[int, int]] = {}  # in the file: where each begins, and ends
        self._size = 0
        self._file: IO[bytes] | None = None
        self._process = 0  # whose file it is
        self._lock = Lock()

    def add(self, data: bytes) -> str:
        """Keep some bytes; return their digest.

        Raises:
            MultiturnError: the disk is full.
        """
        import hashlib

        digest = hashlib.sha256(data).hexdigest()
        with self._lock:
            if digest not in self._kept and digest not in self._places:
                try:
                    self._add(digest, data)
                except OSError as error:
                    raise no_room(error) from None
        return digest

    def read(self, digest: str) -> bytes:
        """Return the bytes of a digest."""
        with self._lock:
            return self._read(digest)

    def _add(self, digest: str, data: bytes) -> None:
        is_first = not self._kept  # the only one in the store of ``Media.of``, which needs no file
        if self._file is None and (is_first or self._size + len(data) <= _IN_MEMORY):
            self._kept[digest] = data
            self._size += len(data)
            return
        file = self._file
        if file is None or self._process != os.getpid():
            file = self._moved()
        self._places[digest] = _append(file, data)

    def _read(self, digest: str) -> bytes:
        if self._file is None:
            return self._kept[digest]
        start, end = self._places[digest]
        if hasattr(os, "pread"):
            # A forked process shares the position of the file, which this leaves alone.
            return os.pread(self._file.fileno(), end - start, start)
        self._file.seek(start)
        return self._file.read(end - start)

    def _moved(self) -> IO[bytes]:
        """Move all bytes to a file of this process: to the first, or after a fork to its own."""
        import weakref
        from tempfile import TemporaryFile

        file = TemporaryFile()  # noqa: SIM115 - closed below
        weakref.finalize(self, file.close)
        known = (*self._kept, *self._places)
        self._places = {digest: _append(file, self._read(digest)) for digest in known}
        self._kept, self._file, self._process = {}, file, os.getpid()
        return file


def no_room(error: OSError) -> MultiturnError:
    """Return the error for media that cannot be written where temporary files are."""
    what = f"cannot keep media in a temporary file: {error.strerror}"
    return MultiturnError(f"{what}; make room there, or set TMPDIR")


def _append(file: IO[bytes], data: bytes) -> tuple[int, int]:
    """Write bytes at the end of a file; return where they begin and end."""
    start = file.seek(0, os.SEEK_END)
    file.write(data)
    file.flush()
    return start, start + len(data)
