"""OpenAI and servers with its API, through the openai SDK: messages are sent almost unchanged."""

import re
from contextlib import suppress
from itertools import takewhile
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from multiturn.model.calls import Call
from multiturn.model.request import ProviderRequest
from multiturn.providers.base import ProviderResponse
from multiturn.providers.chat import chat_choice, chat_message, chat_tool
from multiturn.providers.client import http_client
from multiturn.providers.http import HttpProvider
from multiturn.providers.http_settings import API_KEY, HttpSettings
from multiturn.providers.layout import Layout
from multiturn.providers.models import SERVERS
from multiturn.providers.tool_layout import Names, choice_of, lay_out_for_chat, want_names
from multiturn.providers.usage import counts

_NAMES = Names("O16", re.compile("[A-Za-z0-9_-]{1,64}"))
_OPENAI = "https://api.openai.com/v1"
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


class CompletionsSettings(HttpSettings, frozen=True, kw_only=True):
    """The settings of every target with the Chat Completions API."""

    system_role: Annotated[
        Literal["system", "developer", "user"],
        Meta(
            description="what the model calls its system message (O2); `user` for chat templates"
            " that take none (O14)."
        ),
    ] = "system"
    roles: Annotated[
        Literal["any", "alternate"] | None,
        Meta(
            description="`alternate` merges neighbors of one role, for chat templates in which user"
            " and assistant must alternate (O13); null to warn where the model's may want that."
        ),
    ] = None
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

    prompt_caching: Annotated[
        bool,
        Meta(description="mark the system message for the cache of models that want that (O9)."),
    ] = False

    def __post_init__(self) -> None:
        """Refuse to ask OpenAI, or Azure, without a key."""
        super().__post_init__()
        if self.api_key is None and vendor_at(self.base_url) != SERVERS:
            what = "there is no 'api_key'; add it, or the base_url of a server that needs none"
            raise ValueError(what)


class OpenAIProvider(HttpProvider):
    """Sends the chat prompt to OpenAI, or to a server with its API, which may need no key."""

    kind = "openai"
    title = "OpenAI, Azure"
    sdk = "openai"
    path = "/chat/completions"
    rules_by: ClassVar[tuple[str, ...]] = ("base_url",)
    address_settings: ClassVar[tuple[str, ...]] = ("base_url",)

    @property
    def vendor(self) -> str:
        """Whose models are at the address."""
        return vendor_at(self.settings.base_url)

    def body(self, layout: Layout, request: ProviderRequest) -> dict[str, Any]:
        """Return the messages, tool messages without a call as the user's (O1), and the rest."""
        settings = self.settings
        lay_out_for_chat(layout)
        layout.want_turns("C1")
        self.lay_out_system(layout)
        if settings.roles == "alternate":
            layout.alternate("O13")
        elif settings.roles is None:
            layout.doubt_template(self.abilities)
        layout.want_user_last(self.abilities)
        highest = None if self.vendor == SERVERS else ("O7", 2)
        temperature, limit = self.sampling(layout, request, highest)
        if limit is not None:
            self.want_name_of_limit(layout)
        if self.vendor != SERVERS:
            want_names(layout, request, _NAMES)
        choice = choice_of(layout, request, settings.tool_choice)
        roles = {"system": settings.system_role}
        said = [chat_message(each, roles.get(each.role, each.role)) for each in layout.messages]
        messages, caching = self.marked(layout, said)
        return {
            "messages": messages,
            "model": settings.model,
            settings.max_tokens_field: limit,
            "prompt_cache_options": caching,
            "temperature": temperature,
            "tools": [chat_tool(tool) for tool in request.tools] or None,
            "tool_choice": choice and chat_choice(choice),
        }

    @property
    def has_cache(self) -> bool | None:
        """Whether prefixes are cached: by newer models only if the target asks for it."""
        wants_marks = self.abilities.takes("cache_breakpoints").takes
        return False if wants_marks and not self.asks_for_cache else super().has_cache

    @property
    def asks_for_cache(self) -> bool:
        """Whether the target wants the system message marked for the cache."""
        return bool(getattr(self.settings, "prompt_caching", False))  # Azure's have no such setting

    def marked(self, layout: Layout, messages: list[Any]) -> tuple[list[Any], Any]:
        """Return the messages, and how they are cached; the system message is marked if wanted."""
        if not self.asks_for_cache:
            return messages, None
        verdict = self.abilities.takes("cache_breakpoints")
        advice = "leave out prompt_caching: this one caches prompts by itself"
        layout.judge("cache_breakpoints", verdict, self.abilities, advice)
        leading = takewhile(lambda message: message.role == "system", layout.messages)
        at = max(len(list(leading)) - 1, 0)
        text = {"type": "text", "text": layout.messages[at].content}
        part = {**text, "prompt_cache_breakpoint": {"mode": "explicit"}}
        message = {**messages[at], "content": [part]}
        return [*messages[:at], message, *messages[at + 1 :]], {"mode": "explicit"}

    def lay_out_system(self, layout: Layout) -> None:
        """Send system messages as the target says."""
        if self.settings.later_system == "merge":
            layout.merge_system("O5")
        if self.settings.system_role == "user":
            layout.system_as_user("O14")
        layout.want_known_later_system(self.abilities, "set later_system: merge in the target")

    def want_name_of_limit(self, layout: Layout) -> None:
        """Refuse a name of the limit that the model does not take."""
        row = self.abilities.limit()
        if row and row.limit != self.settings.max_tokens_field and self.vendor != SERVERS:
            layout.refuse(row.rule or "C4", f"set max_tokens_field: {row.limit} in the target")

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
            tool_calls=tuple(map(_call, message.get("tool_calls") or ())),
            usage=counts(
                answer.get("usage"),
                input_tokens="prompt_tokens",
                output_tokens="completion_tokens",
                cached_tokens="prompt_tokens_details.cached_tokens",
            ),
            finish_reason=choice.get("finish_reason"),
            is_refusal=bool(message.get("refusal"))
            or choice.get("finish_reason") == "content_filter",
        )


def _call(answered: Any) -> Call:
    """Return a call of an answer; arguments that are no JSON object, as models write, stay text."""
    name, arguments = answered["function"]["name"], answered["function"]["arguments"]
    with suppress(ValueError):
        arguments = msgspec.json.decode(arguments or "{}", type=dict[str, Any])
    return Call(answered["id"], name, arguments)


async def _without_key(request: Any) -> None:
    del request.headers["authorization"]
