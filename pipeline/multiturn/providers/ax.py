"""The base of the providers of LLM APIs, which send a chat prompt."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from multiturn.documents.validation import LARGEST_NUMBER
from multiturn.errors import ProviderError
from multiturn.files.media import with_bytes, without_bytes
from multiturn.model.request import (
    DEFAULT,
    ChatMessage,
    PreparedRequest,
    ProviderRequest,
    message_of,
    prompt_of,
)
from multiturn.providers.base import Preview, ProviderResponse, Settings, TargetProvider, Wire
from multiturn.providers.layout import Layout
from multiturn.providers.rules import RULES, Rule, broken

_WITH_CHAT = "use a pipeline with consolidate_system"
Model = Annotated[str, Meta(description="the model, or the deployment, to ask.")]
_TEMPERATURE = Meta(
    description="used where the request says nothing; `omit` sends none, whatever a suite says."
)
_Finite = Annotated[float, Meta(ge=0, le=LARGEST_NUMBER)]
UpTo1 = Annotated[Annotated[float, Meta(ge=0, le=1)] | Literal["omit"] | None, _TEMPERATURE]
UpTo2 = Annotated[Annotated[float, Meta(ge=0, le=2)] | Literal["omit"] | None, _TEMPERATURE]


class ChatSettings(Settings, frozen=True, kw_only=True):
    """What every target with a model may set."""

    model: Model = ""
    temperature: Annotated[_Finite | Literal["omit"] | None, _TEMPERATURE] = None
    max_output_tokens: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="used where the request says nothing.")
    ] = None
    default_system: Annotated[
        Literal["send", "omit"],
        Meta(
            description="`omit` sends a prompt without a system message as it is: without the"
            " default one."
        ),
    ] = "send"
    max_retries: Annotated[
        int, Meta(ge=0, description="how often a request is repeated after a passing error.")
    ] = 2


def lacks_media(request: ProviderRequest) -> bool:
    """Return whether the messages that are sent lack what the case attaches besides text."""
    return request.chat_prompt is None and any(file.media for file in request.input_files)


class AxProvider(ABC):
    """The base of providers that send a chat prompt; subclasses define ``invoke``.

    Attributes:
        name: the name that results give as their target; by default the class's.
        accepts: what requests may hold besides text: ``calls``, for tools, calls of them, their
            results and thinking; ``media``, for images, documents and audio. A request with more
            than it accepts is refused before it is sent.
    """

    name: str = ""
    accepts: Collection[str] = frozenset()

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

        A chat prompt with a system message is sent unchanged. One without gets the request's system
        message as its first message, or the default one. Without a chat prompt, the question is the
        single user message after it.

        Raises:
            ProviderError: there is no chat prompt, and an image, a document or audio is attached,
                which a question does not have (C8).
        """
        if lacks_media(request):
            raise ProviderError(broken("C8", _WITH_CHAT))
        return tuple(map(message_of, prompt_of(request)))


class ChatProvider(TargetProvider, AxProvider):
    """The base of the providers of models; subclasses define ``prepared`` and ``write``."""

    accepts = frozenset({"calls", "media"})
    spoken_keys: ClassVar[tuple[str, ...]] = ()  # of the body: its messages and tools
    address_settings: ClassVar[tuple[str, ...]] = ()  # the names of those that say where it is
    rules: ClassVar[Mapping[str, Rule]] = RULES  # by the ids that its repairs and refusals name

    def address(self) -> tuple[str, ...]:
        """Return what says where requests go; it is part of their digests."""
        values = [getattr(self.settings, name) for name in self.address_settings]
        return tuple((value or "").rstrip("/") for value in values)

    def prepared(self, layout: Layout, request: ProviderRequest) -> PreparedRequest:
        """Return what is sent of a request; the layout takes repairs and refusals."""
        raise NotImplementedError

    def write(self, request: PreparedRequest) -> dict[str, Any]:
        """Return the body of a request, which ``encode`` makes JSON of."""
        raise NotImplementedError

    def encode(self, body: dict[str, Any], hook: Callable[[Any], str] = with_bytes) -> bytes:
        """Return a body as JSON; the hook returns what is in place of the bytes of media."""
        encoded = msgspec.json.encode(body, enc_hook=hook)
        # A copy takes only as much memory as it needs: msgspec leaves up to half of its own unused.
        return bytes(memoryview(encoded))

    def wire(self, request: ProviderRequest) -> Wire:
        """Return what would be sent for a request, unless the vendor's rules refuse it."""
        layout, prepared = self.lay_out(request)
        self.warn_once(layout.doubts)
        body = self.write(prepared)
        return Wire(
            provider=self.kind,
            model=self.settings.model,
            parameters=self.address(),
            shown=self.encode(body, without_bytes),
            complete=partial(self.encode, body) if layout.has_media else None,
            repairs=layout.done(),
            request=request,
            prepared=prepared,
        )

    def laid_out(self, request: ProviderRequest) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Return the repairs and the body as ``wire`` encodes it, as plain data without bytes."""
        layout, prepared = self.lay_out(request)
        self.warn_once(layout.doubts)
        return layout.done(), msgspec.to_builtins(self.write(prepared), enc_hook=without_bytes)

    def preview(self, request: ProviderRequest) -> Preview:
        """Return the messages after the repairs, and the other keys of the body."""
        layout, prepared = self.lay_out(request)
        body = self.write(prepared).items()
        others = {key: value for key, value in body if key not in self.spoken_keys}
        return Preview(
            messages=layout.shown,
            parameters=others,
            repairs=layout.done(),
            doubts=tuple(layout.doubts),
        )

    def lay_out(self, request: ProviderRequest) -> tuple[Layout, PreparedRequest]:
        """Return the messages after the repairs, with what is refused, and what is sent."""
        prompt = prompt_of(request)
        if self.settings.default_system == "omit" and prompt[0].parts == DEFAULT:
            prompt = prompt[1:]
        layout = Layout(prompt, request, self.rules)
        if any(turn.has_media for turn in prompt if turn.role == "system"):
            layout.refuse("M1", "attach them to a message of the user")
        if lacks_media(request):
            layout.refuse("C8", _WITH_CHAT)
        return layout, self.prepared(layout, request)
