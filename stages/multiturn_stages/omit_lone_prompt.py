"""Leave out the chat prompt of a lone user prompt, so that it goes the legacy way."""

from multiturn import Conversion, stage


@stage(requires={"chat", "visible_turns", "question"}, consumes={"chat"})
def omit_lone_prompt(conversion: Conversion) -> Conversion:
    """Leave the chat out where one user turn is the whole conversation.

    Put it last. The provider then builds its messages from question and guidelines, as before
    chat prompts.
    """
    turns = conversion.turns
    if len(turns) == 1 and turns[0].role == "user":
        return conversion.replace(chat=None)
    return conversion
