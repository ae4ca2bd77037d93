"""The providers that use HTTP, each asking a server of ours, and how tests ask them."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loopback import KEY, completion
from multiturn import ChatMessage, ProviderError, ProviderRequest, ProviderResponse
from multiturn.documents.yaml_reader import read_documents
from multiturn.model.settings import SETTINGS, RequestSettings
from multiturn.providers.anthropic.provider import AnthropicProvider, AnthropicSettings
from multiturn.providers.base import ChatProvider, ChatSettings, Wire
from multiturn.providers.gemini.provider import GeminiProvider, GeminiSettings
from multiturn.providers.openai.provider import (
    AzureProvider,
    AzureSettings,
    OpenAIProvider,
    OpenAISettings,
)
from multiturn.providers.targets import EchoProvider

NOWHERE = "http://127.0.0.1:9"
GIVEN: dict[str, Any] = {"name": "t", "provider": "t", "api_key": KEY}

Connect = Callable[..., Any]


def azure(url: str = NOWHERE, **settings: Any) -> AzureProvider:
    return AzureProvider(AzureSettings(**{**GIVEN, "endpoint": url, "model": "gpt-4o", **settings}))


def openai(url: str = NOWHERE, **settings: Any) -> OpenAIProvider:
    return OpenAIProvider(
        OpenAISettings(**{**GIVEN, "base_url": f"{url}/v1", "model": "gpt-4o", **settings})
    )


def responses(url: str = NOWHERE, **settings: Any) -> OpenAIProvider:
    given = {"api": "responses", "model": "gpt-5-mini", "model_takes": {"result_media": True}}
    return openai(url, **{**given, **settings})


def anthropic(url: str = NOWHERE, **settings: Any) -> AnthropicProvider:
    # This version takes a temperature, as the other vendors do.
    version = "2023-06-01"
    given = {**GIVEN, "base_url": url, "model": "claude-sonnet-4-5", "api_version": version}
    return AnthropicProvider(AnthropicSettings(**{**given, **settings}))


def gemini(url: str = NOWHERE, **settings: Any) -> GeminiProvider:
    given = {**GIVEN, "base_url": url, "model": "gemini-2.5-flash"}
    return GeminiProvider(GeminiSettings(**{**given, **settings}))


def echo(url: str = NOWHERE, **settings: Any) -> EchoProvider:
    return EchoProvider(ChatSettings(name="t", provider="echo", **settings))


PROVIDERS: dict[str, Connect] = {
    "openai": openai,
    "azure": azure,
    "responses": responses,
    "anthropic": anthropic,
    "gemini": gemini,
    "echo": echo,
}


def entries(table: str) -> list[Any]:
    """Return a vendor and an entry of a table, for each vendor that the entry names."""
    path = Path(__file__).parent / "providers" / table
    (document,) = read_documents(path.read_bytes(), table)
    return [
        pytest.param(vendor, entry, id=f"{title} ({vendor})")
        for title, entry in document.value.items()
        for vendor in PROVIDERS
        if vendor in entry
    ]


each_vendor = pytest.mark.parametrize(
    "connect", [connect for connect in PROVIDERS.values() if connect is not echo]
)


def chat(*messages: tuple[Any, Any], **given: Any) -> ProviderRequest:
    """Return a request with a chat prompt of (role, content)."""
    prompt = tuple(ChatMessage(role, content) for role, content in messages)
    said = {name: given.pop(name) for name in SETTINGS if name in given}
    if said:
        given["settings"] = RequestSettings(**said)
    return ProviderRequest(**{"question": "(for logs only)", "chat_prompt": prompt, **given})


def answer_of(provider: Any, text: str) -> Any:
    """Return an answer in the format that a provider reads."""
    asks_responses = getattr(provider, "asks_responses", False)
    return completion("responses" if asks_responses else provider.kind, text)


def sent(wire: Wire) -> list[tuple[str, str]]:
    """Return the messages of a body as (role, content), the system message first."""
    body = msgspec.json.decode(wire.body)
    if wire.provider == "gemini":
        roles = {"user": "user", "model": "assistant"}
        turns = [(roles[turn["role"]], turn["parts"][0]["text"]) for turn in body["contents"]]
        system = body.get("systemInstruction", {"parts": []})["parts"]
        return [*(("system", part["text"]) for part in system), *turns]
    messages = body.get("messages") or body["input"]
    turns = [(message["role"], message["content"]) for message in messages]
    system = body.get("system") or body.get("instructions")
    return [("system", system), *turns] if system else turns


HELLO = chat(("system", "Be brief."), ("user", "Hello"))


def ask(provider: ChatProvider, request: ProviderRequest = HELLO) -> ProviderResponse:
    """Return the provider's answer."""

    async def main() -> ProviderResponse:
        async with provider:
            return await provider.invoke(request)

    return asyncio.run(main())


def failure(provider: ChatProvider, request: ProviderRequest = HELLO) -> ProviderError:
    """Return why the provider gives no answer."""
    with pytest.raises(ProviderError) as caught:
        ask(provider, request)
    return caught.value
