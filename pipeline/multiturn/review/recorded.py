"""What a snapshot says when it is read: its case, its messages in spans, and its files."""

import re
from collections.abc import Container
from functools import lru_cache
from typing import Any, get_args

from msgspec import convert

from multiturn.documents.yaml_reader import read_documents
from multiturn.engine.spans import Message, Span, Spans
from multiturn.errors import MultiturnError
from multiturn.files.media import Media, MediaKind
from multiturn.model.calls import Tool
from multiturn.review.locations import Key
from multiturn.text import CONFLICT

# What reading a snapshot may raise: somebody may have edited it by hand.
EDITED = (MultiturnError, ValueError, LookupError, TypeError)
HEAD_ENDS = "\nchat_prompt:"  # suite and id are above it
_LINE_BREAK = Span("\n", "")


def case_in(text: str) -> Key | None:
    """Return the case at the start of a snapshot, merged or not; None if it is not a snapshot."""
    head, found, _ = re.sub(CONFLICT, "", text).partition(HEAD_ENDS)
    try:
        documents = [node.value for node in read_documents(f"{head}\n", "")] if found else []
    except MultiturnError:
        return None
    match documents:
        case [{"suite": str(suite), "id": str(case_id), **rest}] if not rest:
            return suite, case_id
    return None


def messages_in(text: str) -> tuple[Message, ...]:
    """Return the messages that a snapshot records, in spans; none if it is not a snapshot.

    The definitions of tools are the last of them.

    A file that it names is a span without a text; so is a guideline whose text it has in full, in
    a message of its own at the end.
    """
    try:
        recorded = recorded_in(text)
        tools = convert(recorded.get("tools", ()), tuple[Tool, ...])
        definitions = [Message(tool.title, (Span(tool.text, ""),)) for tool in tools]
        paths = _paths_in(recorded)
        if recorded["chat_prompt"] is not None:
            messages = [
                Message(
                    role=str(message["role"]),
                    spans=_spans(message["content"], paths),
                    data={key: message[key] for key in message if key not in ("role", "content")},
                )
                for message in recorded["chat_prompt"]
            ]
            if "system" in recorded:
                messages.insert(0, Message("system", _spans(recorded["system"], paths)))
            guidelines = tuple(Span("", "", path) for path in _inline_guidelines(recorded))
            return *messages, Message("system", guidelines), *definitions
        system, question = _spans(recorded["system"], paths), _spans(recorded["question"], paths)
        return Message("system", system), Message("user", question), *definitions
    except EDITED:
        return ()


def _spans(content: str | list[Any], paths: Container[str]) -> Spans:
    """Return the spans of what ``_content`` has returned; a named file is one without a text."""
    pieces: list[Any] = [content] if isinstance(content, str) else content
    spans: list[Span] = []
    for piece in pieces:
        spans.append(_LINE_BREAK)
        if isinstance(piece, dict):
            spans.append(Span(str(piece.get("after", "")), ""))
            spans.append(_span(piece, paths))
        else:
            spans.append(Span(str(piece), ""))
    return tuple(spans[1:])


def _span(piece: dict[str, Any], paths: Container[str]) -> Span:
    kind = next(filter(piece.__contains__, get_args(MediaKind)), None)
    if kind is None:
        return Span("", "", str(piece["file"]))
    name = str(piece[kind])
    size, sha256 = piece.get("size", 0), piece.get("sha256", "")
    media = Media(kind, str(piece.get("type", "")), int(size), str(sha256), name)
    return Span(media.text, "", name if name in paths else "", media=media)


def named_media_in(text: str) -> dict[str, Media]:
    """Return the media that a snapshot names by their paths, without digests and details."""
    spans = (span for message in messages_in(text) for span in message.spans)
    found = {span.path: span.media for span in spans if span.media is not None and span.path}
    return {path: media for path, media in found.items() if not media.digest}


def named_files_in(text: str) -> list[str]:
    """Return the paths of the files that a snapshot names; none if it is not a snapshot."""
    try:
        recorded = recorded_in(text)
        files = recorded["input_files"]
        return [f["resolved_path"] for f in files if f["resolved_path"] and "sha256" not in f]
    except EDITED:
        return []


def files_before(text: str) -> dict[str, Media | None]:
    """Return the files that a snapshot names, by their paths, with their media; None of a text."""
    return dict.fromkeys(named_files_in(text)) | named_media_in(text)


def files_in(text: str) -> tuple[set[str], set[str]]:
    """Return the paths of the files that a snapshot has, and of those in its system messages.

    Of a file whose text it has in full, it does not say where that is: it counts as both.
    """
    try:
        recorded = recorded_in(text)
        attached = _paths_in(recorded)
        files = [file for file in recorded["input_files"] if "sha256" in file]
        inline = {str(file["resolved_path"]) for file in files} & attached
    except EDITED:
        return set(), set()
    systems = (message for message in messages_in(text) if message.role == "system")
    promoted = {span.path for message in systems for span in message.spans}
    return attached, (promoted & attached) | inline


def inline_guidelines_in(text: str) -> list[str]:
    """Return the paths of the guidelines whose texts, if any, a snapshot has in full."""
    try:
        recorded = recorded_in(text)
        return _inline_guidelines(recorded)
    except EDITED:
        return []


@lru_cache(maxsize=1)  # several questions are asked of one snapshot after another
def recorded_in(text: str) -> Any:
    """Return the one document of a snapshot; text that is none raises one of ``EDITED``."""
    (document,) = read_documents(text, "")
    if not isinstance(document.value, dict):
        raise TypeError("a snapshot is a mapping")
    return document.value


def _paths_in(recorded: dict[str, Any]) -> set[str]:
    """Return the paths of attached files; media in a suite have none."""
    return {str(file["resolved_path"]) for file in recorded.get("input_files", ())} - {""}


def _inline_guidelines(recorded: dict[str, Any]) -> list[str]:
    files = recorded.get("input_files", ())
    return [str(f["resolved_path"]) for f in files if f["guideline"] is True and "sha256" in f]
