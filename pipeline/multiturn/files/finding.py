"""Finding and reading attached files: inside the root, and nowhere else."""

import errno
import os
import re
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any
from unicodedata import normalize

from multiturn import errors
from multiturn.errors import AttachmentError, OutsideRootError, nearly, option, quoted
from multiturn.files.media import HEAD, TYPES, Media, Store, too_large, type_of
from multiturn.files.paths import FILE, StrPath, above, hint_at, is_below, open_below, real_path
from multiturn.logs import Notice, warn
from multiturn.text import CONFLICT, CONTROL

# Case does not count: on macOS and Windows ``.ENV`` opens the file ``.env``.
_PRIVATE = r"(?is)\.git|\.env(?!\.(example|sample|template)$)(\..*)?"
_LONGEST = 4096  # characters, as in Linux; realpath takes the square of the length
_MOST_COMPARED = 100  # names in a folder, with that of a missing file: 4 ms for each of them


class Texts(dict[str, tuple[int, str, str] | Media]):
    """What was read in a run, by the real path of each file.

    Of each text: its size in bytes, its text without the newlines at its end, and these newlines.
    """

    def __init__(self, *known: Mapping[str, tuple[int, str, str] | Media]) -> None:
        super().__init__(*known)
        self.store = Store()  # of their bytes
        self.warned: set[errors.Place | str] = set()  # places; of merge conflicts, the files


class Files:
    """The files that a suite can attach.

    Args:
        folder: where the suite is; looked in first, then each parent up to the root.
        root: nothing outside it is read.
        texts: shared by the suites of a run, so that each file is read once.
    """

    def __init__(self, folder: StrPath, root: StrPath, texts: Texts | None = None) -> None:
        self.root = real_path(root)
        self._texts = Texts() if texts is None else texts
        self.warned = self._texts.warned
        self.store = self._texts.store  # of the bytes of media
        self._found: dict[str, str] = {}
        self._folder = real_path(folder)
        inside = [each for each in above(self._folder) if is_below(each, self.root)]
        self.folders = inside or [self.root]
        # The path of the suite itself, as ``path_in`` has it; None for one outside the root.
        self.suite: str | None = None

    def __repr__(self) -> str:
        return f"Files({self.folders[0]!r}, {self.root!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out what was read: another process reads it again, but media in its case."""
        return Files, (self._folder, self.root), {"suite": self.suite}

    def read_media(self, names: Iterable[str]) -> dict[str, tuple[str, Media]]:
        """Return, of files by the names in a suite, resolved path and media, if they were read."""
        found = {name: self._found[name] for name in names if name in self._found}
        read = ((name, path, self.known(path)) for name, path in found.items())
        return {name: (path, each) for name, path, each in read if isinstance(each, Media)}

    def add_media(self, read: Mapping[str, tuple[str, Media]]) -> None:
        """Know what ``read_media`` has returned in another process."""
        for name, (path, media) in read.items():
            if media.has_bytes:
                self._found[name] = path
                self._texts[self._path(path)] = media

    def find(self, written: str) -> str:
        """Return the path, relative to the root and with ``/``, of a file as a suite names it.

        It is looked for beside the suite, then in each folder above up to the root; after a
        leading ``/``, in the root first.

        Raises:
            OutsideRootError: it leads outside the root, by ``..`` or through a symbolic link.
            AttachmentError: there is no such file.
            MultiturnError: it may hold keys: ``.env``, or a file of git's.
        """
        resolved = self._found.get(written)
        if resolved is None:
            try:
                resolved = self._found[written] = self._find(written)
            except OSError as error:
                what = f"cannot read {quoted(written)}: {error.strerror}"
                raise AttachmentError(what) from None
        return resolved

    def read(
        self, resolved_path: str, max_bytes: int, trailing_newlines: bool = False, written: str = ""
    ) -> str:
        """Return a file's text: no byte-order mark, LF line ends, no trailing newlines (rule 3).

        Args:
            resolved_path: as ``find`` returned it.
            max_bytes: a larger file is an error.
            trailing_newlines: whether to keep those at the file's end.
            written: what errors call it; by default, its resolved path.

        Raises:
            OutsideRootError: it leads outside the root, or a link replaced it since it was found.
            AttachmentError: not a regular file, unreadable, too large, or not UTF-8.
        """
        shown, path = quoted(written or resolved_path), self._path(resolved_path)
        known = self._texts.get(path)
        if known is None or isinstance(known, Media):
            data = _read_regular(self.root, resolved_path, shown, max_bytes)
            known = self._texts[path] = _entry_of(data, shown)
        size, text, newlines = known
        if size > max_bytes:
            raise too_large(shown, max_bytes)
        return text + newlines if trailing_newlines else text

    def attached(
        self, resolved_path: str, written: str, max_bytes: int, max_media_bytes: int, keep: bool
    ) -> str | Media:
        """Return the text of a file, as ``read`` does, or the media that its first bytes tell.

        Args:
            resolved_path: as ``find`` returned it.
            written: the path as the suite has it.
            max_bytes: a larger text is an error.
            max_media_bytes: a larger image, document or audio is an error.
            keep: whether to keep the newlines at the end of a text.

        Raises:
            OutsideRootError, AttachmentError: as ``read`` does.
        """
        path, shown, limit = self._path(resolved_path), quoted(written), max_media_bytes
        if path not in self._texts:
            data = _read_regular(self.root, resolved_path, shown, max_bytes, limit)
            if type_of(data[:HEAD]) is None:
                self._texts[path] = _entry_of(data, shown)
            else:
                self._texts[path] = Media.of(data, written, store=self.store, max_bytes=limit)
        known = self._texts[path]
        if not isinstance(known, Media):
            return self.read(resolved_path, max_bytes, keep, written)
        if known.size > limit:
            raise too_large(shown, limit, "max_media_bytes")
        return known if known.path == written else known.replace(path=written)

    def warn_of_conflict(self, resolved_path: str, text: str) -> None:
        """Warn of the lines of a merge conflict in a file, once in a run."""
        path = self._path(resolved_path)
        if path in self.warned or not re.search(CONFLICT, text):
            return
        self.warned.add(path)
        why = "it has lines of a merge conflict; if it is one, merge it, and run this again"
        warn(Notice("file.conflict", errors.Place(resolved_path), why))

    def known(self, resolved_path: str) -> str | Media | None:
        """Return the text (rule 3) or the media of a file that was read before, else None."""
        known = self._texts.get(self._path(resolved_path))
        return known[1] if isinstance(known, tuple) else known

    def _path(self, resolved_path: str) -> str:
        names = resolved_path.split("/")
        path = os.path.join(self.root, *names)
        # ``find`` returns no such path, but ``read`` is public, and a path may come from elsewhere.
        is_normal = resolved_path == "." or not {"", ".", ".."} & set(names)
        if not (is_normal and is_below(os.path.normpath(path), self.root)):
            raise outside_root(resolved_path, self.root)
        return path

    def _find(self, written: str) -> str:
        if not written.strip():
            raise AttachmentError("an attached file needs a path")
        if re.search(CONTROL, written):
            raise AttachmentError(f"the path {quoted(written)} has a control character")
        if len(written) > _LONGEST:
            raise AttachmentError(f"the path {quoted(written)} has over {_LONGEST:,} characters")
        path = written.lstrip("/")
        folders = [self.root, *self.folders[:-1]] if path != written else self.folders
        for number, folder in enumerate(folders):
            candidate = os.path.normpath(os.path.join(folder, path))
            if not is_below(candidate, self.root):
                # From a folder above the first, the same ".." leads higher than its author meant.
                if number == 0:
                    raise outside_root(written, self.root)
                continue
            real = os.path.realpath(candidate)
            if not is_below(real, self.root):
                raise outside_root(written, self.root)
            if os.path.exists(real):
                names = self._names(real)
                if any(re.fullmatch(_PRIVATE, name) for name in names):
                    raise errors.InputError(
                        f"{quoted(written)} is never attached, as it may hold keys;"
                        " attach a copy without them"
                    )
                return "/".join(names)
        raise AttachmentError(f"no file {quoted(written)}. {self._hint(written, folders)}")

    def _hint(self, written: str, folders: list[str]) -> str:
        """Return where a missing file was looked for, and what may be wrong with its path."""
        looked = ", ".join(f"{os.path.relpath(folder, self.root)}/" for folder in folders)
        hint = ""
        if re.search(r"://|[\\*?\[{]", written):
            hint = "; name one file, with / after each folder"
        elif near := self._near(written, folders):
            hint = hint_at(near, written)
        elif self.folders == [self.root] and not os.path.exists(os.path.join(self.root, ".git")):
            hint = f", the root; for another root, use {option('root')}"
        return f"Looked in {looked}{hint}"

    def _near(self, written: str, folders: list[str]) -> str | None:
        """Return the path of a file with a similar name, if there is one in a folder looked in."""
        inner, name = os.path.split(written)
        name = normalize("NFC", name)
        for folder in folders:
            beside = os.path.realpath(os.path.join(folder, inner.lstrip("/")))
            names: dict[str, str] = {}
            if is_below(beside, self.root):  # what is outside is not shown
                with suppress(OSError):
                    names = {normalize("NFC", each): each for each in os.listdir(beside)}
            known = names if len(names) <= _MOST_COMPARED else names.keys() & {name}
            near = errors.nearest(name, known)
            if near and nearly(name, [near]):
                near = names[near]
                real = os.path.realpath(os.path.join(beside, near))
                may_attach = is_below(real, self.root) and os.path.isfile(real)
                if may_attach and not any(re.fullmatch(_PRIVATE, n) for n in self._names(real)):
                    return os.path.join(inner, near)
        return None

    def _names(self, real: str) -> list[str]:
        return os.path.relpath(real, self.root).split(os.sep)


def outside_root(written: str, root: str) -> OutsideRootError:
    """Return the error for a path that leads outside the root."""
    return OutsideRootError(
        f"{quoted(written)} is outside the root {root}, and only files inside it are read;"
        f" move the file, or name a root that holds it ({option('root')})"
    )


def _read_regular(
    root: str, resolved_path: str, shown: str, max_bytes: int, max_media_bytes: int = 0
) -> bytes:
    """Read a file below the root, if it is a regular one."""
    try:
        descriptor = open_below(root, resolved_path.split("/"), FILE)
        try:
            opened = os.fstat(descriptor)
            if not stat.S_ISREG(opened.st_mode):
                raise AttachmentError(f"{shown} is not a regular file; attach regular files only")
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(HEAD)
                is_media = max_media_bytes and type_of(data)
                most = max_media_bytes if is_media else max_bytes
                option = "max_media_bytes" if is_media else "max_file_bytes"
                size = opened.st_size
                # Not with the limit as a size: read takes that much memory at once.
                while max(size, len(data)) <= most and (piece := file.read(max(size, 2**16))):
                    data += piece
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OutsideRootError(f"{shown} became a symbolic link while it was read") from None
        raise AttachmentError(f"cannot read {shown}: {error.strerror}") from None
    if max(size, len(data)) > most:
        raise too_large(shown, most, option)
    return data


def _entry_of(data: bytes, shown: str) -> tuple[int, str, str]:
    """Return what ``Texts`` keeps of a file's bytes."""
    try:
        whole = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        what = f"{shown} is neither UTF-8 text (byte {error.start}) nor {TYPES}; convert it"
        raise AttachmentError(what) from None
    whole = whole.replace("\r\n", "\n")
    text = whole.rstrip("\n")
    return len(data), text, whole[len(text) :]
