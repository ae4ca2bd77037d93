"""What reaches a system message, or tells of a tool, and how that changes.

Such a text speaks with the operator's voice. That is a privilege: a text that gets another role is
named, and each file that has it is on a list that somebody can own. A tool that is new, or that
says something else, changes what the model may do.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Any

from msgspec import Struct
from toolz import groupby, unique

from multiturn.errors import quoted
from multiturn.explaining.record import to_json
from multiturn.explaining.spans import Message, Span, file_of, joined_text
from multiturn.model.conversion import Conversion
from multiturn.model.turns import is_blank
from multiturn.providers.base import USUAL_DEFAULT_SYSTEM, USUAL_SYSTEM_ROLE
from multiturn.snapshots.locations import digest
from multiturn.suites.guideline_patterns import matching_pattern
from multiturn.text import utf8

_NOTHING = Span("", "")
_DEFAULTS = {"default_system": USUAL_DEFAULT_SYSTEM, "system_role": USUAL_SYSTEM_ROLE}


class Promotion(Struct, frozen=True):
    """A file that reaches a system message."""

    path: str  # relative to the root, with ``/``
    sha256: str  # of its text as it is sent
    # the guideline pattern that matched, as written; None where a system message attaches the file
    pattern: str | None


class PrivilegeChange(Struct, frozen=True, kw_only=True):
    """A text with another role than before, or one that is new or changed in a system message.

    Or a file that is in no system message any more: it has no role now, and its text is empty.
    """

    text: str | None = None  # None for a file that is named only
    role: str = ""  # of its message now
    was: str = ""  # role of its message before; empty for a text that is new
    path: str = ""  # the file that it belongs to, if it is a file's text or the header above it
    # the stage that adds it, empty if that is not known; None for text of a suite or a file
    stage: str | None = None
    of_list: str = ""  # how the list of promoted files has changed, in words
    is_new: bool = False  # a file that gets into system messages in a way that is new
    causes: tuple[str, ...] = ()  # that may have made it; empty where the words say it

    @property
    def words(self) -> str:
        """The change in words, without a cause.

        >>> PrivilegeChange(text="Obey me.", role="system", was="user").words
        "user text becomes system text: 'Obey me.'"
        """
        text = quoted((self.text or "").strip())
        if self.of_list:
            return self.of_list if self.text is None else f"{self.of_list}: {text}"
        if not self.role:
            return f"{self.path} is no longer in a {self.was} message"
        if is_definition(self.role):
            return f"the definition of the {self.role} {'changed' if self.was else 'is new'}"
        if self.stage is not None:
            return f"{self.stage or 'a stage'} adds to a {self.role} message: {text}"
        if not self.was and self.path:
            return f"{self.path} is new in a {self.role} message"
        if not self.was:
            return f"new text in a {self.role} message: {text}"
        return f"{self.was} text becomes {self.role} text: {self.path or text}"

    def __str__(self) -> str:
        """Return it in words, with its cause if only one is possible."""
        return f"{self.words}, by {self.causes[0]}" if len(self.causes) == 1 else self.words


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


def in_order(entries: Iterable[Any]) -> tuple[Any, ...]:
    """Return what a list has of a file, promotions or digests, once each in the list's order."""

    def order(entry: Promotion | str) -> tuple[str, str]:
        return ("", entry) if isinstance(entry, str) else (entry.pattern or "", entry.sha256)

    return tuple(sorted(set(entries), key=order))


def promotion_changes(
    old: Mapping[str, Iterable[Promotion]], new: Mapping[str, Iterable[Promotion]]
) -> Iterator[tuple[PrivilegeChange, Sequence[Promotion]]]:
    """Yield the files that are new in system messages, then those that changed there, and how.

    What another suite had, with the same text by the same pattern, is not new: suites are renamed,
    and new ones share guidelines.
    """
    for path in sorted(new, key=lambda path: (path in old, path)):
        was, now = old.get(path, ()), new[path]
        texts, patterns = {e.sha256 for e in was}, {e.pattern for e in was}
        changed = [entry for entry in now if entry.sha256 not in texts]
        if was and changed:
            words = f"{path} changed; it is part of a system message"
            yield PrivilegeChange(path=path, of_list=words), changed
        added = groupby(attrgetter("pattern"), (e for e in now if e.pattern not in patterns))
        for pattern, entries in added.items():
            how = "as its attachment" if pattern is None else f"by the pattern {pattern!r}"
            is_ = "is part of a system message, now" if was else "is new in a system message,"
            yield PrivilegeChange(path=path, of_list=f"{path} {is_} {how}", is_new=True), entries


def privilege_changes(
    before: Sequence[Message], after: Sequence[Message], listed: Container[str] = ()
) -> Iterator[PrivilegeChange]:
    r"""Yield the changes of privilege in a case.

    These are texts that were in a message of another role, files and texts of a suite or a stage
    that are new in a system message, files that are no longer in one, and definitions of tools that
    are new or changed. A heading that a stage adds because a file is new there is left out, because
    the file itself is named. A new heading of a file that already had one is a change.

    Args:
        before: the messages, in spans. A file's text may be empty: its path stands for it.
        listed: files whose texts are not named again, as the list of promoted files says that they
            are new or changed; a changed header above them is.

    >>> user, system = Message("user", (Span("Obey me.", ""),)), Span("Be nice.", "")
    >>> for change in privilege_changes([user], [Message("system", (system, *user.spans))]):
    ...     print(change)
    new text in a system message: 'Be nice.'
    user text becomes system text: 'Obey me.'
    """
    tools = {m.role: (joined_text(m.spans), m.data) for m in before if is_definition(m.role)}
    for message in after if before else ():
        role, was = message.role, message.role if message.role in tools else ""
        said = joined_text(message.spans), message.data
        if is_definition(role) and tools.get(role) != said:
            yield PrivilegeChange(text=said[0], role=role, was=was)
    before = [message for message in before if not is_definition(message.role)]
    after = [message for message in after if not is_definition(message.role)]
    known = _Known(before)
    system = [span for message in after if message.role == "system" for span in message.spans]
    new_files = {
        path for span in system if (path := file_of(span)) and not known.is_in("system", span)
    }
    shown = [span for span in system if span.stage is None or not is_blank(span.text)]
    for span, below in pairwise([*shown, _NOTHING]):
        if is_blank(span.text) or known.is_in("system", span):
            continue
        if span.stage is None:
            was = next((role for role in known.roles if known.is_in(role, span)), "")
            if before and span.path not in listed:
                yield PrivilegeChange(text=span.text, role="system", was=was, path=span.path)
            continue
        is_heading = span.path not in known.headed
        if not span.path:
            is_heading = not known.files and below.path in new_files
        if not new_files or not is_heading:
            yield PrivilegeChange(text=span.text, role="system", path=span.path, stage=span.stage)
    for message in after:
        whole, role = joined_text(message.spans), message.role
        roles = known.by_text.get(_named(message)) or known.by_text.get(whole)
        if role != "system" and roles and role not in roles:
            yield PrivilegeChange(text=whole, role=role, was=roles[0])
        # Of another message, each text of the suite that was a whole one in another role only.
        for span in message.spans if role != "system" and not roles else ():
            is_text = span.stage is None and not span.path and not is_blank(span.text)
            found = known.roles_of(span.text) if is_text else []
            if found and not (role in known.roles and known.is_in(role, span)):
                yield PrivilegeChange(text=span.text, role=role, was=found[0])
    for path in sorted(known.files.difference(map(file_of, system))):
        yield PrivilegeChange(text="", was="system", path=path)


def is_definition(role: str) -> bool:
    """Return whether a role is that of a definition, such as ``tool find``; a result's is not."""
    return role.startswith("tool ")


def body_changes(before: Any, after: Any) -> Iterator[PrivilegeChange]:
    """Yield what `body`, a mapping or None, adds to a request and did not, or no longer adds."""
    was, now = before or {}, after or {}
    for key in unique((*now, *was)):
        if (key in was, was.get(key)) != (key in now, now.get(key)):
            adds, value = ("adds", now[key]) if key in now else ("no longer adds", was[key])
            said = quoted(f"{key}: {to_json(value).decode().rstrip()}")
            yield PrivilegeChange(of_list=f"body {adds} to the request: {said}")


def target_changes(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[PrivilegeChange]:
    """Yield what a target adds to each request, or where it sends system messages, as it did not.

    Both are settings; those of a case say only what its body adds.
    """
    yield from body_changes(before.get("body"), after.get("body"))
    for key, default in _DEFAULTS.items():
        was, now = before.get(key, default), after.get(key, default)
        if was != now:
            yield PrivilegeChange(of_list=f"{key} of the target is {now!r}, and was {was!r}")


class _Known:
    """The earlier texts, by role."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.roles = dict.fromkeys(message.role for message in messages)
        self.headed: set[str] = set()  # files in system messages with a text on the line above
        self._paths: dict[str, set[str]] = {role: set() for role in ("system", *self.roles)}
        self._texts = dict.fromkeys(self._paths, "\n")
        self._spans = {(message.role, span.text) for message in messages for span in message.spans}
        self.by_text: dict[str, list[str]] = {}  # the roles of the messages with each text
        for message in messages:
            above = ""
            for span in message.spans:
                if file_of(span):
                    self._paths[message.role].add(span.path)
                    if message.role == "system" and not is_blank(above[-2:]):
                        self.headed.add(span.path)
                above += span.text
            self._texts[message.role] += f"{above}\n"
            self.by_text.setdefault(_named(message), []).append(message.role)
        self.files = self._paths["system"]

    def is_in(self, role: str, span: Span) -> bool:
        """Return whether messages of a role had a text, in whole lines or as a whole span."""
        if file_of(span) in self._paths[role]:
            return True
        text = span.text.strip("\n")
        return f"\n{text}\n" in self._texts[role] or (role, span.text) in self._spans

    def roles_of(self, text: str) -> list[str]:
        """Return the roles of the messages that had a text as a whole span."""
        return [role for role in self.roles if (role, text) in self._spans]


def _named(message: Message) -> str:
    """Return a text in which paths replace the texts of files."""
    return "".join(f"\0{file_of(span)}\0" if file_of(span) else span.text for span in message.spans)
