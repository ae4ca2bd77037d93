"""The JSON Schema of pipeline files, with the stages that are here and their options."""

import inspect
import re

import msgspec

from multiturn.cli.schemas.structs import DRAFT, Schema, merged, object_schema, struct_schema
from multiturn.documents.imports import IMPORT_PATH
from multiturn.pipelines.contract import options_of, summary_of
from multiturn.pipelines.pipeline_file import pipeline_names
from multiturn.pipelines.registry import find_stage, installed_stages, stage_names
from multiturn.pipelines.schema import Insertion, PipelineKeys


def pipeline_schema() -> Schema:
    """Return the schema of a pipeline file, with the stages that are here and their options."""
    names = list(dict.fromkeys([*stage_names(), *sorted(installed_stages())]))
    options = {name: {"$ref": f"#/$defs/options_of_{name}"} for name in names}
    a_stage: Schema = {
        "if": {"type": "object"},
        "then": {
            "minProperties": 1,
            "maxProperties": 1,
            **object_schema({n: {**options[n], "type": ["object", "null"]} for n in names}),
            "patternProperties": {
                IMPORT_PATH: {"type": ["object", "null"], "description": "the stage's options"}
            },
        },
        "else": {
            "anyOf": [
                {"enum": names, "enumDescriptions": [summary_of(find_stage(n)) for n in names]},
                {"type": "string", "pattern": IMPORT_PATH},
            ]
        },
    }
    stage = {"$ref": "#/$defs/stage"}
    # Any text is allowed: the stage may be one of one's own, in a pipeline that this one extends.
    name = {"anyOf": [{"enum": names}, {"type": "string"}]}
    top, insertion = struct_schema(PipelineKeys), struct_schema(Insertion)
    for schema, values in (
        (insertion, {"stage": stage, "after": name, "before": name}),
        (
            top,
            {
                "stages": {"minItems": 1, "items": stage},
                "extends": {"anyOf": [{"enum": pipeline_names()}, {"type": "string"}]},
                "replace": {
                    "properties": dict.fromkeys(names, stage),
                    "additionalProperties": stage,
                },
                "configure": {"additionalProperties": {"type": "object"}},
                "insert": {"minItems": 1, "items": {"$ref": "#/$defs/inserted"}},
                "remove": {"minItems": 1, "items": name},
            },
        ),
    ):
        for key, value in values.items():
            schema["properties"][key] |= value
            schema["properties"][key].pop("default", None)  # editors would insert it
    # The stages of a shipped pipeline are known, and with them the options to configure.
    return {
        **DRAFT,
        "title": "A pipeline of multiturn",
        **top,
        "oneOf": [{"required": ["stages"]}, {"required": ["extends"]}],
        "if": {
            "properties": {"extends": {"enum": pipeline_names()}},
            "not": {"anyOf": [{"required": ["replace"]}, {"required": ["insert"]}]},
        },
        "then": {
            "properties": {
                "configure": object_schema({n: {**options[n], "type": "object"} for n in names})
            }
        },
        "$defs": {"stage": a_stage, "inserted": insertion, **_stage_options(names)},
    }


def _stage_options(names: list[str]) -> Schema:
    """Return the schema of each stage's options, and the definitions that they refer to."""
    options = {name: options_of(find_stage(name)) for name in names}
    found, definitions = msgspec.json.schema_components(
        [option.type for each in options.values() for option in each.values()],
        schema_hook=lambda type_: {"title": type_.__name__},
        ref_template="#/$defs/{name}",
    )
    schemas = map(merged, found)
    for name in names:
        stage = find_stage(name)
        described = _described(stage.__doc__)
        properties = {}
        for key, option in options[name].items():
            properties[key] = {"description": described.get(key, ""), **next(schemas)}
            if option.default not in (None, inspect.Parameter.empty):
                properties[key]["default"] = msgspec.to_builtins(option.default, enc_hook=repr)
        schema = {"description": summary_of(stage), **object_schema(properties)}
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
