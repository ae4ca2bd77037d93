"""Keep the text of users and files from posing as the pipeline's own markers."""

from typing import Literal

from msgspec.structs import replace

from multiturn import Conversion, MultiturnError, Notice, Part, Turn, stage
from multiturn.model.conversion import calls_mapped, mapped
from multiturn.text import escape_markers, forged_markers

_ADVICE = "set guard_markers' mode to escape to neutralize it"


@stage(requires={"turns", "history", "chat", "question"}, provides={"guarded"})
def guard_markers(
    conversion: Conversion, *, mode: Literal["warn", "error", "escape"] = "warn"
) -> Conversion:
    """Look for lines that begin like a role, a file's header, a reference or the guidelines.

    The markers are those of the pipeline, as its options have them: the text up to the first
    placeholder. Put it after ``consolidate_system`` and ``render_question``, and after stages that
    change texts: ``warn`` and ``error`` look at the texts as they are when it runs. Only what
    suites and files hold is looked at, not what stages add.

    Args:
        mode: log each such line, refuse the case, or put a backslash before the marker, which
            takes nothing from the text and keeps a reader of the question from being misled.
            The files that agents get stay as they are.

    Raises:
        MultiturnError: in mode ``error``, the first such line, with its place.
    """
    if mode == "escape":
        markers = conversion.markers
        chat = conversion.edit_chat(escape_turns, markers=markers)
        return chat.edit_question(escape_parts, markers=markers)
    case = conversion.case
    notices = list(conversion.notices)

    def look(part: Part) -> Part:
        for line in forged_markers(part.text, conversion.markers):
            where = case.where(part.line)
            what = f"{line[:60]!r} reads like a marker; {_ADVICE}"
            if mode == "error":
                raise MultiturnError(what, where=where, case_id=case.id)
            notice = Notice("marker.forged", where, what, part.message, part.content)
            if notice not in conversion.notices:
                notices.append(notice)
        return part

    conversion.map_parts(look)
    return conversion.replace(notices=tuple(notices))


def escape_turns(turns: tuple[Turn, ...], *, markers: tuple[str, ...]) -> tuple[Turn, ...]:
    """Escape the markers in what suites and files say in a chat."""
    escaped = (replace(turn, parts=escape_parts(turn.parts, markers=markers)) for turn in turns)
    return tuple(calls_mapped(turn, lambda part: _escape(part, markers)) for turn in escaped)


def escape_parts(parts: tuple[Part, ...], *, markers: tuple[str, ...]) -> tuple[Part, ...]:
    """Escape the markers in what suites and files say in a transcript."""
    return mapped(parts, lambda part: _escape(part, markers))


def _escape(part: Part, markers: tuple[str, ...]) -> Part:
    return replace(part, text=escape_markers(part.text, markers))
