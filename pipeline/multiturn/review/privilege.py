"""Changes of privilege: texts with another role, and texts that are new in a system message."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from multiturn.errors import quoted
from multiturn.prompts.provenance import Message, Span, Spans, text_of
from multiturn.turns import is_blank


class PrivilegeChange(Struct, frozen=True):
    """A text that has another role than before, or is new in a system message.

    Attributes:
        text: what it says.
        role: of its message now.
        was: of its message before; empty for a text that is new.
        path: the file that it belongs to, if it is a file's text or the header above it.
        stage: that adds it, empty if that is not known; None for text of a suite or a file.
    """

    text: str
    role: str
    was: str = ""
    path: str = ""
    stage: str | None = None

    def __str__(self) -> str:
        """Return it in words.

        >>> print(PrivilegeChange("Obey me.", "system", "user"))
        user text becomes system text: 'Obey me.'
        """
        text = quoted(self.text.strip())
        if not self.was and self.stage is None:
            return f"new text in a {self.role} message: {text}"
        if self.stage is not None:
            return f"{self.stage or 'a stage'} adds to a {self.role} message: {text}"
        return f"{self.was} text becomes {self.role} text: {self.path or text}"


def privilege_changes(
    before: Sequence[Message], after: Sequence[Message]
) -> Iterator[PrivilegeChange]:
    r"""Yield the changes of privilege in a case.

    That is text which was in a message of another role, and text of a suite or a stage that is new
    in a system message. The headings that stages add because a file is new there are left out: the
    file is what counts (see ``promotions_of``). Another heading of a file that had one is not.

    Args:
        before: the messages, in spans. A file's text may be empty: its path stands for it.
        after: what they are now.

    >>> user, system = Message("user", (Span("Obey me.", ""),)), Span("Be nice.", "")
    >>> for change in privilege_changes([user], [Message("system", (system, *user.spans))]):
    ...     print(change)
    new text in a system message: 'Be nice.'
    user text becomes system text: 'Obey me.'
    """
    known = _Known(before)
    system = [span for message in after if message.role == "system" for span in message.spans]
    new_files = {
        span.path
        for span in system
        if span.path and span.stage is None and not known.is_in("system", span)
    }
    system = [span for span in system if span.stage is None or not is_blank(span.text)]
    for at, span in enumerate(system, 1):
        if is_blank(span.text) or known.is_in("system", span):
            continue
        if span.stage is None:
            for role in known.roles:
                if known.is_in(role, span):
                    yield PrivilegeChange(span.text, "system", role, span.path)
                    break
            else:
                if before and not span.path:
                    yield PrivilegeChange(span.text, "system")
        elif not new_files or (
            span.path in known.headed
            if span.path
            else known.has_files
            or new_files.isdisjoint(below.path for below in system[at : at + 1])
        ):
            yield PrivilegeChange(span.text, "system", path=span.path, stage=span.stage)
    for message in after:
        roles = known.roles_of(message)
        if message.role != "system" and roles and message.role not in roles:
            yield PrivilegeChange(text_of(message.spans), message.role, roles[0])


class _Known:
    """The earlier texts, by role."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.roles = dict.fromkeys(message.role for message in messages)
        self._paths: dict[str, set[str]] = {role: set() for role in ("system", *self.roles)}
        self._texts = dict.fromkeys(self._paths, "\n")
        self._wholes: dict[str, list[str]] = {}
        self.headed: set[str] = set()  # files with a text on the line above them
        self._spans = {(message.role, span.text) for message in messages for span in message.spans}
        for message in messages:
            above = ""
            for span in message.spans:
                if span.stage is None and span.path:
                    self._paths[message.role].add(span.path)
                    if message.role == "system" and not is_blank(above[-2:]):
                        self.headed.add(span.path)
                above += span.text
            self._texts[message.role] += f"{text_of(message.spans)}\n"
            self._wholes.setdefault(_named(message.spans), []).append(message.role)

    def is_in(self, role: str, span: Span) -> bool:
        """Return whether messages of a role had a text, in whole lines or as a whole span."""
        if span.stage is None and span.path in self._paths[role]:
            return True
        text = span.text.strip("\n")
        return f"\n{text}\n" in self._texts[role] or (role, span.text) in self._spans

    @property
    def has_files(self) -> bool:
        """Whether a file is known to be in a system message."""
        return bool(self._paths["system"])

    def roles_of(self, message: Message) -> list[str]:
        """Return the roles of earlier messages with the same text."""
        spans = message.spans
        return self._wholes.get(_named(spans)) or self._wholes.get(text_of(spans), [])


def _named(spans: Spans) -> str:
    """Return a text in which paths replace the texts of files."""
    return "".join(
        f"\0{span.path}\0" if span.path and span.stage is None else span.text for span in spans
    )
