"""Azure OpenAI: the Chat Completions API at the address of a deployment."""

from typing import Annotated, Any

from msgspec import Meta

from multiturn.providers.ax import UpTo2
from multiturn.providers.openai import CompletionsSettings, OpenAIProvider


class AzureSettings(CompletionsSettings, frozen=True, kw_only=True):
    """The settings of an ``azure`` target."""

    endpoint: Annotated[str, Meta(description="`https://NAME.openai.azure.com`.")]
    version: Annotated[str, Meta(description="of the API.")] = "2024-12-01-preview"
    temperature: UpTo2 = None


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
