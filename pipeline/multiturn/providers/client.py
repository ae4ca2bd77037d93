"""The HTTP client inside every SDK: it limits the time, the delay and the size of an answer."""

import asyncio
import re
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec
from msgspec import Struct

from multiturn.errors import ProviderError
from multiturn.providers.base import LARGEST_ANSWER
from multiturn.providers.rules import named
from multiturn.providers.secrets import hide

_LONGEST_DELAY = 60  # seconds
_LONGEST_MESSAGE = 500
# The bytes of an image or a document, where an error repeats the request. No word is that long.
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/])(?:data:[\w/.+-]*;base64,)?[A-Za-z0-9+/]{200,}={0,2}")
_KINDS = {401: "access_denied", 403: "access_denied", 429: "rate_limit"}


class Exchange(Struct):
    """The HTTP requests of one call of an SDK, which may retry."""

    timeout_seconds: float  # of each attempt
    secrets: tuple[str, ...]  # values to hide in errors
    body: bytes = b""  # the exact body of the last attempt
    instead: bytes = b""  # what to send in place of the body that the SDK makes
    count: int = 0  # number of attempts so far
    error: ProviderError | None = None  # why an answer is refused; the SDK must not retry

    @property
    def retries(self) -> int:
        """Number of retries so far."""
        return max(0, self.count - 1)


current: ContextVar[Exchange] = ContextVar("exchange")


class _WithLimits:
    """Limits the time and the size of every answer; mixed into an HTTP client's class."""

    async def send(self: Any, request: Any, **options: Any) -> Any:
        """Return the whole response; an HTTP 400, which no SDK retries, for a refused answer.

        A response that was requested as a stream, such as a file of results, has no limit of size:
        the caller reads it piece by piece.
        """
        import httpx2

        exchange = current.get()
        exchange.count += 1
        if exchange.instead:
            headers = {**request.headers, "content-length": str(len(exchange.instead))}
            options_of = request.extensions
            request = httpx2.Request(
                request.method,
                request.url,
                headers=headers,
                content=exchange.instead,
                extensions=options_of,
            )
        with suppress(httpx2.RequestNotRead):  # a file that is uploaded
            exchange.body = request.content
        request.headers["accept-encoding"] = "gzip"
        try:
            async with asyncio.timeout(exchange.timeout_seconds):
                send = super().send  # type: ignore[misc]
                response = await send(request, **{**options, "stream": True})
                if options.get("stream") and not response.is_error:
                    return response
                try:
                    content = await _read(response)
                finally:
                    await response.aclose()
            headers = {
                name: value
                for name, value in response.headers.items()
                if name not in ("content-encoding", "content-length", "transfer-encoding")
            }
            whole = httpx2.Response(
                response.status_code, headers=headers, content=content, request=request
            )
            if whole.is_error:
                _check_delay(whole, exchange.secrets)
        except TimeoutError as error:
            raise httpx2.ReadTimeout("", request=request) from error  # SDKs retry after this one
        except ProviderError as error:
            exchange.error = error
            return httpx2.Response(400, json={}, request=request)
        return whole


async def _read(response: Any) -> bytes:
    """Return the unpacked body of a response, if it is small enough."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    unpacking = zlib.decompressobj(zlib.MAX_WBITS | 16)  # gzip
    content = bytearray()
    try:
        if encoding not in ("identity", "", "gzip"):
            raise zlib.error
        async for piece in response.aiter_raw():
            room = LARGEST_ANSWER + 1 - len(content)
            content += unpacking.decompress(piece, room) if encoding == "gzip" else piece
            if len(content) > LARGEST_ANSWER:
                what = f"the answer is larger than {LARGEST_ANSWER // 2**20} MiB"
                raise ProviderError(what, kind="malformed")
    except zlib.error:
        what = f"the answer cannot be unpacked: its content-encoding is {encoding!r}"
        raise ProviderError(what, kind="malformed") from None
    return bytes(content)


def _check_delay(response: Any, secrets: Iterable[str]) -> None:
    """Raise a ProviderError if a server asks for too long a delay before the next attempt."""
    delay = _delay(response.headers)
    if delay > _LONGEST_DELAY:
        error = status_error(response.status_code, response.text, secrets)
        what = (
            f"{error.what}; the server asks to wait {delay:.15g} s (Retry-After);"
            f" multiturn waits {_LONGEST_DELAY} s at most"
        )
        raise ProviderError(what, kind=error.kind, status=error.status)


def _delay(headers: Mapping[str, str]) -> float:
    """Return for how many seconds a server asks to wait; 0 if it does not say."""
    with suppress(KeyError, ValueError):
        return float(headers["retry-after-ms"]) / 1000
    with suppress(KeyError, ValueError):
        return float(headers["retry-after"])
    with suppress(KeyError, ValueError):
        when = parsedate_to_datetime(headers["retry-after"])
        return round((when - datetime.now(UTC)).total_seconds())
    return 0


def http_client(client_type: Any, **options: Any) -> Any:
    """Return an HTTP client for an SDK: all of them are httpx2 inside.

    Args:
        client_type: the SDK's own class of clients, or httpx2's.
        options: arguments of that class.
    """
    # Each SDK subclasses httpx2's client and insists on its own class, which only exists once the
    # SDK is imported. So the subclass with our limits cannot be written as a ``class`` statement.
    return type("Client", (_WithLimits, client_type), {})(follow_redirects=False, **options)


def status_error(status: int, text: str, secrets: Iterable[str]) -> ProviderError:
    """Return the error for an HTTP status, with the vendor's message, but without secrets."""
    message, code, is_key_wrong = text.strip(), None, False
    try:
        error = msgspec.json.decode(text)["error"]
        message, code = error["message"], error.get("code")
        details = error.get("details") or ()  # Gemini's, which answers 400 to a wrong key
        is_key_wrong = any(detail.get("reason") == "API_KEY_INVALID" for detail in details)
    except (LookupError, TypeError, AttributeError, ValueError):
        pass  # not the vendor's format, such as the page of a proxy: show its beginning
    message = readable(str(message), secrets) or "without a reason"
    if code == "content_filter":
        return ProviderError(named("O3", message), kind="content_filter")
    is_key_wrong |= "No connected db." in message  # LiteLLM's proxy, whatever the key is
    kind = "access_denied" if is_key_wrong else _KINDS.get(status, "http")
    return ProviderError(f"HTTP {status}: {message}", kind=kind, status=status)


def readable(message: str, secrets: Iterable[str]) -> str:
    """Return what a vendor says, as an error shows it: without secrets and bytes, and not too long.

    >>> readable(f"not an image: data:image/png;base64,{'iVBO' * 300}", ["sk-1"])
    'not an image: (base64)'
    """
    return _BASE64.sub("(base64)", hide(message, secrets))[:_LONGEST_MESSAGE]
