"""What OpenAI's APIs answer."""

from contextlib import suppress
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from multiturn.errors import MalformedReplyError, provider_error
from multiturn.model.turns import Call
from multiturn.providers.base import ProviderResponse
from multiturn.providers.replies import Typed, counts


def called(call_id: str, name: str, arguments: Any) -> Call:
    """Return a call of an answer; arguments that are no JSON object, as models write, stay text."""
    with suppress(ValueError):
        arguments = msgspec.json.decode(arguments or "{}", type=dict[str, Any])
    return Call(call_id, name, arguments)


class _Function(Struct):
    name: str
    arguments: Any = None


class _Call(Struct):
    id: str
    function: _Function


class _Message(Struct):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(Struct):
    message: _Message
    finish_reason: str | None = None


class ChatAnswer(Struct):
    """An answer of the API."""

    choices: Annotated[list[_Choice], Meta(min_length=1)]
    usage: Any = None


def answer_of_chat(answer: ChatAnswer) -> ProviderResponse:
    """Return the first choice of an answer; a refusal by the model is an answer, too."""
    choice = answer.choices[0]
    message = choice.message
    return ProviderResponse(
        text=message.content or message.refusal or "",
        tool_calls=tuple(
            called(call.id, call.function.name, call.function.arguments)
            for call in message.tool_calls or ()
        ),
        usage=counts(
            answer.usage,
            input_tokens="prompt_tokens",
            output_tokens="completion_tokens",
            cached_tokens="prompt_tokens_details.cached_tokens",
        ),
        finish_reason=choice.finish_reason,
        is_refusal=bool(message.refusal) or choice.finish_reason == "content_filter",
    )


_KINDS = {"rate_limit_exceeded": "rate_limit"}  # of errors, by the vendor's code


class _Error(Struct):
    code: str
    message: str


class _Text(Struct, tag_field="type", tag="output_text"):
    text: str


class _Refusal(Struct, tag_field="type", tag="refusal"):
    refusal: str


class _Said(Struct, tag_field="type", tag="message"):
    content: list[_Text | _Refusal]


class _Called(Struct, tag_field="type", tag="function_call"):
    call_id: str
    name: str
    arguments: Any = None


class _Incomplete(Struct):
    reason: str | None = None


class ResponsesAnswer(Struct):
    """An answer of the API."""

    output: list[dict[str, Any]] | None = None
    status: str | None = None  # other servers may leave it out
    error: _Error | None = None
    incomplete_details: _Incomplete | None = None
    usage: Any = None


def answer_of_response(answer: ResponsesAnswer) -> ProviderResponse:
    """Return what an answer says; a refusal by the model is an answer, too.

    Raises:
        ProviderError: the vendor says that there is none.
    """
    if error := answer.error:
        kind = _KINDS.get(error.code, "http")
        raise provider_error(kind, f"{error.code}: {error.message}")
    if answer.status not in ("completed", "incomplete", None):
        what = f"the response is no answer: its status is {answer.status!r}"
        raise MalformedReplyError(what)
    if answer.output is None:
        raise ValueError("there is no output")
    kinds = [item.type for item in msgspec.convert(answer.output, list[Typed])]
    items = [
        msgspec.convert(item, _Said | _Called)
        for item, kind in zip(answer.output, kinds, strict=True)
        if kind in ("message", "function_call")
    ]
    parts = [part for item in items if isinstance(item, _Said) for part in item.content]
    said = "".join(part.text for part in parts if isinstance(part, _Text))
    refused = "".join(part.refusal for part in parts if isinstance(part, _Refusal))
    details = answer.incomplete_details
    stopped = (details and details.reason) or answer.status
    return ProviderResponse(
        text=said or refused,
        tool_calls=tuple(
            called(item.call_id, item.name, item.arguments)
            for item in items
            if isinstance(item, _Called)
        ),
        thinking=[item for item in answer.output if item.get("type") == "reasoning"],
        usage=counts(
            answer.usage,
            input_tokens="input_tokens",
            output_tokens="output_tokens",
            cached_tokens="input_tokens_details.cached_tokens",
            cache_write_tokens="input_tokens_details.cache_write_tokens",
        ),
        finish_reason=stopped,
        is_refusal=bool(refused) or stopped == "content_filter",
    )
