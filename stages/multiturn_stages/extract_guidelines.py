"""Move attached guideline files out of the conversation, for the system message."""

from typing import Annotated

from msgspec.structs import replace

from multiturn import Conversion, Part, stage
from multiturn.contract import placeholders
from multiturn.model import is_blank
from multiturn.patterns import guideline_matcher


@stage(requires={"files"}, provides={"guidelines"})
def extract_guidelines(
    conversion: Conversion, *, marker: Annotated[str, placeholders("path")] = "<Attached: {path}>"
) -> Conversion:
    """Turn each file part that matches a guideline pattern into a reference (rules 4 and 5).

    Put it before ``embed_files``: a file that is already text can no longer be extracted. The
    guidelines given in the case come first; the same file attached twice is collected once.

    Args:
        marker: what stands where the guideline was attached; ``{path}`` is its path as written.
    """
    case, name = conversion.case, "extract_guidelines"
    is_guideline = guideline_matcher(case.guideline_patterns)
    given = tuple(
        Part("text", text, key=f"guidelines[{number}]")
        for number, text in enumerate(case.guidelines)
        if not is_blank(text)
    )
    earlier = tuple(part for part in conversion.guidelines if part not in given)
    extracted: dict[str, Part] = {}

    def refer(part: Part) -> Part:
        path, resolved = part.path, part.resolved_path
        if part.kind != "file" or path is None or resolved is None:
            return part
        if not is_guideline(path, resolved):
            return part
        extracted.setdefault(resolved, replace(part, kind="text", moved_by=name))
        text = marker.replace("{path}", path)
        return replace(part, kind="reference", text=text, stage=name)

    turns = tuple(replace(turn, parts=tuple(map(refer, turn.parts))) for turn in conversion.turns)
    collected = {part.resolved_path for part in earlier}
    return conversion.replace(
        turns=turns,
        guidelines=given
        + earlier
        + tuple(part for path, part in extracted.items() if path not in collected),
        input_files=tuple(
            replace(file, guideline=file.guideline or file.resolved_path in extracted)
            for file in conversion.input_files
        ),
    )
