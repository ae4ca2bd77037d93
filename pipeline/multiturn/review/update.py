"""Bring a folder of snapshots up to date with the suites, or say where it is not."""

import os
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from multiturn.engine.outcomes import Outcome
from multiturn.engine.selection import Selection
from multiturn.errors import MultiturnError
from multiturn.files import find_root
from multiturn.model import Conversion
from multiturn.prompts.record import utf8
from multiturn.review.folder import SnapshotFolder
from multiturn.review.lockfile import (
    LOCK,
    Lock,
    Promotion,
    changes_of_privilege,
    in_order,
    lock_text,
    promotions_of,
    read_lock,
)
from multiturn.review.snapshots import (
    folder_of,
    kept_location,
    legal_path,
    location_of,
    name_in_root,
    snapshot_text,
    suite_of,
)
from multiturn.suites.discovery import find_suites
from multiturn.text import number_of, visible

_FOLDER = "snapshots"
_ADVICE = "run it without --check, and commit"


class Difference(Struct, frozen=True):
    """A file of the folder that should have another text."""

    name: str
    old: str
    new: str


class _Suite(Struct):
    """What is known of a selected suite.

    Attributes:
        wanted: the snapshots of its cases; None among them for a case whose id is not known.
        promotions: its promoted files.
        is_broken: whether one of its cases could not be converted.
    """

    wanted: set[str | None] = set()
    promotions: set[Promotion] = set()
    is_broken: bool = False


Said = str | Difference | MultiturnError


class Update:
    """One run of ``multiturn snapshot``: the selected cases, and the folder of their snapshots.

    Args:
        selection: which cases; not of standard input.
        arguments: the files and folders that were named.
        folder: of the snapshots; None for ``snapshots`` in the repository of the suites, or here.
        check: nothing is written.

    Raises:
        MultiturnError: there is no such suite, one is outside its root, two have one name, or are
            of several repositories.

    Attributes:
        failures: how many cases or suites have failed.
        differs: whether the folder is not as it should be, where nothing is written.
        summary: what to say at the end.
    """

    def __init__(
        self, selection: Selection, arguments: tuple[str, ...], folder: str | None, check: bool
    ) -> None:
        list(find_suites(path for path in arguments if not os.path.isdir(path)))
        self.root = selection.root
        self.is_partial = bool(selection.case_ids)
        self.folder = SnapshotFolder(folder or self._default_folder(arguments))
        self.check = check
        self.counts: Counter[str] = Counter()
        self.failures = 0
        self.differs = False
        self.summary = ""
        self.suites: dict[str, _Suite] = {}  # by their path in the root
        self.names: dict[str, str] = {}  # that path, by the path that was named or found
        for path in selection.suites:
            name = name_in_root(path, self._root_of(path))
            if utf8(name) in map(utf8, self.suites):
                what = f"two suites are {name!r} in their roots"
                raise MultiturnError(f"{what}; name a root that holds both (--root)", where=path)
            self.names[path] = name
            self.suites[name] = _Suite()
        self.scopes = list(self._scopes(arguments))
        if not selection.suites and not any(map(self.folder.suite_of, self._candidates())):
            list(find_suites(arguments))  # raises the error that says what is missing

    def run(self, outcomes: Iterable[Outcome]) -> Iterator[Said]:
        """Compare and write; yield what there is to say, and what has failed.

        Args:
            outcomes: what became of the selected cases.

        Raises:
            MultiturnError: a file of the folder cannot be read or written.
        """
        recorded = self.folder.read(LOCK)
        lock = {} if recorded is None else read_lock(recorded, self.folder.shown(LOCK))
        for outcome in outcomes:
            if outcome.error is not None:
                name = self.names[outcome.suite]
                self.suites[name].is_broken = True
                self.suites[name].wanted.add(kept_location(name, outcome.error))
                yield self._failed(outcome.error)
            elif outcome.conversion is not None:
                yield from self._compare(outcome.conversion)
        kept = {suite: entries for suite, entries in lock.items() if not self._is_removed(suite)}
        is_locked = yield from self._write_lock(recorded, lock_text(kept | self._promotions()))
        is_missing = recorded is None and self.check and not self.is_partial  # all would be new
        for change in () if is_missing else self._changes(lock):
            self.differs = True
            yield visible(f"{self.folder.shown(LOCK)}: {change}").replace("\n", " ")
        if not self.is_partial:
            yield from self._clear()
        self.summary = self._summary(is_locked)

    def _failed(self, error: MultiturnError) -> MultiturnError:
        self.failures += 1
        return error

    def _compare(self, conversion: Conversion) -> Iterator[Said]:
        case, suite = conversion.case, suite_of(conversion.case)
        name, known = location_of(suite, case.id), self.suites[suite]
        known.promotions.update(promotions_of(conversion))
        if name in known.wanted:
            what = f"its snapshot would replace another case's, {self.folder.shown(name)}"
            yield self._failed(MultiturnError(f"{what}; give it another id", where=case.where()))
            return
        known.wanted.add(name)
        if not self.check and self.folder.is_foreign(name):
            what = "this is not a snapshot; move it away"
            yield self._failed(MultiturnError(what, where=self.folder.shown(name)))
            return
        old, new = self.folder.read(name), snapshot_text(conversion)
        if old == new:
            self.counts["same"] += 1
        elif not self.check:
            self.counts["new" if old is None else "changed"] += 1
            self.folder.write(name, new)
        elif old is None:
            self.counts["missing"] += 1
            yield self._line("missing", name)
        else:
            self.counts["changed"] += 1
            yield self._difference(name, old, new)

    def _promotions(self) -> dict[str, tuple[Promotion, ...]]:
        """Return the promoted files of the suites whose cases could all be converted."""
        suites = self.suites.items()
        return {utf8(name): in_order(s.promotions) for name, s in suites if not s.is_broken}

    def _changes(self, lock: Lock) -> Iterator[str]:
        """Yield a line for each change of privilege that is not written."""
        advice = "run it without --case, and commit" if self.is_partial else _ADVICE
        for name, suite in self.suites.items():
            if suite.is_broken and not self.check:
                name = utf8(name)
                yield f"{name} keeps what the list has of it until all its cases can be converted"
            elif suite.is_broken or self.is_partial or self.check:
                for change in changes_of_privilege(lock.get(utf8(name), ()), suite.promotions):
                    yield f"{utf8(name)}: {change}: a change of privilege; review it, {advice}"

    def _write_lock(self, old: str | None, new: str) -> Generator[Said, None, bool]:
        """Write the lock, or yield what differs; return whether it was written."""
        if self.is_partial or old == new:
            return False
        if not self.check:
            self.folder.write(LOCK, new)
            return True
        yield self._line("missing", LOCK) if old is None else self._difference(LOCK, old, new)
        return False

    def _clear(self) -> Iterator[str]:
        """Remove the stale snapshots, or name them: those of cases and suites that are removed."""
        folders = set(map(folder_of, self.suites))
        wanted = set().union(*(suite.wanted for suite in self.suites.values()))
        for name in dict.fromkeys(self._candidates()):
            if name in wanted:
                continue
            suite = self.folder.suite_of(name)
            if suite is None:
                if os.path.dirname(name) in folders and not self.folder.is_foreign(name):
                    yield self._line("no snapshot; remove it, or move it away", name)
            elif not self._is_stale(suite):
                continue
            elif self.check:
                self.counts["stale"] += 1
                yield self._line("stale", name)
            else:
                self.counts["removed"] += 1
                self.folder.remove(name)
                yield visible(f"removed: {self.folder.shown(name)}")

    def _candidates(self) -> Iterator[str]:
        for suite in self.suites:
            yield from self.folder.snapshots(folder_of(suite))
        for _, prefix in self.scopes:
            yield from self.folder.snapshots(legal_path(prefix), below=True)

    def _is_stale(self, suite: str) -> bool:
        """Return whether a snapshot of a suite is stale if none of the known cases has it."""
        known = self.suites.get(suite)
        return self._is_removed(suite) if known is None else None not in known.wanted

    def _is_removed(self, suite: str) -> bool:
        """Return whether a suite was below a folder that the command names, and no longer is."""
        if os.path.isfile(os.path.join(self.folder.beside, suite)):  # of another root
            return False
        return any(
            suite.startswith(prefix) and not os.path.isfile(os.path.join(root, suite))
            for root, prefix in self.scopes
        )

    def _scopes(self, arguments: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        """Yield the root of each folder, and how the names of the suites below it begin.

        A folder that is in no root is left out: the name of a suite does not say that it was
        below that folder.
        """
        for path in filter(os.path.isdir, arguments):
            root = self._root_of(path)
            if self.root is not None or os.path.exists(os.path.join(root, ".git")):
                real, top = os.path.realpath(path), os.path.realpath(root)
                yield top, "" if real == top else f"{name_in_root(path, root)}/"

    def _root_of(self, path: str) -> str:
        real = os.path.realpath(path)
        folder = real if os.path.isdir(real) else os.path.dirname(real)
        return self.root or str(find_root(Path(folder)))

    def _default_folder(self, suites: tuple[str, ...]) -> str:
        """Return the folder beside ``.git``, wherever below it the command is run."""
        roots = {os.path.realpath(self._root_of(path)) for path in suites}
        tops = sorted(root for root in roots if os.path.exists(os.path.join(root, ".git")))
        if self.root is not None or not tops:
            return _FOLDER
        if len(roots) > 1:
            what = f"the suites are in several roots, as {' and '.join(sorted(roots)[:2])}"
            raise MultiturnError(f"{what}; name the folder of their snapshots (--dir)")
        return os.path.relpath(os.path.join(*tops, _FOLDER))

    def _line(self, what: str, name: str) -> str:
        self.differs = True
        return visible(f"{what}: {self.folder.shown(name)}")

    def _difference(self, name: str, old: str, new: str) -> Difference:
        self.differs = True
        return Difference(self.folder.shown(name), old, new)

    def _summary(self, is_locked: bool) -> str:
        states = ("missing", "changed", "stale", "same")
        if not self.check:
            states = ("new", "changed", "removed", "same")
        number = self.counts.total()
        counts = ", ".join(f"{self.counts[state]} {state}" for state in states)
        summary = f"{number_of(number, 'snapshot')}: {counts}"
        if self.failures:
            summary += f"; {self.failures} failed"
        if not self.check:
            return summary + f"; {LOCK} changed" * is_locked
        return summary + f"; if that is meant, {_ADVICE}" * self.differs
