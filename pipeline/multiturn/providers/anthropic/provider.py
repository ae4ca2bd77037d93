"""Anthropic: system messages apart, user and assistant messages in turn."""

import os
import re
from collections.abc import Callable, Collection, Mapping
from tempfile import TemporaryFile
from typing import Annotated, Any, BinaryIO, Literal

from msgspec import Meta, structs

from multiturn.errors import BatchEndedError, quoted
from multiturn.files.media import MediaKind
from multiturn.model.request import PreparedRequest, ProviderRequest
from multiturn.model.turns import Tool
from multiturn.providers import layout as rules
from multiturn.providers.anthropic.messages import FORM, PROMPT
from multiturn.providers.base import ProviderResponse, UpTo1
from multiturn.providers.batch_api import BatchApi, BatchPart, BatchSearch, BatchStatus, places
from multiturn.providers.client import Upload
from multiturn.providers.http import HttpProvider, HttpSettings
from multiturn.providers.layout import Layout
from multiturn.providers.replies import counts, read_called

_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_IDS = rules.Names("T2", re.compile("[A-Za-z0-9_-]+"))
# What the endpoint for counts takes, by anthropic 2.12.0 on 22 November 2026.
_COUNTED = (*PROMPT, "output_config", "thinking", "tool_choice")
_DEFAULT_LIMIT = 4096  # the API requires one
_LEAST_THOUGHT = 1024
_KINDS: tuple[MediaKind, ...] = ("image", "document")
_THINKING = ("thinking", "redacted_thinking")  # blocks of an answer


class AnthropicSettings(HttpSettings, frozen=True, kw_only=True):
    """The settings of an ``anthropic`` target.

    Attributes:
        base_url: of a gateway; null for Anthropic's own.
        api_version: sent as `anthropic-version`; temperatures need `2023-06-01` (A11).
        auth: the header with the key: `Authorization: Bearer`, or `x-api-key` for gateways that
            read only that.
        later_system: `keep` sends system messages after a user message where they are, to models
            that take them (A10).
        prompt_caching: mark the system message for the provider's cache (A8): `true` keeps it for 5
            minutes, `1h` for an hour.
    """

    base_url: str | None = None
    api_version: Annotated[str, Meta(extra_json_schema={"pattern": _DAY})] = "2026-10-21"
    auth: Literal["bearer", "x-api-key"] = "bearer"
    temperature: UpTo1 = None
    later_system: Literal["refuse", "keep"] = "refuse"
    prompt_caching: bool | Literal["1h"] = False

    def own_headers(self) -> dict[str, str]:
        """Return the header with the key, and the version of the API."""
        key = super().own_headers() if self.auth == "bearer" else {"x-api-key": self.api_key}
        return {**key, "anthropic-version": self.api_version}

    def __post_init__(self) -> None:
        """Refuse a version that is none."""
        super().__post_init__()
        if not re.search(_DAY, self.api_version):
            raise ValueError("api_version must be a day, such as 2026-10-21")


_PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_UNIONS = ("oneOf", "anyOf", "allOf")


def _want_schema(layout: Layout, tool: Tool) -> None:
    """Refuse a tool with a schema that the API refuses (T14, T15)."""
    if any(key in tool.parameters for key in _UNIONS):
        layout.refuse("T14", f"write the parameters of the tool {quoted(tool.name)} as one object")
    properties = tool.parameters.get("properties")
    for name in properties if isinstance(properties, Mapping) else ():
        if not _PROPERTY.fullmatch(name):
            layout.refuse("T15", f"rename {quoted(name)} of the tool {quoted(tool.name)}")


_LIMIT = re.compile("(exclusiveM|m)(in|ax)imum|multipleOf|(min|max)Length|maxItems").fullmatch


def _want_form(layout: Layout, form: Any) -> None:
    """Refuse a JSON Schema of the answer that the API refuses (A29)."""
    inside = [*rules.schemas_in(getattr(form, "schema", None))]
    objects = (each for each in inside if "object" in str(each.get("type")) or "properties" in each)
    if any(each.get("additionalProperties") is not False for each in objects):
        layout.refuse("A29", "add additionalProperties: false to each object of response_format")
    if limits := dict.fromkeys(key for each in inside for key in each if _LIMIT(key)):
        layout.refuse("A29", f"leave out {', '.join(limits)} of response_format")


class AnthropicBatchApi(BatchApi):
    """The Message Batches API: a batch is created by one request, and has no name."""

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
        return structs.replace(part, after=batches[0].id if batches else "")

    def creation(self, part: BatchPart, file: BinaryIO | None) -> tuple[str, Upload]:
        """Return the requests, byte for byte."""
        assert file is not None  # noqa: S101 - nothing is uploaded earlier
        return self.batches_path, Upload(file, 0, file.seek(0, os.SEEK_END))

    async def find(
        self, part: BatchPart, others: Collection[str], ids: Callable[[], set[str]]
    ) -> BatchSearch:
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
                if set(places(file)) == ids():
                    return BatchSearch(batch.id)
        return BatchSearch(undecided=tuple(undecided))

    def status(self, batch: Any) -> BatchStatus:
        """Return the status and the counts, which are 0 until the batch has ended."""
        counts, state = batch["request_counts"], batch["processing_status"]
        done = ("succeeded", "errored", "canceled", "expired")
        answered = sum(counts.get(key, 0) for key in done)
        return BatchStatus(
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


class AnthropicProvider(HttpProvider):
    """Sends the chat prompt to the Messages API."""

    kind = "anthropic"
    telemetry_names = ("anthropic",)
    path = "/v1/messages"
    body_forms = (FORM,)
    batch_api = AnthropicBatchApi
    counts_tokens = True
    own_server = "https://api.anthropic.com"
    tool_names = rules.Names("A12", re.compile("[A-Za-z0-9_-]{1,128}"))
    hottest = ("A9", 1)
    address_settings = ("base_url", "api_version")
    settings: AnthropicSettings

    def prepared(self, layout: Layout, request: ProviderRequest) -> PreparedRequest:
        """Return the messages as the Messages API takes them, and the parameters."""
        keep = self.settings.later_system == "keep"
        if keep:
            layout.take_first_system("A1", "A3")
        else:
            refuses = self.abilities.takes("later_system").takes is False
            keeps = "; so does later_system: keep of the target, if the model takes one"
            layout.take_system("A1", "A3", "" if refuses else keeps)
        if layout.has_more:
            rules.keep_thinking(layout, "anthropic", lambda block: block.signature or block.data)
            rules.pair_results(layout)
            rules.rename_ids(layout, _IDS)
            if not request.tools and any(message.calls for message in layout.messages):
                what = "sources disagree whether Anthropic takes calls in messages without tools"
                layout.doubts.append(f"{what} (T7: litellm #27620, #24712); add tools to the case")
        if layout.has_media:
            rules.move_from_results(layout, lambda result, _: not result.is_error, "A17")
            rules.want_user_media(layout, "A13")
            rules.want_types(layout, "A14", lambda media: media.kind in _KINDS, "write its words")
            rules.want_kinds(layout, self.abilities, _KINDS)
            rules.want_images(layout, "A15", 5 * 2**20)
            rules.want_size(layout, "A16", 32 * 2**20)
            rules.without_detail(layout)
        layout.drop_blank("A3")
        layout.tools_as_user("A1")
        layout.want_turns("A2")
        layout.merge_runs("A6")
        if layout.has_more:
            rules.name_joined(layout, "A6", with_user=True)
        if keep:
            layout.want_system_in_place(self.abilities)
        if layout.want_user_last(self.abilities):
            layout.trim_end("A5")
        for tool in request.tools:
            _want_schema(layout, tool)
        asked = self.asked(layout, request)
        rules.doubt_description(layout, asked.settings)
        settings, caching = asked.settings, self.settings.prompt_caching
        _want_form(layout, settings.response_format)
        if settings.max_output_tokens is None:
            settings = structs.replace(settings, max_output_tokens=_DEFAULT_LIMIT)
        most, thought = settings.max_output_tokens, settings.reasoning_tokens
        if thought is not None and not _LEAST_THOUGHT <= thought < (most or 0):
            layout.refuse("A22", f"this one is {thought}, of {most}")
        if settings.tool_choice == "none":
            settings = structs.replace(settings, parallel_tool_calls=None)  # none takes no switch
        elif settings.parallel_tool_calls is not None and settings.tool_choice is None:
            settings = structs.replace(settings, tool_choice="auto")  # the API wants one beside it
        form = {"prompt_caching": caching} if caching else {}
        return structs.replace(asked, settings=settings, form=form)

    @property
    def has_cache(self) -> bool | None:
        """Whether prefixes are cached: only if the target asks for it."""
        return super().has_cache if self.settings.prompt_caching else False

    def counting(self, request: PreparedRequest) -> tuple[str, dict[str, Any]]:
        """Return the path and the body of the endpoint that counts."""
        body = self.write(request).items()
        return "/v1/messages/count_tokens", {key: each for key, each in body if key in _COUNTED}

    def read(self, answer: Any) -> ProviderResponse:
        """Return the text blocks, the calls and the thinking."""
        content = answer["content"]
        return ProviderResponse(
            text="".join(block["text"] for block in content if block["type"] == "text"),
            tool_calls=tuple(
                read_called(block["id"], block["name"], block["input"])
                for block in content
                if block["type"] == "tool_use"
            ),
            thinking=[block for block in content if block["type"] in _THINKING],
            usage=counts(
                answer.get("usage"),
                input_tokens="input_tokens+cache_read_input_tokens+cache_creation_input_tokens",
                output_tokens="output_tokens",
                cached_tokens="cache_read_input_tokens",
                cache_write_tokens="cache_creation_input_tokens",
            ),
            finish_reason=answer.get("stop_reason"),
            is_refusal=answer.get("stop_reason") == "refusal",
        )
