"""Views: how the turns of a Conversion make the chat, or the question."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct, structs

from multiturn.turns import Part, Parts, Turn, Turns

if TYPE_CHECKING:
    from multiturn.model import Conversion


class ChatView(Protocol):
    """Makes the chat from a conversion: a frozen struct, so that it compares and pickles."""

    def __call__(self, conversion: "Conversion", /) -> Turns | None:
        """Return the turns that an API receives; None for no chat prompt."""


class QuestionView(Protocol):
    """Makes the question from a conversion: a frozen struct, so that it compares and pickles."""

    def __call__(self, conversion: "Conversion", /) -> Parts:
        """Return the parts of the transcript."""


class Edited(Struct, frozen=True):
    """A view with something changed: what ``edit_chat`` and ``edit_question`` choose.

    Attributes:
        view: what is changed.
        edit: a function of what the view shows, which is turns or parts.
        options: what the function is called with beside that.
        stage: who changes it, for ``explain``.
    """

    view: Any
    edit: Callable[..., Any]
    options: Mapping[str, Any] = {}
    stage: str = ""

    def __call__(self, conversion: "Conversion") -> Any:
        """Return what the view shows, edited; None where it shows nothing."""
        shown = self.view(conversion)
        if shown is None:
            return None
        edited = self.edit(shown, **self.options)
        if not isinstance(edited, tuple | list):
            raise TypeError(f"{self.edit.__name__} returned {kind_of(edited)}, not a tuple")
        texts: dict[Any, set[str]] = {}
        for part in _parts(shown):
            texts.setdefault(part.origin, set()).add(part.text)
        return tuple(_signed(item, texts, self.stage) for item in edited)


_Shown = TypeVar("_Shown", Turn, Part)


def _signed(item: _Shown, texts: Mapping[Any, set[str]], stage: str) -> _Shown:
    """Return a turn or a part in which each text that an edit has made names the stage."""
    if isinstance(item, Turn):
        parts = tuple(_signed(part, texts, stage) for part in item.parts)
        return structs.replace(item, parts=parts)
    origin = item.origin
    if origin is None:
        is_known = item.stage is not None and item.text in texts.get(None, ())
        return item if is_known else structs.replace(item, stage=stage)
    return item if item.text in texts.get(origin, ()) else structs.replace(item, changed_by=stage)


def _parts(shown: Iterable[Turn | Part]) -> Iterable[Part]:
    for item in shown:
        yield from item.parts if isinstance(item, Turn) else (item,)


def kind_of(value: object) -> str:
    """Return what a value is, for an error that says what it should have been."""
    return "None" if value is None else f"a {type(value).__name__}"
