"""The JSON Schema of suites."""

from collections.abc import Iterable

from multiturn.cli.schemas.structs import DRAFT, Schema, struct_schema
from multiturn.suites import dialects
from multiturn.suites import schema as keys
from multiturn.turns import ROLES


def suite_schema() -> Schema:
    """Return the schema of a suite, or of one case with its messages at the top."""
    suite, case = struct_schema(keys.SuiteKeys), struct_schema(keys.CaseKeys)
    message, segment = struct_schema(keys.MessageKeys), struct_schema(keys.SegmentKeys)
    # A mapping with a type is a segment; any other is structured content, with any value.
    value = segment["properties"]["value"]
    any_value = {"description": value.pop("description")}
    may_be_segment = {
        "properties": {**segment["properties"], "value": any_value},
        "if": {"required": ["type"]},
        "then": {
            "if": {"required": ["text"], "properties": {"type": {"const": "text"}}},
            "then": {"properties": {"type": True, "text": {"type": "string"}}},
            "else": {"required": ["value"], "properties": {"type": True, "value": value}},
            "unevaluatedProperties": False,
        },
    }
    message["properties"]["role"]["enum"] = [*ROLES, *dialects.ROLES]
    content = message["properties"]["content"]
    content |= may_be_segment
    content["items"] |= may_be_segment
    metadata = {  # the system prompt has two names; a suite uses one of them
        "properties": struct_schema(keys.MetadataKeys)["properties"],
        "if": {"required": ["systemPrompt"], "properties": {"systemPrompt": {"type": "string"}}},
        "then": {"properties": {"system_prompt": {"type": "null"}}},
    }
    execution = {**struct_schema(keys.ExecutionKeys)}
    for key in ("type", "required", "additionalProperties"):
        del execution[key]  # the rest is for other tools
    for schema in (suite, case):
        schema["properties"]["metadata"] |= metadata
        schema["properties"]["execution"] |= execution
    case["properties"]["id"] |= {"type": ["string", "number", "boolean"], "pattern": r"\S"}
    case["properties"]["input_messages"]["minItems"] = 1
    case_id = {**case["properties"]["id"], "type": ["string", "number", "boolean", "null"]}
    cases = suite["properties"]["evalcases"]
    no_cases = {**cases, "type": "null", "doNotSuggest": True}
    both = {**suite["properties"], **case["properties"], "id": case_id, "evalcases": no_cases}
    cases |= {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/case"}}
    messages = case["properties"]["input_messages"]
    inputs: Schema = {
        **{key: _same_as("input_messages", messages) for key in sorted(dialects.INPUT_KEYS)},
        "input_files": {
            "type": "array",
            "items": {"type": "string"},
            "description": "paths of files that stand before an input that is text.",
            "doNotSuggest": True,
        },
    }
    unused = {"description": "for other tools; not used here.", "doNotSuggest": True}
    of_others: Schema = dict.fromkeys(sorted(dialects.OTHER_KEYS), unused)
    for properties in (suite["properties"], case["properties"], both):
        properties |= of_others | inputs
    for key, name in dialects.SUITE_KEYS.items():
        suite["properties"][key] = _same_as(name, {**cases, "type": ["array", "string"]})
    names = {**dialects.CASE_KEYS, **dialects.ANSWER_KEYS}
    for key in names.keys() - dialects.INPUT_KEYS:
        case["properties"][key] = both[key] = _same_as(names[key], {})
    case["properties"]["vars"] = {
        "type": "object",
        "description": "the variables of a template; `input` is the messages.",
        "doNotSuggest": True,
    }
    is_suite = _any_of(dialects.CASES - {"evalcases"})
    is_case = {
        "anyOf": [_any_of({"input_messages"}), {**_any_of(dialects.INPUT_KEYS), "not": is_suite}]
    }
    return {
        **DRAFT,
        "title": "A suite of multiturn",
        "properties": {"input_messages": {"description": messages["description"]}},
        "if": {"type": "object", **is_case},
        "then": {"$ref": "#/$defs/bare_case"},
        "else": {"$ref": "#/$defs/suite"},
        "$defs": {
            "suite": {**suite, "if": is_suite, "else": {"required": ["evalcases"]}},
            "bare_case": {**case, "properties": both, "required": []},
            "case": {
                **case,
                "required": ["id"],
                "if": _any_of({*dialects.INPUT_KEYS, "vars"}),
                "else": {"required": ["input_messages"]},
            },
            "MessageKeys": message,
        },
    }


def _same_as(name: str, schema: Schema) -> Schema:
    """Return the schema of another tool's key, which editors do not suggest."""
    types = ["array", "string", "object"] if name == "input_messages" else schema.get("type")
    typed = {} if types is None else {"type": types}
    return {**schema, **typed, "description": f"the same as `{name}`.", "doNotSuggest": True}


def _any_of(keys: Iterable[str]) -> Schema:
    """Return the schema of a mapping that has one of some keys."""
    return {"anyOf": [{"required": [key]} for key in sorted(keys)]}
