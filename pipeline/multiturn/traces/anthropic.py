"""Request bodies of Anthropic's Messages API."""

from collections.abc import Iterator
from typing import Any

from multiturn.traces.trace import (
    Trace,
    Values,
    call,
    execution,
    mappings,
    message,
    pieces,
    system,
    texts,
    thought,
    tool,
)

_NAMES = {"temperature": "temperature", "max_tokens": "max_output_tokens"}
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def read_anthropic(body: Values) -> Trace:
    """Return what a body says."""
    given = [*mappings(body.get("messages"))]
    messages = system(pieces(body.get("system")))
    for each in given:
        messages += _messages(each)
    target: Values = {}
    if body.get("temperature") is not None:
        target["api_version"] = "2023-06-01"  # newer ones take no temperature (A11)
    if any(each.get("role") == "system" for each in given):
        target["later_system"] = "keep"
    used = ("system", "messages", "tools", "tool_choice")
    # Those of another type are the vendor's own.
    own = (each for each in mappings(body.get("tools")) if each.get("type") in (None, "custom"))
    return Trace(
        provider="anthropic",
        messages=messages,
        tools=[tool(each, "input_schema") for each in own],
        execution=execution(body, _NAMES, _chosen(body.get("tool_choice")), used),
        target=target,
    )


def _messages(given: Values) -> Iterator[Values]:
    """Yield the messages that one of Anthropic's is: each result is one of its own."""
    role, content = given.get("role"), given.get("content")
    if role == "user":
        for block in mappings(content):
            if block.get("type") == "tool_result":
                name, failed = block.get("tool_use_id"), block.get("is_error")
                result = pieces(block.get("content"))
                yield message("tool", result, tool_call_id=name, is_error=failed)
        spoken = [*pieces(content)]
        if spoken or not isinstance(content, list):
            yield message("user", spoken)
    elif role == "assistant":
        uses = [each for each in mappings(content) if each.get("type") == "tool_use"]
        calls = [call(each.get("id"), each.get("name"), each.get("input") or {}) for each in uses]
        said = [*thoughts(content), *texts(pieces(content))]
        yield message("assistant", said, tool_calls=calls)
    elif role == "system":
        yield message("system", texts(pieces(content)))


def thoughts(content: Any) -> Iterator[Values]:
    """Yield the blocks of thinking in a content."""
    for block in mappings(content):
        if block.get("type") == "thinking":
            yield thought("anthropic", block.get("thinking"), block.get("signature"))
        elif block.get("type") == "redacted_thinking":
            yield thought("anthropic", data=block.get("data"))


def _chosen(choice: Any) -> Any:
    match choice:
        case {"type": "tool", "name": str(name)}:
            return {"name": name}
        case {"type": str(kind)}:
            return _CHOICES.get(kind)
    return None
