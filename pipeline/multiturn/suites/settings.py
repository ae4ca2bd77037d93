"""The settings under ``execution`` of a suite or a case."""

from msgspec import structs

from multiturn.documents.json_lines import read_value
from multiturn.documents.node import Node, with_keys
from multiturn.documents.validation import read_as
from multiturn.errors import InputError, MultiturnError, quoted
from multiturn.files.finding import Files
from multiturn.model.settings import SETTINGS, JsonSchema, RequestSettings
from multiturn.suites.keys import KeyCheck
from multiturn.suites.schema import ChosenKeys, ExecutionKeys, FormatKeys

_MOST_BYTES = 1_048_576  # of a file with a JSON Schema
_KINDS = {"text": "text", "json_object": "json"}  # what OpenAI's APIs call what is no schema
_FORMS = "write text, json, {schema: FILE} or {schema: {type: object, …}}"


def read_settings(owner: Node, files: Files, check: KeyCheck, label: str = "") -> RequestSettings:
    """Return what the ``execution`` of a suite or a case says of the answer wanted.

    Raises:
        MultiturnError: a setting has a value that it cannot have, or another tool's name.
    """
    execution = owner.children.get("execution")
    if execution is None or not isinstance(execution.children, dict):
        return RequestSettings()
    label = f"{label}: execution".removeprefix(": ")
    check.check(execution, "execution", label=label)
    keys = read_as(execution, ExecutionKeys, where=check.name, label=label)
    said = {name: getattr(keys, name) for name in SETTINGS}
    if isinstance(keys.tool_choice, ChosenKeys):
        said["tool_choice"] = {"name": keys.tool_choice.name}
    if isinstance(keys.response_format, dict):
        node = execution.children["response_format"]
        said["response_format"] = read_format(node, files, check.name, f"{label}.")
    return RequestSettings(**said)


def read_format(node: Node, files: Files, name: str, label: str) -> str | JsonSchema:
    """Return the form that an answer must have, also as OpenAI's APIs write it.

    Args:
        node: a mapping.
        files: finds a file with a JSON Schema.
        name: what errors call the document.
        label: what errors have before the name of the setting.

    Raises:
        MultiturnError: it is none of the forms, or the file is not as it should be.
    """
    label = f"{label}response_format"
    keys = dict(node.children)
    kind = keys.pop("type", None)
    if kind is not None and kind.scalar in _KINDS and not keys:
        return _KINDS[kind.scalar]
    if kind is not None and kind.scalar != "json_schema":
        raise InputError(f"there is no such form; {_FORMS}", where=kind.place(name, label))
    node = keys.pop("json_schema") if [*keys] == ["json_schema"] else with_keys(node, keys)
    read = read_as(node, FormatKeys, where=name, label=label)
    schema, path, place = read.schema, "", node.children["schema"].place(name, label)
    if isinstance(schema, str):
        path = schema
        try:
            schema = read_value(files.read(files.find(path), _MOST_BYTES, written=path))
        except MultiturnError as error:
            raise InputError(error.what, where=place) from None
        except ValueError as error:
            raise InputError(f"{quoted(path)} is not JSON: {error}", where=place) from None
    if not isinstance(schema, dict):
        what = f"{quoted(path)} has no mapping" if path else "schema must be a mapping or a path"
        raise InputError(f"{what}; {_FORMS}", where=place)
    return JsonSchema(**{**structs.asdict(read), "schema": schema, "path": path})
