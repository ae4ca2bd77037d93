"""Request bodies of OpenAI's Responses API."""

from collections.abc import Iterable, Iterator
from typing import Any

from multiturn.errors import MultiturnError
from multiturn.traces.chat import chosen, system_role
from multiturn.traces.trace import (
    Trace,
    Values,
    blocks,
    call,
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

_STORED = ("previous_response_id", "conversation", "prompt")
_OURS = ("temperature", "max_output_tokens")
_OF_US = ("store", "include")  # that every body of ours has, whatever the case says


def read_responses(body: Values) -> Trace:
    """Return what a body says."""
    if stored := [key for key in _STORED if body.get(key)]:
        what = "refers to messages that OpenAI stores; import a request that has all of them"
        raise MultiturnError(f"{stored[0]} {what}")
    items = [*mappings(_items(body.get("input")))]
    instructions = [*texts(body.get("instructions"))]
    execution = renamed(body, {name: name for name in _OURS})
    if choice := chosen(body.get("tool_choice")):
        execution["tool_choice"] = choice
    target = {"api": "responses", **system_role(items)}
    if instructions:
        target["system_as"] = "instructions"
    used = ("instructions", "input", "tools", "tool_choice", *_OURS)
    return Trace(
        form="responses",
        provider="openai",
        messages=[message("system", instructions)] * bool(instructions) + [*_messages(items)],
        # The API takes a tool for strict that does not say.
        tools=[tool({"strict": True, **each}, "parameters") for each in _functions(body)],
        execution={**settings(body, used), **execution},
        target=target,
    )


def _messages(items: Iterable[Values]) -> Iterator[Values]:
    """Yield messages: thinking, a text and calls in this order are one of the assistant's."""
    turn = _Turn()
    for at, item in enumerate(items):
        kind, role = item.get("type", "message"), item.get("role")
        if kind == "reasoning":
            if turn.pieces or turn.calls:
                yield from turn.done()
            turn.thinking += thoughts(item)
        elif kind == "function_call":
            arguments = decoded(item.get("arguments"), f"input[{at}].arguments")
            turn.calls.append(call(item.get("call_id"), item.get("name"), arguments))
        elif kind == "message" and role == "assistant":
            if turn.pieces or turn.calls:
                yield from turn.done()
            turn.pieces += _said(item)
        else:
            yield from turn.done()
            if kind == "function_call_output":
                yield message("tool", _pieces(item.get("output")), tool_call_id=item.get("call_id"))
            elif kind == "message" and role == "user":
                yield message("user", _pieces(item.get("content")))
            elif kind == "message" and role in ("system", "developer"):
                yield message("system", texts(item.get("content")))
    yield from turn.done()


def _pieces(content: Any) -> Iterator[Any]:
    """Yield the texts and the media of a content."""
    for block in mappings(blocks(content)):
        match block:
            case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
                yield text
            case {"type": "input_image", "image_url": str(url)}:
                yield media("image", url, detail=block.get("detail"))
            case {"type": "input_file", "file_data": str(data)}:
                yield media("file", data, name=block.get("filename"))
            case {"type": "input_file", "file_url": str(url)}:
                yield media("document", url)


class _Turn:
    """The message of the assistant's that the items so far make."""

    def __init__(self) -> None:
        self.thinking: list[Any] = []
        self.pieces: list[Any] = []
        self.calls: list[Values] = []

    def done(self) -> Iterator[Values]:
        """Yield the message, if there is one, and begin another."""
        if self.thinking or self.pieces or self.calls:
            yield message("assistant", [*self.thinking, *self.pieces], tool_calls=self.calls)
        self.thinking, self.pieces, self.calls = [], [], []


def thoughts(item: Values) -> list[Values]:
    """Return an item of reasoning as blocks of thinking: one for each text of its summary."""
    summary = [each["text"] for each in mappings(item.get("summary")) if each.get("text")]
    known = {"signature": item["id"]} if item.get("id") else {}
    known["vendor"] = "openai"
    data = {"data": item["encrypted_content"]} if item.get("encrypted_content") else {}
    if not summary:  # without data, there is nothing in it: OpenAI has stored the rest
        return [{"type": "redacted_thinking", **data, **known}] if data else []
    found = [{"type": "thinking", "thinking": text, **known} for text in summary]
    found[0] |= data
    return found


def _said(item: Values) -> list[str]:
    """Return the texts of an assistant's message; a refusal is one."""
    content = item.get("content")
    refusals = (each.get("refusal") for each in mappings(content))
    return [*texts(content)] or [each for each in refusals if isinstance(each, str)]


def _items(given: Any) -> list[Any]:
    """Return the items of an input: a text stands for one."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return given if isinstance(given, list) else []


def _functions(body: Values) -> Iterator[Values]:
    for each in mappings(body.get("tools")):
        if each.get("type") == "function":
            yield {key: value for key, value in each.items() if value is not None}


def same_responses(body: Values) -> Values:
    """Return a body with one spelling of what the API takes in several."""
    same = {key: value for key, value in body.items() if key not in _OF_US}
    same["input"] = [_same(each) for each in _items(body.get("input"))]
    return {**same, "tools": each_of(body.get("tools"), _same_tool)}


def _same_tool(given: Any) -> Any:
    if not isinstance(given, dict):
        return given
    return {"strict": True, **{k: v for k, v in given.items() if v not in (None, "", {})}}


def _same(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    same = {key: value for key, value in item.items() if (key, value) != ("type", "message")}
    if "role" in item:
        # OpenAI has a name for texts of each side.
        same["content"] = [_same_block(each) for each in blocks(item.get("content"))]
    elif item.get("type") == "function_call":
        same["arguments"] = decoded(item.get("arguments"), "arguments")
    elif item.get("type") == "function_call_output":
        same["output"] = [_same_block(each) for each in blocks(item.get("output"))]
    return same


def _same_block(block: Any) -> Any:
    match block:
        case {"type": "input_text" | "output_text"}:
            return {**block, "type": "text"}
        case {"type": "input_image"}:
            return {"detail": "auto", **block}
    return block
