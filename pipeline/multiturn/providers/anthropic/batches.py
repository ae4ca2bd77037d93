"""The Message Batches API of Anthropic: a batch is created by one request, and has no name."""

import os
from collections.abc import Callable, Collection
from tempfile import TemporaryFile
from typing import Any, BinaryIO

from msgspec.structs import replace

from multiturn.errors import BatchEndedError
from multiturn.providers import batch_api as api
from multiturn.providers.base import ProviderResponse
from multiturn.providers.batch_api import BatchApi, BatchPart
from multiturn.providers.client import Upload


class AnthropicBatchApi(BatchApi):
    """The requests are not uploaded as a file first."""

    most_requests = 100_000
    most_bytes = 8_000_000  # 256 MB are allowed, but a request that fails is sent again as a whole
    form = b'{"custom_id":"%s","params":%s}'
    frame = (b'{"requests":[', b",", b"]}")
    batches_path = "/v1/messages/batches"
    cursor = "after_id"

    async def prepare(self, part: BatchPart, file: BinaryIO) -> BatchPart:
        """Note the newest batch."""
        path = f"{self.batches_path}?limit=1"
        batches, _ = await self.provider.call("GET", path, self.read_page)
        return replace(part, after=batches[0].id if batches else "")

    def creation(self, part: BatchPart, file: BinaryIO | None) -> tuple[str, Upload]:
        """Return the requests, byte for byte."""
        assert file is not None  # noqa: S101 - nothing is uploaded earlier
        return self.batches_path, Upload(file, 0, file.seek(0, os.SEEK_END))

    async def find(
        self, part: BatchPart, others: Collection[str], ids: Callable[[], set[str]]
    ) -> api.BatchSearch:
        """Return the batch created after ``part.after`` whose results have the part's ids."""
        undecided = []
        async for batch in self.listed():  # the newest first
            if batch.id == part.after:
                break
            if batch.id in others or batch.requests != part.requests:
                continue
            if not batch.ended:
                undecided.append(batch.id)
                continue
            with TemporaryFile() as file:
                await self.fetch(batch, file)
                if set(api.places(file)) == ids():
                    return api.BatchSearch(batch.id)
        return api.BatchSearch(undecided=tuple(undecided))

    def status(self, batch: Any) -> api.BatchStatus:
        """Return the status and the counts, which are 0 until the batch has ended."""
        counts, state = batch["request_counts"], batch["processing_status"]
        done = ("succeeded", "errored", "canceled", "expired")
        answered = sum(counts.get(key, 0) for key in done)
        return api.BatchStatus(
            id=batch["id"],
            state=state,
            ended=state == "ended",
            answered=answered,
            requests=answered + counts.get("processing", 0),
            files=(batch["id"],) if batch.get("results_url") else (),
        )

    def path_of_file(self, name: str) -> str:
        """Return the path of the results of a batch."""
        return self.path_of(name, "results")

    def answer(self, line: Any) -> ProviderResponse:
        """Return the message of a request that succeeded."""
        result = line["result"]
        if result["type"] == "succeeded":
            return self.provider.read_raw(result.get("message"))
        if result.get("error") is None:
            what = f"batch_{result['type']}: the batch ended without an answer to this request"
            raise BatchEndedError(what)
        raise self.error(result["error"].get("error"))
