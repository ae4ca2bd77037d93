"""Show calls of tools and their results as text, for a model or a template without tools."""

from typing import Annotated, Literal

from msgspec.structs import replace

from multiturn import Conversion, Part, Turn, marker_text, stage
from multiturn.model.conversion import Edit, item_key
from multiturn.model.turns import separate_first

_WHY = "the chat has calls and results as text (the stage render_tools)"


@stage(requires={"turns", "history", "chat"}, provides={"turns", "chat"})
def render_tools(
    conversion: Conversion,
    *,
    call: Annotated[str, marker_text("id")] = "[Tool call {id}]: ",
    result: Annotated[str, marker_text("id")] = "[Tool result {id}]: ",
    definition: Annotated[str, marker_text("name")] = "",
    neighbors: Literal["join", "keep"] = "join",
) -> Conversion:
    """Make the calls of the chat text of the assistant's, and their results text of the user's.

    The words are those of the transcript, which has its own options. Put it after
    ``consolidate_system``; all stages that edit the chat, before or after it, see the text. The
    tools are not sent. Images in results stay.

    Args:
        call: the text before each call, which has a line of its own.
        result: the text before the result of a call.
        definition: the text before each tool's definition in the system message, such as
            ``[Tool {name}]: ``. Empty: the definitions are left out.
        neighbors: ``join`` makes one message of a result, or a message with calls, and a neighbor
            of the same role, with a blank line between; not of one that begins with thinking.
    """
    options = {"call": call, "result": result, "joins": neighbors == "join"}
    if any(edit.function is turns_as_text for edit in conversion.edits):
        return conversion
    # All other edits see the text: a guard of markers before this stage looks at it, too.
    edit = Edit("chat", turns_as_text, options, "render_tools", _WHY)
    defined: list[Part] = []
    for tool in conversion.tools if definition else ():
        defined.append(_added(definition.replace("{name}", tool.name)))
        key = item_key(conversion.case, tool) or None
        defined.append(Part("text", tool.text, "", line=tool.line, key=key))
    system = (Turn("system", tuple(defined)),) if defined else ()
    leading = 0  # turns up to the last system message before the others; those may begin empty
    for number, turn in enumerate(conversion.turns, start=1):
        if turn.role == "system":
            leading = number
        elif turn.has_content:
            break
    turns = (*conversion.turns[:leading], *system, *conversion.turns[leading:])
    left = conversion.replace(turns=turns, edits=(edit, *conversion.edits))
    return left.drop(left.tools, _WHY)


def turns_as_text(
    turns: tuple[Turn, ...], *, call: str, result: str, joins: bool
) -> tuple[Turn, ...]:
    """Return a chat's turns with calls and results as text."""
    made: list[Turn] = []
    was_tool = False
    for turn in turns:
        parts = list(turn.parts)
        if turn.answers is not None:
            text = result.replace("{id}", turn.answers) + "error: " * turn.is_error
            parts = [_added(text), *separate_first("", turn.parts)]
        for each, shown in zip(turn.calls, turn.calls_shown, strict=True):
            parts.append(_added(call.replace("{id}", each.id)))
            parts.append(replace(shown, separator="", changed_by="render_tools"))
        is_tool = turn.answers is not None or bool(turn.calls)
        role = turn.role if turn.answers is None else "user"
        spoken = Turn(role, tuple(parts), turn.message, turn.thinking) if is_tool else turn
        is_neighbor = made and made[-1].role == role and not turn.thinking
        if joins and is_neighbor and (is_tool or was_tool):
            parts = [*made[-1].parts, *separate_first("\n\n", spoken.parts)]
            made[-1] = replace(made[-1], parts=tuple(parts))
        else:
            made.append(spoken)
        was_tool = is_tool
    return tuple(made)


def _added(text: str) -> Part:
    return Part("text", text, stage="render_tools")
