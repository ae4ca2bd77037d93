"""Bringing a folder of snapshots up to date with the suites, or telling where it is not."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
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
    counted,
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
from multiturn.text import visible

_FOLDER = "snapshots"
_ADVICE = "run it without --check, and commit"


class Difference(Struct, frozen=True):
    """A file of the folder that is not as it should be: its name, and both texts."""

    name: str
    old: str
    new: str


Said = str | Difference | MultiturnError


class Recording:
    """The selected cases, and the folder of their snapshots.

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
        self.locked = False  # whether the lock was written
        self.seen: set[str] = set()  # the snapshots that there should be
        self.incomplete: set[str] = set()  # suites of which some case is not known
        self.nameless: set[str] = set()  # those of which not even its id is
        self.promotions: dict[str, Counter[Promotion]] = {}
        self.names: dict[str, str] = {}  # of the suites in their roots, by path
        for path in selection.suites:
            name = name_in_root(path, self._root_of(path))
            if utf8(name) in map(utf8, self.promotions):
                what = (
                    f"two suites are {name!r} in their roots; name a root that holds both (--root)"
                )
                raise MultiturnError(what, where=path)
            self.names[path] = name
            self.promotions[name] = Counter()
        self.scopes = list(self._scopes(arguments))
        if not selection.suites and not any(map(self.folder.suite_of, self._candidates())):
            list(find_suites(arguments))  # says what there is not

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
                self._keep(self.names[outcome.suite], outcome.error)
                yield self._failed(outcome.error)
            elif outcome.conversion is not None:
                yield from self._compare(outcome.conversion)
        yield from self._promote(recorded, lock)
        if not self.is_partial:
            yield from self._clear()
        yield self._summary()

    def _failed(self, error: MultiturnError) -> MultiturnError:
        self.failures += 1
        return error

    def _keep(self, suite: str, error: MultiturnError) -> None:
        """Let the snapshot of a case that failed stay."""
        self.incomplete.add(suite)
        kept = kept_location(suite, error)
        if kept is None:
            self.nameless.add(suite)
        else:
            self.seen.add(kept)

    def _compare(self, conversion: Conversion) -> Iterator[Said]:
        case, suite = conversion.case, suite_of(conversion.case)
        name = location_of(suite, case.id)
        self.promotions[suite].update(promotions_of(conversion))
        if name in self.seen:
            what = f"its snapshot would replace another case's, {self.folder.shown(name)}"
            yield self._failed(MultiturnError(f"{what}; give it another id", where=case.where()))
            return
        self.seen.add(name)
        if not self.check and self.folder.is_foreign(name):
            what = "this is no snapshot; move it away"
            yield self._failed(MultiturnError(what, where=self.folder.shown(name)))
            return
        old, new = self.folder.read(name), snapshot_text(conversion)
        state = "same" if old == new else "missing" if old is None else "changed"
        if state == "missing" and not self.check:
            state = "new"
        self.counts[state] += 1
        if old == new:
            return
        if not self.check:
            self.folder.write(name, new)
        elif old is None:
            yield self._line("missing", name)
        else:
            yield self._diff(name, old, new)

    def _promote(self, recorded: str | None, lock: Lock) -> Iterator[Said]:
        """Bring the lock up to date, but for suites of which only some cases are known."""
        new = {suite: entries for suite, entries in lock.items() if not self._is_gone(suite)}
        partial = set(self.promotions) if self.is_partial else self.incomplete
        said = []
        for name, promotions in self.promotions.items():
            suite, entries = utf8(name), counted(promotions)
            old = lock.get(suite, ())
            if name not in partial:
                new[suite] = entries
            if name in self.incomplete and not self.check:
                what = f"{suite} keeps what the list has of it until all its cases can be converted"
                said.append(what)
            elif name in partial or self.check:
                changes = changes_of_privilege(old, entries, counts=name not in partial)
                advice = "run it without --case, and commit" if self.is_partial else _ADVICE
                what = f"a change of privilege; review it, {advice}"
                said += [f"{suite}: {change}: {what}" for change in changes]
        text = lock_text(new)
        if self.is_partial:
            pass
        elif not self.check:
            if text != recorded:
                self.folder.write(LOCK, text)
                self.locked = True
        elif recorded is None:
            self.differs = True
            yield self._line("missing", LOCK)
            return
        elif text != recorded:
            self.differs = True
            yield self._diff(LOCK, recorded, text)
        for what in said:
            self.differs = True
            yield visible(f"{self.folder.shown(LOCK)}: {what}").replace("\n", " ")

    def _clear(self) -> Iterator[str]:
        """Remove, or name, the snapshots of cases and suites that are gone."""
        folders = set(map(folder_of, self.promotions))
        for name in self._candidates():
            if name in self.seen:
                continue
            self.seen.add(name)
            suite = self.folder.suite_of(name)
            if suite is None:
                if os.path.dirname(name) in folders and not self.folder.is_foreign(name):
                    yield self._line("no snapshot; remove it, or move it away", name)
                continue
            if suite in self.nameless:
                continue
            if suite in self.promotions or self._is_gone(suite):
                self.counts["stale" if self.check else "removed"] += 1
                if self.check:
                    yield self._line("stale", name)
                else:
                    self.folder.remove(name)
                    yield visible(f"removed: {self.folder.shown(name)}")

    def _candidates(self) -> Iterator[str]:
        for suite in self.promotions:
            yield from list(self.folder.snapshots(folder_of(suite)))
        for _, prefix in self.scopes:
            yield from list(self.folder.snapshots(legal_path(prefix), below=True))

    def _is_gone(self, suite: str) -> bool:
        """Whether a suite was below a folder that the command names, and is there no more."""
        if os.path.isfile(os.path.join(self.folder.beside, suite)):  # of another root
            return False
        return any(
            suite.startswith(prefix) and not os.path.isfile(os.path.join(root, suite))
            for root, prefix in self.scopes
        )

    def _scopes(self, arguments: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        """Yield the root of each folder, and how the suites below it begin.

        A folder in no root tells nothing of suites that are gone: their names do not say that
        they were below it.
        """
        for path in filter(os.path.isdir, arguments):
            root = self._root(path)
            if self.root is not None or os.path.exists(os.path.join(root, ".git")):
                real, top = os.path.realpath(path), os.path.realpath(root)
                yield top, "" if real == top else f"{name_in_root(path, root)}/"

    def _root(self, folder: str) -> str:
        return self.root or str(find_root(Path(os.path.realpath(folder))))

    def _root_of(self, path: str) -> str:
        return self._root(path if os.path.isdir(path) else os.path.dirname(os.path.realpath(path)))

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

    def _diff(self, name: str, old: str, new: str) -> Difference:
        self.differs = True
        return Difference(self.folder.shown(name), old, new)

    def _summary(self) -> str:
        states = ("missing", "changed", "stale", "same")
        if not self.check:
            states = ("new", "changed", "removed", "same")
        number = self.counts.total()
        counts = ", ".join(f"{self.counts[state]} {state}" for state in states)
        summary = f"{number} snapshot{'s' if number != 1 else ''}: {counts}"
        if self.failures:
            summary += f"; {self.failures} failed"
        if not self.check:
            return summary + f"; {LOCK} changed" * self.locked
        return summary + f"; if that is meant, {_ADVICE}" * self.differs
