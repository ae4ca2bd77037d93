"""Views that stages edit, and the signatures of the stages on what they changed."""

from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import Any

from msgspec import Struct, structs

from multiturn.files.media import Media
from multiturn.model.calls import Call
from multiturn.model.checks import check_parts, check_turns
from multiturn.model.turns import Part, Parts, Turn, Turns


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
            return signed(edited, texts_by_origin(shown), self.stage)
        texts = texts_by_origin(part for turn in shown for part in turn.parts)
        calls = calls_of(shown)
        return tuple(signed_turn(turn, texts, calls, self.stage) for turn in edited)


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


Said = Mapping[Any, set[str | Media]]  # the texts and the media of parts, by their origins


def texts_by_origin(parts: Iterable[Part]) -> Said:
    """Return the texts and the media of parts by their origins, for ``signed``."""
    texts: dict[Any, set[str | Media]] = {}
    for part in parts:
        texts.setdefault(part.origin, set()).add(part.media or part.text)
    return texts


def signed(parts: Iterable[Part], before: Said, stage: str) -> Parts:
    """Return parts with a stage's name on each text or media that was not there before it ran."""
    anywhere = set().union(*before.values())

    def sign(part: Part) -> Part:
        is_anonymous = part.origin is None and part.stage is None
        if (part.media or part.text) in before.get(part.origin, anywhere) and not is_anonymous:
            return part
        if part.origin is None:
            return structs.replace(part, stage=stage)
        return structs.replace(part, changed_by=stage)

    return tuple(map(sign, parts))


def calls_of(turns: Iterable[Turn]) -> dict[str, Call]:
    """Return the calls of turns by their ids, for ``signed_turn``."""
    return {call.id: call for turn in turns for call in turn.calls}


def signed_turn(turn: Turn, texts: Said, calls: Mapping[str, Call], stage: str) -> Turn:
    """Return a turn with a stage's name on each text and call that was not there before."""
    if turn.calls:
        new = (
            call if call == calls.get(call.id) else structs.replace(call, changed_by=stage)
            for call in turn.calls
        )
        turn = structs.replace(turn, calls=tuple(new))
    return structs.replace(turn, parts=signed(turn.parts, texts, stage))
