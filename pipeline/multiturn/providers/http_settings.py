"""The settings that all targets share which use HTTP."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from msgspec import Meta

from multiturn.errors import did_you_mean
from multiturn.model.turns import is_blank
from multiturn.providers.base import ChatSettings, Seconds
from multiturn.providers.models import Accepted
from multiturn.providers.secrets import is_secret, passwords_in
from multiturn.text import has_host

API_KEY = Meta(extra_json_schema={"pattern": r"\S"})
_ACCEPTED = get_args(Accepted)
_ONE_TOOL = Meta(
    extra_json_schema={
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
        "maxProperties": 1,
    }
)
# Of every request, whichever vendor gets it, and those of a proxy.
_OWN_HEADERS = (
    *("accept", "accept-encoding", "connection", "content-encoding", "content-length"),
    *("content-type", "host", "transfer-encoding", "proxy-authorization"),
    *("anthropic-version", "api-key", "authorization", "x-api-key", "x-goog-api-key"),
)
_SECRET_HEADERS = ("authorization", "cookie", "proxy-authorization")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+").fullmatch


def wrong_header(name: str, value: object) -> str:
    """Return what is wrong with a header of a target; empty for one that is sent."""
    if not _HEADER(name):
        return f"headers has a name that HTTP cannot carry: {name!r}"
    if name.lower() in _OWN_HEADERS:
        return f"headers cannot replace {name!r}, which multiturn sends itself; leave it out"
    if isinstance(value, str) and not (value.isascii() and value.isprintable()):
        what = f"the header {name!r} has a line break, or another character that HTTP cannot carry"
        return f"{what}; remove it"
    return ""


class HttpSettings(ChatSettings, frozen=True, kw_only=True):
    """What every target that uses HTTP sets.

    Attributes:
        api_key: never logged, and hidden in whatever comes back.
        model_takes: what the model takes; this wins over what multiturn knows of it.
        tool_choice: whether the model must call a tool: `auto`, `none`, `required`, or `{name:
            TOOL}`; used where a case has tools, and its `execution` says nothing.
        headers: sent in addition to our own, as gateways need; hidden like keys.
        max_retry_delay: the longest delay before a retry that a server may ask for.
    """

    model: str
    api_key: Annotated[str, API_KEY]
    model_takes: Annotated[
        Mapping[str, bool], Meta(extra_json_schema={"propertyNames": {"enum": [*_ACCEPTED]}})
    ] = {}
    tool_choice: (
        Literal["auto", "none", "required"] | Annotated[Mapping[str, str], _ONE_TOOL] | None
    ) = None
    headers: Mapping[str, str] = {}
    max_retry_delay: Seconds = 60

    def __post_init__(self) -> None:
        """Refuse a key or a header that HTTP cannot carry, and an address that is none."""
        key = self.api_key
        if key is not None and is_blank(key):
            raise ValueError("api_key is empty; add the key")
        if key is not None and not (key.isascii() and key.isprintable() and key == key.strip()):
            what = "api_key has a space around it, a line break, or another character that no key"
            what += " has; check it"
            raise ValueError(what)
        for name in self.model_takes:
            if name not in _ACCEPTED:
                near = did_you_mean(name, _ACCEPTED)
                raise ValueError(f"model_takes has no {name!r}; {near}")
        if isinstance(self.tool_choice, Mapping) and self.tool_choice.keys() != {"name"}:
            raise ValueError(
                "tool_choice must be auto, none, required, or the name of a tool, as {name: TOOL}"
            )
        for name in ("base_url", "endpoint"):
            address = getattr(self, name, None)
            if address is not None and not address.lower().startswith(("http://", "https://")):
                raise ValueError(f"{name} must begin with http:// or https://")
            if address is not None and not has_host(address):
                raise ValueError(f"{name} has a host or a port that cannot be; check it")

    def own_headers(self) -> dict[str, str]:
        """Return the headers with the key; their names are in lower case."""
        return {"authorization": f"Bearer {self.api_key}"} if self.api_key else {}

    def secrets(self) -> list[str]:
        """Return the key, if there is one, the password in the address, and secret headers."""
        address = getattr(self, "base_url", None) or getattr(self, "endpoint", None) or ""
        headers = [
            value
            for name, value in self.headers.items()
            if is_secret(name) or name.lower() in _SECRET_HEADERS
        ]
        key = [self.api_key] if self.api_key else []
        return [*key, *headers, *passwords_in(address)]
