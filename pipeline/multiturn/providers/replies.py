"""What a server says: decoded within limits, read as what its endpoint answers, without secrets."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from multiturn.errors import (
    AccessDeniedError,
    ContentFilterError,
    HttpStatusError,
    MalformedReplyError,
    ProviderError,
    RateLimitedError,
    cut,
    provider_error,
)
from multiturn.providers.rules import named
from multiturn.providers.secrets import hide

_S = TypeVar("_S")
_T = TypeVar("_T")
_DEEPEST = 200  # lists and objects inside each other
_LONGEST_MESSAGE = 500
_SHOWN = 2000  # bytes of a malformed reply, before secrets are hidden and it is cut
# The bytes of an image or a document, where an error repeats the request. No word is that long.
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/])(?:data:[\w/.+-]*;base64,)?[A-Za-z0-9+/]{200,}={0,2}")
_ERRORS = {401: AccessDeniedError, 403: AccessDeniedError, 429: RateLimitedError}


class Typed(Struct):
    """An item of a list whose kind is in its ``type``."""

    type: str


def receive(
    reply: bytes,
    kind: type[_S],
    read: Callable[[_S], _T],
    secrets: Iterable[str],
    what: str = "answer",
) -> _T:
    """Return what is read of a server's reply, without secrets; every reply passes here.

    Args:
        reply: JSON.
        kind: the type that the endpoint answers.
        read: takes a value of that type, and returns what is wanted of it; a ValueError says that
            something is missing.
        secrets: values to hide.
        what: the reply, for errors.

    Raises:
        ProviderError: the reply is not of that type, or ``read`` raised one.
    """
    try:
        value = msgspec.json.decode(reply)
        _check_depth(value, _DEEPEST)
        # Hidden only in what was read: a key may be one of the vendor's own words, such as "text".
        return hide(read(msgspec.convert(value, kind)), secrets)
    except ProviderError as error:
        failure = provider_error(error.kind, hide(error.what, secrets), status=error.status)
    except (ValueError, RecursionError) as error:
        said = _beginning(reply, secrets)
        why = hide(f"{type(error).__name__}: {error}", secrets)
        shown = cut(said) or "nothing"
        problem = f"the {what} is not in the vendor's format: {why}; it begins with {shown!r}"
        failure = MalformedReplyError(problem)
    raise failure  # here, so that it does not refer to an error with secrets in it


def _beginning(reply: bytes, secrets: Iterable[str]) -> str:
    """Return how a reply begins, without a secret, or a part of one that was cut."""
    longest = max(map(len, secrets), default=0) * 12  # of the forms that are hidden
    said = readable(reply[: _SHOWN + longest].decode("utf-8", "replace"), secrets)
    return said if len(reply) <= _SHOWN + longest else said[: max(0, len(said) - longest)]


def _check_depth(value: Any, depth: int) -> None:
    """Raise a ValueError for lists and objects inside each other that could not be written."""
    if isinstance(value, list | dict):
        if not depth:
            raise ValueError(f"lists and objects are nested deeper than {_DEEPEST} levels")
        for item in value.values() if isinstance(value, dict) else value:
            _check_depth(item, depth - 1)


def error_of(status: int, reply: bytes, secrets: Iterable[str]) -> ProviderError:
    """Return the error for an HTTP status, with the vendor's message, but without secrets."""
    text = reply.decode("utf-8", "replace")
    message, code, is_key_wrong = text.strip(), None, False
    try:
        error = msgspec.json.decode(reply)["error"]
        message, code = error["message"], error.get("code")
        details = error.get("details") or ()  # Gemini's, which answers 400 to a wrong key
        is_key_wrong = any(detail.get("reason") == "API_KEY_INVALID" for detail in details)
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError):
        pass  # not the vendor's format, such as the page of a proxy: show its beginning
    message = readable(str(message), secrets) or "without a reason"
    if code == "content_filter":
        return ContentFilterError(named("O3", message))
    is_key_wrong |= "No connected db." in message  # LiteLLM's proxy, whatever the key is
    error_type = AccessDeniedError if is_key_wrong else _ERRORS.get(status, HttpStatusError)
    return error_type(f"HTTP {status}: {message}", status=status)


def readable(message: str, secrets: Iterable[str]) -> str:
    """Return what a vendor says, as an error shows it: without secrets and bytes, and not too long.

    >>> readable(f"not an image: data:image/png;base64,{'iVBO' * 300}", ["sk-1"])
    'not an image: (base64)'
    """
    return _BASE64.sub("(base64)", hide(message, secrets))[:_LONGEST_MESSAGE]


_MOST = 2**53  # tokens; beyond it, floats are not exact


TokenCount = Annotated[int, Meta(ge=0, le=_MOST)]


class InputTokens(Struct):
    """What an endpoint answers that counts the tokens of a request."""

    input_tokens: TokenCount


def counts(usage: Any, **names: str) -> Mapping[str, int]:
    """Return a vendor's token counts under our names; what is missing, or no count, is left out.

    A name is a path in the vendor's counts, or several with ``+`` between, which are added up.

    >>> usage = {"in": 5, "thought": 1, "more": {"hit": 3}}
    >>> counts(usage, input="in+thought", cached="more.hit", output="out")
    {'input': 6, 'cached': 3}
    """
    found = {}
    for ours, paths in names.items():
        values = [value for path in paths.split("+") if (value := _at(usage, path)) is not None]
        if values:
            found[ours] = sum(values)
    return found


def _at(usage: Any, path: str) -> int | None:
    for key in path.split("."):
        usage = usage.get(key) if isinstance(usage, dict) else None
    return usage if isinstance(usage, int) and 0 <= usage <= _MOST else None
