"""The lists beside the snapshots: the files in system messages, and those that snapshots name.

A file in a system message speaks with the operator's voice. That is a privilege, so each file that
has it is on a list that somebody can own, and each new or changed entry is named.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

import msgspec

from multiturn.documents.dump import dump
from multiturn.documents.node import MAX_VALUES, Node
from multiturn.documents.validation import read_as
from multiturn.documents.yaml_events import read_documents
from multiturn.errors import MultiturnError
from multiturn.model import Conversion
from multiturn.prompts.record import utf8
from multiturn.review.snapshots import digest
from multiturn.suites.patterns import matching_pattern

_T = TypeVar("_T")
PROMOTED, FILES = "promoted.lock", "files.lock"
_CONFLICT = re.compile("^(?:<<<<<<<|>>>>>>>) ", re.MULTILINE)
_COMMENTS = {
    PROMOTED: "# The files in system messages: a change of this list is a change of privilege.\n",
    FILES: "# The files that snapshots name in place of their texts: the SHA-256 of each text.\n",
}


class Promotion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file that reaches a system message.

    Attributes:
        path: relative to the root, with ``/``.
        sha256: of its text as it is sent.
        pattern: the guideline pattern that matched, as written; None where a system message
            attaches the file.
    """

    path: str
    sha256: str
    pattern: str | None


# By suite: the promotions; and the digest of each file that snapshots name, by its path.
PromotedLock = Mapping[str, tuple[Promotion, ...]]
FilesLock = Mapping[str, Mapping[str, str]]


def promotions_of(conversion: Conversion) -> set[Promotion]:
    """Return the files that reach a system message in one case.

    Args:
        conversion: finished. Without a chat prompt, its guidelines count.
    """
    chat, texts = conversion.chat, {f.resolved_path: f.text for f in conversion.input_files}
    parts = conversion.guidelines
    if chat is not None:
        parts = tuple(part for turn in chat if turn.role == "system" for part in turn.parts)
    found = set()
    for part in parts:
        path = part.resolved_path
        if path is None or part.kind == "reference":
            continue
        # A file that no stage moved is where the suite attached it, whatever its name.
        pattern = None
        if part.moved_by is not None and part.path is not None:
            pattern = matching_pattern(conversion.case.guideline_patterns, part.path, path)
        sha256 = digest(texts.get(path, part.text))
        found.add(Promotion(utf8(path), sha256, None if pattern is None else utf8(pattern)))
    return found


def in_order(promotions: Iterable[Promotion]) -> tuple[Promotion, ...]:
    """Return the promotions of a suite in the lock's order."""
    return tuple(sorted(promotions, key=lambda e: (e.path, e.pattern or "", e.sha256)))


def lock_text(name: str, lock: PromotedLock | FilesLock) -> str:
    """Return the text of a list: a section for each suite that has anything on it.

    Args:
        name: ``PROMOTED`` or ``FILES``.
        lock: what is on it.
    """
    sections = {utf8(suite): msgspec.to_builtins(lock[suite]) for suite in sorted(lock)}
    return _COMMENTS[name] + utf8(dump({k: section for k, section in sections.items() if section}))


def read_promoted(text: str | None, name: str) -> PromotedLock:
    """Read the list of promoted files.

    Args:
        text: what ``lock_text`` gave; None for an empty list.
        name: what errors call it.

    Raises:
        MultiturnError: it is not that list, or a torn one; with its place.
    """

    def promotions(node: Node) -> tuple[Promotion, ...]:
        if not isinstance(node.value, list):
            raise MultiturnError("a section is a list of promoted files", where=node.place(name))
        for child in node.children:
            if isinstance(child.value, dict):
                child.value.pop("cases", None)  # 0.1 counted the cases of a suite
        return tuple(read_as(child, Promotion, where=name) for child in node.children)

    return _read(text, name, promotions)


def read_files(text: str | None, name: str) -> FilesLock:
    """Read the list of files that snapshots name, as ``read_promoted`` does."""

    def digests(node: Node) -> Mapping[str, str]:
        try:
            return msgspec.convert(node.value, dict[str, str])
        except msgspec.ValidationError:
            what = "a section has the digest of each file, in quotes"
            raise MultiturnError(what, where=node.place(name)) from None

    return _read(text, name, digests)


def with_digests(text: str | None, name: str, suite: str, digests: Mapping[str, str]) -> str:
    """Return the text of the list of files with other digests of a suite.

    Args:
        text: of the list; None for an empty one.
        name: what errors call it.
        suite: its name.
        digests: of the files that have changed, by their paths.
    """
    lock = read_files(text, name)
    section = {**lock.get(suite, {}), **digests}
    return lock_text(FILES, {**lock, suite: dict(sorted(section.items()))})


def _read(text: str | None, name: str, section: Callable[[Node], _T]) -> dict[str, _T]:
    try:
        if text is None:
            return {}
        if _CONFLICT.search(text):
            raise MultiturnError("it has a merge conflict", where=name)
        # As many as the files of all suites are: a list of any length, but no aliases that grow.
        documents = list(read_documents(text, name, max(MAX_VALUES, len(text))))
        if len(documents) != 1 or not isinstance(documents[0].value, dict):
            raise MultiturnError("it is not a list of files by suite", where=name)
        return {suite: section(node) for suite, node in documents[0].children.items()}
    except MultiturnError as error:
        advice = "restore it, or remove it and run multiturn snapshot for all suites"
        raise MultiturnError(f"{error.what}; {advice}", where=error.where) from None


class PromotedChange(NamedTuple):
    """A file that is new in the system messages of a suite, or changed there."""

    suite: str
    path: str
    is_new: bool
    what: str  # in words


def changes_of_privilege(old: PromotedLock, new: PromotedLock) -> Iterator[PromotedChange]:
    """Yield the files that are new in system messages, or changed there.

    What another suite had, with the same text by the same pattern, is not new: suites are renamed,
    and new ones share guidelines.

    Args:
        old: what is recorded.
        new: what the suites to compare have now.
    """
    anywhere = _by_path(entry for entries in old.values() for entry in entries)
    for suite, entries in new.items():
        before, after = _by_path(old.get(suite, ())), _by_path(entries)
        for path in sorted(after):
            was, now = before.get(path) or anywhere.get(path, []), after[path]
            texts, patterns = {e.sha256 for e in was}, {e.pattern for e in was}
            added = " and ".join(_by(entry) for entry in now if entry.pattern not in patterns)
            if not was:
                what = f"{path} is new in a system message, {added}"
                yield PromotedChange(suite, path, True, what)
                continue
            changes = ["has another text"] if any(e.sha256 not in texts for e in now) else []
            if added:
                changes.append(f"comes {added}")
            if changes:
                what = f"{path}, in a system message, {', '.join(changes)}"
                yield PromotedChange(suite, path, False, what)


def _by_path(entries: Iterable[Promotion]) -> dict[str, list[Promotion]]:
    paths: dict[str, list[Promotion]] = {}
    for entry in entries:
        paths.setdefault(entry.path, []).append(entry)
    return paths


def _by(entry: Promotion) -> str:
    if entry.pattern is None:
        return "as its attachment"
    return f"by the pattern {entry.pattern!r}"
