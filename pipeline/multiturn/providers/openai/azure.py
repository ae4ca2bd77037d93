"""Azure OpenAI: OpenAI's APIs at the address of a resource, where a model is a deployment."""

from typing import Annotated, Literal
from urllib.parse import quote, urlencode

from msgspec import Meta
from msgspec.structs import force_setattr

from multiturn.providers.ax import UpTo2
from multiturn.providers.openai.provider import OpenAIProvider
from multiturn.providers.openai.settings import OpenAIApiSettings

# Azure has the Responses API from version 2025-03-01-preview on (Aider #4029); this is the last one
# with a date.
_VERSIONS = {"chat": "2024-12-01-preview", "responses": "2025-04-01-preview"}


class AzureSettings(OpenAIApiSettings, frozen=True, kw_only=True):
    """The settings of an ``azure`` target."""

    endpoint: Annotated[str, Meta(description="`https://NAME.openai.azure.com`.")]
    version: Annotated[
        str | None,
        Meta(
            description="of the API; by default 2024-12-01-preview, and 2025-04-01-preview with"
            " `api: responses`."
        ),
    ] = None
    temperature: UpTo2 = None
    auth: Annotated[
        Literal["api-key", "bearer"],
        Meta(
            description="the header with the key: `api-key`, or `Authorization: Bearer` for a token"
            " of Microsoft Entra."
        ),
    ] = "api-key"

    def own_headers(self) -> dict[str, str]:
        """Return the header with the key."""
        return super().own_headers() if self.auth == "bearer" else {"api-key": self.api_key}

    def __post_init__(self) -> None:
        """Fill in the version that has the API."""
        super().__post_init__()
        if self.version is None:
            force_setattr(self, "version", _VERSIONS[self.api])


class AzureProvider(OpenAIProvider):
    """Sends the chat prompt to a deployment of Azure OpenAI."""

    kind = "azure"
    batch_api = "multiturn.providers.openai.batches:AzureBatchApi"
    counts_tokens = False
    address_settings = ("endpoint", "version")

    @property
    def vendor(self) -> str:
        """Azure, whatever the address: the endpoint may be a gateway's."""
        return self.kind

    @property
    def server(self) -> str:
        """The address of the resource."""
        return f"{self.settings.endpoint.rstrip('/')}/openai"

    @property
    def path(self) -> str:
        """The path of the requests, for Chat Completions below that of the deployment."""
        deployment = f"/deployments/{quote(self.settings.model, safe='')}"
        return self.versioned(f"{'' if self.asks_responses else deployment}{self.endpoint}")

    def versioned(self, path: str) -> str:
        """Return a path with the version of the API."""
        separator = "&" if "?" in path else "?"
        return f"{path}{separator}{urlencode({'api-version': self.settings.version})}"
