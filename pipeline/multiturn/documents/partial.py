"""Files that are written under a name of their own, until they are whole and take another's.

A writer locks its file, so that the next one tells those whose writers were killed, and removes
them. With ``above``, an open folder, names are in that folder, and no link leads elsewhere.
"""

import os
from contextlib import suppress

from multiturn.documents.locks import lock

_CREATE = (
    os.O_RDWR
    | os.O_CREAT
    | os.O_EXCL
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
)
_READ = (
    os.O_RDONLY
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
)


def create_partial(prefix: str, mode: int, above: int | None = None) -> tuple[int, str]:
    """Create and lock a file, and return it open, with its path."""
    while True:
        path = f"{prefix}{os.urandom(8).hex()}"
        descriptor = os.open(path, _CREATE, mode, dir_fd=above)
        with suppress(OSError):  # a file system without locks, where nobody removes it either
            lock(descriptor)
        with suppress(FileNotFoundError):
            os.stat(path, dir_fd=above, follow_symlinks=False)
            return descriptor, path
        os.close(descriptor)  # Another process took it for abandoned before it was locked.


def remove_abandoned(folder: str, prefix: str, above: int | None = None) -> None:
    """Remove files in a folder whose writers were killed; all of them begin with the prefix.

    The prefix has no folder; where ``above`` is given, that is the folder.
    """
    with suppress(OSError):
        for name in _names(folder, above):
            path = name if above is not None else os.path.join(folder, name)
            if name.startswith(prefix):
                with suppress(OSError):  # somebody is writing it, or has removed it, too
                    descriptor = os.open(path, _READ, dir_fd=above)
                    try:
                        lock(descriptor, wait=False)
                    finally:
                        os.close(descriptor)
                    os.unlink(path, dir_fd=above)


def _names(folder: str, above: int | None) -> list[str]:
    if above is None:
        return os.listdir(folder)
    opened = os.open(".", os.O_RDONLY, dir_fd=above)  # which may be open for its path only
    try:
        return os.listdir(opened)
    finally:
        os.close(opened)
