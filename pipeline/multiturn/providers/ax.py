"""What the providers of LLM APIs share: the chat prompt (scenario "AxProvider Baseline")."""

from abc import ABC, abstractmethod
from typing import Annotated, Any

from msgspec import Meta

from multiturn.model import ChatMessage, ProviderRequest
from multiturn.providers.base import ProviderResponse, Settings, TargetProvider
from multiturn.turns import is_blank

DEFAULT_SYSTEM_PROMPT = "You are a careful assistant."
GUIDELINES_HEADING = "[[ ## Guidelines ## ]]"
Model = Annotated[str, Meta(description="the model, or the deployment, to ask.")]
_WHERE_UNSET = Meta(description="used where the request says nothing.")


class ChatSettings(Settings, frozen=True, kw_only=True):
    """What every target with a model may set."""

    model: Model = ""
    temperature: Annotated[float | None, _WHERE_UNSET] = None
    max_output_tokens: Annotated[Annotated[int, Meta(ge=1)] | None, _WHERE_UNSET] = None
    max_retries: Annotated[
        int, Meta(ge=0, description="how often the SDK repeats a request after a passing error.")
    ] = 2


class AxProvider(ABC):
    """The base of providers that send a chat prompt; those that inherit define ``invoke``.

    Attributes:
        name: the target's name, as results have it; by default the class's.
    """

    name: str = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.name = cls.name or cls.__name__

    @abstractmethod
    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Answer a request.

        Raises:
            ProviderError: there is no answer.
        """

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


class ChatProvider(TargetProvider, AxProvider):
    """A provider of a target with a model; those that inherit say what is on the wire."""

    def sampling(self, request: ProviderRequest) -> tuple[float | None, int | None]:
        """Return the temperature and the most output tokens: the request's, else the target's."""
        settings = self.settings
        temperature, limit = request.temperature, request.max_output_tokens
        return (
            settings.temperature if temperature is None else temperature,
            settings.max_output_tokens if limit is None else limit,
        )
