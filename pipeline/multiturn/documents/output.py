"""Output files, written whole or not at all, and the locks by which processes take turns.

A file is written under a name of its own until it is whole. Its writer locks it, so that the next
one tells those whose writers were killed, and removes them. With ``above``, an open folder, names
are in that folder, and no link leads elsewhere.
"""

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from io import BytesIO, TextIOWrapper
from typing import BinaryIO, TextIO

from multiturn.files.paths import StrPath, open_flags


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
        mode: as for ``open``; one that creates the file opens it again if it was removed.
        lock_file: locks the open file, by ``lock``.

    Raises:
        FileNotFoundError: there is no such file, and the mode creates none.
    """
    while True:
        with ExitStack() as ending:
            file: BinaryIO = ending.enter_context(open(path, mode))  # type: ignore[assignment]
            with suppress(FileNotFoundError):  # it was removed
                lock_file(file)
                if os.path.samestat(os.stat(path), os.fstat(file.fileno())):
                    ending.pop_all()  # the caller closes it
                    return file


_CREATE = open_flags("O_RDWR", "O_CREAT", "O_EXCL", "O_BINARY", "O_NOFOLLOW")
_READ = open_flags("O_RDONLY", "O_NOFOLLOW", "O_NONBLOCK")


@contextmanager
def open_partial(
    prefix: str, mode: int, take_name: Callable[[str], None], above: int | None = None
) -> Iterator[BinaryIO]:
    """Create and lock a file; at the end ``take_name`` renames its path; errors remove it."""
    descriptor, path = _created(prefix, mode, above)
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            # Else a power cut could leave the new name with none of its bytes.
            os.fsync(file.fileno())
            if os.name == "nt":  # which renames no open file
                file.close()
            take_name(path)
    except BaseException:
        with suppress(FileNotFoundError):  # an interrupt right after it took its name
            os.unlink(path, dir_fd=above)
        raise


def _created(prefix: str, mode: int, above: int | None) -> tuple[int, str]:
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
    """Remove files whose names begin with a prefix, and whose writers were killed.

    They are in a folder, whose path is empty if it is ``above``.
    """
    with suppress(OSError):
        for name in _names(folder, above):
            if name.startswith(prefix):
                path = os.path.join(folder, name)
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


_kept: TextIOWrapper | None = None


def standard_output() -> TextIO:
    """Return what commands print to: the standard output that was kept, if one was."""
    return _kept or sys.stdout


def keep_standard_output() -> None:
    """Keep standard output for what commands print, from ``redirect_others`` on."""
    global _kept
    given = sys.stdout
    if isinstance(given, TextIOWrapper):
        given.flush()
        buffering = 0 if given.write_through else -1  # by PYTHONUNBUFFERED
        _kept = TextIOWrapper(
            os.fdopen(os.dup(given.fileno()), "wb", buffering, closefd=False),
            encoding=given.encoding,
            errors="backslashreplace",  # Python itself sets this for standard error
            line_buffering=given.line_buffering,
            write_through=given.write_through,
        )


def redirect_others() -> None:
    """Send to standard error what stages, providers, their C code and child processes print."""
    if _kept is not None and isinstance(sys.stdout, TextIOWrapper):
        # A worker process ends without a flush of ``sys.stdout``, which a stage may print to.
        sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())


@contextmanager
def open_output(path: str | None, *, whole: bool = False) -> Iterator[BinaryIO]:
    """Open a file that takes its name only when the block ends well; None is standard output.

    Written beside the file and renamed over it, with the old file's permissions. What is not a
    regular file, such as a pipe, is written to directly, or, if ``whole``, at the end.
    """
    target = None if path is None else os.path.realpath(path)
    if target is not None and (os.path.isfile(target) or not os.path.exists(target)):
        with _partial(target, os.replace) as file:
            yield file
        return
    with nullcontext(standard_output().buffer) if target is None else open(target, "wb") as direct:
        if whole:
            held = BytesIO()
            yield held
            direct.write(held.getbuffer())
        else:
            yield direct
        direct.flush()


@contextmanager
def open_new(path: StrPath) -> Iterator[BinaryIO]:
    """Create a file that takes its name only when the block ends well.

    Raises:
        FileExistsError: something, such as a link that leads nowhere, has the name already.
    """
    target = os.fspath(path)
    if os.path.lexists(target):
        raise FileExistsError
    with _partial(target, _take_free_name) as file:
        yield file


def _take_free_name(partial: str, target: str) -> None:
    try:
        os.link(partial, target)
    except FileExistsError:
        raise
    except OSError:  # there are no hard links here
        os.rename(partial, target)
    else:
        os.unlink(partial)


@contextmanager
def _partial(target: str, rename: Callable[[str, str], None]) -> Iterator[BinaryIO]:
    """Create a file beside another, which takes its name at the end."""
    folder, name = os.path.split(target)
    prefix = f".{name[:40]}.multiturn-"
    remove_abandoned(folder or os.curdir, prefix)

    def take_name(partial: str) -> None:
        with suppress(FileNotFoundError):
            os.chmod(partial, stat.S_IMODE(os.stat(target).st_mode))
        rename(partial, target)

    # Nobody may read more than the file that is replaced.
    mode = 0o600 if os.path.exists(target) else 0o666
    with open_partial(os.path.join(folder, prefix), mode, take_name) as file:
        yield file
