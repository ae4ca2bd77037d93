"""Output files, written whole or not at all."""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from multiturn.documents.partial import create_partial, remove_abandoned


@contextmanager
def open_output(path: str | None, *, whole: bool = False) -> Iterator[BinaryIO]:
    """Open a file that takes its name only when the block ends well; None is standard output.

    Written beside the file and renamed over it, with the old file's permissions. What is not a
    regular file, such as a pipe, is written to directly, or, if ``whole``, at the end.
    """
    if path is None:
        with _held(sys.stdout.buffer, whole) as file:
            yield file
        sys.stdout.buffer.flush()
        return
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with target.open("wb") as direct, _held(direct, whole) as file:
            yield file
        return
    with _partial(target) as (file, partial):
        yield file
        _finish(file, partial, target)
        os.replace(partial, target)


@contextmanager
def open_new(target: Path) -> Iterator[BinaryIO]:
    """Create a file that takes its name only when the block ends well.

    Raises:
        FileExistsError: something, such as a link that leads nowhere, has the name already.
    """
    if os.path.lexists(target):
        raise FileExistsError
    with _partial(target) as (file, partial):
        yield file
        _finish(file, partial, target)
        try:
            os.link(partial, target)
        except FileExistsError:
            raise
        except OSError:  # there are no hard links here
            os.rename(partial, target)
        else:
            os.unlink(partial)


@contextmanager
def _partial(target: Path) -> Iterator[tuple[BinaryIO, str]]:
    """Create a file beside another, for what that is to hold; remove it after an error."""
    prefix = f".{target.name[:40]}.multiturn-"
    remove_abandoned(str(target.parent), prefix)
    descriptor, partial = create_partial(os.path.join(target.parent, prefix), 0o600)
    try:
        with open(descriptor, "wb") as file:
            yield file, partial
    except BaseException:
        with suppress(FileNotFoundError):  # an interrupt right after it took its name
            os.unlink(partial)
        raise


def _finish(file: BinaryIO, partial: str, target: Path) -> None:
    file.flush()
    # Else a power cut could leave the new name with none of its bytes.
    os.fsync(file.fileno())
    os.chmod(partial, _mode(target))
    if os.name == "nt":  # which renames no open file
        file.close()


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
    # mkstemp makes files that only their owner can read; what others expect is what open would
    # have given. The umask can be read only by setting it.
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask
