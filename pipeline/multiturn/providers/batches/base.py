"""What the adapters of the vendors' batch APIs share.

Each calls the vendor's SDK. Creating a batch is never retried by the SDK: it may have been done
although no answer came. Whoever calls looks first whether the batch is there.
"""

from collections.abc import Awaitable, Callable, Collection, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Concatenate, ParamSpec, TypeVar

import msgspec
from msgspec import Struct

from multiturn.providers.base import LARGEST_ANSWER, ProviderError, ProviderResponse, hide

if TYPE_CHECKING:
    from multiturn.providers.http import HttpProvider

_A = TypeVar("_A", bound="Batches")
_P = ParamSpec("_P")
_T = TypeVar("_T")
_MAY_PASS = ("timeout", "connection", "rate_limit", "malformed")


class Part(Struct, tag_field="is", tag="part"):
    """A part of a run, sent as one batch.

    Attributes:
        token: a random name, by which the batch is found if its id is lost.
        time: when it was about to be sent, in seconds since 1970.
        after: the vendor's id of the newest batch then, where nothing else tells them apart.
        requests: how many there are in it.
        size: of the requests, in bytes.
        file: the vendor's id of the uploaded file; empty where none is uploaded.
        batch: the vendor's id of the batch; empty before it is known.
        ended: its results are stored, or it was never created.
    """

    token: str
    time: float = 0
    after: str = ""
    requests: int = 0
    size: int = 0
    file: str = ""
    batch: str = ""
    ended: bool = False


class Look(Struct, frozen=True, kw_only=True):
    """What a vendor says of a batch.

    Attributes:
        state: the vendor's word.
        ended: no more answers will come.
        answered: number of requests that are over; None if the vendor does not say.
        files: where the results are; empty if there are none.
        why: what went wrong with the whole batch.
    """

    state: str
    ended: bool
    answered: int | None = None
    files: tuple[str, ...] = ()
    why: str = ""

    def unanswered(self, batch: str) -> ProviderError:
        """Return the error of a request to which a batch has no answer."""
        why = self.why or f"{batch} ended without an answer to this request"
        return ProviderError(f"batch_{self.state}: {why}", kind="batch")


class Found(Struct, frozen=True):
    """What was found of a batch whose id was lost.

    Attributes:
        batch: its id; empty if there is none.
        undecided: ids of batches that may be it, which shows once they have ended.
    """

    batch: str = ""
    undecided: tuple[str, ...] = ()


class VendorError(Struct):
    """An error in a line of results; each vendor sets some of these."""

    code: str | int | None = None
    type: str = ""
    status: str = ""
    message: str = ""


def may_pass(error: ProviderError) -> bool:
    """Return whether the same request may succeed later, or has succeeded without an answer."""
    return error.kind in _MAY_PASS or error.status >= 500 or error.status == 408


def with_client(
    function: Callable[Concatenate[_A, Any, _P], Awaitable[_T]],
) -> Callable[Concatenate[_A, _P], Coroutine[Any, Any, _T]]:
    """Give a method the SDK's client; whatever goes wrong becomes a ProviderError."""

    async def method(self: _A, /, *args: _P.args, **options: _P.kwargs) -> _T:
        async def checked(client: Any) -> _T:
            try:
                return await function(self, client, *args, **options)
            except (LookupError, TypeError, AttributeError, ValueError) as error:
                what = f"the answer is not in the vendor's format: {type(error).__name__}: {error}"
                raise ProviderError(what, kind="malformed") from None

        return await self.provider.call(checked)

    method.__doc__ = function.__doc__
    return method


class _Named(Struct):
    custom_id: str = ""
    key: str = ""


def places(file: BinaryIO) -> dict[str, int]:
    r"""Return where the first line of results for each digest begins.

    Lines end at ``\n`` only; what cannot be read answers nothing.
    """
    found: dict[str, int] = {}
    decode = msgspec.json.Decoder(_Named).decode
    start = file.seek(0)
    while line := file.readline(LARGEST_ANSWER):
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            named = decode(line)
            found.setdefault(named.custom_id or named.key, start)
        start += len(line)
    return found


class Batches:
    """The batch API of a target; subclasses define what differs.

    Args:
        provider: of the target.

    Attributes:
        most_requests: how many a part may have.
        most_bytes: how large a part may be, unless it is a single request.
        frame: what stands before, between and after the requests of a part.
        uploads: whether a part is uploaded before its batch is created.
    """

    most_requests: ClassVar[int]
    most_bytes: ClassVar[int]
    frame: ClassVar[tuple[bytes, bytes, bytes]] = (b"", b"\n", b"\n")
    uploads: ClassVar[bool] = True

    def __init__(self, provider: Any) -> None:
        self.provider: HttpProvider = provider

    def line(self, digest: str, body: bytes) -> bytes:
        """Return a request as it stands in a part, with its exact body."""
        raise NotImplementedError

    async def upload(self, part: Part, file: BinaryIO) -> str:
        """Upload the requests of a part, and return the file's id.

        Raises:
            ProviderError: there is no answer; so may every method below.
        """
        raise NotImplementedError

    async def create(self, part: Part, file: BinaryIO | None) -> str:
        """Create the batch of a part, and return its id.

        Args:
            part: was uploaded.
            file: its requests; None if there is only the uploaded file.
        """
        raise NotImplementedError

    async def newest(self) -> str:
        """Return the id of the newest batch of anybody; empty where a batch has a name."""
        return ""

    async def find(
        self, part: Part, others: Collection[str], asked: Callable[[], set[str]]
    ) -> Found:
        """Return the batch that was created for a part.

        Args:
            part: has no batch yet.
            others: ids of the batches of other parts.
            asked: returns the digests of the part.
        """
        raise NotImplementedError

    async def look(self, batch: str) -> Look:
        """Return what the vendor says of a batch."""
        raise NotImplementedError

    async def fetch(self, batch: str, look: Look, file: BinaryIO) -> None:
        """Write the results of a batch into a file; those with an answer come first."""
        raise NotImplementedError

    async def cancel(self, batch: str) -> None:
        """Ask the vendor to end a batch; the answers so far are kept."""
        raise NotImplementedError

    def read(self, line: bytes) -> ProviderResponse:
        """Return the answer in a line of results.

        Raises:
            ProviderError: it has none.
        """
        raise NotImplementedError

    def decode(self, line: bytes, kind: type[_T]) -> _T:
        """Return a decoded line of results.

        Raises:
            ProviderError: it is not in the vendor's format.
        """
        try:
            return msgspec.json.decode(line, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            what = f"the result is not in the vendor's format: {error}"
            raise ProviderError(what, kind="malformed") from None

    def error(self, error: VendorError | None, kind: str) -> ProviderError:
        """Return our error for one in a line of results, without secrets."""
        error = error or VendorError()
        name = error.type or error.status or error.code
        what = ": ".join(str(text) for text in (name, error.message) if text)
        return ProviderError(hide(what, self.provider.secrets) or "without a reason", kind=kind)
