"""The two lists beside the snapshots: as recorded, and as this run finds them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from multiturn.model import Conversion
from multiturn.prompts.record import utf8
from multiturn.review.changes import FileChange, Key, State
from multiturn.review.folder import SnapshotFolder
from multiturn.review.lockfile import (
    FILES,
    PROMOTED,
    Promotion,
    changes_of_privilege,
    in_order,
    lock_text,
    promotions_of,
    read_files,
    read_promoted,
)
from multiturn.review.snapshots import digest


class _Suite(Struct):
    """The entries of a suite.

    Attributes:
        promotions: its promoted files.
        promoting: the ids of the cases that promote a file, by its path.
        files: the digests of the files that its snapshots name, by path.
        cases: the ids of the cases that attach such a file.
    """

    promotions: set[Promotion] = set()
    promoting: dict[str, dict[str, None]] = {}
    files: dict[str, str] = {}
    cases: dict[str, list[str]] = {}


class Lists:
    """``promoted.lock`` and ``files.lock``.

    Args:
        folder: of the snapshots.
        suites: whose entries are compared and written.

    Raises:
        MultiturnError: one of them cannot be read.

    Attributes:
        is_new: whether there is no recorded ``promoted.lock``.
    """

    def __init__(self, folder: SnapshotFolder, suites: Iterable[str]) -> None:
        self._folder = folder
        self._recorded = {name: folder.read(name) for name in (PROMOTED, FILES)}
        self._promoted = read_promoted(self._recorded[PROMOTED], folder.shown(PROMOTED))
        self._files = read_files(self._recorded[FILES], folder.shown(FILES))
        self._suites = {suite: _Suite() for suite in suites}
        self.is_new = self._recorded[PROMOTED] is None

    def add(self, suite: str, conversion: Conversion, named: Mapping[str, str]) -> None:
        """Add the files of a case.

        Args:
            suite: of the case.
            conversion: finished.
            named: the texts of the files that its snapshot may name.
        """
        known, case_id = self._suites[suite], conversion.case.id
        for promotion in promotions_of(conversion):
            known.promotions.add(promotion)
            known.promoting.setdefault(promotion.path, {})[case_id] = None
        for path, text in named.items():
            known.cases.setdefault(path, []).append(case_id)
            if path not in known.files:
                known.files[path] = digest(text)

    def changes(
        self, whole: Iterable[str], is_removed: Callable[[str], bool]
    ) -> Iterator[FileChange]:
        """Yield the lists that have changed.

        Args:
            whole: suites whose cases could all be converted; others keep their recorded entries.
            is_removed: returns whether a suite is gone; its entries are removed.
        """
        suites = {suite: self._suites[suite] for suite in whole}
        new: dict[str, tuple[Mapping[str, Any], dict[str, Any]]] = {
            PROMOTED: (self._promoted, {s: in_order(k.promotions) for s, k in suites.items()}),
            FILES: (self._files, {s: dict(sorted(k.files.items())) for s, k in suites.items()}),
        }
        for name, (recorded, sections) in new.items():
            kept = {suite: recorded[suite] for suite in recorded if not is_removed(suite)}
            lock = kept | {utf8(suite): section for suite, section in sections.items()}
            old = self._recorded[name]
            text = lock_text(name, lock) if name == PROMOTED or any(lock.values()) else None
            if old != text:
                state: State = "removed" if text is None else "new" if old is None else "changed"
                yield FileChange(state, self._folder.shown(name), None, old or "", text or "")

    def privileges(self) -> Iterator[tuple[str, Key, list[Key]]]:
        """Yield each new or changed file in system messages: in words, suite and path, cases."""
        names = {utf8(suite): suite for suite in self._suites}
        new = {name: in_order(self._suites[suite].promotions) for name, suite in names.items()}
        for change in changes_of_privilege(self._promoted, new):
            suite, path = names[change.suite], change.path
            cases = [(suite, case_id) for case_id in self._suites[suite].promoting[path]]
            yield change.what, (suite, path), cases

    def unlisted(self) -> Iterator[tuple[str, str, list[Key]]]:
        """Yield which files are not on the list, their paths, the cases: no change can be seen."""
        for suite, known in self._suites.items():
            for path in known.files:
                if utf8(path) not in self._files.get(utf8(suite), {}):
                    cases = [(suite, case_id) for case_id in known.cases[path]]
                    yield f"{path} is not in {FILES}", path, cases

    def texts(self) -> Iterator[tuple[str, str, list[Key]]]:
        """Yield each changed file: in words, its path, the cases where it is not promoted."""
        for suite, path in self._changed_files():
            promoting = self._suites[suite].promoting.get(utf8(path), {})
            cases = [(suite, i) for i in self._suites[suite].cases[path] if i not in promoting]
            yield f"{path} has another text", path, cases

    def with_changed_files(self) -> set[Key]:
        """Return the cases whose snapshots name a file that has another text."""
        changed = self._changed_files()
        return {(suite, i) for suite, path in changed for i in self._suites[suite].cases[path]}

    def has(self, suite: str) -> bool:
        """Return whether a suite is on one of the recorded lists."""
        return utf8(suite) in self._promoted or utf8(suite) in self._files

    def _changed_files(self) -> Iterator[tuple[str, str]]:
        for suite, known in self._suites.items():
            recorded = self._files.get(utf8(suite), {})
            for path, sha256 in known.files.items():
                if recorded.get(utf8(path), sha256) != sha256:
                    yield suite, path
