"""Checking what a stage made of turns and parts."""

from collections.abc import Mapping
from functools import cache
from types import NoneType
from typing import Any, get_args

from msgspec import structs

from multiturn.files.media import Media
from multiturn.model.calls import Call, Thinking
from multiturn.model.turns import ROLES, InTurn, Part, Turn

_KINDS: tuple[str, ...] = get_args(InTurn)
_OTHERS: Mapping[str, type] = {"message": int, "content": int, "line": int, "media": Media}


def check_turns(turns: Any, *, wholly: bool = False) -> None:
    """Raise a ValueError that says what a stage made, if that is not turns.

    ``wholly`` looks at all that is in the parts, not only at what is sent of them.
    """
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
        check_parts(turn.parts, wholly=wholly)
        if turn.calls or turn.thinking or turn.answers is not None:
            _check_calls(turn)


def _check_calls(turn: Turn) -> None:
    """Raise a ValueError if something in a turn beside its parts has a wrong type or place."""
    for name, kind in (("calls", Call), ("thinking", Thinking)):
        found = getattr(turn, name)
        wrong = found if not isinstance(found, tuple) else None
        wrong = next((each for each in found if not isinstance(each, kind)), wrong)
        if wrong is not None:
            raise ValueError(f"a Turn with {kind_of(wrong)} in its {name}")
        if found and turn.role != "assistant":
            raise ValueError(f"{name} in a turn of the role {turn.role}; they are the assistant's")
    if turn.answers is not None and (turn.role != "tool" or not isinstance(turn.answers, str)):
        raise ValueError(f"a Turn of the role {turn.role} that answers {kind_of(turn.answers)}")


def check_parts(parts: Any, *, wholly: bool = False) -> None:
    """Raise a ValueError that says what a stage made, if that is not parts."""
    if not isinstance(parts, (tuple, list)):
        raise ValueError(f"{kind_of(parts)} in place of a tuple of parts")
    for part in parts:
        if not isinstance(part, Part):
            raise ValueError(f"{kind_of(part)} in place of a Part")
        is_plain = isinstance(part.text, str) and isinstance(part.separator, str)
        if wholly or not is_plain or part.media is not None or part.kind == "media":
            _check_fields(part)
        if wholly and part.media is not None and part.text != part.media.text:
            # The transcript would name other media than an API is sent.
            what = f"a Part whose text is {part.text!r}, and its media are {part.media.text}"
            raise ValueError(f"{what}; give it text=media.text, too")


def _check_fields(part: Part) -> None:
    """Raise a ValueError that names the first field of a part that has a wrong type."""
    wrong = _wrong_field(tuple(map(type, structs.astuple(part))))
    if wrong:
        raise ValueError(f"a Part whose {wrong} is {kind_of(getattr(part, wrong))}")
    if (part.kind == "media") is not (part.media is not None):
        raise ValueError(f"a Part of the kind {part.kind!r} whose media is {kind_of(part.media)}")
    if part.kind not in _KINDS:
        raise ValueError(f"a Part of the kind {part.kind!r}; choose from: {', '.join(_KINDS)}")
    if part.media is not None and not part.media.has_bytes and part.media.url is None:
        what = f"{part.media.text} without its bytes"
        raise ValueError(f"{what}; to change media, use media.replace() or Media.of()")


@cache
def _wrong_field(types: tuple[type, ...]) -> str:
    """Return the first field of a Part that has a wrong type; empty if all types are right."""
    for name, found in zip(Part.__struct_fields__, types, strict=True):
        expected = _OTHERS.get(name, str)
        is_unset = found is NoneType and name not in ("kind", "text", "separator", "line")
        if not (issubclass(found, expected) or is_unset):
            return name
    return ""


def kind_of(value: object) -> str:
    """Return a value's type in words, for errors."""
    name = type(value).__name__
    article = "an" if name[0] in "aeiouAEIOU" else "a"
    return "None" if value is None else f"{article} {name}"
