"""The interface of providers, and what all of them share."""

import hashlib
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from functools import cache, partial
from time import monotonic
from typing import Annotated, Any, ClassVar, Final, Literal, Protocol, Self

import msgspec
from msgspec import Meta, Struct, structs

from multiturn import errors
from multiturn.files.media import with_bytes, without_bytes
from multiturn.logs import Notice, warn
from multiturn.model.request import (
    DEFAULT,
    DEFAULT_SYSTEM_PROMPT,
    ChatMessage,
    InputFile,
    PreparedRequest,
    ProviderRequest,
    message_of,
    prompt_of,
)
from multiturn.model.settings import Number, RequestSettings, SettingsKeys
from multiturn.model.tokens import Overhead, Sent, Tokenizer, Tokens, sent_of
from multiturn.model.turns import Call, Turns
from multiturn.providers.layout import Layout
from multiturn.providers.models import Abilities
from multiturn.providers.rules import RULES, Rule, broken
from multiturn.providers.secrets import hide
from multiturn.text import brief


@cache
def passing() -> tuple[type[BaseException], ...]:
    """Return what ends a request and is no failure of it."""
    from asyncio import CancelledError  # takes 4 MB, which snapshots and reports do not need

    return CancelledError, KeyboardInterrupt, GeneratorExit


Seconds = Annotated[float, Meta(gt=0)]
# What a target does with system messages unless it, or the project, says otherwise.
USUAL_DEFAULT_SYSTEM: Final = "send"
USUAL_SYSTEM_ROLE: Final = "system"
LARGEST_ANSWER = 16 * 2**20  # bytes, unpacked
# The server counts: a second more than a minute, for those that take longer to arrive than others.
_PERIOD = 61.0


class ProviderResponse(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """A provider's answer.

    Attributes:
        text: what the model said.
        tool_calls: the tools that the model called.
        thinking: what it thought, as the vendor sent it.
        usage: ``input_tokens``, ``output_tokens`` with thoughts, and, where counted, of the input
            ``cached_tokens`` (read from the provider's cache) and ``cache_write_tokens``.
        raw: the decoded answer.
        finish_reason: why the model stopped, in the provider's own word.
        is_refusal: the model, or the provider's filter, refused; ``text`` is what it said instead.
        retries: number of retries.
        wire: the exact body that was sent.
    """

    text: str
    tool_calls: tuple[Call, ...] = ()
    thinking: Any = ()
    usage: Mapping[str, int] = {}
    raw: Any = None
    finish_reason: str | None = None
    is_refusal: bool = False
    retries: int = 0
    wire: bytes = b""

    __repr__ = brief


class Provider(Protocol):
    """Anything that has a name and answers requests."""

    @property
    def name(self) -> str:
        """The name that results give as their target."""

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Answer a request.

        Raises:
            ProviderError: there is no answer.
        """


class Wire(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """A request as it is sent.

    Attributes:
        provider: the kind of provider.
        model: empty for the provider's default.
        parameters: what else shapes the answer, such as the address.
        shown: the body, in which a description is in place of the bytes of images and others.
        complete: makes the exact body; None if ``shown`` is it.
        repairs: what the provider's rules required, each with a rule's id.
        files: sent beside the body.
        request: what the body was made from.
        prepared: the same after the vendor's rules; None where it has none.
    """

    provider: str
    model: str = ""
    parameters: tuple[str, ...] = ()
    shown: bytes
    complete: Callable[[], bytes] | None = None
    repairs: tuple[str, ...] = ()
    files: tuple[InputFile, ...] = ()
    request: ProviderRequest
    prepared: PreparedRequest | None = None

    __repr__ = brief

    @property
    def body(self) -> bytes:
        """The exact bytes to send. Those of media are read each time, so that none are held."""
        return self.shown if self.complete is None else self.complete()

    def digest(self) -> str:
        """Return a hash of the request. API keys are never part of it."""
        hashed = hashlib.sha256()
        files = (
            file.text if file.media is None else file.media.digest or file.media.name
            for file in self.files
        )
        texts = [self.provider, self.model, *self.parameters, *files]
        for piece in (*(text.encode("utf-8", "surrogatepass") for text in texts), self.shown):
            hashed.update(b"%d:" % len(piece))
            hashed.update(piece)
        return hashed.hexdigest()


class Preview(Struct, frozen=True, kw_only=True):
    """What a target is sent of a case, for people to read."""

    messages: Turns | None = None  # None for a provider of a user's own, which gets the request
    parameters: Mapping[str, Any] = {}  # what else the body says, such as the temperature
    settings: RequestSettings | None = None  # None for a provider that gets them with the request
    repairs: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()  # what the request uses, and is not known of the model


class _Hidden:
    """The settings of a target, whose values may be keys."""

    __slots__ = ()
    name: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def secrets(self) -> list[str]:
        """Return the values that must never be shown."""
        return []


class Settings(_Hidden, Struct, frozen=True, kw_only=True):
    """What every target may set; editors show the descriptions.

    Attributes:
        name: the target's name.
        provider: the kind of provider, or the import path `module:Class` of one's own.
        timeout_seconds: how long one attempt may take.
    """

    name: str
    provider: str
    timeout_seconds: Seconds = 600


class Rate:
    """Lets at most so many requests go in any 60 seconds, evenly spread; None is any number."""

    of_run: ClassVar[ContextVar[Self]]  # whose targets may be those of other runs, too

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._last = -_PERIOD  # when the request goes whose turn is last
        self._gone: deque[float] = deque(maxlen=most)  # when the last ones went

    async def turn(self) -> None:
        """Wait until another request may go, and count it."""
        import asyncio  # takes 4 MB, which snapshots and reports do not need

        if self._most is None:
            return
        self._last = max(self._last + _PERIOD / self._most, monotonic())
        await asyncio.sleep(self._last - monotonic())
        # Where something has blocked the event loop, several turns are late, and come at once.
        while len(self._gone) == self._most and (late := self._gone[0] + _PERIOD - monotonic()) > 0:
            await asyncio.sleep(late)
        self._gone.append(monotonic())


_UNLIMITED = Rate(None)
Rate.of_run = ContextVar("rate", default=_UNLIMITED)


class TargetProvider:
    """The base of the providers that targets name; subclasses define ``wire`` and ``ask``.

    The secrets are values to hide, in addition to the keys among the settings.
    """

    kind: ClassVar[str] = ""  # the name that targets give it; empty for a user's own
    batch_api: ClassVar[Any] = None  # the class of its Batch API
    counts_tokens: ClassVar[bool] = False  # whether the vendor has an endpoint that does
    telemetry_names: ClassVar[tuple[str, ...]] = ()  # in OpenTelemetry's gen_ai.provider.name
    accepts: Collection[str] = frozenset()  # as for ``AxProvider``
    rules_by: ClassVar[tuple[str, ...]] = ()  # the addresses that say whose rules hold
    overhead = Overhead()  # what the vendor adds to the tokens of texts
    place = errors.Place()  # of the target, if it is of a file
    default_system: str | None = None  # what the project says, where the target says nothing

    def __init__(self, settings: Any, secrets: Iterable[str] = ()) -> None:
        self.settings = settings
        self.name: str = settings.name
        self.secrets = (*settings.secrets(), *secrets)
        self._warned: set[str] = set()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections, or end the processes."""

    def warn_once(self, doubts: Iterable[str]) -> None:
        """Warn of what is not known of the model, of each thing once."""
        for doubt in doubts:
            if doubt not in self._warned:
                self._warned.add(doubt)
                place = self.place._replace(label=f"target {self.name!r}")
                warn(Notice("target.unknown", place, doubt))

    def check(self) -> None:
        """Raise a MultiturnError if the program that sends requests is not installed."""

    async def prepare(self) -> None:
        """Do in advance what would otherwise count as latency of the first request."""

    def wire(self, request: ProviderRequest) -> Wire:
        """Return what would be sent for a request, unless the provider would refuse it."""
        raise NotImplementedError

    @property
    def abilities(self) -> Abilities:
        """What is known of the model: nothing of one that only an agent knows."""
        return Abilities("", "")

    @property
    def tokenizer(self) -> Tokenizer:
        """What counts the tokens of texts; an estimate where nothing is known of the model."""
        return self.abilities.tokenizer

    def reads(self, wire: Wire) -> Sent:
        """Return what a model reads of a request; of an agent's, without what that adds to it."""
        if wire.prepared is not None:
            return sent_of(wire.prepared)
        request = wire.request
        tools = request.tools if "calls" in self.accepts else ()  # a transcript has calls only
        return sent_of(PreparedRequest(messages=prompt_of(request), tools=tools))

    def tokens(self, wire: Wire) -> Tokens:
        """Return how many input tokens a request is; about, where that is not known."""
        sent, texts = self.reads(wire), self.tokenizer
        is_known = self.is_overhead_known and texts.is_exact
        images = [self.abilities.image_tokens(media) for media in sent.media]
        return Tokens(
            sent.size(texts.count, self.overhead) + sum(filter(None, images)),
            is_exact=is_known and not (sent.has_data or sent.media),
            media=images.count(None),
            most_output=(wire.prepared or wire.request).settings.max_output_tokens,
        )

    @property
    def is_overhead_known(self) -> bool:
        """Whether the vendor says what it adds to the tokens of texts."""
        return self.abilities.is_overhead_known

    @property
    def cache_minimum(self) -> int | None:
        """From how many tokens on the vendor caches a prefix; None if that is not known."""
        return self.abilities.cache_minimum

    @property
    def has_cache(self) -> bool | None:
        """Whether a vendor caches the prefixes of this target; None if that is not known."""
        return False

    def preview(self, request: ProviderRequest) -> Preview:
        """Return what people read of ``wire``; it needs neither key nor network.

        Raises:
            ProviderError: the provider would refuse the request.
        """
        return Preview(repairs=self.wire(request).repairs)

    async def ask(self, wire: Wire) -> ProviderResponse:
        """Return the answer to what ``wire`` returned; secrets may be in it."""
        raise NotImplementedError

    async def send(self, wire: Wire) -> ProviderResponse:
        """Send what ``wire`` returned; no secret is in the answer, or in the error.

        Raises:
            ProviderError: there is no answer, for whatever reason.
        """
        process = os.getpid()
        try:
            return hide(await self.ask(wire), self.secrets)
        except passing():
            raise
        except BaseException as error:  # also SystemExit, whose text Python would print
            raise self.hidden(error) from None
        finally:
            if os.getpid() != process:
                errors.end_fork(f"the provider of the target {self.name}")

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Answer a request."""
        return await self.send(self.wire(request))

    def hidden(self, error: BaseException) -> errors.ProviderError:
        """Return an error without secrets; one that is not the provider's own has its type."""
        if not isinstance(error, errors.ProviderError):
            return errors.OwnProviderError(hide(errors.exception_in_words(error), self.secrets))
        what = error.what if isinstance(error.what, str) else errors.exception_in_words(error)
        return errors.provider_error(
            hide(error.kind, self.secrets),
            hide(what, self.secrets),
            status=error.status,
            retries=error.retries,
            wire=hide(error.wire, self.secrets),
        )


@asynccontextmanager
async def opened(providers: Iterable[TargetProvider]) -> AsyncIterator[None]:
    """Open providers, and close them at the end."""
    async with AsyncExitStack() as stack:
        for provider in providers:
            await stack.enter_async_context(provider)
        yield


_WITH_CHAT = "use a pipeline with consolidate_system"
UpTo1 = Annotated[float, Meta(ge=0, le=1)] | Literal["omit"] | None
UpTo2 = Annotated[float, Meta(ge=0, le=2)] | Literal["omit"] | None


class ChatSettings(_Hidden, SettingsKeys, frozen=True, kw_only=True):
    """What every target with a model may set; where a request says something, that counts.

    Attributes:
        name: the target's name.
        provider: the kind of provider.
        timeout_seconds: how long one attempt may take.
        model: the model, or the deployment, to ask.
        temperature: how freely the model chooses its words; `omit` sends none, whatever a suite
            says.
        default_system: `send` adds the default system message to a prompt without one, and `omit`
            does not; by default what the project says, else `send`.
        max_retries: how often a request is repeated after a passing error.
    """

    name: str
    provider: str
    timeout_seconds: Seconds = 600
    model: str = ""
    temperature: Number | Literal["omit"] | None = None  # type: ignore[assignment]
    default_system: Literal["send", "omit"] | None = None
    max_retries: Annotated[int, Meta(ge=0)] = 2


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
            ProviderError: the chat prompt is empty (C1); or there is none, and an image, a document
                or audio is attached, which a question does not have (C8).
        """
        if request.chat_prompt is not None and not request.chat_prompt:
            raise errors.RefusedError(broken("C1", "the chat prompt is empty; add a user message"))
        if lacks_media(request):
            raise errors.RefusedError(broken("C8", _WITH_CHAT))
        return tuple(map(message_of, prompt_of(request)))


class ChatProvider(TargetProvider, AxProvider):
    """The base of the providers of models; subclasses define ``prepared`` and ``write``."""

    accepts = frozenset({"calls", "media"})
    address_settings: ClassVar[tuple[str, ...]] = ()  # the names of those that say where it is
    rules: ClassVar[Mapping[str, Rule]] = RULES  # by the ids that its repairs and refusals name

    @property
    def of_default_system(self) -> str:
        """What becomes of the default system message: the target's word, else the project's."""
        return self.settings.default_system or self.default_system or USUAL_DEFAULT_SYSTEM

    def address(self) -> tuple[str, ...]:
        """Return what says where requests go; it is part of their digests."""
        values = [getattr(self.settings, name) for name in self.address_settings]
        return tuple((value or "").rstrip("/") for value in values)

    def prepared(self, layout: Layout, request: ProviderRequest) -> PreparedRequest:
        """Return what is sent but the messages; the layout has these, repairs and refusals."""
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

    def preview(self, request: ProviderRequest) -> Preview:
        """Return the messages after the repairs, and the other keys of the body."""
        layout, prepared = self.lay_out(request)
        bare = structs.replace(prepared, messages=(), system=None, tools=())
        others = {key: value for key, value in self.write(bare).items() if value != []}
        return Preview(
            messages=prepared.spoken,
            parameters=others,
            settings=prepared.settings,
            repairs=layout.done(),
            doubts=tuple(layout.doubts),
        )

    def lay_out(
        self, request: ProviderRequest, prompt: Turns | None = None
    ) -> tuple[Layout, PreparedRequest]:
        """Return the messages (by default the request's) after the repairs, and what is sent."""
        prompt = prompt_of(request) if prompt is None else prompt
        is_added = prompt[0].parts == DEFAULT
        omits = is_added and self.of_default_system == "omit"
        layout = Layout(prompt[1:] if omits else prompt, self.rules)
        if is_added and not omits:
            layout.repair("C9", f"added the default system message: {DEFAULT_SYSTEM_PROMPT}")
        if any(turn.has_media for turn in prompt if turn.role == "system"):
            layout.refuse("M1", "attach them to a message of the user")
        if lacks_media(request):
            layout.refuse("C8", _WITH_CHAT)
        prepared = self.prepared(layout, request)
        messages = tuple(layout.messages)
        return layout, structs.replace(prepared, messages=messages, system=layout.system)
