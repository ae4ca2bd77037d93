"""Tools in a conversation: their definitions, calls of them, and what a model thought."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from msgspec import Struct, structs

Ask = Callable[[str, str], str]  # a JSON path and a text; returns the text anew


class Tool(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """A tool that the model may call.

    Attributes:
        name: what calls name.
        description: what it does, for the model.
        parameters: a JSON Schema of the arguments, which are an object.
        strict: whether the vendor shall hold arguments to the schema; None where nobody says.
        line: one-based line in the suite; 0 without a suite.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = {}
    strict: bool | None = None
    line: int = 0

    @property
    def title(self) -> str:
        """What readers call its definition, such as ``tool weather``."""
        return f"tool {self.name}"

    @property
    def text(self) -> str:
        """The definition as a reader sees it: the description, and the schema as JSON."""
        schema = json.dumps(self.parameters, indent=2, ensure_ascii=False)
        return "\n".join(filter(None, (self.description, schema)))


class Call(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """A call of a tool by the assistant.

    Attributes:
        id: what its result names; unique in a conversation.
        name: the tool's.
        arguments: a JSON object. Stages must not change it in place.
        signature: what a vendor signed the call with (Gemini's ``thoughtSignature``).
        line: one-based line in the suite; 0 without a suite.
        changed_by: the last stage that changed it; the call as written is in the case.
    """

    id: str
    name: str
    arguments: Mapping[str, Any] = {}
    signature: str = ""
    line: int = 0
    changed_by: str | None = None

    @property
    def text(self) -> str:
        """The call as a reader sees it, in one line, such as ``weather({"city": "Paris"})``."""
        return f"{self.name}({json.dumps(self.arguments, ensure_ascii=False)})"


class Thinking(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """A block of what a model thought before it spoke, for the vendor that it comes from.

    Attributes:
        text: what it thought; empty where the vendor has hidden it.
        signature: by which the vendor knows the text; it holds for the text as it was. Of OpenAI's
            models, the id of the reasoning item; a block of the same id is more of its summary.
        data: the thought in a form that only the vendor reads.
        vendor: whose model thought: ``anthropic``, ``gemini`` or ``openai``.
        line: one-based line in the suite; 0 without a suite.
    """

    text: str = ""
    signature: str = ""
    data: str = ""
    vendor: str = "anthropic"
    line: int = 0

    @property
    def shown(self) -> str:
        """The thinking as a reader sees it, marked as such: it is no part of what was said."""
        return f"(thinking) {self.text}" if self.text else "(hidden thinking)"


Placed = TypeVar("Placed", Tool, Call, Thinking)


def without_lines(written: Iterable[Placed]) -> tuple[Placed, ...]:
    """Return tools, calls or thinking without their lines in the suite, which nobody is sent."""
    return tuple(structs.replace(each, line=0) for each in written)


class Spoken(Protocol):
    """A message, or a turn: who speaks, the calls, and the id of the call that it answers."""

    @property
    def role(self) -> str:
        """Who speaks."""
        ...

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls, if it is the assistant's."""
        ...

    @property
    def answers(self) -> str | None:
        """The id of the call that it answers, if it is a tool's."""
        ...


def unpaired(messages: Iterable[Spoken]) -> tuple[int, str, str]:
    """Return the first call or result that lacks the other: its index, its id, what is wrong.

    A call at the end may wait for its result. What is wrong is empty where all is well.
    """
    asked: dict[str, int] = {}
    answered: set[str] = set()
    last = -1  # the last message that is no result
    for at, message in enumerate(messages):
        if message.answers is not None:
            if message.answers not in asked:
                return (
                    at,
                    message.answers,
                    "has a result, but is not made before it; correct tool_call_id",
                )
            if message.answers in answered:
                return at, message.answers, "has two results; keep one of them"
            answered.add(message.answers)
        elif message.role != "tool":
            last = at
        for call in message.calls:
            if call.id in asked:
                return at, call.id, "is there twice; give each an id of its own"
            asked[call.id] = at
    for name, at in asked.items():
        if name not in answered and at < last:
            return at, name, "has no result; add a message with its tool_call_id"
    return -1, "", ""


def mapped_tool(tool: Tool, key: str, ask: Ask) -> Tool:
    """Return a tool with its description, and those in its schema, as ``ask`` gives them."""

    def described(value: Any, path: str) -> Any:
        if isinstance(value, Mapping):
            return {
                name: ask(f"{path}.description", child)
                if name == "description" and isinstance(child, str)
                else described(child, _below(path, name))
                for name, child in value.items()
            }
        if isinstance(value, list | tuple):
            return [described(child, f"{path}[{at}]") for at, child in enumerate(value)]
        return value

    said = tool.description and ask(f"{key}.description", tool.description)
    parameters = described(tool.parameters, f"{key}.parameters")
    return structs.replace(tool, description=said, parameters=parameters)


def mapped_values(value: Any, path: str, ask: Ask) -> Any:
    """Return a value of JSON with each string in it, and each key, as ``ask`` gives it.

    Raises:
        ValueError: two keys become one.
    """
    if isinstance(value, str):
        return ask(path, value)
    if isinstance(value, list | tuple):
        return [mapped_values(child, f"{path}[{at}]", ask) for at, child in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    found: dict[str, Any] = {}
    for name, child in value.items():
        below = _below(path, name)
        new = ask(below, name)
        if new in found:
            raise ValueError(f"two keys of {path} become one: {new[:60]!r}")
        found[new] = mapped_values(child, below, ask)
    return found


def _below(path: str, name: str) -> str:
    """Return the JSON path of a member."""
    return f"{path}.{name}" if name.isidentifier() else f"{path}[{json.dumps(name)}]"
