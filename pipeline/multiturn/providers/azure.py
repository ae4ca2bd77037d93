"""Azure OpenAI: OpenAI's APIs at the address of a resource, where a model is a deployment."""

from typing import Annotated, Any

from msgspec import Meta
from msgspec.structs import force_setattr

from multiturn.providers.ax import UpTo2
from multiturn.providers.openai import OpenAIProvider
from multiturn.providers.openai_settings import OpenAIApiSettings

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

    def __post_init__(self) -> None:
        """Fill in the version that has the API."""
        super().__post_init__()
        if self.version is None:
            force_setattr(self, "version", _VERSIONS[self.api])


class AzureProvider(OpenAIProvider):
    """Sends the chat prompt to a deployment of Azure OpenAI."""

    kind = "azure"
    address_settings = ("endpoint", "version")

    @property
    def vendor(self) -> str:
        """Azure, whatever the address: the endpoint may be a gateway's."""
        return self.kind

    def client(self, sdk: Any, **options: Any) -> Any:
        """Return a client for the deployment."""
        return sdk.AsyncAzureOpenAI(
            azure_endpoint=self.settings.endpoint,
            azure_deployment=self.settings.model,
            api_version=self.settings.version,
            **options,
        )
