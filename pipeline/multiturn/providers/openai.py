"""OpenAI and servers with its API, through the openai SDK: messages are sent almost unchanged."""

import re
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from multiturn.providers.base import ProviderResponse, counts
from multiturn.providers.client import http_client
from multiturn.providers.http import API_KEY, HttpProvider, HttpSettings
from multiturn.providers.rules import Layout
from multiturn.request import ProviderRequest

# gpt-5.1 and later take one, as long as nothing asks them to reason.
_REASONS = re.compile(r"o\d|gpt-5(?![.\d]|-chat)")
_OPENAI = "https://api.openai.com/v1"


class CompletionsSettings(HttpSettings, frozen=True, kw_only=True):
    """The settings of every target with the Chat Completions API."""

    system_role: Annotated[
        Literal["system", "developer"],
        Meta(description="what the model calls its system message (O2)."),
    ] = "system"
    later_system: Annotated[
        Literal["keep", "merge"],
        Meta(
            description="`merge` sends all system messages as one, the first message, for chat"
            " templates that refuse any other (O5)."
        ),
    ] = "keep"
    max_tokens_field: Annotated[
        Literal["max_completion_tokens", "max_tokens"],
        Meta(description="the key of the body that limits the output (O4)."),
    ] = "max_completion_tokens"


class OpenAISettings(CompletionsSettings, frozen=True, kw_only=True):
    """The settings of an ``openai`` target."""

    api_key: Annotated[str | None, API_KEY] = None  # type: ignore[assignment]
    base_url: Annotated[
        str, Meta(description="the server's address, up to `/v1`; by default OpenAI's own.")
    ] = _OPENAI

    def __post_init__(self) -> None:
        """Refuse to ask OpenAI without a key."""
        super().__post_init__()
        if self.api_key is None and self.base_url.rstrip("/") == _OPENAI:
            what = "there is no 'api_key'; add it, or the base_url of a server that needs none"
            raise ValueError(what)


class OpenAIProvider(HttpProvider):
    """Sends the chat prompt to OpenAI, or to a server with its API, which may need no key."""

    kind = "openai"
    sdk = "openai"
    path = "/chat/completions"
    address_settings: ClassVar[tuple[str, ...]] = ("base_url",)

    def is_openai(self) -> bool:
        """Return whether the model is one of OpenAI's; those of other servers have other rules."""
        return self.address() == (_OPENAI,)

    def body(self, layout: Layout, request: ProviderRequest) -> dict[str, Any]:
        """Return the messages, tool messages as the user's (O1), and the parameters."""
        settings, is_openai = self.settings, self.is_openai()
        layout.tools_as_user("O1")
        if settings.later_system == "merge":
            layout.merge_system("O5")
        layout.want_turns("C1")
        temperature, limit = self.sampling(layout, request, ("O7", 2) if is_openai else None)
        if is_openai and temperature not in (None, 1) and _REASONS.match(settings.model):
            layout.refuse("O8", "set temperature: omit in the target")
        return {
            "messages": layout.plain(settings.system_role),
            "model": settings.model,
            settings.max_tokens_field: limit,
            "temperature": temperature,
        }

    def connect(self) -> Any:
        """Return an openai client; without a key, no key is sent."""
        import openai

        self.http = http_client(openai.DefaultAioHttpClient)
        if self.settings.api_key is None:
            self.http.event_hooks["request"].append(_without_key)
        return self.client(
            openai,
            api_key=self.settings.api_key or "none",  # without one, the SDK refuses to start
            timeout=self.settings.timeout_seconds,
            max_retries=self.settings.max_retries,
            http_client=self.http,
        )

    def client(self, sdk: Any, **options: Any) -> Any:
        """Return a client of the SDK for the target's address."""
        return sdk.AsyncOpenAI(base_url=self.settings.base_url, **options)

    def read(self, answer: Any) -> ProviderResponse:
        """Return the first choice; a refusal by the model is an answer, too."""
        choice = answer["choices"][0]
        message = choice["message"]
        return ProviderResponse(
            text=message.get("content") or message.get("refusal") or "",
            usage=counts(
                answer.get("usage"),
                input_tokens="prompt_tokens",
                output_tokens="completion_tokens",
                cached_tokens="prompt_tokens_details.cached_tokens",
            ),
            finish_reason=choice.get("finish_reason"),
        )


async def _without_key(request: Any) -> None:
    del request.headers["authorization"]
