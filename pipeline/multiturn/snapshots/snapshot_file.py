"""The file that records a case: how it is written, read, and compared with another one."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct, convert, to_builtins

from multiturn.documents.dump import UnindentedList, dump, indented_block
from multiturn.documents.json_lines import read_value
from multiturn.documents.yaml_reader import read_documents
from multiturn.errors import MultiturnError
from multiturn.explaining.spans import Message, Span, Spans, define, file_of, has_media, joined_text
from multiturn.files.media import MEDIA_KINDS, Media
from multiturn.model.request import InputFile
from multiturn.model.settings import JsonSchema, RequestSettings
from multiturn.model.turns import Tool
from multiturn.snapshots.attached_files import Attached
from multiturn.snapshots.locations import Key, digest
from multiturn.snapshots.reviewed_case import ReviewedCase, SentPrompt
from multiturn.text import CONFLICT, utf8

HEAD_ENDS = "\nchat_prompt:"  # suite and id are above it
# What reading a snapshot may raise: somebody may have edited it by hand.
_EDITED = (MultiturnError, ValueError, LookupError, TypeError, AttributeError)
_LINE_BREAK = Span("\n", "")
_parsed = lru_cache(maxsize=1)(read_value)  # many cases have the same JSON Schema
_DIGEST = re.compile("(SHA-256 [0-9a-f]{12})[0-9a-f]{52}")


def snapshot_text(case: ReviewedCase, *, inline: bool = False) -> str:
    """Return the text of a case's snapshot file: YAML, with LF line ends.

    It has no absolute path and no time: the same case gives the same snapshot in any checkout. It
    repeats the texts of attached files if ``inline``; else their paths stand for them, wherever a
    text is the whole text of a file as it is on disk.
    """
    return utf8(dump(snapshot_record(case, inline=inline)))


def snapshot_record(case: ReviewedCase, *, inline: bool = False) -> dict[str, Any]:
    """Return what the snapshot of a case records; see ``snapshot_text``."""
    named = {} if inline else case.files
    chat = case.chat
    messages = None if chat is None else [_message(each, named) for each in chat]
    prompt: dict[str, Any] = {"chat_prompt": messages}
    if chat is None or len(case.messages) > len(chat):  # it is sent before them, or the question
        system = next((each.spans for each in case.messages[:1] if each.role == "system"), ())
        prompt["system"] = _content(system, named)
    asked = {"tools": to_builtins(case.tool_data), "settings": _settings(case.settings, named)}
    recorded = {
        "suite": case.suite,
        "id": case.case.id,
        **prompt,
        **{name: value for name, value in asked.items() if value},
        "question": _content(case.question, named),
        "input_files": [_input_file(file, named) for file in case.input_files],
    }
    if case.sent is not None and (sent := _sent(case.sent, named)):
        recorded["sent"] = sent
    return recorded


def _settings(settings: RequestSettings, named: Mapping[str, Attached]) -> dict[str, Any]:
    """Return settings; of a JSON Schema that is as its file has it, only the path."""
    found: dict[str, Any] = to_builtins(settings)
    form, text = settings.response_format, named.get(settings.schema_path)
    if isinstance(form, JsonSchema) and isinstance(text, str) and _parsed(text) == form.schema:
        del found["response_format"]["schema"]
    return found


def _sent(sent: SentPrompt, named: Mapping[str, Attached]) -> dict[str, Any]:
    """Return what a target is sent and the rest does not say; empty for nothing."""
    found: dict[str, Any] = {}
    if not sent.is_as_given:
        found["messages"] = [_message(each, named) for each in sent.messages]
    if repairs := [each for each in sent.repairs if each not in sent.shared]:
        found["repairs"] = repairs
    return found


def _message(message: Message, named: Mapping[str, Attached]) -> dict[str, Any]:
    return {"role": message.role, "content": _content(message.spans, named), **message.data}


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
        return joined_text(spans)
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
    known = named.get(file_of(span))
    if span.media is not None:
        return _media(span.media, span.path, known), ""
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


def _input_file(file: InputFile, named: Mapping[str, Attached]) -> dict[str, Any]:
    record = {"path": file.path, "resolved_path": file.resolved_path, "guideline": file.guideline}
    known, used = named.get(file.resolved_path), file.text if file.media is None else file.media
    if isinstance(known, str) and isinstance(used, str):
        is_on_disk = _newlines_after(known, used) is not None
    else:
        is_on_disk = known is not None and digest(known) == digest(used)
    if not is_on_disk and digest(used):  # there is none of an address
        record["sha256"] = digest(used)
    return record


def recorded_case(text: str) -> Key | None:
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


class RecordedSnapshot(Struct, frozen=True):
    """What a snapshot has of a case, or ``target.lock`` of all; empty if somebody has edited it.

    Attributes:
        messages: in spans. The definitions of tools are the last of them. A file that is named is
            a span without a text; so is a guideline whose text is in full, in a message of its own.
        named: the files that it names; of media what it says, without digests and details.
        in_full: its other files, whose texts, if any, it has in full; whether each is a guideline.
        settings: by name; with them all else that ``target.lock`` says.
    """

    messages: tuple[Message, ...] = ()
    named: Mapping[str, Media | None] = {}
    in_full: Mapping[str, bool] = {}
    settings: Mapping[str, Any] = {}

    @property
    def guidelines(self) -> list[str]:
        """The guidelines whose texts it has in full."""
        return [path for path, is_guideline in self.in_full.items() if is_guideline]

    @property
    def promoted(self) -> set[str]:
        """The files in system messages; of one in full, it does not say where that is."""
        systems = (message for message in self.messages if message.role == "system")
        named = {span.path for message in systems for span in message.spans}
        return {*self.in_full, *named.intersection(self.named)}


@lru_cache(maxsize=1)  # several questions are asked of one snapshot after another
def _document(text: str) -> dict[str, Any]:
    """Return the one document of a snapshot; text that is none raises one of ``_EDITED``."""
    (document,) = read_documents(text, "")
    if not isinstance(document.value, dict):
        raise TypeError("a snapshot is a mapping")
    return document.value


@lru_cache(maxsize=1)
def read_snapshot(text: str) -> RecordedSnapshot:
    """Return what a snapshot has of its case."""
    try:
        return _snapshot(_document(text))
    except _EDITED:
        return RecordedSnapshot()


def _snapshot(recorded: dict[str, Any]) -> RecordedSnapshot:
    settings = convert(recorded.get("settings", {}), dict[str, Any])
    convert(settings.get("body"), dict[str, Any] | None)
    if "chat_prompt" not in recorded:  # target.lock
        return RecordedSnapshot(settings={**recorded, **settings})
    files = [
        (str(file["resolved_path"]), "sha256" in file, file.get("guideline") is True)
        for file in recorded.get("input_files", ())
        if file["resolved_path"]  # media in a suite have no path
    ]
    match settings:
        case {"response_format": {"path": str(path), **form}}:
            files.append((path, "schema" in form, False))
    paths = {path for path, *_ in files}
    in_full = {path: is_guideline for path, is_in_full, is_guideline in files if is_in_full}
    chat = recorded["chat_prompt"]
    messages = [
        Message(
            role=str(message["role"]),
            spans=_spans(message["content"], paths),
            data={key: message[key] for key in message if key not in ("role", "content")},
        )
        for message in chat or ()
    ]
    if "system" in recorded:
        messages.insert(0, Message("system", _spans(recorded["system"], paths)))
    if chat is None:
        messages.append(Message("user", _spans(recorded["question"], paths)))
    else:
        guidelines = (Span("", "", path) for path in in_full if in_full[path])
        messages.append(Message("system", tuple(guidelines)))
    tools = convert(recorded.get("tools", ()), tuple[Tool, ...])
    messages += (define(tool, Span(tool.text, "")) for tool in tools)
    media = {span.path: span.media for message in messages for span in message.spans if span.media}
    named = {path: media.get(path) for path in paths - in_full.keys()}
    return RecordedSnapshot(tuple(messages), named, in_full, settings)


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
    kind = next(filter(piece.__contains__, MEDIA_KINDS), None)
    if kind is None:
        return Span("", "", str(piece["file"]))
    name = str(piece[kind])
    media_type, sha256 = str(piece.get("type", "")), str(piece.get("sha256", ""))
    media = Media(kind, media_type, int(piece.get("size", 0)), sha256, name)
    return Span(media.text, "", name if name in paths else "", media=media)


def plain_text(text: str) -> str:
    r"""Return a snapshot as it is compared: each line of a text is a line, below its role.

    YAML writes a text of one line in another form than one of two, and a text with a file in a
    third. Suite and id are left out. A text that is not a snapshot is returned as it is.

    >>> plain_text("chat_prompt:\n  - role: user\n    content: Hi\nquestion: Hi")
    'user:\n  Hi\nquestion:\n  Hi\n'
    """
    try:
        return plain_text_of(_document(text))
    except _EDITED:
        return text


def plain_text_of(recorded: Mapping[str, Any]) -> str:
    """Return a snapshot as ``plain_text`` does, from what it records."""
    return utf8("".join(_blocks(recorded)))


def with_short_digests(lines: Iterable[str]) -> list[str]:
    """Return the lines of a diff of plain texts with digests that people can compare.

    Only lines that begin with a dash have digests of ours; those of texts are indented.
    """
    return [with_short_digest(line) if line[1:3] == "- " else line for line in lines]


def with_short_digest(line: str) -> str:
    """Return a line with the first 12 digits of what ``SHA-256`` stands before.

    >>> with_short_digest(f"image/png, 104 bytes, SHA-256 {'0' * 64}")
    'image/png, 104 bytes, SHA-256 000000000000…'
    """
    return _DIGEST.sub(r"\1…", line)


def _blocks(recorded: Mapping[str, Any]) -> Iterator[str]:
    rest = {k: v for k, v in recorded.items() if k not in ("suite", "id", "chat_prompt")}
    for message in recorded["chat_prompt"] or ():
        yield from _message_lines(message)
    for key in ("system", "question"):
        if key in rest:
            yield from (f"{key}:\n", _content_lines(rest.pop(key)))
    sent = rest.get("sent", {})
    if "messages" in sent:
        rest["sent"] = {key: value for key, value in sent.items() if key != "messages"}
        for message in sent["messages"]:
            yield from ("sent as ", *_message_lines(message))
    for key, value in rest.items():
        if key == "input_files" and value:
            yield from ("input_files:\n", *map(_input_file_lines, value))
        elif value:
            yield _as_yaml({key: value})


def _message_lines(message: Mapping[str, Any]) -> Iterator[str]:
    rest = dict(message)
    yield f"{rest.pop('role')}:\n"
    yield _content_lines(rest.pop("content"))
    if rest:
        yield _as_yaml(rest)


def _content_lines(content: str | list[Any]) -> str:
    pieces = [content] if isinstance(content, str) else content
    return "".join(
        f"{indented_block(piece, '  ')}\n" if isinstance(piece, str) else _file_line(piece)
        for piece in pieces
    )


def _file_line(piece: Mapping[str, Any]) -> str:
    """Return what stands for a file or media: without what follows from ``files.lock``."""
    known = {key: piece[key] for key in ("sha256", "type", "size") if key in piece}
    line = _as_yaml([{key: value for key, value in piece.items() if key not in known}])
    if "sha256" not in known:
        return line
    # Its digest is not at the end of the line: a line that ends with one says nothing by itself.
    facts = "SHA-256 {sha256}, {type}, {size:,} bytes".format_map({**known})
    return f"{line.removesuffix(chr(10))}, {facts}\n"


def _input_file_lines(file: Mapping[str, Any]) -> str:
    """Return the line of an attached file, and one of its digest, which follows from its text."""
    known = dict(file)
    sha256 = known.pop("sha256", None)
    line = ", ".join(_as_yaml({key: value}).rstrip("\n") for key, value in known.items())
    return f"- {line}\n" + (f"- SHA-256 {sha256}\n" if sha256 else "")


def _as_yaml(value: Any) -> str:
    return dump(value).removeprefix("---\n")
