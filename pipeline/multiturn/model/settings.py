"""The settings of a request: what shapes the answer, beside messages and tools."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from multiturn.documents.validation import LARGEST_NUMBER

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
        path: the file that has it, as the suite wrote it; empty if it stands in the suite.
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

    def said(self) -> dict[str, Any]:
        """Return the settings that are said, by name."""
        if self == _NOTHING:
            return {}
        found = ((name, getattr(self, name)) for name in SETTINGS)
        return {name: value for name, value in found if value is not None}

    def over(self, others: "RequestSettings") -> "RequestSettings":
        """Return these settings, and where they say nothing, the others."""
        if self == _NOTHING:
            return others
        own, body, below = self.said(), self.body, others.body
        if body is not None and below is not None:
            own["body"] = merged(below, body)
        return RequestSettings(**{**others.said(), **own})


SETTINGS = RequestSettings.__struct_fields__
_NOTHING = RequestSettings()


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
