"""The text of ``promoted.lock`` and ``files.lock``: one entry a file, in alphabetical order.

Git merges changes only if an unchanged line is between them. So each digest has a line of its own,
and a blank line ends each entry.
"""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import Struct

from multiturn.documents.dump import dump
from multiturn.documents.node import MAX_VALUES
from multiturn.documents.validation import read_as
from multiturn.documents.yaml_reader import read_documents
from multiturn.errors import MultiturnError
from multiturn.review.promotion import PromotedLock, Promotion
from multiturn.text import has_conflict, utf8

_T = TypeVar("_T")
PROMOTED, FILES = "promoted.lock", "files.lock"
_COMMENTS = {
    PROMOTED: "# The files in system messages: a change of this list is a change of privilege.\n",
    FILES: "# The files that snapshots name in place of their content: the SHA-256 of each.\n",
}
_LINES = r"(?:(?!<<<<<<< |\|{7}(?!\|)|=======\n|>>>>>>> ).*\n)*+"
_CONFLICT = re.compile(
    rf"^<<<<<<< .*\n(?P<ours>{_LINES})(?:\|{{7}}(?!\|).*\n{_LINES})?"
    rf"=======\n(?P<theirs>{_LINES})>>>>>>> .*\n",
    re.MULTILINE,
)

FilesLock = Mapping[str, tuple[str, ...]]  # the digests of each file, by its path


class _Promoted(Struct):
    """An item of an entry of ``promoted.lock``."""

    sha256: str
    pattern: str | None
    path: str = ""  # up to 0.1, entries were those of a suite, and had the path


def lock_text(name: str, lock: PromotedLock | FilesLock) -> str:
    """Return the text of a list."""
    entries = []
    for path in sorted(lock):
        items: list[Any] = []
        for item in lock[path]:
            items.append(item)
            if isinstance(item, Promotion):
                items[-1] = {"sha256": item.sha256, "pattern": item.pattern}
        entries.append(utf8(dump({path: items})).removeprefix("---\n") + "\n")
    return _COMMENTS[name] + ("---\n" + "".join(entries) if entries else dump({}))


def read_promoted(text: str | None, name: str) -> PromotedLock:
    """Read the list of promoted files; None is an empty one, a torn one an error."""
    found: dict[str, tuple[Promotion, ...]] = {}
    for key, items in _read(text, name, tuple[_Promoted, ...]).items():
        for item in items:
            path = item.path or key
            promotion = Promotion(path, item.sha256, item.pattern)
            found[path] = tuple(dict.fromkeys((*found.get(path, ()), promotion)))
    return found


def read_files(text: str | None, name: str) -> FilesLock:
    """Read the list of files that snapshots name, as ``read_promoted`` does."""
    return _read(text, name, tuple[str, ...])


def sides_of(text: str) -> tuple[str, str]:
    """Return a text with a merge conflict as it is on our side, and as it is on theirs."""
    return _CONFLICT.sub(r"\g<ours>", text), _CONFLICT.sub(r"\g<theirs>", text)


def _read(text: str | None, name: str, entry: type[_T]) -> dict[str, _T]:
    if text is None:
        return {}
    if has_conflict(text):
        what = "it has a merge conflict; run multiturn snapshot --resolve for all suites"
        raise MultiturnError(what, where=name)
    try:
        # As many as the files of all suites are: a list of any length, but no aliases that grow.
        documents = list(read_documents(text, name, max(MAX_VALUES, len(text))))
        if len(documents) != 1 or not isinstance(documents[0].value, dict):
            raise MultiturnError("it is not a list of files", where=name)
        children = documents[0].children.items()
        return {path: read_as(node, entry, where=name) for path, node in children}
    except MultiturnError as error:
        advice = "restore it, or remove it and run multiturn snapshot for all suites"
        raise MultiturnError(f"{error.what}; {advice}", where=error.where) from None
