"""Where the bytes of images, documents and audio lie in a run."""

import os
from io import BytesIO
from threading import Lock
from typing import IO

from multiturn.errors import MultiturnError

_IN_MEMORY = 32_000_000  # bytes of a run; what is more lies in a temporary file


class Store:
    """The bytes of the media that a run reads, each once; many lie in a temporary file."""

    def __init__(self) -> None:
        self._file: IO[bytes] = BytesIO()
        self._process = 0  # whose file on disk it is
        self._places: dict[str, tuple[int, int]] = {}  # where each begins, and its size; by digest
        self._end = 0
        self._lock = Lock()

    def add(self, data: bytes) -> str:
        """Keep some bytes; return their digest.

        Raises:
            MultiturnError: the disk is full.
        """
        import hashlib

        digest = hashlib.sha256(data).hexdigest()
        with self._lock:
            if digest not in self._places:
                try:
                    self._append(data)
                except OSError as error:
                    what = f"cannot keep media in a temporary file: {error.strerror}"
                    raise MultiturnError(f"{what}; make room there, or set TMPDIR") from None
                self._places[digest] = self._end, len(data)
                self._end += len(data)
        return digest

    def _append(self, data: bytes) -> None:
        self._prepare(len(data))
        self._file.seek(self._end)
        self._file.write(data)
        self._file.flush()

    def read(self, digest: str) -> bytes:
        """Return the bytes of a digest."""
        with self._lock:
            return self._read(*self._places[digest])

    def _read(self, start: int, size: int) -> bytes:
        if not isinstance(self._file, BytesIO) and hasattr(os, "pread"):
            # A forked process shares the position of the file, which this leaves alone.
            return os.pread(self._file.fileno(), size, start)
        self._file.seek(start)
        return self._file.read(size)

    def _prepare(self, size: int) -> None:
        """Move the bytes to disk before there are too many; of a fork, to a file of its own."""
        if isinstance(self._file, BytesIO):
            if self._end + size <= _IN_MEMORY:
                return
        elif self._process == os.getpid():
            return
        import weakref
        from tempfile import TemporaryFile

        file = TemporaryFile()  # noqa: SIM115 - closed below
        weakref.finalize(self, file.close)
        for place in self._places.values():  # in their order
            file.write(self._read(*place))
        self._file, self._process = file, os.getpid()
