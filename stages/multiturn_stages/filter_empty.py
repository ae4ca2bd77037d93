"""Drop the messages that are left without content."""

from typing import Literal

from multiturn import Conversion, Turn, stage


@stage(requires={"draft", "guidelines"}, provides={"visible_turns"})
def filter_empty(
    conversion: Conversion,
    *,
    references_only: Literal["drop_unless_alone", "drop", "keep"] = "drop_unless_alone",
) -> Conversion:
    """Take turns without content out of the turns, and out of the chat.

    Put it after ``extract_guidelines``, which is what leaves messages empty.

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

    turns = tuple(filter(stays, conversion.turns))
    chat = conversion.chat
    if chat is not None and len(turns) < len(conversion.turns):
        kept = {turn.message for turn in turns}
        gone = {turn.message for turn in conversion.turns} - kept
        # The chat's form of a message goes with the message; a turn that a stage made, by itself.
        chat = tuple(
            turn
            for turn in chat
            if (stays(turn) if turn.message is None else turn.message not in gone)
        )
    return conversion.replace(turns=turns, chat=chat)
