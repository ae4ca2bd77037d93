"""One case of a run: what is sent for it, and its result."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import UNSET, Struct
from msgspec.structs import replace

from multiturn.engine.outcomes import converted
from multiturn.errors import MultiturnError, ProviderError
from multiturn.model.case import Case
from multiturn.model.turns import is_blank
from multiturn.pipelines.pipeline import Pipeline, request_of
from multiturn.providers.base import ProviderResponse, TargetProvider, Wire
from multiturn.providers.results import Failure, RawRequest, Result, is_stored
from multiturn.providers.tokens import Tokens
from multiturn.text import utf8

Action = Literal["send", "reuse", "skip", "refuse", "unreadable"]


class Delivery(Struct, frozen=True):
    """One case on its way to a provider.

    Attributes:
        action: what is done with it: ``send``; ``reuse``, as the results file has its answer;
            ``skip``, as its request was the same at the Git revision; ``refuse``, as it cannot be
            converted, or the provider's rules forbid it; ``unreadable``, as the suite is wrong.
        result: what is known of its result so far, such as repairs, digest and error. Its ``id`` is
            empty if an error belongs to no case.
        wire: the request; ``wire.body`` is the exact body. None if there is an error.
        where: the place of the case in its suite.
        tokens: how many tokens the request has, estimated or counted; None if there is an error, or
            nothing needs to know it.
        error: the exception, if the case cannot be read or converted.
    """

    action: Action
    result: Result
    wire: Wire | None = None
    where: str = ""
    error: Exception | None = None
    tokens: Tokens | None = None

    @property
    def has_result(self) -> bool:
        """Whether this run has a result for the case: an answer, or an error."""
        return self.action not in ("reuse", "skip")


def request_size(delivery: Delivery) -> int:
    """Return the bytes of a request; 0 where there is none."""
    return 0 if delivery.wire is None else len(delivery.wire.shown)


def unreadable(error: MultiturnError, suite: str, target: str) -> Delivery:
    """Return the delivery of a case that cannot be read, or of an error that belongs to no case."""
    failure = Failure("conversion", utf8(str(error)))
    result = Result(suite=utf8(suite), id=error.case_id or "", target=target, error=failure)
    return Delivery("unreadable", result, error=error)


def prepare(
    case: Case,
    pipeline: Pipeline,
    provider: TargetProvider,
    *,
    strict: bool = False,
    with_tokens: bool = True,
) -> Delivery:
    """Convert a case and prepare its request, without sending anything.

    If strict, text that is lost without a rule is an error.
    """
    result = Result(
        suite=utf8(case.suite),
        id=case.id,
        target=provider.name,
        outcome=_if_given(case.outcome),
        expected_messages=_if_given(case.expected_messages),
        conversation_id=_if_given(case.conversation_id),
    )
    where = str(case.where())
    try:
        request = request_of(converted(case, pipeline, strict=strict))
    except Exception as error:  # a custom stage may raise anything
        message = str(error) if isinstance(error, MultiturnError) else repr(error)
        result = replace(result, error=Failure("conversion", utf8(message)))
        return Delivery("refuse", result, where=where, error=error)
    system = request.system if request.chat_prompt is None else UNSET
    asked_for = RawRequest(
        request.question,
        request.guidelines,
        request.chat_prompt,
        system,
        request.tools or UNSET,
        tuple(file for file in request.input_files if file.media is not None) or UNSET,
    )
    result = replace(result, raw_request=asked_for)
    try:
        wire = provider.wire(request)
        result = replace(result, repairs=wire.repairs, digest=wire.digest())
        tokens = provider.tokens(wire) if with_tokens else None
    except Exception as error:  # so may a custom provider
        return Delivery("refuse", failed(result, where, error), where=where)
    return Delivery("send", result, wire, where, tokens=tokens)


def _if_given(value: Any) -> Any:
    return UNSET if value is None else value


def unless_known(
    delivery: Delivery, stored: Mapping[bytes, str], earlier: Mapping[bytes, str]
) -> Delivery:
    """Return a delivery that is not sent again if its request was answered, or is unchanged.

    Args:
        delivery: as ``prepare`` returns it.
        stored: the digests of answered requests, by the keys of their results.
        earlier: the digests of the requests at a revision, by such keys.
    """
    if is_stored(delivery.result, stored):
        return replace(delivery, action="reuse")
    if is_stored(delivery.result, earlier):
        return replace(delivery, action="skip")
    return delivery


def failed(result: Result, where: str, error: Exception) -> Result:
    """Return the result of a case without an answer; ``where`` is the place of the case."""
    if not isinstance(error, ProviderError):
        error = ProviderError(f"{type(error).__name__}: {error}", kind="provider")
    message = utf8(f"{where}: {error.what}")
    return replace(result, error=Failure(error.kind, message), retries=error.retries)


def answered(result: Result, answer: ProviderResponse, *, with_thinking: bool = False) -> Result:
    """Return the result of a case with an answer; without text, calls are one, too."""
    kind = "refusal" if answer.is_refusal else "text"
    if kind == "text" and is_blank(answer.text):
        kind = "calls" if answer.tool_calls else "empty"
    return replace(
        result,
        response=utf8(answer.text),
        answer=kind,
        tool_calls=answer.tool_calls or UNSET,
        thinking=answer.thinking if with_thinking and answer.thinking else UNSET,
        finish_reason=answer.finish_reason,
        usage=answer.usage,
        retries=answer.retries,
    )
