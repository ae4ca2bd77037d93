"""Turns, their parts, which know where their text comes from, and the views that show them."""

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import FunctionType, NoneType
from typing import Any, Literal, get_args

from msgspec import Struct, structs

Role = Literal["system", "user", "assistant", "tool"]
ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool")


def is_blank(text: str) -> bool:
    """Whether a text has only white space, and so is no content (rule 2)."""
    return not text or text.isspace()


Kind = Literal["text", "file", "reference"]
_KINDS: tuple[Kind, ...] = get_args(Kind)


class Part(Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """A piece of a turn, and where it comes from.

    Attributes:
        kind: ``text``, ``file`` (not yet embedded) or ``reference`` (the marker of a guideline).
        text: what the reader of the turn sees.
        separator: the text before it; ignored for the first part of a turn.
        message: index in ``input_messages``.
        content: index of the segment in that message's content.
        line: one-based line of the segment in the suite.
        path: path of the attached file, as the suite wrote it.
        resolved_path: that file's path relative to the root, with ``/``.
        key: the key that holds this text in the suite, where it is not in a message.
        stage: the stage that added this text; None for text of a suite or a file.
        moved_by: the stage that moved this text out of the message where the suite has it.
        changed_by: the last stage that changed this text; the text as written is in the case.
    """

    kind: Kind
    text: str
    separator: str = "\n"
    message: int | None = None
    content: int | None = None
    line: int = 0
    path: str | None = None
    resolved_path: str | None = None
    key: str | None = None
    stage: str | None = None
    moved_by: str | None = None
    changed_by: str | None = None

    @property
    def is_content(self) -> bool:
        """Whether it keeps its turn alive: text that is not blank, or any file (rule 2)."""
        if self.kind == "text":
            return self.resolved_path is not None or not is_blank(self.text)
        return self.kind == "file"

    @property
    def origin(self) -> tuple[Any, ...] | None:
        """What identifies the text of a suite or a file; None for text that a stage added."""
        if self.stage is not None:
            return None
        origin = (self.message, self.content, self.key, self.resolved_path)
        return None if origin == (None, None, None, None) else origin


def as_json(content: Mapping[str, Any]) -> str:
    """Return structured content as it is put into a prompt (rule 1)."""
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)


def separate_first(separator: str, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return the parts with another separator before the first."""
    return (structs.replace(parts[0], separator=separator), *parts[1:]) if parts else ()


def joined(parts: Iterable[Part]) -> str:
    """Return the parts' texts, joined by their separators."""
    pieces: list[str] = []
    for part in parts:
        pieces += (part.separator, part.text)
    return "".join(pieces[1:])


class Turn(Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """A message on its way through the pipeline.

    Attributes:
        role: who speaks.
        parts: its content in order.
        message: index in ``input_messages``; None for a turn that a stage made.
    """

    role: Role
    parts: tuple[Part, ...] = ()
    message: int | None = None

    @property
    def content(self) -> str:
        """The texts of the parts, joined by their separators."""
        return self.parts[0].text if len(self.parts) == 1 else joined(self.parts)

    @property
    def has_content(self) -> bool:
        """Whether any part is more than a reference or blank text."""
        return any(part.is_content for part in self.parts)

    @property
    def says_something(self) -> bool:
        """Whether any part is more than blank text."""
        return any(part.is_content or part.kind == "reference" for part in self.parts)


Turns = tuple[Turn, ...]
Parts = tuple[Part, ...]


class Edited(Struct, frozen=True):
    """A view with something changed: what ``edit_chat`` and ``edit_question`` choose."""

    name: str  # ``chat``, a view of turns, or ``question``, a view of parts
    view: Any
    edit: Callable[..., Any]
    options: Mapping[str, Any] = {}
    stage: str = ""

    def __call__(self, conversion: Any) -> Any:
        """Return what the view shows, edited; None where it shows nothing."""
        shown = self.view(conversion)
        return None if shown is None else self._edited(shown)

    def left_out(self, conversion: Any) -> Any:
        """Return the chat that the view leaves out, edited; None if there is none."""
        shown = whole_chat(self.view, conversion)
        return None if shown is None else self._edited(shown)

    def _edited(self, shown: Any) -> Any:
        edited = self.edit(shown, **self.options)
        try:
            (check_turns if self.name == "chat" else check_parts)(edited)
        except ValueError as error:
            raise ValueError(f"{self.edit.__name__} returned {error}") from None
        if self.name == "question":
            return signed(edited, texts_of(shown), self.stage)
        texts = texts_of(part for turn in shown for part in turn.parts)
        return tuple(
            structs.replace(turn, parts=signed(turn.parts, texts, self.stage)) for turn in edited
        )


def edited(name: str, view: Any, function: Any, options: Mapping[str, Any], stage: str) -> Any:
    """Return a view with one more edit; the same view if the stage has already made that edit."""
    if view is None:
        raise ValueError(
            f"edit_{name} needs a {name} view, and no stage has chosen one yet;"
            f' declare @stage(requires={{"{name}"}})'
        )
    if not isinstance(function, FunctionType) or not function.__qualname__.isidentifier():
        what = f"edit_{name} takes a function at the top of a module, because it is sent to other"
        raise TypeError(f"{what} processes by its name; give what it needs as options")
    layer = view
    while isinstance(layer, Edited):
        if (layer.edit, layer.options, layer.stage) == (function, options, stage):
            return view
        layer = layer.view
    return Edited(name, view, function, options, stage)


def whole_chat(view: Any, conversion: Any) -> Turns | None:
    """Return the chat that a view shows, or the one that it leaves out; None if there is neither.

    A view that leaves out a chat has a method ``left_out``: the system message is still sent.
    """
    chat: Turns | None = None if view is None else view(conversion)
    if chat is None and (left_out := getattr(view, "left_out", None)):
        chat = left_out(conversion)
        try:
            check_turns(chat or ())
        except ValueError as error:
            raise ValueError(f"its chat_view left out {error}") from None
    return chat


def texts_of(parts: Iterable[Part]) -> dict[Any, set[str]]:
    """Return the texts of parts by their origins, for ``signed``."""
    texts: dict[Any, set[str]] = {}
    for part in parts:
        texts.setdefault(part.origin, set()).add(part.text)
    return texts


def signed(parts: Iterable[Part], before: Mapping[Any, set[str]], stage: str) -> Parts:
    """Return parts with a stage's name on each text that was not there before it ran."""
    anywhere = set().union(*before.values())

    def sign(part: Part) -> Part:
        is_anonymous = part.origin is None and part.stage is None
        if part.text in before.get(part.origin, anywhere) and not is_anonymous:
            return part
        if part.origin is None:
            return structs.replace(part, stage=stage)
        return structs.replace(part, changed_by=stage)

    return tuple(map(sign, parts))


def check_turns(turns: Any) -> None:
    """Raise a ValueError that says what a stage made, if that is not turns."""
    if not isinstance(turns, (tuple, list)):
        raise ValueError(f"{kind_of(turns)} in place of a tuple of turns")
    for turn in turns:
        if not isinstance(turn, Turn):
            raise ValueError(f"{kind_of(turn)} in place of a Turn")
        if turn.role not in ROLES:
            choices = ", ".join(ROLES)
            raise ValueError(f"a turn with the role {turn.role!r}; choose from: {choices}")
        if not isinstance(turn.message, (int, NoneType)):
            raise ValueError(f"a Turn whose message is {kind_of(turn.message)}")
        check_parts(turn.parts)


def check_parts(parts: Any) -> None:
    """Raise a ValueError that says what a stage made, if that is not parts."""
    if not isinstance(parts, (tuple, list)):
        raise ValueError(f"{kind_of(parts)} in place of a tuple of parts")
    for part in parts:
        if not isinstance(part, Part):
            raise ValueError(f"{kind_of(part)} in place of a Part")
        if not (isinstance(part.text, str) and isinstance(part.separator, str)):
            check_fields(part)


def check_fields(part: Part) -> None:
    """Raise a ValueError that names the first field of a part that has a wrong type."""
    wrong = _wrong_field(tuple(map(type, structs.astuple(part))))
    if wrong:
        raise ValueError(f"a Part whose {wrong} is {kind_of(getattr(part, wrong))}")
    if part.kind not in _KINDS:
        raise ValueError(f"a Part of the kind {part.kind!r}; choose from: {', '.join(_KINDS)}")


@cache
def _wrong_field(types: tuple[type, ...]) -> str:
    """Return the first field of a Part that has a wrong type; empty if all types are right."""
    for name, found in zip(Part.__struct_fields__, types, strict=True):
        expected = int if name in ("message", "content", "line") else str
        is_unset = found is NoneType and name not in ("kind", "text", "separator", "line")
        if not (issubclass(found, expected) or is_unset):
            return name
    return ""


def mapped(parts: Parts, function: Callable[[Part], Part]) -> Parts:
    """Return parts as a function changes them; what stages have added stays as it is."""
    changed = tuple(part if part.stage is not None else function(part) for part in parts)
    try:
        check_parts(changed)
    except ValueError as error:
        raise TypeError(f"the function given to map_parts returned {error}") from None
    return changed


def kind_of(value: object) -> str:
    """Return a value's type in words, for errors."""
    name = type(value).__name__
    article = "an" if name[0] in "aeiouAEIOU" else "a"
    return "None" if value is None else f"{article} {name}"
