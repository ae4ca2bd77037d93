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
# How keys begin, and how long they are, by the rules of gitleaks 8 (seen on 2026-11-22).
_KEYS = {
    "OpenAI": r"sk-(?:[a-z]{2,12}-)?[A-Za-z0-9_]{20}",
    "Anthropic": r"sk-ant-[A-Za-z0-9_-]{20}",
    "Google": r"AIza[A-Za-z0-9_-]{35}",
    "AWS": r"A(?:KI|SI)A[A-Z0-9]{16}(?![A-Za-z0-9])",
    "GitHub": r"gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{40}",
    "GitLab": r"glpat-[A-Za-z0-9_-]{20}",
    "Slack": r"xox[abeoprs]-[A-Za-z0-9-]{10}",
    "Hugging Face": r"hf_[A-Za-z]{34}",
    "Stripe": r"[rs]k_live_[A-Za-z0-9]{20}",
    "a private key": r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY",
    "a JSON Web Token": r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10}",
}
_KEY = re.compile(
    "(?<![A-Za-z0-9])(?:" + "|".join(f"({pattern})" for pattern in _KEYS.values()) + ")"
)
_RANDOM = re.compile(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9_+/=.~-]{20,}")
_SHORTEST_SECRET = 4  # replacing shorter values would damage ordinary words


def is_secret(name: str) -> bool:
    """Return whether a variable has the name of a key, such as GITHUB_TOKEN or api_key."""
    return _SECRET_NAME.search(name) is not None


def key_in(text: str, name: str = "") -> str:
    """Return what key a text has in it, by its form or by its name; empty for none.

    >>> key_in("Use ghp_" + "0aB1cD2eF3gH" * 3), key_in("Use skimage"), key_in("0f" * 16, "API_KEY")
    ('GitHub', '', 'API_KEY')
    """
    if found := _KEY.search(text):
        return [*_KEYS][(found.lastindex or 1) - 1]
    return name if is_secret(name) and _RANDOM.fullmatch(text) else ""


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
            fields = structs.asdict(value).items()
            return structs.replace(value, **{name: hidden(field) for name, field in fields})
        elif isinstance(value, Mapping):
            return {hidden(key): hidden(item) for key, item in value.items()}
        return value

    return hidden(value)  # type: ignore[no-any-return]
