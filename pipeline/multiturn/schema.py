"""The keys of suites, cases and messages, and what may stand behind each."""

from typing import Any

from msgspec import Struct, field

Metadata = dict[str, Any]


class SuiteKeys(Struct, kw_only=True):
    """The keys of a suite."""

    schema: Any = field(name="$schema", default=None)
    evalcases: list[Any] | None = None
    guideline_patterns: list[str] | None = None
    guidelines: list[str] | None = None
    metadata: Metadata | None = None
    name: Any = None
    description: Any = None
    version: Any = None
    target: Any = None
    execution: Any = None
    evaluators: Any = None


class MessageKeys(Struct):
    """The keys of a message."""

    role: str
    content: str | list[str | dict[str, Any]] | dict[str, Any]


class CaseKeys(Struct, kw_only=True):
    """The keys of a case."""

    id: Any = None
    input_messages: list[MessageKeys]
    guidelines: list[str] | None = None
    metadata: Metadata | None = None
    outcome: Any = None
    conversation_id: Any = None
    expected_messages: Any = None
    execution: Any = None


class ExecutionKeys(Struct):
    """The keys of ``execution`` that matter here."""

    temperature: float | None = None
    max_output_tokens: int | None = None


class ConfigKeys(Struct):
    """The keys of ``.agentv/config.yaml`` that matter here."""

    guideline_patterns: list[str] | None = None


class MetadataKeys(Struct):
    """The keys of ``metadata`` that matter here, by both of their names."""

    system_prompt: str | None = None
    systemPrompt: str | None = None  # noqa: N815 - the name that suites use
