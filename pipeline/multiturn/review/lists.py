"""The lists beside the snapshots: the files in system messages, and those that snapshots name."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from multiturn.documents.dump import dump
from multiturn.documents.node import MAX_VALUES
from multiturn.documents.validation import read_as
from multiturn.documents.yaml_events import read_documents
from multiturn.errors import MultiturnError
from multiturn.review.changes import FileChange
from multiturn.review.folder import SnapshotFolder
from multiturn.review.locations import Key, digest
from multiturn.review.promotion import (
    PromotedChange,
    PromotedLock,
    Promotion,
    changes_of_privilege,
    in_order,
)
from multiturn.review.reviewed import ReviewedCase
from multiturn.review.snapshots import has_conflict
from multiturn.text import utf8

_T = TypeVar("_T")
PROMOTED, FILES = "promoted.lock", "files.lock"
_COMMENTS = {
    PROMOTED: "# The files in system messages: a change of this list is a change of privilege.\n",
    FILES: "# The files that snapshots name in place of their texts: the SHA-256 of each text.\n",
}

FilesLock = Mapping[str, Mapping[str, str]]  # the digest of each file, by suite and path


def lock_text(name: str, lock: PromotedLock | FilesLock) -> str:
    """Return the text of a list: a section for each suite that has anything on it."""
    sections = {suite: msgspec.to_builtins(lock[suite]) for suite in sorted(lock) if lock[suite]}
    return _COMMENTS[name] + utf8(dump(sections))


def read_promoted(text: str | None, name: str) -> PromotedLock:
    """Read the list of promoted files; None is an empty one, a torn one an error."""
    return _read(text, name, tuple[Promotion, ...])


def read_files(text: str | None, name: str) -> FilesLock:
    """Read the list of files that snapshots name, as ``read_promoted`` does."""
    return _read(text, name, dict[str, str])


def _read(text: str | None, name: str, section: type[_T]) -> dict[str, _T]:
    try:
        if text is None:
            return {}
        if has_conflict(text):
            raise MultiturnError("it has a merge conflict", where=name)
        # As many as the files of all suites are: a list of any length, but no aliases that grow.
        documents = list(read_documents(text, name, max(MAX_VALUES, len(text))))
        if len(documents) != 1 or not isinstance(documents[0].value, dict):
            raise MultiturnError("it is not a list of files by suite", where=name)
        children = documents[0].children.items()
        return {suite: read_as(node, section, where=name) for suite, node in children}
    except MultiturnError as error:
        advice = "restore it, or remove it and run multiturn snapshot for all suites"
        raise MultiturnError(f"{error.what}; {advice}", where=error.where) from None


class ChangedFile(NamedTuple):
    """A file that snapshots name, with another text than recorded."""

    suite: str
    path: str
    is_listed: bool
    cases: list[Key]  # that attach it


class Lists:
    """``promoted.lock`` and ``files.lock``, as they are recorded and as this run finds them."""

    def __init__(self, folder: SnapshotFolder, suites: Iterable[str]) -> None:
        self._folder = folder
        self._texts = {name: folder.read(name) for name in (PROMOTED, FILES)}
        self._promoted = read_promoted(self._texts[PROMOTED], folder.shown(PROMOTED))
        self._files = read_files(self._texts[FILES], folder.shown(FILES))
        # The cases that have each entry, by suite; a file's path goes with its digest.
        self._promoting: dict[str, dict[Promotion, list[Key]]] = {suite: {} for suite in suites}
        self._naming: dict[str, dict[tuple[str, str], list[Key]]] = {suite: {} for suite in suites}

    def add(self, case: ReviewedCase, *, inline: bool) -> None:
        """Add the files of a case; if it is not inline, also those that its snapshot may name."""
        key, suite = case.key, case.suite
        for promotion in case.promoted:
            self._promoting[suite].setdefault(promotion, []).append(key)
        for path, text in () if inline else case.files.items():
            self._naming[suite].setdefault((utf8(path), digest(text)), []).append(key)

    def changes(self, broken: set[str], is_removed: Callable[[str], bool]) -> Iterator[FileChange]:
        """Yield the lists that have changed; broken suites keep what is recorded of them."""
        promoted = {suite: in_order(found) for suite, found in self._promoting.items()}
        files = {suite: dict(sorted(found)) for suite, found in self._naming.items()}
        new: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
            PROMOTED: (self._promoted, promoted),
            FILES: (self._files, files),
        }
        for name, (recorded, found) in new.items():
            lock = {suite: recorded[suite] for suite in recorded if not is_removed(suite)}
            lock |= {suite: found[suite] for suite in found if suite not in broken}
            old = self._texts[name]
            text = lock_text(name, lock) if name == PROMOTED or any(lock.values()) else ""
            if text != (old or ""):
                yield FileChange(self._folder.shown(name), None, old or "", text)

    def privileges(self) -> Iterator[tuple[PromotedChange, list[Key]]]:
        """Yield each new or changed file in system messages; none if nothing is recorded."""
        if self._texts[PROMOTED] is None:
            return
        new = {suite: in_order(found) for suite, found in self._promoting.items()}
        for change in changes_of_privilege(self._promoted, new):
            found = self._promoting[change.suite].items()
            cases = [key for entry, keys in found if entry.path == change.path for key in keys]
            yield change, list(dict.fromkeys(cases))

    def changed_files(self) -> Iterator[ChangedFile]:
        """Yield each file that snapshots name, whose text is not the recorded one."""
        for suite, found in self._naming.items():
            recorded = self._files.get(suite, {})
            for (path, sha256), cases in found.items():
                if recorded.get(path) != sha256:
                    yield ChangedFile(suite, path, path in recorded, cases)
