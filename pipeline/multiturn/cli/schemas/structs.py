"""JSON Schemas of structs, by msgspec, in the form that editors get most from."""

from typing import Any

import msgspec
from msgspec import Struct

Schema = dict[str, Any]
DRAFT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def object_schema(properties: Schema) -> Schema:
    """Return the schema of a mapping, without other keys."""
    return {"type": "object", "properties": properties, "additionalProperties": False}


def struct_schema(type_: type[Struct]) -> Schema:
    """Return the schema of a struct, without other keys."""
    _, found = msgspec.json.schema_components([type_], ref_template="#/$defs/{name}")
    schema = merged(found[type_.__name__])
    return {**object_schema(schema["properties"]), "required": schema["required"]}


def line_schema(command: str, type_: type[Struct]) -> Schema:
    """Return the schema of the struct that a command prints as a line of JSON."""
    (schema,), found = msgspec.json.schema_components([type_], ref_template="#/$defs/{name}")
    return {**DRAFT, "title": f"A line of multiturn {command}", **schema, "$defs": found}


def merged(schema: Any) -> Any:
    """Return a schema with alternatives of different types as one.

    An editor can then name the error inside a value, and not only that no alternative fits.

    >>> merged({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]})
    {'type': ['array', 'null'], 'items': {'type': 'string'}}
    """
    if isinstance(schema, list):
        return [merged(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: merged(value) for key, value in schema.items() if value is not None}
    types = [kind.get("type") for kind in schema.get("anyOf", ())]
    if types and all(isinstance(type_, str) and types.count(type_) == 1 for type_ in types):
        for kind in schema.pop("anyOf"):
            schema = {"type": types, **schema, **kind}
        schema["type"] = types
    return schema
