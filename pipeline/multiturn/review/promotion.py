"""The files in system messages, and how they change.

A file in a system message speaks with the operator's voice. That is a privilege, so each file that
has it is on a list that somebody can own, and each new or changed entry is named.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

from multiturn.model.conversion import Conversion
from multiturn.review.locations import digest
from multiturn.suites.guideline_patterns import matching_pattern
from multiturn.text import utf8


class Promotion(Struct, frozen=True):
    """A file that reaches a system message."""

    path: str  # relative to the root, with ``/``
    sha256: str  # of its text as it is sent
    # the guideline pattern that matched, as written; None where a system message attaches the file
    pattern: str | None


PromotedLock = Mapping[str, tuple[Promotion, ...]]  # by path


def promotions_of(conversion: Conversion) -> set[Promotion]:
    """Return the files that reach a system message in a case; its guidelines, if it has no chat."""
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


def lock_of(promotions: Iterable[Promotion]) -> PromotedLock:
    """Return promotions by path, each once."""
    found: dict[str, set[Promotion]] = {}
    for promotion in promotions:
        found.setdefault(promotion.path, set()).add(promotion)
    return {path: in_order(each) for path, each in found.items()}


def in_order(promotions: Iterable[Promotion]) -> tuple[Promotion, ...]:
    """Return promotions in the order of the list."""
    return tuple(sorted(promotions, key=lambda e: (e.path, e.pattern or "", e.sha256)))


class PromotedChange(NamedTuple):
    """A file that is new in system messages, or changed there."""

    path: str
    is_new: bool
    what: str  # in words


def changes_of_privilege(old: PromotedLock, new: PromotedLock) -> Iterator[PromotedChange]:
    """Yield the files that are new in system messages, and then those that changed there.

    What another suite had, with the same text by the same pattern, is not new: suites are renamed,
    and new ones share guidelines.
    """
    for path in sorted(new, key=lambda path: (path in old, path)):
        was, now = old.get(path, ()), new[path]
        texts, patterns = {e.sha256 for e in was}, {e.pattern for e in was}
        others = dict.fromkeys(_by(entry) for entry in now if entry.pattern not in patterns)
        added = " and ".join(others)
        has_changed = any(entry.sha256 not in texts for entry in now)
        if not was:
            yield PromotedChange(path, True, f"{path} is new in a system message, {added}")
        elif added:
            also = " changed; it" if has_changed else ""
            what = f"{path}{also} is part of a system message, now {added}"
            yield PromotedChange(path, False, what)
        elif has_changed:
            what = f"{path} changed; it is part of a system message"
            yield PromotedChange(path, False, what)


def _by(entry: Promotion) -> str:
    if entry.pattern is None:
        return "as its attachment"
    return f"by the pattern {entry.pattern!r}"
