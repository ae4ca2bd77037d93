"""Locks of files, by which processes that write the same one take turns."""

import os
from collections.abc import Callable
from typing import BinaryIO


def lock(file: BinaryIO | int, *, wait: bool = True) -> None:
    """Lock an open file until it is closed; on Windows, do nothing.

    Raises:
        BlockingIOError: another process has locked it, and ``wait`` is false.
        OSError: the file system has no locks.
    """
    try:
        import fcntl
    except ImportError:
        return
    fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def open_locked(path: str, mode: str, lock_file: Callable[[BinaryIO], None]) -> BinaryIO:
    """Open a file and lock it; never one that another process has replaced meanwhile.

    Args:
        path: of the file.
        mode: as for ``open``; one that creates the file opens it again if it was removed.
        lock_file: locks the open file, by ``lock``.

    Raises:
        FileNotFoundError: there is no such file, and the mode creates none.
    """
    while True:
        file: BinaryIO = open(path, mode)  # type: ignore[assignment]  # noqa: SIM115 - the caller closes it
        try:
            lock_file(file)
            if os.path.samestat(os.stat(path), os.fstat(file.fileno())):
                return file
        except FileNotFoundError:  # it was removed
            pass
        except BaseException:
            file.close()
            raise
        file.close()
