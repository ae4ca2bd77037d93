"""Locks of files, by which processes that write the same one take turns."""

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
