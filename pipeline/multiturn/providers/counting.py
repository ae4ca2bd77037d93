"""The vendors' endpoints that count the tokens of a request without answering it."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import structs

from multiturn.errors import MultiturnError, ProviderError
from multiturn.files.media import with_bytes
from multiturn.model.request import ProviderRequest, prompt_of
from multiturn.providers.base import TargetProvider, Wire
from multiturn.providers.client import current
from multiturn.providers.http import HttpProvider
from multiturn.providers.media_parts import media_in
from multiturn.providers.openai import OpenAIProvider
from multiturn.providers.responses import response_choice, response_items, response_tool
from multiturn.providers.tokens import Tokens

_Ask = Callable[[Any, HttpProvider, Wire], Awaitable[str]]
_COUNTED = ("model", "instructions", "input", "tools", "tool_choice")  # by OpenAI's endpoint
_NOT_COUNTED = ("max_tokens", "temperature")  # keys that Anthropic's endpoint refuses


async def count_tokens(provider: HttpProvider, wire: Wire) -> Tokens:
    """Return the input tokens that the vendor counts, through the target's client and limits.

    Raises:
        ProviderError: the vendor gives no count.
    """
    ask, key = _ENDPOINTS[provider.kind]
    try:
        text = await provider.call(lambda client: ask(client, provider, wire))
        count = msgspec.convert(msgspec.json.decode(text)[key], int)
    except (LookupError, TypeError, ValueError) as error:
        what = f"the count is not in the vendor's format: {type(error).__name__}: {error}"
        raise ProviderError(what, kind="malformed") from None
    except ProviderError as error:
        if error.status == 404:
            error.what += f"; the address of the target {provider.name!r} may not count tokens"
        raise
    return structs.replace(provider.tokens(wire), count=count, is_exact=True, media=0)


def counter_of(provider: TargetProvider) -> HttpProvider:
    """Return the provider of a target whose vendor counts tokens.

    Raises:
        MultiturnError: it does not; or the SDK is not installed.
    """
    if not isinstance(provider, HttpProvider) or provider.kind not in _ENDPOINTS:
        what = f"the vendor of the target {provider.name!r} has no endpoint that counts tokens"
        raise MultiturnError(f"{what}; those of {', '.join(_ENDPOINTS)} have one")
    provider.check()
    return provider


async def _ask_anthropic(client: Any, provider: HttpProvider, wire: Wire) -> str:
    body = {key: value for key, value in _body_of(wire).items() if key not in _NOT_COUNTED}
    return await _post(client, "/v1/messages/count_tokens", body)


async def _ask_openai(client: Any, provider: HttpProvider, wire: Wire) -> str:
    """Ask with the request as the Responses API has it: the endpoint takes no other form."""
    assert isinstance(provider, OpenAIProvider)  # noqa: S101 - by the table below
    body = _body_of(wire) if provider.asks_responses else _as_responses(provider, wire.request)
    counted = {name: value for name in _COUNTED if (value := body.get(name))}
    return await _post(client, "/responses/input_tokens", counted)


def _as_responses(provider: OpenAIProvider, request: ProviderRequest) -> dict[str, Any]:
    """Return what a request of Chat Completions has to count, as the Responses API has it."""
    layout, _ = provider.lay_out(request, prompt_of(request))
    if any(media.kind == "audio" for media in media_in(layout.messages)):
        raise ProviderError("OpenAI's endpoint counts no audio", kind="refused")
    choice = provider.asked(layout, request).choice
    return {
        "model": provider.settings.model,
        "input": [
            item
            for message in layout.messages
            for item in response_items(message, provider.role_of(message))
        ],
        "tools": [response_tool(tool) for tool in request.tools],
        "tool_choice": choice and response_choice(choice),
    }


async def _ask_gemini(client: Any, provider: HttpProvider, wire: Wire) -> str:
    """Ask with the whole request, which the SDK would refuse to put together."""
    name = wire.model if "/" in wire.model else f"models/{wire.model}"
    whole = {"generateContentRequest": {"model": name, **_body_of(wire)}}
    current.get().instead = msgspec.json.encode(whole)
    response = await client.models.count_tokens(model=wire.model, contents="-")
    return msgspec.json.encode({"totalTokens": response.total_tokens}).decode()


def _body_of(wire: Wire) -> dict[str, Any]:
    return dict(msgspec.json.decode(wire.body))


async def _post(client: Any, path: str, body: dict[str, Any]) -> str:
    import httpx2

    content = msgspec.json.encode(body, enc_hook=with_bytes)
    response = await client.post(path, content=content, cast_to=httpx2.Response)
    return str(response.text)


# By the kind of provider: what asks, and the key of the count in the answer.
_ENDPOINTS: dict[str, tuple[_Ask, str]] = {
    "anthropic": (_ask_anthropic, "input_tokens"),
    "openai": (_ask_openai, "input_tokens"),
    "gemini": (_ask_gemini, "totalTokens"),
}
