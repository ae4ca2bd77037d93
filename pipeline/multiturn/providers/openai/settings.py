"""The settings of targets with OpenAI's APIs, and whose models are at an address."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Meta

from multiturn.providers.http_settings import API_KEY, HttpSettings
from multiturn.providers.models import SERVERS

_OPENAI = "https://api.openai.com/v1"
_OF_AZURE = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")


def vendor_at(address: str) -> str:
    """Return whose models are at an address, as a key of models.yaml.

    >>> vendor_at("https://eu.api.openai.com/v1"), vendor_at("https://a.openai.azure.com/openai/v1/")
    ('openai', 'azure')
    >>> vendor_at("http://localhost:8000/v1")
    'servers'
    """
    host = f".{urlsplit(address).hostname}"
    if host.endswith(".api.openai.com"):
        return "openai"
    return "azure" if host.endswith(_OF_AZURE) else SERVERS


class OpenAIApiSettings(HttpSettings, frozen=True, kw_only=True):
    """The settings of every target with OpenAI's APIs."""

    api: Annotated[
        Literal["chat", "responses"],
        Meta(
            description="`responses` asks the Responses API, the only one of some models (O10);"
            " nothing is stored there."
        ),
    ] = "chat"
    system_as: Annotated[
        Literal["item", "instructions"],
        Meta(
            description="with `api: responses`: whether the system message is an item of `input`,"
            " or `instructions`."
        ),
    ] = "item"
    system_role: Annotated[
        Literal["system", "developer", "user"],
        Meta(
            description="what the model calls its system message (O2); `user` for chat templates"
            " that take none (O14)."
        ),
    ] = "system"
    roles: Annotated[
        Literal["any", "alternate"] | None,
        Meta(
            description="`alternate` merges neighbors of one role, for chat templates in which user"
            " and assistant must alternate (O13); null to warn where the model's may want that."
        ),
    ] = None
    later_system: Annotated[
        Literal["keep", "merge"],
        Meta(
            description="`merge` sends all system messages as one, the first message, for chat"
            " templates that refuse any other (O5)."
        ),
    ] = "keep"
    max_tokens_field: Annotated[
        Literal["max_completion_tokens", "max_tokens"],
        Meta(description="with `api: chat`: the key of the body that limits the output (O4)."),
    ] = "max_completion_tokens"

    def __post_init__(self) -> None:
        """Refuse settings of the other API."""
        super().__post_init__()
        if self.api == "chat" and self.system_as != "item":
            raise ValueError("system_as is for api: responses; leave one of them out")
        if self.api == "responses" and self.max_tokens_field == "max_tokens":
            raise ValueError("max_tokens_field is for api: chat; leave one of them out")


class OpenAISettings(OpenAIApiSettings, frozen=True, kw_only=True):
    """The settings of an ``openai`` target."""

    api_key: Annotated[str | None, API_KEY] = None  # type: ignore[assignment]
    base_url: Annotated[
        str, Meta(description="the server's address, up to `/v1`; by default OpenAI's own.")
    ] = _OPENAI

    prompt_caching: Annotated[
        bool,
        Meta(description="mark the system message for the cache of models that want that (O9)."),
    ] = False

    def __post_init__(self) -> None:
        """Refuse to ask OpenAI, or Azure, without a key."""
        super().__post_init__()
        if self.api_key is None and vendor_at(self.base_url) != SERVERS:
            what = "there is no 'api_key'; add it, or the base_url of a server that needs none"
            raise ValueError(what)
        if self.prompt_caching and self.system_as == "instructions":
            raise ValueError("prompt_caching marks an item; leave out system_as: instructions")
