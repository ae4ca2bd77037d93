"""Tools, their calls and results, and thinking, as a suite has them in our own form."""

from collections.abc import Iterable
from itertools import takewhile
from typing import Any, Literal

from multiturn.documents.node import Node, with_keys
from multiturn.documents.validation import check_finite, read_as
from multiturn.errors import MultiturnError, cut, did_you_mean, nearest, quoted
from multiturn.model.case import TestMessage
from multiturn.model.turns import Call, Thinking, Tool, unpaired
from multiturn.suites.keys import KeyCheck, members_at, value_at
from multiturn.suites.messages import WrittenMessage
from multiturn.suites.schema import CallKeys, HiddenKeys, ThinkingKeys, ToolKeys
from multiturn.text import in_line

MAX_NAMED = 20  # tools that an error lists
_BLOCKS = ("thinking", "redacted_thinking")
_SCHEMA_NAMES = ("input_schema", "inputSchema")  # what Anthropic and MCP call parameters
_Type = Literal["array", "boolean", "integer", "null", "number", "object", "string"]
_PLAIN: dict[str, Any] = {"type": _Type | list[_Type], "required": list[str], "enum": list[Any]}
_SCHEMAS = ("additionalProperties", "items", "not")  # each is a schema
_OF_SCHEMAS = {  # of the others, each value or item is one
    **_PLAIN,
    **dict.fromkeys(("properties", "$defs", "definitions", "patternProperties"), dict[str, Any]),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), list[Any]),
    **dict.fromkeys(_SCHEMAS, bool | dict[str, Any] | list[Any]),
}


def is_thinking(segment: Node) -> bool:
    """Return whether a segment of a content is a block of thinking."""
    return value_at(segment.members, "type") in _BLOCKS


def read_calls(message: WrittenMessage, check: KeyCheck) -> tuple[Call, ...]:
    """Return the calls of a message, whose shape has been checked."""
    listed = message.children.get("tool_calls")
    if listed is None or not listed.children:
        return ()
    if message.children["role"].scalar != "assistant":
        what = "only the assistant calls tools; write tool_calls in a message of its role"
        raise MultiturnError(what, where=listed.key_place(check.name, message.label))
    return tuple(
        _call(call, check, message.call_label(at)) for at, call in enumerate(listed.children)
    )


def read_answers(message: WrittenMessage, check: KeyCheck) -> tuple[str | None, bool]:
    """Return the id of the call that a message answers, if it does, and whether the call failed."""
    answers, is_error = message.children.get("tool_call_id"), message.children.get("is_error")
    if answers is not None and answers.value is not None:
        if message.children["role"].scalar != "tool":
            what = "a result has the role tool; write role: tool, or leave tool_call_id out"
            raise MultiturnError(what, where=answers.key_place(check.name, message.label))
        check_name(answers, "tool_call_id", check.name, message.label)
        return answers.value, is_error is not None and is_error.value is True
    if is_error is not None and is_error.value:
        what = "is_error is of the result of a call; add its tool_call_id"
        raise MultiturnError(what, where=is_error.key_place(check.name, message.label))
    return None, False


def leading_thinking(message: WrittenMessage, check: KeyCheck) -> tuple[Thinking, ...]:
    """Return the blocks of thinking that a message's content begins with."""
    role, thinking = message.children["role"].scalar, takewhile(is_thinking, message.segments)
    blocks = enumerate(thinking)
    return tuple([_block(each, role, check, message.segment_label(at)) for at, each in blocks])


def check_calls(
    messages: tuple[TestMessage, ...],
    nodes: list[WrittenMessage],
    tools: tuple[Tool, ...],
    name: str,
) -> None:
    """Refuse a call without result, unless it is last, a result without call, and unknown tools."""
    index, call_id, wrong = unpaired(messages)
    if index >= 0:
        written = nodes[index].children
        place = written.get("tool_call_id", nodes[index])
        for call in written["tool_calls"].children if messages[index].calls else ():
            if call.children["id"].scalar == call_id:
                place = call.children["id"]
        what = f"the call {quoted(call_id)} {wrong}"
        raise MultiturnError(what, where=place.place(name, nodes[index].label))
    names = dict.fromkeys(tool.name for tool in tools)
    for message, node in zip(messages, nodes, strict=True):
        for at, call in enumerate(message.calls if names else ()):
            if call.name not in names:
                what = no_tool(call.name, names)
                written = node.children["tool_calls"].children[at].children["name"]
                raise MultiturnError(what, where=written.place(name, node.call_label(at)))


def no_tool(name: str, names: Iterable[str]) -> str:
    """Return what is wrong with the name of a tool that is not there."""
    known = [cut(each) for each in names]
    near = nearest(name, known)
    few = [near] if near else known[:MAX_NAMED]
    return f"there is no tool {quoted(name)}; {did_you_mean(name, few)}"


def check_name(written: Node, key: str, name: str, label: str) -> None:
    """Refuse an id or a name that is blank, or that a transcript cannot show in a line."""
    text, what = written.value, "is blank; write it"
    if text.strip():
        if in_line(text) == text and "\t" not in text:
            return
        what = "has a line break or a character that nobody sees; remove it"
    raise MultiturnError(f"{key} {what}", where=written.place(name, label))


def _call(call: Node, check: KeyCheck, label: str) -> Call:
    check.check(call, "call", label=label)
    keys = read_as(call, CallKeys, where=check.name, label=label)
    for key in ("id", "name"):
        check_name(call.children[key], key, check.name, label)
    if keys.arguments:
        check_finite(call.children["arguments"], "arguments", check.name, label)
    return Call(
        keys.id, keys.name, keys.arguments or {}, keys.thought_signature or "", line=call.line
    )


def _block(block: Node, role: str, check: KeyCheck, label: str) -> Thinking:
    kind = block.children["type"].scalar
    if role != "assistant":
        what = f"only the assistant thinks; leave {kind} out, or write it as text"
        raise MultiturnError(what, where=block.place(check.name, label))
    check.check(block, kind, "block", label=label)
    if kind == "redacted_thinking":
        hidden = read_as(block, HiddenKeys, where=check.name, label=label)
        return Thinking("", hidden.signature or "", hidden.data, hidden.vendor, block.line)
    keys = read_as(block, ThinkingKeys, where=check.name, label=label)
    if keys.data and keys.vendor != "openai":
        what = "data beside the text is of OpenAI's models; write vendor: openai, or leave it out"
        raise MultiturnError(what, where=block.children["data"].key_place(check.name, label))
    signature, data = keys.signature or "", keys.data or ""
    return Thinking(keys.thinking, signature, data, keys.vendor, block.line)


def read_tools(owner: Node, check: KeyCheck, label: str) -> tuple[Tool, ...] | None:
    """Return the tools of a suite or a case; None if it says nothing of them."""
    listed = owner.children.get("tools")
    if listed is None or listed.value is None:
        return None
    found: dict[str, Tool] = {}
    for at, node in enumerate(listed.children):
        inner = f"{label}: tools[{at}]".removeprefix(": ")
        tool = _tool(node, check, inner)
        if tool.name in found:
            what = f"there are two tools {quoted(tool.name)}; keep one of them"
            raise MultiturnError(what, where=node.place(check.name, inner))
        found[tool.name] = tool
    return tuple(found.values())


def check_choice(
    choice: Any, case: Node, tools: tuple[Tool, ...], check: KeyCheck, label: str
) -> None:
    """Refuse a ``tool_choice`` of a case, or of its suite, that names a tool which is not given."""
    if not isinstance(choice, dict):
        return
    names = [tool.name for tool in tools]
    if choice["name"] not in names:
        place = members_at(case.children, "execution").get("tool_choice", case)
        what = f"tool_choice: {no_tool(choice['name'], names)}"
        raise MultiturnError(what, where=place.place(check.name, label))


def _tool(node: Node, check: KeyCheck, label: str) -> Tool:
    if isinstance(node.value, dict):
        check.check(node, "tool", label=label)
        node, label = _as_ours(node, check, label)
    keys = read_as(node, ToolKeys, where=check.name, label=label)
    check_name(node.children["name"], "name", check.name, label)
    if keys.parameters is not None:
        parameters = node.children["parameters"]
        if keys.parameters and keys.parameters.get("type") != "object":
            what = "parameters are a JSON Schema of an object; write type: object"
            raise MultiturnError(what, where=parameters.place(check.name, label))
        _check_schema(parameters, "parameters", check.name, label)
        check_finite(parameters, "parameters", check.name, label)
    return Tool(keys.name, keys.description or "", keys.parameters or {}, keys.strict, node.line)


def _as_ours(node: Node, check: KeyCheck, label: str) -> tuple[Node, str]:
    """Return a tool as OpenAI, Anthropic or MCP writes it in our form, and what errors call it."""
    keys = dict(node.children)
    kind = keys.pop("type", None)
    if kind is not None and kind.value not in ("function", "custom", None):
        what = (
            f"tools of type {quoted(str(kind.value))} are the vendor's own; only functions are read"
        )
        raise MultiturnError(what, where=kind.place(check.name, label))
    function = keys.pop("function", None)
    if function is not None:
        both = [key for key in ("name", "description", "parameters", *_SCHEMA_NAMES) if key in keys]
        if both:
            raise check.both(both[0], "function", keys[both[0]], label)
        label = f"{label}.function"
        if isinstance(function.children, dict):
            check.check(function, "tool", label=label)
        return function, label
    for name in _SCHEMA_NAMES:
        if (schema := keys.pop(name, None)) is not None:
            if "parameters" in keys:
                raise check.both("parameters", name, schema, label)
            keys["parameters"] = schema
    return with_keys(node, keys), label


def _check_schema(node: Node, key: str, name: str, label: str) -> None:
    """Refuse what no JSON Schema has; a key that is not known here is left to the vendor."""
    _check_is(bool | dict[str, Any], node, key, name, label)
    keys = node.members
    for each in keys.keys() & _OF_SCHEMAS.keys():
        path, value = f"{key}.{each}", keys[each]
        _check_is(_OF_SCHEMAS[each], value, path, name, label)
        if each in _SCHEMAS:
            if not isinstance(value.children, list):  # of items: the form of old drafts
                _check_schema(value, path, name, label)
        elif isinstance(value.children, dict):
            for step, child in value.children.items():
                _check_schema(child, f"{path}.{step}", name, label)
        elif each not in _PLAIN:
            for at, child in enumerate(value.children):
                _check_schema(child, f"{path}[{at}]", name, label)


def _check_is(type_: Any, node: Node, key: str, name: str, label: str) -> None:
    read_as(node, type_, where=name, label=label, called=lambda path: f"{key}{path}")
