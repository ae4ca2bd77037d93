"""The settings that all targets share which ask through a vendor's SDK."""

from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from msgspec import Meta

from multiturn.errors import did_you_mean
from multiturn.model.turns import is_blank
from multiturn.providers.ax import ChatSettings, Model
from multiturn.providers.models import Accepted
from multiturn.providers.secrets import passwords_in
from multiturn.text import has_host

API_KEY = Meta(
    description="never logged, and hidden in whatever comes back.",
    extra_json_schema={"pattern": r"\S"},
)
_ONE_TOOL = Meta(
    extra_json_schema={
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
        "maxProperties": 1,
    }
)


class HttpSettings(ChatSettings, frozen=True, kw_only=True):
    """What every target that uses HTTP sets."""

    model: Model
    api_key: Annotated[str, API_KEY]
    model_takes: Annotated[
        Mapping[str, bool],
        Meta(
            description="what the model takes; this wins over what multiturn knows of it.",
            extra_json_schema={"propertyNames": {"enum": [*get_args(Accepted)]}},
        ),
    ] = {}
    tool_choice: Annotated[
        Literal["auto", "none", "required"] | Annotated[Mapping[str, str], _ONE_TOOL] | None,
        Meta(
            description="whether the model must call a tool: `auto`, `none`, `required`, or"
            " `{name: TOOL}`; used where a case has tools, and its `execution` says nothing."
        ),
    ] = None

    def __post_init__(self) -> None:
        """Refuse a key that the SDKs would look for elsewhere, or quote in an error.

        An address that is none is refused, too.
        """
        key = self.api_key
        if key is not None and is_blank(key):
            raise ValueError("api_key is empty; add the key")
        if key is not None and not (key.isascii() and key.isprintable() and key == key.strip()):
            what = "api_key has a space around it, a line break, or another character that no key"
            what += " has; check it"
            raise ValueError(what)
        for name in self.model_takes:
            if name not in get_args(Accepted):
                near = did_you_mean(name, get_args(Accepted))
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

    def secrets(self) -> list[str]:
        """Return the key, if there is one, and the password in the address."""
        address = getattr(self, "base_url", None) or getattr(self, "endpoint", None) or ""
        return [*([self.api_key] if self.api_key else ()), *passwords_in(address)]
