"""Anthropic, through its SDK: system apart, user and assistant in turn, never an empty text."""

import re
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from multiturn.model import ChatMessage, ProviderRequest
from multiturn.providers.base import ProviderResponse, Wire, counts
from multiturn.providers.http import HOOKS, HttpProvider, HttpSettings
from multiturn.providers.rules import Layout

# claude-3-5-sonnet, claude-opus-4-6, claude-opus-4-20250514: the version, without the date.
_VERSION = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?![\d])")
_FIRST_WITHOUT_PREFILL = (4, 6)
_DEFAULT_LIMIT = 4096  # the API wants one


class AnthropicSettings(HttpSettings, frozen=True, kw_only=True):
    """The settings of an ``anthropic`` target."""

    base_url: Annotated[str | None, Meta(description="of a gateway; null for Anthropic's own.")] = (
        None
    )
    prefill: Annotated[
        bool | None,
        Meta(
            description="whether the model takes a final assistant message (A4);"
            " null to go by its name."
        ),
    ] = None


class AnthropicProvider(HttpProvider):
    """Sends the chat prompt to the Messages API."""

    sdk = "anthropic"
    extra = "anthropic"
    settings: AnthropicSettings

    def wire(self, request: ProviderRequest) -> Wire:
        """Return the messages in the form of the Messages API.

        Raises:
            ProviderError: there is no message to answer (A2), the model takes no final assistant
                message (A4), or a system message stands among the others (A1).
        """
        layout = Layout(self.build_chat_prompt(request))
        system = layout.take_system("A1", blank="A3")
        layout.drop_blank("A3")
        layout.tools_as_user("A1")
        layout.want_turns("A2")
        layout.merge_runs("A6")
        if not self.takes_prefill():
            layout.want_user("A4", at=-1, advice="; set prefill: true if the model takes one")
        elif layout.messages and layout.messages[-1].role == "assistant":
            last = layout.messages[-1]
            if last.content != last.content.rstrip():
                layout.messages[-1] = ChatMessage("assistant", last.content.rstrip())
                layout.repair("A5", "cut the white space at the end of the assistant message")
        temperature, limit = self.sampling(request)
        body = {
            "max_tokens": _DEFAULT_LIMIT if limit is None else limit,
            "messages": layout.messages,
            "model": self.settings.model,
            "system": system,
            "temperature": temperature,
        }
        given = {name: value for name, value in body.items() if value is not None}
        return Wire(
            provider="anthropic",
            model=self.settings.model,
            parameters=(self.settings.base_url or "",),
            body=msgspec.json.encode(given),
            repairs=layout.done(),
        )

    def takes_prefill(self) -> bool:
        """Whether the model goes on from an assistant message at the end."""
        if self.settings.prefill is not None:
            return self.settings.prefill
        match = _VERSION.search(self.settings.model)
        return match is None or (int(match[1]), int(match[2] or 0)) < _FIRST_WITHOUT_PREFILL

    def connect(self) -> Any:
        """Return an anthropic client."""
        import anthropic

        return anthropic.AsyncAnthropic(
            api_key=self.settings.api_key,
            base_url=self.settings.base_url,
            timeout=self.settings.timeout_seconds,
            max_retries=self.settings.max_retries,
            http_client=anthropic.DefaultAioHttpClient(event_hooks=HOOKS, follow_redirects=False),
        )

    async def ask(self, client: Any, wire: Wire) -> str:
        """Post the body as it is: the SDK's typed method would walk and copy it twice."""
        import httpx2

        response = await client.post("/v1/messages", content=wire.body, cast_to=httpx2.Response)
        return str(response.text)

    def read(self, answer: Any) -> ProviderResponse:
        """Return the text blocks."""
        return ProviderResponse(
            text="".join(block["text"] for block in answer["content"] if block["type"] == "text"),
            usage=counts(
                answer.get("usage"), input_tokens="input_tokens", output_tokens="output_tokens"
            ),
            finish_reason=answer.get("stop_reason"),
        )
