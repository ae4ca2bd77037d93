"""The lists beside the snapshots, as they are recorded and as a run finds them."""

import os
from collections.abc import Container, Iterable, Iterator, Mapping, Set
from itertools import chain
from typing import Any, NamedTuple

from msgspec import Struct

from multiturn.files.media import Media
from multiturn.snapshots.attached import (
    Attached,
    cause_in_words,
    change_in_words,
    new_in_words,
    shown,
)
from multiturn.snapshots.changes import FileChange
from multiturn.snapshots.differences import ChangedText, known_of
from multiturn.snapshots.earlier import earlier_text
from multiturn.snapshots.folder import SnapshotFolder
from multiturn.snapshots.growth import occurrences, text_growth
from multiturn.snapshots.locations import Key, digest, folder_of, location_of
from multiturn.snapshots.lock_files import (
    FILES,
    PROMOTED,
    FilesLock,
    lock_text,
    read_files,
    read_promoted,
    sides_of,
)
from multiturn.snapshots.promotion import (
    PromotedChange,
    PromotedLock,
    Promotion,
    changes_of_privilege,
    lock_of,
)
from multiturn.snapshots.recorded import case_in, files_in
from multiturn.snapshots.reviewed_case import ReviewedCase
from multiturn.text import has_conflict, utf8

# What snapshots that have changed said of their files; None of a text.
Before = dict[str, Media | None]
_Lock = Mapping[str, tuple[Promotion | str, ...]]  # what a list has of each file


class ChangedFile(NamedTuple):
    """A file that snapshots name, with another text than recorded."""

    path: str
    is_listed: bool
    cases: list[Key]  # that attach it
    what: str  # in words


class _Text(Struct):
    """A new text of an attached file, or new media."""

    root: str
    text: Attached
    occurrences: dict[Key, int]  # in the prompt of each case

    def old(self, path: str, digests: Set[str], media: Before) -> Attached | None:
        """Return what is known of the file as it was: its text, or what its bytes were.

        Its digests are those that are recorded; ``media`` is what other snapshots said of it.
        """
        known = media.get(path, self.text if isinstance(self.text, Media) else None)
        if isinstance(known, Media) and len(digests) == 1:
            return known.replace(digest=next(iter(digests)), path=path)
        return earlier_text(self.root, path, digests)

    def growth(self, old: Attached | None, new_cases: Container[Key]) -> float | None:
        """Return by how much all prompts grow if the old text is known.

        That of a new case does not: the file is a part of its own growth.
        """
        if not isinstance(old, str) or not isinstance(self.text, str):
            return None
        counts = (count for key, count in self.occurrences.items() if key not in new_cases)
        return text_growth(old, self.text, sum(counts))

    def causes(self, path: str, old: Attached | None) -> list[str]:
        """Return the file, with the lines of it that are other ones if the old text is known."""
        is_text = isinstance(old, str) and isinstance(self.text, str)
        return [cause_in_words(path, old, self.text) if old is not None and is_text else path]


class RecordedLists(Struct, frozen=True):
    """The lists as they are in the folder of snapshots."""

    texts: Mapping[str, str | None]  # by name; None for a list that is not there
    promoted: PromotedLock
    files: FilesLock

    def digests(self, path: str) -> set[str]:
        """Return the digests of a file on both lists."""
        return {*self.files.get(path, ()), *(each.sha256 for each in self.promoted.get(path, ()))}


def read_lists(folder: SnapshotFolder, *, resolve: bool = False) -> RecordedLists:
    """Read the lists of a folder; if ``resolve``, of both sides of a merge conflict."""
    texts = {name: folder.read(name) for name in (PROMOTED, FILES)}
    promoted: list[Promotion] = []
    files: dict[str, tuple[str, ...]] = {}
    for text in _sides(texts[PROMOTED], resolve=resolve):
        promoted += chain(*read_promoted(text, folder.shown(PROMOTED)).values())
    for text in _sides(texts[FILES], resolve=resolve):
        for path, digests in read_files(text, folder.shown(FILES)).items():
            files[path] = tuple(sorted({*files.get(path, ()), *digests}))
    return RecordedLists(texts, lock_of(promoted), files)


def conflicts_in(folder: SnapshotFolder) -> Iterator[FileChange]:
    """Yield each list that has a merge conflict, as our side has it and as theirs does."""
    for name in (PROMOTED, FILES):
        text = folder.read(name)
        if text is not None and has_conflict(text):
            yield FileChange(folder.shown(name), None, *sides_of(text))


def _sides(text: str | None, *, resolve: bool) -> tuple[str | None, ...]:
    return sides_of(text) if resolve and text is not None and has_conflict(text) else (text,)


class OtherSuites(Struct):
    """The files of suites that a run does not cover, by their recorded snapshots."""

    attaching: dict[str, set[str]] = {}  # the suites, by the path of each file
    promoting: dict[str, set[str]] = {}  # those in whose system messages it is, or may be

    def add(self, suite: str, text: str) -> None:
        """Add the files of a recorded snapshot."""
        attached, promoted = files_in(text)
        for paths, suites in ((attached, self.attaching), (promoted, self.promoting)):
            for path in paths:
                suites.setdefault(path, set()).add(suite)


def other_suites(
    folder: SnapshotFolder, covered: Iterable[str], stale: Iterable[Key]
) -> OtherSuites:
    """Read the recorded snapshots that are neither of covered suites nor stale."""
    found, known, gone = OtherSuites(), {folder_of(suite) for suite in covered}, set(stale)
    for name in folder.snapshots("", below=True):
        if os.path.dirname(name) in known:
            continue
        text = folder.read(name) or ""
        case = case_in(text)
        if case is None or case in gone or location_of(*case) != name:
            continue
        found.add(case[0], text)
    return found


class Lists:
    """The files that a run finds for ``promoted.lock`` and ``files.lock``."""

    def __init__(self, recorded: RecordedLists) -> None:
        self._recorded = recorded
        self._promoting: dict[Promotion, list[Key]] = {}  # the cases that have each entry
        self._naming: dict[tuple[str, str], list[Key]] = {}  # those of each path and digest
        self._texts: dict[str, _Text] = {}  # of new entries, by path

    def add(self, case: ReviewedCase, *, inline: bool) -> None:
        """Add the files of a case; if it is not inline, also those that its snapshot may name."""
        for promotion in case.promoted:
            self._promoting.setdefault(promotion, []).append(case.key)
        known = self._recorded.promoted
        promoted = {each.path for each in case.promoted if each not in known.get(each.path, ())}
        for resolved_path, text in case.files.items():
            path, sha256 = utf8(resolved_path), digest(text)
            if path in promoted or sha256 not in self._recorded.digests(path):
                new = self._texts.setdefault(path, _Text(case.request.root, text, {}))
                new.occurrences[case.key] = occurrences(resolved_path, shown(text), case.messages)
            if not inline:
                self._naming.setdefault((path, sha256), []).append(case.key)

    def changes(
        self,
        recorded: RecordedLists,
        others: OtherSuites,
        folder: SnapshotFolder,
        pending: Container[str] = (),
    ) -> Iterator[FileChange]:
        """Yield the lists that have changed; entries that only other suites have stay.

        So do those of ``pending`` files, whose new texts are not accepted.
        """
        new: dict[str, tuple[Mapping[str, Any], Mapping[str, Any], Container[str]]] = {
            PROMOTED: (recorded.promoted, lock_of(self._promoting), others.promoting),
            FILES: (recorded.files, self._files(), others.attaching),
        }
        for name, (before, found, elsewhere) in new.items():
            lock = {path: items for path, items in before.items() if path in elsewhere}
            lock |= {path: items for path, items in found.items() if path not in pending}
            lock |= {path: before[path] for path in before.keys() & found if path in pending}
            old = recorded.texts[name]
            text = lock_text(name, lock) if name == PROMOTED or lock else ""
            # Many a commit hook removes the blank line at the end of a file.
            if text.rstrip("\n") != (old or "").rstrip("\n"):
                yield FileChange(folder.shown(name), None, old or "", text)

    def also_of(self, recorded: RecordedLists, others: OtherSuites) -> set[str]:
        """Return the other suites that have a file whose entry is new or changed."""
        files = self._files()
        changed = (path for path in files if files[path] != recorded.files.get(path))
        return set().union(*(others.attaching.get(path, set()) for path in changed))

    def privileges(self, recorded: RecordedLists) -> dict[PromotedChange, list[Key]]:
        """Return each new or changed file in system messages; none if nothing is recorded."""
        if recorded.texts[PROMOTED] is None:
            return {}
        changes = changes_of_privilege(recorded.promoted, lock_of(self._promoting))
        cases = self._promoting_cases()
        return {change: [*cases[change.path]] for change in changes}

    def changed_files(self, recorded: RecordedLists, media: Before) -> Iterator[ChangedFile]:
        """Yield each file that snapshots name, whose text is not a recorded one."""
        for (path, sha256), cases in self._naming.items():
            if sha256 not in recorded.files.get(path, ()):
                is_listed = path in recorded.files
                what = f"{path} is not in {FILES}"
                if is_listed:
                    what = self._change(path, recorded, media)
                yield ChangedFile(path, is_listed, cases, what)

    def _change(self, path: str, recorded: RecordedLists, media: Before) -> str:
        """Return in words how a file is not as recorded."""
        new, digests = self._texts.get(path), recorded.digests(path)
        if new is None:
            return f"{path} changed"
        if not digests:
            known = ((file, sha256) for file, all_ in recorded.files.items() for sha256 in all_)
            return new_in_words(path, new.text, dict(known))
        is_media = isinstance(new.text, Media) or media.get(path) is not None
        old = new.old(path, digests, media) if is_media else None
        return change_in_words(path, "" if old is None else old, new.text)

    def changed_texts(
        self,
        recorded: RecordedLists,
        promoted: Iterable[PromotedChange],
        new_cases: Container[Key],
        media: Before,
    ) -> Iterator[ChangedText]:
        """Yield each file whose entries are not the recorded ones, for a reviewer to decide on."""
        attaching, promoting = self._attaching_cases(), self._promoting_cases()
        found: tuple[_Lock, ...] = (lock_of(self._promoting), self._files())
        before: tuple[_Lock, ...] = (recorded.promoted, recorded.files)
        privileges = {change.path: change.what for change in promoted}
        for path in sorted({*found[0], *found[1]}):
            # A list loses a file when no snapshot names it any more, whatever else is accepted.
            kept = [number for number, side in enumerate(found) if path in side]
            wanted, was = ([sides[n].get(path, ()) for n in kept] for sides in (found, before))
            if wanted == was:
                continue
            new = self._texts.get(path)
            digests = recorded.digests(path)
            # A file whose text is as recorded concerns only the cases that promote it.
            is_same = new is not None and digest(new.text) in digests
            old = None
            if new is not None:
                old = new.text if is_same else new.old(path, digests, media)
            what = self._change(path, recorded, media)
            if new is None:
                what = f"{path} {'has other entries on the lists' if any(was) else 'is new'}"
            yield ChangedText(
                path=path,
                cases=[*(promoting if is_same else attaching)[path]],
                what=privileges.get(path, what),
                old=old,
                new="" if new is None else new.text,
                recorded=known_of(chain(*was)),
                wanted=known_of(chain(*wanted)),
                growth=None if new is None or is_same else new.growth(old, new_cases),
                causes=[] if new is None or is_same else new.causes(path, old),
                privileges=[privileges[path]] if path in privileges else [],
            )

    def _promoting_cases(self) -> dict[str, dict[Key, None]]:
        """Return the cases in whose system messages each file is."""
        found: dict[str, dict[Key, None]] = {}
        for promotion, cases in self._promoting.items():
            found.setdefault(promotion.path, {}).update(dict.fromkeys(cases))
        return found

    def _attaching_cases(self) -> dict[str, dict[Key, None]]:
        """Return the cases of each file on a list."""
        found = self._promoting_cases()
        for (path, _), cases in self._naming.items():
            found.setdefault(path, {}).update(dict.fromkeys(cases))
        return found

    def _files(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for path, sha256 in sorted(self._naming):
            found[path] = (*found.get(path, ()), sha256)
        return found
