"""The JSON Schema of targets files."""

from multiturn.cli.schemas.structs import DRAFT, Schema, struct_schema
from multiturn.documents.imports import IMPORT_PATH
from multiturn.providers.base import Settings
from multiturn.providers.models import Row
from multiturn.providers.targets import ALIASES, DEFAULT, KINDS
from multiturn.providers.variables import VARIABLE

_WRITTEN = {  # values that are not text, as text
    "number": r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?|[Ii]nf(inity)?",
    "integer": r"-?[0-9]+(\.0+)?([eE][-+]?[0-9]+)?",
    "boolean": "[Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee]|[01]",
    "null": "[Nn][Uu][Ll][Ll]",
}


def targets_schema() -> Schema:
    """Return the schema of a targets file."""
    kinds, choices = {}, []
    for name, kind in KINDS.items():
        kinds[name] = struct_schema(kind.settings)
        properties = kinds[name]["properties"]
        kinds[name]["properties"] = {key: _in_text(each) for key, each in properties.items()}
        names = [name, *(alias for alias, meant in ALIASES.items() if meant == name)]
        chosen = {"required": ["provider"], "properties": {"provider": {"enum": names}}}
        choices.append({"if": chosen, "then": {"$ref": f"#/$defs/{name}"}})
    common = struct_schema(Settings)["properties"]
    provider = _in_text({**common["provider"], "enum": [*KINDS, *ALIASES]})
    provider["anyOf"].append({"type": "string", "pattern": IMPORT_PATH})
    target = {
        "type": "object",
        "properties": {
            "name": {**_in_text(common["name"]), "not": {"const": DEFAULT}},
            "provider": provider,
        },
        "required": ["name", "provider"],
        "allOf": choices,
    }
    targets = {"type": "array", "items": {"$ref": "#/$defs/target"}}
    models = {"type": "array", "items": struct_schema(Row)}
    return {
        **DRAFT,
        "title": "Targets of multiturn",
        **targets,
        "type": ["object", "array"],
        "properties": {
            "targets": {"description": "the targets", **targets},
            "models": {"description": "what is known of models, beside what ships", **models},
        },
        "required": ["targets"],
        "$defs": {"target": target, **kinds},
    }


def _in_text(schema: Schema) -> Schema:
    """Return the schema of a target's value: what its provider takes, or text with variables."""
    schema = dict(schema)
    if "anyOf" in schema:
        return {**schema, "anyOf": [_in_text(choice) for choice in schema["anyOf"]]}
    if "enum" in schema:
        filled = {"type": "string", "pattern": VARIABLE.pattern}
        return {"anyOf": [{"enum": schema.pop("enum")}, filled], **schema}
    for key in ("items", "additionalProperties"):
        if key in schema:
            schema[key] = _in_text(schema[key])
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if "string" in types:
        schema["type"] = [*types, "number", "boolean"]
    elif types[0] in _WRITTEN:
        written = "|".join(_WRITTEN[type_] for type_ in types)
        schema |= {
            "type": [*types, "string"],
            "pattern": rf"^({written})$|{VARIABLE.pattern}",
            "patternErrorMessage": f"must be of type {types[0]}, or a variable: ${{{{ NAME }}}}",
        }
        if "boolean" in types:
            schema |= {"type": [*schema["type"], "integer"], "minimum": 0, "maximum": 1}
    return schema
