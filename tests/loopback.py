"""A server on the loopback interface that answers as the vendors do, and fails when it is told to.

    with Server() as server:
        server.fail(429, "slow down", headers={"retry-after-ms": "1"})
        server.answer("Hello!")
        ...  # whatever asks server.url gets these two answers, then TEXT again and again
        assert server.requests[0].json["messages"] == [...]

It runs in threads of its own, so that a child process can ask it as well: ``server.targets()`` is
a targets file for it, and ``server.wait_for(3)`` returns when three requests have come.
"""

import json
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

KEY = "key-123456"
TEXT = "Hello from the loopback."
USAGE = {"input_tokens": 11, "output_tokens": 7}
QUICK = {"retry-after-ms": "1", "retry-after": "0.001"}


class Request(NamedTuple):
    """A request as it came; the names of its headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def vendor(self) -> str | None:
        path = self.path.partition("?")[0]
        if path.endswith("/chat/completions"):
            return "azure"
        if path.endswith("/v1/messages"):
            return "anthropic"
        return "gemini" if path.endswith(":generateContent") else None


class _Step(NamedTuple):
    """What to send, and whether to end or to hang in the middle of it."""

    status: int = 200
    body: Callable[[Request], Any] = lambda request: completion(request.vendor, TEXT)
    headers: Mapping[str, str] = {}
    delay: float = 0
    cut: int | None = None
    stall: int | None = None
    stall_seconds: float = 0


class Server:
    """Records what it is asked, and answers as it is told; else with ``text``.

    Args:
        text: of the answers that nobody ordered, or what makes it of a request.
        delay: seconds before each of these answers.
    """

    def __init__(self, text: str | Callable[[Request], str] = TEXT, *, delay: float = 0) -> None:
        self.requests: list[Request] = []
        self.accepted = 0  # connections
        self.most_at_once = 0  # requests
        self._text = text
        self._delay = delay
        self._steps: list[tuple[_Step, int | None]] = []
        self._at_once = 0
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._connections: set[socket.socket] = set()
        self._http = _Http(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._http.shutdown()
        self._thread.join()
        with self._changed:
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self._http.server_close()

    def answer(
        self,
        text: str = TEXT,
        *,
        body: Any = None,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        delay: float = 0,
        times: int | None = 1,
    ) -> None:
        """Answer the next request with a text in the vendor's format, or with a body.

        Args:
            text: what the model says.
            body: bytes and text go as they are, anything else as JSON.
            status: of HTTP.
            headers: beside those of every answer.
            delay: seconds to wait before.
            times: for how many requests; None for all that follow.
        """

        def make(request: Request) -> Any:
            return completion(request.vendor, text) if body is None else body

        self._then(_Step(status, make, headers or {}, delay), times)

    def fail(
        self,
        status: int,
        message: str,
        *,
        code: str = "an_error",
        headers: Mapping[str, str] = QUICK,
        times: int | None = 1,
    ) -> None:
        """Answer the next request with an error in the vendor's format."""

        def make(request: Request) -> Any:
            return error_body(request.vendor, status, message, code)

        self._then(_Step(status, make, headers), times)

    def cut(self, sent: int = 0, *, times: int | None = 1) -> None:
        """Close the connection after so many bytes of the answer's body; 0: without a head."""
        self._then(_Step(cut=sent), times)

    def stall(self, sent: int = 0, *, seconds: float = 60, times: int | None = 1) -> None:
        """Say nothing more after so many bytes of the answer's body; 0: not even a head.

        The connection is cut in the end, so that nobody hangs who forgot a timeout.
        """
        self._then(_Step(stall=sent, stall_seconds=seconds), times)

    def wait_for(self, count: int, *, timeout: float = 20) -> None:
        """Wait until so many requests have come."""
        with self._changed:
            came = self._changed.wait_for(lambda: len(self.requests) >= count, timeout)
        assert came, f"{len(self.requests)} of {count} requests came"

    def wait_for_no_connection(self, *, timeout: float = 5) -> bool:
        """Wait until every connection is closed, and return whether that came about."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._connections, timeout)

    def targets(self, key: str = KEY, **settings: Any) -> str:
        """Return a targets file whose azure, anthropic and gemini ask this server."""
        common = {"api_key": key, "model": "gpt-4o", "max_retries": 0, **settings}
        targets = [
            {"name": "azure", "provider": "azure", "endpoint": self.url, **common},
            {"name": "anthropic", "provider": "anthropic", "base_url": self.url, **common},
            {"name": "gemini", "provider": "gemini", "base_url": self.url, **common},
        ]
        models = {"anthropic": "claude-sonnet-4-5", "gemini": "gemini-2.5-flash"}
        for target in targets if "model" not in settings else ():
            target["model"] = models.get(str(target["provider"]), "gpt-4o")
        return json.dumps({"targets": targets}, indent=1)

    def _then(self, step: _Step, times: int | None) -> None:
        with self._changed:
            self._steps.append((step, times))

    def _next(self) -> _Step:
        if not self._steps:
            text = self._text
            return _Step(
                body=lambda request: completion(
                    request.vendor, text(request) if callable(text) else text
                ),
                delay=self._delay,
            )
        step, times = self._steps[0]
        if times == 1:
            del self._steps[0]
        elif times is not None:
            self._steps[0] = step, times - 1
        return step

    def _take(self, request: Request) -> _Step:
        with self._changed:
            self.requests.append(request)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            self._changed.notify_all()
            return self._next()

    def _respond(self, request: Request) -> tuple[bytes, float | None]:
        """Return what to send, and in how many seconds the connection ends; None: it stays."""
        step = self._take(request)
        try:
            if step.delay:
                self._closed.wait(step.delay)
            status, body = step.status, step.body(request)
            if body is None:
                status, body = 404, {"error": {"message": f"no vendor has {request.path}"}}
            if not isinstance(body, str | bytes):
                body = json.dumps(body)
            data = body.encode() if isinstance(body, str) else body
            fields = {
                "content-type": "application/json",
                "content-length": str(len(data)),
                **step.headers,
            }
            lines = (f"HTTP/1.1 {status} .", *(f"{k}: {v}" for k, v in fields.items()), "", "")
            head = "\r\n".join(lines).encode()
            if step.cut is None and step.stall is None:
                return head + data, None
            end = step.cut or step.stall
            return (head + data[:end] if end else b""), step.stall_seconds
        finally:
            with self._changed:
                self._at_once -= 1

    def _handler(server) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - "self" is the handler's
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                super().setup()
                with server._changed:
                    server.accepted += 1
                    server._connections.add(self.connection)

            def finish(self) -> None:
                with server._changed:
                    server._connections.discard(self.connection)
                    server._changed.notify_all()
                super().finish()

            def handle_one_request(self) -> None:
                with suppress(ConnectionError):  # whoever asked does not wait any longer
                    super().handle_one_request()
                    return
                self.close_connection = True

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

            def any_method(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(self.command, self.path, headers, self.rfile.read(length))
                data, seconds = server._respond(request)
                self.wfile.write(data)
                if seconds is not None:
                    self.wfile.flush()
                    server._closed.wait(seconds)
                    self.close_connection = True

            do_GET = do_POST = do_PUT = any_method  # noqa: N815 - names of http.server

        return Handler


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024


def completion(vendor: str | None, text: str) -> Any:
    """Return an answer in a vendor's format; None for a path of no vendor."""
    if vendor == "azure":
        message = {"role": "assistant", "content": text, "refusal": None}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1795219200,
            "model": "gpt-4o-2024-11-20",
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
        }
    if vendor == "anthropic":
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5-20250929",
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 11, "output_tokens": 7},
        }
    if vendor == "gemini":
        content = {"role": "model", "parts": [{"text": text}]}
        return {
            "candidates": [{"index": 0, "content": content, "finishReason": "STOP"}],
            "usageMetadata": {
                "promptTokenCount": 11,
                "candidatesTokenCount": 7,
                "totalTokenCount": 18,
            },
            "modelVersion": "gemini-2.5-flash",
        }
    return None


def error_body(vendor: str | None, status: int, message: str, code: str) -> Any:
    """Return an error in a vendor's format."""
    if vendor == "anthropic":
        return {"type": "error", "error": {"type": code, "message": message}}
    if vendor == "gemini":
        return {"error": {"code": status, "message": message, "status": code.upper()}}
    return {"error": {"code": code, "message": message, "type": "an_error", "param": None}}
