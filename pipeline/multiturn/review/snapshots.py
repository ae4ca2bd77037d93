"""Snapshots: the file that records a case; ``recorded.py`` reads it."""

from collections.abc import Mapping
from typing import Any

from msgspec import to_builtins

from multiturn.documents.dump import UnindentedList, dump
from multiturn.engine.spans import Message, Span, Spans, has_media, text_of
from multiturn.files.media import Media
from multiturn.model.request import InputFile, ProviderRequest
from multiturn.review.attached import Attached
from multiturn.review.locations import digest
from multiturn.review.reviewed import ReviewedCase, SentPrompt
from multiturn.text import utf8

_NONE: Mapping[str, Any] = {}


def snapshot_text(
    case: ReviewedCase, *, inline: bool = False, shared: Mapping[str, Any] = _NONE
) -> str:
    """Return the text of a case's snapshot file: YAML, with LF line ends.

    It has no absolute path and no time: the same case gives the same snapshot in any checkout.

    Args:
        case: what a pipeline made of it.
        inline: repeat the texts of attached files; else their paths stand for them, wherever a
            text is the whole text of a file as it is on disk.
        shared: of a case that a target is sent: what its body says of every case.
    """
    return utf8(dump(record_of(case, inline=inline, shared=shared)))


def record_of(
    case: ReviewedCase, *, inline: bool = False, shared: Mapping[str, Any] = _NONE
) -> dict[str, Any]:
    """Return what the snapshot of a case records; see ``snapshot_text``."""
    named = {} if inline else case.files
    prompt: dict[str, Any]
    if case.chat is None:  # this system message is sent, and then the question
        prompt = {"chat_prompt": None, "system": _content(case.system, named)}
    else:
        messages = [_message(each, named) for each in case.chat]
        prompt = {"chat_prompt": messages}
        if len(case.messages) > len(messages):  # this one is sent before them
            prompt["system"] = _content(case.system, named)
    recorded = {
        "suite": case.suite,
        "id": case.case.id,
        **prompt,
        **_tools(case.request),
        "question": _content(case.question, named),
        "input_files": [_file(file, named) for file in case.request.input_files],
    }
    if case.sent is not None and (sent := _sent(case.sent, named, shared)):
        recorded["sent"] = sent
    return recorded


def _sent(
    sent: SentPrompt, named: Mapping[str, Attached], shared: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what a target is sent and the pipeline's prompt does not say; empty for nothing."""
    found: dict[str, Any] = {}
    if not sent.is_as_given:
        found["messages"] = [_message(each, named) for each in sent.messages]
    parameters = {key: value for key, value in sent.parameters.items() if shared.get(key) != value}
    left_out = [key for key in shared if key not in sent.parameters]
    parameters |= dict.fromkeys(left_out)  # null: not sent in this case
    if parameters:
        found["parameters"] = dict(sorted(parameters.items()))
    if sent.repairs:
        found["repairs"] = list(sent.repairs)
    return found


def _message(message: Message, named: Mapping[str, Attached]) -> dict[str, Any]:
    return {
        "role": message.role,
        "content": _content(message.spans, named),
        **message.data,
    }


def _tools(request: ProviderRequest) -> dict[str, Any]:
    """Return what a request says of tools, as far as it says anything."""
    found = {"tools": to_builtins(request.tools), "tool_choice": request.tool_choice}
    return {name: value for name, value in found.items() if value}


def _content(spans: Spans, named: Mapping[str, Attached]) -> str | list[Any]:
    r"""Return the text of some spans, or a list of pieces if it has named files or media.

    Pieces are joined by line breaks. A piece is a text; or ``{"file": path}``; or media, such as
    ``{"image": path, "type": "image/png", "size": 12345}``. ``after`` has the text before a file
    or media on its first line.

    >>> header = Span("=== a.md ===", "", "a.md", stage="embed_files")
    >>> file, line_break = Span("Be brief.", "", "a.md"), Span("\n", "", stage="")
    >>> spans = (header, line_break, file, line_break, Span("Hello", ""))
    >>> _content(spans, {"a.md": "Be brief."})
    ['=== a.md ===', {'file': 'a.md'}, 'Hello']
    """
    if not named and not has_media(spans):
        return text_of(spans)
    pieces: list[Any] = []
    text = "\n"  # since the last piece; it begins with a line break
    following = [*(span.text for span in spans[1:]), "\n"]
    for span, below in zip(spans, following, strict=False):
        found = _piece(span, below, named)
        if found is None:
            text += span.text
            continue
        before, _, line = text.rpartition("\n")
        if before:
            pieces.append(before[1:])
        piece, text = found
        pieces.append({"after": line, **piece} if line else piece)
    if not pieces:
        return text[1:]
    return UnindentedList([*pieces, text[1:]] if text else pieces)


def _piece(
    span: Span, below: str, named: Mapping[str, Attached]
) -> tuple[dict[str, Any], str] | None:
    """Return what stands for a file or for media, and the line breaks after it; None for text."""
    known = named.get(span.path) if span.stage is None else None
    if span.media is not None:
        # Nothing is sent between media and a text, whatever a stage has put there.
        return _media(span.media, span.path, known), "" if below.startswith("\n") else "\n"
    newlines = _newlines_after(known, span.text) if isinstance(known, str) and known else None
    if newlines is None or not (newlines or below).startswith("\n"):
        return None
    return {"file": span.path}, newlines


def _media(media: Media, path: str, known: Attached | None) -> dict[str, Any]:
    """Return what a snapshot has of media; the digest of a named file is in ``files.lock``."""
    found: dict[str, Any] = {media.kind: path or media.name}
    if media.digest:
        found |= {"type": media.media_type, "size": media.size}
        if known is None or digest(known) != media.digest:
            found["sha256"] = media.digest
    if media.detail is not None:
        found["detail"] = media.detail
    return found


def _newlines_after(known: str, text: str) -> str | None:
    """Return the newlines after a file's known text; None if the text is another one."""
    rest = text.removeprefix(known)
    return rest if len(rest) + len(known) == len(text) and not rest.strip("\n") else None


def _file(file: InputFile, named: Mapping[str, Attached]) -> dict[str, Any]:
    record = {
        "path": file.path,
        "resolved_path": file.resolved_path,
        "guideline": file.guideline,
    }
    known, said = named.get(file.resolved_path), file.text if file.media is None else file.media
    if isinstance(known, str) and isinstance(said, str):
        is_on_disk = _newlines_after(known, said) is not None
    else:
        is_on_disk = known is not None and digest(known) == digest(said)
    if not is_on_disk and digest(said):  # there is none of an address
        record["sha256"] = digest(said)
    return record
