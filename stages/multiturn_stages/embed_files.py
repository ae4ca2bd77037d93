"""Embed attached files where they stood."""

from typing import Annotated

from msgspec.structs import replace

from multiturn import Conversion, Part, Turn, marker_text, stage

Header = Annotated[str, marker_text("path")]


@stage(requires={"files"}, consumes={"files"}, provides={"text"})
def embed_files(
    conversion: Conversion,
    *,
    header: Header = "=== {path} ===",
    system_header: Header | None = None,
    footer: Header = "",
    media_label: Header = "",
) -> Conversion:
    """Turn every file part into text: a header line, then the file's text (rule 3).

    Images, documents and audio stay as they are. Put it after ``extract_guidelines``: a file that
    is already text can no longer be extracted.

    Args:
        header: the line above the text; ``{path}`` is the path as written. Empty: no line.
        system_header: the same for the files of system messages; None: like any other.
        footer: the line below the text; ``{path}`` is the path as written. Empty: no line. A file
            without a header line has none.
        media_label: the line above an image, a document or audio; ``{path}`` is the path as
            written, the address, or the name of bytes in the suite. Empty: no line.
    """
    kinds = ("file", "media") if media_label else ("file",)
    if not [part for turn in conversion.turns for part in turn.parts if part.kind in kinds]:
        return conversion

    name = "embed_files"

    def embed(turn: Turn) -> Turn:
        if not any(part.kind in kinds for part in turn.parts):
            return turn
        above = header if turn.role != "system" or system_header is None else system_header
        parts: list[Part] = []
        for part in turn.parts:
            is_file = part.kind == "file"
            text = above if is_file else media_label if part.media is not None else ""
            shown = replace(part, kind="text") if is_file else part
            is_labeled = parts and parts[-1].stage == name and parts[-1].content == part.content
            if not text or is_labeled:
                parts.append(shown)
                continue
            path = (part.path or "") if part.media is None else part.media.name
            line = replace(part, kind="text", media=None, stage=name, changed_by=None)
            parts.append(replace(line, text=text.replace("{path}", path)))
            parts.append(replace(shown, separator="\n"))
            if is_file and footer:
                parts.append(replace(line, text=footer.replace("{path}", path), separator="\n"))
        return replace(turn, parts=tuple(parts))

    return conversion.replace(turns=tuple(map(embed, conversion.turns)))
