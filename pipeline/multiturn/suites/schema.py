"""The keys of suites, cases and messages, and the types of their values.

Editors show the descriptions: the JSON Schema is made of these structs.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from multiturn.files.media import Detail

Metadata = dict[str, Any]


class ToolKeys(Struct):
    """The keys of a tool.

    Attributes:
        name: what calls name.
        description: what it does, for the model.
        parameters: a JSON Schema of the arguments, an object.
        strict: whether the vendor holds the arguments to the schema.
    """

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class SuiteKeys(Struct, kw_only=True):
    """The keys of a suite.

    Attributes:
        schema: the format, such as `agentv-eval-v2`; any is read the same.
        evalcases: the cases.
        guideline_patterns: globs; an attached file that matches one is a guideline. Without them,
            those of the nearest `.agentv/config.yaml` count.
        guidelines: guideline texts without a file, for all cases.
        metadata: goes into each prompt's record; a case's own keys win. `systemPrompt` is the
            system message where a conversation has none.
        tools: what the model may call, in all cases.
        templates: `literal`: braces as in `{{ name }}` are text, also beside `vars`, `testData`,
            `prompts` or `default_test`.
        execution: settings of a run; those of its answers are sent.
        hidden_characters: `allow`: characters that nobody sees are meant, also in attached files.
        max_prompt_tokens: a longer prompt fails `check` and `snapshot --check`.
    """

    schema: Any = field(name="$schema", default=None)
    evalcases: list[Any] | None = None
    guideline_patterns: list[str] | None = None
    guidelines: list[str] | None = None
    metadata: Metadata | None = None
    tools: list[dict[str, Any]] | None = None
    templates: Literal["literal"] | None = None
    execution: Any = None
    hidden_characters: Literal["allow"] | None = None
    max_prompt_tokens: Annotated[int, Meta(ge=1)] | None = None


class CallKeys(Struct):
    """The keys of a call.

    Attributes:
        id: what `tool_call_id` of the result says.
        name: the name of the tool.
        arguments: what the tool is given.
        thought_signature: Gemini's signature of the call, as the API gave it.
    """

    id: str
    name: str
    arguments: dict[str, Any] | None = None
    thought_signature: str | None = None


class MessageKeys(Struct):
    """The keys of a message.

    Attributes:
        role: who speaks.
        content: a text, a segment of text, a file or media, a mapping without `type`, which becomes
            JSON, or a list of these; before them, the assistant's thinking.
        tool_calls: the tools that the assistant calls.
        tool_call_id: the id of the call whose result a tool message is.
        is_error: whether that call failed.
    """

    role: str
    content: str | list[str | dict[str, Any]] | dict[str, Any]
    tool_calls: list[CallKeys] | None = None
    tool_call_id: str | None = None
    is_error: bool | None = None


class CaseKeys(Struct, kw_only=True):
    """The keys of a case.

    Attributes:
        id: unique in the file, taken as written.
        input_messages: the conversation.
        guidelines: guideline texts without a file, after the suite's.
        metadata: goes into the prompt's record, over the suite's. `systemPrompt` is the system
            message where the conversation has none.
        tools: what the model may call, in place of the suite's tools.
        outcome: what the answer should achieve, in words.
        conversation_id: groups the cases of one conversation.
        expected_messages: the answer a grader compares with.
        execution: settings of a run, over the suite's; those of its answer are sent.
        hidden_characters: `allow`, as in a suite, for this case.
    """

    id: Any = None
    input_messages: list[MessageKeys]
    guidelines: list[str] | None = None
    metadata: Metadata | None = None
    tools: list[dict[str, Any]] | None = None
    outcome: Any = None
    conversation_id: Any = None
    expected_messages: Any = None
    execution: Any = None
    hidden_characters: Literal["allow"] | None = None


class SegmentKeys(Struct):
    """The keys of a segment; a mapping without ``type`` is structured content.

    Attributes:
        type: whether the value is the text itself, or of an attached file, an image, a document or
            audio.
        value: the text; or the path of a file, looked for beside the suite, then in each folder
            above up to the root. A leading `/` means in the root first. Of an image, a document or
            audio also an `https:` address, or a `data:` URI in base64.
    """

    type: Literal["text", "file"]
    value: str


Vendor = Literal["anthropic", "gemini", "openai"]
_Vendor = Annotated[Vendor, Meta(description="whose model it was.")]


class ThinkingKeys(Struct):
    """The keys of a block of thinking in the assistant's content.

    Attributes:
        thinking: what the model thought.
        signature: by which the vendor knows the text, as its API gave it; of OpenAI's, the id.
        data: the encrypted content that OpenAI's API gave.
    """

    thinking: str
    signature: str | None = None
    data: str | None = None
    vendor: _Vendor = "anthropic"
    type: Literal["thinking"] = "thinking"


class HiddenKeys(Struct):
    """The keys of a block of thinking that only the vendor can read.

    Attributes:
        data: what the vendor's API gave.
        signature: the id that OpenAI's API gave.
    """

    data: str
    signature: str | None = None
    vendor: _Vendor = "anthropic"
    type: Literal["redacted_thinking"] = "redacted_thinking"


class MediaKeys(Struct):
    """The keys of a segment of ours that is a file, an image, a document or audio.

    Attributes:
        type: what the value is; `file` may be text or any of the others.
        value: the path of a file, an `https:` address that the vendor reads, or a `data:` URI in
            base64.
        detail: how closely a model of OpenAI's looks at an image.
        name: of a `data:` URI: what the question and vendors call it.
    """

    type: Literal["file", "image", "document", "audio"]
    value: str
    detail: Detail | None = None
    name: str | None = None


class ConfigKeys(Struct):
    """The keys of ``.agentv/config.yaml`` that matter here."""

    guideline_patterns: list[str] | None = None


class MetadataKeys(Struct):
    """The keys of ``metadata`` that matter here, by both of their names.

    Attributes:
        system_prompt: another name of `systemPrompt`.
        systemPrompt: the system message where the conversation has none.
    """

    system_prompt: str | None = None
    systemPrompt: str | None = None  # noqa: N815 - the name that suites use
