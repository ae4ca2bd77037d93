"""Request bodies of Anthropic's Messages API."""

from collections.abc import Iterator
from typing import Any

from multiturn.traces.trace import (
    Trace,
    Values,
    blocks,
    call,
    data_uri,
    each_of,
    mappings,
    media,
    message,
    renamed,
    settings,
    texts,
    tool,
)

_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def read_anthropic(body: Values) -> Trace:
    """Return what a body says."""
    messages = [message("system", system)] if (system := [*texts(body.get("system"))]) else []
    for each in mappings(body.get("messages")):
        messages += _messages(each)
    execution = renamed(body, {"temperature": "temperature", "max_tokens": "max_output_tokens"})
    choice = _chosen(body.get("tool_choice"))
    if choice:
        execution["tool_choice"] = choice
    target: Values = {}
    if body.get("temperature") is not None:
        target["api_version"] = "2023-06-01"  # newer ones take no temperature (A11)
    if any(each.get("role") == "system" for each in mappings(body.get("messages"))):
        target["later_system"] = "keep"
    used = ("system", "messages", "tools", "temperature", "max_tokens", "tool_choice")
    return Trace(
        form="anthropic",
        provider="anthropic",
        messages=messages,
        tools=[tool(each, "input_schema") for each in _own(body.get("tools"))],
        execution={**settings(body, used), **execution},
        target=target,
    )


def _messages(given: Values) -> Iterator[Values]:
    """Yield the messages that one of Anthropic's is: each result is one of its own."""
    role, content = given.get("role"), given.get("content")
    if role == "user":
        for block in mappings(content):
            if block.get("type") == "tool_result":
                name, failed = block.get("tool_use_id"), block.get("is_error")
                result = _pieces(block.get("content"))
                yield message("tool", result, tool_call_id=name, is_error=failed)
        spoken = [*_pieces(content)]
        if spoken or not isinstance(content, list):
            yield message("user", spoken)
    elif role == "assistant":
        pieces = [*_thoughts(content), *texts(content)]
        uses = [each for each in mappings(content) if each.get("type") == "tool_use"]
        calls = [call(each.get("id"), each.get("name"), each.get("input") or {}) for each in uses]
        yield message("assistant", pieces, tool_calls=calls)
    elif role == "system":
        yield message("system", texts(content))


def _pieces(content: Any) -> Iterator[Any]:
    """Yield the texts and the media of a content."""
    for block in mappings(blocks(content)):
        match block:
            case {"type": "text", "text": str(text)}:
                yield text
            case {
                "type": "image" | "document" as kind,
                "source": {"type": "base64", "data": str(data), **more},
            }:
                uri = data_uri(more.get("media_type"), data)
                yield media(kind, uri, name=block.get("title"))
            case {"type": "image" | "document" as kind, "source": {"type": "url", "url": str(url)}}:
                yield media(kind, url)


def _thoughts(content: Any) -> Iterator[Values]:
    for block in mappings(content):
        if block.get("type") == "thinking":
            yield {key: block[key] for key in ("type", "thinking", "signature") if key in block}
        elif block.get("type") == "redacted_thinking":
            yield {"type": "redacted_thinking", "data": block.get("data")}


def _own(tools: Any) -> Iterator[Values]:
    """Yield the tools that are functions of the caller's, not of the vendor's."""
    for each in mappings(tools):
        if each.get("type") in (None, "custom"):
            yield each


def _chosen(choice: Any) -> Any:
    match choice:
        case {"type": "tool", "name": str(name)}:
            return {"name": name}
        case {"type": str(kind)}:
            return _CHOICES.get(kind)
    return None


def same_anthropic(body: Values) -> Values:
    """Return a body with one spelling of what Anthropic takes in several."""
    same = {**body, "messages": each_of(body.get("messages"), _same_message)}
    same["system"] = blocks(body.get("system"))
    return {**same, "tools": each_of(body.get("tools"), _same_tool)}


def _same_message(given: Any) -> Any:
    if not isinstance(given, dict):
        return given
    return {**given, "content": [_same_block(each) for each in blocks(given.get("content"))]}


def _same_block(block: Any) -> Any:
    if not isinstance(block, dict) or block.get("type") != "tool_result":
        return block
    kept = {key: value for key, value in block.items() if value not in (False, None)}
    return {**kept, "content": blocks(block.get("content"))}


def _same_tool(given: Any) -> Any:
    if not isinstance(given, dict):
        return given
    kept = {key: value for key, value in given.items() if value not in (None, "")}
    return {key: value for key, value in kept.items() if (key, value) != ("type", "custom")}
