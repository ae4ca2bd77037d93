"""A request body of another program: the request that it is of, and the case of a suite for it."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from toolz import unique

from multiturn.documents.json_lines import read_value
from multiturn.files.media import Media, given_media
from multiturn.model.request import PreparedRequest, part_of
from multiturn.model.turns import Call, Part, Thinking, Tool, Turn
from multiturn.providers.reading import BodyForm, Segment
from multiturn.providers.settings import TRANSPORT, Values, taken
from multiturn.providers.targets import KINDS


class Trace(Struct, kw_only=True):
    """What a request body says."""

    provider: str  # the kind of target that sends such bodies
    request: PreparedRequest  # that the body was written of
    target: Values = {}  # what a target needs beside these settings to send it as it was
    form: BodyForm | None = None  # None for the attributes of a span
    lost: list[str] = []  # what has no place in ours, where there is no form that tells


def forms(kind: str = "") -> list[tuple[str, BodyForm]]:
    """Return the forms of bodies that are read, of all or a kind of provider, each with that."""
    rows = [(kind, KINDS[kind])] if kind in KINDS else KINDS.items()
    every = ((kind, form) for kind, row in rows for form in getattr(row.provider, "body_forms", ()))
    return [*unique(every, key=lambda each: id(each[1]))]


def likeliest_form(body: Values, provider: str = "") -> tuple[str, BodyForm]:
    """Return the likeliest form of a body, and the kind of its provider, which may be given."""
    return max(forms(provider) or forms(), key=lambda each: each[1].likeness(body))


def suite_message(turn: Turn, piece_of: Callable[[Media], Values]) -> Values:
    """Return a turn as a message of a suite; a single text is its content itself.

    >>> suite_message(Turn("assistant", calls=(Call("c1", "now"),)), lambda _: {})
    {'role': 'assistant', 'tool_calls': [{'id': 'c1', 'name': 'now', 'arguments': {}}]}
    """
    content: Any = [*map(suite_thought, turn.thinking)]
    content += [
        part.text if part.media is None else piece_of(part.media)
        for part in turn.parts
        if part.text or not turn.is_more
    ]
    if len(content) < 2 and not any(isinstance(each, dict) for each in content):
        content = content[0] if content else ""
    given: Values = {"role": turn.role, "tool_call_id": turn.answers, "is_error": turn.is_error}
    given |= {"content": content, "tool_calls": [*map(suite_call, turn.calls)]}
    needed = () if turn.calls else ("content",)
    return {key: each for key, each in given.items() if each or key in needed}


def media_part(segment: Segment) -> Part:
    """Return media in a body, or at an address, as a part; an AttachmentError if they are none."""
    name, detail = segment.get("name"), segment.get("detail")
    return part_of(given_media(segment["value"], segment["type"], name, detail))


def suite_media(media: Media, path: str | None = None) -> Values:
    """Return media as a segment of a suite: at a path, else at an address or in the suite."""
    value = path or media.url
    more = {"detail": media.detail, "name": None if value else media.path}
    found = {"type": media.kind, "value": value or media.data_uri}
    return {**found, **{key: each for key, each in more.items() if each}}


def suite_case(trace: Trace, piece_of: Callable[[Media], Values]) -> Values:
    """Return the prompt and the settings of a body as keys of a case."""
    execution: Values = msgspec.to_builtins(trace.request.settings)
    body = execution.pop("body", {})
    for path in (*TRANSPORT, *(trace.form.closed if trace.form else ())):
        taken(body, path)
    execution |= {"body": body} if body else {}
    found = {"tools": [*map(suite_tool, trace.request.tools)], "execution": execution}
    found = {key: each for key, each in found.items() if each}
    messages = [suite_message(each, piece_of) for each in trace.request.spoken]
    return {**found, "input_messages": messages}


def suite_call(call: Call) -> Values:
    """Return a call of a tool as a suite has it."""
    signed = {"thought_signature": call.signature} if call.signature else {}
    return {"id": call.id, "name": call.name, "arguments": call.arguments, **signed}


def suite_thought(block: Thinking) -> Values:
    """Return a block of thinking as a suite has it; without a text, only the vendor can read it."""
    kind = "thinking" if block.text or not block.data else "redacted_thinking"
    found = {"type": kind, "thinking": block.text, "signature": block.signature}
    found |= {"data": block.data, "vendor": block.vendor}
    return {key: value for key, value in found.items() if value or key == kind}


def suite_tool(tool: Tool) -> Values:
    """Return the definition of a tool as a suite has it."""
    found: Values = msgspec.to_builtins(replace(tool, line=0))
    return found


def parsed(value: Any) -> Any:
    """Return a value; of a text in JSON, as programs log structures, what it says."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        with suppress(ValueError):
            return read_value(value)
    return value
