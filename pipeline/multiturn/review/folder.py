"""Safe reading, writing and removing in the folder of snapshots."""

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from multiturn.documents.yaml_events import read_documents
from multiturn.errors import MultiturnError
from multiturn.prompts.record import utf8
from multiturn.review.snapshots import location_of

_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_READ = os.O_RDONLY | _NO_LINK
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_LINK
_ABSENT = (FileNotFoundError, NotADirectoryError)
_LINK = "a symbolic link leads there; remove the link"
# Git's mark of a conflict, and the half of it that came from elsewhere.
_CONFLICT = re.compile("^(?:<<<<<<< [^\n]*|=======\n.*?^>>>>>>> [^\n]*)\n", re.M | re.DOTALL)

_Place = tuple[str, int | None]  # a file's name, and the open folder that it is in


class SnapshotFolder:
    """The folder that holds the snapshots of any number of suites.

    Files are named by their path in it, with ``/``. No symbolic link is followed, even if it
    replaces a folder meanwhile: it could lead a write, or what a diff shows, out of the folder.

    Args:
        path: of the folder; need not be there.

    Raises:
        MultiturnError: the folder is a link.
    """

    def __init__(self, path: str) -> None:
        self._shown = utf8(path.rstrip("/") or path or ".")
        above, name = os.path.split(os.path.abspath(path))
        self._real = os.path.join(os.path.realpath(above), name)
        self.beside = os.path.dirname(self._real)
        if os.path.islink(self._real):
            what = "the folder of snapshots is a symbolic link; remove it, or name where it leads"
            raise MultiturnError(f"{what} (--dir)", where=self._shown)

    def shown(self, name: str) -> str:
        """Return the path of a file for messages."""
        return f"{self._shown}/{name}"

    def path_of(self, name: str) -> str:
        """Return the absolute path of a file, which need not be there.

        Raises:
            MultiturnError: it is a link, or not a regular file.
        """
        with self._refusing(name, "read"), suppress(*_ABSENT), self._above(name) as place:
            self._stat(name, place)
        return os.path.join(self._real, *name.split("/"))

    def read(self, name: str) -> str | None:
        """Return the text of a file, with LF line ends whatever git made of them; None if none.

        Raises:
            MultiturnError: it cannot be read, or is not a regular file.
        """
        with self._refusing(name, "read"), suppress(*_ABSENT), self._above(name) as place:
            if self._stat(name, place) is None:
                return None
            file, folder = place
            with open(os.open(file, _READ, dir_fd=folder), "rb") as opened:
                return opened.read().decode("utf-8", "replace").replace("\r\n", "\n")
        return None

    def write(self, name: str, text: str) -> None:
        """Write a file whole or not at all.

        Raises:
            MultiturnError: it cannot be written, or is not a regular file.
        """
        with self._refusing(name, "written"), self._above(name, make=True) as (file, folder):
            old = self._stat(name, (file, folder))
            partial = os.path.join(os.path.dirname(file), f".multiturn-{os.urandom(8).hex()}")
            descriptor = os.open(partial, _CREATE, 0o666, dir_fd=folder)
            try:
                with open(descriptor, "wb") as opened:
                    if old is not None and os.chmod in os.supports_fd:
                        os.chmod(descriptor, stat.S_IMODE(old.st_mode))
                    opened.write(text.encode())
                    opened.flush()
                    os.fsync(descriptor)
                os.replace(partial, file, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(FileNotFoundError):  # an interrupt right after it took its name
                    os.unlink(partial, dir_fd=folder)
                raise

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the folder against other processes that call this; does nothing on Windows."""
        try:
            import fcntl
        except ImportError:  # Windows
            yield
            return
        opened = os.open(self._real, _FOLDER)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX)
            yield
        finally:
            os.close(opened)

    def remove(self, name: str) -> None:
        """Remove a file, and the folders that it leaves empty.

        Raises:
            MultiturnError: it cannot be removed.
        """
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
    def _above(self, name: str, *, make: bool = False) -> Iterator[_Place]:
        """Open the folder of a file, name by name, so that none of them can become a link.

        Args:
            name: of the file.
            make: folders that are missing.
        """
        if make:
            os.makedirs(self._real, exist_ok=True)
        *folders, file = name.split("/")
        if os.open not in os.supports_dir_fd:  # Windows
            if make:
                os.makedirs(os.path.join(self._real, *folders), exist_ok=True)
            yield os.path.join(self._real, *name.split("/")), None
            return
        opened = os.open(self._real, _FOLDER)
        try:
            for folder in folders:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(folder, dir_fd=opened)
                if _is_link(folder, opened):
                    raise self._refusal(name, _LINK)
                above, opened = opened, os.open(folder, _FOLDER, dir_fd=opened)
                os.close(above)
            yield file, opened
        finally:
            os.close(opened)

    def _stat(self, name: str, place: _Place) -> os.stat_result | None:
        """Return the stat result of a place; None if nothing is there.

        Raises:
            MultiturnError: it is a link, or not a regular file.
        """
        file, folder = place
        try:
            found = os.stat(file, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(found.st_mode):
            raise self._refusal(name, _LINK)
        if not stat.S_ISREG(found.st_mode):
            raise self._refusal(name, "this is not a regular file; move it away")
        return found

    def snapshots(self, folder: str, *, below: bool = False) -> Iterator[str]:
        """Yield the names of what may be snapshots in a folder, in order.

        Args:
            folder: a path in this one; empty for all of it.
            below: also in the folders below.
        """
        top = os.path.join(self._real, *filter(None, folder.split("/")))
        if not _is_without_links(top):
            return
        for where, folders, names in os.walk(top):
            folders.sort()
            if not below:
                folders.clear()
            for name in sorted(names):
                path = os.path.join(where, name)
                if name.endswith(".yaml") and os.path.isfile(path) and not os.path.islink(path):
                    yield path[len(self._real) + 1 :].replace(os.sep, "/")

    def is_foreign(self, name: str) -> bool:
        """Return whether a file is neither a snapshot nor one with a merge conflict.

        Raises:
            MultiturnError: it cannot be read.
        """
        text = self.read(name) or ""
        return bool(text.strip()) and _head(text) is None

    def case_of(self, name: str) -> tuple[str, str] | None:
        """Return the suite and the id of the case whose snapshot a file is.

        None if multiturn did not write it there.

        Raises:
            MultiturnError: it cannot be read.
        """
        text = self.read(name) or ""
        case = None if _CONFLICT.search(text) else _head(text)
        return case if case is not None and location_of(*case) == name else None

    @contextmanager
    def _refusing(self, name: str, done: str) -> Iterator[None]:
        """Turn an OSError into a MultiturnError that names the file."""
        try:
            yield
        except OSError as error:
            if error.errno == errno.ELOOP:  # a link has just taken its place
                raise self._refusal(name, _LINK) from None
            raise self._refusal(name, f"cannot be {done}: {error.strerror}") from error

    def _refusal(self, name: str, what: str) -> MultiturnError:
        return MultiturnError(what, where=self.shown(name))


def _head(text: str) -> tuple[str, str] | None:
    """Return the suite and the id at the start of a snapshot; None if it is not one."""
    head, found, _ = _CONFLICT.sub("", text).partition("\nchat_prompt:")
    try:
        documents = [node.value for node in read_documents(f"{head}\n", "")] if found else []
    except MultiturnError:
        return None
    match documents:
        case [{"suite": str(suite), "id": str(case_id), **rest}] if not rest:
            return suite, case_id
    return None


def _is_link(name: str, folder: int) -> bool:
    with suppress(FileNotFoundError):
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    return False


def _is_without_links(path: str) -> bool:
    with suppress(OSError):  # a folder became a link just now
        return os.path.normcase(os.path.realpath(path)) == os.path.normcase(path)
    return False
