"""What the adapters of the vendors' Batch APIs share.

Each calls the vendor's SDK. The SDK never retries to create a batch: it may have been created
although the answer was lost. The caller first looks for it, with ``Batches.find``.
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
        time: just before it was sent, in seconds since 1970.
        after: the vendor's id of the newest batch at that time, where batches have no name.
        requests: number of requests.
        size: of the requests, in bytes.
        file: the vendor's id of the uploaded file; empty where none is uploaded.
        batch: the vendor's id of the batch; empty before it is known.
        ended: whether its results are stored, or it was never created.
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
    """The status of a batch at the vendor.

    Attributes:
        state: the vendor's word for it.
        ended: whether no more answers will come.
        answered: number of finished requests; None if the vendor does not count them.
        files: ids of the results; empty if there are none.
        why: what went wrong with the whole batch; empty for nothing.
    """

    state: str
    ended: bool
    answered: int | None = None
    files: tuple[str, ...] = ()
    why: str = ""

    def unanswered(self, batch: str) -> ProviderError:
        """Return the error of a request that the batch has not answered."""
        why = self.why or f"{batch} ended without an answer to this request"
        return ProviderError(f"batch_{self.state}: {why}", kind="batch")


class Found(Struct, frozen=True):
    """The result of the search for a batch whose id was lost.

    Attributes:
        batch: its id; empty if it was not found.
        undecided: ids of batches that may be it; their results will decide.
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
    """Return whether a retry may succeed, or the request may have succeeded without an answer."""
    return error.kind in _MAY_PASS or error.status >= 500 or error.status == 408


def with_client(
    function: Callable[Concatenate[_A, Any, _P], Awaitable[_T]],
) -> Callable[Concatenate[_A, _P], Coroutine[Any, Any, _T]]:
    """Pass the SDK's client to a method, and turn its errors into a ProviderError."""

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
    r"""Return the byte offset of the first line of results for each digest.

    Only ``\n`` ends a line. Lines that cannot be read are skipped.
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
    """The Batch API of a target; subclasses define what differs.

    Args:
        provider: of the target.

    Attributes:
        most_requests: maximum number of requests in a part.
        most_bytes: maximum size of a part, unless it has a single request.
        frame: the bytes before, between and after the requests of a part.
        uploads: whether a part is uploaded before its batch is created.
    """

    most_requests: ClassVar[int]
    most_bytes: ClassVar[int]
    frame: ClassVar[tuple[bytes, bytes, bytes]] = (b"", b"\n", b"\n")
    uploads: ClassVar[bool] = True

    def __init__(self, provider: Any) -> None:
        self.provider: HttpProvider = provider

    def line(self, digest: str, body: bytes) -> bytes:
        """Return the line of a request in a part, with its exact body."""
        raise NotImplementedError

    async def upload(self, part: Part, file: BinaryIO) -> str:
        """Upload the requests of a part, and return the file's id.

        Raises:
            ProviderError: the request failed; every method below may raise it.
        """
        raise NotImplementedError

    async def create(self, part: Part, file: BinaryIO | None) -> str:
        """Create the batch of a part, and return its id.

        Args:
            part: already uploaded, if ``uploads``.
            file: its requests; None if only the vendor has them.
        """
        raise NotImplementedError

    async def newest(self) -> str:
        """Return the id of the account's newest batch; empty where batches have names."""
        return ""

    async def find(
        self, part: Part, others: Collection[str], asked: Callable[[], set[str]]
    ) -> Found:
        """Look for the batch that was created for a part.

        Args:
            part: whose batch id is not known.
            others: ids of the batches of other parts.
            asked: returns the digests of the part's requests.
        """
        raise NotImplementedError

    async def look(self, batch: str) -> Look:
        """Return the status of a batch."""
        raise NotImplementedError

    async def fetch(self, batch: str, look: Look, file: BinaryIO) -> None:
        """Write the results of a batch into a file; answers come before errors."""
        raise NotImplementedError

    async def cancel(self, batch: str) -> None:
        """Ask the vendor to end a batch; the answers so far are kept."""
        raise NotImplementedError

    def read(self, line: bytes) -> ProviderResponse:
        """Return the answer in a line of results.

        Raises:
            ProviderError: it is an error.
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
        """Return a ProviderError for an error in a line of results, without secrets."""
        error = error or VendorError()
        name = error.type or error.status or error.code
        what = ": ".join(str(text) for text in (name, error.message) if text)
        return ProviderError(hide(what, self.provider.secrets) or "without a reason", kind=kind)
