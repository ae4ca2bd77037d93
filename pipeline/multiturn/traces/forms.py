"""The forms of request bodies, and which of them a body has."""

from collections.abc import Callable, Mapping

from multiturn.traces.anthropic import read_anthropic, same_anthropic
from multiturn.traces.chat import read_chat, same_chat
from multiturn.traces.gemini import read_gemini, same_gemini
from multiturn.traces.responses import read_responses, same_responses
from multiturn.traces.telemetry import INPUT, read_telemetry, same_telemetry
from multiturn.traces.trace import Trace, Values, mappings

SAME: Mapping[str, Callable[[Values], Values]] = {
    "chat": same_chat,
    "responses": same_responses,
    "anthropic": same_anthropic,
    "gemini": same_gemini,
    "telemetry": same_telemetry,
}
# What only Anthropic's bodies have, among those with ``messages``.
_KEYS = {"system", "anthropic_version", "stop_sequences", "thinking", "top_k", "mcp_servers"}
_BLOCKS = ("tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document")
_ROLES_OF_OPENAI = ("developer", "tool", "function")


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
    blocks = (block for each in messages for block in mappings(each.get("content")))
    is_claude = str(body.get("model")).startswith("claude")
    return is_claude or any(block.get("type") in _BLOCKS for block in blocks)
