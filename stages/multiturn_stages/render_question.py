"""Render the transcript: for logs, and for agents that read a conversation as text."""

from typing import Annotated

from multiturn import Conversion, Part, stage
from multiturn.contract import placeholders
from multiturn.model import glue_first, glued


@stage(requires={"draft", "text"}, consumes={"draft"}, provides={"question"})
def render_question(
    conversion: Conversion, *, marker: Annotated[str, placeholders("role")] = "[{role}]: "
) -> Conversion:
    """Render the turns, each behind its role, in the order of the conversation (rule 9).

    Put it after ``embed_files`` and ``filter_empty``, whose work it shows. A single user turn
    is rendered bare.

    Args:
        marker: what stands before each turn's content; ``{role}`` is the role, capitalized.
    """
    turns = conversion.turns
    if len(turns) == 1 and turns[0].role == "user":
        return conversion.replace(question=turns[0].content, transcript=turns[0].parts)
    transcript: list[Part] = []
    for turn in turns:
        text = marker.replace("{role}", turn.role.capitalize())
        transcript.append(Part("text", text, stage="render_question"))
        transcript += glue_first("", turn.parts)
    return conversion.replace(question=glued(transcript), transcript=tuple(transcript))
