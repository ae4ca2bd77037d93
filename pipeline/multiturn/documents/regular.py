"""Files that nobody may hang or overfill: only regular ones are read, and only so much of them."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from multiturn.errors import MultiturnError, Place

MAX_LINE = 2**29  # bytes: an answer of 16 MiB and its request, each character as an escape
_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_NONBLOCK", 0)  # opening a FIFO must not wait for its writer
)


@contextmanager
def open_regular(path: str | os.PathLike[str], name: str) -> Iterator[BinaryIO]:
    """Open a file, ``name`` in errors, without waiting; links are followed.

    Raises:
        MultiturnError: it is not a regular file.
        OSError: it cannot be opened.
    """
    with open(path, "rb", opener=lambda file, _: os.open(file, _FLAGS)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise MultiturnError("this is not a regular file", where=name)
        yield file


def read_at_most(most: int, file: BinaryIO, name: str, what: str) -> bytes:
    """Return what is in a file, ``what`` it may be; more bytes than so many are an error."""
    data = file.read(most + 1)
    if len(data) > most:
        raise MultiturnError(f"{what} of over {most:,} bytes", where=name)
    return data


def lines_of(file: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield the lines of a file, which may end without a newline; one of half a GB is an error."""
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise MultiturnError(f"a line of over {MAX_LINE:,} bytes", where=Place(name, number))
        yield line
