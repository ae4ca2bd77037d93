"""Calls and results are sent as inspect_ai would send them, up to listed differences."""

import asyncio
import json
import os
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
from inspect_ai import model, tool
from msgspec import structs

from histories import history
from media_histories import media_history
from multiturn import ChatMessage, Media, ProviderRequest
from multiturn.engine.formats import inspect_part
from multiturn.logs import Notice
from multiturn.traces.suite import Attached, Imported, imported
from vendors import openai

HISTORIES = int(os.environ.get("HISTORIES", "3000"))
WITH_MEDIA = 1000


def test_for_openai() -> None:
    for number in range(HISTORIES):
        request = history(number)
        ours = msgspec.json.decode(openai().wire(request).body)["messages"]
        theirs = asyncio.run(model.messages_to_openai(as_inspect(request)))
        if ours[0]["role"] == "system":
            ours.pop(0)
        assert alike(ours) == alike([dict(message) for message in theirs])


def test_what_it_makes_is_imported(tmp_path: Path) -> None:
    bodies, expected = [], []
    for number in range(HISTORIES):
        request = history(number)
        ids = [call.id for each in request.chat_prompt or () for call in each.tool_calls]
        if not all(each.strip() for each in ids):
            continue  # no suite has a blank id
        messages = asyncio.run(model.messages_to_openai(as_inspect(request)))
        bodies.append({"model": "gpt-4o", "messages": messages})
        expected.append(
            [
                (call.name, dict(call.arguments))
                for message in request.chat_prompt or ()
                for call in message.tool_calls
            ]
        )
    path = tmp_path / "bodies.jsonl"
    path.write_text("".join(f"{json.dumps(body)}\n" for body in bodies), encoding="utf-8")
    found = imported([str(path)], Attached(None, ""))
    cases = [each for each in found if not isinstance(each, Notice)]
    assert [calls_of(each) for each in cases] == expected
    assert len(cases) > 0.9 * HISTORIES


def calls_of(found: Any) -> Any:
    if not isinstance(found, Imported):
        return str(found)
    return [
        (call["name"], call["arguments"])
        for message in found.case["input_messages"]
        for call in message.get("tool_calls", ())
    ]


def test_images_documents_and_audio_for_openai() -> None:
    count = 0
    for number in range(WITH_MEDIA):
        request = as_comparable(media_history(number, "openai"))
        ours = msgspec.json.decode(openai().wire(request).body)["messages"]
        theirs = asyncio.run(model.messages_to_openai(as_inspect(request)))
        if ours[0]["role"] == "system":
            ours.pop(0)
        count += sum(isinstance(message["content"], list) for message in ours)
        assert alike(ours) == alike([dict(message) for message in theirs])
    assert count > WITH_MEDIA


def joined(pieces: Iterable[str | Media]) -> Iterator[str | Media]:
    """Yield pieces with neighboring texts as one."""
    for is_text, run in groupby(pieces, lambda piece: isinstance(piece, str)):
        same = [*run]
        yield from ["\n".join(map(str, same))] if is_text else same


def as_comparable(request: ProviderRequest) -> ProviderRequest:
    """Return a request without what inspect_ai does in another way.

    It fetches the addresses of images, and sends images in results, which OpenAI refuses.
    """
    prompt = []
    for message in request.chat_prompt or ():
        if isinstance(message.content, tuple):
            texts = [each for each in message.content if isinstance(each, str)]
            kept = [each for each in message.content if isinstance(each, str) or each.url is None]
            is_text = message.role == "tool" or kept == texts
            content = "\n".join(texts) if is_text else tuple(joined(kept))
            message = structs.replace(message, content=content)
        prompt.append(message)
    return structs.replace(request, chat_prompt=tuple(prompt))


def as_inspect(request: ProviderRequest) -> list[Any]:
    """Return the messages as inspect_ai's.

    Results directly follow their calls: inspect_ai does not move them. Thinking is left out:
    inspect_ai sends it to all servers, in fields of their own.
    """
    messages = [
        m
        for m in request.chat_prompt or ()
        if m.role != "system" and (m.content or m.tool_calls or not m.thinking)
    ]
    results = {m.tool_call_id: m for m in messages if m.tool_call_id is not None}
    written: list[Any] = []
    for message in messages:
        if message.tool_call_id is not None:
            continue
        if message.role == "user":
            content = message.content
            if not isinstance(content, str):
                parts = [inspect_part(piece) for piece in content]
                content = json.loads(msgspec.json.encode(parts, enc_hook=str))
            written.append(model.ChatMessageUser(content=content))
            continue
        calls = [tool.ToolCall(c.id, c.name, {**c.arguments}) for c in message.tool_calls]
        said = model.ChatMessageAssistant(content=message.content, tool_calls=calls or None)
        written.append(said)
        ids = {call.id for call in message.tool_calls}
        written += [written_result(each) for name, each in results.items() if name in ids]
    return written


def written_result(message: ChatMessage) -> Any:
    error = tool.ToolCallError("unknown", message.content) if message.is_error else None
    return model.ChatMessageTool(
        content=message.content, tool_call_id=message.tool_call_id, error=error
    )


def alike(messages: list[dict[str, Any]]) -> list[Any]:
    """Return messages without what inspect_ai does in another way."""
    found = []
    for message in messages:
        # It keeps ids of more than 40 characters, which OpenAI refuses.
        message.pop("tool_call_id", None)
        calls = [
            (call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in message.pop("tool_calls", ())
        ]
        # It writes Error: before the result of a call that failed, and an empty text for none.
        said = message.pop("content") or ""
        for part in said if isinstance(said, list) else ():
            # It sends a detail with every image.
            if part["type"] == "image_url" and part["image_url"].get("detail") == "auto":
                del part["image_url"]["detail"]
        said = said.replace("Error: ", "error: ", 1) if message["role"] == "tool" else said
        found.append([message, said, calls])
    return found
