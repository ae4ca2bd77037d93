"""The forms of request bodies, and which of them a body has."""

from typing import Any

from multiturn.traces.anthropic import read_anthropic
from multiturn.traces.chat import read_chat
from multiturn.traces.gemini import read_gemini, same_gemini
from multiturn.traces.responses import read_responses, same_responses
from multiturn.traces.telemetry import INPUT, read_telemetry, same_telemetry
from multiturn.traces.trace import OF_PROGRAMS, Trace, Values, blocks, decoded, mappings

# What only Anthropic's bodies have, among those with ``messages``.
_KEYS = {"system", "anthropic_version", "stop_sequences", "thinking", "top_k", "mcp_servers"}
_BLOCKS = ("tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document")
_ROLES_OF_OPENAI = ("developer", "tool", "function")
# Vendors take a text in place of a list with it.
_CONTENTS = ("content", "instructions", "output", "system")
# What says the same as nothing.
_EMPTY: tuple[Any, ...] = (None, "", [], {})
_DEFAULTS = (
    *(("type", "message"), ("type", "custom"), ("type", "function")),
    *(("detail", "auto"), ("is_error", False), ("thought", False)),
)
_TYPES = {"input_text": "text", "output_text": "text"}


def read_body(body: Values) -> Trace:
    """Return what a body says.

    Raises:
        MultiturnError: a part of it has no place in a suite.
    """
    if INPUT in body:
        return read_telemetry(body)
    if "contents" in body:
        return read_gemini(body)
    if "input" in body:
        return read_responses(body)
    return read_anthropic(body) if _is_anthropic(body) else read_chat(body)


def same_body(body: Values) -> Values:
    """Return a body with one spelling of what vendors take in several."""
    if INPUT in body:
        body = same_telemetry(body)
    elif "contents" in body:
        body = same_gemini(body)
    elif "input" in body:
        body = same_responses(body)
    return dict(_same(body))


def _same(value: Any, key: str = "") -> Any:
    """Return a value of a body in one spelling; ``key`` is its key, if it has one."""
    match value:
        case str() if key in _CONTENTS:
            return blocks(value)
        case str() if key == "type":
            return _TYPES.get(value, value)
        case str() if key == "arguments":
            return decoded(value, key)
        case dict() if key not in OF_PROGRAMS:
            found = {name: _same(child, name) for name, child in value.items()}
            return {k: v for k, v in found.items() if v not in _EMPTY and (k, v) not in _DEFAULTS}
        case list():
            return [_same(each) for each in value]
    return value


def _is_anthropic(body: Values) -> bool:
    """Return whether a body with ``messages`` is Anthropic's; what both take is OpenAI's."""
    messages, tools = [*mappings(body.get("messages"))], [*mappings(body.get("tools"))]
    roles = [each.get("role") for each in messages]
    has_calls = any("tool_calls" in each for each in messages)
    if roles[:1] == ["system"] or has_calls or any(each in roles for each in _ROLES_OF_OPENAI):
        return False
    if any("function" in each for each in tools):
        return False
    if not _KEYS.isdisjoint(body) or any("input_schema" in each for each in tools):
        return True
    contents = (block for each in messages for block in mappings(each.get("content")))
    is_claude = str(body.get("model")).startswith("claude")
    return is_claude or any(block.get("type") in _BLOCKS for block in contents)
