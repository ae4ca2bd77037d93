"""The vendors' Batch APIs: a part of a run is sent as one batch, and answered within a day."""

from multiturn.errors import MultiturnError
from multiturn.providers.anthropic.batches import AnthropicBatchApi
from multiturn.providers.base import TargetProvider
from multiturn.providers.batch_api import BatchApi
from multiturn.providers.gemini.batches import GeminiBatchApi
from multiturn.providers.openai.batches import AzureBatchApi, OpenAIBatchApi

APIS: dict[str, type[BatchApi]] = {
    "openai": OpenAIBatchApi,
    "azure": AzureBatchApi,
    "anthropic": AnthropicBatchApi,
    "gemini": GeminiBatchApi,
}


def batches_of(provider: TargetProvider) -> BatchApi:
    """Return the Batch API of a target's provider.

    Raises:
        MultiturnError: its provider has none.
    """
    api = APIS.get(provider.kind)
    if api is None:
        what = f"the target {provider.name!r} has no batches; leave out --batch, or name a target"
        raise MultiturnError(f"{what} of one of these providers: {', '.join(APIS)}")
    return api(provider)
