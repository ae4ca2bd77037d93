"""Lay out the chat: one system message in front, then the other turns."""

from typing import Annotated, Literal

from msgspec.structs import replace

from multiturn import Conversion, Part, Turn, stage
from multiturn.contract import placeholders
from multiturn.model import glue_first, is_blank

Section = Literal["messages_else_prompt", "messages", "prompt", "guidelines"]


@stage(requires={"turns", "guidelines"}, provides={"chat"})
def consolidate_system(
    conversion: Conversion,
    *,
    sections: tuple[Section, ...] = ("messages_else_prompt", "guidelines"),
    later_system: Literal["merge", "assistant", "keep"] = "merge",
    references: Literal["keep", "omit"] = "keep",
    guidelines_heading: str = "[[ ## Guidelines ## ]]",
    guideline_header: Annotated[str, placeholders("path")] = "=== {path} ===",
) -> Conversion:
    """Make the chat turns: system messages, system prompt and guidelines become one (rule 7).

    Put it anywhere after ``extract_guidelines``. A system message that holds only references
    says nothing of its own: it has no place in the chat, and the system prompt still counts.

    Args:
        sections: what the system message is made of, in this order, a blank line between.
        later_system: a system message after another role's: merged in front, made an assistant
            message that begins with ``[System]:``, or kept where it stands.
        references: ``omit`` leaves the guidelines' markers out of the chat.
        guidelines_heading: the line above the guidelines.
        guideline_header: the line above each of several guidelines; ``{path}`` is its path as
            written. A single one stands bare.
    """
    roles = [message.role for message in conversion.case.input_messages]
    first_other = next((at for at, role in enumerate(roles) if role != "system"), len(roles))
    front: list[Part] = []
    others: list[Turn] = []
    for turn in conversion.turns:
        parts = turn.parts
        if references == "omit":
            parts = tuple(part for part in parts if part.kind != "reference")
            if turn.parts and not parts:
                continue
        if turn.role != "system":
            others.append(replace(turn, parts=parts))
        elif not turn.has_content:
            continue
        elif later_system == "merge" or turn.message is None or turn.message < first_other:
            front += glue_first("\n\n", parts)
        elif later_system == "keep":
            others.append(replace(turn, parts=parts))
        else:
            marker = Part("text", "[System]: ", stage="consolidate_system")
            others.append(Turn("assistant", (marker, *glue_first("", parts)), turn.message))

    made = {
        "messages": front,
        "prompt": _prompt(conversion),
        "guidelines": _guidelines(conversion.guidelines, guidelines_heading, guideline_header),
    }
    made["messages_else_prompt"] = front or made["prompt"]
    system = tuple(part for section in sections for part in made[section])
    chat = (Turn("system", system), *others) if system else tuple(others)
    return conversion.replace(chat=chat)


def _prompt(conversion: Conversion) -> list[Part]:
    prompt = conversion.case.system_prompt
    return (
        []
        if prompt is None or is_blank(prompt)
        else [Part("text", prompt, "\n\n", key="metadata.systemPrompt")]
    )


def _guidelines(guidelines: tuple[Part, ...], heading: str, header: str) -> list[Part]:
    parts = []
    for guideline in guidelines:
        if header and guideline.path is not None and len(guidelines) > 1:
            line = header.replace("{path}", guideline.path)
            parts.append(replace(guideline, text=line, glue="\n\n", stage="consolidate_system"))
            parts.append(replace(guideline, glue="\n"))
        else:
            parts.append(replace(guideline, glue="\n\n"))
    if heading and parts:
        parts.insert(0, Part("text", heading, "\n\n", stage="consolidate_system"))
    return parts
