"""Requests of a dry run whose tokens the vendor counts."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator

from msgspec.structs import replace

from multiturn.engine.arguments import want_no_loop
from multiturn.engine.delivery import Delivery, failed
from multiturn.engine.run import Run
from multiturn.errors import ENDS_RUN, ProviderError
from multiturn.providers.counting import count_tokens, counter_of
from multiturn.providers.http import HttpProvider


def counted(run: Run, *, concurrency: int = 8) -> Iterator[Delivery]:
    """Yield each case in the order of the suites, with the tokens that the vendor counts.

    A case that the vendor does not count has an error. It has an event loop of its own.

    Raises:
        MultiturnError: the vendor counts no tokens, or its SDK is not installed.
        RuntimeError: it is called inside an event loop.
    """
    want_no_loop("dry_run")
    deliveries = _counted(run, counter_of(run.provider), concurrency)
    with asyncio.Runner() as runner:
        try:
            while (delivery := runner.run(_next(deliveries))) is not None:
                yield delivery
        finally:
            runner.run(deliveries.aclose())


async def _next(deliveries: AsyncGenerator[Delivery, None]) -> Delivery | None:
    return await anext(deliveries, None)


async def _counted(
    run: Run, provider: HttpProvider, concurrency: int
) -> AsyncGenerator[Delivery, None]:
    under_way: deque[asyncio.Task[Delivery]] = deque()
    async with provider:
        try:
            for delivery in run.deliveries():
                under_way.append(asyncio.create_task(_count(delivery, provider)))
                await asyncio.sleep(0)  # reading blocks the event loop: let the requests continue
                while under_way and (under_way[0].done() or len(under_way) >= concurrency):
                    done = await under_way.popleft()
                    yield done
                    if done.result.error is not None and done.result.error.type in ENDS_RUN:
                        return
            while under_way:
                yield await under_way.popleft()
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)


async def _count(delivery: Delivery, provider: HttpProvider) -> Delivery:
    """Return a case with the vendor's count; one that is not sent stays as it is."""
    if delivery.action != "send" or delivery.wire is None:
        return delivery
    try:
        return replace(delivery, tokens=await count_tokens(provider, delivery.wire))
    except ProviderError as error:
        result = failed(delivery.result, delivery.where, error)
        return replace(delivery, action="refuse", result=result, wire=None, tokens=None)
