"""Request bodies of OpenAI's Responses API."""

from collections.abc import Iterable, Iterator
from typing import Any

from multiturn.errors import MultiturnError
from multiturn.traces.chat import chosen, functions_of, said_in, system_role
from multiturn.traces.trace import (
    Trace,
    Values,
    call,
    decoded,
    execution,
    mappings,
    message,
    pieces,
    system,
    texts,
    thought,
    tool,
)

_STORED = ("previous_response_id", "conversation", "prompt")
_NAMES = {name: name for name in ("temperature", "max_output_tokens")}
_OF_US = ("store", "include")  # that every body of ours has, whatever the case says


def read_responses(body: Values) -> Trace:
    """Return what a body says."""
    if stored := [key for key in _STORED if body.get(key)]:
        what = "refers to messages that OpenAI stores; import a request that has all of them"
        raise MultiturnError(f"{stored[0]} {what}")
    items = [*mappings(_items(body.get("input")))]
    instructions = system(pieces(body.get("instructions")))
    target = {"api": "responses", **system_role(items)}
    if instructions:
        target["system_as"] = "instructions"
    used = ("instructions", "input", "tools", "tool_choice")
    return Trace(
        provider="openai",
        messages=[*instructions, *_messages(items)],
        tools=[tool(_strict(each)) for each in functions_of(body)],
        execution=execution(body, _NAMES, chosen(body.get("tool_choice")), used),
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
            turn.thinking += reasoning(item)
        elif kind == "function_call":
            arguments = decoded(item.get("arguments"), f"input[{at}].arguments")
            turn.calls.append(call(item.get("call_id"), item.get("name"), arguments))
        elif kind == "message" and role == "assistant":
            if turn.pieces or turn.calls:
                yield from turn.done()
            turn.pieces += said_in(item)
        else:
            yield from turn.done()
            if kind == "function_call_output":
                said = pieces(item.get("output"))
                yield message("tool", said, tool_call_id=item.get("call_id"))
            elif kind == "message" and role == "user":
                yield message("user", pieces(item.get("content")))
            elif kind == "message" and role in ("system", "developer"):
                yield message("system", texts(pieces(item.get("content"))))
    yield from turn.done()


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


def reasoning(item: Values) -> list[Values]:
    """Return an item of reasoning as blocks of thinking: one for each text of its summary."""
    data = item.get("encrypted_content")
    summary = [each["text"] for each in mappings(item.get("summary")) if each.get("text")]
    if not summary and not data:  # OpenAI has stored the rest
        return []
    first, *others = summary or [None]
    blocks = [thought("openai", first, item.get("id"), data)]
    return blocks + [thought("openai", text, item.get("id")) for text in others]


def _items(given: Any) -> list[Any]:
    """Return the items of an input: a text stands for one."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return given if isinstance(given, list) else []


def _strict(given: Any) -> Any:
    """Return a tool, strict if it does not say: so the API takes it."""
    if not isinstance(given, dict):
        return given
    return {"strict": True, **{key: value for key, value in given.items() if value is not None}}


def same_responses(body: Values) -> Values:
    """Return a body with its input as a list, and without what each body of ours has."""
    same = {key: value for key, value in body.items() if key not in _OF_US}
    if isinstance(same.get("tools"), list):
        same["tools"] = [*map(_strict, same["tools"])]
    return {**same, "input": _items(body.get("input"))}
