"""Finding and reading attached files: inside the root, and nowhere else."""

import errno
import os
import re
import stat
from pathlib import Path

from multiturn.errors import AttachmentError, OutsideRootError

_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)  # opening a FIFO must not wait for its writer
)


# Besides NUL: a path stands in headers and markers, where a line break would forge another line.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class Texts(dict[tuple[str, bool], tuple[int, str]]):
    """What was read in a run: the size in bytes and the text of each file.

    The keys are its real path, and whether the newlines at its end are kept.
    """


class Files:
    """The files that a suite can attach.

    Args:
        folder: where the suite is; looked in first, then each parent up to the root.
        root: nothing outside it is read.
        texts: shared by the suites of a run, so that each file is read once.
    """

    def __init__(self, folder: Path, root: Path, texts: Texts | None = None) -> None:
        self.root = os.path.realpath(root)
        self._texts = Texts() if texts is None else texts
        self._found: dict[str, str] = {}
        folder_path = os.path.realpath(folder)
        self.folders = []
        while self._is_inside(folder_path) and folder_path != self.root:
            self.folders.append(folder_path)
            folder_path = os.path.dirname(folder_path)
        self.folders.append(self.root)

    def find(self, written: str) -> str:
        """Return the path, relative to the root and with ``/``, of a file as a suite names it.

        It is looked for beside the suite, then in each folder above up to the root; after a
        leading ``/``, in the root first.

        Raises:
            OutsideRootError: it leads outside the root, by ``..`` or through a symbolic link.
            AttachmentError: there is no such file.
        """
        resolved = self._found.get(written)
        if resolved is None:
            resolved = self._found[written] = self._find(written)
        return resolved

    def read(self, resolved_path: str, max_bytes: int, trailing_newlines: bool = False) -> str:
        """Return a file's text: no byte-order mark, LF line ends, no trailing newlines (rule 3).

        Args:
            resolved_path: as ``find`` returned it.
            max_bytes: a larger file is an error.
            trailing_newlines: whether to keep those at the file's end.

        Raises:
            OutsideRootError: a symbolic link took the file's place since it was found.
            AttachmentError: not a regular file, unreadable, too large, or not UTF-8.
        """
        path = os.path.join(self.root, *resolved_path.split("/"))
        known = self._texts.get((path, trailing_newlines))
        if known is None:
            data = _read_regular(path, max_bytes)
            try:
                text = data.decode("utf-8-sig")
            except UnicodeDecodeError as error:
                raise AttachmentError(
                    f"{resolved_path!r} is not UTF-8 text (byte {error.start});"
                    " attach text files only"
                ) from None
            text = text.replace("\r\n", "\n")
            known = (len(data), text if trailing_newlines else text.rstrip("\n"))
            self._texts[path, trailing_newlines] = known
        size, text = known
        if size > max_bytes:
            raise _too_large(resolved_path, max_bytes)
        return text

    def _find(self, written: str) -> str:
        if not written.strip():
            raise AttachmentError("an attached file needs a path")
        if _CONTROL.search(written):
            raise AttachmentError(f"the path {written!r} has a control character")
        path = written.lstrip("/")
        folders = [self.root, *self.folders[:-1]] if path != written else self.folders
        for number, folder in enumerate(folders):
            candidate = os.path.normpath(os.path.join(folder, path))
            if not self._is_inside(candidate):
                if number == 0:
                    raise self._outside(written)
                continue
            real = os.path.realpath(candidate)
            if not self._is_inside(real):
                raise self._outside(written)
            if os.path.exists(real):
                return os.path.relpath(real, self.root).replace(os.sep, "/")
        looked = ", ".join(f"{os.path.relpath(folder, self.root)}/" for folder in folders)
        hint = "; a leading / means from the root first" if path != written else ""
        raise AttachmentError(f"no file {written!r}. Looked in {looked}{hint}")

    def _is_inside(self, path: str) -> bool:
        return path == self.root or path.startswith(self.root.rstrip(os.sep) + os.sep)

    def _outside(self, written: str) -> OutsideRootError:
        return OutsideRootError(
            f"{written!r} is outside the root {self.root}, and only files inside it are read;"
            " move the file, or name a root that holds it (--root)"
        )


def find_root(folder: Path) -> Path:
    """Return the nearest folder with ``.git``, from a folder up; else the folder itself."""
    above = (folder, *folder.parents)
    return next((path for path in above if os.path.exists(path / ".git")), folder)


def _read_regular(path: str, max_bytes: int) -> bytes:
    """Read a file that is what its path says: opened once, then checked as it was opened."""
    name = os.path.basename(path)
    try:
        descriptor = os.open(path, _FLAGS)
        try:
            opened = os.fstat(descriptor)
            if not stat.S_ISREG(opened.st_mode):
                raise AttachmentError(f"{name!r} is not a regular file; attach text files only")
            if os.path.realpath(path) != path or not os.path.samestat(opened, os.stat(path)):
                raise OutsideRootError(f"{name!r} was replaced while it was opened")
            if opened.st_size > max_bytes:
                raise _too_large(name, max_bytes)
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(max_bytes + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OutsideRootError(f"{name!r} became a symbolic link") from None
        raise AttachmentError(f"cannot read {name!r}: {error.strerror}") from None
    if len(data) > max_bytes:
        raise _too_large(name, max_bytes)
    return data


def _too_large(name: str, max_bytes: int) -> AttachmentError:
    return AttachmentError(
        f"{name!r} is larger than {max_bytes:,} bytes; raise max_file_bytes of resolve_segments"
    )
