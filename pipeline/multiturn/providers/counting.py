"""The vendors' endpoints that count the tokens of a request without answering it."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, structs

from multiturn.errors import MultiturnError, ProviderError
from multiturn.model.request import ProviderRequest, prompt_of
from multiturn.providers.base import TargetProvider, Wire
from multiturn.providers.gemini.provider import GeminiProvider
from multiturn.providers.http import HttpProvider
from multiturn.providers.media_parts import media_in
from multiturn.providers.openai.provider import OpenAIProvider
from multiturn.providers.openai.responses import response_choice, response_items, response_tool
from multiturn.providers.tokens import Tokens
from multiturn.providers.usage import MOST_TOKENS

_COUNTED = ("model", "instructions", "input", "tools", "tool_choice")  # by OpenAI's endpoint
_NOT_COUNTED = ("max_tokens", "temperature")  # keys that Anthropic's endpoint refuses
_VENDORS = ("anthropic", "openai", "gemini")
_Count = Annotated[int, Meta(ge=0, le=MOST_TOKENS)]


class _Counted(Struct):
    input_tokens: _Count


class _CountedByGemini(Struct, rename="camel"):
    total_tokens: _Count


async def count_tokens(provider: HttpProvider, wire: Wire) -> Tokens:
    """Return the input tokens that the vendor counts, through the target's client and limits.

    Raises:
        ProviderError: the vendor gives no count.
    """
    body = msgspec.json.decode(wire.body)
    try:
        if isinstance(provider, GeminiProvider):
            whole = {"generateContentRequest": {"model": provider.model_name, **body}}
            path = provider.model_path("countTokens")
            count = await provider.call(
                "POST", path, _CountedByGemini, lambda said: said.total_tokens, whole, what="count"
            )
        elif isinstance(provider, OpenAIProvider):
            # The endpoint takes no other form than that of the Responses API.
            if not provider.asks_responses:
                body = _as_responses(provider, wire.request)
            counted = {name: value for name in _COUNTED if (value := body.get(name))}
            count = await _ask(provider, "/responses/input_tokens", counted)
        else:
            counted = {key: value for key, value in body.items() if key not in _NOT_COUNTED}
            count = await _ask(provider, "/v1/messages/count_tokens", counted)
    except ProviderError as error:
        if error.status == 404:
            error.what += f"; the address of the target {provider.name!r} may not count tokens"
        raise
    return structs.replace(provider.tokens(wire), count=count, is_exact=True, media=0)


async def _ask(provider: HttpProvider, path: str, body: dict[str, Any]) -> int:
    return await provider.call(
        "POST", path, _Counted, lambda said: said.input_tokens, body, what="count"
    )


def counter_of(provider: TargetProvider) -> HttpProvider:
    """Return the provider of a target whose vendor counts tokens.

    Raises:
        MultiturnError: it does not.
    """
    if not isinstance(provider, HttpProvider) or provider.kind not in _VENDORS:
        what = f"the vendor of the target {provider.name!r} has no endpoint that counts tokens"
        raise MultiturnError(f"{what}; those of {', '.join(_VENDORS)} have one")
    return provider


def _as_responses(provider: OpenAIProvider, request: ProviderRequest) -> dict[str, Any]:
    """Return what a request of Chat Completions has to count, as the Responses API has it."""
    layout, _ = provider.lay_out(request, prompt_of(request))
    if any(media.kind == "audio" for media in media_in(layout.messages)):
        raise ProviderError("OpenAI's endpoint counts no audio", kind="refused")
    choice = provider.asked(layout, request).choice
    role = "developer" if provider.settings.system_role == "developer" else ""
    return {
        "model": provider.settings.model,
        "input": [
            item
            for message in layout.messages
            for item in response_items(message, role * (message.role == "system"))
        ],
        "tools": [response_tool(tool) for tool in request.tools],
        "tool_choice": choice and response_choice(choice),
    }
