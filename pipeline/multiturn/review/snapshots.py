"""Snapshots: the file that records a case, and what it says when it is read."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from msgspec import convert, to_builtins

from multiturn.documents.dump import Pieces, dump
from multiturn.documents.yaml_events import read_documents
from multiturn.engine.spans import Message, Span, Spans, text_of
from multiturn.errors import MultiturnError
from multiturn.model.calls import Tool
from multiturn.model.request import InputFile, ProviderRequest
from multiturn.review.locations import Key, digest
from multiturn.review.reviewed import ReviewedCase, SentPrompt
from multiturn.text import CONFLICT, utf8

# What reading a snapshot may raise: somebody may have edited it by hand.
EDITED = (MultiturnError, ValueError, LookupError, TypeError)
_LINE_BREAK = Span("\n", "")
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


def _sent(sent: SentPrompt, named: Mapping[str, str], shared: Mapping[str, Any]) -> dict[str, Any]:
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


def _message(message: Message, named: Mapping[str, str]) -> dict[str, Any]:
    return {
        "role": message.role,
        "content": _content(message.spans, named),
        **message.data,
    }


def _tools(request: ProviderRequest) -> dict[str, Any]:
    """Return what a request says of tools, as far as it says anything."""
    found = {"tools": to_builtins(request.tools), "tool_choice": request.tool_choice}
    return {name: value for name, value in found.items() if value}


def _content(spans: Spans, named: Mapping[str, str]) -> str | list[Any]:
    r"""Return the text of some spans, or a list of pieces if it has named files.

    Pieces are joined by line breaks. A piece is a text, or ``{"file": path}``, with ``after`` for
    text before the file's text on its first line.

    >>> header = Span("=== a.md ===", "", "a.md", stage="embed_files")
    >>> file, line_break = Span("Be brief.", "", "a.md"), Span("\n", "", stage="")
    >>> spans = (header, line_break, file, line_break, Span("Hello", ""))
    >>> _content(spans, {"a.md": "Be brief."})
    ['=== a.md ===', {'file': 'a.md'}, 'Hello']
    """
    if not named:
        return text_of(spans)
    pieces: list[Any] = []
    text = "\n"  # since the last piece; it begins with a line break
    following = [*(span.text for span in spans[1:]), "\n"]
    for span, below in zip(spans, following, strict=False):
        known = named.get(span.path) if span.stage is None else None
        newlines = _newlines_after(known, span.text) if known else None
        if newlines is None or not (newlines or below).startswith("\n"):
            text += span.text
            continue
        before, _, line = text.rpartition("\n")
        if before:
            pieces.append(before[1:])
        pieces.append({"after": line} if line else {})
        pieces[-1]["file"] = span.path
        text = newlines
    if not pieces:
        return text[1:]
    return Pieces([*pieces, text[1:]] if text else pieces)


def _newlines_after(known: str, text: str) -> str | None:
    """Return the newlines after a file's known text; None if the text is another one."""
    rest = text.removeprefix(known)
    return rest if len(rest) + len(known) == len(text) and not rest.strip("\n") else None


def _file(file: InputFile, named: Mapping[str, str]) -> dict[str, Any]:
    record = {
        "path": file.path,
        "resolved_path": file.resolved_path,
        "guideline": file.guideline,
    }
    known = named.get(file.resolved_path)
    if known is None or _newlines_after(known, file.text) is None:
        record["sha256"] = digest(file.text)
    return record


def case_in(text: str) -> Key | None:
    """Return the case at the start of a snapshot, merged or not; None if it is not a snapshot."""
    head, found, _ = CONFLICT.sub("", text).partition("\nchat_prompt:")
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
        if recorded["chat_prompt"] is not None:
            messages = [
                Message(
                    role=str(message["role"]),
                    spans=_spans(message["content"]),
                    data={key: message[key] for key in message if key not in ("role", "content")},
                )
                for message in recorded["chat_prompt"]
            ]
            if "system" in recorded:
                messages.insert(0, Message("system", _spans(recorded["system"])))
            guidelines = tuple(Span("", "", path) for path in _inline_guidelines(recorded))
            return *messages, Message("system", guidelines), *definitions
        system, question = _spans(recorded["system"]), _spans(recorded["question"])
        return Message("system", system), Message("user", question), *definitions
    except EDITED:
        return ()


def _spans(content: str | list[Any]) -> Spans:
    """Return the spans of what ``_content`` has returned."""
    pieces: list[Any] = [content] if isinstance(content, str) else content
    spans: list[Span] = []
    for piece in pieces:
        is_file = isinstance(piece, dict)
        text, path = (piece.get("after", ""), piece["file"]) if is_file else (piece, "")
        spans += (_LINE_BREAK, Span(str(text), ""), Span("", "", str(path)))
    return tuple(spans[1:])


def named_files_in(text: str) -> list[str]:
    """Return the paths of the files that a snapshot names; none if it is not a snapshot."""
    try:
        recorded = recorded_in(text)
        return [f["resolved_path"] for f in recorded["input_files"] if "sha256" not in f]
    except EDITED:
        return []


def files_in(text: str) -> tuple[set[str], set[str]]:
    """Return the paths of the files that a snapshot has, and of those in its system messages.

    Of a file whose text it has in full, it does not say where that is: it counts as both.
    """
    try:
        files = recorded_in(text)["input_files"]
        attached = {str(file["resolved_path"]) for file in files}
        inline = {str(file["resolved_path"]) for file in files if "sha256" in file}
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


def _inline_guidelines(recorded: dict[str, Any]) -> list[str]:
    files = recorded.get("input_files", ())
    return [str(f["resolved_path"]) for f in files if f["guideline"] is True and "sha256" in f]
