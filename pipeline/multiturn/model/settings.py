"""The settings of a request: what shapes the answer, beside messages and tools."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from multiturn.documents.json_lines import node_of_given, read_value
from multiturn.documents.node import Node, with_keys
from multiturn.documents.validation import LARGEST_NUMBER, read_as
from multiturn.errors import InputError, MultiturnError, quoted
from multiturn.files.finding import Files

Choice = str | Mapping[str, str]  # auto, none, required, or {"name": "weather"}
Number = Annotated[float, Meta(ge=0, le=LARGEST_NUMBER)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class JsonSchema(Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """The JSON Schema that an answer must follow.

    Attributes:
        schema: as JSON has it.
        name: what the model is told that the answer is.
        description: what it is for.
        strict: whether the vendor must hold the model to it; None for the vendor's own default.
        path: of the file that has it, from the root; empty if it stands in the suite.
    """

    schema: Mapping[str, Any]
    name: str = "answer"
    description: str = ""
    strict: bool | None = None
    path: str = ""


class RequestSettings(
    Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True
):
    """What shapes the answer; None is the target's own, and then the vendor's default.

    Attributes:
        temperature: how freely the model chooses its words.
        top_p: it chooses among the likeliest words with this much probability together.
        top_k: it chooses among so many of the likeliest words.
        max_output_tokens: the longest answer, with what the model thinks.
        stop: texts before which the answer ends.
        seed: asks for the same answer to the same request.
        frequency_penalty: the more often a word was said, the less likely it is again.
        presence_penalty: a word that was said is less likely again.
        reasoning_effort: how much the model thinks.
        reasoning_tokens: how many tokens it may think.
        response_format: `text`, `json`, or a JSON Schema, as `{schema: …}`.
        tool_choice: whether the model must call a tool: `auto`, `none`, `required`, or
            `{name: TOOL}`.
        parallel_tool_calls: whether it may call several tools at once.
        verbosity: how much it says.
        service_tier: which of the vendor's prices and speeds is asked for.
        body: keys of the body for what only one vendor has; mappings in it are merged.
    """

    temperature: Number | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=1)] | None = None
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    stop: tuple[str, ...] | None = None
    seed: int | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    reasoning_effort: Effort | None = None
    reasoning_tokens: Annotated[int, Meta(ge=0)] | None = None
    response_format: Literal["text", "json"] | JsonSchema | None = None
    tool_choice: Choice | None = None
    parallel_tool_calls: bool | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    service_tier: str | None = None
    body: Mapping[str, Any] | None = None

    def __reduce__(self) -> Any:
        return "NO_SETTINGS" if self is NO_SETTINGS else super().__reduce__()

    @property
    def schema_path(self) -> str:
        """The path of the file with the JSON Schema of the answer; empty if there is none."""
        form = self.response_format
        return form.path if isinstance(form, JsonSchema) else ""

    def with_schema_of(self, others: "RequestSettings") -> "RequestSettings":
        """Return these settings with the JSON Schema of others that is of the same file."""
        form: Any = others.response_format
        if not self.schema_path or self.schema_path != others.schema_path:
            return self
        own: Any = self.response_format
        return replace(self, response_format=replace(own, schema=form.schema))

    def said(self) -> dict[str, Any]:
        """Return the settings that are said, by name."""
        if self == NO_SETTINGS:
            return {}
        found = ((name, getattr(self, name)) for name in SETTINGS)
        return {name: value for name, value in found if value is not None}

    def check(self) -> None:
        """Raise an InputError for a value that no suite may have."""
        if said := self.said():
            read_as(node_of_given(said), SettingsKeys, where="", label="settings")
        if isinstance(self.response_format, dict):
            raise InputError("settings: response_format is text, json or a JsonSchema(schema=...)")

    def over(self, others: "RequestSettings") -> "RequestSettings":
        """Return these settings, and where they say nothing, the others."""
        if self == NO_SETTINGS:
            return others
        own, body, below = self.said(), self.body, others.body
        if body is not None and below is not None:
            own["body"] = merged(below, body)
        return RequestSettings(**{**others.said(), **own})

    def without_tools(self) -> "RequestSettings":
        """Return these settings for a case without tools: those that are about tools are gone."""
        return replace(self, tool_choice=None, parallel_tool_calls=None)


SETTINGS = RequestSettings.__struct_fields__
NO_SETTINGS = RequestSettings()


class ChosenKeys(Struct, forbid_unknown_fields=True):
    """The keys of a tool that the model must call.

    Attributes:
        name: the name of the tool.
    """

    name: str


class FormatKeys(Struct, forbid_unknown_fields=True):
    """The keys of a JSON Schema that answers must follow.

    Attributes:
        schema: the JSON Schema, or the path of a JSON file with one.
        name: what the model is told that the answer is.
        description: what it is for.
        strict: whether the vendor must hold the model to it.
    """

    schema: Any
    name: str = "answer"
    description: str = ""
    strict: bool | None = None


_Format = Annotated[dict[str, Any], Meta(extra_json_schema={"$ref": "#/$defs/FormatKeys"})]


class SettingsKeys(RequestSettings, frozen=True, kw_only=True):
    """The settings as files have them, in a target and under `execution`."""

    tool_choice: Literal["auto", "none", "required"] | ChosenKeys | None = None  # type: ignore[assignment]
    response_format: Literal["text", "json"] | _Format | None = None  # type: ignore[assignment]


_Keys = TypeVar("_Keys", bound=SettingsKeys)
LARGEST_SCHEMA = 1_048_576  # of a file with a JSON Schema
_KINDS = {"text": "text", "json_object": "json"}  # what OpenAI's APIs call what is no schema
_FORMS = "write text, json, {schema: FILE} or {schema: {type: object, …}}"


def settled(keys: _Keys, node: Node, files: Files, name: str, label: str) -> _Keys:
    """Return a file's settings as requests have them; ``name`` and ``label`` are for errors."""
    said: dict[str, Any] = {}
    if isinstance(keys.tool_choice, ChosenKeys):
        said["tool_choice"] = {"name": keys.tool_choice.name}
    if isinstance(keys.response_format, dict):
        inner = node.children["response_format"]
        said["response_format"] = _format(inner, files, name, f"{label}response_format")
    return replace(keys, **said)


def _format(node: Node, files: Files, name: str, label: str) -> str | JsonSchema:
    """Return the form of an answer, also as OpenAI's APIs write it."""
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
        written = schema
        try:
            path = files.find(written)
            schema = read_value(files.read(path, LARGEST_SCHEMA, written=written))
        except MultiturnError as error:
            raise InputError(error.what, where=place) from None
        except ValueError as error:
            raise InputError(f"{quoted(written)} is not JSON: {error}", where=place) from None
    if not isinstance(schema, dict):
        what = f"{quoted(path)} has no mapping" if path else "schema must be a mapping or a path"
        raise InputError(f"{what}; {_FORMS}", where=place)
    return JsonSchema(**{**asdict(read), "schema": schema, "path": path})


# What vendors, and tools around them, call our settings.
OTHER_NAMES: Mapping[str, str] = {
    other: name
    for name, others in {
        "max_output_tokens": "max_tokens max_completion_tokens maxOutputTokens maxTokens",
        "stop": "stop_sequences stopSequences",
        "top_p": "topP",
        "top_k": "topK",
        "frequency_penalty": "frequencyPenalty",
        "presence_penalty": "presencePenalty",
        "service_tier": "serviceTier",
        "reasoning_effort": "effort reasoning reasoningEffort thinking_level thinkingLevel",
        "reasoning_tokens": "budget_tokens thinking thinkingConfig thinking_budget thinkingBudget",
        "response_format": "json_schema output_format responseFormat responseSchema",
        "tool_choice": "toolChoice toolConfig",
        "parallel_tool_calls": "disable_parallel_tool_use parallelToolCalls",
        "body": "extra_body generationConfig passthrough",
    }.items()
    for other in others.split()
}


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return two mappings as one, and mappings in them likewise; else the second counts."""
    found = dict(below)
    for key, value in above.items():
        old: Any = found.get(key)
        is_deep = isinstance(value, Mapping) and isinstance(old, Mapping)
        found[key] = merged(old, value) if is_deep else value
    return found
