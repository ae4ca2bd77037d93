"""Safe reading, writing and removing in the folder of snapshots."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

from multiturn.documents.output import lock, open_partial, remove_abandoned
from multiturn.errors import MultiturnError, option
from multiturn.files.paths import FILE, FOLDER, open_below
from multiturn.snapshots.locations import Key, location_of
from multiturn.snapshots.snapshot_file import recorded_case
from multiturn.text import utf8

_PARTIAL = ".multiturn-"  # begins the name of a file that is being written


class SnapshotFolder:
    """The folder that holds the snapshots of any number of suites; it need not be there.

    Files are named by their path in it, with ``/``. No symbolic link is followed, even if it
    replaces a folder meanwhile: it could lead a write, or what a diff shows, out of the folder.
    Whatever cannot be read, written or removed, or is a link, is a MultiturnError that names it.
    """

    def __init__(self, path: str) -> None:
        self._tidied: set[str] = set()  # folders without what killed processes have left
        self._shown = utf8(path.rstrip("/") or path or ".")
        above, name = os.path.split(os.path.abspath(path))
        self._real = os.path.join(os.path.realpath(above), name)
        what = "" if name else "the root of the file system has no snapshots; name a folder"
        if os.path.islink(self._real):
            what = "the folder of snapshots is a symbolic link; remove it, or name where it leads"
        if what:
            how = option("dir", "snapshot_dirname")
            raise MultiturnError(f"{what} ({how})", where=self._shown)

    def shown(self, name: str) -> str:
        """Return the path of a file for messages; without a name, that of the folder."""
        return f"{self._shown}/{name}" if name else self._shown

    def name_of(self, shown: str) -> str:
        """Return the name of a file by its path for messages."""
        return shown.removeprefix(f"{self._shown}/")

    def path_of(self, name: str) -> str:
        """Return the absolute path of a file, which need not be there."""
        return os.path.join(self._real, *name.split("/"))

    def read(self, name: str) -> str | None:
        """Return the text of a file, with LF line ends whatever git made of them; None if none."""
        with self._refusing(name, "read"), suppress(FileNotFoundError, NotADirectoryError):
            descriptor = open_below(self._real, name.split("/"), FILE)
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.close(descriptor)
                what = "this is not a regular file; move it away"
                raise MultiturnError(what, where=self.shown(name))
            with open(descriptor, "rb") as file:
                return file.read().decode("utf-8", "replace").replace("\r\n", "\n")
        return None

    def write(self, name: str, text: str) -> None:
        """Write a file whole or not at all."""
        with self._refusing(name, "written"):
            self._make(os.path.dirname(name))
            with self._above(name) as (file, folder):
                beside = os.path.dirname(file)  # empty where the folder is open
                if os.path.dirname(name) not in self._tidied:
                    remove_abandoned(beside, _PARTIAL, folder)
                    self._tidied.add(os.path.dirname(name))
                take = partial(os.replace, dst=file, src_dir_fd=folder, dst_dir_fd=folder)
                with open_partial(os.path.join(beside, _PARTIAL), 0o666, take, folder) as opened:
                    opened.write(text.encode())

    def remove(self, name: str) -> None:
        """Remove a file, and the folders that it leaves empty."""
        with self._refusing(name, "removed"), suppress(FileNotFoundError):
            with self._above(name) as (file, folder):
                os.unlink(file, dir_fd=folder)
            while name := os.path.dirname(name):
                with self._above(name) as (file, folder):
                    try:
                        os.rmdir(file, dir_fd=folder)
                    except OSError:  # something else is in it
                        return

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait for other processes that do this, and keep them waiting; nothing on Windows."""
        if os.open not in os.supports_dir_fd:  # Windows opens no folder
            yield
            return
        with self._refusing("", "written"):
            os.makedirs(self._real, exist_ok=True)
            opened = os.open(self._real, os.O_RDONLY)
        try:
            with suppress(OSError):  # the file system has no locks
                lock(opened)
            yield
        finally:
            os.close(opened)

    def snapshots(self, folder: str, *, below: bool = False) -> Iterator[str]:
        """Yield the names of what may be snapshots in a folder of this one, in order."""
        for where, folders, names in os.walk(self.path_of(folder)):
            folders.sort()
            if not below:
                folders.clear()
            for name in sorted(names):
                path = os.path.join(where, name)
                if name.endswith(".yaml") and os.path.isfile(path) and not os.path.islink(path):
                    yield path.removeprefix(f"{self._real}{os.sep}").replace(os.sep, "/")

    def case_of(self, name: str) -> Key | None:
        """Return the case whose snapshot a file is; None if multiturn did not write it there."""
        case = recorded_case(self.read(name) or "")
        return case if case is not None and location_of(*case) == name else None

    def _make(self, folder: str) -> None:
        """Make a folder and those above it, if they are missing."""
        if not folder:
            os.makedirs(self._real, exist_ok=True)
            return
        self._make(os.path.dirname(folder))
        with self._above(folder) as (name, above), suppress(FileExistsError):
            os.mkdir(name, dir_fd=above)

    @contextmanager
    def _above(self, name: str) -> Iterator[tuple[str, int | None]]:
        """Open the folder of a file so that none above it is a link; yield its name in it."""
        if os.open not in os.supports_dir_fd:  # Windows
            yield self.path_of(name), None
            return
        *folders, file = name.split("/")
        folder = open_below(self._real, [*folders, "."], FOLDER)
        try:
            yield file, folder
        finally:
            os.close(folder)

    @contextmanager
    def _refusing(self, name: str, done: str) -> Iterator[None]:
        """Turn an OSError into a MultiturnError that names the file."""
        try:
            yield
        except OSError as error:
            what = f"cannot be {done}: {error.strerror}"
            if error.errno == errno.ELOOP:
                what = "a symbolic link leads there; remove the link"
            raise MultiturnError(what, where=self.shown(name)) from error
