"""What is written of a case or a result: JSON, YAML, text for reading, or a diff."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click
import msgspec

from multiturn.explaining.record import Record, record_for, to_json, to_yaml
from multiturn.model.conversion import Conversion
from multiturn.model.request import ChatMessage, result_in_words
from multiturn.model.turns import Call
from multiturn.text import in_line, visible

if TYPE_CHECKING:
    from multiturn.providers.base import TargetProvider
    from multiturn.providers.results import Result

_COLORS = {"system": "magenta", "user": "cyan", "assistant": "green", "tool": "yellow"}


def render(
    conversion: Conversion,
    *,
    format_: str,
    in_color: bool,
    warns: bool,
    provider: "TargetProvider | None",
) -> bytes:
    """Return what is written of a conversion, or of what a target would be sent of it."""
    if warns:  # of text that poses as a marker
        from multiturn.logs import warn
        from multiturn_stages.guard_markers import guard_markers

        for notice in guard_markers(conversion).notices:
            if notice not in conversion.notices:
                warn(notice)
    if format_ not in ("json", "yaml", "text"):
        from multiturn.engine import formats  # of other tools

        return to_json(getattr(formats, f"to_{format_}")(conversion))
    record = record_for(conversion, provider)
    if format_ == "text":
        return to_text(record, color=in_color)
    return (to_json if format_ == "json" else to_yaml)(record)


def to_text(record: Record, *, color: bool = False) -> bytes:
    """Render a record for reading: each message under its role."""
    lines = _heading(record["suite"], record["id"], repairs=record.get("repairs", ()))
    messages = record["messages"] if "messages" in record else record["chat_prompt"]
    if messages is None:
        lines.append(click.style("no chat prompt; system message and question:", dim=True))
        system = [ChatMessage("system", record["system"])] if record["system"] else []
        messages = (*system, ChatMessage("user", record["question"]))
    return _joined([*lines, *_lines_of(messages)], color)


def _lines_of(messages: Iterable[ChatMessage]) -> Iterator[str]:
    for message in messages:
        answered = result_in_words(message.tool_call_id, is_error=message.is_error)
        yield role_heading(message.role) + in_line(answered)
        yield from _indented([block.shown for block in message.thinking])
        yield from _indented(_said(message.text, message.tool_calls))


def _heading(*names: str, repairs: Iterable[str]) -> list[str]:
    title = click.style(in_line(" · ".join(names)), bold=True)
    return [title, *(click.style(f"  repaired {repair}", dim=True) for repair in repairs)]


def _said(text: str, calls: Iterable[Call]) -> list[str]:
    """Return a text and the calls after it; without text, the calls alone."""
    shown = [call.text for call in calls]
    return [text, *shown] if text or not shown else shown


def _indented(texts: Iterable[str]) -> list[str]:
    return [f"  {line}".rstrip() for text in texts for line in visible(text).split("\n")]


def to_result_text(result: "Result", *, color: bool) -> bytes:
    """Render an answer for reading, below where it is from; that of echo is its messages."""
    number = [f"repeat {result.repeat}"] if result.repeat else []
    names = (result.suite, result.id, result.target, *number)
    lines = _heading(*names, repairs=result.repairs)
    if result.made.provider == "echo" and result.response:
        messages = msgspec.json.decode(result.response)["messages"]
        lines += _lines_of(msgspec.convert(messages, tuple[ChatMessage, ...]))
    else:
        lines += _indented(_said(result.response or "", result.tool_calls or ()))
    return _joined(lines, color)


def _joined(lines: list[str], color: bool) -> bytes:
    text = "\n".join(lines) + "\n\n"
    return (text if color else click.unstyle(text)).encode()


def role_heading(role: str) -> str:
    """Return a role in its color."""
    return click.style(role, fg=_COLORS[role], bold=True)


_DIFF_COLORS = {"+": "green", "-": "red", "@": "cyan"}


def as_text_diff(before: str, after: str, old: str, new: str) -> str:
    """Draw the difference of two texts, with their names, as a unified diff; empty if none."""
    from multiturn.snapshots.text_diff import unified_diff

    lines = colored_lines(unified_diff(before, after, in_line(old), in_line(new)))
    return "".join(f"{line}\n" for line in lines)


def colored_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a unified diff as they are drawn."""
    return (click.style(visible(line), fg=_DIFF_COLORS.get(line[0])) for line in lines)
