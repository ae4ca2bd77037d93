"""The Batch API of OpenAI, of servers with its API, and of Azure OpenAI."""

import asyncio
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
from multiturn.providers.client import readable, status_error

_UNPROCESSED = ("notRunning", "pending", "running")  # Azure refuses a batch of such a file


class _Response(Struct):
    status_code: int = 0
    body: Raw = Raw(b"null")


class _Line(Struct):
    response: _Response | None = None
    error: VendorError | None = None


class OpenAIBatchApi(BatchApi):
    """The requests are uploaded as files, and each batch has a token in its metadata."""

    most_requests = 50_000
    most_bytes = 200_000_000

    @property
    def url(self) -> str:
        """The path in each line."""
        return f"/v1{self.provider.path}"

    @property
    def endpoint(self) -> str:
        """The path of the whole batch."""
        return self.url

    def line(self, digest: str, body: bytes) -> bytes:
        """Return a line with ``custom_id``, ``method``, ``url`` and ``body``."""
        names = (digest.encode(), self.url.encode(), body)
        return b'{"custom_id":"%s","method":"POST","url":"%s","body":%s}' % names

    async def prepare(self, client: Any, part: BatchPart, file: BinaryIO) -> BatchPart:
        """Upload a file for batches, and wait until it is processed."""
        named = (f"multiturn-{part.token}.jsonl", file, "application/jsonl")
        found = await client.files.create(file=named, purpose="batch")
        while found.status in _UNPROCESSED:
            await asyncio.sleep(1)
            found = await client.files.retrieve(found.id)
        return replace(part, file=found.id)

    async def create(self, client: Any, part: BatchPart, file: BinaryIO | None) -> str:
        """Create a batch of the uploaded file."""
        batch = await client.with_options(max_retries=0).batches.create(
            input_file_id=part.file,
            endpoint=self.endpoint,
            completion_window="24h",
            metadata={
                "multiturn": part.token,
                "provider": self.provider.kind,
                "target": self.provider.name[:512],
            },
        )
        return str(batch.id)

    async def find(
        self, client: Any, part: BatchPart, others: Collection[str], digests: Callable[[], set[str]]
    ) -> BatchSearch:
        """Return the batch with the token, or of the part's own file."""
        async for batch in client.batches.list(limit=100):
            token = (batch.metadata or {}).get("multiturn")
            if token == part.token or batch.input_file_id == part.file:
                return BatchSearch(batch.id)
        return BatchSearch()

    async def status_of(self, client: Any, batch: str) -> BatchStatus:
        """Return the status, the counts and the two files of results."""
        found = await client.batches.retrieve(batch)
        counts, errors = found.request_counts, (found.errors and found.errors.data) or ()
        whys = (f"{error.code}: {error.message}" for error in errors)
        return BatchStatus(
            state=found.status,
            ended=found.status in ("completed", "failed", "expired", "cancelled"),
            answered=counts and counts.completed + counts.failed,
            files=tuple(filter(None, (found.output_file_id, found.error_file_id))),
            why=readable("; ".join(whys), self.provider.secrets),
        )

    async def fetch(self, client: Any, status: BatchStatus, file: BinaryIO) -> None:
        """Write the output file, then the error file."""
        for name in status.files:
            async with client.files.with_streaming_response.content(name) as response:
                async for piece in response.iter_bytes():
                    file.write(piece)
            file.write(b"\n")

    async def cancel(self, client: Any, batch: str) -> None:
        """Cancel a batch."""
        await client.batches.cancel(batch)

    def read(self, line: bytes) -> ProviderResponse:
        """Return the answer; an error is in the body of the response, or beside it."""
        found = self.decode(line, _Line)
        response = found.response
        if response is None or not response.status_code:
            raise self.error(found.error, "batch")
        if response.status_code == 200:
            return self.provider.answer(bytes(response.body))
        text = bytes(response.body).decode("utf-8", "replace")
        raise status_error(response.status_code, text, self.provider.secrets)


class AzureBatchApi(OpenAIBatchApi):
    """The same with other paths. A file is for one deployment, as a target is."""

    most_requests = 100_000
    # Azure's guide wants this one of a batch for the Responses API, too (any-llm #1348).
    endpoint = "/chat/completions"

    @property
    def url(self) -> str:
        """The path in each line."""
        return self.endpoint if self.provider.path == self.endpoint else super().url
