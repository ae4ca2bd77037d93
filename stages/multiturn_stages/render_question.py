"""Render the transcript: for logs, and for agents that read a conversation as text."""

from typing import Annotated

from msgspec import Struct

from multiturn import Conversion, Part, marker_text, stage
from multiturn.turns import separate_first


@stage(requires={"turns"}, provides={"question"})
def render_question(
    conversion: Conversion,
    *,
    marker: Annotated[str, marker_text("role")] = "[{role}]: ",
    separator: str = "\n",
) -> Conversion:
    """Choose a question that shows each turn after its role (rule 9).

    Put it anywhere after ``resolve_segments``: the question shows the turns as they are at the
    end. A single user turn is rendered bare.

    Args:
        marker: the text before each turn's content; ``{role}`` is the role, capitalized.
        separator: the text between two turns.
    """
    return conversion.replace(question_view=Transcript(marker, separator))


class Transcript(Struct, frozen=True):
    """The view of the question that ``render_question`` chooses; its options are the stage's."""

    marker: str
    separator: str

    def __call__(self, conversion: Conversion) -> tuple[Part, ...]:
        """Return the parts of all turns, in the order of the conversation."""
        turns = conversion.turns
        if len(turns) == 1 and turns[0].role == "user":
            return turns[0].parts
        transcript: list[Part] = []
        for turn in turns:
            text = self.marker.replace("{role}", turn.role.capitalize())
            transcript.append(Part("text", text, self.separator, stage="render_question"))
            transcript += separate_first("", turn.parts)
        return tuple(transcript)
