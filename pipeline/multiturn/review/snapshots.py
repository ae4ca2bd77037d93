"""Snapshots: the content of a case's snapshot, and the name of its file."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from multiturn.documents.dump import Pieces, dump
from multiturn.documents.yaml_events import read_documents
from multiturn.engine.provenance import Message, Span, Spans
from multiturn.errors import MultiturnError
from multiturn.files import real_path
from multiturn.model import Case, Conversion
from multiturn.request import InputFile
from multiturn.suites.suite import path_in
from multiturn.text import utf8
from multiturn.turns import Part, joined

Key = tuple[str, str]  # suite and id

_EDITED = (MultiturnError, ValueError, LookupError, TypeError)  # what somebody else has written
_LINE_BREAK = Span("\n", "")
_NONE: Mapping[str, str] = {}
# Git's mark of a conflict, and the half of it that came from elsewhere.
_CONFLICT = re.compile("^(?:<<<<<<< [^\n]*|=======\n.*?^>>>>>>> [^\n]*)\n", re.M | re.DOTALL)
_LONGEST = 100  # characters of a name, before its digest
_UNSAFE = re.compile(r"[^A-Za-z0-9_. -]|\A[. -]|[. ]\Z")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9]) *(?:\.|\Z)", re.IGNORECASE)
# A folder must not be named as a file of ours may be, nor a snapshot as a suite.
_OUR_EXTENSION = re.compile(r"\.(?=(?:yaml|lock|eval)\Z)", re.IGNORECASE)
_SUITE_EXTENSION = re.compile(r"\.(eval\.yaml|eval\.yml|eval\.jsonl|yaml|yml|jsonl)\Z")


def snapshot_text(conversion: Conversion, named: Mapping[str, str] = _NONE) -> str:
    """Return the text of a case's snapshot file: YAML, with LF line ends.

    It has no absolute path and no time: the same case gives the same snapshot in any checkout.

    Args:
        conversion: finished, by any pipeline.
        named: from ``texts_of_files``; a text that is one of these is replaced by its path. Empty
            to have all texts inline.
    """
    case, chat = conversion.case, conversion.chat
    prompt: dict[str, Any]
    if chat is None:  # this system message is sent, and then the question
        prompt = {"chat_prompt": None, "system": _content(conversion.system, named)}
    else:
        messages = [{"role": turn.role, "content": _content(turn.parts, named)} for turn in chat]
        prompt = {"chat_prompt": messages}
    recorded = {
        "suite": suite_of(case),
        "id": case.id,
        **prompt,
        "question": _content(conversion.transcript, named),
        "input_files": [_file(file, named) for file in conversion.input_files],
    }
    return utf8(dump(recorded))


def texts_of_files(conversion: Conversion) -> dict[str, str]:
    """Return the text of each attached file as it is on disk (rule 3), by its path in the root."""
    files = conversion.case.files
    paths = [file.resolved_path for file in conversion.input_files]
    known = {path: files.known(path) for path in paths} if files is not None else {}
    return {path: text for path, text in known.items() if text is not None}


def _content(parts: Sequence[Part], named: Mapping[str, str]) -> str | list[Any]:
    r"""Return the text of some parts, or a list of pieces if it has named files.

    Pieces are joined by line breaks. A piece is a text, or ``{"file": path}``, with ``after`` for
    text before the file's text on its first line.

    >>> header = Part("text", "=== a.md ===", resolved_path="a.md", stage="embed_files")
    >>> file = Part("text", "Be brief.", resolved_path="a.md")
    >>> _content([header, file, Part("text", "Hello")], {"a.md": "Be brief."})
    ['=== a.md ===', {'file': 'a.md'}, 'Hello']
    """
    if not named:
        return joined(parts)
    separators = ["\n", *(part.separator for part in parts[1:])]
    pieces: list[Any] = []
    text = ""  # since the last piece; it begins with a line break
    for part, above, below in zip(parts, separators, [*separators[1:], "\n"], strict=False):
        text += above
        known = named.get(part.resolved_path or "") if part.stage is None else None
        newlines = _newlines_after(known, part.text) if known else None
        if newlines is None or not (newlines or below).startswith("\n"):
            text += part.text
            continue
        before, _, line = text.rpartition("\n")
        if before:
            pieces.append(before[1:])
        pieces.append({"after": line} if line else {})
        pieces[-1]["file"] = part.resolved_path
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
    head, found, _ = _CONFLICT.sub("", text).partition("\nchat_prompt:")
    try:
        documents = [node.value for node in read_documents(f"{head}\n", "")] if found else []
    except MultiturnError:
        return None
    match documents:
        case [{"suite": str(suite), "id": str(case_id), **rest}] if not rest:
            return suite, case_id
    return None


def has_conflict(text: str) -> bool:
    """Return whether git could not merge a file."""
    return _CONFLICT.search(text) is not None


def messages_in(text: str) -> tuple[Message, ...]:
    """Return the messages that a snapshot records, in spans; none if it is not a snapshot.

    A file that it names is a span without a text; so is a guideline whose text it has in full, in
    a message of its own at the end.
    """
    try:
        recorded = _recorded(text)
        if recorded["chat_prompt"] is not None:
            messages = [
                Message(str(message["role"]), _spans(message["content"]))
                for message in recorded["chat_prompt"]
            ]
            guidelines = tuple(Span("", "", path) for path in _inline_guidelines(recorded))
            return *messages, Message("system", guidelines)
        system, question = _spans(recorded["system"]), _spans(recorded["question"])
        return Message("system", system), Message("user", question)
    except _EDITED:
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
        recorded = _recorded(text)
        return [f["resolved_path"] for f in recorded["input_files"] if "sha256" not in f]
    except _EDITED:
        return []


def inline_guidelines_in(text: str) -> list[str]:
    """Return the paths of the guidelines whose texts, if any, a snapshot has in full."""
    try:
        recorded = _recorded(text)
        return _inline_guidelines(recorded)
    except _EDITED:
        return []


def _recorded(text: str) -> Any:
    """Return the one document of a snapshot; text that is none raises one of _EDITED."""
    (document,) = read_documents(text, "")
    return document.value


def _inline_guidelines(recorded: dict[str, Any]) -> list[str]:
    files = recorded.get("input_files", ())
    return [str(f["resolved_path"]) for f in files if f["guideline"] is True and "sha256" in f]


def digest(text: str) -> str:
    """Return the SHA-256 of a text as it is sent: in UTF-8, after rule 3."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def suite_of(case: Case) -> str:
    """Return the name of a case's suite in its root; as it is, if the case has no files."""
    if case.files is None or not case.suite:
        return case.suite
    return case.files.suite or name_in_root(case.suite, case.files.root)


def name_in_root(path: str, root: str) -> str:
    """Return the path of a suite relative to a root, which must hold it, with ``/``, no links."""
    name = path_in(real_path(root), real_path(path))
    if name is None:
        what = "a snapshot needs a suite inside its root; name a root that holds it (--root)"
        raise MultiturnError(what, where=path)
    return name


def location_of(suite: str, case_id: str) -> str:
    """Return the path of a case's snapshot in the folder of snapshots, with ``/``.

    It depends on nothing but the two names, is a legal path on every platform, and no two cases
    have the same one. An id keeps its ASCII letters, digits, ``_``, ``.``, ``-`` and spaces; all
    else, and what is special to some system at its place, is percent-encoded.
    ``~`` and a digest follow a name that is too long, and one with capitals, which some file
    systems do not tell from small letters.

    >>> location_of("evals/review.eval.yaml", "sql-injection")
    'evals/review/sql-injection.yaml'
    >>> location_of("evals/review.yaml", "../con")
    'evals/review~yaml/%2E.%2Fcon.yaml'
    >>> location_of("evals/review.eval.yaml", "TC-1")
    'evals/review/TC-1~294574ecc1e0.yaml'
    """
    name = _legal(case_id)
    if re.search("[A-Z]", case_id) and "~" not in name:
        name += f"~{digest(case_id)[:12]}"
    return f"{folder_of(suite)}/{name}.yaml"


@lru_cache
def folder_of(suite: str) -> str:
    """Return the path of the folder of a suite's snapshots in the folder of all, with ``/``.

    ``a.eval.yaml`` has the folder ``a``. Any other extension is kept after a ``~``, so that
    suites that differ in nothing else have folders of their own.

    >>> folder_of("evals/a.eval.yaml"), folder_of("evals/a.eval.jsonl"), folder_of("a.yaml")
    ('evals/a', 'evals/a~eval.jsonl', 'a~yaml')
    """
    folder, slash, name = suite.rpartition("/")
    match = _SUITE_EXTENSION.search(name)
    stem, extension = (name[: match.start()], match[1]) if match else (name, "")
    mark = "" if extension == "eval.yaml" else f"~{extension}"
    return f"{legal_path(folder)}{slash}{_legal(stem)}{mark}"


def legal_path(folder: str) -> str:
    """Return where the snapshots of all suites below a folder are, with ``/``; empty for all."""
    return "/".join(map(_legal, filter(None, folder.split("/"))))


def _legal(name: str) -> str:
    """Return a name that every file system takes as it is; other names give other ones."""
    legal = _OUR_EXTENSION.sub("%2E", _UNSAFE.sub(_encoded, name))
    if _DEVICE.match(legal):
        legal = f"%{ord(legal[0]):02X}{legal[1:]}"
    if not legal or len(legal) > _LONGEST:
        legal = f"{legal[:_LONGEST]}~{digest(name)[:12]}"
    return legal


def _encoded(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass"))
