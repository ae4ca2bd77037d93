"""The tools that a suite or a case gives to a model."""

from typing import Any

from multiturn.documents.node import Node, with_keys
from multiturn.documents.validation import read_as
from multiturn.errors import MultiturnError, did_you_mean, quoted
from multiturn.model.turns import Tool
from multiturn.suites.calls import check_finite, check_name, no_tool
from multiturn.suites.keys import KeyCheck
from multiturn.suites.schema import ToolKeys

_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_OF_NAMES = ("properties", "$defs", "definitions", "patternProperties")  # each value is a schema
_OF_SCHEMAS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SCHEMAS = ("additionalProperties", "items", "not")


def read_tools(owner: Node, check: KeyCheck, label: str = "") -> tuple[Tool, ...] | None:
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
        execution = case.children.get("execution")
        own = execution.children if execution is not None else None
        place = own["tool_choice"] if own and "tool_choice" in own else case
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
    """Return a tool as OpenAI or Anthropic writes it in our form, and what errors call it."""
    keys = dict(node.children)
    kind = keys.pop("type", None)
    if kind is not None and kind.value not in ("function", "custom", None):
        what = (
            f"tools of type {quoted(str(kind.value))} are the vendor's own; only functions are read"
        )
        raise MultiturnError(what, where=kind.place(check.name, label))
    function = keys.pop("function", None)
    if function is not None:
        both = [key for key in ("name", "description", "parameters", "input_schema") if key in keys]
        if both:
            raise check.both(both[0], "function", keys[both[0]], label)
        label = f"{label}.function"
        if isinstance(function.children, dict):
            check.check(function, "tool", label=label)
        return function, label
    schema = keys.pop("input_schema", None)
    if schema is not None:
        if "parameters" in keys:
            raise check.both("parameters", "input_schema", schema, label)
        keys["parameters"] = schema
    return with_keys(node, keys), label


def _check_schema(node: Node, key: str, name: str, label: str) -> None:
    """Refuse what no JSON Schema has; a key that is not known here is left to the vendor."""
    if isinstance(node.value, bool):
        return
    if not isinstance(node.value, dict):
        what = f"{key} must be a JSON Schema, as {{type: string}}"
        raise MultiturnError(what, where=node.place(name, label))
    keys: dict[str, Node] = node.children
    if "type" in keys:
        _check_type(keys["type"], f"{key}.type", name, label)
    if "required" in keys and not _are_names(keys["required"].value):
        what = f"{key}.required must be a list of names"
        raise MultiturnError(what, where=keys["required"].place(name, label))
    if "enum" in keys and not isinstance(keys["enum"].value, list):
        what = f"{key}.enum must be a list of values"
        raise MultiturnError(what, where=keys["enum"].place(name, label))
    for each in keys.keys() & {*_OF_NAMES, *_OF_SCHEMAS}:
        below = keys[each].children
        is_right = isinstance(below, dict if each in _OF_NAMES else list)
        if not is_right:
            wanted = "a mapping of JSON Schemas" if each in _OF_NAMES else "a list of JSON Schemas"
            where = keys[each].place(name, label)
            raise MultiturnError(f"{key}.{each} must be {wanted}", where=where)
        named = below.items() if isinstance(below, dict) else enumerate(below)
        for step, child in named:
            path = f"{key}.{each}.{step}" if isinstance(step, str) else f"{key}.{each}[{step}]"
            _check_schema(child, path, name, label)
    for each in keys.keys() & {*_SCHEMAS}:
        if not isinstance(keys[each].value, list):  # of items: the form of old drafts
            _check_schema(keys[each], f"{key}.{each}", name, label)


def _check_type(node: Node, key: str, name: str, label: str) -> None:
    for each in node.children if isinstance(node.value, list) else [node]:
        if each.value not in _TYPES:
            written = each.source or each.value
            is_text = isinstance(written, str)
            advice = did_you_mean(written if is_text else "", _TYPES)
            advice = f'write "{written}" in quotes' if written in _TYPES else advice
            shown = quoted(written) if is_text else "of that kind"
            what = f"{key}: JSON Schema has no type {shown}; {advice}"
            raise MultiturnError(what, where=each.place(name, label))


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
