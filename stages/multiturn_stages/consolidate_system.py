"""Lay out the chat: one system message in front, then the other turns."""

from typing import Annotated, Literal

from msgspec import Struct
from msgspec.structs import replace

from multiturn import Conversion, Part, Turn, marker_text, stage
from multiturn.model.request import guideline_section
from multiturn.model.turns import is_blank, separate_first

Section = Literal[
    "prompt_unless_leading", "messages_else_prompt", "messages", "prompt", "guidelines"
]


@stage(requires={"turns"}, provides={"chat"})
def consolidate_system(
    conversion: Conversion,
    *,
    sections: tuple[Section, ...] = ("prompt_unless_leading", "messages", "guidelines"),
    later_system: Literal["merge", "assistant", "keep"] = "merge",
    references: Literal["keep", "omit"] = "keep",
    guidelines_heading: Annotated[str, marker_text()] = "[[ ## Guidelines ## ]]",
    guideline_header: Annotated[str, marker_text("path", "name")] = "=== {path} ===",
    single_guideline: Literal["bare", "header"] = "bare",
    guideline_end: Literal["keep", "trim"] = "keep",
    system_marker: Annotated[str, marker_text()] = "[System]: ",
    default_prompt: str = "",
) -> Conversion:
    """Choose a chat with system messages, system prompt and guidelines as one message (rule 7).

    Put it anywhere after ``resolve_segments``: the chat shows the turns as they are at the end. A
    system message that holds only references says nothing of its own: it has no place in the
    chat, and the system prompt still counts.

    Args:
        sections: what the system message is made of, in this order, a blank line between:
            ``messages`` are the system messages, ``prompt`` is the system prompt, and
            ``prompt_unless_leading`` the same unless a system message leads, which replaces it:
            it has text of its own, and only system messages are before it in the suite.
            ``messages_else_prompt`` is the system messages, or the prompt if there are none.
        later_system: a system message after another role's: merged in front, made an assistant
            message that begins with ``system_marker``, or kept in its place.
        references: ``omit`` leaves the guidelines' markers out of the chat, unless every message
            but the system's is made of markers only.
        guidelines_heading: the line above the guidelines.
        guideline_header: the line above each of several guidelines; ``{path}`` is its path as
            written, ``{name}`` the name of the file.
        single_guideline: whether a guideline that is the only one has that header, too.
        guideline_end: ``trim`` drops the white space at the end of each guideline.
        system_marker: the text before a later system message that is made an assistant message.
        default_prompt: used where there is no system prompt.
    """
    view = SystemFirst(
        *(sections, later_system, references, guidelines_heading, guideline_header),
        *(single_guideline, guideline_end, system_marker, default_prompt),
    )
    return replace(conversion, chat_view=view)


class SystemFirst(Struct, frozen=True):
    """The view of the chat that ``consolidate_system`` chooses; its options are the stage's."""

    sections: tuple[Section, ...]
    later_system: str
    references: str
    guidelines_heading: str
    guideline_header: str
    single_guideline: str
    guideline_end: str
    system_marker: str
    default_prompt: str

    def __call__(self, conversion: Conversion) -> tuple[Turn, ...]:
        """Return one system turn, unless nothing is in it, and then the other turns."""
        front: list[Part] = []
        others: list[Turn] = []
        markers_only: list[Turn] = []
        is_led = False  # by a system message with text of its own
        messages, first = conversion.case.input_messages, 0
        while first < len(messages) and messages[first].role == "system":
            first += 1
        for turn in conversion.turns:
            shown = turn
            if self.references == "omit":
                said = tuple(part for part in turn.parts if part.kind != "reference")
                shown = replace(turn, parts=said)
            if turn.role != "system":
                is_marker = turn.parts and not shown.parts and not turn.is_more
                (markers_only if is_marker else others).append(turn if is_marker else shown)
                continue
            if not turn.has_content:
                continue
            leads = turn.message is not None and turn.message < first
            is_led |= leads
            if leads or self.later_system == "merge" or turn.message is None:
                front += separate_first("\n\n", shown.parts)
            elif self.later_system == "keep":
                others.append(shown)
            else:
                parts = (_added(self.system_marker, "\n"), *separate_first("", shown.parts))
                others.append(Turn("assistant", parts, turn.message))

        given, default = conversion.system_prompt, self.default_prompt
        prompt = [] if given is None or is_blank(given.text) else [given]
        if not prompt and not is_blank(default):
            prompt = [_added(default)]
        guidelines = conversion.guidelines
        if self.guideline_end == "trim":
            guidelines = tuple(map(_trimmed, guidelines))
        options = (self.guidelines_heading, self.guideline_header, self.single_guideline)
        made = {
            "messages": front,
            "prompt": prompt,
            "guidelines": guideline_section(guidelines, "consolidate_system", *options),
            "messages_else_prompt": front or prompt,
            "prompt_unless_leading": [] if is_led else prompt,
        }
        system: list[Part] = []
        for section in self.sections:
            system += made[section]
        others = others or markers_only
        return (Turn("system", tuple(system)), *others) if system else tuple(others)


def _added(text: str, separator: str = "\n\n") -> Part:
    return Part("text", text, separator, stage="consolidate_system")


def _trimmed(part: Part) -> Part:
    text = part.text.rstrip()
    return part if text == part.text else replace(part, text=text, changed_by="consolidate_system")
