"""Amazon Bedrock: any vendor's models, by one API."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct, structs

from bedrock.converse import FORM
from multiturn.files.media import Media, MediaKind
from multiturn.model.request import PreparedRequest, ProviderRequest
from multiturn.model.turns import Call, Part, Turn, is_blank
from multiturn.providers.base import ProviderResponse, UpTo1
from multiturn.providers.http import HttpProvider, HttpSettings
from multiturn.providers.layout import (
    Layout,
    Names,
    keep_thinking,
    name_joined,
    pair_results,
    rename_ids,
    want_kinds,
    want_types,
    want_user_media,
    without_detail,
)
from multiturn.providers.replies import counts
from multiturn.providers.rules import RULES, rules_in

_TABLE = """\
B3 | Bedrock | system is a field; user and assistant must alternate; texts must not be empty | SDK
B4 | Bedrock | a message must have only texts, images and documents, and no addresses of them | SDK
B5 | Bedrock | a tool has a name of 1 to 64 letters, digits, _ and -, and no choice is none | SDK
B6 | Bedrock | a call has an id of 1 to 64 letters, digits, _ . : -; a failed result must say why | SDK
B7 | Bedrock | calls in messages need tools | pentagi #196, zot #18, dify #17545
B9 | Bedrock | images and documents must be in user messages, a document beside a text | SDK
B10 | Bedrock | a document has a name of its own, without a dot | SDK, bifrost #7003
B14 | Bedrock | a temperature must not exceed 1 | SDK
"""  # noqa: E501 - a rule is a line
_IDS = Names("B6", re.compile("[A-Za-z0-9_.:-]{1,64}"))
_KINDS: tuple[MediaKind, ...] = ("image", "document")
_COUNTED = ("system", "messages", "toolConfig")  # keys of a body
_MOST = 200  # characters of a document's name


class BedrockSettings(HttpSettings, frozen=True, kw_only=True):
    """The settings of a ``bedrock`` target.

    Attributes:
        base_url: of a gateway; null for Amazon's own.
        region: of Amazon's server.
    """

    base_url: str | None = None
    region: str = "us-east-1"
    temperature: UpTo1 = None


class _Called(Struct, rename="camel"):
    tool_use_id: str
    name: str
    input: Any


class _Block(Struct, rename="camel"):
    text: str = ""
    tool_use: _Called | None = None
    reasoning_content: dict[str, Any] | None = None


class _Message(Struct):
    content: list[_Block]


class _Output(Struct):
    message: _Message


class BedrockAnswer(Struct, rename="camel"):
    """An answer of Converse."""

    output: _Output
    stop_reason: str | None = None
    usage: Any = None


class BedrockProvider(HttpProvider):
    """Sends the chat prompt to the Converse API."""

    kind = "bedrock"
    telemetry_names = ("aws.bedrock",)
    # Claude's rows of models.yaml are found by the names that Bedrock has for the models; they are
    # not about the days of Anthropic's own API, which Bedrock does not have.
    vendor = "anthropic"
    api_version = "2023-06-01"
    body_forms = (FORM,)
    counts_tokens = True
    count_key = "inputTokens"
    tool_names = Names("B5", re.compile("[A-Za-z0-9_-]{1,64}"))
    hottest = ("B14", 1)
    address_settings = ("base_url", "region")
    rules = RULES | rules_in(_TABLE)
    has_cache = False  # nothing is marked by a cachePoint
    settings: BedrockSettings

    def prepared(self, layout: Layout, request: ProviderRequest) -> PreparedRequest:
        """Return the messages as Converse takes them, and the parameters."""
        layout.take_system("B3", "B3")
        if layout.has_more:
            keep_thinking(layout, "anthropic", lambda block: block.signature or block.data)
            pair_results(layout)
            rename_ids(layout, _IDS)
        if layout.has_media:
            want_user_media(layout, "B9")
            want_types(layout, "B4", _is_taken, "attach an image or a PDF file")
            want_kinds(layout, self.abilities, _KINDS)
            without_detail(layout)
            _name_documents(layout)
        layout.drop_blank("B3")
        layout.tools_as_user("B3")
        layout.want_turns("C1")
        layout.merge_runs("B3")
        if layout.has_media:
            _want_texts(layout)
        if layout.has_more:
            name_joined(layout, "B3", with_user=True)
            _want_reasons(layout)
        if layout.want_user_last(self.abilities):
            layout.trim_end("A5")
        asked = self.asked(layout, request)
        calls = any(turn.calls for turn in layout.messages)
        if calls and not request.tools:
            layout.refuse("B7", "add tools to the case")
        if asked.settings.tool_choice == "none":
            settings = structs.replace(asked.settings, tool_choice=None)
            asked = structs.replace(asked, settings=settings)
            if calls:
                layout.refuse("B5", "leave out tool_choice, as the messages have calls")
            else:
                asked = structs.replace(asked, tools=())
                layout.repair("B5", "left out the tools, as tool_choice is none")
        return asked

    @property
    def server(self) -> str:
        """The address that paths are appended to."""
        return self.settings.base_url or (
            f"https://bedrock-runtime.{self.settings.region}.amazonaws.com"
        )

    @property
    def path(self) -> str:
        """The path of the requests."""
        return self._path("converse")

    def _path(self, method: str) -> str:
        return f"/model/{quote(self.settings.model, safe='')}/{method}"

    def counting(self, request: PreparedRequest) -> tuple[str, dict[str, Any]]:
        """Return the path and the body of the endpoint that counts."""
        body = self.write(request)
        counted = {key: value for key, value in body.items() if key in _COUNTED}
        return self._path("count-tokens"), {"input": {"converse": counted}}

    def read(self, answer: Any) -> ProviderResponse:
        """Return the texts, the calls and the thinking."""
        answer = msgspec.convert(answer, BedrockAnswer)
        blocks = answer.output.message.content
        called = (block.tool_use for block in blocks if block.tool_use)
        return ProviderResponse(
            text="".join(block.text for block in blocks),
            tool_calls=tuple(Call(call.tool_use_id, call.name, call.input) for call in called),
            thinking=[
                {"reasoningContent": block.reasoning_content}
                for block in blocks
                if block.reasoning_content is not None
            ],
            usage=counts(
                answer.usage,
                input_tokens="inputTokens+cacheReadInputTokens+cacheWriteInputTokens",
                output_tokens="outputTokens",
                cached_tokens="cacheReadInputTokens",
                cache_write_tokens="cacheWriteInputTokens",
            ),
            finish_reason=answer.stop_reason,
            is_refusal=answer.stop_reason in ("guardrail_intervened", "content_filtered"),
        )


def _is_taken(media: Media) -> bool:
    return media.kind in _KINDS and not media.url


def _name_documents(layout: Layout) -> None:
    """Give each document a name that Converse takes, and no other document has (B10)."""
    taken: set[str] = set()

    def renamed(part: Part) -> Part:
        media = part.media
        if media is None or media.kind != "document" or media.url:
            return part
        stem = re.sub(r"[^A-Za-z0-9()\[\]-]+", " ", media.name).strip()[:_MOST].strip() or "file"
        name, number = stem, 1
        while name in taken:
            number += 1
            end = f" {number}"
            name = stem[: _MOST - len(end)].strip() + end
        taken.add(name)
        if name != media.path:
            layout.repair("B10", f"named the document {media.name!r} {name!r}")
        return structs.replace(part, media=media.replace(path=name))

    for at, turn in enumerate(layout.messages):
        if turn.has_media:
            parts = tuple(map(renamed, turn.parts))
            layout.messages[at] = structs.replace(turn, parts=parts)


def _want_texts(layout: Layout) -> None:
    """Refuse a document without a text beside it (B9)."""
    for turn in layout.messages:
        if turn.answers is None and turn.parts and not any(map(_is_text, turn.parts)):
            for media in _documents(turn):
                layout.refuse("B9", f"write a text beside {media.name!r}")


def _is_text(part: Part) -> bool:
    return part.media is None and not is_blank(part.text)


def _documents(turn: Turn) -> Iterator[Media]:
    return (part.media for part in turn.parts if part.media and part.media.kind == "document")


def _want_reasons(layout: Layout) -> None:
    """Refuse a failed result that says nothing (B6)."""
    for turn in layout.messages:
        if turn.is_error and not turn.parts:
            layout.refuse("B6", f"write what went wrong in the result of {turn.answers!r}")
