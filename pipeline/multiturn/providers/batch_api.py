"""What the adapters of the vendors' Batch APIs share.

The creation of a batch is never retried: it may have been created although the answer was lost. The
caller first looks for it, with ``BatchApi.find``.
"""

import re
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import suppress
from typing import Any, BinaryIO, ClassVar, Protocol
from urllib.parse import quote

import msgspec
from msgspec import Struct, structs

from multiturn.errors import MalformedReplyError, ProviderError, provider_error
from multiturn.providers.base import LARGEST_ANSWER, ProviderResponse
from multiturn.providers.http import HttpProvider
from multiturn.providers.replies import readable, receive

_LIMITED = (8, 429)  # codes of gRPC and of HTTP, as Gemini says them
_MAY_PASS = ("timeout", "connection", "unreachable", "rate_limit", "malformed")


class BatchPart(Struct, frozen=True, tag_field="is", tag="part"):
    """A part of a run, sent as one batch."""

    token: str  # a random name, by which the batch is found if its id is lost
    requests: int = 0
    size: int = 0  # of the requests, in bytes
    file: str = ""  # the vendor's id of the uploaded file; empty where none is uploaded
    after: str = ""  # where batches have no name: the id of the one created last before this one
    batch: str = ""  # the vendor's id of the batch; empty before it is known
    ended: bool = False  # its results are stored, or it was never created
    target: str = ""  # name of the target


class BatchStatus(Struct, frozen=True, kw_only=True):
    """The status of a batch at the vendor."""

    id: str = ""  # the vendor's
    state: str  # the vendor's word for it
    ended: bool  # no more answers will come
    token: Any = None  # that of its part, where batches have one
    file: str | None = None  # the vendor's id of the uploaded file, where it says that
    answered: int | None = None  # number of finished requests; None if the vendor does not count
    requests: int | None = None  # number of all of them; None if the vendor does not say it
    files: tuple[str, ...] = ()  # ids of the results
    why: str = ""  # what went wrong with the whole batch


class BatchSearch(Struct, frozen=True):
    """The result of the search for a batch whose id was lost."""

    batch: str = ""  # its id; empty if it was not found
    undecided: tuple[str, ...] = ()  # ids of batches that may be it: their results will decide


def may_pass(error: ProviderError) -> bool:
    """Return whether a retry may succeed, or the request may have succeeded without an answer."""
    return error.kind in _MAY_PASS or error.status >= 500 or error.status == 408


class _Named(Struct):
    custom_id: str = ""
    key: str = ""


_NEAR = 1000  # bytes from the beginning or the end of a line, where its name may be
_NAME = re.compile(rb'"(?:custom_id|key)"\s*:\s*"([0-9a-f-]+)"')


def places(file: BinaryIO) -> dict[str, int]:
    """Return the byte offset of the first line of results for each request, by its id."""
    found: dict[str, int] = {}
    decode = msgspec.json.Decoder(_Named).decode
    start = file.seek(0)
    while line := file.readline(LARGEST_ANSWER + 1):
        size, end = len(line), line
        while not end.endswith(b"\n") and (piece := file.readline(LARGEST_ANSWER)):
            size, end = size + len(piece), end[-_NEAR:] + piece
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            if size == len(line):
                named = decode(line)
                found.setdefault(named.custom_id or named.key, start)
            # The answer is too large to be read; that is said of the request with this name.
            elif name := _NAME.search(line[:_NEAR]) or _NAME.search(end[-_NEAR:]):
                found.setdefault(name[1].decode(), start)
        start += size
    return found


class BatchApi(Protocol):
    """The Batch API of a target; subclasses define what differs.

    The asynchronous methods raise a ProviderError if the vendor fails.
    """

    most_requests: ClassVar[int]  # in a part
    most_bytes: ClassVar[int]  # of a part, unless it has a single request
    form: ClassVar[bytes] = b""  # of a request in a part: with its id, and its exact body
    # the bytes before, between and after the requests of a part
    frame: ClassVar[tuple[bytes, bytes, bytes]] = (b"", b"\n", b"\n")
    batches_path: ClassVar[str] = "/batches"  # the path of all batches
    page_size: ClassVar[str] = "limit"  # the parameter for the number of batches on a page
    cursor: ClassVar[str] = "after"  # the parameter that names the last batch of the page before

    provider: HttpProvider  # of the target

    def __init__(self, provider: Any) -> None:
        self.provider = provider

    def line(self, name: str, body: bytes) -> bytes:
        """Return the line of a request in a part, with its id and its exact body."""
        return self.form % (name.encode(), body)

    async def prepare(self, part: BatchPart, file: BinaryIO) -> BatchPart:
        """Return a part whose batch can be created: its requests are uploaded where need be."""

    async def create(self, part: BatchPart, file: BinaryIO | None) -> str:
        """Create the batch of a part, and return its id; no file if it was uploaded earlier."""
        path, body = self.creation(part, file)
        batch = await self.provider.call("POST", path, self.read_status, body, is_retried=False)
        return batch.id

    def creation(self, part: BatchPart, file: BinaryIO | None) -> tuple[str, Any]:
        """Return the path and the body of the request that creates a batch."""

    async def find(
        self, part: BatchPart, others: Collection[str], ids: Callable[[], set[str]]
    ) -> BatchSearch:
        """Look for the batch that was created for a part, whose requests have these ids.

        It is none of the others, which are those of other parts.
        """
        async for batch in self.listed():
            if batch.token == part.token or (part.file and batch.file == part.file):
                return BatchSearch(batch.id)
        return BatchSearch()

    async def listed(self) -> AsyncIterator[BatchStatus]:
        """Yield the batches that the vendor lists, page by page."""
        after, seen = "", set[str]()
        while after not in seen:  # else it was the last page, or a server repeats itself
            seen.add(after)
            more = after and f"&{self.cursor}={quote(after, safe='')}"
            path = self.provider.versioned(f"{self.batches_path}?{self.page_size}=100{more}")
            batches, after = await self.provider.call("GET", path, self.read_page)
            for batch in batches:
                yield batch

    def read_page(self, page: Any) -> tuple[list[BatchStatus], str]:
        """Return the batches of a page, and what names the next one; empty for the last one."""
        found = [*map(self.read_status, page["data"])]
        return found, found[-1].id if page.get("has_more") and found else ""

    def path_of(self, batch: str, action: str = "") -> str:
        """Return the path of a batch, or of what is done with it."""
        rest = action and f"/{action}"
        return self.provider.versioned(f"{self.batches_path}/{quote(batch, safe='')}{rest}")

    def status(self, batch: Any) -> BatchStatus:
        """Return the status of a batch, as the vendor says it."""

    def read_status(self, batch: Any) -> BatchStatus:
        """Return the status of a batch, of the right types."""
        return msgspec.convert(structs.asdict(self.status(batch)), BatchStatus)

    async def status_of(self, batch: str) -> BatchStatus:
        """Return the status of a batch."""
        return await self.provider.call("GET", self.path_of(batch), self.read_status)

    async def fetch(self, status: BatchStatus, file: BinaryIO) -> None:
        """Write the results of a batch into a file; answers come before errors."""
        headers = {"accept": "application/binary"}  # as the SDKs of the vendors ask
        for name in status.files:
            path = self.path_of_file(name)
            await self.provider.request("GET", path, headers=headers, into=file)
            file.write(b"\n")

    def path_of_file(self, name: str) -> str:
        """Return the path of a file of results; a URL in an answer would get the target's key."""

    async def cancel(self, batch: str) -> None:
        """Ask the vendor to end a batch; the answers so far are kept."""
        path = self.path_of(batch, "cancel")
        await self.provider.call("POST", path, bool)  # not each vendor returns the batch

    def answer(self, line: Any) -> ProviderResponse:
        """Return the answer in a decoded line of results, or raise the error in it."""

    def read(self, line: bytes) -> ProviderResponse:
        """Return the answer in a line of results, or raise the error in it, as ``receive`` does."""
        if len(line) > LARGEST_ANSWER:
            raise MalformedReplyError(f"the answer is larger than {LARGEST_ANSWER // 2**20} MiB")
        return receive(line, self.answer, self.provider.secrets, "result")

    def error(self, given: Any, kind: str = "") -> ProviderError:
        """Return a ProviderError for an error in a line of results, without secrets."""
        kinds = [(given or {}).get(key) for key in ("type", "status", "code")]
        limited = kinds[0] == "rate_limit_error" or kinds[2] in _LIMITED
        kind = kind or ("rate_limit" if limited else "http")
        name, message = next(filter(None, kinds), None), (given or {}).get("message")
        what = ": ".join(str(text) for text in (name, message) if text)
        return provider_error(kind, readable(what, self.provider.secrets) or "without a reason")
