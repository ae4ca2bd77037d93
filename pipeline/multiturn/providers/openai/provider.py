"""OpenAI and servers with its API, by HTTP: messages are sent almost unchanged."""

import asyncio
import os
from typing import Annotated, Any, BinaryIO, ClassVar, Literal
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from msgspec import structs

from multiturn.errors import MalformedReplyError, RefusedError, provider_error
from multiturn.files.media import MEDIA_KINDS
from multiturn.model.request import PreparedRequest, ProviderRequest
from multiturn.providers.base import USUAL_SYSTEM_ROLE, ProviderResponse, UpTo2
from multiturn.providers.batch_api import BatchApi, BatchPart, BatchStatus
from multiturn.providers.client import Upload
from multiturn.providers.http import API_KEY, HttpProvider, HttpSettings
from multiturn.providers.layout import Layout, Names, media_in, want_kinds
from multiturn.providers.models import SERVERS
from multiturn.providers.openai import chat, repairs, responses
from multiturn.providers.reading import BodyForm
from multiturn.providers.replies import counts, error_of, read_called, readable

_OF_AZURE = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")


def vendor_at(address: str) -> str:
    """Return whose models are at an address, as a key of models.yaml.

    >>> vendor_at("https://eu.api.openai.com/v1"), vendor_at("https://a.openai.azure.com/openai/v1/")
    ('openai', 'azure')
    >>> vendor_at("http://localhost:8000/v1")
    'servers'
    """
    host = f".{urlsplit(address).hostname}"
    if host.endswith(".api.openai.com"):
        return "openai"
    return "azure" if host.endswith(_OF_AZURE) else SERVERS


class OpenAIApiSettings(HttpSettings, frozen=True, kw_only=True):
    """The settings of every target with OpenAI's APIs.

    Attributes:
        api: `responses` asks the Responses API, the only one of some models (O10); nothing is
            stored there.
        system_as: with `api: responses`: whether the system message is an item of `input`, or
            `instructions`.
        system_role: what the model calls its system message (O2); `user` for chat templates that
            take none (O14).
        roles: `alternate` merges neighbors of one role, for chat templates in which user and
            assistant must alternate (O13); null to warn where the model's may want that.
        later_system: `merge` sends all system messages as one, the first message, for chat
            templates that refuse any other (O5).
        max_tokens_field: with `api: chat`: the key of the body that limits the output (O4).
    """

    api: Literal["chat", "responses"] = "chat"
    system_as: Literal["item", "instructions"] = "item"
    system_role: Literal["system", "developer", "user"] = USUAL_SYSTEM_ROLE
    roles: Literal["any", "alternate"] | None = None
    later_system: Literal["keep", "merge"] = "keep"
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"

    def __post_init__(self) -> None:
        """Refuse settings of the other API."""
        super().__post_init__()
        if self.api == "chat" and self.system_as != "item":
            raise ValueError("system_as is for api: responses; leave one of them out")
        if self.api == "responses" and self.max_tokens_field == "max_tokens":
            raise ValueError("max_tokens_field is for api: chat; leave one of them out")


class OpenAISettings(OpenAIApiSettings, frozen=True, kw_only=True):
    """The settings of an ``openai`` target.

    Attributes:
        base_url: the server's address, up to `/v1`; by default OpenAI's own.
        prompt_caching: mark the system message for the cache of models that want that (O9).
    """

    api_key: Annotated[str | None, API_KEY] = None  # type: ignore[assignment]
    base_url: str = "https://api.openai.com/v1"
    prompt_caching: bool = False

    def __post_init__(self) -> None:
        """Refuse to ask OpenAI, or Azure, without a key."""
        super().__post_init__()
        if self.api_key is None and vendor_at(self.base_url) != SERVERS:
            what = "there is no 'api_key'; add it, or the base_url of a server that needs none"
            raise ValueError(what)
        if self.prompt_caching and self.system_as == "instructions":
            raise ValueError("prompt_caching marks an item; leave out system_as: instructions")


def _answer_of_chat(answer: Any) -> ProviderResponse:
    """Return the first choice of an answer; a refusal by the model is an answer, too."""
    choice = answer["choices"][0]
    message, stopped = choice["message"], choice.get("finish_reason")
    calls = message.get("tool_calls") or ()
    refusal = message.get("refusal")
    return ProviderResponse(
        text=message.get("content") or refusal or "",
        tool_calls=tuple(
            read_called(call["id"], call["function"]["name"], call["function"].get("arguments"))
            for call in calls
        ),
        usage=counts(
            answer.get("usage"),
            input_tokens="prompt_tokens",
            output_tokens="completion_tokens",
            cached_tokens="prompt_tokens_details.cached_tokens",
            cache_write_tokens="prompt_tokens_details.cache_write_tokens",
        ),
        finish_reason=stopped,
        is_refusal=bool(refusal) or stopped == "content_filter",
    )


def _answer_of_responses(answer: Any) -> ProviderResponse:
    """Return what an answer says; a refusal by the model is an answer, too."""
    if error := answer.get("error"):
        code, message = error["code"], error["message"]
        kind = "rate_limit" if code == "rate_limit_exceeded" else "http"
        raise provider_error(kind, f"{code}: {message}")
    status = answer.get("status")  # other servers may leave it out
    if status not in ("completed", "incomplete", None):
        raise MalformedReplyError(f"the response is no answer: its status is {status!r}")
    items = answer["output"]
    parts = [part for item in items if item["type"] == "message" for part in item["content"]]
    said = "".join(part["text"] for part in parts if part["type"] == "output_text")
    refused = "".join(part["refusal"] for part in parts if part["type"] == "refusal")
    stopped = (answer.get("incomplete_details") or {}).get("reason") or status
    return ProviderResponse(
        text=said or refused,
        tool_calls=tuple(
            read_called(item["call_id"], item["name"], item.get("arguments"))
            for item in items
            if item["type"] == "function_call"
        ),
        thinking=[item for item in items if item["type"] == "reasoning"],
        usage=counts(
            answer.get("usage"),
            input_tokens="input_tokens",
            output_tokens="output_tokens",
            cached_tokens="input_tokens_details.cached_tokens",
            cache_write_tokens="input_tokens_details.cache_write_tokens",
        ),
        finish_reason=stopped,
        is_refusal=bool(refused) or stopped == "content_filter",
    )


_UNPROCESSED = ("notRunning", "pending", "running")  # Azure refuses a batch of such a file
_ENDED = ("completed", "failed", "expired", "cancelled")


class OpenAIBatchApi(BatchApi):
    """The requests are uploaded as files, and each batch has a token in its metadata."""

    provider: "OpenAIProvider"
    most_requests = 50_000
    most_bytes = 200_000_000
    endpoint = ""  # of the whole batch, unless it is the one in each line

    @property
    def url(self) -> str:
        """The path in each line."""
        return f"/v1{self.provider.path}"

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
        return structs.replace(part, file=name)

    async def _file(
        self, method: str, path: str, body: Any = None, boundary: str = ""
    ) -> tuple[str, Any]:
        """Return the id and the status of a file."""
        headers = {"content-type": f"multipart/form-data; boundary={boundary}"} if boundary else {}
        path = self.provider.versioned(path)

        def read(file: Any) -> tuple[str, Any]:
            return msgspec.convert(file["id"], str), file.get("status")

        return await self.provider.call(method, path, read, body, headers=headers)

    def creation(self, part: BatchPart, file: BinaryIO | None) -> tuple[str, Any]:
        """Return the id of the uploaded file, and the part's token as metadata."""
        body = {
            "completion_window": "24h",
            "endpoint": self.endpoint or self.url,
            "input_file_id": part.file,
            "metadata": {
                "multiturn": part.token,
                "provider": self.provider.kind,
                "target": self.provider.name[:512],
            },
        }
        return self.provider.versioned(self.batches_path), body

    def status(self, batch: Any) -> BatchStatus:
        """Return the status, the counts and the two files of results."""
        counts, errors = batch.get("request_counts"), (batch.get("errors") or {}).get("data") or ()
        whys = (f"{error.get('code')}: {error.get('message')}" for error in errors)
        answered = counts and counts.get("completed", 0) + counts.get("failed", 0)
        return BatchStatus(
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
    named += "\r\nContent-Type: application/jsonl\r\n\r\n"
    head = f"--{token}\r\n{purpose}\r\n--{token}\r\n{named}"
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


_COUNTED = ("model", "instructions", "input", "tools", "tool_choice", "text", "reasoning")


class OpenAIProvider(HttpProvider):
    """Sends the chat prompt to OpenAI, or to a server with its API, which may need no key."""

    kind = "openai"
    body_forms = (chat.FORM, responses.FORM)
    batch_api = OpenAIBatchApi
    counts_tokens = True
    rules_by: ClassVar[tuple[str, ...]] = ("base_url",)
    address_settings: ClassVar[tuple[str, ...]] = ("base_url",)
    tool_names = Names("O16", repairs.NAMES)
    hottest = ("O7", 2)

    @property
    def vendor(self) -> str:
        """Whose models are at the address."""
        return vendor_at(self.settings.base_url)

    @property
    def asks_responses(self) -> bool:
        """Whether the target asks the Responses API, not Chat Completions."""
        return bool(self.settings.api == "responses")

    @property
    def path(self) -> str:
        """The path of the requests."""
        return "/responses" if self.asks_responses else "/chat/completions"

    def prepared(self, layout: Layout, request: ProviderRequest) -> PreparedRequest:
        """Return the messages, tool messages without a call as the user's (O1), and the rest."""
        settings, abilities = self.settings, self.abilities
        if self.asks_responses:
            repairs.lay_out_for_responses(layout, abilities)
        else:
            repairs.lay_out_for_chat(layout)
        verdict = abilities.takes(settings.api)
        # Where the address is not the vendor's, the server may convert.
        if verdict.takes is False or (verdict.rows and self.vendor != SERVERS):
            other = "chat" if self.asks_responses else "responses"
            layout.judge(verdict, f"set api: {other} in the target")
        layout.want_turns("C1")
        if layout.has_media:
            want_kinds(layout, abilities, repairs.MEDIA if self.asks_responses else MEDIA_KINDS)
        if settings.later_system == "merge":
            layout.merge_system("O5")
        if settings.system_role == "user":
            layout.system_as_user("O14")
        layout.want_known_later_system(abilities, "set later_system: merge in the target")
        if settings.roles == "alternate":
            layout.alternate("O13")
        elif settings.roles is None:
            layout.doubt_template(abilities)
        layout.want_user_last(abilities)
        if self.vendor != SERVERS:
            said = request.settings.over(self._own_settings)
            repairs.want_schemas(layout, request.tools, said)
        asked = self.asked(layout, request)
        if request.tools and not self.asks_responses:
            known = abilities._replace(asked=asked.settings)
            layout.judge_known(known.takes("tools_over_chat"))
        limit = asked.settings.max_output_tokens
        if limit is not None and self.vendor != SERVERS:
            row = next(iter(abilities.rows("limit")), None)
            if self.asks_responses:
                if limit < repairs.LOWEST_LIMIT:
                    layout.refuse("O18", f"this one is {limit}")
            elif row and row.limit != settings.max_tokens_field:
                layout.refuse(row.rule or "C4", f"set max_tokens_field: {row.limit} in the target")
        form: dict[str, Any] = {}
        if self.asks_responses:
            if settings.system_as == "instructions":
                layout.take_first_system("O17", "O17")
            form["phases"] = repairs.phases(layout, abilities)
            form["include"] = repairs.wanted_thinking(layout, abilities)
        elif limit is not None and settings.max_tokens_field == "max_tokens":
            form["max_tokens_field"] = "max_tokens"
        if self.asks_for_cache:
            advice = "leave out prompt_caching: this one caches prompts by itself"
            layout.judge(abilities.takes("cache_breakpoints"), advice)
            form["prompt_caching"] = True
        if settings.system_role == "developer":
            form["system_role"] = "developer"
        return structs.replace(asked, form={key: each for key, each in form.items() if each})

    @property
    def form(self) -> BodyForm:
        """The form of the API that is asked."""
        return self.body_forms[self.asks_responses]

    @property
    def is_overhead_known(self) -> bool:
        """Whether it is published: what the Responses API adds is not."""
        return super().is_overhead_known and not self.asks_responses

    @property
    def has_cache(self) -> bool | None:
        """Whether prefixes are cached: by newer models only if the target asks for it."""
        wants_marks = self.abilities.takes("cache_breakpoints").takes
        return False if wants_marks and not self.asks_for_cache else super().has_cache

    @property
    def asks_for_cache(self) -> bool:
        """Whether the target wants the system message marked for the cache."""
        return bool(getattr(self.settings, "prompt_caching", False))  # Azure's have no such setting

    def counting(self, request: PreparedRequest) -> tuple[str, dict[str, Any]]:
        """Return the path and the body of the endpoint that counts, in the form of Responses."""
        if any(media.kind == "audio" for media in media_in(request.messages)):
            raise RefusedError("OpenAI's endpoint counts no audio")
        body = responses.write_response(request)
        return "/responses/input_tokens", {name: body[name] for name in _COUNTED if body.get(name)}

    def read(self, answer: Any) -> ProviderResponse:
        """Return what the API that was asked says."""
        return _answer_of_responses(answer) if self.asks_responses else _answer_of_chat(answer)


# Azure has the Responses API from version 2025-03-01-preview on (Aider #4029); this is the last one
# with a date.
_VERSIONS = {"chat": "2024-12-01-preview", "responses": "2025-04-01-preview"}


class AzureSettings(OpenAIApiSettings, frozen=True, kw_only=True):
    """The settings of an ``azure`` target.

    Attributes:
        endpoint: `https://NAME.openai.azure.com`.
        version: of the API; by default 2024-12-01-preview, and 2025-04-01-preview with `api:
            responses`.
        auth: the header with the key: `api-key`, or `Authorization: Bearer` for a token of
            Microsoft Entra.
    """

    endpoint: str
    version: str | None = None
    temperature: UpTo2 = None
    auth: Literal["api-key", "bearer"] = "api-key"

    def own_headers(self) -> dict[str, str]:
        """Return the header with the key."""
        return super().own_headers() if self.auth == "bearer" else {"api-key": self.api_key}

    def __post_init__(self) -> None:
        """Fill in the version that has the API."""
        super().__post_init__()
        if self.version is None:
            structs.force_setattr(self, "version", _VERSIONS[self.api])


class AzureProvider(OpenAIProvider):
    """Sends the chat prompt to a deployment of Azure OpenAI."""

    kind = "azure"
    telemetry_names = ("azure.ai.openai",)
    batch_api = AzureBatchApi
    counts_tokens = False
    vendor = "azure"  # whatever the address: the endpoint may be a gateway's
    address_settings = ("endpoint", "version")

    @property
    def server(self) -> str:
        """The address of the resource."""
        return f"{self.settings.endpoint.rstrip('/')}/openai"

    @property
    def path(self) -> str:
        """The path of the requests, for Chat Completions below that of the deployment."""
        deployment = f"/deployments/{quote(self.settings.model, safe='')}"
        return self.versioned(f"{'' if self.asks_responses else deployment}{super().path}")

    def versioned(self, path: str) -> str:
        """Return a path with the version of the API."""
        separator = "&" if "?" in path else "?"
        return f"{path}{separator}{urlencode({'api-version': self.settings.version})}"
