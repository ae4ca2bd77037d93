"""Keep the text of users and files from posing as the pipeline's own markers."""

from typing import Literal

from msgspec.structs import replace

from multiturn import Conversion, MultiturnError, Part, Turn, stage
from multiturn.markers import escape_markers, forged_markers
from multiturn.model import Notice


@stage(requires={"guidelines", "draft"}, provides={"guarded"})
def guard_markers(
    conversion: Conversion, *, mode: Literal["warn", "error", "escape"] = "warn"
) -> Conversion:
    """Look for lines that begin like a role, a file's header, a reference or the guidelines.

    Put it after ``extract_guidelines``. Only what suites and files hold is looked at, not what
    stages add.

    Args:
        mode: log each such line, refuse the case, or put a backslash before the marker, which
            takes nothing from the text and keeps a reader of the transcript from being misled.

    Raises:
        MultiturnError: in mode ``error``, the first such line, with its place.
    """
    case = conversion.case
    notices: list[Notice] = []

    def guard(part: Part) -> Part:
        if part.stage is not None:
            return part
        for line in forged_markers(part.text):
            where = case.where(part.line)
            what = f"{line[:60]!r} reads like a marker; mode: escape of guard_markers would show it"
            if mode == "error":
                raise MultiturnError(what, where=where, case_id=case.id)
            if mode == "warn":
                notices.append(Notice("marker.forged", where, what, part.message, part.content))
        return replace(part, text=escape_markers(part.text)) if mode == "escape" else part

    def guard_turn(turn: Turn) -> Turn:
        return replace(turn, parts=tuple(map(guard, turn.parts)))

    turns = tuple(map(guard_turn, conversion.turns))
    guidelines = tuple(map(guard, conversion.guidelines))
    found = tuple(notices)
    return conversion.replace(
        turns=turns,
        guidelines=guidelines,
        chat=None if conversion.chat is None else tuple(map(guard_turn, conversion.chat)),
        notices=conversion.notices
        + tuple(notice for notice in found if notice not in conversion.notices),
    )
