"""Snapshots of suites: what is recorded of a case, and the file that holds it."""

import hashlib
import os
import re
from collections.abc import Iterator
from typing import Any

from multiturn.block_yaml import dump
from multiturn.errors import MultiturnError
from multiturn.model import Case, Conversion
from multiturn.output import open_output
from multiturn.rendering import utf8
from multiturn.yaml_events import read_documents

_LONGEST = 100  # characters of a name, before its digest
_UNSAFE = re.compile(r"[^A-Za-z0-9_. -]|\A[. -]|[. ]\Z")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9]) *(?:\.|\Z)", re.IGNORECASE)
# A folder must not be named as a file of ours may be, nor a snapshot as a suite.
_OUR_EXTENSION = re.compile(r"\.(?=(?:yaml|lock|eval)\Z)", re.IGNORECASE)
_SUITE_EXTENSION = re.compile(r"\.(eval\.yaml|eval\.yml|eval\.jsonl|yaml|yml|jsonl)\Z")

_NO_ID = re.compile(r"(evalcases\[\d+\])?")  # what stands for a case whose id is not known


def snapshot_of(conversion: Conversion) -> dict[str, Any]:
    """Return what a snapshot records of a case, in the order in which it is written.

    It names no absolute path and no time: the same case gives the same snapshot in any checkout.

    Args:
        conversion: finished, by any pipeline.

    Raises:
        MultiturnError: the suite is outside its root.
    """
    case, chat = conversion.case, conversion.chat
    return {
        "suite": suite_of(case),
        "id": case.id,
        "chat_prompt": None
        if chat is None
        else [{"role": turn.role, "content": turn.content} for turn in chat],
        "question": conversion.question,
        "input_files": [
            {
                "path": file.path,
                "resolved_path": file.resolved_path,
                "guideline": file.guideline,
                "sha256": digest(file.text),
            }
            for file in conversion.input_files
        ],
    }


def snapshot_text(conversion: Conversion) -> str:
    """Return the text of a case's snapshot file: YAML, with LF line ends.

    Raises:
        MultiturnError: the suite is outside its root.
    """
    return utf8(dump(snapshot_of(conversion)))


def digest(text: str) -> str:
    """Return the SHA-256 of a text as it is sent: in UTF-8, after rule 3."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def suite_of(case: Case) -> str:
    """Return the path of a case's suite relative to its root, with ``/``.

    A case that is of no suite, or has no files, keeps what it says.

    Raises:
        MultiturnError: the suite is outside its root.
    """
    if case.files is None or not case.suite:
        return case.suite
    return name_in_root(case.suite, case.files.root)


def name_in_root(path: str, root: str) -> str:
    """Return the path of a suite relative to a root, with ``/``, links resolved.

    Raises:
        MultiturnError: it is outside the root.
    """
    real = os.path.realpath(path)
    top = os.path.realpath(root).rstrip(os.sep) + os.sep
    if not real.startswith(top):
        what = "a snapshot needs a suite inside its root; name a root that holds it (--root)"
        raise MultiturnError(what, where=path)
    return real[len(top) :].replace(os.sep, "/")


def location_of(suite: str, case_id: str) -> str:
    """Return the path of a case's snapshot in the folder of snapshots, with ``/``.

    It depends on nothing but the two names, is a legal path on every platform, and no two cases
    have the same one. An id keeps its ASCII letters, digits, ``_``, ``.``, ``-`` and spaces; all
    else, and what some system takes for something special where it stands, is percent-encoded.
    ``~`` and a digest follow a name that is too long, and one with capitals, which some file
    systems do not tell from small letters.

    Args:
        suite: relative to its root, with ``/``.
        case_id: as the suite has it.

    >>> location_of("evals/review.eval.yaml", "sql-injection")
    'evals/review/sql-injection.yaml'
    >>> location_of("evals/review.yaml", "../con")
    'evals/review~yaml/%2E.%2Fcon.yaml'
    >>> location_of("evals/review.eval.yaml", "TC-1")
    'evals/review/TC-1~294574ecc1e0.yaml'
    """
    name = _legal(case_id)
    if re.search("[A-Z]", case_id) and "~" not in name:
        name += f"~{digest(case_id)[:12]}"
    return f"{folder_of(suite)}/{name}.yaml"


def kept_location(suite: str, error: MultiturnError) -> str | None:
    """Return the path of the snapshot that a broken case keeps; None if its id is not known.

    Args:
        suite: relative to its root, with ``/``.
        error: what is wrong with the case.
    """
    if error.case_id is None or not is_known(error.case_id):
        return None
    return location_of(suite, error.case_id)


def is_known(case_id: str | None) -> bool:
    """Tell whether an error's case has an id, and is not just the one at a place."""
    return case_id is not None and not _NO_ID.fullmatch(case_id)


def folder_of(suite: str) -> str:
    """Return the path of the folder of a suite's snapshots in the folder of all, with ``/``.

    ``a.eval.yaml`` has the folder ``a``. Any other extension is kept behind a ``~``, so that
    suites that differ in nothing else have folders of their own.

    >>> folder_of("evals/a.eval.yaml"), folder_of("evals/a.eval.jsonl"), folder_of("a.yaml")
    ('evals/a', 'evals/a~eval.jsonl', 'a~yaml')
    """
    folder, slash, name = suite.rpartition("/")
    match = _SUITE_EXTENSION.search(name)
    stem, extension = (name[: match.start()], match[1]) if match else (name, "")
    mark = "" if extension == "eval.yaml" else f"~{extension}"
    return f"{legal_path(folder)}{slash}{_legal(stem)}{mark}"


def legal_path(folder: str) -> str:
    """Return where the snapshots of all suites below a folder are, with ``/``; empty for all."""
    return "/".join(map(_legal, filter(None, folder.split("/"))))


def _legal(name: str) -> str:
    """Return a name that every file system takes as it is; other names give other ones."""
    legal = _OUR_EXTENSION.sub("%2E", _UNSAFE.sub(_encoded, name))
    if _DEVICE.match(legal):
        legal = f"%{ord(legal[0]):02X}{legal[1:]}"
    if not legal or len(legal) > _LONGEST:
        legal = f"{legal[:_LONGEST]}~{digest(name)[:12]}"
    return legal


def _encoded(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass"))


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
