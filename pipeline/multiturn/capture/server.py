"""A server on the loopback interface that takes the requests of programs in the vendors' place."""

import asyncio
import json
import os
import re
import socket
from collections.abc import Callable, Mapping
from threading import Thread
from typing import TYPE_CHECKING, Any, Self

from multiturn.capture.replies import Endpoint, endpoint_at, refusal, with_address
from multiturn.documents.json_lines import read_value
from multiturn.errors import AccessError, MultiturnError, option
from multiturn.providers.base import LARGEST_ANSWER
from multiturn.providers.client import PIECE, trusting
from multiturn.providers.settings import Values

if TYPE_CHECKING:
    from aiohttp import web

_LARGEST_BODY = 50_000_000  # bytes; of images, OpenAI takes so many
_SECONDS = 60  # in which a body has come
_AT_ONCE = 16  # bodies that are read at a time
_HOP_BY_HOP = r"(?i)host|connection|content-(length|encoding)|accept-encoding|transfer-encoding|te"
# Where each vendor's own server is, and the variables by which SDKs and tools are told of another.
_SERVERS = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
}
_ADDRESSES = {
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "anthropic": ("ANTHROPIC_BASE_URL",),
    "gemini": ("GOOGLE_GEMINI_BASE_URL",),
    "azure": ("AZURE_OPENAI_ENDPOINT", "AZURE_API_BASE"),
}
_KEYS = (
    *("OPENAI_API_KEY", "CODEX_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"),
    *("AZURE_OPENAI_API_KEY", "AZURE_API_KEY"),
)
_NO_KEY = "captured-needs-no-key"

# Returns the status and the body of the answer to a body; what the vendor answers, for one that
# was forwarded.
Take = Callable[[Endpoint, Values, str | None], tuple[int, str, str]]


class CaptureServer:
    """Answers the requests of programs on 127.0.0.1, in a thread, until the block ends.

    A page in a browser gets nowhere: whoever asks must name this server as the host, and no origin.

    Args:
        take: gets the endpoint and the body of each request, and of one that was forwarded the
            answer; returns status, type and text of the answer. It is called by one thread.
        port: where it listens; 0 for any free one.
        forward: send the requests on to the vendors, with the program's own keys.

    Raises:
        AccessError: the port is taken.
    """

    def __init__(self, take: Take, *, port: int = 0, forward: bool = False) -> None:
        self._take, self._forward = take, forward
        try:
            self._socket = socket.create_server(("127.0.0.1", port))
        except OSError as error:
            what = f"cannot listen on port {port}: {error.strerror}; name another"
            raise AccessError(f"{what} ({option('port')})") from None
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_until_complete, args=(self._serve(),))

    def __enter__(self) -> Self:
        self._ended = asyncio.Event()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()
        self._loop.close()

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return variables by which a program finds this server, and no key unless it forwards."""
        found = {name: self.url for names in _ADDRESSES.values() for name in names}
        found |= {name: f"{self.url}/v1" for name in _ADDRESSES["openai"]}
        own = ",".join(filter(None, (given.get("NO_PROXY", given.get("no_proxy")), "127.0.0.1")))
        keys = () if self._forward else (*_KEYS, *{"GOOGLE_API_KEY"} & given.keys())
        return {**given, **found, "NO_PROXY": own, "no_proxy": own, **dict.fromkeys(keys, _NO_KEY)}

    async def _serve(self) -> None:
        from logging import CRITICAL, Logger

        from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, web

        app = web.Application(client_max_size=_LARGEST_BODY)
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(
            app, access_log=None, logger=Logger("capture", CRITICAL), shutdown_timeout=1
        )
        await runner.setup()
        self._reading = asyncio.Semaphore(_AT_ONCE)
        trusted = trusting(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
        async with ClientSession(
            connector=TCPConnector(ssl=trusted),
            cookie_jar=DummyCookieJar(),
            timeout=ClientTimeout(),
            trust_env=True,
        ) as self._session:
            await web.SockSite(runner, self._socket).start()
            await self._ended.wait()
            await runner.cleanup()

    async def _handle(self, request: "web.Request") -> "web.StreamResponse":
        from aiohttp import web

        endpoint = endpoint_at(request.path, request.query_string)
        vendor = endpoint.vendor if endpoint else "openai"
        if request.host not in (f"127.0.0.1:{self.port}", f"localhost:{self.port}"):
            return web.json_response(
                refusal(vendor, 403, "the Host is not this server"), status=403
            )
        if "origin" in request.headers or "sec-fetch-site" in request.headers:
            what = "capture answers no pages in a browser"
            return web.json_response(refusal(vendor, 403, what), status=403)
        if endpoint is None or request.method != "POST":
            what = f"capture answers no {request.method} {request.path}"
            return web.json_response(refusal(vendor, 404, what), status=404)
        try:
            async with self._reading, asyncio.timeout(_SECONDS):
                written = await request.read()
            body = read_value(written.decode())
            if not isinstance(body, dict):
                raise ValueError("not an object")
        except TimeoutError:
            return web.json_response(refusal(vendor, 408, "the body came too slowly"), status=408)
        except ValueError as error:
            what = f"the body is not JSON: {error}"
            return web.json_response(refusal(vendor, 400, what), status=400)
        body = with_address(body, request.path)
        if self._forward:
            return await self._forwarded(request, endpoint, body, written)
        status, kind, text = self._take(endpoint, body, None)
        return web.Response(status=status, content_type=kind, text=text)

    async def _forwarded(
        self, request: "web.Request", endpoint: Endpoint, body: Values, written: bytes
    ) -> "web.StreamResponse":
        """Return the vendor's answer, piece by piece as it comes."""
        from aiohttp import ClientError, web

        kind = "azure" if "/openai/" in request.path else endpoint.vendor
        known = map(os.environ.get, _ADDRESSES[kind])
        server = next(filter(None, known), _SERVERS.get(kind, "AZURE_OPENAI_ENDPOINT"))
        path = request.path_qs.removeprefix("/v1" if kind == "openai" else "")
        headers = {
            name: text
            for name, text in request.headers.items()
            if not re.fullmatch(_HOP_BY_HOP, name)
        }
        answer: web.StreamResponse | None = None
        try:
            async with self._session.post(
                server.rstrip("/") + path,
                data=written,
                headers={**headers, "accept-encoding": "identity"},
                allow_redirects=False,
            ) as reply:
                answer = web.StreamResponse(status=reply.status)
                answer.content_type = reply.content_type
                await answer.prepare(request)
                content = bytearray()
                async for piece in reply.content.iter_chunked(PIECE):
                    content += piece
                    if len(content) > LARGEST_ANSWER:
                        raise ClientError(f"the answer has over {LARGEST_ANSWER} bytes")
                    await answer.write(piece)
        except (ClientError, OSError) as error:
            if answer is not None:
                raise
            what = f"cannot reach {server}: {type(error).__name__}"
            return web.json_response(refusal(endpoint.vendor, 502, what), status=502)
        self._take(endpoint, body, content.decode("utf-8", "replace"))
        await answer.write_eof()
        return answer
