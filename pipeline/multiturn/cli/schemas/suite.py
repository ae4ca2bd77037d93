"""The JSON Schema of suites."""

from msgspec import Struct

from multiturn.cli.schemas.structs import DRAFT, Schema, object_schema, struct_schema
from multiturn.model.turns import ROLES
from multiturn.suites import schema as keys
from multiturn.suites import vocabulary

_UNUSED = {"description": "for other tools; not used here.", "doNotSuggest": True}
_OF_A_RESULT = {"description": "of a result, in other tools.", "doNotSuggest": True}


def suite_schema() -> Schema:
    """Return the schema of a suite, or of one case with its messages at the top."""
    suite, case = (struct_schema(each)["properties"] for each in (keys.SuiteKeys, keys.CaseKeys))
    execution = struct_schema(keys.ExecutionKeys)["properties"]
    for properties in (suite, case):
        properties["tools"]["items"] = {"$ref": "#/$defs/ToolKeys"}
        properties["metadata"]["properties"] = struct_schema(keys.MetadataKeys)["properties"]
        properties["execution"]["properties"] = execution
    case["id"]["type"] = ["string", "number", "boolean", "null"]
    case["input_messages"]["minItems"] = 1
    suite["evalcases"] |= {"minItems": 1, "items": {"$ref": "#/$defs/case"}}
    for place, properties in (("suite", suite), ("case", case)):
        properties |= dict.fromkeys(sorted(vocabulary.IRRELEVANT[place]), _UNUSED)
        for key in ("name", "description", "version") if place == "suite" else ("description",):
            properties[key] = {"description": _UNUSED["description"]}
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
    options = object_schema(dict.fromkeys(sorted(vocabulary.IRRELEVANT["options"]), _UNUSED))
    case["options"] = {**options, **_UNUSED, "type": ["object", "null"]}
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
            "CallKeys": _call(),
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
    media = _properties(keys.MediaKeys)
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


def _properties(type_: type[Struct]) -> Schema:
    properties: Schema = struct_schema(type_)["properties"]
    return properties


def _call() -> Schema:
    """Return the schema of a call, also as OpenAI and inspect_ai write it."""
    call = struct_schema(keys.CallKeys)
    call["properties"]["arguments"]["type"].append("string")  # a JSON text
    return _or_function(call, "call", ["object", "string"])


def _tool() -> Schema:
    """Return the schema of a tool, also as OpenAI and Anthropic write it."""
    tool = struct_schema(keys.ToolKeys)
    parameters = tool["properties"]["parameters"]
    parameters |= {
        "properties": {"type": {"const": "object"}, "properties": {"type": "object"}},
        "anyOf": [{"maxProperties": 0}, {"required": ["type"]}],
    }
    same = {"description": "the same as `parameters`, of Anthropic.", "doNotSuggest": True}
    tool["properties"]["input_schema"] = {**parameters, **same}
    return _or_function(tool, "tool", "object")


def _or_function(schema: Schema, place: str, kind: str | list[str]) -> Schema:
    """Return the schema of a call or a tool that may have its name in ``function``."""
    of_openai = {"description": "of OpenAI's form.", "doNotSuggest": True}
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
