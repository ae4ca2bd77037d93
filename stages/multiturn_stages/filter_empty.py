"""Drop the messages that are left without content."""

from typing import Literal

from multiturn import Conversion, Turn, stage


@stage(requires={"turns", "guidelines"}, provides={"visible_turns"})
def filter_empty(
    conversion: Conversion,
    *,
    references_only: Literal["drop_unless_alone", "drop", "keep"] = "drop_unless_alone",
) -> Conversion:
    """Take the turns without content out of the conversation.

    Put it after ``extract_guidelines``, and after any stage that blanks texts: those are what
    leaves messages empty.

    Args:
        references_only: what to do with a turn that holds nothing but guidelines' markers;
            ``drop_unless_alone`` keeps such turns where the conversation has no other (rule 8).
    """
    keeps_references = references_only == "keep" or (
        references_only == "drop_unless_alone"
        and not any(turn.has_content for turn in conversion.turns)
    )

    def stays(turn: Turn) -> bool:
        return turn.has_content or (
            keeps_references and any(part.kind == "reference" for part in turn.parts)
        )

    return conversion.replace(turns=tuple(filter(stays, conversion.turns)))
