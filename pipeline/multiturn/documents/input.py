"""Opening files to read: none may hang a command or overfill its memory."""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import BinaryIO

from multiturn.errors import AccessError, InputError, Place
from multiturn.files.paths import StrPath, open_flags

MAX_RESULT_LINE = 2**29  # bytes: an answer of 16 MiB and its request, each character as an escape
_CHUNK = 2**16
MAX_PIPED = 2**30  # bytes that a pipe may bring
_FLAGS = open_flags("O_RDONLY", "O_BINARY", "O_NOCTTY", "O_NONBLOCK")  # no waiting for a FIFO


@contextmanager
def open_regular(path: StrPath, name: str) -> Iterator[BinaryIO]:
    """Open a file, ``name`` in errors, without waiting; links are followed.

    Raises:
        MultiturnError: it is not a regular file.
        OSError: it cannot be opened.
    """
    with open(path, "rb", opener=lambda file, _: os.open(file, _FLAGS)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise InputError("this is not a regular file", where=name)
        yield file


def read_at_most(most: int, file: BinaryIO, name: str, what: str) -> bytes:
    """Return what is in a file, ``what`` it may be; more bytes than so many are an error."""
    data = file.read(most + 1)
    if len(data) > most:
        raise InputError(f"{what} of over {most:,} bytes", where=name)
    return data


def lines_of(file: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield the lines of a file, which may end without a newline; one of half a GB is an error."""
    number = 0
    while line := file.readline(MAX_RESULT_LINE + 1):
        number += 1
        if len(line) > MAX_RESULT_LINE:
            raise InputError(f"a line of over {MAX_RESULT_LINE:,} bytes", where=Place(name, number))
        yield line


@contextmanager
def open_rewindable(path: str, name: str) -> Iterator[BinaryIO]:
    """Open a file, or a copy of what comes through a pipe; ``-`` is standard input."""
    with ExitStack() as stack:
        try:
            if path == "-":
                file: BinaryIO = sys.stdin.buffer
            else:
                file = stack.enter_context(open(path, "rb"))
                kind = os.fstat(file.fileno()).st_mode
                if not stat.S_ISREG(kind) and not stat.S_ISFIFO(kind):
                    raise InputError("this is not a regular file", where=name)
            if path == "-" or not file.seekable():
                from tempfile import TemporaryFile

                piped, file = file, stack.enter_context(TemporaryFile())
                while chunk := piped.read(_CHUNK):
                    file.write(chunk)
                    if file.tell() > MAX_PIPED:
                        what = f"more than {MAX_PIPED:,} bytes through a pipe; write them to a file"
                        raise InputError(what, where=name)
            yield file
        except OSError as error:
            raise AccessError(f"cannot read it: {error.strerror}", where=name) from None


def read_small(path: str, name: str, what: str, most: int) -> bytes:
    """Return what is in a file, ``what`` it may be, of at most so many bytes."""
    with open_rewindable(path, name) as file:
        return read_at_most(most, file, name, what)


def check_path(path: str) -> None:
    """Refuse what can be no path: NUL, or what the file system cannot encode."""
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        encoded = b"\0"
    if b"\0" in encoded:
        raise InputError("no path can have such a character", where=ascii(path))
