"""What a provider is: it takes a request and answers it."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Protocol, Self

from msgspec import Meta, Struct

from multiturn.errors import MultiturnError, Place
from multiturn.model import ProviderRequest

SECRET_NAME = re.compile(
    r"(?:^|_)[A-Z0-9]*(?:KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL)S?[0-9]*(?:_|$)", re.IGNORECASE
)
Seconds = Annotated[float, Meta(gt=0)]
_SHORTEST_SECRET = 4  # anything shorter is a word that texts are full of


class ProviderResponse(Struct, frozen=True, kw_only=True):
    """A provider's answer.

    Attributes:
        text: what the model said.
        usage: ``input_tokens`` and ``output_tokens``, where the provider counts them.
        raw: the answer as it came, decoded.
        finish_reason: why the model stopped, in the provider's word.
        retries: how often the request was sent again.
        wire: the body as it went out, byte for byte.
    """

    text: str
    usage: Mapping[str, int] = {}
    raw: Any = None
    finish_reason: str | None = None
    retries: int = 0
    wire: bytes = b""


class Provider(Protocol):
    """Anything with a name that answers requests."""

    @property
    def name(self) -> str:
        """The target's name, as results have it."""

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Answer a request.

        Raises:
            ProviderError: there is no answer.
        """


class Wire(Struct, frozen=True, kw_only=True):
    """A request in the form in which it goes out.

    Attributes:
        provider: the kind of provider.
        model: the model asked, or empty where the provider's own default answers.
        parameters: what shapes the answer and is not in the body, such as arguments.
        body: what is sent, byte for byte.
        repairs: what was done to meet the provider's rules, each with the rule's id.
        request: what an agent gets beside the body: the attached files.
    """

    provider: str
    model: str = ""
    parameters: tuple[str, ...] = ()
    body: bytes
    repairs: tuple[str, ...] = ()
    request: ProviderRequest | None = None

    def digest(self) -> str:
        """Return what tells this request from any other one: never made of keys."""
        hashed = hashlib.sha256()
        files = self.request.input_files if self.request else ()
        texts = (file.text.encode("utf-8", "surrogatepass") for file in files)
        names = (self.provider, self.model, *self.parameters)
        for piece in (*(name.encode() for name in names), *texts, self.body):
            hashed.update(b"%d:" % len(piece))
            hashed.update(piece)
        return hashed.hexdigest()


class ProviderError(MultiturnError):
    """A provider gave no answer.

    Attributes:
        kind: ``refused`` (before sending), ``content_filter``, ``http``, ``rate_limit``,
            ``timeout``, ``connection``, ``malformed``, ``process`` or ``provider``.
        retries: how often the request was sent again.
        wire: the body as it went out, if it did.
    """

    def __init__(
        self,
        what: str,
        *,
        where: Place | str = "",
        case_id: str | None = None,
        kind: str = "refused",
        retries: int = 0,
        wire: bytes = b"",
    ) -> None:
        super().__init__(what, where=where, case_id=case_id)
        self.kind = kind
        self.retries = retries
        self.wire = wire


class Settings(Struct, frozen=True, kw_only=True):
    """What every target may set; editors show the descriptions."""

    name: Annotated[str, Meta(description="the target's name.")]
    provider: Annotated[str, Meta(description="the kind of provider.")]
    timeout_seconds: Annotated[Seconds, Meta(description="how long one attempt may take.")] = 600

    def __repr__(self) -> str:  # the values may be keys
        return f"{type(self).__name__}({self.name!r})"

    def secrets(self) -> Iterable[str]:
        """Yield the values that nobody may see."""
        return ()


class TargetProvider:
    """A provider made of a target; those that inherit say what goes out, and send it.

    Args:
        settings: of the target.
        secrets: what must be hidden beside the keys among the settings.
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

    def check(self) -> None:
        """Make sure that what sending needs is there.

        Raises:
            MultiturnError: it is not, with how to get it.
        """

    def wire(self, request: ProviderRequest) -> Wire:
        """Return what goes out for a request, without sending it.

        Raises:
            ProviderError: the provider would refuse it, and no repair keeps its meaning.
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

    async def aclose(self) -> None:
        """Close the connections, if there are any."""


def hide(text: str, secrets: Iterable[str]) -> str:
    """Return a text without the secrets that occur in it.

    >>> hide("no such key: sk-12345", ["sk-12345"])
    'no such key: ***'
    """
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "***")
    return text


def counts(usage: Any, **names: str) -> Mapping[str, int]:
    """Return a vendor's token counts by our names; those that are missing are left out."""
    given = usage if isinstance(usage, dict) else {}
    return {
        ours: given[theirs] for ours, theirs in names.items() if isinstance(given.get(theirs), int)
    }


def hide_within(value: Any, secrets: Iterable[str]) -> Any:
    """Return decoded JSON without the secrets that occur in its texts."""
    if isinstance(value, str):
        return hide(value, secrets)
    if isinstance(value, list):
        return [hide_within(item, secrets) for item in value]
    if isinstance(value, dict):
        return {hide(key, secrets): hide_within(item, secrets) for key, item in value.items()}
    return value
