"""Drop the messages that are left without content."""

from typing import Literal

from multiturn import Conversion, Notice, stage

_DROPPED = (
    "the last user message only attaches guidelines and is left out, so the prompt ends with what"
    " comes before it (rule 8); references_only: keep of filter_empty keeps it"
)


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
            ``drop_unless_alone`` keeps such turns where the conversation has no other (rule 8),
            but for system turns that stages have added. A last user turn that is dropped is a
            warning.
    """
    kept = tuple([turn for turn in conversion.turns if turn.has_content])
    if len(kept) == len(conversion.turns):
        return conversion
    asking = tuple(turn for turn in conversion.turns if turn.says_something)
    is_alone = all(turn.role == "system" and turn.message is None for turn in kept)
    if references_only == "keep" or (references_only == "drop_unless_alone" and is_alone):
        kept = asking
    notices = conversion.notices
    last = next((turn for turn in reversed(asking) if turn.role == "user"), None)
    if last is not None and last not in kept:
        key = "" if last.message is None else conversion.case.message_key(last.message)
        where = conversion.case.where(last.parts[0].line, key)
        notices = (*notices, Notice("turn.dropped", where, _DROPPED, last.message))
    return conversion.replace(turns=kept, notices=notices)
