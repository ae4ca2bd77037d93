"""From cases to results: convert, send, many at a time; an error stops only its own case."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import aclosing, suppress
from itertools import chain, islice
from pathlib import Path
from time import perf_counter
from typing import Unpack, get_args

from msgspec import UNSET
from msgspec.structs import replace

from multiturn.engine.arguments import want
from multiturn.engine.counting import counted
from multiturn.engine.delivery import Delivery, answered, failed
from multiturn.engine.order import Order, Queue, in_order
from multiturn.engine.run import Run, RunOptions
from multiturn.errors import ENDS_RUN, ProviderError
from multiturn.model.case import Case
from multiturn.pipelines.pipeline import Pipeline
from multiturn.providers.base import Provider
from multiturn.providers.results import Result


async def run(
    cases: Iterable[Case] | str | Path,
    pipeline: Pipeline | str | Path | None,
    provider: Provider,
    *,
    results: str | Path | None = None,
    concurrency: int = 8,
    order: Order = "prefixes",
    **options: Unpack[RunOptions],
) -> AsyncIterator[Result]:
    """Yield the result of each case as soon as there is an answer, in no order.

    Cases are read one by one; memory holds those that wait for an answer, and where their order is
    changed at most 1,000 others, or 16 MiB of their requests. A case that cannot be read or
    converted, or gets no answer, yields a result with an error. The ``id`` of that is empty if the
    error belongs to no case, such as that of a suite that is not YAML. After an error of the type
    ``access_denied``, ``target`` or ``unreachable``, no more cases are sent.

    Args:
        cases: the cases, which may be a generator; or the path of a suite or of a folder, whose
            root is then the project's.
        pipeline: the pipeline, its name or the path of its file; None for the project's, else
            ``spec``.
        provider: answers the requests.
        results: path of the file to append each result to, before it is yielded; without ``resume``
            it must be new or empty.
        concurrency: maximum number of concurrent requests.
        order: ``prefixes`` sends cases whose prompts begin in the same way one after another, if
            the vendor may cache that, and the first of them before the others; ``suite`` keeps the
            order of the suites.
        options: any of those below, each of which is off by default.
        resume: continue the file of results: a case that succeeded there and whose request is
            unchanged is not sent, and yields nothing.
        against: a Git revision: a case whose request was the same there is not sent, and yields
            nothing. Needs the path of a suite, and a pipeline's name or path.
        record_wire: add the exact body to each result.
        record_thinking: add what the model thought to each result, as the vendor sent it.
        max_cost: the most that the run may cost, in dollars: if the input alone costs more, nothing
            is sent; later, no more requests are.
        max_tokens: likewise, the most tokens, input and output together.
        prices: path of a file with prices, which wins over those of the package genai-prices.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: ``concurrency`` is below 1, a limit is not above 0, or arguments do not go
            together.
        MultiturnError: there is no such suite, pipeline or revision; the provider's program is
            not installed; the file of results is not one, or belongs to another run; or the run
            would exceed a limit.
        LimitReachedError: the run has reached a limit; after the requests under way are done.
        OSError: the file of results cannot be written.
        Exception: whatever a generator of cases raises, after the requests under way are done.
    """
    want(concurrency, int, "concurrency must be a whole number")
    if concurrency < 1:
        raise ValueError("concurrency must be 1 or more")
    if order not in get_args(Order):
        raise ValueError(f"order must be one of {', '.join(get_args(Order))}")
    with Run(cases, pipeline, provider, results=results, **options) as opened:
        async with aclosing(answers(opened, concurrency=concurrency, order=order)) as deliveries:
            async for delivery in deliveries:
                if delivery.has_result:
                    yield delivery.result


def dry_run(
    cases: Iterable[Case] | str | Path,
    pipeline: Pipeline | str | Path | None,
    provider: Provider,
    *,
    results: str | Path | None = None,
    resume: bool = False,
    against: str | None = None,
    count_tokens: bool = False,
) -> Iterator[Delivery]:
    """Return an iterator over what ``run`` would do with each case; nothing is sent or written.

    The arguments and errors are those of ``run``; but with ``count_tokens``, it asks the vendor how
    many tokens each request has, and has an event loop of its own: inside another one, call it in a
    thread, as ``run_batches``.
    """
    given = (cases, pipeline, provider)
    dry = Run(*given, results=results, resume=resume, against=against, is_dry=True)
    return counted(dry) if count_tokens else dry.deliveries()


def answers(run: Run, *, concurrency: int, order: Order) -> AsyncGenerator[Delivery, None]:
    """Send the cases of a run that is open; yield each with its result, which is then in the file.

    A case that is not sent is yielded, too.

    Raises:
        MultiturnError: the run would exceed a limit; nothing is sent.
        LimitReachedError: it would exceed one if it went on; after the requests under way are done.
    """
    run.check_budget()
    deliveries = run.deliveries()
    # The first case may come through a pipe. Ctrl-C ends the wait for it only outside the event
    # loop, which answers the first Ctrl-C by cancelling a task that never gets to run.
    first = list(islice(deliveries, 1))
    return _answers(run, in_order(chain(first, deliveries), run.provider, order), concurrency)


async def _answers(run: Run, deliveries: Queue, concurrency: int) -> AsyncGenerator[Delivery, None]:
    under_way: dict[asyncio.Task[Delivery], Delivery] = {}
    failure, is_over = None, False
    try:
        while under_way or not is_over:
            if is_over or deliveries.is_waiting or len(under_way) == concurrency:
                await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            else:
                try:
                    delivery = next(deliveries)
                    if delivery is not None and delivery.has_result:
                        run.budget.begin(delivery)
                except StopIteration:
                    is_over = True
                except Exception as error:  # raised once the requests under way are done
                    failure, is_over = error, True
                else:
                    if delivery is not None and delivery.has_result:
                        under_way[asyncio.create_task(_send(delivery, run))] = delivery
                    elif delivery is not None:
                        yield delivery
                await asyncio.sleep(0)  # reading blocks the event loop: let the requests continue
            for task in filter(asyncio.Task.done, [*under_way]):
                deliveries.answered(under_way.pop(task))
                result = task.result().result
                run.keep(task.result())
                is_over |= result.error is not None and result.error.type in ENDS_RUN
                yield task.result()
        if failure is not None:
            raise failure
    finally:
        arrived = [task for task in under_way if task.done()]
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        for task in arrived:  # nobody reads it any more, but it may have been paid for
            run.keep(task.result())


async def _send(delivery: Delivery, run: Run) -> Delivery:
    """Return a case with its result."""
    if delivery.wire is None:
        return delivery
    with suppress(Exception):  # send meets the same error, and reports it
        await run.provider.prepare()
    start = perf_counter()
    sent = b""
    try:
        answer = await run.provider.send(delivery.wire)
        result = answered(delivery.result, answer, with_thinking=run.record_thinking)
        sent = answer.wire
    # A library may raise CancelledError, which must not end the run. Where the run itself cancels
    # this task, at its end, nobody reads the result.
    except (Exception, asyncio.CancelledError) as error:
        if isinstance(error, ProviderError):
            sent = error.wire
        failure = error if isinstance(error, Exception) else RuntimeError("it was cancelled")
        result = failed(delivery.result, delivery.where, failure)
    latency = round((perf_counter() - start) * 1000, 1)
    body = sent.decode("utf-8", "replace") if run.record_wire and sent else UNSET
    return replace(delivery, result=replace(result, latency_ms=latency, wire=body))
