"""Azure OpenAI, through the openai SDK: the messages go as they are."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from multiturn.model import ProviderRequest
from multiturn.providers.base import ProviderResponse, Wire, counts
from multiturn.providers.http import HOOKS, HttpProvider, HttpSettings
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

    sdk = "openai"
    extra = "azure"
    settings: AzureSettings

    def wire(self, request: ProviderRequest) -> Wire:
        """Return the messages, a tool message as the user's (O1)."""
        settings = self.settings
        layout = Layout(self.build_chat_prompt(request))
        layout.tools_as_user("O1")
        layout.want_turns("C1")
        roles = {"system": settings.system_role}
        messages = [
            {"role": roles.get(message.role, message.role), "content": message.content}
            for message in layout.messages
        ]
        body = {"messages": messages, "model": settings.model, **self.parameters(request)}
        return Wire(
            provider="azure",
            model=settings.model,
            parameters=(settings.endpoint, settings.version),
            body=msgspec.json.encode(body),
            repairs=layout.done(),
        )

    def parameters(self, request: ProviderRequest) -> dict[str, Any]:
        """Return what else the body says."""
        temperature, limit = self.sampling(request)
        given = {"max_completion_tokens": limit, "temperature": temperature}
        return {name: value for name, value in given.items() if value is not None}

    def connect(self) -> Any:
        """Return an openai client."""
        import openai

        return openai.AsyncAzureOpenAI(
            azure_endpoint=self.settings.endpoint,
            azure_deployment=self.settings.model,
            api_version=self.settings.version,
            api_key=self.settings.api_key,
            timeout=self.settings.timeout_seconds,
            max_retries=self.settings.max_retries,
            http_client=openai.DefaultAioHttpClient(event_hooks=HOOKS, follow_redirects=False),
        )

    async def ask(self, client: Any, wire: Wire) -> str:
        """Post the body as it is: the SDK's typed method would walk and copy it twice."""
        import httpx2

        path = "/chat/completions"
        response = await client.post(path, content=wire.body, cast_to=httpx2.Response)
        return str(response.text)

    def read(self, answer: Any) -> ProviderResponse:
        """Return the first choice; what the model refused to say is its answer, too."""
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
