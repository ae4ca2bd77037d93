"""The JSON Schema of suites."""

from msgspec import Struct

from multiturn.cli.schemas.structs import DRAFT, Schema, object_schema, struct_schema
from multiturn.model.turns import ROLES
from multiturn.suites import schema as keys
from multiturn.suites import vocabulary


def suite_schema() -> Schema:
    """Return the schema of a suite, or of one case with its messages at the top."""
    suite, case = (struct_schema(each)["properties"] for each in (keys.SuiteKeys, keys.CaseKeys))
    execution = struct_schema(keys.ExecutionKeys)["properties"]
    for properties in (suite, case):
        properties["metadata"]["properties"] = struct_schema(keys.MetadataKeys)["properties"]
        properties["execution"]["properties"] = execution
    case["id"]["type"] = ["string", "number", "boolean", "null"]
    case["input_messages"]["minItems"] = 1
    suite["evalcases"] |= {"minItems": 1, "items": {"$ref": "#/$defs/case"}}
    unused = {"description": "for other tools; not used here.", "doNotSuggest": True}
    for place, properties in (("suite", suite), ("case", case)):
        properties |= dict.fromkeys(sorted(vocabulary.IRRELEVANT[place]), unused)
        for key in ("name", "description", "version") if place == "suite" else ("description",):
            properties[key] = {"description": unused["description"]}
    case |= {
        "vars": {
            "type": "object",
            "description": "the variables of a template; `input` is the messages.",
            "doNotSuggest": True,
        },
        "input_files": {
            "type": "array",
            "items": {"type": "string"},
            "description": "paths of files that stand before an input that is text.",
            "doNotSuggest": True,
        },
    }
    for key, name in {**vocabulary.CASE_NAMES, **vocabulary.ANSWER_NAMES}.items():
        case[key] = {**case[name], "description": f"the same as `{name}`.", "doNotSuggest": True}
    for key in vocabulary.INPUT_KEYS:
        case[key]["type"] = ["array", "string", "object"]
    options = object_schema(dict.fromkeys(sorted(vocabulary.IRRELEVANT["options"]), unused))
    case["options"] = {**options, **unused, "type": ["object", "null"]}
    suite["prompts"] = {
        "description": "of promptfoo: one variable, which holds the messages of each case.",
        "doNotSuggest": True,
    }
    for key in vocabulary.DEFAULTS_KEYS:
        said = {"description": "`vars` for all cases.", "doNotSuggest": True}
        suite[key] = {"type": ["object", "null"], **said}
    for key, name in vocabulary.SUITE_NAMES.items():
        suite[key] = {**suite[name], "description": f"the same as `{name}`.", "doNotSuggest": True}
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
            "CallKeys": struct_schema(keys.CallKeys),
            "ChosenKeys": struct_schema(keys.ChosenKeys),
            "ToolKeys": _tool(),
        },
    }


def _message() -> Schema:
    """Return the schema of a message."""
    message = struct_schema(keys.MessageKeys)
    properties = message["properties"]
    properties["role"]["enum"] = [*ROLES, *vocabulary.ROLE_NAMES]
    # A mapping with a type is a segment; any other is structured content, with any value.
    blocks: list[type[Struct]] = [keys.HiddenKeys, keys.ThinkingKeys, keys.SegmentKeys]
    segment = {key: said for block in blocks for key, said in _properties(block).items()}
    del segment["value"]["type"]
    segment["type"]["enum"] += ["thinking", "redacted_thinking"]
    content = properties["content"]
    content["properties"] = content["items"]["properties"] = segment
    types = content.pop("type")
    must_be_said = {"required": ["content"], "properties": {"content": {"type": types}}}
    may_be_null = {"properties": {"content": {"type": [*types, "null"]}}}
    calls = {"properties": {"tool_calls": {"minItems": 1}}, "required": ["tool_calls"]}
    return {**message, "required": ["role"], "if": calls, "then": may_be_null, "else": must_be_said}


def _properties(type_: type[Struct]) -> Schema:
    properties: Schema = struct_schema(type_)["properties"]
    return properties


def _tool() -> Schema:
    """Return the schema of a tool."""
    tool = struct_schema(keys.ToolKeys)
    tool["properties"]["parameters"] |= {
        "properties": {"type": {"const": "object"}, "properties": {"type": "object"}},
        "anyOf": [{"maxProperties": 0}, {"required": ["type"]}],
    }
    return tool


def _any_of(names: set[str]) -> Schema:
    """Return the schema of a mapping that has one of some keys."""
    return {"anyOf": [{"required": [name]} for name in sorted(names)]}
