"""What the providers that use HTTP share: a vendor's SDK sends, and this reads its answer."""

import asyncio
import errno
import importlib
import importlib.util
import math
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeVar

import msgspec
from msgspec import structs

from multiturn.errors import ENDS_RUN, MultiturnError, ProviderError
from multiturn.model.request import ProviderRequest
from multiturn.providers.ax import ChatProvider
from multiturn.providers.base import ProviderResponse, Wire
from multiturn.providers.client import Exchange, current, status_error
from multiturn.providers.layout import Layout
from multiturn.providers.models import SERVERS, Abilities, Row
from multiturn.providers.refusals import lesson_of
from multiturn.providers.secrets import hide
from multiturn.providers.tokens import Sent, Tokenizer, sent_in
from multiturn.providers.tool_layout import Choice, Names, choice_of, want_names

_T = TypeVar("_T")
_OF_DISKS = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EROFS, errno.EIO)
# The SDKs' own exceptions do not tell these from a connection that broke.
_NO_CONNECTION = (ConnectionRefusedError, socket.gaierror, ssl.SSLCertVerificationError)
_VENDORS = ("ANTHROPIC_", "AZURE_", "GEMINI_", "GOOGLE_", "OPENAI_")


@contextmanager
def _without_variables() -> Iterator[None]:
    """Hide the variables of the vendors: addresses, headers and keys come from the target only.

    The SDKs read such variables in the constructors of their clients, and none has an option to
    ignore them. They are put back at once, for the program that uses this library.
    """
    hidden = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith(_VENDORS)}
    try:
        yield
    finally:
        os.environ.update(hidden)


class Asked(NamedTuple):
    """What a request asks for, or else its target."""

    temperature: float | None
    limit: int | None  # of the output
    choice: Choice | None  # whether the model must call a tool


class HttpProvider(ChatProvider):
    """The base of the providers that ask through a vendor's SDK."""

    sdk: ClassVar[str]  # the module to import
    tool_names: ClassVar[Names]  # those that the vendor takes
    hottest: ClassVar[tuple[str, float]]  # the vendor's rule, and the highest temperature
    rows: tuple[Row, ...] = ()  # what the user's own targets file says of models
    path: ClassVar[str]  # of the requests

    http: Any = None  # the HTTP client inside the SDK's
    _client: Any = None
    _loop: Any = None

    def __init__(self, settings: Any, secrets: Iterable[str] = ()) -> None:
        super().__init__(settings, secrets)
        self._taught: set[str] = set()

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

    def reads(self, wire: Wire) -> Sent:
        """Return what the model reads of a request."""
        return sent_in(msgspec.json.decode(wire.shown))

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

    def asked(self, layout: Layout, request: ProviderRequest) -> Asked:
        """Return what is asked for; the layout takes what the vendor or the model refuses."""
        limit = request.max_output_tokens
        limit = self.settings.max_output_tokens if limit is None else limit
        temperature = self._temperature(layout, request.temperature)
        if self.vendor != SERVERS:
            want_names(layout, request, self.tool_names)
        return Asked(temperature, limit, choice_of(layout, request, self.settings.tool_choice))

    def _temperature(self, layout: Layout, of_request: float | None) -> float | None:
        """Return the temperature; None for a target, or a model, that gets none."""
        of_target = self.settings.temperature
        if of_target == "omit":
            if of_request is not None:
                layout.repair("C3", f"left out the temperature {of_request:g}")
            return None
        temperature: float | None = of_target if of_request is None else of_request
        if temperature is None:
            return None
        rule, highest = self.hottest
        if not 0 <= temperature < math.inf:
            layout.refuse("C2", f"this one is {temperature:g}")
        elif self.vendor != SERVERS and temperature > highest:
            layout.refuse(rule, f"this one is {temperature:g}")
        verdict = self.abilities.temperature(temperature)
        if verdict.is_ignored:
            what = f"left out the temperature {temperature:g}, which the model ignores"
            layout.repair(verdict.rule, what)
            return None
        advice = "set temperature: omit in the target"
        if verdict.takes is False and verdict.rows:
            for other in self.abilities.other_versions():
                if other.temperature(temperature).takes is not False:
                    advice += f', or api_version: "{other.api_version}"'
        layout.judge(verdict, advice)
        return temperature

    def connect(self) -> Any:
        """Return a new client of the SDK, and keep its HTTP client as ``http``."""
        raise NotImplementedError

    async def post(self, client: Any, wire: Wire) -> str:
        """Return the text of the vendor's answer."""
        import httpx2

        # Not the SDK's typed method, which would walk and copy the body twice.
        response = await client.post(self.path, content=wire.body, cast_to=httpx2.Response)
        return str(response.text)

    def read(self, answer: Any) -> ProviderResponse:
        """Return what a decoded answer says; it may have any form."""
        raise NotImplementedError

    def check(self) -> None:
        """Check that the SDK is installed."""
        with suppress(ModuleNotFoundError):  # of the package that the SDK is in
            if importlib.util.find_spec(self.sdk):
                return
        raise MultiturnError(
            f"the target {self.name!r} needs the package {self.sdk};"
            f" pip install 'multiturn[{self.kind}]'"
        )

    async def prepare(self) -> None:
        """Import the SDK, and make a client for the event loop, which owns the connections."""
        if self._loop is not asyncio.get_running_loop():
            await asyncio.to_thread(importlib.import_module, self.sdk)  # may take seconds
        if self._loop is not asyncio.get_running_loop():  # no other case did it meanwhile
            with _without_variables():
                self._client = self.connect()
            self._loop = asyncio.get_running_loop()

    async def ask(self, wire: Wire) -> ProviderResponse:
        """Send a body through the SDK, which retries after errors that may pass."""

        async def post(client: Any) -> ProviderResponse:
            answer, exchange = self.answer(await self.post(client, wire)), current.get()
            return structs.replace(answer, retries=exchange.retries, wire=exchange.body)

        try:
            return await self.call(post)
        except ProviderError as error:
            if error.status == 404:
                error.what += f"; check the model and the address of the target {self.name!r}"
            self.teach(error, wire)
            raise

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

    async def call(self, function: Callable[[Any], Awaitable[_T]]) -> _T:
        """Return what a function of the SDK's client returns.

        Raises:
            ProviderError: there is no answer; secrets are hidden.
            OSError: the function writes a file, and the disk is full or fails.
        """
        exchange = Exchange(self.settings.timeout_seconds, self.secrets)
        token = current.set(exchange)
        try:
            await self.prepare()
            return await function(self._client)
        except ProviderError as error:
            failure = error
        except Exception as error:  # each SDK has exceptions of its own
            if isinstance(error, OSError) and error.errno in _OF_DISKS:
                raise
            failure = exchange.error or self._failure(error)
        finally:
            current.reset(token)
            # The timers of asyncio keep it for a while after they are canceled.
            sent, exchange.body, exchange.instead = exchange.body, b"", b""
        if failure.kind == "access_denied":
            failure.what += f"; check the api_key of the target {self.name!r}"
        failure.retries, failure.wire = exchange.retries, sent
        raise self.hidden(failure) from None

    def answer(self, text: str | bytes) -> ProviderResponse:
        """Return what the vendor's answer to one request says.

        Raises:
            ProviderError: it says nothing, or is not in the vendor's format.
        """
        try:
            raw = msgspec.json.decode(text)
            # Hidden only in what is read: a key may be one of the vendor's own words, and in a text
            # that is JSON, such as the arguments of a call, it may be escaped.
            answer = hide(structs.replace(self.read(raw), raw=raw), self.secrets)
            return msgspec.convert(structs.asdict(answer), ProviderResponse)
        except ProviderError as error:
            raise self.hidden(error) from None
        except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
            what = f"the answer is not in the vendor's format: {type(error).__name__}: {error}"
            raise ProviderError(hide(what, self.secrets), kind="malformed") from None

    def _failure(self, error: BaseException) -> ProviderError:
        """Return our error for one of an SDK."""
        response = getattr(error, "response", None)
        if response is not None:
            return status_error(response.status_code, response.text, self.secrets)
        causes = [error]
        while cause := causes[-1].__cause__ or causes[-1].__context__:
            causes.append(cause)
        if any(isinstance(cause, TimeoutError) for cause in causes):
            what = f"no answer within {self.settings.timeout_seconds:g} s (timeout_seconds)"
            return ProviderError(what, kind="timeout")
        why = next((str(cause) for cause in reversed(causes) if str(cause)), type(error).__name__)
        what = f"the connection of the target {self.name!r} failed: {why}"
        is_lost = any(isinstance(cause, _NO_CONNECTION) for cause in causes)
        kind = "unreachable" if is_lost else "connection"
        return ProviderError(f"{what}; check the target's address and the network", kind=kind)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self.http.aclose()
            self.http = self._client = self._loop = None
