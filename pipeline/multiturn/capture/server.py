"""A server on the loopback interface that takes the requests of programs in the vendors' place."""

import asyncio
import os
import re
import socket
from collections.abc import Mapping
from contextvars import copy_context
from threading import Thread
from typing import TYPE_CHECKING, Self

from multiturn.capture.recording import Recording
from multiturn.capture.replies import Endpoint, Reply, endpoint_at, vendors
from multiturn.documents.json_lines import read_value, without_halves
from multiturn.errors import AccessError, MultiturnError, option, quoted
from multiturn.providers.base import LARGEST_ANSWER
from multiturn.providers.client import new_session, unpacked
from multiturn.providers.secrets import hide, passwords_in
from multiturn.providers.settings import Values

if TYPE_CHECKING:
    from aiohttp import web

_LARGEST_BODY = 50_000_000  # bytes; of images, OpenAI takes so many
_SECONDS = 60  # in which a body has come
_AT_ONCE = 16  # bodies that are read at a time
_OF_CONNECTION = r"(?i)host|connection|content-(length|encoding)|(accept|transfer)-encoding"
_OF_RETRIES = ("retry-after", "retry-after-ms", "x-should-retry")  # by which SDKs ask again


class CaptureServer:
    """Answers the requests of programs on 127.0.0.1, in a thread, until the block ends.

    A page in a browser gets nowhere: whoever asks must name this server as the host, and no origin.

    Args:
        recording: is given each request, one after the other, by the server's thread.
        port: where it listens; 0 for any free one; an AccessError if it is taken.
        forward: send the requests on to the vendors, with the program's own keys.
    """

    def __init__(self, recording: Recording, *, port: int = 0, forward: bool = False) -> None:
        self._recording, self._forward = recording, forward
        try:
            self._socket = socket.create_server(("127.0.0.1", port))
        except OSError as error:
            what = f"cannot listen on port {port}: {error.strerror}; name another"
            raise AccessError(f"{what} ({option('port')})") from None
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._loop, self._ended = asyncio.new_event_loop(), asyncio.Event()
        run = copy_context().run  # whoever takes requests warns, and writes options, as outside
        self._thread = Thread(target=run, args=(self._loop.run_until_complete, self._serve()))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()
        self._loop.close()

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return variables by which a program finds this server, and no key unless it forwards."""
        found = dict(given)
        for each in vendors()["addresses"].values():
            found |= dict.fromkeys(each["variables"], f"{self.url}{each.get('path', '')}")
        if not self._forward:
            known = [*vendors()["keys"], *{"GOOGLE_API_KEY"} & given.keys()]
            found |= dict.fromkeys(known, "captured-needs-no-key")
        named = (given.get("NO_PROXY"), given.get("no_proxy"), "127.0.0.1")
        own = ",".join(dict.fromkeys(filter(None, named)))
        return found | dict.fromkeys(("NO_PROXY", "no_proxy"), own)

    async def _serve(self) -> None:
        from logging import CRITICAL, Logger

        from aiohttp import web

        app = web.Application(client_max_size=_LARGEST_BODY)
        app.router.add_route("*", "/{path:.*}", self._handle)
        quiet = Logger("capture", CRITICAL)
        runner = web.AppRunner(app, access_log=None, logger=quiet, shutdown_timeout=1)
        await runner.setup()
        self._reading = asyncio.Semaphore(_AT_ONCE)
        await web.SockSite(runner, self._socket).start()
        await self._ended.wait()
        await runner.cleanup()

    async def _handle(self, request: "web.Request") -> "web.Response":
        from aiohttp import web

        headers: dict[str, str] = {}
        status, kind, text = await self._reply(request, headers)
        return web.Response(status=status, content_type=kind, text=text, headers=headers)

    async def _reply(self, request: "web.Request", told: dict[str, str]) -> Reply:
        """Return the answer to a request; ``told`` gets the headers that the vendor's has."""
        from aiohttp.web import HTTPRequestEntityTooLarge

        endpoint = endpoint_at(request.path)
        if request.host not in (f"127.0.0.1:{self.port}", f"localhost:{self.port}"):
            return endpoint.refused(403, "the Host is not that of multiturn capture")
        if "origin" in request.headers or "sec-fetch-site" in request.headers:
            return endpoint.refused(403, "multiturn capture answers no pages in a browser")
        if "upgrade" in request.headers:
            return endpoint.refused(426, "multiturn capture speaks HTTP without WebSockets")
        if not endpoint.form or request.method != "POST":
            what = f"multiturn capture answers no {request.method} {request.path}"
            return endpoint.refused(404, what)
        try:
            async with self._reading, asyncio.timeout(_SECONDS):
                written = await request.read()
            given = read_value(without_halves(written).decode())  # as JavaScript cuts texts
            if not isinstance(given, dict):
                raise ValueError("it is not an object")
        except TimeoutError:
            status, what = 408, f"did not come within {_SECONDS} s"
        except HTTPRequestEntityTooLarge:
            status, what = 413, f"has over {_LARGEST_BODY:,} bytes"
        except ValueError as error:
            status, what = 400, f"cannot be read as JSON: {error}"
        else:
            body = {**endpoint.address, **given}
            if self._forward:
                return await self._forwarded(request, endpoint, body, told)
            return self._recording.take(endpoint, body, None)
        what = f"a request to {quoted(request.path)} was refused: its body {what}"
        return self._recording.refuse(endpoint, status, what)

    async def _forwarded(
        self, request: "web.Request", endpoint: Endpoint, body: Values, told: dict[str, str]
    ) -> Reply:
        """Return the vendor's answer; one of an error is not recorded."""
        from aiohttp import ClientError

        known = vendors()["addresses"]["azure" if "/openai/" in request.path else endpoint.vendor]
        named = filter(None, map(os.environ.get, known["variables"]))
        server = next(named, known.get("server", "")).rstrip("/")
        own = [name for name in request.headers if not re.fullmatch(_OF_CONNECTION, name)]
        headers = {name: request.headers[name] for name in own} | {"accept-encoding": "identity"}
        try:
            async with (
                new_session() as session,
                session.post(
                    server + request.path_qs.removeprefix(known.get("path", "")),
                    data=await request.read(),  # which was read before, and is kept
                    headers=headers,
                    allow_redirects=False,
                ) as reply,
            ):
                content = b""
                async for piece in unpacked(reply, ()):
                    content += piece
                    if len(content) > LARGEST_ANSWER:
                        raise MultiturnError(f"the answer has over {LARGEST_ANSWER:,} bytes")
        except (ClientError, OSError, ValueError, MultiturnError) as error:
            why = error if isinstance(error, MultiturnError) else type(error).__name__
            what = f"no answer from {server or known['variables'][0]}: {why}"
            what = hide(what, passwords_in(server))
            return self._recording.refuse(endpoint, 502, what)
        told |= {name: reply.headers[name] for name in _OF_RETRIES if name in reply.headers}
        text = content.decode("utf-8", "replace")
        if reply.status == 200:
            self._recording.take(endpoint, body, text)
        return reply.status, reply.content_type, text
