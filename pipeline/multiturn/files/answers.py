"""The form that an answer must have: text, JSON, or a JSON Schema, which may be in a file."""

from typing import Any

from msgspec import Struct

from multiturn.documents.json_lines import read_value
from multiturn.documents.node import Node
from multiturn.documents.validation import read_as
from multiturn.errors import InputError, MultiturnError
from multiturn.files.finding import Files
from multiturn.model.settings import JsonSchema

LARGEST_SCHEMA = 1_048_576  # of a file with a JSON Schema


class _FormatKeys(Struct):
    """The keys of a JSON Schema that answers must follow.

    Attributes:
        schema: the JSON Schema, or the path of a file with one.
        name: what the model is told that the answer is.
        description: what it is for.
        strict: whether the vendor must hold the model to it.
    """

    schema: Any
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


def read_format(node: Node, files: Files, name: str, label: str) -> str | JsonSchema:
    """Return the form that an answer must have, also as OpenAI's APIs write it."""
    kinds = {"text": "text", "json_object": "json"}
    kind = node.children.get("type")
    if kind is not None and kind.value in kinds:
        return kinds[kind.value]
    label = f"{label}.response_format"
    inner = node.children.get("json_schema", node)
    keys = read_as(inner, _FormatKeys, where=name, label=label)
    schema, path = keys.schema, ""
    if isinstance(schema, str):
        written, place = schema, inner.children["schema"].place(name, label)
        try:
            path = files.find(written)
            schema = read_value(files.read(path, LARGEST_SCHEMA, written=written))
        except MultiturnError as error:
            raise InputError(error.what, where=place) from None
        except ValueError as error:
            raise InputError(f"{written} is not JSON: {error}", where=place) from None
    if not isinstance(schema, dict):
        what = "schema must be a JSON Schema, as {type: object, …}, or the path of a file with one"
        raise InputError(what, where=inner.children["schema"].place(name, label))
    return JsonSchema(
        schema=schema,
        name=keys.name or "answer",
        description=keys.description or "",
        strict=keys.strict,
        path=path,
    )
