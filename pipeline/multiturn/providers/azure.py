"""Azure OpenAI, through the openai SDK: the messages are sent almost unchanged."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from multiturn.model import ProviderRequest
from multiturn.providers.base import ProviderResponse, counts
from multiturn.providers.http import HttpProvider, HttpSettings
from multiturn.providers.http_client import http_client
from multiturn.providers.rules import Layout


class AzureSettings(HttpSettings, frozen=True, kw_only=True):
    """The settings of an ``azure`` target."""

    endpoint: Annotated[str, Meta(description="`https://NAME.openai.azure.com`.")]
    version: Annotated[str, Meta(description="of the API.")] = "2024-12-01-preview"
    system_role: Annotated[
        Literal["system", "developer"],
        Meta(description="what the model calls its system message (O2)."),
    ] = "system"


class AzureProvider(HttpProvider):
    """Sends the chat prompt to a deployment of Azure OpenAI."""

    kind = "azure"
    sdk = "openai"
    extra = "azure"
    path = "/chat/completions"
    settings: AzureSettings

    def address(self) -> tuple[str, ...]:
        """Return the endpoint and the version of the API."""
        return self.settings.endpoint, self.settings.version

    def body(self, layout: Layout, request: ProviderRequest) -> dict[str, Any]:
        """Return the messages, tool messages as the user's (O1), and the parameters."""
        layout.tools_as_user("O1")
        layout.want_turns("C1")
        roles = {"system": self.settings.system_role}
        temperature, limit = self.sampling(request)
        return {
            "messages": [
                {"role": roles.get(message.role, message.role), "content": message.content}
                for message in layout.messages
            ],
            "model": self.settings.model,
            "max_completion_tokens": limit,
            "temperature": temperature,
        }

    def connect(self) -> Any:
        """Return an openai client."""
        import openai

        self.http = http_client(openai.DefaultAioHttpClient)
        return openai.AsyncAzureOpenAI(
            azure_endpoint=self.settings.endpoint,
            azure_deployment=self.settings.model,
            api_version=self.settings.version,
            api_key=self.settings.api_key,
            timeout=self.settings.timeout_seconds,
            max_retries=self.settings.max_retries,
            http_client=self.http,
        )

    def read(self, answer: Any) -> ProviderResponse:
        """Return the first choice; a refusal by the model is an answer, too."""
        choice = answer["choices"][0]
        message = choice["message"]
        return ProviderResponse(
            text=message.get("content") or message.get("refusal") or "",
            usage=counts(
                answer.get("usage"),
                input_tokens="prompt_tokens",
                output_tokens="completion_tokens",
            ),
            finish_reason=choice.get("finish_reason"),
        )
