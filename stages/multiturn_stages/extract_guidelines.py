"""Move attached guideline files out of the conversation, for the system message."""

from typing import Annotated

from msgspec.structs import replace

from multiturn import Conversion, MultiturnError, Part, Turn, marker_text, stage
from multiturn.errors import quoted
from multiturn.suites.guideline_patterns import guideline_matcher


@stage(requires={"files"}, provides={"guidelines"})
def extract_guidelines(
    conversion: Conversion, *, marker: Annotated[str, marker_text("path")] = "<Attached: {path}>"
) -> Conversion:
    """Turn each file part that matches a guideline pattern into a reference (rules 4 and 5).

    Put it before ``embed_files``: a file that is already text can no longer be extracted. The
    guidelines given in the case come first; the same file attached twice is collected once.

    Args:
        marker: the text where the guideline was attached; ``{path}`` is its path as written.

    Raises:
        MultiturnError: an image, a document or audio matches a pattern.
    """
    if not conversion.case.guideline_patterns:
        return conversion
    name = "extract_guidelines"
    is_guideline = guideline_matcher(conversion.case.guideline_patterns)
    extracted: dict[str, Part] = {}
    turns: list[Turn] = []
    for turn in conversion.turns:
        parts = [*turn.parts]
        for at, part in enumerate(turn.parts):
            path, resolved = part.path, part.resolved_path
            if resolved is None or path is None or part.kind not in ("file", "media"):
                continue
            if not is_guideline(path, resolved):
                continue
            if part.media is not None:
                what = f"{quoted(path)} is {part.media.kind_in_words}, and guidelines are text"
                what += "; exclude it in guideline_patterns, by a pattern that begins with !"
                raise MultiturnError(what).at(conversion.case.where(part.line), conversion.case.id)
            extracted.setdefault(resolved, replace(part, kind="text", moved_by=name))
            text = marker.replace("{path}", path)
            parts[at] = replace(part, kind="reference", text=text, stage=name, changed_by=None)
        made = tuple(parts)
        turns.append(turn if made == turn.parts else replace(turn, parts=made))
    if not extracted:
        return conversion
    guidelines = (*conversion.guidelines, *extracted.values())
    return replace(conversion, turns=tuple(turns), guidelines=guidelines)
