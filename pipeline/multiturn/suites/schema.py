"""The keys of suites, cases and messages, and what may stand behind each.

What the docstrings say of a key, editors show: the JSON Schema is made of them.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

Metadata = dict[str, Any]


class SuiteKeys(Struct, kw_only=True):
    """The keys of a suite.

    Attributes:
        schema: the format, such as ``agentv-eval-v2``; any is read the same.
        evalcases: the cases.
        guideline_patterns: globs; an attached file that matches one is a guideline. Without them,
            those of the nearest ``.agentv/config.yaml`` count.
        guidelines: guideline texts without a file, for all cases.
        metadata: goes into each prompt's record; a case's own keys win. ``systemPrompt`` is the
            system message where a conversation has none.
        name: of the suite; not used here.
        description: of the suite; not used here.
        version: of the suite; not used here.
        target: who is asked elsewhere; not used here.
        execution: settings for whoever runs the cases; ``temperature`` and ``max_output_tokens``
            are those of the answers.
        evaluators: who grades the answers elsewhere; not used here.
    """

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
    """The keys of a message.

    Attributes:
        role: who speaks.
        content: a text, a text or file segment, a mapping without ``type``, which becomes JSON, or
            a list of these.
    """

    role: str
    content: str | list[str | dict[str, Any]] | dict[str, Any]


class CaseKeys(Struct, kw_only=True):
    """The keys of a case.

    Attributes:
        id: unique in the file, taken as written.
        input_messages: the conversation.
        guidelines: guideline texts without a file, behind the suite's.
        metadata: goes into the prompt's record, over the suite's. ``systemPrompt`` is the system
            message where the conversation has none.
        outcome: what the answer should achieve, in words.
        conversation_id: groups the cases of one conversation.
        expected_messages: the answer a grader compares with.
        execution: settings for whoever runs the case; ``temperature`` and ``max_output_tokens``
            win over the suite's.
    """

    id: Any = None
    input_messages: list[MessageKeys]
    guidelines: list[str] | None = None
    metadata: Metadata | None = None
    outcome: Any = None
    conversation_id: Any = None
    expected_messages: Any = None
    execution: Any = None


class SegmentKeys(Struct):
    """The keys of a segment; a mapping without ``type`` is structured content.

    Attributes:
        type: whether the value is the text itself, or the path of an attached file.
        value: the text; or the path of a file, looked for beside the suite, then in each folder
            above up to the root. A leading ``/`` means from the root.
    """

    type: Literal["text", "file"]
    value: str


class ExecutionKeys(Struct):
    """The keys of ``execution``.

    Attributes:
        temperature: of the answer.
        max_output_tokens: how long the answer may get.
        target: who is asked elsewhere; not used here.
        evaluators: who grades the answer elsewhere; not used here.
    """

    temperature: float | None = None
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    target: Any = None
    evaluators: Any = None


class ConfigKeys(Struct):
    """The keys of ``.agentv/config.yaml`` that matter here."""

    guideline_patterns: list[str] | None = None


class MetadataKeys(Struct):
    """The keys of ``metadata`` that matter here, by both of their names.

    Attributes:
        system_prompt: another name of ``systemPrompt``.
        systemPrompt: the system message where the conversation has none.
    """

    system_prompt: str | None = None
    systemPrompt: str | None = None  # noqa: N815 - the name that suites use
