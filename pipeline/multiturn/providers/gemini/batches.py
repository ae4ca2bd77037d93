"""The Batch API of Gemini."""

import os
from typing import Any, BinaryIO
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from multiturn.errors import MalformedReplyError
from multiturn.providers import batch_api as api
from multiturn.providers.base import ProviderResponse
from multiturn.providers.batch_api import BatchApi, BatchPart
from multiturn.providers.client import Upload
from multiturn.providers.gemini.provider import GeminiProvider
from multiturn.providers.replies import readable, receive

_ENDED = ("succeeded", "partially_succeeded", "failed", "cancelled", "expired")
_NAME = "multiturn-"  # before the token of a batch
_CHUNK = 8 * 2**20  # bytes of an upload
_UPLOAD = {"x-goog-upload-protocol": "resumable", "x-goog-upload-command": "start"}


class GeminiBatchApi(BatchApi):
    """The requests are uploaded as files, and each batch has a token in its name."""

    provider: GeminiProvider
    most_requests = 1_000_000
    most_bytes = 2_000_000_000
    form = b'{"key":"%s","request":%s}'

    async def prepare(self, part: BatchPart, file: BinaryIO) -> BatchPart:
        """Upload a file: the server gives an address, which takes its content."""
        size = file.seek(0, os.SEEK_END)
        described = {
            "file": {"displayName": f"{_NAME}{part.token}", "mimeType": "application/jsonl"}
        }
        sizes = {
            "x-goog-upload-header-content-length": str(size),
            "x-goog-upload-header-content-type": "application/jsonl",
        }
        path = f"/upload{self.provider.versioned('/files')}"
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
            reply.body,
            lambda said: msgspec.convert(said["file"]["name"], str),
            self.provider.secrets,
        )
        return replace(part, file=uploaded)

    def creation(self, part: BatchPart, file: BinaryIO | None) -> tuple[str, Any]:
        """Return the name of the uploaded file, and that of the batch."""
        body = {
            "batch": {"inputConfig": {"fileName": part.file}, "displayName": f"{_NAME}{part.token}"}
        }
        return self.provider.model_path("batchGenerateContent"), body

    def listing(self, after: str) -> str:
        """Return the path of a page of the listing."""
        more = after and f"&pageToken={quote(after, '')}"
        return self.provider.versioned(f"{self.batches_path}?pageSize=100{more}")

    def read_page(self, page: Any) -> tuple[list[api.BatchStatus], str]:
        """Return the batches of a page, and what names the next one."""
        found = [*map(self.read_status, page.get("operations", ()))]
        return found, msgspec.convert(page.get("nextPageToken", ""), str)

    def path_of(self, batch: str, action: str = "") -> str:
        """Return the path of a batch, or of what is done with it."""
        return self.provider.versioned(f"/{quote(batch)}{action and f':{action}'}")

    def status(self, batch: Any) -> api.BatchStatus:
        """Return the state; Gemini does not count."""
        metadata = batch.get("metadata") or {}
        state = metadata.get("state", "").lower()
        state = state.removeprefix("job_state_").removeprefix("batch_state_")
        file = (metadata.get("output") or {}).get("responsesFile")
        why = (batch.get("error") or {}).get("message") or ""
        return api.BatchStatus(
            id=batch["name"],
            state=state,
            ended=state in _ENDED,
            token=(metadata.get("displayName") or "").removeprefix(_NAME),
            files=(file,) if file else (),
            why=readable(why, self.provider.secrets),
        )

    def path_of_file(self, name: str) -> str:
        """Return the path of the file of results."""
        return self.provider.versioned(f"/{quote(name)}:download?alt=media")

    def answer(self, line: Any) -> ProviderResponse:
        """Return the response."""
        if line.get("response") is not None:
            return self.provider.read_raw(line["response"])
        raise self.error(line.get("error"))
