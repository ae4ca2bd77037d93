"""A converted case as JSON, as YAML for diffs, or as text for a terminal."""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click
import msgspec

from multiturn.model import ChatMessage, ProviderRequest
from multiturn.text import indented, visible

if TYPE_CHECKING:
    from multiturn.providers.results import Result

_COLORS = {"system": "magenta", "user": "cyan", "assistant": "green", "tool": "yellow"}
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile(b"\x7f|\xc2[\x80-\x9f]")


class FileRecord(msgspec.Struct, frozen=True):
    """What ``multiturn convert`` writes of an attached file."""

    path: str
    resolved_path: str
    guideline: bool


class Record(msgspec.Struct, frozen=True):
    """What ``multiturn convert`` writes of a case."""

    suite: str
    id: str
    question: str
    chat_prompt: tuple[ChatMessage, ...] | None
    guidelines: tuple[str, ...]
    input_files: tuple[FileRecord, ...]
    metadata: Mapping[str, Any]


def record_of(suite: str, request: ProviderRequest) -> Record:
    """Return what is written of a request."""
    return Record(
        utf8(suite),
        request.eval_id,
        request.question,
        request.chat_prompt,
        request.guidelines,
        tuple(
            FileRecord(file.path, utf8(file.resolved_path), file.guideline)
            for file in request.input_files
        ),
        request.metadata,
    )


def utf8(text: str) -> str:
    """Return a text that can be written, whatever bytes a file system or a model had for it."""
    return _LONE_SURROGATE.sub("\ufffd", text)


def to_json(record: Any) -> bytes:
    """Render a record, or a result, as one line of JSON that no terminal obeys."""
    line = msgspec.json.encode(record) + b"\n"
    if b"\x7f" not in line and b"\xc2" not in line:  # quick to deny, and a search is not
        return line
    return _CONTROL.sub(lambda match: b"\\u%04x" % match[0][-1], line)


def to_yaml(record: Record) -> bytes:
    """Render a record as a YAML document that reads, and compares, line by line."""
    from multiturn.documents.dump import dump

    return dump(msgspec.to_builtins(record)).encode()


def to_text(record: Record) -> bytes:
    """Render a record for reading: each message under its role, without color."""
    return click.unstyle(to_colored_text(record).decode()).encode()


def to_colored_text(record: Record) -> bytes:
    """Render a record for a terminal: each message under its role, in color."""
    lines = [click.style(visible(f"{record.suite} · {record.id}").replace("\n", "\\n"), bold=True)]
    messages = record.chat_prompt
    if messages is None:
        lines.append(click.style("no chat prompt; the question:", dim=True))
        messages = (ChatMessage("user", record.question),)
    for message in messages:
        lines.append(role_heading(message.role))
        lines += [f"  {line}".rstrip() for line in visible(message.content).split("\n")]
    return ("\n".join(lines) + "\n\n").encode()


def to_result_text(result: "Result", *, color: bool) -> bytes:
    """Render a result for reading: where it is from, and the answer or the error below."""
    title = f"{result.suite} · {result.id} · {result.target}".replace("\n", "\\n")
    lines = [click.style(visible(title), bold=True)]
    lines += [click.style(f"  repaired {repair}", dim=True) for repair in result.repairs]
    if result.error is not None:
        lines.append(click.style(f"  {indented(result.error.message)}", fg="red"))
    else:
        lines += [f"  {line}".rstrip() for line in visible(result.response or "").split("\n")]
    text = "\n".join(lines) + "\n\n"
    return (text if color else click.unstyle(text)).encode()


def role_heading(role: str) -> str:
    """Return a role in its color."""
    return click.style(role, fg=_COLORS[role], bold=True)


RENDERERS: dict[str, Callable[[Record], bytes]] = {
    "json": to_json,
    "yaml": to_yaml,
    "text": to_text,
}
