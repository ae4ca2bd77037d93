"""Values that must never be shown: which they are, by their names, and hiding them."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from msgspec import Struct, structs

_T = TypeVar("_T")
_SECRET_NAME = re.compile(
    r"(?:^|_)[A-Z0-9]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL)S?[0-9]*(?:_|$)",
    re.IGNORECASE,
)
_SHORTEST_SECRET = 4  # replacing shorter values would damage ordinary words


def is_secret(name: str) -> bool:
    """Return whether a variable has the name of a key, such as GITHUB_TOKEN or api_key."""
    return _SECRET_NAME.search(name) is not None


def secrets_among(values: Mapping[str, Any]) -> list[str]:
    """Return the texts whose names are those of keys."""
    return [text for name, text in values.items() if isinstance(text, str) and is_secret(name)]


def passwords_in(url: str) -> Iterator[str]:
    """Yield the password of a URL, as it is written and as it is meant."""
    if "://" in url and "@" in url:
        with suppress(ValueError):
            password = urlsplit(url).password or ""
            yield from {password, unquote(password)}


def hide(value: _T, secrets: Iterable[str]) -> _T:
    """Return a text, bytes, structs or decoded JSON, with every secret in texts as ``***``.

    It is also hidden as JSON has it: a text may quote JSON.

    >>> hide({"sk-12345": ["no such key: sk-12345"]}, ["no", "sk-1", "sk-12345"])
    {'***': ['no such key: ***']}
    """
    forms = {form for each in secrets for form in (each, json.dumps(each)[1:-1])}
    ordered = sorted(forms, key=len, reverse=True)

    def hidden(value: Any) -> Any:
        if isinstance(value, str):
            for secret in ordered:
                if len(secret) >= _SHORTEST_SECRET:
                    value = value.replace(secret, "***")
        elif isinstance(value, bytes):
            for secret in ordered:
                if len(secret) >= _SHORTEST_SECRET:
                    value = value.replace(secret.encode("utf-8", "surrogatepass"), b"***")
        elif isinstance(value, list | tuple):
            items = [hidden(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        elif isinstance(value, Struct):
            return structs.replace(value, **hidden(structs.asdict(value)))
        elif isinstance(value, Mapping):
            return {hidden(key): hidden(item) for key, item in value.items()}
        return value

    return hidden(value)  # type: ignore[no-any-return]
