"""The settings under ``execution`` of a suite or a case."""

from multiturn.documents.json_lines import read_value
from multiturn.documents.node import Node
from multiturn.documents.validation import read_as
from multiturn.errors import InputError, MultiturnError
from multiturn.files.finding import Files
from multiturn.model.settings import OTHER_NAMES, SETTINGS, JsonSchema, RequestSettings
from multiturn.suites.calls import check_finite
from multiturn.suites.keys import KeyCheck
from multiturn.suites.schema import ChosenKeys, ExecutionKeys, FormatKeys

# What AgentV has there, by the schema of its suites in November 2026: nothing of it is sent.
_OF_AGENTV = frozenset(
    {
        *("agent", "agent_options", "assertions", "budgetUsd", "budget_usd", "cache"),
        *("early_exit", "evaluators", "failOnError", "fail_on_error", "model", "repeat", "runs"),
        *("sandbox", "skip_defaults", "target", "targets", "threshold", "timeout_seconds"),
        *("trials", "workers", "workspace"),
    }
)
LARGEST_SCHEMA = 1_048_576  # of a file with a JSON Schema


def read_settings(owner: Node, files: Files, check: KeyCheck, label: str = "") -> RequestSettings:
    """Return what the ``execution`` of a suite or a case says of the answer wanted.

    Raises:
        MultiturnError: a setting has a value that it cannot have, or another tool's name.
    """
    execution = owner.children.get("execution")
    if execution is None or not isinstance(execution.children, dict):
        return RequestSettings()
    label = f"{label}: execution".removeprefix(": ")
    for key in execution.children.keys() - _OF_AGENTV:
        if key in OTHER_NAMES:
            what = f'execution has no "{key}"; write it as {OTHER_NAMES[key]}'
            raise InputError(what, where=execution.children[key].key_place(check.name, label))
    check.check_execution(execution, _OF_AGENTV)
    keys = read_as(execution, ExecutionKeys, where=check.name, label=label)
    if keys.body:
        check_finite(execution.children["body"], "body", check.name, label)
    choice, form = keys.tool_choice, keys.response_format
    said = {name: getattr(keys, name) for name in SETTINGS}
    if isinstance(choice, ChosenKeys):
        said["tool_choice"] = {"name": choice.name}
    if isinstance(form, dict):
        said["response_format"] = read_format(
            execution.children["response_format"], files, check.name, label
        )
    return RequestSettings(**said)


def read_format(node: Node, files: Files, name: str, label: str) -> str | JsonSchema:
    """Return the form that an answer must have, also as OpenAI's APIs write it."""
    kinds = {"text": "text", "json_object": "json"}
    kind = node.children.get("type")
    if kind is not None and kind.value in kinds:
        return kinds[kind.value]
    label = f"{label}.response_format"
    inner = node.children.get("json_schema", node)
    keys = read_as(inner, FormatKeys, where=name, label=label)
    schema, path = keys.schema, ""
    if isinstance(schema, str):
        written, place = schema, inner.children["schema"].place(name, label)
        try:
            path = files.find(written)
            schema = read_value(files.read(path, LARGEST_SCHEMA, written=written))
        except MultiturnError as error:
            raise InputError(error.what, where=place) from None
        except ValueError as error:
            raise InputError(f"{written} is not JSON: {error}", where=place) from None
    if not isinstance(schema, dict):
        what = "schema must be a JSON Schema, as {type: object, …}, or the path of a file with one"
        raise InputError(what, where=inner.children["schema"].place(name, label))
    return JsonSchema(
        schema=schema,
        name=keys.name or "answer",
        description=keys.description or "",
        strict=keys.strict,
        path=path,
    )
