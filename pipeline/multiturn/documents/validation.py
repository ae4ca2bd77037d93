"""Nodes to structs: msgspec checks the shape, and what it finds is said with its place."""

import json
import re
import types
import typing
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from multiturn.documents.node import Node
from multiturn.errors import InputError, MultiturnError, cut, did_you_mean, nearest

_T = TypeVar("_T")

_WORDS = {
    "str": "text",
    "array": "a list",
    "object": "a mapping",
    "int": "a number",
    "float": "a number",
    "bool": "a boolean",
    "null": "null",
}
LARGEST_NUMBER = 1e300  # a limit for numbers that must be finite
_STEP = r"\.([^.\[]+)|\[(\d+)\]"


def read_as(
    node: Node,
    type_: type[_T],
    *,
    where: str,
    label: str = "",
    strict: bool = True,
    called: Callable[[str], str] = str,
    filled: Any = None,
) -> _T:
    """Read a node as a type; the first value that does not fit is an error with its place.

    Args:
        type_: a struct that says what keys there are, or a list or mapping of such.
        where: what errors call the document.
        label: what errors call the node, such as ``case 'x'``.
        strict: text is not a number; otherwise it is read as one where a number is wanted.
        called: returns what errors call a path below the node, such as ``a[0].b``.
        filled: the value to read in place of the node's own.
    """
    try:
        return msgspec.convert(node.value if filled is None else filled, type_, strict=strict)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `$")
    path = path.rstrip("`").partition("[...]")[0]
    for match in re.finditer(_STEP, path):
        node = node.children[match[1] if match[1] else int(match[2])]
    key, place = called(path.lstrip(".")), node.place(where, label)
    if not what.startswith("Object missing"):
        raise InputError(_reword(what, key, node, type_), where=place)
    (missing,) = re.findall("`(.*?)`", what)
    known, advice = _keys_at(type_, path), "; add it"
    near = nearest(missing, [name for name in node.members if name not in known])
    if near is not None:
        place = node.children[near].key_place(where, label)
        advice = f', but "{cut(near)}"; {did_you_mean(near, [missing])}'
    message = f"{key} has no {missing!r}" if key else f"there is no {missing!r}"
    raise InputError(message + advice, where=place)


def _keys_at(type_: Any, path: str) -> tuple[str, ...]:
    """Return the keys of the struct at a path in another, through lists of them."""
    for key, _ in re.findall(_STEP, path):
        type_ = typing.get_type_hints(type_)[key] if key else typing.get_args(type_)[0]
        if isinstance(type_, types.UnionType) or typing.get_origin(type_) is typing.Union:
            # The list or the struct among others that have no keys, such as None or words.
            type_ = next(
                each
                for each in typing.get_args(type_)
                if typing.get_origin(each) is list or hasattr(each, "__struct_encode_fields__")
            )
    names: tuple[str, ...] = type_.__struct_encode_fields__
    return names


def choices_of(type_: Any) -> list[str]:
    """Return the words that a type takes: those of a ``Literal``, and of a boolean."""
    if type_ is bool:
        return ["true", "false"]
    return [
        word
        for item in typing.get_args(type_)
        for word in ([item] if isinstance(item, str) else choices_of(item))
    ]


def _reword(what: str, key: str, node: Node, type_: Any) -> str:
    names = re.findall("`(.*?)`", what)
    if what.startswith("Object contains unknown"):
        known = _keys_at(type_, f".{key}")
        return f'unknown key "{cut(names[0])}"; {did_you_mean(names[0], known)}'
    if what.startswith("Invalid enum value"):
        hints = typing.get_type_hints(type_) if isinstance(type_, type) else {}
        choices = [*dict.fromkeys(choices_of(hints.get(key, type_)))]
        if choices == ["omit"]:
            return f"{key} must be a number or omit"
        given = cut(what.removeprefix("Invalid enum value "))
        return f"there is no {key} {given}; {did_you_mean('', choices)}"
    if what == "Number out of range" or what.endswith(f" <= {LARGEST_NUMBER}"):
        return f"{key} must be a finite number"
    bound = re.fullmatch(r"Expected `\w+` ([<>]=?) (\S+?)(?:\.0)?", what)
    if bound:
        forms = {">": "more than {}", ">=": "{} or more", "<": "less than {}", "<=": "{} or less"}
        return f"{key} must be {forms[bound[1]].format(bound[2])}"
    if len(names) != 2:
        return f"{key}: {what}" if key else what
    expected, got = names
    message = f"{key or 'this'} {must_be(expected, got)}"
    if node.source is None or "str" not in expected:
        return message
    if got == "null" and not key.endswith("]"):
        return f'{message}; write a text ("" is an empty one)'
    name = "" if key.endswith("]") else f"{key.rpartition('.')[2]}: "
    return f'{message}; quote it: {name}"{node.source}"'


def must_be(expected: str, got: str) -> str:
    """Return the types of an error of msgspec in words; those of a stage's options may be any.

    >>> must_be("str | null", "int"), must_be("date", "str")
    ('must be text, not a number', 'must be a date, not text')
    """
    types = _WORDS
    if got == "float" and "int" in expected:
        types = {**_WORDS, "int": "a whole number", "float": "a fraction"}
    words = [types.get(name, f"a {name}") for name in expected.split(" | ") if name != "null"]
    wanted = f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
    return f"must be {wanted}, not {types.get(got, f'a {got}')}"


def check_finite(written: Node, key: str, name: str, label: str) -> None:
    """Refuse ``.inf`` and ``.nan``, which JSON does not have."""
    try:
        json.dumps(written.value, allow_nan=False)
    except ValueError:
        what = f"{key}: a number in it is not finite, and JSON cannot hold it; quote it"
        raise MultiturnError(what, where=written.place(name, label)) from None
