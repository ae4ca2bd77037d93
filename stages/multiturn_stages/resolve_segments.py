"""Turn every message's content into parts; find and read the files it attaches.

The only stage that touches the file system, so that all others can be swapped and tested alone.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from multiturn import Conversion, Notice, Part, Turn, stage
from multiturn.errors import (
    AttachmentError,
    InputError,
    MultiturnError,
    SegmentTypeError,
    cut,
    quoted,
)
from multiturn.files.media import (
    EXTENSIONS,
    FILE_TYPES,
    MAX_MEDIA_OF_CASE,
    MAX_MEDIA_SIZE,
    Media,
    check_kind,
    given_media,
    is_address,
)
from multiturn.logs import TEXT_AS_MEDIA
from multiturn.model.case import MAX_CASE_SIZE, PROMPT_KEY, Case, TestMessage, segments_of
from multiturn.model.turns import as_json, is_blank


@stage(provides={"turns", "files", "history"})
def resolve_segments(
    conversion: Conversion,
    *,
    missing_file: Literal["error", "warn"] = "error",
    unknown_type: Literal["error", "warn"] = "error",
    max_file_bytes: int = 1_048_576,
    max_media_bytes: int = MAX_MEDIA_SIZE,
    trailing_newlines: Literal["drop", "keep"] = "drop",
) -> Conversion:
    """Make a turn of each message, and parts of the given guidelines and the system prompt.

    Put it first. Blank text becomes no part; other text is kept to the letter (rule 2). A file is
    an image, a document or audio if its first bytes say so, whatever its name.

    Args:
        missing_file: ``warn`` leaves out a file that is missing, unreadable, too large, or neither
            text nor media. A path that leads outside the root is an error all the same.
        unknown_type: ``warn`` leaves out a segment that is neither text, a file nor media.
        max_file_bytes: the largest text that may be attached.
        max_media_bytes: the largest image, document or audio; those of a case are at most 50 MB.
        trailing_newlines: what becomes of the newlines at a file's end.

    Raises:
        MultiturnError: content that is not as rule 1 has it, or an attached file that cannot be
            used; with the line of the segment.
    """
    case = conversion.case
    left_out: tuple[type[Exception], ...] = (AttachmentError,) * (missing_file == "warn")
    left_out += (SegmentTypeError,) * (unknown_type == "warn")
    limits, keeps = (max_file_bytes, max_media_bytes), trailing_newlines == "keep"
    read = _Reader(case, limits, keeps, left_out)
    turns = tuple([read(message, at) for at, message in enumerate(case.input_messages)])
    guidelines = tuple(
        [
            Part("text", text, "\n\n", key=f"guidelines[{at}]")
            for at, text in enumerate(case.guidelines)
            if not is_blank(text)
        ]
    )
    prompt = case.system_prompt
    return replace(
        conversion,
        turns=turns,
        guidelines=guidelines,
        system_prompt=None if prompt is None else Part("text", prompt, "\n\n", key=PROMPT_KEY),
        tools=case.tools,
        notices=tuple(read.notices),
    )


class _Reader(Struct):
    """Reads the messages of a case; errors of some kinds leave their segment out, with a notice."""

    case: Case
    limits: tuple[int, int]  # of bytes: of a text, and of media
    keep: bool  # the newlines at a file's end
    left_out: tuple[type[Exception], ...]
    notices: list[Notice] = []
    size: int = 0  # of what was read so far, in characters
    media_size: int = 0  # in bytes

    def __call__(self, message: TestMessage, index: int) -> Turn:
        """Return a message as a turn."""
        case = self.case
        parts: list[Part] = []
        for number, segment, line in segments_of(message):
            try:
                part = self._part(segment, index, number, line)
                if part is None:
                    continue
                media = part.media
                if media is not None:
                    _check_media(media, message.role)
                    self.media_size += media.size
            except MultiturnError as error:
                key = f"{case.message_key(index)}.{message.segment_key(number)}"
                where = case.where(line, key)
                if not isinstance(error, self.left_out):
                    raise error.at(where, case.id) from None
                notice = Notice("segment.left_out", where, error.what, index, number)
                self.notices.append(notice)
                continue
            parts.append(part)
            self.size += len(part.text)
            if self.size > MAX_CASE_SIZE or self.media_size > MAX_MEDIA_OF_CASE:
                limit = f"{MAX_CASE_SIZE:,} characters with its files"
                if self.media_size > MAX_MEDIA_OF_CASE:
                    limit = f"{MAX_MEDIA_OF_CASE:,} bytes with its images, documents and audio"
                what = f"the case is larger than {limit}"
                raise InputError(what).at(case.where(line), case.id)
            if media is not None and segment["type"] == "file" and _is_text(media):
                what = f"{quoted(media.name)} is attached as {media.kind_in_words},"
                what += " by its first bytes, though all of it is text"
                where = case.where(line)
                note = Notice(TEXT_AS_MEDIA, where, what, index, number, is_warning=False)
                self.notices.append(note)
        role, thinking, calls = message.role, message.thinking, message.calls
        return Turn(role, tuple(parts), index, thinking, calls, message.answers, message.is_error)

    def _part(self, segment: Any, message: int, content: int, line: int) -> Part | None:
        """Return a segment as a part at a place; None if it is blank."""
        match segment:
            # str(text) would mean the same, and takes four times as long.
            case (str() as text) | {"type": "text", "value": str() as text}:
                pass
            case {"type": "file" | "image" | "document" | "audio", "value": str()}:
                return self._file(segment, Part("file", "", "\n", message, content, line))
            case {"type": str(kind)} if kind == "text" or kind in FILE_TYPES:
                what = f"a segment of type {kind} needs a value that is text"
                raise InputError(f"{what}; write one, in quotes if it is a number")
            case {"type": kind}:
                raise SegmentTypeError(
                    f"segments of type {cut(repr(kind))} cannot be part of a chat prompt; use"
                    " text, file, image, document or audio, or leave them out by a pipeline with"
                    " configure: {resolve_segments: {unknown_type: warn}}"
                )
            case dict():
                try:
                    text = as_json(segment)
                except (TypeError, ValueError) as error:
                    what = f"structured content that JSON cannot hold: {error}"
                    raise InputError(what) from None
            case _:
                what = f"content must be text, a list or a mapping, not {type(segment).__name__}"
                raise InputError(what)
        return None if is_blank(text) else Part("text", text, "\n", message, content, line)

    def _file(self, segment: Mapping[str, Any], at: Part) -> Part:
        """Return a segment that is a file, media in the suite, or an address of media."""
        kind, value, files = segment["type"], segment["value"], self.case.files
        detail, name = segment.get("detail"), segment.get("name")
        if is_address(value, kind):
            store = None if files is None else files.store
            media = given_media(value, kind, name, detail, store, self.limits[1])
            return replace(at, kind="media", text=media.text, path=media.path, media=media)
        if files is None:
            raise AttachmentError(f"no folder to look for {value!r} in; give the case its files")
        resolved = files.find(value)
        found = files.attached(resolved, value, *self.limits, self.keep)
        at = replace(at, path=value, resolved_path=resolved)
        if isinstance(found, Media):
            check_kind(found, kind, quoted(value))
            media = found if detail is None else found.replace(detail=detail)
            return replace(at, kind="media", text=media.text, media=media)
        if kind != "file":
            what = "is text; write type: file" if found else "is empty"
            raise AttachmentError(f"{quoted(value)} {what}")
        return replace(at, text=found)


def _check_media(media: Media, role: str) -> None:
    """Raise an InputError for media in a system message, or with what only images have."""
    if role == "system":
        what = f"{media.kind_in_words} cannot be in a system message;"
        raise InputError(f"{what} attach it to a message of the user")
    if media.detail is not None and media.kind != "image":
        raise InputError(f"detail is of an image, not of {media.kind_in_words}; leave it out")


def _is_text(media: Media) -> bool:
    """Return whether media of another extension, such as ``notes.txt``, are text as a whole."""
    if media.name.lower().endswith(EXTENSIONS[media.media_type]):
        return False
    with suppress(UnicodeDecodeError):
        return "\0" not in media.data.decode()
    return False
