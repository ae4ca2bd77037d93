"""The Batch API of Gemini."""

import os
from typing import Any, BinaryIO
from urllib.parse import quote

from msgspec import Struct, field
from msgspec.structs import replace

from multiturn.errors import MalformedReplyError
from multiturn.providers import batch_api as api
from multiturn.providers.base import ProviderResponse
from multiturn.providers.batch_api import BatchApi, BatchPart
from multiturn.providers.client import Upload
from multiturn.providers.gemini.provider import GeminiProvider
from multiturn.providers.replies import readable, receive

_ENDED = ("succeeded", "partially_succeeded", "failed", "cancelled", "expired")
_CHUNK = 8 * 2**20  # bytes of an upload
_UPLOAD = {"x-goog-upload-protocol": "resumable", "x-goog-upload-command": "start"}


class _Output(Struct, frozen=True, rename="camel"):
    responses_file: str | None = None


class _Metadata(Struct, frozen=True, rename="camel"):
    state: str = ""
    display_name: str | None = None
    output: _Output | None = None


class _Batch(Struct):
    id: str = field(name="name")
    metadata: _Metadata = _Metadata()
    error: api.VendorError | None = None


class _Page(Struct):
    data: list[_Batch] = field(name="operations", default_factory=list)
    after: str = field(name="nextPageToken", default="")


class _File(Struct):
    name: str


class _Uploaded(Struct):
    file: _File


class _Line(Struct):
    response: Any = None
    error: api.VendorError | None = None


class GeminiBatchApi(BatchApi):
    """The requests are uploaded as files, and each batch has a token in its name."""

    provider: GeminiProvider
    batch_type, page_type, line_type = _Batch, _Page, _Line
    most_requests = 1_000_000
    most_bytes = 2_000_000_000
    form = b'{"key":"%s","request":%s}'

    async def prepare(self, part: BatchPart, file: BinaryIO) -> BatchPart:
        """Upload a file: the server gives an address, which takes its content."""
        size = file.seek(0, os.SEEK_END)
        described = {"file": {"displayName": _name(part), "mimeType": "application/jsonl"}}
        sizes = {
            "x-goog-upload-header-content-length": str(size),
            "x-goog-upload-header-content-type": "application/jsonl",
        }
        path = self._path("files", "/upload")
        reply = await self.provider.request("POST", path, described, headers={**_UPLOAD, **sizes})
        address = reply.headers.get("x-goog-upload-url")
        if not address:
            what = "the server gave no address to upload the requests to (X-Goog-Upload-URL)"
            raise MalformedReplyError(what)
        for start in range(0, size, _CHUNK):
            is_last = start + _CHUNK >= size
            headers = {
                "x-goog-upload-command": "upload, finalize" if is_last else "upload",
                "x-goog-upload-offset": str(start),
            }
            chunk = Upload(file, start, min(size, start + _CHUNK))
            reply = await self.provider.request("POST", address, chunk, headers=headers)
        uploaded = receive(
            reply.body, _Uploaded, lambda said: said.file.name, self.provider.secrets
        )
        return replace(part, file=uploaded)

    def _path(self, rest: str, before: str = "") -> str:
        return f"{before}/{self.provider.settings.version}/{rest}"

    def creation(self, part: BatchPart, file: BinaryIO | None) -> tuple[str, Any]:
        """Return the name of the uploaded file, and that of the batch."""
        body = {"batch": {"inputConfig": {"fileName": part.file}, "displayName": _name(part)}}
        return self.provider.model_path("batchGenerateContent"), body

    def is_of(self, batch: _Batch, part: BatchPart) -> bool:
        """Return whether the part's token is in the name of a batch."""
        return batch.metadata.display_name == _name(part)

    def listing(self, after: str) -> str:
        """Return the path of a page of the listing."""
        return self._path("batches?pageSize=100") + (after and f"&pageToken={quote(after, '')}")

    def path_of(self, batch: str, action: str = "") -> str:
        """Return the path of a batch, or of what is done with it."""
        return self._path(quote(batch) + (action and f":{action}"))

    def status(self, batch: _Batch) -> api.BatchStatus:
        """Return the state; Gemini does not count."""
        state = batch.metadata.state.removeprefix("JOB_STATE_").removeprefix("BATCH_STATE_").lower()
        file = batch.metadata.output and batch.metadata.output.responses_file
        return api.BatchStatus(
            state=state,
            ended=state in _ENDED,
            files=(file,) if file else (),
            why=readable((batch.error and batch.error.message) or "", self.provider.secrets),
        )

    def path_of_file(self, name: str) -> str:
        """Return the path of the file of results."""
        return self._path(f"{quote(name)}:download?alt=media")

    def answer(self, line: _Line) -> ProviderResponse:
        """Return the response."""
        if line.response is not None:
            return self.provider.read_raw(line.response)
        raise self.error(line.error)


def _name(part: BatchPart) -> str:
    return f"multiturn-{part.token}"
