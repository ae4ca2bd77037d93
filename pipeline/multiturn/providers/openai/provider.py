"""OpenAI and servers with its API, by HTTP: messages are sent almost unchanged."""

import re
from collections.abc import Iterable
from functools import cached_property
from itertools import takewhile
from typing import Any, ClassVar

from multiturn.files.media import MEDIA_KINDS
from multiturn.model.calls import Tool
from multiturn.model.request import ProviderRequest
from multiturn.model.turns import Turn
from multiturn.providers.base import ProviderResponse
from multiturn.providers.http import Asked, HttpProvider
from multiturn.providers.layout import Layout
from multiturn.providers.media_parts import want_kinds
from multiturn.providers.models import SERVERS
from multiturn.providers.openai.chat import (
    ChatAnswer,
    chat_choice,
    chat_message,
    chat_tool,
    lay_out_for_chat,
    read_chat,
)
from multiturn.providers.openai.responses import (
    LOWEST_LIMIT,
    MEDIA,
    ResponsesAnswer,
    lay_out_for_responses,
    phases,
    read_response,
    response_choice,
    response_items,
    response_tool,
    wanted_thinking,
)
from multiturn.providers.openai.settings import vendor_at
from multiturn.providers.tool_layout import Names


class OpenAIProvider(HttpProvider):
    """Sends the chat prompt to OpenAI, or to a server with its API, which may need no key."""

    kind = "openai"
    title = "OpenAI, Azure"
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

    def body(self, layout: Layout, request: ProviderRequest) -> dict[str, Any]:
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
        make = self.responses_body if self.asks_responses else self.chat_body
        return make(layout, request.tools, asked)

    def chat_body(self, layout: Layout, tools: Iterable[Tool], asked: Asked) -> dict[str, Any]:
        """Return the body for the Chat Completions API."""
        said = [chat_message(each, self.role_of(each)) for each in layout.messages]
        messages, caching = self.marked(layout, said, "text")
        return {
            "messages": messages,
            "model": self.settings.model,
            self.settings.max_tokens_field: asked.limit,
            "prompt_cache_options": caching,
            "temperature": asked.temperature,
            "tools": [chat_tool(tool) for tool in tools] or None,
            "tool_choice": asked.choice and chat_choice(asked.choice),
        }

    def responses_body(self, layout: Layout, tools: Iterable[Tool], asked: Asked) -> dict[str, Any]:
        """Return the body for the Responses API, which shall store nothing."""
        is_apart = self.settings.system_as == "instructions"
        instructions = layout.take_first_system("O17", "O17") if is_apart else None
        phase = phases(layout, self.abilities)
        said = [
            item
            for at, each in enumerate(layout.messages)
            for item in response_items(each, self.role_of(each), phase.get(at, ""))
        ]
        items, caching = self.marked(layout, said, "input_text")
        return {
            "instructions": instructions,
            "input": items,
            "model": self.settings.model,
            "store": False,
            "include": wanted_thinking(layout, self.abilities),
            "max_output_tokens": asked.limit,
            "prompt_cache_options": caching,
            "temperature": asked.temperature,
            "tools": [response_tool(tool) for tool in tools] or None,
            "tool_choice": asked.choice and response_choice(asked.choice),
        }

    def role_of(self, message: Turn) -> str:
        """Return what the model calls the role of a message."""
        return str(self.settings.system_role) if message.role == "system" else message.role

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

    def marked(self, layout: Layout, messages: list[Any], part_type: str) -> tuple[list[Any], Any]:
        """Return the messages, and how they are cached; the system message is marked if wanted.

        Without one, nothing is marked, and the vendor caches nothing of the request.
        """
        if not self.asks_for_cache:
            return messages, None
        advice = "leave out prompt_caching: this one caches prompts by itself"
        layout.judge(self.abilities.takes("cache_breakpoints"), advice)
        leading = takewhile(lambda message: message.role == "system", layout.messages)
        mode = {"mode": "explicit"}
        if at := len(list(leading)):
            last = messages[at - 1]
            text = {"type": part_type, "text": last["content"], "prompt_cache_breakpoint": mode}
            messages[at - 1] = {**last, "content": [text]}
        return messages, mode

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

    @property
    def answer_type(self) -> type:  # type: ignore[override]
        """That of the API."""
        return ResponsesAnswer if self.asks_responses else ChatAnswer

    def read(self, answer: Any) -> ProviderResponse:
        """Return what the API that was asked says."""
        return read_response(answer) if self.asks_responses else read_chat(answer)
