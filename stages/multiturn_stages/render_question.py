"""Render the transcript: for logs, and for agents that read a conversation as text."""

from itertools import groupby
from typing import Annotated, Literal

from msgspec import Struct
from msgspec.structs import replace

from multiturn import Conversion, Part, marker_text, stage
from multiturn.model.turns import Parts, is_blank, separate_first

Lone = Literal["as_written", "trimmed_segments"]


@stage(requires={"turns"}, provides={"question"})
def render_question(
    conversion: Conversion,
    *,
    marker: Annotated[str, marker_text("role")] = "[{role}]: ",
    separator: str = "\n",
    lone: Lone = "as_written",
    call: Annotated[str, marker_text("id")] = "[Tool call {id}]: ",
    result: Annotated[str, marker_text("id")] = "[Tool result {id}]: ",
) -> Conversion:
    """Choose a question that shows each turn after its role (rule 9).

    Put it anywhere after ``resolve_segments``: the question shows the turns as they are at the
    end. A single user turn is rendered without its role.

    Args:
        marker: the text before each turn's content; ``{role}`` is the role, capitalized.
        separator: the text between two turns.
        lone: how a single user turn is rendered. ``trimmed_segments`` cuts the white space around
            each segment, puts a blank line between two, and leaves out the markers of guidelines.
        call: the text before each call of a tool, which has a line of its own.
        result: the text before the result of a call, in place of ``marker``.
    """
    return replace(conversion, question_view=Transcript(marker, separator, lone, call, result))


class Transcript(Struct, frozen=True):
    """The view of the question that ``render_question`` chooses; its options are the stage's."""

    marker: str
    separator: str
    lone: Lone
    call: str
    result: str

    def __call__(self, conversion: Conversion) -> Parts:
        """Return the parts of all turns, in the order of the conversation."""
        turns = conversion.turns
        if len(turns) == 1 and turns[0].role == "user":
            parts = turns[0].parts
            return parts if self.lone == "as_written" else _trimmed_segments(parts)
        transcript: list[Part] = []
        for turn in turns:
            if turn.answers is not None:
                text = self.result.replace("{id}", turn.answers) + "error: " * turn.is_error
            else:
                text = self.marker.replace("{role}", turn.role.capitalize())
            if turn.parts or not turn.calls:
                transcript.append(self._marker(text))
                transcript += separate_first("", turn.parts)
            for call, shown in zip(turn.calls, turn.calls_shown, strict=True) if turn.calls else ():
                transcript.append(self._marker(self.call.replace("{id}", call.id)))
                transcript += separate_first("", (shown,))
        return tuple(transcript)

    def _marker(self, text: str) -> Part:
        return Part("text", text, self.separator, stage="render_question")


def _trimmed_segments(parts: Parts) -> Parts:
    said = [part for part in parts if part.kind != "reference"]
    found: list[Part] = []
    for _, segment in groupby(said, lambda part: (part.message, part.content)):
        pieces = list(segment)  # a file is one segment of several parts: header, text and footer
        if filled := [at for at, part in enumerate(pieces) if not is_blank(part.text)]:
            pieces = pieces[filled[0] : filled[-1] + 1]
            pieces[0] = _with_text(pieces[0], pieces[0].text.lstrip())
            pieces[-1] = _with_text(pieces[-1], pieces[-1].text.rstrip())
            found += separate_first("\n\n", tuple(pieces))
    return tuple(found)


def _with_text(part: Part, text: str) -> Part:
    if text == part.text:
        return part
    changed_by = "render_question" if part.stage is None else None
    return replace(part, text=text, changed_by=changed_by)
