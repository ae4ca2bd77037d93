"""What the providers of LLM APIs share: they send their bodies by HTTP, and read the answers."""

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, BinaryIO, ClassVar, TypeVar

import msgspec
from msgspec import structs

from multiturn.errors import ENDS_RUN, ProviderError
from multiturn.files.media import with_bytes
from multiturn.model.request import PreparedRequest, ProviderRequest
from multiturn.model.settings import RequestSettings
from multiturn.providers.base import ChatProvider, ProviderResponse, Wire
from multiturn.providers.client import Client, Reply, Upload
from multiturn.providers.layout import Layout, Names, media_in, want_names
from multiturn.providers.models import SERVERS, Abilities, Row, Verdict, words_of
from multiturn.providers.reading import BodyForm
from multiturn.providers.replies import lesson_of, receive
from multiturn.providers.secrets import hide
from multiturn.providers.settings import in_words, wrong_body
from multiturn.providers.tokens import Tokenizer, Tokens

_S = TypeVar("_S")
_T = TypeVar("_T")


def _of_tools(layout: Layout, request: ProviderRequest, asked: RequestSettings) -> RequestSettings:
    """Return settings without those of tools where a case has none (C5)."""
    choice = asked.tool_choice
    if not request.tools:
        if request.settings.tool_choice is not None:
            layout.repair("C5", "left out tool_choice: the case has no tools")
        return structs.replace(asked, tool_choice=None, parallel_tool_calls=None)
    names = [tool.name for tool in request.tools]
    if isinstance(choice, Mapping) and choice["name"] not in names:
        layout.refuse("C5", f"name one of the tools: {', '.join(names)}")
    return asked


def used_features(
    layout: Layout, request: ProviderRequest, asked: RequestSettings
) -> Iterator[str]:
    """Yield what a request has that some models refuse, by the names of models.yaml."""
    if any(turn.role == "system" for turn in layout.shown):
        yield "system_message"
    if not any(media.kind == "audio" for media in media_in(layout.messages)):
        yield "only_text"
    if any(t.thinking and not t.parts and not t.calls for t in layout.messages):
        yield "only_thinking"
    if request.tools:
        yield "tools"
        if asked.tool_choice == "required" or isinstance(asked.tool_choice, Mapping):
            yield "forced_tool_choice"


class HttpProvider(ChatProvider):
    """The base of the providers that ask an API by HTTP."""

    tool_names: ClassVar[Names]  # those that the vendor takes
    hottest: ClassVar[tuple[str, float]]  # the vendor's rule, and the highest temperature
    rows: tuple[Row, ...] = ()  # what the user's own targets file says of models
    body_forms: ClassVar[tuple[BodyForm, ...]]  # of the bodies that it sends
    answer_type: ClassVar[type]  # of the answers to requests

    _client: Client | None = None
    _loop: asyncio.AbstractEventLoop | None = None

    def __init__(self, settings: Any, secrets: Iterable[str] = ()) -> None:
        super().__init__(settings, secrets)
        self._taught: set[str] = set()

    @property
    def server(self) -> str:
        """The address that paths are appended to."""
        raise NotImplementedError

    @property
    def path(self) -> str:
        """The path of the requests."""
        raise NotImplementedError

    def address(self) -> tuple[str, ...]:
        """Return what says where requests go, and with which headers, but no secret."""
        headers = [
            f"{name.lower()}: {value}"
            for name, value in sorted(self.settings.headers.items())
            if value not in self.secrets
        ]
        return (*super().address(), *headers)

    @property
    def vendor(self) -> str:
        """The key of models.yaml under which the models are."""
        return self.kind

    @property
    def api_version(self) -> str | None:
        """The version of the API, where what is known of models depends on it."""
        return None

    @cached_property
    def abilities(self) -> Abilities:
        """What is known of the model."""
        settings = self.settings
        return Abilities(
            self.vendor, settings.model, settings.model_takes, self.rows, self.api_version
        )

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """What counts the tokens of texts for the model."""
        return self.abilities.tokenizer

    @cached_property
    def cache_minimum(self) -> int | None:
        """From how many tokens on the model's prefixes are cached; None if that is not known."""
        return self.abilities.cache_minimum

    @property
    def has_cache(self) -> bool | None:
        """Whether the vendor caches the prefixes of this target; None if that is not known."""
        return None if self.cache_minimum is None else True

    @cached_property
    def is_overhead_known(self) -> bool:
        """Whether the vendor says what it adds to the tokens of texts."""
        return self.abilities.is_overhead_known

    @cached_property
    def form(self) -> BodyForm:
        """The form of the target's bodies."""
        return self.body_forms[0]

    @cached_property
    def _own_settings(self) -> RequestSettings:
        """The settings of the target, but for a temperature that is ``omit``."""
        said = self.settings.said()
        return RequestSettings(**{key: each for key, each in said.items() if each != "omit"})

    def asked(self, layout: Layout, request: ProviderRequest) -> RequestSettings:
        """Return the settings that are sent; the layout takes what the vendor or model refuses."""
        asked = request.settings.over(self._own_settings)
        if self.settings.temperature == "omit" and asked.temperature is not None:
            layout.repair("C3", f"left out the temperature {asked.temperature:g}")
            asked = structs.replace(asked, temperature=None)
        if self.vendor != SERVERS:
            want_names(layout, request, self.tool_names)
        if asked.tool_choice is not None or asked.parallel_tool_calls is not None:
            asked = _of_tools(layout, request, asked)
        if asked.temperature is not None:
            self._want_temperature(layout, asked.temperature)
        ignored: dict[str, None] = {}
        for name, value in asked.said().items():
            if name == "body":
                for wrong in wrong_body(value, self.form.keys, self.form.closed):
                    layout.refuse("C11", wrong)
            elif self._ignores(layout, name, value):
                ignored[name] = None
        for feature in used_features(layout, request, asked):
            verdict = self.abilities.takes(feature)
            if verdict.takes is False:
                layout.judge(verdict, words_of(feature)[1])
        return structs.replace(asked, **ignored) if ignored else asked

    def _ignores(self, layout: Layout, name: str, value: Any) -> bool:
        """Return whether the model ignores a setting; the layout takes what is refused."""
        key, word = self.form.keys.get(name), in_words(value)
        if key is None or (key.values and word not in key.values):
            said = name if key is None else f"{name} {word}"
            otherwise = f", or one of {', '.join(key.values)}" if key else ", or write it in body"
            layout.refuse("C10", f"leave out {said}{otherwise}")
            return False
        verdict = self.abilities.takes(name, word)
        if verdict.is_ignored:
            layout.repair(verdict.rule, f"left out the {name} {word}, which the model ignores")
        elif verdict.takes is not None or self.abilities.is_said(name):
            layout.judge(verdict, self._advice(name, word, verdict))
        return verdict.is_ignored

    def _advice(self, name: str, value: str, verdict: Verdict) -> str:
        """Return how to avoid a setting that the model does not take."""
        if name != "temperature":
            allowed = [row.takes[name] for row in verdict.rows]
            words = {word for each in allowed if isinstance(each, tuple) for word in each}
            other = f", or set one of {', '.join(sorted(words))}" if words else ""
            return f"leave out {name} {value}{other}"
        advice = "set temperature: omit in the target"
        if verdict.takes is False and verdict.rows:
            for version in self.abilities.other_versions():
                if version.takes(name, value).takes is not False:
                    advice += f', or api_version: "{version.api_version}"'
        return advice

    def _want_temperature(self, layout: Layout, temperature: float) -> None:
        rule, highest = self.hottest
        if not 0 <= temperature < math.inf:
            layout.refuse("C2", f"this one is {temperature:g}")
        elif self.vendor != SERVERS and temperature > highest:
            layout.refuse(rule, f"this one is {temperature:g}")

    def made(
        self, layout: Layout, request: ProviderRequest, asked: RequestSettings, **form: Any
    ) -> PreparedRequest:
        """Return what is sent, once all repairs are done; of the form, what is None is left out."""
        return PreparedRequest(
            messages=tuple(layout.messages),
            system=layout.system,
            model=self.settings.model,
            tools=request.tools,
            settings=asked,
            form={name: value for name, value in form.items() if value is not None},
        )

    def read(self, answer: Any) -> ProviderResponse:
        """Return what an answer of the type ``answer_type`` says.

        Raises:
            ProviderError: it says that there is none.
        """
        raise NotImplementedError

    async def prepare(self) -> None:
        """Make a client for the event loop, which owns the connections."""
        self.client()

    def client(self) -> Client:
        """Return the client of the event loop that runs."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._client = Client(self.settings, self.server, self.secrets)
            self._loop = loop
        return self._client

    async def send(self, wire: Wire) -> ProviderResponse:
        """Send a body, and return the answer; no secret is in it, or in an error."""
        body = wire.body
        try:
            reply = await self.client().send("POST", self.path, body)
            answer = structs.replace(self.answer(reply.body), retries=reply.retries)
            return structs.replace(answer, wire=hide(body, self.secrets))
        except ProviderError as error:
            if error.status == 404:
                error.what += f"; check the model and the address of the target {self.name!r}"
            self.teach(error, wire)
            error.wire = hide(body, self.secrets)
            raise

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        is_retried: bool = True,
    ) -> Reply:
        """Return a server's answer; the arguments are those of ``Client.send``.

        The body is sent as JSON, unless it is an upload; None is nothing.
        """
        content: Any = body
        if body is None:
            content = b""
        elif not isinstance(body, Upload):
            content = msgspec.json.encode(body, enc_hook=with_bytes)
        sent = self.client().send(method, path, content, headers=headers, is_retried=is_retried)
        return await sent

    async def call(
        self,
        method: str,
        path: str,
        kind: type[_S],
        read: Callable[[_S], _T],
        body: Any = None,
        *,
        what: str = "answer",
        **options: Any,
    ) -> _T:
        """Return what is read of the answer of an endpoint, as ``receive`` does.

        The options are those of ``request``.

        Raises:
            ProviderError: there is no answer, or one of another type.
        """
        reply = await self.request(method, path, body, **options)
        return receive(reply.body, kind, read, self.secrets, what)

    async def count(self, wire: Wire) -> int:
        """Return the input tokens that the vendor counts of a request.

        Raises:
            ProviderError: the vendor gives no count.
        """
        raise NotImplementedError

    async def count_tokens(self, wire: Wire) -> Tokens:
        """Return the input tokens that the vendor counts, through the target's client and limits.

        Raises:
            ProviderError: the vendor gives no count.
        """
        try:
            count = await self.count(wire)
        except ProviderError as error:
            if error.status == 404:
                error.what += f"; the address of the target {self.name!r} may not count tokens"
            raise
        return structs.replace(self.tokens(wire), count=count, is_exact=True, media=0)

    async def download(self, path: str, file: BinaryIO) -> None:
        """Write the answer of an endpoint into a file, whatever its size."""
        headers = {"accept": "application/binary"}  # as the SDKs of the vendors ask
        await self.client().send("GET", path, headers=headers, into=file)

    def answer(self, reply: bytes) -> ProviderResponse:
        """Return what the vendor's answer to one request says, without secrets.

        Raises:
            ProviderError: it says nothing, or is not in the vendor's format.
        """
        return receive(reply, object, self.read_raw, self.secrets)

    def read_raw(self, raw: Any) -> ProviderResponse:
        """Return what a decoded answer says; secrets may be in it."""
        return structs.replace(self.read(msgspec.convert(raw, self.answer_type)), raw=raw)

    def teach(self, error: ProviderError, wire: Wire | None = None) -> None:
        """Add which setting avoids a refusal; one that every case would meet ends a run.

        Of errors that end a run, only one is shown, and nobody knows which; of others, each is.
        """
        lesson = lesson_of(error)
        if lesson is None:
            return
        # A batch has ended anyway, and a wrong key ends a run by itself.
        is_of_target = wire is not None and lesson.is_of_target(self.settings, wire.request)
        if is_of_target and error.kind == "http":
            error.kind = "target"
        if error.kind in ENDS_RUN or lesson.advice not in self._taught:
            self._taught.add(lesson.advice)
            error.what = f"{error.what.removesuffix('.')}; {lesson.advice}"

    async def aclose(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = self._loop = None
