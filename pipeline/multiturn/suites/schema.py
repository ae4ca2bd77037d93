"""The keys of suites, cases and messages, and the types of their values.

Editors show the descriptions: the JSON Schema is made of these structs.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from multiturn.documents.validation import LARGEST_NUMBER

Detail = Literal["auto", "low", "high", "original"]
Metadata = dict[str, Any]

_Unused = Annotated[Any, Meta(description="for other tools; not used here.")]


class ToolKeys(Struct):
    """The keys of a tool."""

    name: Annotated[str, Meta(description="what calls name.")]
    description: Annotated[str | None, Meta(description="what it does, for the model.")] = None
    parameters: Annotated[
        dict[str, Any] | None, Meta(description="a JSON Schema of the arguments, an object.")
    ] = None
    strict: Annotated[
        bool | None, Meta(description="whether the vendor holds the arguments to the schema.")
    ] = None


class SuiteKeys(Struct, kw_only=True):
    """The keys of a suite."""

    schema: Annotated[
        Any, Meta(description="the format, such as `agentv-eval-v2`; any is read the same.")
    ] = field(name="$schema", default=None)
    evalcases: Annotated[list[Any] | None, Meta(description="the cases.")] = None
    guideline_patterns: Annotated[
        list[str] | None,
        Meta(
            description="globs; an attached file that matches one is a guideline. Without them,"
            " those of the nearest `.agentv/config.yaml` count."
        ),
    ] = None
    guidelines: Annotated[
        list[str] | None, Meta(description="guideline texts without a file, for all cases.")
    ] = None
    metadata: Annotated[
        Metadata | None,
        Meta(
            description="goes into each prompt's record; a case's own keys win. `systemPrompt` is"
            " the system message where a conversation has none."
        ),
    ] = None
    tools: Annotated[
        list[dict[str, Any]] | None, Meta(description="what the model may call, in all cases.")
    ] = None
    templates: Annotated[
        Literal["literal"] | None,
        Meta(
            description="`literal`: braces as in `{{ name }}` are text, also beside `vars`,"
            " `testData`, `prompts` or `default_test`."
        ),
    ] = None
    execution: Annotated[
        Any,
        Meta(
            description="settings of a run; `temperature`, `max_output_tokens` and `tool_choice`"
            " are those of the answers."
        ),
    ] = None


class CallKeys(Struct):
    """The keys of a call."""

    id: Annotated[str, Meta(description="what `tool_call_id` of the result says.")]
    name: Annotated[str, Meta(description="the name of the tool.")]
    arguments: Annotated[dict[str, Any] | None, Meta(description="what the tool is given.")] = None
    thought_signature: Annotated[
        str | None, Meta(description="Gemini's signature of the call, as the API gave it.")
    ] = None


class MessageKeys(Struct):
    """The keys of a message."""

    role: Annotated[str, Meta(description="who speaks.")]
    content: Annotated[
        str | list[str | dict[str, Any]] | dict[str, Any],
        Meta(
            description="a text, a segment of text, a file or media, a mapping without `type`,"
            " which becomes JSON, or a list of these; before them, the assistant's thinking."
        ),
    ]
    tool_calls: Annotated[
        list[CallKeys] | None, Meta(description="the tools that the assistant calls.")
    ] = None
    tool_call_id: Annotated[
        str | None, Meta(description="the id of the call whose result a tool message is.")
    ] = None
    is_error: Annotated[bool | None, Meta(description="whether that call failed.")] = None


class CaseKeys(Struct, kw_only=True):
    """The keys of a case."""

    id: Annotated[Any, Meta(description="unique in the file, taken as written.")] = None
    input_messages: Annotated[list[MessageKeys], Meta(description="the conversation.")]
    guidelines: Annotated[
        list[str] | None, Meta(description="guideline texts without a file, after the suite's.")
    ] = None
    metadata: Annotated[
        Metadata | None,
        Meta(
            description="goes into the prompt's record, over the suite's. `systemPrompt` is the"
            " system message where the conversation has none."
        ),
    ] = None
    tools: Annotated[
        list[dict[str, Any]] | None,
        Meta(description="what the model may call, in place of the suite's tools."),
    ] = None
    outcome: Annotated[Any, Meta(description="what the answer should achieve, in words.")] = None
    conversation_id: Annotated[Any, Meta(description="groups the cases of one conversation.")] = (
        None
    )
    expected_messages: Annotated[Any, Meta(description="the answer a grader compares with.")] = None
    execution: Annotated[
        Any,
        Meta(
            description="settings of a run; `temperature`, `max_output_tokens` and `tool_choice`"
            " win over the suite's."
        ),
    ] = None


class SegmentKeys(Struct):
    """The keys of a segment; a mapping without ``type`` is structured content."""

    type: Annotated[
        Literal["text", "file"],
        Meta(
            description="whether the value is the text itself, or of an attached file, an image, a"
            " document or audio."
        ),
    ]
    value: Annotated[
        str,
        Meta(
            description="the text; or the path of a file, looked for beside the suite, then in"
            " each folder above up to the root. A leading `/` means in the root first. Of an image,"
            " a document or audio also an `https:` address, or a `data:` URI in base64."
        ),
    ]


Vendor = Literal["anthropic", "gemini", "openai"]
_Vendor = Annotated[Vendor, Meta(description="whose model it was.")]


class ThinkingKeys(Struct):
    """The keys of a block of thinking in the assistant's content."""

    thinking: Annotated[str, Meta(description="what the model thought.")]
    signature: Annotated[
        str | None,
        Meta(
            description="by which the vendor knows the text, as its API gave it; of OpenAI's, the"
            " id."
        ),
    ] = None
    data: Annotated[
        str | None, Meta(description="the encrypted content that OpenAI's API gave.")
    ] = None
    vendor: _Vendor = "anthropic"
    type: Literal["thinking"] = "thinking"


class HiddenKeys(Struct):
    """The keys of a block of thinking that only the vendor can read."""

    data: Annotated[str, Meta(description="what the vendor's API gave.")]
    signature: Annotated[str | None, Meta(description="the id that OpenAI's API gave.")] = None
    vendor: _Vendor = "anthropic"
    type: Literal["redacted_thinking"] = "redacted_thinking"


class MediaKeys(Struct):
    """The keys of a segment of ours that is a file, an image, a document or audio."""

    type: Annotated[
        Literal["file", "image", "document", "audio"],
        Meta(description="what the value is; `file` may be text or any of the others."),
    ]
    value: Annotated[
        str,
        Meta(
            description="the path of a file, an `https:` address that the vendor reads, or a"
            " `data:` URI in base64."
        ),
    ]
    detail: Annotated[
        Detail | None, Meta(description="how closely a model of OpenAI's looks at an image.")
    ] = None
    name: Annotated[
        str | None, Meta(description="of a `data:` URI: what transcripts and vendors call it.")
    ] = None


class ChosenKeys(Struct, forbid_unknown_fields=True):
    """The keys of a tool that the model must call."""

    name: Annotated[str, Meta(description="the name of the tool.")]


class ExecutionKeys(Struct):
    """The keys of ``execution``."""

    temperature: Annotated[
        Annotated[float, Meta(ge=0, le=LARGEST_NUMBER)] | None, Meta(description="of the answer.")
    ] = None
    max_output_tokens: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="how long the answer may get.")
    ] = None
    tool_choice: Annotated[
        Literal["auto", "none", "required"] | ChosenKeys | None,
        Meta(description="whether the model must call a tool, and which."),
    ] = None
    target: _Unused = None
    evaluators: _Unused = None


class ConfigKeys(Struct):
    """The keys of ``.agentv/config.yaml`` that matter here."""

    guideline_patterns: list[str] | None = None


class MetadataKeys(Struct):
    """The keys of ``metadata`` that matter here, by both of their names."""

    system_prompt: Annotated[str | None, Meta(description="another name of `systemPrompt`.")] = None
    systemPrompt: Annotated[  # noqa: N815 - the name that suites use
        str | None, Meta(description="the system message where the conversation has none.")
    ] = None
