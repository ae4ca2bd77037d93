"""A converted case as JSON, or as YAML for diffs."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from multiturn.files.media import with_bytes
from multiturn.logs import Notice
from multiturn.model.conversion import Conversion
from multiturn.model.request import ProviderRequest, message_of
from multiturn.pipelines.pipeline import request_of
from multiturn.text import may_have_unseen, unseen, utf8

if TYPE_CHECKING:
    from multiturn.providers.base import TargetProvider

_INSTEAD = ("question", "chat_prompt", "system", "guidelines")  # the target gets messages

Record = dict[str, Any]  # what ``multiturn convert`` writes of a case

_encode = msgspec.json.Encoder(enc_hook=with_bytes).encode


def record_of(request: ProviderRequest, notices: Iterable[Notice] = ()) -> Record:
    """Return what is written of a case: its request, and the notices of its conversion."""
    record: Record = {
        "suite": utf8(request.suite),
        "id": request.eval_id,
        "question": request.question,
        "chat_prompt": request.chat_prompt,
        **({"system": request.system} if request.chat_prompt is None else {}),
        "guidelines": request.guidelines,
        "input_files": [
            {
                "path": file.path,
                "resolved_path": utf8(file.resolved_path),
                "guideline": file.guideline,
                **({} if file.media is None else {"media": file.media}),
            }
            for file in request.input_files
        ],
        "metadata": request.metadata,
    }
    warnings = [
        {"event": each.event, "where": utf8(str(each.where)), "why": utf8(each.why)}
        for each in notices
    ]
    others = {
        "tools": request.tools or None,
        "settings": request.settings if request.settings.said() else None,
        "outcome": request.outcome,
        "expected_messages": request.expected_messages,
        "conversation_id": request.conversation_id,
        "execution": request.execution,
        "notices": warnings or None,
    }
    for key, value in others.items():
        if value is not None:
            record[key] = value
    return record


def record_for(conversion: Conversion, provider: "TargetProvider | None" = None) -> Record:
    """Return what ``multiturn convert`` writes of a case, with a provider for its target."""
    request = request_of(conversion)
    record = record_of(request, conversion.notices)
    if provider is None:
        return record
    from multiturn.explaining.explanation import preview_of

    preview = preview_of(conversion, provider, request)
    head = {"suite": record.pop("suite"), "id": record.pop("id"), "target": provider.name}
    if preview.messages is not None:
        head["messages"] = list(map(message_of, preview.messages))
        record = {key: value for key, value in record.items() if key not in _INSTEAD}
    return head | {"parameters": preview.parameters, "repairs": preview.repairs} | record


def json_line(record: Any) -> bytes:
    """Render a record as one line of JSON; what JSON need not escape stays as it is."""
    try:
        return _encode(record) + b"\n"
    except UnicodeEncodeError:  # a path may hold any bytes
        plain = msgspec.to_builtins(record, enc_hook=with_bytes)
        text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
        return utf8(text).encode() + b"\n"


def to_json(record: Any) -> bytes:
    """Render a record, or a result, as one line of JSON; what nobody would see is escaped."""
    line = json_line(record)
    # Of ASCII, JSON escapes all that nobody would see but DEL.
    if (not line.isascii() or b"\x7f" in line) and may_have_unseen(line):
        return unseen(text := line.decode()).sub(lambda it: json.dumps(it[0])[1:-1], text).encode()
    return line


def to_yaml(record: Record) -> bytes:
    """Render a record as a YAML document that reads, and compares, line by line."""
    from multiturn.documents.dump import dump

    return dump(msgspec.to_builtins(record)).encode()
