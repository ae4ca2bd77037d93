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

from multiturn.errors import cut

_T = TypeVar("_T")
_SECRET_NAME = re.compile(
    r"(?:^|[_-])[A-Z0-9]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL)S?[0-9]*"
    r"(?:[_-]|$)",
    re.IGNORECASE,
)
# How keys begin, and how long they are at least. By the rules of gitleaks (its repository on
# GitHub, config/gitleaks.toml and cmd/generate/config/rules; seen on 2026-11-23), but wider for
# sk-, as others with OpenAI's API have it:
_KEYS = {
    "OpenAI": r"sk-(?:(?:proj|svcacct|admin)-[\w-]{40,}|(?:[a-z]{2,12}-)?\w{20,})",
    "Anthropic": r"sk-ant-[\w-]{20,}",
    "AWS": r"A(?:3T[A-Z0-9]|(?:KI|SI|BI|CC)A)[A-Z0-9]{16}(?![A-Za-z0-9])"
    r"|ABSK[A-Za-z0-9+/]{109,}=*|bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t[A-Za-z0-9+/=]*",
    "Alibaba": r"LTAI[A-Za-z0-9]{20}",
    "Perplexity": r"pplx-[A-Za-z0-9]{48}",
    "OpenRouter": r"sk-or-(?:v\d+-)?[0-9a-f]{64}",
    "xAI": r"xai-\w{80}",
    "Groq": r"gsk_[A-Za-z0-9]{48,}",
    "Replicate": r"r8_[\w-]{37,}",
    "LangSmith": r"lsv2_(?:pt|sk)_[a-z0-9]{32}_[a-z0-9]{10}",
    "Hugging Face": r"(?:hf|api_org)_[A-Za-z0-9]{34}",
    "GitHub": r"gh[pousr]_[A-Za-z0-9]{36,}|github_pat_\w{40,}",
    "GitLab": r"(?:gl(?:pat|ptt|rt|dt|cbt|oas|soat|ft|ffct|imt|agent)-|GR1348941)[\w-]{20,}"
    r"(?:\.[0-9a-z]{9})?",
    "npm": r"npm_[A-Za-z0-9]{36}",
    "PyPI": r"pypi-AgEIcHlwaS5vcmc[\w-]{50,}",
    "RubyGems": r"rubygems_[a-f0-9]{48}",
    "Slack": r"xox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{8,}|xapp-\d-[A-Z0-9]+-\d+-[A-Za-z0-9]+",
    "Stripe": r"[rs]k_(?:live|test|prod)_[A-Za-z0-9]{10,}",
    "SendGrid": r"SG\.[\w=.-]{66}",
    "Twilio": r"SK[0-9a-fA-F]{32}(?![A-Za-z0-9])",
    "Shopify": r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",
    "DigitalOcean": r"do[opr]_v1_[a-f0-9]{64}",
    "Databricks": r"dapi[a-f0-9]{32}",
    "Grafana": r"(?:gl(?:sa|c)_|eyJrIjoi)[A-Za-z0-9+/_]{32,}=*",
    "Sentry": r"sntry[su]_[A-Za-z0-9+/=_-]{60,}",
    "Vault": r"hv[sb]\.[\w-]{24,}",
    "Linear": r"lin_api_[A-Za-z0-9]{40}",
    "Notion": r"ntn_[A-Za-z0-9]{40,}",
    "Postman": r"PMAK-[a-fA-F0-9]{24}-[a-fA-F0-9]{34}",
    "1Password": r"ops_eyJ[A-Za-z0-9+/]{200,}=*"
    r"|A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}",
    "a private key": r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----(?:\s|\\+[nr])*"
    r"[A-Za-z0-9+/=:, -]{16}[\s\S]*?(?:-----END [A-Z ]+-----|\Z)",
    # Not inside of words: each would be read to its end, in time of its square.
    "a JSON Web Token": r"(?:(?<![\w+/-])|(?<=\\[nrt]))ey[\w-]{11,}\.ey[\w-]{11,}\.[\w-]{10,}",
    # By those of TruffleHog (pkg/detectors; seen on 2026-11-23):
    "Langfuse": r"[sp]k-lf-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "NVIDIA": r"nvapi-[\w-]{60,}",
    "Docker": r"dckr_(?:pat|oat)_[\w-]{27,}",
    "Tavily": r"tvly-(?:(?:dev|prod)-)?[A-Za-z0-9]{20,}",
    # AIza by gitleaks, ya29 by TruffleHog; GOCSPX, and AQ for keys of Gemini since June 2026, only
    # as users show them (public code and articles; seen on 2026-11-23).
    "Google": r"AIza[\w-]{35}|AQ\.[\w-]{40,}|GOCSPX-[\w-]{28}|ya29\.[\w-]{30,}",
}
_IN_WORD = re.compile(r"(?<!\\)[A-Za-z0-9]\Z")  # a letter before a key, and none of ``\n``
_PLACEHOLDER = re.compile(r"EXAMPLE|[xX]{8}")
_RANDOM = r"[A-Za-z0-9_+/.~-]{20,}={0,2}"
# ``NAME=value``, ``"name": "value"`` and ``Bearer value``, also as JSON in a text has them. What is
# looked at for a value is not consumed: it may be the name of the next.
_NAMED = re.compile(
    r"(?a)(?<![\w:])(?<!\w-)"
    r"(?:(?P<name>[A-Za-z][\w-]{0,79})[\\\"']{0,4}\s{0,3}:?[=:]>?\s{0,3}|[Bb]earer )"
    rf"[\\\"'`]{{0,4}}(?=(?P<value>{_RANDOM})(?![\w(\[]))"
)
# Bytes in base64, also as a data: URI, and not a key: in many of them, some look like one.
_BYTES = re.compile(r"(?:data:[^,]{0,100},)?[A-Za-z0-9+/_-]{200,}=*")
_NO_KEY = "prompt_cache_key"  # a setting of OpenAI's
# Names of tokens and keys that open nothing: of pages, caches and databases.
_HARMLESS = re.compile(
    r"(?i)next|page|continu|change|cache|request|action|sort|partition|primary|foreign|pub|socket"
    r"|^keys?[0-9]*$"
)
_SHORTEST_SECRET = 4  # replacing shorter values would damage ordinary words
_SHORTEST_ENCODED = 8  # likewise of what is found in base64


def is_secret(name: str) -> bool:
    """Return whether a variable has the name of a key, such as GITHUB_TOKEN or api_key."""
    return _SECRET_NAME.search(name) is not None


def _is_random(value: str) -> bool:
    """Return whether a text looks made by chance, not of words: digits and cases alternate.

    >>> _is_random("9f86d081884c7d659a2f"), _is_random("my-deployment-2026-11-23")
    (True, False)
    """
    digits = len(re.findall(r"[0-9](?=[A-Za-z])|[A-Za-z](?=[0-9])", value))
    cases = len(re.findall(r"[a-z](?=[A-Z])|[A-Z](?=[a-z])", value))
    size = len(value)
    return digits > 0 and (digits >= 0.14 * size or digits + cases >= 0.4 * size)


def _keys_in(text: str, name: str) -> Iterator[tuple[int, int, str]]:
    """Yield where each key in a text, or the value of its name, begins and ends, and its kind."""
    is_bytes = _BYTES.fullmatch(text) is not None
    text = text[:2000] if is_bytes else text  # no key is longer
    for kind, pattern in _KEYS.items():
        for found in re.finditer(pattern, text, re.ASCII):
            before = text[max(0, found.start() - 2) : found.start()]
            is_inside = (is_bytes and before) or _IN_WORD.search(before)
            if not is_inside and not _PLACEHOLDER.search(found[0]):
                yield *found.span(), kind
    if is_secret(name) and re.fullmatch(_RANDOM, text) and _is_random(text):
        yield 0, len(text), name
    for found in _NAMED.finditer(text):
        word = found["name"] or "Bearer"
        is_named = word == "Bearer" or (is_secret(word) and not _HARMLESS.search(word))
        if is_named and _is_random(found["value"]) and not _PLACEHOLDER.search(found["value"]):
            yield *found.span("value"), word


def without_keys(value: Any, path: str = "") -> tuple[Any, list[tuple[str, str]]]:
    """Return decoded JSON with ``***`` for what looks like a key, and where each was and its kind.

    >>> without_keys({"a": ["API_KEY=" + "0f" * 16]})
    ({'a': ['API_KEY=***']}, [('a[0]', 'API_KEY')])
    """
    found: list[tuple[str, str]] = []

    def hidden(value: Any, name: str, path: str) -> Any:
        if isinstance(value, str):
            shown, done = "", 0
            keys = sorted(_keys_in(value, name), key=lambda key: (key[0], -key[1]))
            for start, end, kind in keys:
                if start >= done:  # else it is a part of one that was found, or goes on after it
                    shown += value[done:start] + "***"
                    found.append((path, kind))
                done = max(done, end)
            return shown + value[done:]
        if isinstance(value, list | tuple):
            return [hidden(each, "", f"{path}[{at}]") for at, each in enumerate(value)]
        if isinstance(value, dict):
            kept: dict[str, Any] = {}
            for step, child in value.items():
                shown = hidden(step, "", f"a name in {path or 'the case'}")
                below = f"{path}.{cut(shown)}".removeprefix(".")
                kept[shown] = hidden(child, "" if step == _NO_KEY else step, below)
            return kept
        return value

    return hidden(value, "", path), found


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
    patterns, plain = _sought(tuple(secrets))

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


@lru_cache(256)
def _sought(secrets: tuple[str, ...]) -> tuple[list[re.Pattern[str]], list[bytes]]:
    """Return what finds secrets in texts, and in bytes: as they are, and as in our own JSON."""
    hidden = {each for each in secrets if len(each) >= _SHORTEST_SECRET}
    longest_first = sorted(hidden, key=len, reverse=True)
    patterns = [re.compile(form) for secret in longest_first for form in _forms(secret)]
    plain = [form for secret in longest_first for form in {secret, json.dumps(secret)[1:-1]}]
    return patterns, [form.encode("utf-8", "surrogatepass") for form in plain]


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
        rf"(?:{plain}|\\(?<!\\\\)\\*(?:{plain}|(?i:{json}))|%(?:25)*(?i:{url})"
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
