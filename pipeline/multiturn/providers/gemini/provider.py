"""Gemini: system_instruction, and the roles user and model."""

import json
import math
import os
import re
from collections.abc import Callable
from typing import Any, BinaryIO, Literal
from urllib.parse import quote

import msgspec
from msgspec import structs

from multiturn.errors import ContentFilterError, MalformedReplyError
from multiturn.files.media import with_bytes
from multiturn.model.request import PreparedRequest, ProviderRequest
from multiturn.model.tokens import Overhead
from multiturn.providers import layout as rules
from multiturn.providers.base import ProviderResponse, UpTo2
from multiturn.providers.batch_api import BatchApi, BatchPart, BatchStatus
from multiturn.providers.client import Upload
from multiturn.providers.gemini.contents import FORM
from multiturn.providers.http import HttpProvider, HttpSettings
from multiturn.providers.layout import Layout
from multiturn.providers.replies import counts, read_called, readable, receive

# Reasons to stop that are filters' (types.FinishReason of the SDK).
_BLOCKED = ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII")
_BASE64 = re.compile(r"(?=(?:.{4})*\Z)(?:[A-Za-z0-9+/]*|[A-Za-z0-9_-]*)={0,2}")


class GeminiSettings(HttpSettings, frozen=True, kw_only=True):
    """The settings of a ``gemini`` target.

    Attributes:
        base_url: of a gateway; null for Google's own.
        version: of the API (G6).
        thought_signature: `skip` sends a stand-in where a model needs the signature of a call and
            there is none (T5); the model may answer worse.
    """

    base_url: str | None = None
    version: str = "v1beta"
    temperature: UpTo2 = None
    thought_signature: Literal["refuse", "skip"] = "refuse"

    def own_headers(self) -> dict[str, str]:
        """Return the header with the key, and how long the server may take."""
        seconds = math.ceil(self.timeout_seconds)
        return {"x-goog-api-key": self.api_key, "x-server-timeout": str(seconds)}


_ENDED = ("succeeded", "partially_succeeded", "failed", "cancelled", "expired")
_NAME = "multiturn-"  # before the token of a batch
_CHUNK = 8 * 2**20  # bytes of an upload
_UPLOAD = {"x-goog-upload-protocol": "resumable", "x-goog-upload-command": "start"}


class GeminiBatchApi(BatchApi):
    """The requests are uploaded as files, and each batch has a token in its name."""

    provider: "GeminiProvider"
    most_requests = 1_000_000
    most_bytes = 2_000_000_000
    form = b'{"key":"%s","request":%s}'
    page_size, cursor = "pageSize", "pageToken"

    async def prepare(self, part: BatchPart, file: BinaryIO) -> BatchPart:
        """Upload a file: the server gives an address, which takes its content."""
        size = file.seek(0, os.SEEK_END)
        described = {"displayName": f"{_NAME}{part.token}", "mimeType": "application/jsonl"}
        headers = {
            **_UPLOAD,
            "x-goog-upload-header-content-length": str(size),
            "x-goog-upload-header-content-type": "application/jsonl",
        }
        path = f"/upload{self.provider.versioned('/files')}"
        reply = await self.provider.request("POST", path, {"file": described}, headers=headers)
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

        def read(said: Any) -> str:
            return msgspec.convert(said["file"]["name"], str)

        return structs.replace(part, file=receive(reply.body, read, self.provider.secrets))

    def creation(self, part: BatchPart, file: BinaryIO | None) -> tuple[str, Any]:
        """Return the name of the uploaded file, and that of the batch."""
        named = {"inputConfig": {"fileName": part.file}, "displayName": f"{_NAME}{part.token}"}
        return self.provider.model_path("batchGenerateContent"), {"batch": named}

    def read_page(self, page: Any) -> tuple[list[BatchStatus], str]:
        """Return the batches of a page, and what names the next one."""
        found = [*map(self.read_status, page.get("operations", ()))]
        return found, msgspec.convert(page.get("nextPageToken", ""), str)

    def path_of(self, batch: str, action: str = "") -> str:
        """Return the path of a batch, or of what is done with it."""
        return self.provider.versioned(f"/{quote(batch)}{action and f':{action}'}")

    def status(self, batch: Any) -> BatchStatus:
        """Return the state; Gemini does not count."""
        metadata = batch.get("metadata") or {}
        state = metadata.get("state", "").lower()
        state = state.removeprefix("job_state_").removeprefix("batch_state_")
        file = (metadata.get("output") or {}).get("responsesFile")
        why = (batch.get("error") or {}).get("message") or ""
        return BatchStatus(
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


class GeminiProvider(HttpProvider):
    """Sends the chat prompt to the Gemini API."""

    kind = "gemini"
    telemetry_names = ("gemini", "gcp.gemini", "gcp.gen_ai")
    own_server = "https://generativelanguage.googleapis.com"
    count_key = "totalTokens"
    body_forms = (FORM,)
    batch_api = GeminiBatchApi
    counts_tokens = True
    address_settings = ("base_url", "version")
    tool_names = rules.Names("G10", re.compile("[A-Za-z_][A-Za-z0-9_.:-]{0,127}"))
    hottest = ("G7", 2)
    # Google's guide: countTokens gives 10 for a chat of "Hi my name is Bob" and "Hi Bob!".
    overhead = Overhead(request=0, message=1)
    settings: GeminiSettings

    def prepared(self, layout: Layout, request: ProviderRequest) -> PreparedRequest:
        """Return the messages as contents, the system messages apart, and the parameters."""
        layout.take_system("G1", blank="G5")
        if layout.has_more:
            rules.keep_thinking(layout, "gemini", lambda block: block.signature and block.text)
            rules.pair_results(layout)
            rules.name_joined(layout, "T4")
        if layout.has_media:
            takes = bool(self.abilities.takes("result_media").takes)
            rules.move_from_results(layout, lambda _, media: takes and media.kind != "audio")
            gif, what = "image/gif", "attach a PNG"
            rules.want_types(layout, "G12", lambda media: media.media_type != gif, what)
            rules.want_kinds(layout, self.abilities)
            rules.want_size(layout, "G14", 100 * 2**20)
            rules.without_detail(layout)
            if any(media.url for media in rules.media_in(layout.messages)):
                layout.judge(self.abilities.takes("addresses"))
        layout.drop_blank("G5")
        layout.tools_as_user("G3")
        layout.want_turns("G2")
        layout.merge_runs("G3")
        layout.want_user_first("G4")
        layout.want_user_last(self.abilities)
        if layout.has_more:
            skips = self.settings.thought_signature == "skip"
            rules.want_signatures(layout, self.abilities, skips=skips)
            found = [block.signature for turn in layout.messages for block in turn.thinking]
            found += [call.signature for turn in layout.messages for call in turn.calls]
            if wrong := [each for each in found if not _BASE64.fullmatch(each)]:
                layout.refuse("G11", f"write it as Gemini gave it; {wrong[0][:60]!r} is none")
        asked = self.asked(layout, request)
        rules.doubt_description(layout, asked.settings)
        if any(tool.strict is not None for tool in request.tools):
            layout.repair("G9", "left out whether tools are strict")
        return asked

    def encode(self, body: dict[str, Any], hook: Callable[[Any], str] = with_bytes) -> bytes:
        """Return the body, in which characters outside ASCII are escaped."""
        return json.dumps(body, default=hook).encode()

    @property
    def path(self) -> str:
        """The path of the requests."""
        return self.model_path("generateContent")

    def versioned(self, path: str) -> str:
        """Return a path below the version of the API."""
        return f"/{self.settings.version}{path}"

    def model_path(self, method: str) -> str:
        """Return the path of a method of the model."""
        return self.versioned(f"/{quote(self.model_name, safe='/:@')}:{method}")

    @property
    def model_name(self) -> str:
        """The name of the model, with its collection."""
        model: str = self.settings.model
        return model if model.startswith(("models/", "tunedModels/")) else f"models/{model}"

    def counting(self, request: PreparedRequest) -> tuple[str, dict[str, Any]]:
        """Return the path and the body of the endpoint that counts."""
        whole = {"model": self.model_name, **self.write(request)}
        return self.model_path("countTokens"), {"generateContentRequest": whole}

    def read(self, answer: Any) -> ProviderResponse:
        """Return the text of the first candidate, its calls, and apart from them its thoughts."""
        blocked = (answer.get("promptFeedback") or {}).get("blockReason")
        if not answer.get("candidates"):
            if blocked:
                raise ContentFilterError(f"the prompt was blocked: {blocked}")
            raise ValueError("there are no candidates")
        candidate = answer["candidates"][0]
        parts = (candidate.get("content") or {}).get("parts") or []
        calls = [(part["functionCall"], part) for part in parts if "functionCall" in part]
        return ProviderResponse(
            text="".join(part.get("text", "") for part in parts if not part.get("thought")),
            tool_calls=tuple(
                read_called(
                    call.get("id") or f"call_{at}",  # one without an id gets its number
                    *(call["name"], call.get("args"), part.get("thoughtSignature")),
                )
                for at, (call, part) in enumerate(calls, 1)
            ),
            thinking=[part for part in parts if part.get("thought")],
            usage=counts(
                answer.get("usageMetadata"),
                input_tokens="promptTokenCount",
                output_tokens="candidatesTokenCount+thoughtsTokenCount",
                cached_tokens="cachedContentTokenCount",
            ),
            finish_reason=candidate.get("finishReason"),
            is_refusal=candidate.get("finishReason") in _BLOCKED,
        )
