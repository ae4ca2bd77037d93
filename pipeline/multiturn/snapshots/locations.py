"""The names of suites in their roots, and of the files of their cases' snapshots."""

import hashlib
import re
from functools import lru_cache

from multiturn.errors import MultiturnError, option
from multiturn.files.media import Media
from multiturn.files.paths import path_in, real_path
from multiturn.model.case import Case

Key = tuple[str, str]  # suite and id

_LONGEST = 100  # characters of a name, before its digest
_UNSAFE = re.compile(r"[^A-Za-z0-9_. -]|\A[. -]|[. ]\Z")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9]) *(?:\.|\Z)", re.IGNORECASE)
# A folder must not be named as a file of ours may be, nor a snapshot as a suite.
_OUR_EXTENSION = re.compile(r"\.(?=(?:yaml|lock|eval)\Z)", re.IGNORECASE)
_SUITE_EXTENSION = re.compile(r"\.(eval\.yaml|eval\.yml|eval\.jsonl|yaml|yml|jsonl)\Z")


def digest(file: str | Media) -> str:
    """Return the SHA-256 of a text as it is sent, in UTF-8, after rule 3; or of media's bytes."""
    return file.digest if isinstance(file, Media) else _sha256(file)


@lru_cache(maxsize=16)  # many cases attach the same file
def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def suite_of(case: Case) -> str:
    """Return the name of a case's suite in its root; as it is, if the case has no files."""
    if case.files is None or not case.suite:
        return case.suite
    return case.files.suite or name_in_root(case.suite, case.files.root)


def name_in_root(path: str, root: str) -> str:
    """Return the path of a suite relative to a root, which must hold it, with ``/``, no links."""
    name = path_in(real_path(root), real_path(path))
    if name is None:
        what = "a snapshot needs a suite inside its root; name a root that holds it"
        what += f" ({option('root')})"
        raise MultiturnError(what, where=path)
    return name


def location_of(suite: str, case_id: str) -> str:
    """Return the path of a case's snapshot in the folder of snapshots, with ``/``.

    It depends on nothing but the two names, is a legal path on every platform, and no two cases
    have the same one. An id keeps its ASCII letters, digits, ``_``, ``.``, ``-`` and spaces; all
    else, and what is special to some system at its place, is percent-encoded.
    ``~`` and a digest follow a name that is too long, and one with capitals, which some file
    systems do not tell from small letters.

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


@lru_cache
def folder_of(suite: str) -> str:
    """Return the path of the folder of a suite's snapshots in the folder of all, with ``/``.

    ``a.eval.yaml`` has the folder ``a``. Any other extension is kept after a ``~``, so that
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
