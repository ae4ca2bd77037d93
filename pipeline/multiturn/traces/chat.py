"""Request bodies of OpenAI's Chat Completions API."""

from collections.abc import Iterator
from typing import Any

from multiturn.errors import MultiturnError
from multiturn.traces.trace import (
    Trace,
    Values,
    blocks,
    call,
    data_uri,
    decoded,
    each_of,
    mappings,
    media,
    message,
    renamed,
    settings,
    texts,
    tool,
)

_LIMITS = {
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
    execution = renamed(body, {"temperature": "temperature", **_LIMITS})
    choice = chosen(body.get("tool_choice"))
    if choice:
        execution["tool_choice"] = choice
    target = system_role(given)
    if body.get("max_completion_tokens") is None and body.get("max_tokens") is not None:
        target["max_tokens_field"] = "max_tokens"
    used = ("messages", "tools", "temperature", *_LIMITS, "tool_choice")
    return Trace(
        form="chat",
        provider="openai",
        messages=[each for each in messages if each],
        tools=[tool(each, "parameters") for each in _functions(body.get("tools"))],
        execution={**settings(body, used), **execution},
        target=target,
    )


def same_chat(body: Values) -> Values:
    """Return a body with one spelling of what OpenAI takes in several."""
    same = {**body, "messages": each_of(body.get("messages"), _same)}
    return {**same, "tools": each_of(body.get("tools"), _same_tool)}


def _message(given: Values, key: str) -> Values | None:
    content = given.get("content")
    match given.get("role"):
        case "system" | "developer":
            return message("system", texts(content))
        case "user":
            return message("user", _pieces(content))
        case "assistant":
            pieces = [*texts(content)]
            if isinstance(said := given.get("refusal"), str) and not pieces:
                pieces = [said]
            listed = enumerate(mappings(given.get("tool_calls")))
            calls = [_call(each, f"{key}.tool_calls[{at}]") for at, each in listed]
            return message("assistant", pieces, tool_calls=calls)
        case "tool":
            return message("tool", _pieces(content), tool_call_id=given.get("tool_call_id"))
        case "function":
            raise MultiturnError(f"{key}: the role function is OpenAI's old form, not read")
    return None


def _pieces(content: Any) -> Iterator[Any]:
    """Yield the texts and the media of a content."""
    for block in mappings(blocks(content)):
        match block:
            case {"type": "text", "text": str(text)}:
                yield text
            case {"type": "image_url", "image_url": {"url": str(url), **more}}:
                yield media("image", url, detail=more.get("detail"))
            case {"type": "file", "file": {"file_data": str(data), **more}}:
                yield media("file", data, name=more.get("filename"))
            case {"type": "input_audio", "input_audio": {"data": str(data)}}:
                yield media("audio", data_uri("", data))


def _call(given: Values, key: str) -> Values:
    function = given.get("function")
    if not isinstance(function, dict):
        raise MultiturnError(f"{key} is not a call of a function")
    arguments = decoded(function.get("arguments"), f"{key}.function.arguments")
    return call(given.get("id"), function.get("name"), arguments)


def _functions(tools: Any) -> Iterator[Values]:
    for each in mappings(tools):
        if each.get("type") == "function" and isinstance(each.get("function"), dict):
            yield each["function"]


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


def _same(given: Any) -> Any:
    if not isinstance(given, dict):
        return given
    same = {key: value for key, value in given.items() if value is not None and value != []}
    same["content"] = blocks(given.get("content"))
    same["tool_calls"] = each_of(same.get("tool_calls", []), _same_call)
    return same


def _same_call(given: Any) -> Any:
    match given:
        case {"function": dict(function)}:
            arguments = decoded(function.get("arguments"), "arguments")
            return {**given, "function": {**function, "arguments": arguments}}
    return given


def _same_tool(given: Any) -> Any:
    match given:
        case {"function": dict(function)}:
            kept = {key: value for key, value in function.items() if value not in (None, "", {})}
            return {**given, "function": kept}
    return given
