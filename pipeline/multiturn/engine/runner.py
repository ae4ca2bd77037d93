"""From cases to results: convert, send, many at a time; an error stops only its own case."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from multiturn.case import Case
from multiturn.engine.project import load_pipeline, load_suite
from multiturn.errors import MultiturnError
from multiturn.pipelines.pipeline import Pipeline
from multiturn.providers.base import (
    Provider,
    ProviderError,
    ProviderResponse,
    TargetProvider,
    Wire,
)
from multiturn.providers.custom import complete
from multiturn.providers.results import Failure, RawRequest, Result
from multiturn.text import utf8


class Prepared(Struct, frozen=True):
    """A case that is ready to be sent, or has an error."""

    case: Case
    result: Result  # what is known before sending; has the error, if there is one
    wire: Wire | None = None  # None if there is an error


def prepare(case: Case, pipeline: Pipeline, provider: TargetProvider) -> Prepared:
    """Convert a case and prepare its request, without sending anything."""
    result = Result(
        suite=utf8(case.suite),
        id=case.id,
        target=provider.name,
        conversation_id=UNSET if case.conversation_id is None else case.conversation_id,
    )
    try:
        request = pipeline.request(case)
    except Exception as error:  # a custom stage may raise anything
        message = str(error) if isinstance(error, MultiturnError) else repr(error)
        return Prepared(case, replace(result, error=Failure("conversion", utf8(message))))
    asked_for = RawRequest(request.question, request.guidelines, request.chat_prompt)
    result = replace(result, raw_request=asked_for)
    try:
        wire = provider.wire(request)
        result = replace(result, repairs=wire.repairs, digest=wire.digest())
    except Exception as error:  # so may a custom provider
        return Prepared(case, failed(result, str(case.where()), error))
    return Prepared(case, result, wire)


def failed(result: Result, where: str, error: Exception) -> Result:
    """Return the result of a case without an answer; ``where`` is the place of the case."""
    if not isinstance(error, ProviderError):
        error = ProviderError(f"{type(error).__name__}: {error}", kind="provider")
    message = utf8(f"{where}: {error.what}")
    return replace(result, error=Failure(error.kind, message), retries=error.retries)


def answered(result: Result, answer: ProviderResponse) -> Result:
    """Return the result of a case with an answer."""
    return replace(
        result,
        response=utf8(answer.text),
        finish_reason=answer.finish_reason,
        usage=answer.usage,
        retries=answer.retries,
    )


async def _send(prepared: Prepared, provider: TargetProvider, record_wire: bool) -> Result:
    """Return the result of one case."""
    if prepared.wire is None:
        return prepared.result
    with suppress(Exception):  # send fails alike, and says why
        await provider.prepare()
    start = perf_counter()
    sent = b""
    try:
        answer = await provider.send(prepared.wire)
        result = answered(prepared.result, answer)
        sent = answer.wire
    except (Exception, asyncio.CancelledError) as error:  # a library's, or that of run, at its end
        if isinstance(error, ProviderError):
            sent = error.wire
        failure = error if isinstance(error, Exception) else RuntimeError("it was cancelled")
        result = failed(prepared.result, str(prepared.case.where()), failure)
    latency = round((perf_counter() - start) * 1000, 1)
    body = sent.decode("utf-8", "replace") if record_wire and sent else UNSET
    return replace(result, latency_ms=latency, wire=body)


async def run(
    cases: Iterable[Case] | str | Path,
    pipeline: Pipeline | str | Path | None,
    provider: Provider,
    *,
    concurrency: int = 8,
    skip: Callable[[Result], bool] | None = None,
    record_wire: bool = False,
) -> AsyncIterator[Result]:
    """Yield the result of each case as soon as there is an answer, in no order.

    Cases are read one by one, so memory holds only those that wait for an answer. A case that
    cannot be converted or gets no answer yields a result with an error.

    Args:
        cases: the cases, which may be a generator; or the path of a suite, whose root is then the
            project's.
        pipeline: the pipeline, its name or the path of its file; None for the project's, else
            ``spec``.
        provider: answers the requests.
        concurrency: maximum number of concurrent requests.
        skip: called with what is known of each result before sending, as its digest; where it
            returns true, the case is not sent and yields nothing.
        record_wire: add the exact body to each result.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: ``concurrency`` is below 1.
        MultiturnError: the provider's SDK or program is not installed, or the pipeline is wrong.
        Exception: whatever ``cases`` raises, after the requests under way are done; for the path
            of a suite, its first error. ``load_suite(path, on_error=print)`` skips errors.
    """
    _want(concurrency, int, "concurrency must be a whole number")
    if concurrency < 1:
        raise ValueError("concurrency must be 1 or more")
    asked = complete(provider)
    if not isinstance(pipeline, Pipeline):
        _want(pipeline, str | Path | None, "pipeline must be a Pipeline, or its name or path")
        pipeline = load_pipeline(pipeline)
    if isinstance(cases, str | Path):
        cases = load_suite(cases)
    _want(cases, Iterable, "cases must be an iterable of Case, or the path of a suite")
    asked.check()
    source = iter(cases)
    under_way: list[asyncio.Task[Result]] = []
    failure, is_over = None, False
    try:
        while under_way or not is_over:
            if is_over or len(under_way) == concurrency:
                await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            else:
                try:
                    case = next(source)
                    _want(case, Case, "each of the cases must be a Case, as load_suite gives it")
                    prepared = prepare(case, pipeline, asked)
                    if not (skip and prepared.result.error is None and skip(prepared.result)):
                        sending = _send(prepared, asked, record_wire)
                        under_way.append(asyncio.create_task(sending))
                except StopIteration:
                    is_over = True
                except Exception as error:  # requests under way still finish
                    failure, is_over = error, True
                await asyncio.sleep(0)  # let them go on
            for task in filter(asyncio.Task.done, [*under_way]):
                under_way.remove(task)
                yield task.result()
        if failure is not None:
            raise failure
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


def _want(value: object, kind: Any, words: str) -> None:
    """Raise a TypeError if an argument has the wrong type."""
    if not isinstance(value, kind):
        raise TypeError(f"{words}, not {type(value).__name__}")
