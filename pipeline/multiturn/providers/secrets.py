"""Values that must never be shown: which they are, by their names, and hiding them."""

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from msgspec import Struct, structs

_T = TypeVar("_T")
_SECRET_NAME = re.compile(
    r"(?:^|[_-])[A-Z0-9]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL)S?[0-9]*"
    r"(?:[_-]|$)",
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
_SHORTEST_ENCODED = 8  # likewise of what is found in base64


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
    r"""Return a text, bytes, structs or decoded JSON, with every secret in texts as ``***``.

    It is also hidden as JSON, URLs, HTML and base64 have it: a text may quote any of these.

    >>> hide({"sk-12345": ["no such key: sk-12345"]}, ["no", "sk-1", "sk-12345"])
    {'***': ['no such key: ***']}
    >>> hide(r"no such key: a\/c\u002b6789, a%2fc%2b6789", ["a/c+6789"])
    'no such key: ***, ***'
    """
    secrets = tuple(secrets)
    patterns, plain = _patterns(secrets), _plain(secrets)

    def hidden(value: Any) -> Any:
        if isinstance(value, str):
            for pattern in patterns:
                value = pattern.sub("***", value)
        elif isinstance(value, bytes):
            for form in plain:  # of a body of ours, which may be large
                value = value.replace(form, b"***")
        elif isinstance(value, list | tuple):
            items = [hidden(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        elif isinstance(value, Struct):
            fields = structs.asdict(value).items()
            return structs.replace(value, **{name: hidden(field) for name, field in fields})
        elif isinstance(value, Mapping):
            return {hidden(key): hidden(item) for key, item in value.items()}
        return value

    return hidden(value) if patterns else value


def _ordered(secrets: Iterable[str]) -> list[str]:
    """Return the secrets that are hidden, the longest first."""
    return sorted((each for each in {*secrets} if len(each) >= _SHORTEST_SECRET), key=len)[::-1]


@lru_cache(256)
def _plain(secrets: tuple[str, ...]) -> list[bytes]:
    """Return the secrets as they are, and as our own JSON has them."""
    forms = (form for each in _ordered(secrets) for form in {each, json.dumps(each)[1:-1]})
    return [form.encode("utf-8", "surrogatepass") for form in forms]


@lru_cache(256)
def _patterns(secrets: tuple[str, ...]) -> list[re.Pattern[str]]:
    """Return what finds each secret."""
    return [re.compile(form) for secret in _ordered(secrets) for form in _forms(secret)]


def _forms(secret: str) -> Iterator[str]:
    """Yield patterns of a secret: written in any way, and in base64 at any place of a text."""
    yield "".join(map(_written, secret))
    if len(secret) < _SHORTEST_ENCODED:
        return
    data = secret.encode("utf-8", "surrogatepass")
    for before in range(3):  # bytes of the text that share a group of base64 with the secret
        encoded = b64encode(bytes(before) + data).decode()
        first, last = -(-before * 8 // 6), (before + len(data)) * 8 // 6
        # The alphabet of URLs has other characters for these two.
        forms = {"+": f"(?:-|{_written('+')})", "/": f"(?:_|{_written('/')})"}
        yield "".join(forms.get(character, character) for character in encoded[first:last])


@cache
def _written(character: str) -> str:
    """Return a pattern of a character: as it is, or as JSON, a URL or HTML may have it.

    Each alternative begins with a character, which makes the search quick.
    """
    code, plain = ord(character), re.escape(character)
    units = character.encode("utf-16-be", "surrogatepass").hex()
    json = r"\\+".join(f"u{units[at : at + 4]}" for at in range(0, len(units), 4))
    url = "%(?:25)*".join(f"{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))
    html = [f"#0*{code};?", f"#x0*{code:x};?", *_names().get(character, ())]
    return (
        rf"(?:{plain}|(?<!\\)\\\\*(?:{plain}|(?i:{json}))|%(?:25)*(?i:{url})"
        f"|&(?:amp;)*(?i:{'|'.join(html)}))"
    )


@cache
def _names() -> dict[str, list[str]]:
    """Return the names that HTML has for each character."""
    from html.entities import html5  # 2,200 names, which nothing but a key needs

    names: dict[str, list[str]] = {}
    for name, character in html5.items():
        names.setdefault(character, []).append(name)
    return names
