"""Request bodies of OpenAI's Chat Completions API."""

from collections.abc import Iterator
from typing import Any

from multiturn.errors import MultiturnError
from multiturn.traces.trace import (
    Trace,
    Values,
    call,
    decoded,
    execution,
    mappings,
    message,
    pieces,
    texts,
    tool,
)

_NAMES = {
    "temperature": "temperature",
    "max_completion_tokens": "max_output_tokens",
    "max_tokens": "max_output_tokens",
}
_OLD = ("functions", "function_call")


def read_chat(body: Values) -> Trace:
    """Return what a body says."""
    if old := [key for key in _OLD if body.get(key)]:
        raise MultiturnError(f"{old[0]} is OpenAI's old form, which is not read")
    given = [*mappings(body.get("messages"))]
    messages = [_message(each, f"messages[{at}]") for at, each in enumerate(given)]
    target = system_role(given)
    if body.get("max_completion_tokens") is None and body.get("max_tokens") is not None:
        target["max_tokens_field"] = "max_tokens"
    functions = (each.get("function") for each in functions_of(body))
    choice = chosen(body.get("tool_choice"))
    return Trace(
        provider="openai",
        messages=[each for each in messages if each],
        tools=[tool(each) for each in functions if isinstance(each, dict)],
        execution=execution(body, _NAMES, choice, ("messages", "tools", "tool_choice")),
        target=target,
    )


def _message(given: Values, key: str) -> Values | None:
    content = given.get("content")
    match given.get("role"):
        case "system" | "developer":
            return message("system", texts(pieces(content)))
        case "user":
            return message("user", pieces(content))
        case "assistant":
            listed = enumerate(mappings(given.get("tool_calls")))
            calls = [_call(each, f"{key}.tool_calls[{at}]") for at, each in listed]
            return message("assistant", said_in(given), tool_calls=calls)
        case "tool":
            return message("tool", pieces(content), tool_call_id=given.get("tool_call_id"))
        case "function":
            raise MultiturnError(f"{key}: the role function is OpenAI's old form, not read")
    return None


def _call(given: Values, key: str) -> Values:
    function = given.get("function")
    if not isinstance(function, dict):
        raise MultiturnError(f"{key} is not a call of a function")
    arguments = decoded(function.get("arguments"), f"{key}.function.arguments")
    return call(given.get("id"), function.get("name"), arguments)


def said_in(given: Values) -> list[str]:
    """Return the texts of an assistant's message, or else of its refusal."""
    content = given.get("content")
    refusals = [each.get("refusal") for each in (*mappings(content), given)]
    return texts(pieces(content)) or texts(refusals)


def functions_of(body: Values) -> Iterator[Values]:
    """Yield the tools that are functions of the caller's, not of the vendor's."""
    return (each for each in mappings(body.get("tools")) if each.get("type") == "function")


def chosen(choice: Any) -> Any:
    """Return whether the model must call a tool, in our form; None for what has none."""
    match choice:
        case "auto" | "none" | "required":
            return choice
        case {"type": "function", "function": {"name": str(name)}}:
            return {"name": name}
        case {"type": "function", "name": str(name)}:
            return {"name": name}
    return None


def system_role(messages: list[Values]) -> Values:
    """Return the setting of a target that calls system messages as these are called."""
    roles = [each.get("role") for each in messages]
    is_developer = "developer" in roles and "system" not in roles
    return {"system_role": "developer"} if is_developer else {}
