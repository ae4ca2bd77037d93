"""The Batch API of OpenAI, of servers with its API, and of Azure OpenAI."""

import asyncio
import os
from typing import Any, BinaryIO
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from multiturn.providers import batch_api as api
from multiturn.providers.base import ProviderResponse
from multiturn.providers.batch_api import BatchApi, BatchPart
from multiturn.providers.client import Upload
from multiturn.providers.openai.provider import OpenAIProvider
from multiturn.providers.replies import error_of, readable

_UNPROCESSED = ("notRunning", "pending", "running")  # Azure refuses a batch of such a file
_ENDED = ("completed", "failed", "expired", "cancelled")


class OpenAIBatchApi(BatchApi):
    """The requests are uploaded as files, and each batch has a token in its metadata."""

    provider: OpenAIProvider
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

    def line(self, name: str, body: bytes) -> bytes:
        """Return a line with ``custom_id``, ``method``, ``url`` and ``body``."""
        names = (name.encode(), self.url.encode(), body)
        return b'{"custom_id":"%s","method":"POST","url":"%s","body":%s}' % names

    async def prepare(self, part: BatchPart, file: BinaryIO) -> BatchPart:
        """Upload a file for batches, and wait until it is processed."""
        upload = Upload(file, 0, file.seek(0, os.SEEK_END), *_form(part.token))
        name, status = await self._file("POST", "/files", upload, part.token)
        while status in _UNPROCESSED:
            await asyncio.sleep(1)
            name, status = await self._file("GET", f"/files/{quote(name, safe='')}")
        return replace(part, file=name)

    async def _file(
        self, method: str, path: str, body: Any = None, boundary: str = ""
    ) -> tuple[str, Any]:
        """Return the id and the status of a file."""
        headers = {"content-type": f"multipart/form-data; boundary={boundary}"} if boundary else {}
        return await self.provider.call(
            method,
            self.provider.versioned(path),
            lambda file: (msgspec.convert(file["id"], str), file.get("status")),
            body,
            headers=headers,
        )

    def creation(self, part: BatchPart, file: BinaryIO | None) -> tuple[str, Any]:
        """Return the id of the uploaded file, and the part's token as metadata."""
        body = {
            "completion_window": "24h",
            "endpoint": self.endpoint,
            "input_file_id": part.file,
            "metadata": {
                "multiturn": part.token,
                "provider": self.provider.kind,
                "target": self.provider.name[:512],
            },
        }
        return self.provider.versioned(self.batches_path), body

    def status(self, batch: Any) -> api.BatchStatus:
        """Return the status, the counts and the two files of results."""
        counts, errors = batch.get("request_counts"), (batch.get("errors") or {}).get("data") or ()
        whys = (f"{error.get('code')}: {error.get('message')}" for error in errors)
        answered = counts and counts.get("completed", 0) + counts.get("failed", 0)
        return api.BatchStatus(
            id=batch["id"],
            state=batch["status"],
            ended=batch["status"] in _ENDED,
            token=(batch.get("metadata") or {}).get("multiturn"),
            file=batch.get("input_file_id"),
            answered=answered,
            files=tuple(filter(None, map(batch.get, ("output_file_id", "error_file_id")))),
            why=readable("; ".join(whys), self.provider.secrets),
        )

    def path_of_file(self, name: str) -> str:
        """Return the path of the output file, or of the error file."""
        return self.provider.versioned(f"/files/{quote(name, safe='')}/content")

    def answer(self, line: Any) -> ProviderResponse:
        """Return the answer; an error is in the body of the response, or beside it."""
        response = line.get("response") or {}
        status, body = msgspec.convert(response.get("status_code", 0), int), response.get("body")
        if not status:
            raise self.error(line.get("error"), "batch")
        if status == 200:
            return self.provider.read_raw(body)
        raise error_of(status, msgspec.json.encode(body), self.provider.secrets)


def _form(token: str) -> tuple[bytes, bytes]:
    """Return what stands before and after a file of requests in a form, with the token between."""
    purpose = 'Content-Disposition: form-data; name="purpose"\r\n\r\nbatch'
    named = f'Content-Disposition: form-data; name="file"; filename="multiturn-{token}.jsonl"'
    head = (
        f"--{token}\r\n{purpose}\r\n--{token}\r\n{named}\r\nContent-Type: application/jsonl\r\n\r\n"
    )
    return head.encode(), f"\r\n--{token}--\r\n".encode()


class AzureBatchApi(OpenAIBatchApi):
    """The same with other paths. A file is for one deployment, as a target is."""

    most_requests = 100_000
    # Azure's guide wants this one of a batch for the Responses API, too (any-llm #1348).
    endpoint = "/chat/completions"

    @property
    def url(self) -> str:
        """The path in each line."""
        return "/v1/responses" if self.provider.asks_responses else self.endpoint
