"""What the providers of LLM APIs share: they send their bodies by HTTP, and read the answers."""

import asyncio
import math
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
from msgspec import Meta, structs

from multiturn.errors import ENDS_RUN, ProviderError, did_you_mean
from multiturn.files.media import with_bytes
from multiturn.model.request import PreparedRequest, ProviderRequest
from multiturn.model.settings import RequestSettings
from multiturn.model.tokens import Tokens
from multiturn.providers.base import ChatProvider, ChatSettings, ProviderResponse, Seconds, Wire
from multiturn.providers.client import Client, Reply, Upload
from multiturn.providers.layout import Layout, Names, media_in, want_names
from multiturn.providers.models import FEATURES, QUIET, SERVERS, Abilities, Row, Verdict, told_by
from multiturn.providers.reading import BodyForm
from multiturn.providers.replies import TokenCount, lesson_of, receive
from multiturn.providers.secrets import hide, is_secret, passwords_in, without_keys
from multiturn.providers.settings import in_words, wrong_body
from multiturn.text import has_host

_T = TypeVar("_T")
API_KEY = Meta(extra_json_schema={"pattern": r"\S"})
# Of every request, whichever vendor gets it, and those of a proxy.
_OWN_HEADERS = (
    *("accept", "accept-encoding", "connection", "content-encoding", "content-length"),
    *("content-type", "host", "transfer-encoding", "proxy-authorization"),
    *("anthropic-version", "api-key", "authorization", "x-api-key", "x-goog-api-key"),
)
_AUTH = re.compile("(?i)(auth(?!ors?:)|cookie)[^:]*: .*[^a-z]").search  # and not only a word
_KEY = re.compile(r"[!-~]([ -~]*[!-~])?").fullmatch
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+").fullmatch


class HttpSettings(ChatSettings, frozen=True, kw_only=True):
    """What every target that uses HTTP sets.

    Attributes:
        api_key: never logged, and hidden in whatever comes back.
        model_takes: what the model takes; this wins over what multiturn knows of it.
        headers: sent in addition to our own, as gateways need; what looks like a key is hidden.
        max_retry_delay: the longest delay before a retry that a server may ask for.
    """

    model: str
    api_key: Annotated[str, API_KEY]
    model_takes: Annotated[
        Mapping[str, bool], Meta(extra_json_schema={"propertyNames": {"enum": [*FEATURES]}})
    ] = {}
    headers: Mapping[str, str] = {}
    max_retry_delay: Seconds = 60

    def __post_init__(self) -> None:
        """Refuse a key or a header that HTTP cannot carry, and an address that is none."""
        key = self.api_key
        if key is not None and not _KEY(key):
            what = "api_key is empty, or has a space around it, or a character that no key has"
            raise ValueError(f"{what}; check it")
        names = [name.lower() for name in self.headers]
        for name, value in self.headers.items():
            is_text = _HEADER(name) and value.isascii() and value.isprintable()
            if not is_text or names.count(name.lower()) > 1 or name.lower() in _OWN_HEADERS:
                what = f"headers cannot have {name!r}: HTTP cannot carry its name or its value"
                raise ValueError(f"{what}, multiturn sends it itself, or it is there twice")
        for name in self.model_takes:
            if name not in FEATURES:
                near = did_you_mean(name, FEATURES)
                raise ValueError(f"model_takes has no {name!r}; {near}")
        for name in ("base_url", "endpoint"):
            address = getattr(self, name, None)
            if address is not None and not address.lower().startswith(("http://", "https://")):
                raise ValueError(f"{name} must begin with http:// or https://")
            if address is not None and not has_host(address):
                raise ValueError(f"{name} has a host or a port that cannot be; check it")
            if address is not None and re.search("[?#]", address):
                raise ValueError(f"{name} cannot have a query or fragment; end it before ? or #")

    def own_headers(self) -> dict[str, str]:
        """Return the headers with the key; their names are in lower case."""
        return {"authorization": f"Bearer {self.api_key}"} if self.api_key else {}

    def secrets(self) -> list[str]:
        """Return the key, if there is one, the password in the address, and secret headers."""
        address = getattr(self, "base_url", None) or getattr(self, "endpoint", None) or ""
        headers = [
            shown
            for name, value in self.headers.items()
            if is_secret(name) or _AUTH(f"{name}: {value}") or without_keys({"key": value})[1]
            for shown in (value, value.removeprefix("Bearer "))
        ]
        return [*filter(None, [self.api_key]), *headers, *passwords_in(address)]


def _used_features(
    layout: Layout, request: ProviderRequest, asked: RequestSettings
) -> Mapping[str, Any]:
    """Return what a request may have that some models refuse, by the names of models.yaml."""
    turns, choice = layout.messages, asked.tool_choice
    thinking = [turn for turn in turns if turn.thinking]
    return {
        "system_message": layout.system or any(turn.role == "system" for turn in turns),
        "only_text": not any(media.kind == "audio" for media in media_in(turns)),
        "only_thinking": any(not turn.parts and not turn.calls for turn in thinking),
        "recorded_thinking": thinking,
        "final_thinking": thinking and turns[-1].thinking,
        "tools": request.tools,
        "forced_tool_choice": choice == "required" or isinstance(choice, Mapping),
    }


class HttpProvider(ChatProvider):
    """The base of the providers that ask an API by HTTP."""

    tool_names: ClassVar[Names]  # those that the vendor takes
    hottest: ClassVar[tuple[str, float]]  # the vendor's rule, and the highest temperature
    rows: tuple[Row, ...] = ()  # what the user's own targets file says of models
    body_forms: ClassVar[tuple[BodyForm, ...]]  # of the bodies that it sends
    own_server: ClassVar[str] = ""  # the vendor's, where the target names no other address
    count_key: ClassVar[str] = "input_tokens"  # of what an endpoint for counts answers

    def __init__(self, settings: Any, secrets: Iterable[str] = ()) -> None:
        super().__init__(settings, secrets)
        self._taught: set[str] = set()
        # Of each thread, its event loop and the client for that.
        self._clients: dict[int, tuple[asyncio.AbstractEventLoop, Client]] = {}

    @property
    def server(self) -> str:
        """The address that paths are appended to."""
        return self.settings.base_url or self.own_server

    @property
    def path(self) -> str:
        """The path of the requests."""
        raise NotImplementedError

    def versioned(self, path: str) -> str:
        """Return a path with the version of the API, where that is part of it."""
        return path

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

    @cached_property
    def abilities(self) -> Abilities:
        """What is known of the model; for some vendors, it depends on the version of the API."""
        settings, version = self.settings, getattr(self.settings, "api_version", None)
        return Abilities(self.vendor, settings.model, settings.model_takes, self.rows, version)

    @property
    def has_cache(self) -> bool | None:
        """Whether the vendor caches the prefixes of this target; None if that is not known."""
        return None if self.cache_minimum is None else True

    @cached_property
    def form(self) -> BodyForm:
        """The form of the target's bodies."""
        return self.body_forms[0]

    @cached_property
    def _own_settings(self) -> RequestSettings:
        """The settings of the target, but for a temperature that is ``omit``."""
        said = self.settings.said()
        return RequestSettings(**{key: each for key, each in said.items() if each != "omit"})

    def asked(self, layout: Layout, request: ProviderRequest) -> PreparedRequest:
        """Return what is asked for; the layout takes what the vendor or the model refuses."""
        asked = request.settings.over(self._own_settings)
        if self.settings.temperature == "omit" and asked.temperature is not None:
            layout.repair("C3", f"left out the temperature {asked.temperature:g}")
            asked = structs.replace(asked, temperature=None)
        if self.vendor != SERVERS:
            want_names(layout, request, self.tool_names)
        choice, names = asked.tool_choice, [tool.name for tool in request.tools]
        if not names:
            for name in ("tool_choice", "parallel_tool_calls"):
                if getattr(request.settings, name) is not None:
                    layout.repair("C5", f"left out {name}: the case has no tools")
            asked = asked.without_tools()
        elif isinstance(choice, Mapping) and choice["name"] not in names:
            layout.refuse("C5", f"name one of the tools: {', '.join(names)}")
        temperature, (rule, highest) = asked.temperature or 0.0, self.hottest
        if not 0 <= temperature < math.inf:
            layout.refuse("C2", f"this one is {temperature:g}")
        elif self.vendor != SERVERS and temperature > highest:
            layout.refuse(rule, f"this one is {temperature:g}")
        ignored: dict[str, None] = {}
        abilities = self.abilities._replace(asked=asked)
        for name, value in asked.said().items():
            if name == "body":
                for wrong in wrong_body(value, self.form.keys, self.form.closed):
                    layout.refuse("C11", wrong)
            elif self._ignores(layout, abilities, name, value):
                ignored[name] = None
        for feature, is_used in _used_features(layout, request, asked).items():
            if is_used:
                layout.judge_known(abilities.takes(feature))
        return PreparedRequest(
            messages=(),  # those of the layout, once all repairs are done
            model=self.settings.model,
            tools=request.tools,
            settings=structs.replace(asked, **ignored) if ignored else asked,
        )

    def _ignores(self, layout: Layout, abilities: Abilities, name: str, value: Any) -> bool:
        """Return whether the model ignores a setting; the layout takes what is refused."""
        key, word = self.form.keys.get(name), in_words(value)
        if key is None or (key.values and word not in key.values):
            said = name if key is None else f"{name} {word}"
            otherwise = ", or write it in body" if self.vendor == SERVERS else ""
            otherwise = f"; choose from: {', '.join(key.values)}" if key else otherwise
            layout.refuse("C10", f"leave out {said}{otherwise}")
            return False
        verdict = abilities.takes(name, word)
        if verdict.is_ignored:
            layout.repair(verdict.rule, f"left out the {name} {word}, which the model ignores")
        elif verdict.takes is not None or verdict.rows or name not in QUIET:
            layout.judge(verdict, self._advice(name, word, verdict))
        return verdict.is_ignored

    def _advice(self, name: str, value: str, verdict: Verdict) -> str:
        """Return how to avoid a setting that the model does not take."""
        if name == "temperature":
            versions = self.abilities.other_versions() if verdict.takes is False else ()
            found = [each for each in versions if each.takes(name, value).takes is not False]
            others = (f', or api_version: "{each.api_version}"' for each in found)
            return "".join(("set temperature: omit in the target", *others))
        told = dict.fromkeys(told_by(row, name) for row in verdict.rows)
        known = "; ".join(each for each in told if each not in ("yes", "no", "ignored"))
        return f"leave out {name} {value}" + (f"; the model takes {known}" if known else "")

    def write(self, request: PreparedRequest) -> dict[str, Any]:
        """Return the body."""
        return self.form.write(request)

    def read(self, answer: Any) -> ProviderResponse:
        """Return what a decoded answer says; secrets may be in it.

        Raises:
            ProviderError: it says that there is none.
            ValueError, LookupError, TypeError, AttributeError: it is not in the vendor's format.
        """
        raise NotImplementedError

    async def prepare(self) -> None:
        """Make a client for the event loop, which owns the connections."""
        self.client()

    def client(self) -> Client:
        """Return the client of the event loop that runs."""
        loop, thread = asyncio.get_running_loop(), threading.get_ident()
        known, client = self._clients.get(thread, (None, None))
        if client is None or known is not loop:
            client = Client(self)
            self._clients[thread] = loop, client
        return client

    async def send(self, wire: Wire) -> ProviderResponse:
        """Send a body, and return the answer; no secret is in it, or in an error."""
        body = wire.body
        try:
            reply = await self.client().send("POST", self.path, body)
            answer, sent = self.answer(reply.body), hide(body, self.secrets)
            return structs.replace(answer, retries=reply.retries, wire=sent)
        except ProviderError as error:
            if error.status == 404:
                error.what += f"; check the model and the address of the target {self.name!r}"
            self.teach(error, wire)
            error.wire = hide(body, self.secrets)
            raise

    async def request(self, method: str, path: str, body: Any = None, **options: Any) -> Reply:
        """Return a server's answer, as ``Client.send`` does; a body is JSON, or an upload."""
        if body is not None and not isinstance(body, Upload):
            body = msgspec.json.encode(body, enc_hook=with_bytes)
        return await self.client().send(method, path, body or b"", **options)

    async def call(
        self,
        method: str,
        path: str,
        read: Callable[[Any], _T],
        body: Any = None,
        *,
        what: str = "answer",
        **options: Any,
    ) -> _T:
        """Return what ``receive`` reads of the answer to a ``request``, whose options it takes."""
        reply = await self.request(method, path, body, **options)
        return receive(reply.body, read, self.secrets, what)

    def counting(self, request: PreparedRequest) -> tuple[str, dict[str, Any]]:
        """Return the path and the body that count a request's tokens, or raise a ProviderError."""
        raise NotImplementedError

    async def count_tokens(self, wire: Wire) -> Tokens:
        """Return the input tokens that the vendor counts; a ProviderError if it gives no count."""
        assert wire.prepared is not None  # noqa: S101 - it is this provider's
        path, body = self.counting(wire.prepared)

        def read(found: Any) -> Any:
            return msgspec.convert(found[self.count_key], TokenCount)

        try:
            count = await self.call("POST", path, read, body, what="count")
        except ProviderError as error:
            if error.status == 404:
                error.what += f"; the address of the target {self.name!r} may not count tokens"
            raise
        return structs.replace(self.tokens(wire), count=count, is_exact=True, media=0)

    def answer(self, reply: bytes) -> ProviderResponse:
        """Return what the vendor's answer to one request says, as ``receive`` does."""
        return receive(reply, self.read_raw, self.secrets)

    def read_raw(self, raw: Any) -> ProviderResponse:
        """Return what a decoded answer says, of the right types, and the answer itself."""
        said = msgspec.convert(structs.asdict(self.read(raw)), ProviderResponse)
        return structs.replace(said, raw=raw)

    def teach(self, error: ProviderError, wire: Wire | None = None) -> None:
        """Add which setting avoids a refusal; one that every case would meet ends a run."""
        lesson = lesson_of(error)
        if lesson is None:
            return
        # A batch has ended anyway, and a wrong key ends a run by itself.
        is_of_target = wire is not None and lesson.is_of_target(self.settings, wire.request)
        if is_of_target and error.kind == "http":
            error.kind = "target"
        # Of errors that end a run, only one is shown, and nobody knows which.
        if error.kind in ENDS_RUN or lesson.advice not in self._taught:
            self._taught.add(lesson.advice)
            error.what = f"{error.what.removesuffix('.')}; {lesson.advice}"

    async def aclose(self) -> None:
        """Close the connections."""
        _, client = self._clients.pop(threading.get_ident(), (None, None))
        if client is not None:
            await client.aclose()
