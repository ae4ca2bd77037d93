"""The folder that holds snapshots: what is read, written and removed in it, and what is not."""

import os
from collections.abc import Iterator
from contextlib import suppress

from multiturn.documents.yaml_events import read_documents
from multiturn.errors import MultiturnError
from multiturn.output import open_output
from multiturn.prompts.record import utf8
from multiturn.review.snapshots import location_of


class SnapshotFolder:
    """The folder that holds the snapshots of any number of suites.

    Files are named by their path in it, with ``/``. A link in it is never followed: it could
    lead a write, or what a diff shows, out of the folder.

    Args:
        path: of the folder; need not be there.
    """

    def __init__(self, path: str) -> None:
        self._shown = utf8(path.rstrip("/") or path or ".")
        self._real = os.path.realpath(path)
        self.beside = os.path.dirname(self._real)

    def shown(self, name: str) -> str:
        """Return what messages call a file."""
        return f"{self._shown}/{name}"

    def path_of(self, name: str) -> str:
        """Return the absolute path of a file, which need not be there.

        Raises:
            MultiturnError: a link, or what is no regular file, has its place.
        """
        path = os.path.join(self._real, *name.split("/"))
        if not _is_without_links(path):
            raise self._refusal(name, "a symbolic link leads there; remove the link")
        if os.path.exists(path) and not os.path.isfile(path):
            raise self._refusal(name, "this is no regular file; move it away")
        return path

    def read(self, name: str) -> str | None:
        """Return the text of a file, with LF line ends as git may not leave them; None if none.

        Raises:
            MultiturnError: it cannot be read, or a link leads to it.
        """
        try:
            with open(self.path_of(name), "rb") as file:
                data = file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._refusal(name, f"cannot be read: {error.strerror}") from error
        return data.decode("utf-8", "replace").replace("\r\n", "\n")

    def write(self, name: str, text: str) -> None:
        """Write a file whole or not at all.

        Raises:
            MultiturnError: it cannot be written, or a link leads to it.
        """
        path = self.path_of(name)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open_output(path) as file:
                file.write(text.encode())
        except OSError as error:
            raise self._refusal(name, f"cannot be written: {error.strerror}") from error

    def remove(self, name: str) -> None:
        """Remove a file, and the folders that are empty then.

        Raises:
            MultiturnError: it cannot be removed.
        """
        path = self.path_of(name)
        try:
            with suppress(FileNotFoundError):
                os.remove(path)
        except OSError as error:
            raise self._refusal(name, f"cannot be removed: {error.strerror}") from error
        while (path := os.path.dirname(path)) != self._real:
            try:
                os.rmdir(path)
            except OSError:  # something else is in it
                return

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
        """Tell whether a file is somebody's own: no snapshot, nor what git left of one.

        Raises:
            MultiturnError: it cannot be read.
        """
        text = self.read(name) or ""
        return bool(text.strip()) and not ("\nsuite: " in text or "\nchat_prompt:" in text)

    def suite_of(self, name: str) -> str | None:
        """Return the suite whose snapshot a file is; None if multiturn did not write it there.

        Raises:
            MultiturnError: it cannot be read.
        """
        head, found, _ = (self.read(name) or "").partition("\nchat_prompt:")
        try:
            documents = [node.value for node in read_documents(f"{head}\n", name)] if found else []
        except MultiturnError:
            return None
        match documents:
            case [{"suite": str(suite), "id": str(case_id), **rest}] if not rest:
                return suite if location_of(suite, case_id) == name else None
        return None

    def _refusal(self, name: str, what: str) -> MultiturnError:
        return MultiturnError(what, where=self.shown(name))


def _is_without_links(path: str) -> bool:
    return os.path.normcase(os.path.realpath(path)) == os.path.normcase(path)
