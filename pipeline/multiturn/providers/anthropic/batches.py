"""The Message Batches API of Anthropic: a batch is created by one request, and has no name."""

import os
from collections.abc import Callable, Collection
from tempfile import TemporaryFile
from typing import Any, BinaryIO
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from multiturn.errors import BatchEndedError
from multiturn.providers import batch_api as api
from multiturn.providers.base import ProviderResponse
from multiturn.providers.batch_api import BatchApi, BatchPart
from multiturn.providers.client import Upload

_PATH = "/v1/messages/batches"


class _Counts(Struct):
    processing: int = 0
    succeeded: int = 0
    errored: int = 0
    canceled: int = 0
    expired: int = 0


class _Batch(Struct):
    id: str
    processing_status: str
    request_counts: _Counts
    results_url: str | None = None


class _Page(Struct):
    data: list[_Batch]
    has_more: bool = False
    last_id: str | None = None

    @property
    def after(self) -> str:
        return (self.has_more and self.last_id) or ""


class _Errors(Struct):
    error: api.VendorError | None = None


class _Result(Struct):
    type: str
    message: Any = None
    error: _Errors | None = None


class _Line(Struct):
    result: _Result


class AnthropicBatchApi(BatchApi):
    """The requests are not uploaded as a file first."""

    batch_type, page_type, line_type = _Batch, _Page, _Line
    most_requests = 100_000
    most_bytes = 8_000_000  # 256 MB are allowed, but a request that fails is sent again as a whole
    form = b'{"custom_id":"%s","params":%s}'
    frame = (b'{"requests":[', b",", b"]}")

    async def prepare(self, part: BatchPart, file: BinaryIO) -> BatchPart:
        """Note the newest batch."""
        path = f"{_PATH}?limit=1"
        page = await self.provider.call("GET", path, _Page, lambda page: page)
        return replace(part, after=page.data[0].id if page.data else "")

    def creation(self, part: BatchPart, file: BinaryIO | None) -> tuple[str, Upload]:
        """Return the requests, byte for byte."""
        assert file is not None  # noqa: S101 - nothing is uploaded earlier
        return _PATH, Upload(file, 0, file.seek(0, os.SEEK_END))

    async def find(
        self, part: BatchPart, others: Collection[str], ids: Callable[[], set[str]]
    ) -> api.BatchSearch:
        """Return the batch created after ``part.after`` whose results have the part's ids."""
        undecided = []
        async for batch in self.listed():  # the newest first
            if batch.id == part.after:
                break
            status = self.status(batch)
            total = batch.request_counts.processing + (status.answered or 0)
            if batch.id in others or total != part.requests:
                continue
            if not status.ended:
                undecided.append(batch.id)
                continue
            with TemporaryFile() as file:
                await self.fetch(status, file)
                if set(api.places(file)) == ids():
                    return api.BatchSearch(batch.id)
        return api.BatchSearch(undecided=tuple(undecided))

    def listing(self, after: str) -> str:
        """Return the path of a page of the listing."""
        return f"{_PATH}?limit=100{after and f'&after_id={quote(after)}'}"

    def path_of(self, batch: str, action: str = "") -> str:
        """Return the path of a batch, or of what is done with it."""
        return "/".join(filter(None, (_PATH, quote(batch, safe=""), action)))

    def status(self, batch: _Batch) -> api.BatchStatus:
        """Return the status and the counts, which are 0 until the batch has ended."""
        counts, state = batch.request_counts, batch.processing_status
        return api.BatchStatus(
            state=state,
            ended=state == "ended",
            answered=counts.succeeded + counts.errored + counts.canceled + counts.expired,
            files=(batch.id,) if batch.results_url else (),
        )

    def path_of_file(self, name: str) -> str:
        """Return the path of the results of a batch."""
        return self.path_of(name, "results")

    def answer(self, line: _Line) -> ProviderResponse:
        """Return the message of a request that succeeded."""
        result = line.result
        if result.type == "succeeded":
            return self.provider.read_raw(result.message)
        if result.error is None:
            what = f"batch_{result.type}: the batch ended without an answer to this request"
            raise BatchEndedError(what)
        raise self.error(result.error.error)
