"""Embed attached files where they stood."""

from typing import Annotated

from msgspec.structs import replace

from multiturn import Conversion, Part, Turn, stage
from multiturn.contract import placeholders

Header = Annotated[str, placeholders("path")]


@stage(requires={"files"}, consumes={"files"}, provides={"text"})
def embed_files(
    conversion: Conversion,
    *,
    header: Header = "=== {path} ===",
    system_header: Header | None = None,
) -> Conversion:
    """Turn every file part into text: a header line, then the file's text (rule 3).

    Put it after ``extract_guidelines``: a file that is already text can no longer be extracted.

    Args:
        header: the line above the text; ``{path}`` is the path as written. Empty: no line.
        system_header: the same for the files of system messages; None: like any other.
    """
    messages = conversion.case.input_messages

    def embed(turn: Turn) -> Turn:
        if not any(part.kind == "file" for part in turn.parts):
            return turn
        parts: list[Part] = []
        for part in turn.parts:
            if part.kind != "file":
                parts.append(part)
                continue
            # The message's role, not the turn's: consolidation may have given the turn another.
            role = turn.role if part.message is None else messages[part.message].role
            line = header if role != "system" or system_header is None else system_header
            if line:
                line = line.replace("{path}", part.path or "")
                parts.append(replace(part, kind="text", text=line, stage="embed_files"))
            parts.append(replace(part, kind="text", glue="\n" if line else part.glue))
        return replace(turn, parts=tuple(parts))

    chat = conversion.chat
    return conversion.replace(
        turns=tuple(map(embed, conversion.turns)),
        chat=None if chat is None else tuple(map(embed, chat)),
    )
