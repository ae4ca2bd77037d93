"""JSON Schemas for editors, from the structs by which suites, pipelines and targets are read."""

import inspect
import re
from typing import Any

import msgspec
from msgspec import Struct

from multiturn.pipelines.contract import options_of, summary_of
from multiturn.pipelines.pipeline_file import EDITS, Insertion, PipelineKeys, pipeline_names
from multiturn.pipelines.registry import find_stage, installed_stages, stage_names
from multiturn.providers.base import Settings
from multiturn.providers.targets import ALIASES, DEFAULT, KINDS, VARIABLE
from multiturn.suites import schema as keys
from multiturn.turns import ROLES

Schema = dict[str, Any]

_DIALECT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
_IMPORT_PATH = r"^[^\s:]+:[^\s:]+$"
_VARIABLES = rf"(?![\s\S]*(?!{VARIABLE.pattern})\$\{{\{{)"  # no other text begins as one does
_WRITTEN = {  # values that are not text, as text
    "number": r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?|[Ii]nf(inity)?",
    "integer": r"-?[0-9]+(\.0+)?([eE][-+]?[0-9]+)?",
    "boolean": "[Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee]|[01]",
    "null": "[Nn][Uu][Ll][Ll]",
}


def suite_schema() -> Schema:
    """Return the schema of a suite, or of one case with its messages at the top."""
    suite, case = _struct(keys.SuiteKeys), _struct(keys.CaseKeys)
    message, segment = _struct(keys.MessageKeys), _struct(keys.SegmentKeys)
    # A mapping with a type is a segment; any other is structured content, with any value.
    value = segment["properties"]["value"]
    any_value = {"description": value.pop("description")}
    may_be_segment = {
        "properties": {**segment["properties"], "value": any_value},
        "if": {"required": ["type"]},
        "then": {
            "required": ["value"],
            "properties": {"type": True, "value": value},
            "additionalProperties": False,
        },
    }
    message["properties"]["role"]["enum"] = list(ROLES)
    content = message["properties"]["content"]
    content |= may_be_segment
    content["items"] |= may_be_segment
    metadata = {  # the system prompt has two names; a suite uses one of them
        "properties": _struct(keys.MetadataKeys)["properties"],
        "if": {"required": ["systemPrompt"], "properties": {"systemPrompt": {"type": "string"}}},
        "then": {"properties": {"system_prompt": {"type": "null"}}},
    }
    execution = {**_struct(keys.ExecutionKeys)}
    del execution["type"], execution["required"]  # another type is for other tools
    for schema in (suite, case):
        schema["properties"]["metadata"] |= metadata
        schema["properties"]["execution"] |= execution
    case["properties"]["id"] |= {"type": ["string", "number", "boolean"], "pattern": r"\S"}
    case["properties"]["input_messages"]["minItems"] = 1
    case_id = {**case["properties"]["id"], "type": ["string", "number", "boolean", "null"]}
    cases = suite["properties"]["evalcases"]
    no_cases = {**cases, "type": "null", "doNotSuggest": True}
    both = {**suite["properties"], **case["properties"], "id": case_id, "evalcases": no_cases}
    cases |= {"type": "array", "items": {"$ref": "#/$defs/case"}}
    messages = case["properties"]["input_messages"]
    return {
        **_DIALECT,
        "title": "A suite of multiturn",
        "properties": {"input_messages": {"description": messages["description"]}},
        "if": {"type": "object", "required": ["input_messages"]},
        "then": {"$ref": "#/$defs/bare_case"},
        "else": {"$ref": "#/$defs/suite"},
        "$defs": {
            "suite": {**suite, "required": ["evalcases"]},
            "bare_case": {**case, "properties": both},
            "case": {**case, "required": ["id", "input_messages"]},
            "MessageKeys": message,
        },
    }


def pipeline_schema() -> Schema:
    """Return the schema of a pipeline file, with the stages that are here and their options.

    Raises:
        MultiturnError: the stage of an installed package cannot be imported.
    """
    names = list(dict.fromkeys([*stage_names(), *sorted(installed_stages())]))
    summaries = [summary_of(find_stage(name)) for name in names]
    options = {name: {"$ref": f"#/$defs/options_of_{name}"} for name in names}
    stage = {"$ref": "#/$defs/stage"}
    a_stage = {
        "if": {"type": "object"},
        "then": {
            "minProperties": 1,
            "maxProperties": 1,
            **_object({name: {**options[name], "type": ["object", "null"]} for name in names}),
            "patternProperties": {
                _IMPORT_PATH: {"type": ["object", "null"], "description": "the stage's options"}
            },
        },
        "else": {
            "anyOf": [
                {"enum": names, "enumDescriptions": summaries},
                {"type": "string", "pattern": _IMPORT_PATH},
            ]
        },
    }
    # Any text is allowed: the stage may be one of one's own, in a pipeline that this one extends.
    name = {"anyOf": [{"enum": names}, {"type": "string"}]}
    values: dict[str, Schema] = {
        "stages": {"type": "array", "minItems": 1, "items": stage},
        "extends": {"anyOf": [{"enum": pipeline_names()}, {"type": "string"}]},
        "replace": {**_object(dict.fromkeys(names, stage)), "additionalProperties": stage},
        "configure": {"type": "object", "additionalProperties": {"type": "object"}},
        "insert": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/inserted"}},
        "remove": {"type": "array", "minItems": 1, "items": name},
    }
    top, insertion = (_struct(each)["properties"] for each in (PipelineKeys, Insertion))
    place = {"anyOf": [name, {"type": "null"}]}
    places: dict[str, Schema] = {"stage": stage, "after": place, "before": place}
    places = {key: {"description": insertion[key]["description"], **places[key]} for key in places}
    one_place = [
        {"required": [key], "properties": {key: {"type": "string"}}} for key in ("after", "before")
    ]
    # The stages of a shipped pipeline are known, and with them the options to configure.
    of_shipped = _object({name: {**options[name], "type": "object"} for name in names})
    return {
        **_DIALECT,
        "title": "A pipeline of multiturn",
        **_object({key: {"description": top[key]["description"], **values[key]} for key in values}),
        "if": {"required": ["extends"]},
        "then": {
            "properties": {"stages": False},
            "if": {
                "properties": {"extends": {"enum": pipeline_names()}},
                "not": {"anyOf": [{"required": ["replace"]}, {"required": ["insert"]}]},
            },
            "then": {"properties": {"configure": of_shipped}},
        },
        "else": {"required": ["stages"], "properties": dict.fromkeys(EDITS, False)},
        "$defs": {
            "stage": a_stage,
            "inserted": {**_object(places), "required": ["stage"], "oneOf": one_place},
            **_stage_options(names),
        },
    }


def targets_schema() -> Schema:
    """Return the schema of a targets file."""
    kinds, choices = {}, []
    for name, kind in KINDS.items():
        kinds[name] = _struct(kind.settings)
        properties = kinds[name]["properties"]
        for key, default in kind.defaults.items():
            properties[key]["default"] = default
        kinds[name]["properties"] = {key: _in_text(each) for key, each in properties.items()}
        names = [name, *(alias for alias, meant in ALIASES.items() if meant == name)]
        chosen = {"required": ["provider"], "properties": {"provider": {"enum": names}}}
        choices.append({"if": chosen, "then": {"$ref": f"#/$defs/{name}"}})
    common = _struct(Settings)["properties"]
    provider = {**common["provider"], "enum": [*KINDS, *ALIASES]}
    target = {
        "type": "object",
        "properties": {
            "name": {**_in_text(common["name"]), "not": {"const": DEFAULT}},
            "provider": _in_text(provider),
        },
        "required": ["name", "provider"],
        "allOf": choices,
    }
    targets = {"type": "array", "items": {"$ref": "#/$defs/target"}}
    return {
        **_DIALECT,
        "title": "Targets of multiturn",
        **targets,
        "type": ["object", "array"],
        "properties": {"targets": {"description": "the targets", **targets}},
        "required": ["targets"],
        "$defs": {"target": target, **kinds},
    }


SCHEMAS = {"suite": suite_schema, "pipeline": pipeline_schema, "targets": targets_schema}


def _object(properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _struct(type_: type[Struct]) -> Schema:
    """Return the schema of a struct, without other keys."""
    _, found = msgspec.json.schema_components([type_], ref_template="#/$defs/{name}")
    schema = _merged(found[type_.__name__])
    return {**_object(schema["properties"]), "required": schema["required"]}


def _stage_options(names: list[str]) -> Schema:
    """Return the schema of each stage's options, and the definitions that they refer to."""
    options = {name: options_of(find_stage(name)) for name in names}
    found, definitions = msgspec.json.schema_components(
        [option.type for each in options.values() for option in each.values()],
        schema_hook=lambda type_: {"title": type_.__name__},
        ref_template="#/$defs/{name}",
    )
    schemas = map(_merged, found)
    for name in names:
        stage = find_stage(name)
        described = _described(stage.__doc__)
        properties = {}
        for key, option in options[name].items():
            properties[key] = {"description": described.get(key, ""), **next(schemas)}
            if option.default not in (None, inspect.Parameter.empty):
                properties[key]["default"] = msgspec.to_builtins(option.default, enc_hook=repr)
        schema = {"description": summary_of(stage), **_object(properties)}
        del schema["type"]  # a mapping, or null where the options may be left out
        definitions[f"options_of_{name}"] = schema
    return definitions


def _described(docstring: str | None) -> dict[str, str]:
    r"""Return what the section ``Args`` of a docstring says of each name.

    >>> _described("Cut.\n\nArgs:\n    size: of a piece;\n        ``0`` for none.")
    {'size': 'of a piece; `0` for none.'}
    """
    section = inspect.cleandoc(docstring or "").partition("\nArgs:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^    (\w+): (.*(?:\n {5}.*)*)", section, re.MULTILINE)
    return {name: " ".join(said.split()).replace("``", "`") for name, said in entries}


def _merged(schema: Any) -> Any:
    """Return a schema with alternatives of different types as one.

    An editor can then name the error inside a value, and not only that no alternative fits.

    >>> _merged({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]})
    {'type': ['array', 'null'], 'items': {'type': 'string'}}
    """
    if isinstance(schema, list):
        return [_merged(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: _merged(value) for key, value in schema.items() if value is not None}
    types = [kind.get("type") for kind in schema.get("anyOf", ())]
    if types and all(isinstance(type_, str) and types.count(type_) == 1 for type_ in types):
        for kind in schema.pop("anyOf"):
            schema = {"type": types, **schema, **kind}
        schema["type"] = types
    return schema


def _in_text(schema: Schema) -> Schema:
    """Return the schema of a target's value: what its provider takes, or text with variables."""
    schema = dict(schema)
    if "anyOf" in schema:
        return {**schema, "anyOf": [_in_text(choice) for choice in schema["anyOf"]]}
    if "enum" in schema:
        filled = {"type": "string", "pattern": rf"^{_VARIABLES}[\s\S]*\$\{{\{{"}
        return {"anyOf": [{"enum": schema.pop("enum")}, filled], **schema}
    for key in ("items", "additionalProperties"):
        if key in schema:
            schema[key] = _in_text(schema[key])
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if "string" in types:
        some = r"[\s\S]*\S" if "pattern" in schema else ""
        schema |= {
            "type": [*types, "number", "boolean"],
            "pattern": f"^{_VARIABLES}{some}",
            "patternErrorMessage": "a variable is written as ${{ NAME }}",
        }
    elif types[0] in _WRITTEN:
        written = "|".join(_WRITTEN[type_] for type_ in types)
        if "exclusiveMinimum" in schema or "minimum" in schema:
            above_zero = "" if schema.get("minimum") == 0 else "(?=[^eE]*[1-9]|[INin])"
            written = f"(?!-){above_zero}(?:{written})"
        schema |= {
            "type": [*types, "string"],
            "pattern": rf"^{_VARIABLES}(?:(?:{written})$|[\s\S]*\$\{{\{{)",
            "patternErrorMessage": f"must be of type {types[0]}, or a variable: ${{{{ NAME }}}}",
        }
        if "boolean" in types:
            schema |= {"type": [*schema["type"], "integer"], "minimum": 0, "maximum": 1}
    return schema
