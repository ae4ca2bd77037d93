"""The vendors' endpoints that count the tokens of a request without answering it."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec
from msgspec import structs

from multiturn.errors import MultiturnError
from multiturn.providers.base import TargetProvider, Wire
from multiturn.providers.client import current
from multiturn.providers.failures import ProviderError
from multiturn.providers.http import HttpProvider
from multiturn.providers.tokens import Tokens

_Ask = Callable[[Any, dict[str, Any]], Awaitable[str]]
_COUNTED = ("model", "instructions", "input", "tools", "tool_choice")  # by OpenAI's endpoint
_NOT_COUNTED = ("max_tokens", "temperature")  # keys that Anthropic's endpoint refuses


async def count_tokens(provider: HttpProvider, wire: Wire) -> Tokens:
    """Return the input tokens that the vendor counts, through the target's client and limits.

    Raises:
        ProviderError: the vendor gives no count.
    """
    ask, key = _ENDPOINTS[provider.kind]
    body = msgspec.json.decode(wire.body)
    try:
        text = await provider.call(lambda client: ask(client, {"model": wire.model, **body}))
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


async def _ask_anthropic(client: Any, body: dict[str, Any]) -> str:
    counted = {key: value for key, value in body.items() if key not in _NOT_COUNTED}
    return await _post(client, "/v1/messages/count_tokens", counted)


async def _ask_openai(client: Any, body: dict[str, Any]) -> str:
    """Ask with the request as the Responses API has it: the endpoint takes no other form."""
    counted = {name: body.get(name) for name in _COUNTED}
    if "messages" in body:
        counted |= {
            "input": [item for message in body["messages"] for item in _items(message)],
            "tools": [{"strict": False, **_flat(tool)} for tool in body.get("tools") or ()],
            "tool_choice": _flat(body.get("tool_choice")),
        }
    return await _post(
        client, "/responses/input_tokens", {name: value for name, value in counted.items() if value}
    )


def _items(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a message of the Chat Completions API as items of the Responses API."""
    content = message["content"]
    if isinstance(content, list):
        parts = [*map(_part, content)]
        is_text = all(part["type"] == "input_text" for part in parts)  # marked for the cache
        content = "".join(part["text"] for part in parts) if is_text else parts
    if message["role"] == "tool":
        yield {
            "type": "function_call_output",
            "call_id": message["tool_call_id"],
            "output": content,
        }
    elif content:
        yield {"role": message["role"], "content": content}
    for call in message.get("tool_calls") or ():
        yield {"call_id": call["id"], **_flat(call), "type": "function_call"}


def _part(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part of a message's content as the Responses API has it."""
    match part:
        case {"type": "text", "text": text}:
            return {"type": "input_text", "text": text}
        case {"type": "image_url", "image_url": {"url": url, **others}}:
            detail = others.get("detail", "auto")
            return {"type": "input_image", "image_url": url, "detail": detail}
        case {"type": "file", "file": file}:
            return {"type": "input_file", **file}
    raise ProviderError("OpenAI's endpoint counts no audio", kind="refused")


def _flat(tool: Any) -> Any:
    """Return a tool, a call or a choice of the Chat Completions API as the Responses API has it."""
    if not isinstance(tool, dict):
        return tool
    return {"type": tool["type"], **tool["function"]}


async def _ask_gemini(client: Any, body: dict[str, Any]) -> str:
    """Ask with the whole request, which the SDK would refuse to put together."""
    model = body.pop("model")
    name = model if "/" in model else f"models/{model}"
    whole = {"generateContentRequest": {"model": name, **body}}
    current.get().instead = msgspec.json.encode(whole)
    response = await client.models.count_tokens(model=model, contents="-")
    return msgspec.json.encode({"totalTokens": response.total_tokens}).decode()


async def _post(client: Any, path: str, body: dict[str, Any]) -> str:
    import httpx2

    content = msgspec.json.encode(body)
    response = await client.post(path, content=content, cast_to=httpx2.Response)
    return str(response.text)


# By the kind of provider: what asks, and the key of the count in the answer.
_ENDPOINTS: dict[str, tuple[_Ask, str]] = {
    "anthropic": (_ask_anthropic, "input_tokens"),
    "openai": (_ask_openai, "input_tokens"),
    "gemini": (_ask_gemini, "totalTokens"),
}
