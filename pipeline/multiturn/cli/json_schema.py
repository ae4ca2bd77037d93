"""JSON Schemas for editors, made of the models by which suites, pipelines and targets are read."""

import inspect
import re
from typing import Any

import msgspec
from msgspec import Struct

from multiturn.cli.text_schema import in_text
from multiturn.pipelines.contract import Stage, options_of, summary_of
from multiturn.pipelines.loading import EDITS, INSERT_KEYS, KEYS, pipeline_names
from multiturn.pipelines.registry import find_stage, installed_stages, stage_names
from multiturn.providers.base import Settings
from multiturn.providers.targets import ALIASES, DEFAULT, KINDS
from multiturn.suites import schema as models
from multiturn.turns import ROLES

Schema = dict[str, Any]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DEFINITION = "#/$defs/{name}"
_IMPORT_PATH = r"^[^\s:]+:[^\s:]+$"


def suite_schema() -> Schema:
    """Return the schema of a suite, or of one case with its messages at the top."""
    suite, case = _keys(models.SuiteKeys), _keys(models.CaseKeys)
    message, segment = _keys(models.MessageKeys), _keys(models.SegmentKeys)
    metadata, execution = _keys(models.MetadataKeys), _keys(models.ExecutionKeys)
    # A mapping with a type is a segment; any other is structured content, with any value.
    value = segment["properties"]["value"]
    any_value = {"description": value.pop("description")}
    may_be_segment = {
        "properties": {**segment["properties"], "value": any_value},
        "if": {"required": ["type"]},
        "then": {"required": ["value"], "properties": {"value": value}},
    }
    message["properties"]["role"]["enum"] = list(ROLES)
    content = message["properties"]["content"]
    content |= may_be_segment
    content["items"] |= may_be_segment
    own, other = "systemPrompt", "system_prompt"  # one thing, by either name
    one_prompt = {
        "if": {"required": [own], "properties": {own: {"type": "string"}}},
        "then": {"properties": {other: {"type": "null"}}},
    }
    for keys in (suite["properties"], case["properties"]):
        keys["metadata"] |= {"properties": metadata["properties"], **one_prompt}
        keys["execution"] |= {"properties": execution["properties"], "additionalProperties": False}
    messages = case["properties"]["input_messages"]
    messages |= {"minItems": 1, "items": {"$ref": "#/$defs/message"}}
    case_id = case["properties"]["id"]
    case_id |= {"type": ["string", "number", "boolean"], "pattern": r"\S"}
    cases = suite["properties"]["evalcases"]
    optional = {
        "id": {**case_id, "type": [*case_id["type"], "null"]},
        "evalcases": {**cases, "type": "null", "doNotSuggest": True},
    }
    bare = {**case, "properties": {**suite["properties"], **case["properties"], **optional}}
    case["required"] = ["id", "input_messages"]
    suite["required"] = ["evalcases"]
    cases |= {"type": "array", "items": {"$ref": "#/$defs/case"}}
    return {
        "$schema": _DIALECT,
        "title": "A suite of multiturn",
        "properties": {"input_messages": {"description": messages["description"]}},
        "if": {"type": "object", "required": ["input_messages"]},
        "then": {"$ref": "#/$defs/bare_case"},
        "else": {"$ref": "#/$defs/suite"},
        "$defs": {"suite": suite, "bare_case": bare, "case": case, "message": message},
    }


def pipeline_schema() -> Schema:
    """Return the schema of a pipeline file, with the stages that are here and their options.

    Raises:
        MultiturnError: the stage of an installed package cannot be imported.
    """
    names = list(dict.fromkeys([*stage_names(), *sorted(installed_stages())]))
    stages = {name: find_stage(name) for name in names}
    options, definitions = _options(stages)
    refs = {name: {"$ref": f"#/$defs/options_of_{name}"} for name in names}
    any_stage = {"$ref": "#/$defs/stage"}
    any_options = {"type": ["object", "null"], "description": "the options of the stage"}
    a_stage = {
        "if": {"type": "object"},
        "then": {
            "minProperties": 1,
            "maxProperties": 1,
            **_object({name: {**ref, "type": ["object", "null"]} for name, ref in refs.items()}),
            "patternProperties": {_IMPORT_PATH: any_options},
        },
        "else": {
            "anyOf": [
                {"enum": names, "enumDescriptions": [*map(summary_of, stages.values())]},
                {"type": "string", "pattern": _IMPORT_PATH},
            ]
        },
    }
    # A stage of one's own may have any name, and be in the pipeline that this one extends.
    a_name = {"anyOf": [{"enum": names}, {"type": "string"}]}
    some = {"type": "array", "minItems": 1}
    values: dict[str, Schema] = {
        "stages": {**some, "items": any_stage},
        "extends": {"anyOf": [{"enum": pipeline_names()}, {"type": "string"}]},
        "replace": {
            "type": "object",
            "properties": dict.fromkeys(names, any_stage),
            "additionalProperties": any_stage,
        },
        "configure": {"type": "object", "additionalProperties": {"type": "object"}},
        "insert": {**some, "items": {"$ref": "#/$defs/inserted"}},
        "remove": {**some, "items": a_name},
    }
    where = {"anyOf": [a_name, {"type": "null"}]}
    places: dict[str, Schema] = {"stage": any_stage, "after": where, "before": where}
    inserted = {
        **_object({key: {"description": INSERT_KEYS[key], **places[key]} for key in places}),
        "required": ["stage"],
        "oneOf": [
            {"required": [key], "properties": {key: {"type": "string"}}}
            for key in ("after", "before")
        ],
    }
    typed = {name: {**ref, "type": "object"} for name, ref in refs.items()}
    return {
        "$schema": _DIALECT,
        "title": "A pipeline of multiturn",
        **_object({key: {"description": KEYS[key], **values[key]} for key in KEYS}),
        "if": {"required": ["extends"]},
        "then": {
            "properties": {"stages": False},
            # It is known which stages a shipped pipeline has, and so what they take.
            "if": {
                "properties": {"extends": {"enum": pipeline_names()}},
                "not": {"required": ["replace"]},
            },
            "then": {"properties": {"configure": _object(typed)}},
        },
        "else": {"required": ["stages"], "properties": dict.fromkeys(EDITS, False)},
        "$defs": {"stage": a_stage, "inserted": inserted, **options, **definitions},
    }


def targets_schema() -> Schema:
    """Return the schema of a targets file."""
    definitions, choices = {}, []
    for name, kind in KINDS.items():
        keys = _keys(kind.settings)
        for key, default in kind.defaults.items():
            keys["properties"][key]["default"] = default
        keys["properties"] = {key: in_text(value) for key, value in keys["properties"].items()}
        definitions[name] = keys
        names = [name, *(alias for alias, meant in ALIASES.items() if meant == name)]
        choices.append(
            {
                "if": {"required": ["provider"], "properties": {"provider": {"enum": names}}},
                "then": {"$ref": f"#/$defs/{name}"},
            }
        )
    common = _keys(Settings)["properties"]
    target = {
        "type": "object",
        "properties": {
            "name": {**in_text(common["name"]), "not": {"const": DEFAULT}},
            "provider": in_text(
                {"description": common["provider"]["description"], "enum": [*KINDS, *ALIASES]}
            ),
        },
        "required": ["name", "provider"],
        "allOf": choices,
    }
    targets = {"type": "array", "items": {"$ref": "#/$defs/target"}}
    return {
        "$schema": _DIALECT,
        "title": "Targets of multiturn",
        **targets,
        "type": ["object", "array"],
        "properties": {"targets": {"description": "the targets", **targets}},
        "required": ["targets"],
        "$defs": {"target": target, **definitions},
    }


SCHEMAS = {"suite": suite_schema, "pipeline": pipeline_schema, "targets": targets_schema}


def _object(properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _keys(type_: type[Struct]) -> Schema:
    """Return the schema of a struct; what docstrings say of its keys describes them."""
    texts: dict[str, str] = {}
    for base in reversed(type_.__mro__):
        texts |= _described(base.__doc__, "Attributes")
    _, found = msgspec.json.schema_components([type_], ref_template=_DEFINITION)
    schema = _merged(found[type_.__name__])
    names = dict(zip(type_.__struct_encode_fields__, type_.__struct_fields__, strict=True))
    properties = {
        key: {"description": texts.get(names[key], ""), **value}
        for key, value in schema["properties"].items()
    }
    return {**_object(properties), "required": schema["required"]}


def _options(stages: dict[str, Stage]) -> tuple[Schema, Schema]:
    """Return the schema of each stage's options, and the definitions that they refer to."""
    types = [option.type for stage in stages.values() for option in options_of(stage).values()]
    found, definitions = msgspec.json.schema_components(
        types, schema_hook=lambda type_: {"title": type_.__name__}, ref_template=_DEFINITION
    )
    schemas = iter(found)
    options = {}
    for name, stage in stages.items():
        texts = _described(stage.__doc__, "Args")
        properties = {}
        for key, option in options_of(stage).items():
            properties[key] = {"description": texts.get(key, ""), **_merged(next(schemas))}
            if option.default not in (None, inspect.Parameter.empty):
                default = msgspec.json.encode(option.default, enc_hook=repr)
                properties[key]["default"] = msgspec.json.decode(default)
        options[f"options_of_{name}"] = {"description": summary_of(stage), **_object(properties)}
        del options[f"options_of_{name}"]["type"]  # a mapping, or one that may be left out
    return options, definitions


def _described(docstring: str | None, heading: str) -> dict[str, str]:
    r"""Return what a section of a docstring says of each name.

    >>> _described("Cut.\n\nArgs:\n    size: of a piece;\n        ``0`` for none.", "Args")
    {'size': 'of a piece; `0` for none.'}
    """
    text = inspect.cleandoc(docstring or "") + "\n"
    section = re.search(rf"^{heading}:\n((?: .*\n|\n)+)", text, re.MULTILINE)
    written = section[1] if section else ""
    entries = re.findall(r"^    (\w+): (.*(?:\n {5}.*)*)", written, re.MULTILINE)
    return {name: " ".join(said.split()).replace("``", "`") for name, said in entries}


def _merged(schema: Any) -> Any:
    """Return a schema with alternatives of different types as one.

    Where one is wrong, a validator then says what is wrong inside it, and not that none fits.

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
