"""Turn every message's content into parts; find and read the files it attaches.

The only stage that touches the file system, so that all others can be swapped and tested alone.
"""

from typing import Any, Literal

from multiturn import Conversion, Notice, Part, Turn, stage
from multiturn.errors import (
    AttachmentError,
    MultiturnError,
    SegmentTypeError,
    add_or_mend,
    cut,
    nearest,
)
from multiturn.model.case import PROMPT_KEY, Case, segments_of
from multiturn.model.turns import as_json, is_blank

MAX_CASE_SIZE = 10_000_000  # characters: a small suite can attach one large file very often

_TYPE_ADVICE = (
    "use text or file, or leave them out by a pipeline with"
    " configure: {resolve_segments: {unknown_type: warn}}"
)


@stage(provides={"turns", "files"})
def resolve_segments(
    conversion: Conversion,
    *,
    missing_file: Literal["error", "warn"] = "error",
    unknown_type: Literal["error", "warn"] = "error",
    max_file_bytes: int = 1_048_576,
    trailing_newlines: Literal["drop", "keep"] = "drop",
) -> Conversion:
    """Make a turn of each message, and parts of the given guidelines and the system prompt.

    Put it first. Blank text becomes no part; other text is kept to the letter (rule 2).

    Args:
        missing_file: ``warn`` leaves out a file that is missing, unreadable, too large or not
            text. A path that leads outside the root is an error all the same.
        unknown_type: ``warn`` leaves out a segment that is neither text nor a file.
        max_file_bytes: the largest file that may be attached.
        trailing_newlines: what becomes of the newlines at a file's end.

    Raises:
        MultiturnError: content that is not as rule 1 has it, or an attached file that cannot be
            used; with the line of the segment.
    """
    case = conversion.case
    keep = trailing_newlines == "keep"
    turns: list[Turn] = []
    notices: list[Notice] = []
    size = 0
    for index, message in enumerate(case.input_messages):
        parts: list[Part] = []
        for number, key, segment, line in segments_of(message):
            try:
                part = _read(segment, case, max_file_bytes, keep, index, number, line)
            except MultiturnError as error:
                where = case.where(line, f"{case.message_key(index)}.{key}")
                is_file = isinstance(error, AttachmentError)
                if (is_file and missing_file == "warn") or (
                    isinstance(error, SegmentTypeError) and unknown_type == "warn"
                ):
                    notices.append(Notice("segment.left_out", where, error.what, index, number))
                    continue
                raise error.at(where, case.id) from None
            if part is not None:
                parts.append(part)
                size += len(part.text)
                if size > MAX_CASE_SIZE:
                    what = f"the case is larger than {MAX_CASE_SIZE:,} characters with its files"
                    raise MultiturnError(what).at(case.where(line), case.id)
        turns.append(
            Turn(
                message.role,
                tuple(parts),
                index,
                message.thinking,
                message.calls,
                message.answers,
                message.is_error,
            )
        )
    given = {key: Part("text", text, "\n\n", key=key) for key, text in case.keyed_texts.items()}
    prompt = given.pop(PROMPT_KEY, None)
    return conversion.replace(
        turns=tuple(turns),
        guidelines=tuple(part for part in given.values() if not is_blank(part.text)),
        system_prompt=prompt,
        tools=case.tools,
        notices=tuple(notices),
    )


def _read(
    segment: Any, case: Case, max_file_bytes: int, keep: bool, message: int, content: int, line: int
) -> Part | None:
    """Read one segment; None if it is blank."""
    match segment:
        case str(text) | {"type": "text", "value": str(text)}:
            pass
        case {"type": "file", "value": str(path)}:
            if case.files is None:
                raise AttachmentError(f"no folder to look for {path!r} in; give the case its files")
            resolved = case.files.find(path)
            text = case.files.read(resolved, max_file_bytes, keep, path)
            return Part("file", text, "\n", message, content, line, path, resolved)
        case {"type": "text" | "file" as kind}:
            if "value" not in segment:
                others = [str(key) for key in segment if key != "type"]
                near = next((key for key in others if key in ("path", "text", "file")), None)
                hint = f"; write value in place of {near}" if near else add_or_mend("value", others)
                raise MultiturnError(f"a {kind} segment has no 'value'{hint}")
            raise MultiturnError(f"a {kind} segment needs a value that is text; quote it")
        case {"type": kind}:
            near = nearest(str(kind), ("text", "file"))
            advice = f'did you mean "{near}"?' if near else _TYPE_ADVICE
            what = f"segments of type {cut(repr(kind))} cannot be part of a chat prompt; {advice}"
            raise SegmentTypeError(what)
        case dict():
            try:
                text = as_json(segment)
            except (TypeError, ValueError) as error:
                raise MultiturnError(f"structured content that JSON cannot hold: {error}") from None
        case _:
            raise MultiturnError(
                f"content must be text, a list or a mapping, not {type(segment).__name__}"
            )
    return None if is_blank(text) else Part("text", text, "\n", message, content, line)
