"""What is different, once each: the units that a reviewer decides on.

A ``Difference`` is all cases whose whole snapshot differs in the same way, or the new text of an
attached file, which is one wherever that file is used. It is accepted as a whole, by its key.
``snapshot --check``, its annotations, ``--review``, ``--accept`` and reports show the same ones.

``Differences`` makes them of two things that a run of ``multiturn snapshot`` has, and that a report
can make of its two sides (see ``report/overview.py``): ``FileChange``, the snapshot of a case then
and now, and ``ChangedText``, an attached file then and now. It is pure: nothing is read or written.
"""

import hashlib
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain
from typing import Literal

from msgspec import Struct

from multiturn.files.media import Media
from multiturn.snapshots.attached import Attached, shown
from multiturn.snapshots.changes import FileChange, State
from multiturn.snapshots.growth import growth_in_words, total
from multiturn.snapshots.locations import Key
from multiturn.snapshots.plain_text import with_short_digest, with_short_digests
from multiturn.snapshots.promotion import Promotion, in_order
from multiturn.snapshots.recorded import named_media_in
from multiturn.snapshots.text_diff import compare_texts, said_once, shared_ends

Kind = Literal["file", State]
# Dangerous ones are always first. Then comes what changes most prompts with least to read.
_ORDER: tuple[Kind, ...] = ("file", "changed", "renamed", "new", "removed")


class ChangedText(Struct, frozen=True, kw_only=True):
    """An attached file, a text or media, that is not as recorded."""

    path: str  # from the root
    cases: Sequence[Key]  # that attach it
    what: str  # the change, in words
    old: Attached | None  # None if it is new, or if that is not known
    new: Attached
    # What is recorded of it and what should be, in any form that has their digests: the key.
    recorded: object
    wanted: object
    growth: float | None = None  # of the prompts of all its cases
    causes: Sequence[str] = ()  # in words
    privileges: Sequence[str] = ()


def known_of(entries: Iterable[Promotion | str]) -> object:
    """Return what is known of a file, for its key: how it is promoted, and digests of its texts."""
    promoted, digests = set[Promotion](), set[str]()
    for entry in entries:
        if isinstance(entry, Promotion):
            promoted.add(entry)
            digests.add(entry.sha256)
        else:
            digests.add(entry)
    return in_order(promoted), sorted(digests)


class Difference(Struct, frozen=True, kw_only=True):
    """Cases whose snapshots differ in the same way, or the new text of a file."""

    key: str  # a hash of old and new
    kind: Kind
    cases: tuple[Key, ...]
    what: str = ""  # of a file: the change, in words
    path: str = ""  # of the file, from the root; empty for cases
    line: int = 0  # the first of the file that has changed; 0 if that is not known
    lines: tuple[str, ...] = ()  # of a diff, without file names; of new or unknown ones, all lines
    privileges: tuple[str, ...] = ()  # the changes of privilege that it has, in words
    causes: tuple[str, ...] = ()  # in words; empty if they are not known
    growth: float | None = None  # of the prompts of all its cases; None if it is not known
    # The snapshots; of a file, those that differ only in the type and size of an image or the like.
    changes: tuple[FileChange, ...] = ()
    is_compared: bool = True  # the lines have both sides, not only the new one

    @property
    def growth_in_words(self) -> str:
        """By how much the prompts of all its cases grow; empty if it is not known."""
        return growth_in_words(self.growth, len(self.cases))


class Facts(Struct, frozen=True):
    """What is known of a changed snapshot, beside its texts."""

    privileges: Sequence[str] = ()  # in words; but not those of attached files that have changed
    causes: Sequence[str] = ()  # in words; empty if they are not known
    growth: float | None = None  # of the prompt


class _Group:
    """Snapshots that differ in the same way."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.changes: list[tuple[FileChange, Facts]] = []
        self.key = hashlib.blake2b(digest_size=8)

    def difference(self) -> Difference:
        changes = tuple(change for change, _ in self.changes)
        facts = [each for _, each in self.changes]
        cases = tuple(change.case for change in changes if change.case)
        first = changes[0]
        return Difference(
            key=self.key.hexdigest(),
            kind=first.state,
            cases=cases,
            lines=tuple(self.lines),
            privileges=_each_once(each.privileges for each in facts),
            causes=_each_once(each.causes for each in facts),
            growth=total(each.growth for each in facts) if cases else None,
            changes=changes,
            is_compared=bool(first.old and first.new),
        )


class Differences:
    """Collects changes one by one, in groups that differ in the same way."""

    def __init__(self) -> None:
        self._groups: dict[Hashable, _Group] = {}
        self._alike: list[tuple[FileChange, Facts]] = []

    def add(self, change: FileChange, facts: Facts, old: str, new: str) -> None:
        """Add a change of a snapshot, or of ``target.lock``; the other lists follow from these.

        ``old`` and ``new`` are its texts as ``plain_text`` gives them.
        """
        if old == new and change.state == "changed":
            self._alike.append((change, facts))
        else:
            # The same texts in another form are compared as they are written.
            self._group(change, facts, *(change.texts if old == new else (old, new)))

    def _group(self, change: FileChange, facts: Facts, old: str, new: str) -> None:
        identity, shown = _compare(change, old, new)
        group = self._groups.setdefault(identity, _Group(with_short_digests(shown)))
        group.changes.append((change, facts))
        _add(group.key, change.case, *((old, new) if old != new else ()))

    def _of_files(self, texts: Iterable[ChangedText]) -> dict[str, list[FileChange]]:
        """Return the snapshots in which no more than some media have changed, by the first file.

        Others whose texts are the same are differences by themselves.
        """
        found: dict[str, list[FileChange]] = {text.path: [] for text in texts}
        for change, facts in self._alike:
            was, now = named_media_in(change.old), named_media_in(change.new)
            paths = (path for path in now if path in found and was.get(path) != now[path])
            path = next(paths, None)
            if path is None:
                self._group(change, facts, *change.texts)
            else:
                found[path].append(change)
        self._alike = []
        return found

    def found(self, texts: Iterable[ChangedText]) -> list[Difference]:
        """Return each difference once: the dangerous ones first, then those of most cases.

        ``texts`` are the attached files that are not as recorded.
        """
        texts = list(texts)
        changes_of = self._of_files(texts)
        found = [_of_text(text, changes_of[text.path]) for text in texts]
        found += (group.difference() for group in self._groups.values())
        return sorted(found, key=_rank)


def _rank(difference: Difference) -> tuple[bool, int, bool, int]:
    kind, is_dangerous = _ORDER.index(difference.kind), bool(difference.privileges)
    # Who gets a privilege is more dangerous than a change of what has one already.
    is_known = is_dangerous and difference.is_compared
    return not is_dangerous, kind, is_known, -len(difference.cases)


def _compare(change: FileChange, old: str, new: str) -> tuple[Hashable, list[str]]:
    """Return what is equal for snapshots that differ in the same way, and the lines to show."""
    state, suite = change.state, change.case[0] if change.case else change.name
    if state == "removed":  # nothing is to be read but the names
        return (state, suite), []
    if state == "new":
        return (state, change.name), [f"+{line}" for line in said_once(new.split("\n")[:-1])]
    identity, lines = compare_texts(old, new)
    return (state, identity, suite if not lines else ""), lines


def _of_text(text: ChangedText, changes: Iterable[FileChange]) -> Difference:
    new, old = shown(text.new), None if text.old is None else shown(text.old)
    is_compared, first = old not in (None, new), 0
    written = new.split("\n")
    if not is_compared:  # all of it is to be read, also where only its role is new
        sign = "+" if old is None else " "
        lines = [f"{sign}{line}" for line in written]
    else:
        _, lines = compare_texts(f"{old}\n", f"{new}\n")
        if old is not None and isinstance(text.new, str):
            first = min(shared_ends(old.split("\n"), written)[0] + 1, len(written))
    if isinstance(text.new, Media) and not isinstance(text.old, str):
        lines = list(map(with_short_digest, lines))
    return Difference(
        key=_hash(text.path, text.recorded, text.wanted),
        kind="file",
        cases=tuple(text.cases),
        what=text.what,
        path=text.path,
        line=first,
        lines=tuple(lines),
        privileges=tuple(text.privileges),
        causes=tuple(text.causes),
        growth=text.growth,
        changes=tuple(changes),
        is_compared=is_compared,
    )


def _each_once(words: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(words)))


def _add(key: "hashlib.blake2b", *values: object) -> None:
    """Add values to a hash, each with its length, so that no two lists give the same."""
    for value in values:
        said = (value if isinstance(value, str) else repr(value)).encode("utf-8", "surrogatepass")
        key.update(b"%d " % len(said))
        key.update(said)


def _hash(*values: object) -> str:
    key = hashlib.blake2b(digest_size=8)
    _add(key, *values)
    return key.hexdigest()
