"""What the providers of LLM APIs share: the chat prompt (000, "AxProvider Baseline")."""

from collections.abc import Iterable
from typing import Any, Self

from multiturn.model import ChatMessage, ProviderRequest, is_blank
from multiturn.provider import ProviderResponse, Settings, Wire

DEFAULT_SYSTEM_PROMPT = "You are a careful assistant."
GUIDELINES_HEADING = "[[ ## Guidelines ## ]]"


class ChatSettings(Settings, frozen=True, kw_only=True):
    """What every target with a model may set.

    Attributes:
        model: the model, or the deployment, to ask.
        temperature: used where the request says nothing.
        max_output_tokens: used where the request says nothing.
        max_retries: how often the SDK sends again what failed for a passing reason.
    """

    model: str = ""
    temperature: float | None = None
    max_output_tokens: int | None = None
    max_retries: int = 2


class AxProvider:
    """A provider that sends a chat prompt; those that inherit say how it looks on the wire.

    Args:
        settings: of the target.
        secrets: what else must be hidden, beside the keys among the settings.
    """

    def __init__(self, settings: Any, secrets: Iterable[str] = ()) -> None:
        self.settings = settings
        self.name: str = settings.name
        self.secrets = (*settings.secrets(), *secrets)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def build_chat_prompt(self, request: ProviderRequest) -> tuple[ChatMessage, ...]:
        """Return the messages to send.

        A chat prompt with a system message goes as it is; without one, the system prompt or the
        default stands in front. Without a chat prompt, the question is the single user message
        behind the system prompt and the guidelines; else ``guidelines`` is ignored.
        """
        prompt = request.chat_prompt
        if prompt and any(message.role == "system" for message in prompt):
            return prompt
        system = request.metadata.get("system_prompt")
        if not isinstance(system, str) or is_blank(system):
            system = DEFAULT_SYSTEM_PROMPT
        if prompt:
            return (ChatMessage("system", system), *prompt)
        if request.guidelines:
            system = "\n\n".join((system, GUIDELINES_HEADING, *request.guidelines))
        return ChatMessage("system", system), ChatMessage("user", request.question)

    def sampling(self, request: ProviderRequest) -> tuple[float | None, int | None]:
        """Return the temperature and the most output tokens: the request's, else the target's."""
        settings = self.settings
        temperature, limit = request.temperature, request.max_output_tokens
        return (
            settings.temperature if temperature is None else temperature,
            settings.max_output_tokens if limit is None else limit,
        )

    def wire(self, request: ProviderRequest) -> Wire:
        """Return what goes out for a request, without sending it.

        Raises:
            ProviderError: the vendor would refuse it, and no repair keeps its meaning.
        """
        raise NotImplementedError

    async def send(self, wire: Wire) -> ProviderResponse:
        """Send what ``wire`` returned.

        Raises:
            ProviderError: there is no answer.
        """
        raise NotImplementedError

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Answer a request.

        Raises:
            ProviderError: it was refused, or there is no answer.
        """
        return await self.send(self.wire(request))

    def check(self) -> None:
        """Make sure that what sending needs is there.

        Raises:
            MultiturnError: it is not, with how to get it.
        """

    async def aclose(self) -> None:
        """Close the connections."""
