"""The lock of what reaches system messages: which files, by which pattern, with which text.

A file in a system message speaks with the operator's voice. That is a privilege, so each file that
has it is on a list that somebody can own, and each new or changed entry is named.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from multiturn.documents.dump import dump
from multiturn.documents.node import Node
from multiturn.documents.validation import read_as
from multiturn.documents.yaml_events import read_documents
from multiturn.errors import MultiturnError
from multiturn.model import Conversion
from multiturn.prompts.record import utf8
from multiturn.review.snapshots import digest
from multiturn.suites.patterns import matching_pattern

LOCK = "promoted.lock"
_CONFLICT = re.compile("^(?:<<<<<<<|>>>>>>>) ", re.MULTILINE)
_COMMENT = "# The files in system messages: a change of this list is a change of privilege.\n"


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


Lock = Mapping[str, tuple[Promotion, ...]]  # by suite


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


def lock_text(lock: Lock) -> str:
    """Return the text of a lock: a section for each suite that promotes anything."""
    sections = {
        utf8(suite): msgspec.to_builtins(lock[suite]) for suite in sorted(lock) if lock[suite]
    }
    return _COMMENT + utf8(dump(sections))


def read_lock(text: str, name: str) -> Lock:
    """Read a lock.

    Args:
        text: what ``lock_text`` gave.
        name: what errors call it.

    Raises:
        MultiturnError: it is not a lock, or a torn one; with its place.
    """
    try:
        if _CONFLICT.search(text):
            raise MultiturnError("it has a merge conflict", where=name)
        documents = list(read_documents(text, name))
        if len(documents) != 1 or not isinstance(documents[0].value, dict):
            raise MultiturnError("it is not a list of promoted files", where=name)
        return {suite: _section(node, name) for suite, node in documents[0].children.items()}
    except MultiturnError as error:
        advice = "restore it, or remove it and run multiturn snapshot for all suites"
        raise MultiturnError(f"{error.what}; {advice}", where=error.where) from None


def _section(node: Node, name: str) -> tuple[Promotion, ...]:
    if not isinstance(node.value, list):
        raise MultiturnError("a section is a list of promoted files", where=node.place(name))
    for child in node.children:
        if isinstance(child.value, dict):
            child.value.pop("cases", None)  # 0.1 counted the cases of a suite
    return tuple(read_as(child, Promotion, where=name) for child in node.children)


def changes_of_privilege(old: Iterable[Promotion], new: Iterable[Promotion]) -> Iterator[str]:
    """Yield a line for each file of a suite that is new in a system message, or changed there.

    Args:
        old: what the lock has of the suite.
        new: what there is now.
    """
    before, after = _by_path(old), _by_path(new)
    for path in sorted(after):
        was, now = before.get(path, []), after[path]
        texts, patterns = {e.sha256 for e in was}, {e.pattern for e in was}
        added = " and ".join(_by(entry) for entry in now if entry.pattern not in patterns)
        if not was:
            yield f"{path} is new in a system message, {added}"
            continue
        changes = ["has another text"] if any(e.sha256 not in texts for e in now) else []
        if added:
            changes.append(f"comes {added}")
        if changes:
            yield f"{path}, in a system message, {', '.join(changes)}"


def _by_path(entries: Iterable[Promotion]) -> dict[str, list[Promotion]]:
    paths: dict[str, list[Promotion]] = {}
    for entry in entries:
        paths.setdefault(entry.path, []).append(entry)
    return paths


def _by(entry: Promotion) -> str:
    if entry.pattern is None:
        return "as its attachment"
    return f"by the pattern {entry.pattern!r}"
