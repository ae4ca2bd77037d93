"""Requests of a dry run whose tokens the vendor counts."""

import asyncio
from collections.abc import Iterator
from itertools import islice

from msgspec.structs import replace

from multiturn.engine.arguments import want_no_loop
from multiturn.engine.delivery import Delivery, failed
from multiturn.engine.run import Run
from multiturn.errors import ENDS_RUN, ProviderError
from multiturn.providers.counting import count_tokens, counter_of
from multiturn.providers.http import HttpProvider


def counted(run: Run, *, concurrency: int = 8) -> Iterator[Delivery]:
    """Yield each case in the order of the suites, with the tokens that the vendor counts.

    A case that the vendor does not count has an error. It has an event loop of its own, of which
    nothing is open while a case is yielded: an iterator may be kept until the program ends.

    Raises:
        MultiturnError: the vendor counts no tokens.
        RuntimeError: it is called inside an event loop.
    """
    want_no_loop("dry_run")
    provider, deliveries = counter_of(run.provider), run.deliveries()
    while some := list(islice(deliveries, concurrency)):
        for delivery in asyncio.run(_counts(some, provider)):
            yield delivery
            if delivery.result.error is not None and delivery.result.error.type in ENDS_RUN:
                return


async def _counts(deliveries: list[Delivery], provider: HttpProvider) -> list[Delivery]:
    async with provider:
        return await asyncio.gather(*(_count(delivery, provider) for delivery in deliveries))


async def _count(delivery: Delivery, provider: HttpProvider) -> Delivery:
    """Return a case with the vendor's count; one that is not sent stays as it is."""
    if delivery.action != "send" or delivery.wire is None:
        return delivery
    try:
        return replace(delivery, tokens=await count_tokens(provider, delivery.wire))
    except ProviderError as error:
        result = failed(delivery.result, delivery.where, error)
        return replace(delivery, action="refuse", result=result, wire=None, tokens=None)
