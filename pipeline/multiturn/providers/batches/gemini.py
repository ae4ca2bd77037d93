"""The Batch API of Gemini."""

import warnings
from collections.abc import Callable, Collection
from typing import Any, BinaryIO

from msgspec import Raw, Struct
from msgspec.structs import replace

from multiturn.providers.base import ProviderResponse
from multiturn.providers.batches.base import (
    BatchApi,
    BatchPart,
    BatchSearch,
    BatchStatus,
    VendorError,
)
from multiturn.providers.client import readable

_ENDED = ("succeeded", "partially_succeeded", "failed", "cancelled", "expired")
_LIMITED = (8, 429)  # codes of gRPC and of HTTP


class _Line(Struct):
    response: Raw = Raw()
    error: VendorError | None = None


class GeminiBatchApi(BatchApi):
    """The requests are uploaded as files, and each batch has a token in its name."""

    most_requests = 1_000_000
    most_bytes = 2_000_000_000

    def line(self, digest: str, body: bytes) -> bytes:
        """Return a line with ``key`` and ``request``."""
        return b'{"key":"%s","request":%s}' % (digest.encode(), body)

    async def prepare(self, client: Any, part: BatchPart, file: BinaryIO) -> BatchPart:
        """Upload a file, through the target's ``base_url`` if it has one."""
        address = self.provider.settings.base_url
        config = {"display_name": _name(part), "mime_type": "application/jsonl"}
        options = {"http_options": {"base_url": address}} if address else {}
        uploaded = await client.files.upload(file=file, config={**config, **options})
        return replace(part, file=uploaded.name)

    async def create(self, client: Any, part: BatchPart, file: BinaryIO | None) -> str:
        """Create a batch of the uploaded file."""
        once = {"http_options": {"retry_options": {"attempts": 1}}}
        with warnings.catch_warnings(action="ignore"):  # about unknown states
            batch = await client.batches.create(
                model=self.provider.settings.model,
                src=part.file,
                config={"display_name": _name(part), **once},
            )
        return str(batch.name)

    async def find(
        self, client: Any, part: BatchPart, others: Collection[str], digests: Callable[[], set[str]]
    ) -> BatchSearch:
        """Return the batch with the token in its name."""
        with warnings.catch_warnings(action="ignore"):  # about unknown states
            async for batch in await client.batches.list(config={"page_size": 100}):
                if batch.display_name == _name(part):
                    return BatchSearch(batch.name)
        return BatchSearch()

    async def status_of(self, client: Any, batch: str) -> BatchStatus:
        """Return the state; Gemini does not count."""
        with warnings.catch_warnings(action="ignore"):  # about unknown states
            found = await client.batches.get(name=batch)
        state = found.state.value.removeprefix("JOB_STATE_").removeprefix("BATCH_STATE_").lower()
        file = found.dest and found.dest.file_name
        return BatchStatus(
            state=state,
            ended=state in _ENDED,
            files=(file,) if file else (),
            why=readable((found.error and found.error.message) or "", self.provider.secrets),
        )

    async def fetch(self, client: Any, status: BatchStatus, file: BinaryIO) -> None:
        """Write the file of results."""
        for name in status.files:
            await client.files.download(file=name, destination=file)

    async def cancel(self, client: Any, batch: str) -> None:
        """Cancel a batch."""
        await client.batches.cancel(name=batch)

    def read(self, line: bytes) -> ProviderResponse:
        """Return the response."""
        found = self.decode(line, _Line)
        if found.response:
            return self.provider.answer(bytes(found.response))
        limited = found.error is not None and found.error.code in _LIMITED
        raise self.error(found.error, "rate_limit" if limited else "http")


def _name(part: BatchPart) -> str:
    return f"multiturn-{part.token}"
