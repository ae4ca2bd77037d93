"""One case at a time: from what a program has to the request, and to the answer."""

from typing import Any

from multiturn.engine.given import Given, case_of
from multiturn.engine.run import RunCase, prepare_case, want
from multiturn.errors import ProviderError
from multiturn.model.case import Case
from multiturn.pipelines.pipeline import Pipeline
from multiturn.providers.base import Provider, ProviderResponse
from multiturn.providers.custom import complete


def prepare(
    case: Given, pipeline: Pipeline, provider: Provider, *, with_tokens: bool = True
) -> RunCase:
    """Return the request of a case as it would be sent; nothing is sent.

    ``wire.body`` of it is the exact body, ``wire.digest()`` a hash that keys are no part of,
    ``result.repairs`` what the rules of the vendor have changed, and ``tokens`` its size.

    Args:
        case: a case, or a mapping that ``case_of`` makes one of.
        pipeline: as ``load_pipeline`` gives it.
        provider: as ``load_target`` gives it, or one of your own.
        with_tokens: whether to count tokens, which takes about as long as all else.

    Raises:
        TypeError: an argument has the wrong type.
        ProviderError: the rules of the vendor refuse the request; it names all that are broken.
        MultiturnError: the mapping is no case, or the pipeline cannot convert it.
    """
    case = case if isinstance(case, Case) else case_of(case)
    want(pipeline, Pipeline, "pipeline must be a Pipeline, as load_pipeline gives it")
    found = prepare_case(case, pipeline, complete(provider), with_tokens=with_tokens)
    if isinstance(found.error, ProviderError):
        found.error.at(case.where(), case.id)
    if found.error is not None:
        raise found.error
    return found


async def send(case: Given, pipeline: Pipeline, provider: Provider) -> ProviderResponse:
    """Send one case, and return the answer; many may be under way at once.

    The arguments are those of ``prepare``. A task that is cancelled ends its request.

    Raises:
        TypeError: an argument has the wrong type.
        ProviderError: there is no answer; its ``kind`` says why, in the words of results.
        MultiturnError: as ``prepare`` does.
    """
    case = case if isinstance(case, Case) else case_of(case)
    wire: Any = prepare(case, pipeline, provider, with_tokens=False).wire
    try:
        return await complete(provider).send(wire)
    except ProviderError as error:
        error.at(case.where(), case.id)
        raise
