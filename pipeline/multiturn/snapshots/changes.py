"""What is different, once each: the units that a reviewer decides on.

A ``Change`` is all cases whose whole snapshot differs in the same way, or the new text of an
attached file, which is one wherever that file is used. It is accepted as a whole, by its key.
``snapshot --check`` as text, JSON and annotations, ``--review``, ``--accept``, and reports as a
page and in Markdown show the same ones.

They are made of the files of the folder of snapshots and of attached files, then and now. Nothing
is read or written here.

Growth is in tokens. They are estimated, whatever the target: what a review says must not depend on
the packages that are installed.
"""

import hashlib
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, dropwhile, takewhile
from operator import itemgetter
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace
from toolz import groupby, unique

from multiturn.errors import quoted
from multiturn.explaining.record import to_json
from multiturn.explaining.spans import Message, Span, file_of
from multiturn.files.media import Media
from multiturn.model.tokens import estimated_tokens
from multiturn.snapshots import snapshot_file
from multiturn.snapshots.attached_files import Attached, text_to_review
from multiturn.snapshots.locations import Key
from multiturn.snapshots.text_diff import (
    compare_texts,
    shared_ends,
    unified_diff,
    without_repeated_question,
)
from multiturn.text import number_of

State = Literal["new", "changed", "renamed", "removed"]
Kind = Literal["file", "privilege", State]

# Dangerous ones are always first. Then comes what changes most prompts with least to read.
_ORDER: tuple[Kind, ...] = ("file", "changed", "renamed", "new", "removed")
_LONG = 100  # characters of a line, then and now: of longer ones, the words that differ are named
_NAMED = 3  # cases that are named where there are many


class FileChange(Struct, frozen=True):
    """A file of the folder of snapshots that differs from what the suites give."""

    name: str  # its path, for messages
    case: Key | None  # whose snapshot it is; None for a list of files
    old: str  # its text; empty if there is none
    new: str  # the text that it should have; empty if it should not be there
    old_name: str = ""  # the earlier path, if its case was renamed
    privileges: tuple[str, ...] = ()  # in words; but not those of attached files that have changed
    causes: tuple[str, ...] = ()  # in words; empty if they are not known
    growth: float | None = None  # of the prompt; None if it is not known

    @property
    def names(self) -> tuple[str, str]:
        """Its paths, then and now."""
        return self.old_name or self.name, self.name

    @property
    def state(self) -> State:
        """What has become of the file, or of its case."""
        if self.old_name:
            return "renamed"
        if not self.old:
            return "new"
        return "changed" if self.new else "removed"

    def __str__(self) -> str:
        """Return what has become of the file, in words."""
        was = f"{self.old_name} -> " if self.old_name else ""
        return f"{self.state}: {was}{self.name}"

    @property
    def texts(self) -> tuple[str, str]:
        """The old and the new text to compare: a new name alone is no difference."""
        old = self.old
        if self.old_name:
            _, *rest = old.partition(snapshot_file.HEAD_ENDS)
            old = "".join([self.new.partition(snapshot_file.HEAD_ENDS)[0], *rest])
        return old, self.new


class Change(Struct, frozen=True, kw_only=True):
    """Cases whose snapshots differ in the same way, or the new text of a file.

    Or, without a key, one thing about them that is said in one line.
    """

    key: str = ""  # a hash of old and new; empty if it is not for a reviewer to decide on
    kind: Kind
    cases: tuple[Key, ...]
    what: str = ""  # in words; empty if only the lines say it
    path: str = ""  # of the attached file, from the root; empty for cases
    line: int = 0  # the first of the file that has changed; 0 if that is not known
    lines: tuple[str, ...] = ()  # of a diff, without file names; of new or unknown ones, all lines
    privileges: tuple[str, ...] = ()  # the changes of privilege that it has, in words
    causes: tuple[str, ...] = ()  # in words; empty if they are not known
    growth: float | None = None  # of the prompts of all its cases; None if it is not known
    # The snapshots; of a file, those that differ only in the type and size of an image or the like.
    files: tuple[FileChange, ...] = ()
    is_compared: bool = True  # the lines have both sides, not only the new one

    def __str__(self) -> str:
        """Return what it is with the cases that have it, in words; that of a target has none."""
        return f"{self.what} ({name_cases(self.cases)})" if self.cases else self.what

    @property
    def words(self) -> str:
        """The first line that has changed, of a long one only the words that differ."""
        changed = dropwhile(lambda line: line[0] not in "-+", self.lines)
        first = list(takewhile(lambda line: line[0] in "-+", changed))
        old, new = (next((x[1:].strip() for x in first if x[0] == sign), "") for sign in "-+")
        if old and new and len(old) + len(new) > _LONG:
            words = old.split(), new.split()
            head, tail = shared_ends(*words)
            old, new = (" ".join(side[head : len(side) - tail]) for side in words)
        if old and new:
            return f"{quoted(old)} → {quoted(new)}"
        return f"{quoted(new)} is new" if new else f"{quoted(old)} is gone" if old else ""

    @property
    def growth_in_words(self) -> str:
        """By how much the prompts of all its cases grow; empty if it is not known."""
        return growth_in_words(self.growth, len(self.cases))


def file_lines(old: Attached | None, new: Attached) -> tuple[bool, int, tuple[str, ...]]:
    """Return whether a file can be compared, the first line that changed, and lines of a diff.

    ``old`` is None if the file is new, or if that is not known.
    """
    now, was = text_to_review(new), None if old is None else text_to_review(old)
    is_compared, first = was not in (None, now), 0
    written = now.split("\n")
    if not is_compared:  # all of it is to be read, also where only its role is new
        sign = "+" if was is None else " "
        lines = [f"{sign}{line}" for line in written]
    else:
        _, _, *diff = unified_diff(f"{was}\n", f"{now}\n", "", "")
        lines = ["@@" if line[0] == "@" else line for line in diff]
        if was is not None and isinstance(new, str):
            first = min(shared_ends(was.split("\n"), written)[0] + 1, len(written))
    if isinstance(new, Media) and not isinstance(old, str):
        lines = list(map(snapshot_file.with_short_digest, lines))
    return is_compared, first, tuple(lines)


def change_key(*values: object) -> str:
    """Return a hash of values, each with its length, so that no two lists give the same."""
    key = hashlib.blake2b(digest_size=8)
    for value in values:
        text = (value if isinstance(value, str) else repr(value)).encode("utf-8", "surrogatepass")
        key.update(b"%d " % len(text) + text)
    return key.hexdigest()


_Group = tuple[list[str], list[FileChange], list[tuple[Any, ...]]]  # the last makes the key


def group_changes(
    compared: Iterable[tuple[FileChange, str, str]], attached: Iterable[Change]
) -> list[Change]:
    """Return each change once: the dangerous ones first, then those of most cases.

    Snapshots in which no more than some media have changed belong to the change of the first
    of these files; others whose texts are the same are changes by themselves. ``compared`` are
    snapshots and ``target.lock``, each with its texts, old and new, as ``plain_text`` gives them.
    """
    groups: dict[Hashable, _Group] = {}
    same_text: list[FileChange] = []
    for file, old, new in compared:
        if old == new and file.state == "changed":
            same_text.append(file)
        else:
            # The same texts in another form are compared as they are written.
            _add_to_group(groups, file, *(file.texts if old == new else (old, new)))
    found = {each.path: each for each in attached}
    files: dict[str, list[FileChange]] = {path: [] for path in found}
    for file in same_text:
        was, now = (snapshot_file.read_snapshot(text).named for text in (file.old, file.new))
        paths = (path for path in now if path in found and was.get(path) != now[path])
        if (path := next(paths, None)) is None:
            _add_to_group(groups, file, *file.texts)
        else:
            files[path].append(file)
    changes = [replace(each, files=tuple(files[path])) for path, each in found.items()]
    for lines, those, values in groups.values():
        first, cases = those[0], tuple(each.case for each in those if each.case)
        changes.append(
            Change(
                # A report has the cases in another order.
                key=change_key(*chain(*sorted(values))),
                kind=first.state,
                cases=cases,
                lines=tuple(lines),
                privileges=tuple(unique(chain(*(each.privileges for each in those)))),
                causes=tuple(unique(chain(*(each.causes for each in those)))),
                growth=total_growth(each.growth for each in those) if cases else None,
                files=tuple(those),
                is_compared=bool(first.old and first.new),
            )
        )
    return sorted(changes, key=_rank)


def _add_to_group(groups: dict[Hashable, _Group], file: FileChange, old: str, new: str) -> None:
    identity, lines = _compare(file, old, new)
    group: _Group = snapshot_file.with_short_digests(lines), [], []
    _, files, values = groups.setdefault(identity, group)
    files.append(file)
    # A report has target.lock for each case that it changes.
    case = () if file.name.endswith(".lock") else file.case or ()
    if case or len(files) == 1:
        values.append((case, old, new) if old != new else (case,))


def _rank(change: Change) -> tuple[bool, int, bool, int]:
    kind, is_dangerous = _ORDER.index(change.kind), bool(change.privileges)
    # Who gets a privilege is more dangerous than a change of what has one already.
    is_known = is_dangerous and change.is_compared
    return not is_dangerous, kind, is_known, -len(change.cases)


def _compare(file: FileChange, old: str, new: str) -> tuple[Hashable, list[str]]:
    """Return what is equal for snapshots that differ in the same way, and the lines to show."""
    state, suite = file.state, file.case[0] if file.case else file.name
    if state == "removed":  # nothing is to be read but the names
        return (state, suite), []
    if state == "new":
        written = without_repeated_question(new.split("\n")[:-1])
        return (state, file.name), [f"+{line}" for line in written]
    # Each change of privilege is decided on alone: no other difference joins it.
    is_dangerous = bool(file.privileges)
    identity, lines = compare_texts(old, new, but_for_paths=not is_dangerous)
    return (state, identity, is_dangerous, suite if not lines else ""), lines


def name_cases(cases: Sequence[Key], most: int = _NAMED) -> str:
    """Name cases, or the first of many, with their suites.

    >>> name_cases([("a.yaml", "one"), ("a.yaml", "two"), ("b.yaml", "one"), ("b.yaml", "two")])
    '4 cases, such as a.yaml: one, two; b.yaml: one'
    """
    suites = groupby(itemgetter(0), cases[:most]).items()
    names = "; ".join(f"{suite}: {', '.join(id_ for _, id_ in those)}" for suite, those in suites)
    return names if len(cases) <= most else f"{len(cases):,} cases, such as {names}"


def prompt_growth(
    old: Sequence[Message],
    new: Sequence[Message],
    was: Mapping[str, Attached],
    files: Mapping[str, Attached],
) -> float | None:
    """Return by how much a prompt grows, but for the growth of the files that it attaches.

    Images, documents and audio are not counted. It is None if the text of a file that was in the
    prompt is not known.

    Args:
        old: its messages. A snapshot names files; their texts are empty then.
        new: its messages now.
        was: the texts of attached files as they are in ``old``; others are empty.
        files: their texts now.
    """
    grown = Counter(span.text for span in _texts(new))
    for span in _texts(old):
        text: Attached | None = span.text
        if file_of(span) and text == was.get(file_of(span), ""):
            text = files.get(file_of(span))
        if not isinstance(text, str):
            return None
        grown[text] -= 1
    texts = sum(number * estimated_tokens(text) for text, number in grown.items() if number)
    return texts + sum(map(_size_of_data, new)) - sum(map(_size_of_data, old))


def _texts(messages: Iterable[Message]) -> Iterator[Span]:
    return (span for message in messages for span in message.spans if span.media is None)


def _size_of_data(message: Message) -> float:
    """Return the size of the calls and the thinking of a message."""
    return estimated_tokens(to_json(message.data).decode().rstrip()) if message.data else 0


def total_growth(growths: Iterable[float | None]) -> float | None:
    """Return the sum, or None if one is not known."""
    known = list(growths)
    return None if None in known else sum(filter(None, known))


def growth_in_words(growth: float | None, cases: int) -> str:
    """Return by how much the prompts of some cases grow, or shrink; empty if it is not known.

    >>> growth_in_words(1240, 200), growth_in_words(-1, 1), growth_in_words(0, 3)
    ('about +1,240 tokens in 200 cases', 'about -1 token', 'about the same length')
    """
    if growth is None:
        return ""
    tokens = round(growth)
    if not tokens:
        return "about the same length"
    words = f"about {'+' if tokens > 0 else '-'}{number_of(abs(tokens), 'token')}"
    return words if cases == 1 else f"{words} in {number_of(cases, 'case')}"
