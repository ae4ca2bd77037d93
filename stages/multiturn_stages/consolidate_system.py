"""Lay out the chat: one system message in front, then the other turns."""

from typing import Annotated, Literal

from msgspec import Struct
from msgspec.structs import replace

from multiturn import Conversion, Part, Turn, stage
from multiturn.pipelines.contract import placeholders
from multiturn.turns import is_blank, separate_first

Section = Literal["messages_else_prompt", "messages", "prompt", "guidelines"]


@stage(requires={"turns"}, provides={"chat"})
def consolidate_system(
    conversion: Conversion,
    *,
    sections: tuple[Section, ...] = ("messages_else_prompt", "guidelines"),
    later_system: Literal["merge", "assistant", "keep"] = "merge",
    references: Literal["keep", "omit"] = "keep",
    guidelines_heading: str = "[[ ## Guidelines ## ]]",
    guideline_header: Annotated[str, placeholders("path")] = "=== {path} ===",
) -> Conversion:
    """Choose a chat with system messages, system prompt and guidelines as one message (rule 7).

    Put it anywhere after ``resolve_segments``: the chat shows the turns as they are at the end. A
    system message that holds only references says nothing of its own: it has no place in the
    chat, and the system prompt still counts.

    Args:
        sections: what the system message is made of, in this order, a blank line between.
        later_system: a system message after another role's: merged in front, made an assistant
            message that begins with ``[System]:``, or kept in its place.
        references: ``omit`` leaves the guidelines' markers out of the chat.
        guidelines_heading: the line above the guidelines.
        guideline_header: the line above each of several guidelines; ``{path}`` is its path as
            written. A single one has no header.
    """
    view = SystemFirst(sections, later_system, references, guidelines_heading, guideline_header)
    return conversion.replace(chat_view=view)


class SystemFirst(Struct, frozen=True):
    """The view of the chat that ``consolidate_system`` chooses; its options are the stage's."""

    sections: tuple[Section, ...]
    later_system: str
    references: str
    guidelines_heading: str
    guideline_header: str

    def __call__(self, conversion: Conversion) -> tuple[Turn, ...]:
        """Return one system turn, unless nothing is in it, and then the other turns."""
        roles = [message.role for message in conversion.case.input_messages]
        first_other = next((at for at, role in enumerate(roles) if role != "system"), len(roles))
        front: list[Part] = []
        others: list[Turn] = []
        for turn in conversion.turns:
            parts = turn.parts
            if self.references == "omit":
                parts = tuple(part for part in parts if part.kind != "reference")
                if turn.parts and not parts:
                    continue
            if turn.role != "system":
                others.append(replace(turn, parts=parts))
            elif not turn.has_content:
                continue
            elif self.later_system == "merge" or turn.message is None or turn.message < first_other:
                front += separate_first("\n\n", parts)
            elif self.later_system == "keep":
                others.append(replace(turn, parts=parts))
            else:
                marker = Part("text", "[System]: ", stage="consolidate_system")
                others.append(Turn("assistant", (marker, *separate_first("", parts)), turn.message))

        prompt = conversion.system_prompt
        made = {
            "messages": front,
            "prompt": [] if prompt is None or is_blank(prompt.text) else [prompt],
            "guidelines": self._guidelines(conversion.guidelines),
        }
        made["messages_else_prompt"] = front or made["prompt"]
        system = tuple(part for section in self.sections for part in made[section])
        return (Turn("system", system), *others) if system else tuple(others)

    def _guidelines(self, guidelines: tuple[Part, ...]) -> list[Part]:
        parts = []
        for guideline in guidelines:
            if self.guideline_header and guideline.path is not None and len(guidelines) > 1:
                line = self.guideline_header.replace("{path}", guideline.path)
                header = replace(guideline, text=line, separator="\n\n", changed_by=None)
                parts.append(replace(header, stage="consolidate_system"))
                parts.append(replace(guideline, separator="\n"))
            else:
                parts.append(replace(guideline, separator="\n\n"))
        if self.guidelines_heading and parts:
            heading = Part("text", self.guidelines_heading, "\n\n", stage="consolidate_system")
            parts.insert(0, heading)
        return parts
