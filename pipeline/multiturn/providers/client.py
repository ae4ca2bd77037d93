"""The HTTP client of the providers: it sends to one server, retries, and limits time and size."""

import asyncio
import errno
import random
import ssl
import zlib
from base64 import b64encode
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from io import BytesIO
from itertools import count
from os import environ
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from multiturn import errors
from multiturn.providers.base import LARGEST_ANSWER, Rate
from multiturn.providers.replies import error_of
from multiturn.providers.secrets import hide, passwords_in

if TYPE_CHECKING:
    from aiohttp import ClientSession

    from multiturn.providers.http import HttpProvider

PIECE = 2**16  # bytes that are sent or received at a time
_SHORTEST_DELAY, _LONGEST_DELAY = 0.5, 8.0  # seconds, where the server does not say
_MOST_CONNECTIONS = 900  # most systems let a process open 1,024 files; more requests wait
_RETRIED = (408, 409, 429)  # and all from 500 on
_PASSING = ("connection", "timeout", "unreachable")  # kinds of errors
_OF_DISKS = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EROFS, errno.EIO)


class Reply(NamedTuple):
    """A server's answer to a request; the names of its headers ignore case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    retries: int = 0


class Upload(NamedTuple):
    """A body of a file's bytes, from a place up to another, and of what is around them."""

    file: BinaryIO
    start: int
    end: int
    head: bytes = b""
    tail: bytes = b""

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the bytes for an attempt, so that other requests continue meanwhile."""
        yield self.head
        for at in range(self.start, self.end, PIECE):
            self.file.seek(at)
            yield self.file.read(min(PIECE, self.end - at))
        yield self.tail


class Client:
    """Sends requests to the server of a target; it belongs to the event loop that runs.

    Proxies and certificates are those of the environment. Cookies and ``.netrc`` are not used, and
    no redirect is followed.
    """

    def __init__(self, provider: "HttpProvider") -> None:
        self._provider, self._settings = provider, provider.settings
        parts = urlsplit(provider.server)  # it may have a user and a password
        user, _, host = parts.netloc.rpartition("@")
        proxies = {} if proxy_bypass(host) else getproxies()
        self._proxy = proxies.get(parts.scheme) or proxies.get("all")
        self._secrets = (*provider.secrets, *passwords_in(self._proxy or ""))
        self._origin = f"{parts.scheme}://{host}"
        self._base = f"{self._origin}{parts.path.rstrip('/')}"
        # Not those of the session, which would also go to a proxy.
        self._headers = {
            "accept": "application/json",
            "accept-encoding": "gzip",
            "content-type": "application/json",
            "user-agent": "multiturn",
            **self._settings.own_headers(),
            **self._settings.headers,
        }
        if user:
            self._headers["authorization"] = f"Basic {b64encode(unquote(user).encode()).decode()}"
        self._session = new_session()

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | Upload = b"",
        *,
        headers: Mapping[str, str] | None = None,
        into: BinaryIO | None = None,
        is_retried: bool = True,
    ) -> Reply:
        """Return a server's answer that is none of an error.

        Args:
            path: with its query; or an address that the server gave, whose host does not count.
            headers: in addition to those of all requests.
            into: a file that the body of the answer is written into; its size has no limit.
            is_retried: whether a request that failed may be sent again.

        Raises:
            ProviderError: there is no answer, or one of an error; secrets are hidden.
            OSError: the file cannot be written.
        """
        address = self._address(path)
        start = 0 if into is None else into.tell()
        for retries in count():
            try:
                reply = await self._attempt(method, address, body, headers, into)
                if 200 <= reply.status < 300:
                    return reply._replace(retries=retries)
                error = error_of(reply.status, reply.body, self._secrets)
                if error.kind == "access_denied":
                    error.what += f"; check the api_key of the target {self._settings.name!r}"
                should_retry, delay = _should_retry(reply), _delay(reply.headers)
            except errors.ProviderError as failure:
                error, should_retry, delay = failure, failure.kind in _PASSING, 0.0
            error.retries = retries
            if not (is_retried and should_retry and retries < self._settings.max_retries):
                raise error
            if delay > self._settings.max_retry_delay:
                error.what += (
                    f"; the server asks to wait {delay:.15g} s (Retry-After), longer than the"
                    f" max_retry_delay of {self._settings.max_retry_delay:g} s"
                )
                raise error
            if into is not None:
                into.seek(start)
                into.truncate()
            backoff = min(_SHORTEST_DELAY * 2**retries, _LONGEST_DELAY)
            await asyncio.sleep(delay or backoff * random.uniform(0.75, 1))  # noqa: S311
            await Rate.of_run.get().turn()
        raise AssertionError  # the loop has no end

    def _address(self, path: str) -> Any:
        """Return the address of a request: always the target's server gets it, and the key."""
        from yarl import URL

        if path.startswith("/"):
            return URL(f"{self._base}{path}", encoded=True)
        try:
            given = urlsplit(path)
            return URL(f"{self._origin}{given.path}?{given.query}", encoded=True)
        except ValueError:
            what = "the server gave an address that is none, such as that of an upload"
        raise errors.MalformedReplyError(what)

    async def _attempt(
        self,
        method: str,
        address: Any,
        body: bytes | Upload,
        headers: Mapping[str, str] | None,
        into: BinaryIO | None,
    ) -> Reply:
        """Return the answer to one attempt, whatever its status is."""
        import aiohttp

        is_small = isinstance(body, bytes) and len(body) <= PIECE
        upload = body if isinstance(body, Upload) else Upload(BytesIO(body), 0, len(body))
        size = len(upload.head) + upload.end - upload.start + len(upload.tail)
        length = {"content-length": str(size)} if method == "POST" else {}
        seconds = self._settings.timeout_seconds
        try:
            async with (
                asyncio.timeout(seconds) as limit,
                self._session.request(
                    method,
                    address,
                    data=body if is_small else upload.pieces(),
                    headers={**self._headers, **length, **(headers or {})},
                    proxy=self._proxy,
                    allow_redirects=False,
                ) as response,
            ):
                content = bytearray()
                file = into if response.status < 300 else None
                async for piece in unpacked(response, self._secrets):
                    if file is not None:
                        whole = file.tell() // PIECE
                        file.write(piece)
                        # The time is limited for each 64 KiB of a file, not for all of it.
                        if file.tell() // PIECE > whole:
                            limit.reschedule(asyncio.get_running_loop().time() + seconds)
                        continue
                    content += piece
                    if len(content) > LARGEST_ANSWER:
                        what = f"the answer is larger than {LARGEST_ANSWER // 2**20} MiB"
                        raise errors.MalformedReplyError(what)
                return Reply(response.status, response.headers, bytes(content))
        except TimeoutError:
            what = f"no answer within {seconds:g} s (timeout_seconds)"
            failure: errors.ProviderError = errors.ReplyTimeoutError(what)
        except (aiohttp.ClientError, OSError) as error:
            if isinstance(error, OSError) and error.errno in _OF_DISKS:
                raise
            failure = self._failure(error)
        raise failure  # here, so that it does not refer to an error with secrets in it

    def _failure(self, error: Exception) -> errors.ProviderError:
        """Return our error for one of the connection."""
        import aiohttp

        name = self._settings.name
        why = hide(str(error) or type(error).__name__, self._secrets)
        if isinstance(error, aiohttp.ClientResponseError):  # it quotes a part of the answer
            why = f"its answer is not in the format of HTTP ({type(error).__name__})"
        what = f"the connection of the target {name!r} failed: {why}"
        is_lost = isinstance(error, aiohttp.ClientConnectorError)
        error_type = errors.UnreachableError if is_lost else errors.ConnectionFailedError
        return error_type(f"{what}; check the target's address and the network")

    async def aclose(self) -> None:
        """Close the connections."""
        await self._session.close()


def new_session() -> "ClientSession":
    """Return what holds connections: without cookies, limits of time, and unpacking."""
    import aiohttp  # takes 30 MB and a tenth of a second

    trusted = trusting(environ.get("SSL_CERT_FILE"), environ.get("SSL_CERT_DIR"))
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=_MOST_CONNECTIONS, ssl=trusted),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(),  # ours limits a whole attempt
        auto_decompress=False,  # which has no limit
    )


@cache
def trusting(file: str | None, _folder: str | None) -> ssl.SSLContext:
    """Return what trusts the system's certificates and certifi's, or those of SSL_CERT_FILE."""
    context = ssl.create_default_context()  # which reads both variables
    if not file:
        import certifi

        context.load_verify_locations(certifi.where())
    return context


async def unpacked(response: Any, secrets: Iterable[str]) -> AsyncIterator[bytes]:
    """Yield the unpacked body of a response, at most 64 KiB at a time."""
    encoding = response.headers.get("content-encoding", "identity").strip()
    unpacking = zlib.decompressobj(zlib.MAX_WBITS | 16)  # gzip
    try:
        is_packed = encoding.lower() == "gzip"
        if not is_packed and encoding.lower() not in ("identity", ""):
            raise zlib.error
        async for piece in response.content.iter_chunked(PIECE):
            if not is_packed:
                yield piece
                continue
            while piece:
                if unpacking.eof:  # another member of the file (RFC 1952)
                    unpacking = zlib.decompressobj(zlib.MAX_WBITS | 16)
                yield unpacking.decompress(piece, PIECE)
                piece = unpacking.unconsumed_tail or unpacking.unused_data
        if is_packed and not unpacking.eof:
            raise zlib.error
    except zlib.error:
        name = hide(encoding, secrets)
        what = f"the answer cannot be unpacked: its content-encoding is {name!r}"
        raise errors.MalformedReplyError(what) from None


def _should_retry(reply: Reply) -> bool:
    wish = reply.headers.get("x-should-retry")
    if wish in ("true", "false"):
        return wish == "true"
    return reply.status in _RETRIED or reply.status >= 500


def _delay(headers: Mapping[str, str]) -> float:
    """Return for how many seconds a server asks to wait; 0 if it does not say."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        with suppress(KeyError, ValueError):
            return max(0.0, float(headers[name]) / unit)  # which is 0 for what is no number
    with suppress(KeyError, ValueError):
        when = parsedate_to_datetime(headers["retry-after"])
        return max(0, round((when - datetime.now(UTC)).total_seconds()))
    return 0
