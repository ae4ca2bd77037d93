"""The Message Batches API of Anthropic: a batch is created by one request, and has no name."""

from collections.abc import AsyncIterator, Callable, Collection
from tempfile import TemporaryFile
from typing import Any, BinaryIO

from msgspec import Raw, Struct
from msgspec.structs import replace

from multiturn.errors import ProviderError
from multiturn.providers.base import ProviderResponse
from multiturn.providers.batches.base import (
    BatchApi,
    BatchPart,
    BatchSearch,
    BatchStatus,
    VendorError,
    places,
)

_PATH = "/v1/messages/batches"


class _Errors(Struct):
    error: VendorError | None = None


class _Result(Struct):
    type: str = ""
    message: Raw = Raw(b"null")
    error: _Errors | None = None


class _Line(Struct):
    result: _Result


class AnthropicBatchApi(BatchApi):
    """The requests are not uploaded as a file first."""

    most_requests = 100_000
    most_bytes = 8_000_000  # 256 MB are allowed, but a request that fails is sent again as a whole
    frame = (b'{"requests":[', b",", b"]}")

    def line(self, digest: str, body: bytes) -> bytes:
        """Return a request with ``custom_id`` and ``params``."""
        return b'{"custom_id":"%s","params":%s}' % (digest.encode(), body)

    async def prepare(self, client: Any, part: BatchPart, file: BinaryIO) -> BatchPart:
        """Note the newest batch."""
        page = await client.messages.batches.list(limit=1)
        return replace(part, after=page.data[0].id if page.data else "")

    async def create(self, client: Any, part: BatchPart, file: BinaryIO | None) -> str:
        """Create a batch of the requests, byte for byte."""
        from anthropic.types.messages import MessageBatch

        assert file is not None  # noqa: S101 - nothing is uploaded earlier
        once = client.with_options(max_retries=0)
        headers = {"content-length": str(part.size), "content-type": "application/json"}
        options = {"headers": headers}
        batch = await once.post(_PATH, content=_pieces(file), options=options, cast_to=MessageBatch)
        return str(batch.id)

    async def find(
        self, client: Any, part: BatchPart, others: Collection[str], digests: Callable[[], set[str]]
    ) -> BatchSearch:
        """Return the batch created after ``part.after`` whose results have the part's digests."""
        undecided = []
        async for batch in client.messages.batches.list(limit=100):  # the newest first
            if batch.id == part.after:
                break
            status = _status(batch)
            total = batch.request_counts.processing + (status.answered or 0)
            if batch.id in others or total != part.requests:
                continue
            if not status.ended:
                undecided.append(batch.id)
            elif await self._answered(client, status) == digests():
                return BatchSearch(batch.id)
        return BatchSearch(undecided=tuple(undecided))

    async def _answered(self, client: Any, status: BatchStatus) -> set[str]:
        with TemporaryFile() as file:
            await self.fetch(client, status, file)
            return set(places(file))

    async def status_of(self, client: Any, batch: str) -> BatchStatus:
        """Return the status and the counts, which are 0 until the batch has ended."""
        return _status(await client.messages.batches.retrieve(batch))

    async def fetch(self, client: Any, status: BatchStatus, file: BinaryIO) -> None:
        """Write the results, fetched from the target's address: a URL in an answer gets no key."""
        import httpx2

        for name in status.files:
            path = f"{_PATH}/{name}/results"
            response = await client.get(path, cast_to=httpx2.Response, stream=True)
            try:
                async for piece in response.aiter_bytes():
                    file.write(piece)
            finally:
                await response.aclose()

    async def cancel(self, client: Any, batch: str) -> None:
        """Cancel a batch."""
        await client.messages.batches.cancel(batch)

    def read(self, line: bytes) -> ProviderResponse:
        """Return the message of a request that succeeded."""
        result = self.decode(line, _Line).result
        if result.type == "succeeded":
            return self.provider.answer(bytes(result.message))
        if result.error is None:
            what = f"batch_{result.type}: the batch ended without an answer to this request"
            raise ProviderError(what, kind="batch")
        error = result.error.error
        limited = error is not None and error.type == "rate_limit_error"
        raise self.error(error, "rate_limit" if limited else "http")


async def _pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    """Yield the content of a file, which the SDK would keep several times."""
    file.seek(0)
    while piece := file.read(2**16):
        yield piece


def _status(batch: Any) -> BatchStatus:
    counts, state = batch.request_counts, batch.processing_status
    return BatchStatus(
        state=state,
        ended=state == "ended",
        answered=counts.succeeded + counts.errored + counts.canceled + counts.expired,
        files=(batch.id,) if batch.results_url else (),
    )
