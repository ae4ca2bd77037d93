"""Paths: their roots, what is below a folder, and opening there without following a link."""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import or_
from unicodedata import normalize

from multiturn.errors import AccessError, quoted
from multiturn.text import utf8

StrPath = str | os.PathLike[str]


def open_flags(*names: str) -> int:
    """Return flags for ``os.open`` by their names; a system may lack some."""
    return reduce(or_, [getattr(os, name, 0) for name in (*names, "O_CLOEXEC")])


_NO_LINK = open_flags("O_NOFOLLOW", "O_NONBLOCK")  # nor must a FIFO wait for its writer
# With O_PATH, a folder need not be readable, as for any other way to open a file in it.
FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | open_flags("O_DIRECTORY") | _NO_LINK
FILE = open_flags("O_RDONLY", "O_BINARY", "O_NOCTTY") | _NO_LINK


def root_of(path: StrPath) -> str:
    """Return the root of what a path leads to: the nearest folder with ``.git``, else its own."""
    real = real_path(path)
    folder = real if os.path.isdir(real) else os.path.dirname(real)
    return next((top for top in above(folder) if os.path.exists(os.path.join(top, ".git"))), folder)


def above(folder: str) -> Iterator[str]:
    """Yield an absolute folder, and each above it."""
    yield folder
    while folder != (folder := os.path.dirname(folder)):
        yield folder


def names_in(folder: str, ending: str) -> list[str]:
    """Return the names of a folder's files with an ending, without it, in alphabetical order."""
    return sorted(name for name, end in map(os.path.splitext, os.listdir(folder)) if end == ending)


def hint_at(near: str, path: str) -> str:
    """Return the end of an error of a missing path, which names a similar one that is there."""
    if normalize("NFC", near) != normalize("NFC", path):
        return f"; did you mean {quoted(near)}?"
    what = "a name there looks the same, in another Unicode form (NFC or NFD)"
    return f"; {what}; copy or change it"


def is_below(path: str, folder: str) -> bool:
    """Return whether a path is a folder, or below it; both are real paths."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def real_path(path: StrPath) -> str:
    """Return a path without links."""
    try:
        return os.path.realpath(path)
    except OSError as error:
        raise AccessError(f"cannot read it: {error.strerror}", where=str(path)) from None


def open_below(folder: str, names: Sequence[str], flags: int) -> int:
    """Open a file below a real path; a missing one, or a link on the way, is an OSError."""
    # Windows cannot open a name in an open folder: a link that was there only meanwhile is missed.
    if os.open not in os.supports_dir_fd:
        path = os.path.join(folder, *names)
        descriptor = os.open(path, flags)
        if os.path.normcase(os.path.realpath(path)) != os.path.normcase(path):
            os.close(descriptor)
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return descriptor
    parent = os.open(folder, FOLDER)
    try:
        for name in names[:-1]:
            try:
                opened = os.open(name, FOLDER, dir_fd=parent)
            except NotADirectoryError:  # what Linux says of a link, too, with O_DIRECTORY
                if stat.S_ISLNK(os.lstat(name, dir_fd=parent).st_mode):
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
                raise
            os.close(parent)
            parent = opened
        return os.open(names[-1], flags, dir_fd=parent)
    finally:
        os.close(parent)


def path_in(root: str, path: str) -> str | None:
    """Return a path below a root from there, with ``/``; None for another. Both are real paths."""
    if path == root or not is_below(path, root):
        return None
    return utf8(os.path.relpath(path, root).replace(os.sep, "/"))
