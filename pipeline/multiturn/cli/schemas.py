"""JSON Schemas, from the structs by which files are read for editors, and lines written."""

import inspect
import re
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from multiturn.cli.lines import CheckLine, DiffLine, ExplainLine, ReportLine, SnapshotLine
from multiturn.documents.imports import IMPORT_PATH
from multiturn.model.image_tokens import ImageRule
from multiturn.model.settings import ChosenKeys, FormatKeys, SettingsKeys
from multiturn.model.turns import ROLES
from multiturn.pipelines.contract import options_of, summary_of
from multiturn.pipelines.pipeline_file import Insertion, PipelineKeys, pipeline_names
from multiturn.pipelines.registry import find_stage, installed_stages, stage_names
from multiturn.providers.base import Settings
from multiturn.providers.models import Row
from multiturn.providers.targets import ALIASES, DEFAULT, KINDS, VARIABLE
from multiturn.suites import keys as vocabulary
from multiturn.suites import schema as keys

Schema = dict[str, Any]
DRAFT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def object_schema(properties: Schema) -> Schema:
    """Return the schema of a mapping, without other keys."""
    return {"type": "object", "properties": properties, "additionalProperties": False}


def struct_schema(type_: type[Struct]) -> Schema:
    """Return the schema of a struct, without other keys."""
    _, found = msgspec.json.schema_components([type_], ref_template="#/$defs/{name}")
    schema = with_one_type(_with_descriptions(found[type_.__name__], type_))
    return {**object_schema(schema["properties"]), "required": schema["required"]}


def line_schema(command: str, type_: type[Struct]) -> Schema:
    """Return the schema of the struct that a command prints as a line of JSON."""
    (schema,), found = msgspec.json.schema_components([type_], ref_template="#/$defs/{name}")
    types = vars(sys.modules[type_.__module__])
    found = {name: _with_descriptions(each, types[name]) for name, each in found.items()}
    return {**DRAFT, "title": f"A line of multiturn {command}", **schema, "$defs": found}


def _with_descriptions(schema: Schema, type_: type[Struct]) -> Schema:
    """Return the schema of a struct with what its docstring says of it, and of each field."""
    for each in type_.__mro__:
        for field, text in _described(each.__doc__, "Attributes").items():
            name = type_.__struct_encode_fields__[type_.__struct_fields__.index(field)]
            schema["properties"][name] = {"description": text, **schema["properties"][name]}
    return {**schema, "description": inspect.cleandoc(type_.__doc__ or "").partition("\n\n")[0]}


def with_one_type(schema: Any) -> Any:
    """Return a schema with alternatives of different types as one.

    An editor can then name the error inside a value, and not only that no alternative fits.

    >>> with_one_type({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]})
    {'type': ['array', 'null'], 'items': {'type': 'string'}}
    """
    if isinstance(schema, list):
        return [with_one_type(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: with_one_type(value) for key, value in schema.items() if value is not None}
    types = [kind.get("type") for kind in schema.get("anyOf", ())]
    if types and all(isinstance(type_, str) and types.count(type_) == 1 for type_ in types):
        for kind in schema.pop("anyOf"):
            schema = {"type": types, **schema, **kind}
        schema["type"] = types
    return schema


def _of_others(words: str, **schema: Any) -> Schema:
    """Return the schema of a key that other tools have, and editors must not suggest."""
    return {**schema, "description": words, "doNotSuggest": True}


_UNUSED = _of_others("for other tools; not used here.")
_OF_A_RESULT = _of_others("of a result, in other tools.")


def suite_schema() -> Schema:
    """Return the schema of a suite, or of one case with its messages at the top."""
    suite, case = (struct_schema(each)["properties"] for each in (keys.SuiteKeys, keys.CaseKeys))
    unused = dict.fromkeys(sorted(vocabulary.IRRELEVANT["execution"]), _UNUSED)
    execution = object_schema(struct_schema(SettingsKeys)["properties"] | unused)
    del execution["type"]  # of another type, it says nothing
    for properties in (suite, case):
        properties["tools"]["items"] = {"$ref": "#/$defs/ToolKeys"}
        properties["metadata"]["properties"] = struct_schema(keys.MetadataKeys)["properties"]
        properties["execution"] |= execution
    case["id"]["type"] = ["string", "number", "boolean", "null"]
    case["input_messages"]["minItems"] = 1
    suite["evalcases"] |= {"minItems": 1, "items": {"$ref": "#/$defs/case"}}
    for place, properties in (("suite", suite), ("case", case)):
        properties |= dict.fromkeys(sorted(vocabulary.IRRELEVANT[place]), _UNUSED)
        for key in ("name", "description", "version") if place == "suite" else ("description",):
            properties[key] = {"description": _UNUSED["description"]}
    case["vars"] = _of_others(
        "the variables of a template; `input` is the messages.", type="object"
    )
    files = {"type": "array", "items": {"type": "string"}}
    case["input_files"] = _of_others(
        "paths of files that stand before an input that is text.", **files
    )
    for key, name in {**vocabulary.CASE_NAMES, **vocabulary.ANSWER_NAMES}.items():
        case[key] = _of_others(f"the same as `{name}`.", **case[name])
    for key in vocabulary.INPUT_KEYS:
        case[key]["type"] = ["array", "string", "object"]
    options = object_schema(dict.fromkeys(sorted(vocabulary.IRRELEVANT["options"]), _UNUSED))
    case["options"] = {**options, **_UNUSED, "type": ["object", "null"]}
    suite["prompts"] = _of_others(
        "of promptfoo: one variable, which holds the messages of each case."
    )
    for key in vocabulary.DEFAULTS_KEYS:
        suite[key] = _of_others("`vars` for all cases.", type=["object", "null"])
    for key, name in vocabulary.SUITE_NAMES.items():
        suite[key] = _of_others(f"the same as `{name}`.", **suite[name])
        suite[key]["type"] = ["array", "string"]
    inputs = {"input_messages", *vocabulary.INPUT_KEYS}
    return {
        **DRAFT,
        "title": "A suite of multiturn",
        **object_schema({**case, **suite}),
        **_any_of({*vocabulary.CASES, *inputs}),
        "$defs": {
            "case": {
                **object_schema(case),
                **_any_of({*inputs, "vars"}),
                "allOf": [_any_of({"id", "vars"})],
            },
            "MessageKeys": _message(),
            "CallKeys": _call(),
            "ToolKeys": _tool(),
            **_of_settings(),
        },
    }


def _of_settings() -> Schema:
    """Return the schemas of the settings that are mappings, also as OpenAI writes them."""
    schema = struct_schema(FormatKeys)
    schema["properties"]["schema"]["type"] = ["object", "string"]
    of_openai, bare = _of_others("of OpenAI's form."), ["text", "json_object"]
    inner = {"type": {"enum": [*bare, "json_schema"], **of_openai}}
    inner["json_schema"] = {**schema, **of_openai}
    form = object_schema({**schema["properties"], **inner})
    form["anyOf"] = [
        *({"required": [key]} for key in ("schema", "json_schema")),
        {"required": ["type"], "properties": {"type": {"enum": bare}}, "maxProperties": 1},
    ]
    return {"ChosenKeys": struct_schema(ChosenKeys), "FormatKeys": form}


def _message() -> Schema:
    message = struct_schema(keys.MessageKeys)
    properties = message["properties"]
    properties["role"]["enum"] = [*ROLES, *vocabulary.ROLE_NAMES]
    # A mapping with a type is a segment; any other is structured content, with any value.
    segment: Schema = {}
    for block in (keys.HiddenKeys, keys.ThinkingKeys, keys.SegmentKeys):
        segment |= struct_schema(block)["properties"]
    del segment["value"]["type"]
    media = struct_schema(keys.MediaKeys)["properties"]
    segment["type"]["enum"] += [
        *(kind for kind in media["type"]["enum"] if kind != "file"),
        *("thinking", "redacted_thinking"),
        *("reasoning", "tool_result", "tool_use"),  # of other tools
        *("image_url", "input_audio", "input_file", "input_image", "input_text", "output_text"),
    ]
    is_media = {"required": ["type"], "properties": {"type": {"enum": media["type"]["enum"]}}}
    properties |= dict.fromkeys(sorted(vocabulary.IRRELEVANT["message"]), _UNUSED)
    properties |= dict.fromkeys(("error", "function", "name"), _OF_A_RESULT)
    content = properties["content"]
    shown = {key: media[key] for key in ("detail", "name")}
    of_media = {"if": is_media, "then": {"properties": shown}}
    content |= {"properties": segment, **of_media}
    content["items"] |= {"properties": segment, **of_media}
    types = content.pop("type")
    must_be_said = {"required": ["content"], "properties": {"content": {"type": types}}}
    may_be_null = {"properties": {"content": {"type": [*types, "null"]}}}
    calls = {"properties": {"tool_calls": {"minItems": 1}}, "required": ["tool_calls"]}
    return {**message, "required": ["role"], "if": calls, "then": may_be_null, "else": must_be_said}


def _call() -> Schema:
    """Return the schema of a call, also as OpenAI and inspect_ai write it."""
    call = struct_schema(keys.CallKeys)
    call["properties"]["arguments"]["type"].append("string")  # a JSON text
    return _or_function(call, "call", ["object", "string"])


def _tool() -> Schema:
    """Return the schema of a tool, also as OpenAI, Anthropic and MCP write it."""
    tool = struct_schema(keys.ToolKeys)
    parameters = tool["properties"]["parameters"]
    parameters |= {
        "properties": {"type": {"const": "object"}, "properties": {"type": "object"}},
        "anyOf": [{"maxProperties": 0}, {"required": ["type"]}],
    }
    for name, whose in (("input_schema", "Anthropic"), ("inputSchema", "MCP")):
        words = f"the same as `parameters`, of {whose}."
        tool["properties"][name] = _of_others(words, **parameters)
    return _or_function(tool, "tool", "object")


def _or_function(schema: Schema, place: str, kind: str | list[str]) -> Schema:
    """Return the schema of a call or a tool that may have its name in ``function``."""
    of_openai = _of_others("of OpenAI's form.")
    properties = schema["properties"]
    properties |= dict.fromkeys(sorted(vocabulary.IRRELEVANT[place]), _UNUSED)
    properties |= {"type": of_openai, "function": {"type": kind, **of_openai}}
    needed = schema["required"]
    rest = [key for key in needed if key != "name"]
    has_function = {"required": ["function"]}
    return {**schema, "required": rest, "if": has_function, "else": {"required": needed}}


def _any_of(names: set[str]) -> Schema:
    """Return the schema of a mapping that has one of some keys."""
    return {"anyOf": [{"required": [name]} for name in sorted(names)]}


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
    top = _refined(
        PipelineKeys,
        stages={"minItems": 1, "items": stage},
        extends={"anyOf": [{"enum": pipeline_names()}, {"type": "string"}]},
        replace={"properties": dict.fromkeys(names, stage), "additionalProperties": stage},
        configure={"additionalProperties": {"type": "object"}},
        insert={"minItems": 1, "items": {"$ref": "#/$defs/inserted"}},
        remove={"minItems": 1, "items": name},
    )
    insertion = _refined(Insertion, stage=stage, after=name, before=name)
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


def _refined(type_: type[Struct], **values: Schema) -> Schema:
    """Return the schema of a struct with more of some keys, without defaults to insert."""
    schema = struct_schema(type_)
    for key, value in values.items():
        schema["properties"][key] |= value
        schema["properties"][key].pop("default", None)  # editors would insert it
    return schema


def _stage_options(names: list[str]) -> Schema:
    """Return the schema of each stage's options, and the definitions that they refer to."""
    options = {name: options_of(find_stage(name)) for name in names}
    found, definitions = msgspec.json.schema_components(
        [option.type for each in options.values() for option in each.values()],
        schema_hook=lambda type_: {"title": type_.__name__},
        ref_template="#/$defs/{name}",
    )
    schemas = map(with_one_type, found)
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


def _described(docstring: str | None, section: str = "Args") -> dict[str, str]:
    r"""Return what a section of a docstring says of each name.

    >>> _described("Cut.\n\nArgs:\n    size: of a piece;\n        ``0`` for none.")
    {'size': 'of a piece; `0` for none.'}
    """
    text = inspect.cleandoc(docstring or "").partition(f"\n{section}:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^    (\w+): (.*(?:\n {5}.*)*)", text, re.MULTILINE)
    return {name: " ".join(said.split()).replace("``", "`") for name, said in entries}


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
    models, image = {"type": "array", "items": struct_schema(Row)}, struct_schema(ImageRule)
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
        "$defs": {"target": target, **kinds, **_of_settings(), "ImageRule": image},
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
    if "type" not in schema:
        return schema
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


SCHEMAS: dict[str, Callable[[], Schema]] = {
    "suite": suite_schema,
    "pipeline": pipeline_schema,
    "targets": targets_schema,
    "check": partial(line_schema, "check", CheckLine),
    "diff": partial(line_schema, "diff", DiffLine),
    "explain": partial(line_schema, "explain", ExplainLine),
    "report": partial(line_schema, "report", ReportLine),
    "snapshot": partial(line_schema, "snapshot --check", SnapshotLine),
}
