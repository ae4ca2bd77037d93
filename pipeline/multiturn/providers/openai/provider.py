"""OpenAI and servers with its API, by HTTP: messages are sent almost unchanged."""

import re
from functools import cached_property
from typing import Any, ClassVar

from multiturn.errors import ProviderError
from multiturn.files.media import MEDIA_KINDS
from multiturn.model.request import PreparedRequest, ProviderRequest
from multiturn.providers.base import ProviderResponse, Wire
from multiturn.providers.http import HttpProvider
from multiturn.providers.layout import Layout
from multiturn.providers.media_parts import media_in, want_kinds
from multiturn.providers.models import SERVERS
from multiturn.providers.openai import chat, responses
from multiturn.providers.openai.answers import (
    ChatAnswer,
    ResponsesAnswer,
    answer_of_chat,
    answer_of_response,
)
from multiturn.providers.openai.repairs import (
    LOWEST_LIMIT,
    MEDIA,
    lay_out_for_chat,
    lay_out_for_responses,
    phases,
    wanted_thinking,
)
from multiturn.providers.openai.settings import vendor_at
from multiturn.providers.tool_layout import Names
from multiturn.providers.usage import InputTokens

_COUNTED = ("model", "instructions", "input", "tools", "tool_choice")  # by the endpoint


class OpenAIProvider(HttpProvider):
    """Sends the chat prompt to OpenAI, or to a server with its API, which may need no key."""

    kind = "openai"
    title = "OpenAI, Azure"
    body_forms = (chat.FORM, responses.FORM)
    batch_api = "multiturn.providers.openai.batches:OpenAIBatchApi"
    counts_tokens = True
    rules_by: ClassVar[tuple[str, ...]] = ("base_url",)
    address_settings: ClassVar[tuple[str, ...]] = ("base_url",)
    tool_names = Names("O16", re.compile("[A-Za-z0-9_-]{1,64}"))
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
    def server(self) -> str:
        """The address that paths are appended to."""
        return str(self.settings.base_url)

    @property
    def endpoint(self) -> str:
        """The path of the API, as lines of batches have it."""
        return "/responses" if self.asks_responses else "/chat/completions"

    @property
    def path(self) -> str:
        """The path of the requests."""
        return self.endpoint

    def versioned(self, path: str) -> str:
        """Return a path with the version of the API, where that is part of it."""
        return path

    @property
    def spoken_keys(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those of the API."""
        return ("instructions", "input", "tools") if self.asks_responses else ("messages", "tools")

    def prepared(self, layout: Layout, request: ProviderRequest) -> PreparedRequest:
        """Return the messages, tool messages without a call as the user's (O1), and the rest."""
        settings = self.settings
        if self.asks_responses:
            lay_out_for_responses(layout, self.abilities)
        else:
            self.want_chat(layout)
            lay_out_for_chat(layout)
        layout.want_turns("C1")
        if layout.has_media:
            want_kinds(layout, self.abilities, MEDIA if self.asks_responses else MEDIA_KINDS)
        self.lay_out_system(layout)
        if settings.roles == "alternate":
            layout.alternate("O13")
        elif settings.roles is None:
            layout.doubt_template(self.abilities)
        layout.want_user_last(self.abilities)
        asked = self.asked(layout, request)
        if asked.limit is not None:
            self.want_limit(layout, asked.limit)
        form: dict[str, Any] = {}
        if self.asks_responses:
            if self.settings.system_as == "instructions":
                layout.take_first_system("O17", "O17")
            form["phases"] = phases(layout, self.abilities) or None
            form["include"] = wanted_thinking(layout, self.abilities)
        elif asked.limit is not None and self.settings.max_tokens_field == "max_tokens":
            form["max_tokens_field"] = "max_tokens"
        if self.asks_for_cache:
            advice = "leave out prompt_caching: this one caches prompts by itself"
            layout.judge(self.abilities.takes("cache_breakpoints"), advice)
            form["prompt_caching"] = True
        if self.settings.system_role == "developer":
            form["system_role"] = "developer"
        return self.made(layout, request, asked, **form)

    def write(self, request: PreparedRequest) -> dict[str, Any]:
        """Return the body for the API that is asked."""
        return (
            responses.write_response(request) if self.asks_responses else chat.write_chat(request)
        )

    def want_chat(self, layout: Layout) -> None:
        """Refuse a model that has no Chat Completions, where the address does not convert."""
        verdict = self.abilities.takes("chat")
        if verdict.takes is False or (verdict.rows and self.vendor != SERVERS):
            layout.judge(verdict, "set api: responses in the target")

    @cached_property
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

    def lay_out_system(self, layout: Layout) -> None:
        """Send system messages as the target says."""
        if self.settings.later_system == "merge":
            layout.merge_system("O5")
        if self.settings.system_role == "user":
            layout.system_as_user("O14")
        layout.want_known_later_system(self.abilities, "set later_system: merge in the target")

    def want_limit(self, layout: Layout, limit: int) -> None:
        """Refuse a limit that is too low, or whose name the model does not take."""
        if self.vendor == SERVERS:
            return
        row = self.abilities.limit()
        if self.asks_responses:
            if limit < LOWEST_LIMIT:
                layout.refuse("O18", f"this one is {limit}")
        elif row and row.limit != self.settings.max_tokens_field:
            layout.refuse(row.rule or "C4", f"set max_tokens_field: {row.limit} in the target")

    async def count(self, wire: Wire) -> int:
        """Return the input tokens that OpenAI counts, of the request in the form of Responses."""
        assert wire.prepared is not None  # noqa: S101 - it is this provider's
        if any(media.kind == "audio" for media in media_in(wire.prepared.messages)):
            raise ProviderError("OpenAI's endpoint counts no audio", kind="refused")
        body = responses.write_response(wire.prepared)
        counted = {name: value for name in _COUNTED if (value := body.get(name))}
        return await self.call(
            *("POST", "/responses/input_tokens", InputTokens),
            *(lambda found: found.input_tokens, counted),
            what="count",
        )

    @property
    def answer_type(self) -> type:  # type: ignore[override]
        """That of the API."""
        return ResponsesAnswer if self.asks_responses else ChatAnswer

    def read(self, answer: Any) -> ProviderResponse:
        """Return what the API that was asked says."""
        return answer_of_response(answer) if self.asks_responses else answer_of_chat(answer)
