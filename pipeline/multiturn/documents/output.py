"""Output files, written whole or not at all."""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def open_output(path: str | None, *, whole: bool = False) -> Iterator[BinaryIO]:
    """Open a file that takes its name only when the block ends well; None is standard output.

    Written beside the file and renamed over it, with the old file's permissions. What is not a
    regular file, such as a pipe, is written to directly, or, if ``whole``, at the end.
    """
    if path is None or path == "-":
        with _held(sys.stdout.buffer, whole) as file:
            yield file
        sys.stdout.buffer.flush()
        return
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with target.open("wb") as direct, _held(direct, whole) as file:
            yield file
        return
    import tempfile  # a fifth of the start-up, and only needed here

    descriptor, partial = tempfile.mkstemp(prefix=f".{target.name[:40]}.", dir=target.parent)
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        os.chmod(partial, _mode(target))
        os.replace(partial, target)
    except BaseException:
        with suppress(FileNotFoundError):  # an interrupt right after it took its name
            os.unlink(partial)
        raise


@contextmanager
def _held(file: BinaryIO, whole: bool) -> Iterator[BinaryIO]:
    """Give the file itself, or one that is copied to it when the block ends well."""
    if not whole:
        yield file
        return
    import shutil
    import tempfile

    with tempfile.TemporaryFile() as held:
        yield held
        held.seek(0)
        shutil.copyfileobj(held, file)


def _mode(target: Path) -> int:
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask
