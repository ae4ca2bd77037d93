"""A server on the loopback interface that answers as the vendors do, and fails when it is told to.

with Server() as server:
    server.fail(429, "slow down")
    server.answer("Hello!")
    ...  # whoever asks server.url gets these two answers, then TEXT again and again
    assert server.requests[0].json["messages"] == [...]
"""

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import repeat
from typing import Any, NamedTuple, Self

KEY = "sk-not-for-anyone-4711"
TEXT = "Hello from the loopback."
USAGE = {"input_tokens": 11, "output_tokens": 7}
QUICK = {"retry-after-ms": "1", "retry-after": "0.001"}
Answer = tuple[int, Any]


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
        if path.endswith("/responses"):
            return "responses"
        if path.endswith("/v1/messages"):
            return "anthropic"
        return "gemini" if path.endswith(":generateContent") else None


class Step(NamedTuple):
    """What to send, and how."""

    make: Callable[[Request], Answer]
    headers: Mapping[str, str | None] = {}  # None for one of QUICK that is not sent
    end: int | None = None  # number of bytes of the body after which the connection is closed,
    seconds: float = 0  # and after how many seconds
    pause: float = 0  # seconds after each byte


class Server(ThreadingHTTPServer):
    """Records what it is asked, and answers as it is told, so many ``times`` (None: for ever)."""

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        # Makes an answer of the last message of a request to OpenAI when nothing else is told;
        # without it, TEXT in the format of whatever vendor is asked.
        self.reply: Callable[[str], Answer] | None = None
        self.requests: list[Request] = []
        self.waits: Callable[[float], object] = lambda seconds: None  # called before it does so
        self.accepted = 0  # connections
        self.steps: list[Iterator[Step]] = []
        self.changed = threading.Condition()
        self.closed = threading.Event()
        self.connections: set[socket.socket] = set()
        self.url = f"http://127.0.0.1:{self.server_port}"
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closed.set()
        self.shutdown()
        self._thread.join()
        with self.changed:
            for connection in self.connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self.server_close()

    def handle_error(self, *_: object) -> None:
        """Say nothing: a process that is killed resets its connections."""

    def answer(
        self,
        text: str = TEXT,
        *,
        body: Any = None,
        status: int = 200,
        headers: Mapping[str, str | None] | None = None,
        times: int | None = 1,
    ) -> None:
        """Answer with a text in the vendor's format, or with a body.

        Bytes and text go as they are, anything else as JSON; a function makes it of the request.
        """

        def make(request: Request) -> Answer:
            made = body(request) if callable(body) else body
            return status, completion(request.vendor, text) if made is None else made

        self.then(Step(make, headers or {}), times)

    def fail(
        self, status: int, message: str, *, code: str = "an_error", times: int | None = 1
    ) -> None:
        """Answer with an error in the vendor's format."""
        self.then(
            Step(lambda request: (status, error_body(request.vendor, status, message, code))), times
        )

    def stall(self, sent: int = 0, *, seconds: float = 0, times: int | None = 1) -> None:
        """After so many bytes of the body (0: no head), wait, and close the connection."""
        self.then(Step(self.act, end=sent, seconds=seconds), times)

    def wait_for_no_connection(self) -> bool:
        """Wait until every connection is closed, and return whether that came about."""
        with self.changed:
            return self.changed.wait_for(lambda: not self.connections, 5)

    def then(self, step: Step, times: int | None = 1) -> None:
        with self.changed:
            self.steps.append(repeat(step) if times is None else repeat(step, times))

    def act(self, request: Request) -> Answer:
        """Return what is answered unless the server is told otherwise."""
        if self.reply is not None:
            return self.reply(request.json["messages"][-1]["content"])
        body = completion(request.vendor, TEXT)
        return (404, {"error": f"no vendor has {request.path}"}) if body is None else (200, body)

    def take(self, request: Request) -> Step:
        """Note a request, and return what to answer."""
        with self.changed:
            self.requests.append(request)
            while self.steps:
                for step in self.steps[0]:
                    return step
                del self.steps[0]
            return Step(self.act)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def setup(self) -> None:
        super().setup()
        with self.server.changed:
            self.server.accepted += 1
            self.server.connections.add(self.connection)

    def finish(self) -> None:
        with self.server.changed:
            self.server.connections.discard(self.connection)
            self.server.changed.notify_all()
        super().finish()

    def handle_one_request(self) -> None:
        with suppress(ConnectionError):  # whoever asked does not wait any longer
            super().handle_one_request()
            return
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, self.path, headers, self._read())
        step = self.server.take(request)
        status, body = step.make(request)
        if not isinstance(body, str | bytes):
            body = json.dumps(body)
        data = body.encode() if isinstance(body, str) else body
        fields = {"content-type": "application/json", "content-length": str(len(data))}
        told = {**fields, **QUICK, **step.headers}
        lines = (f"{key}: {value}" for key, value in told.items() if value is not None)
        head = "\r\n".join((f"HTTP/1.1 {status} .", *lines, "", "")).encode()
        if step.pause:
            self.wfile.write(head)
            for byte in data:
                self.wfile.write(bytes([byte]))
                self.server.waits(step.pause)
                if self.server.closed.wait(step.pause):
                    return
        elif step.end is None:
            self.wfile.write(head + data)
        else:
            if step.end:
                self.wfile.write(head + data[: step.end])
            self.server.waits(step.seconds)
            self.server.closed.wait(step.seconds)
            self.close_connection = True

    do_GET = do_PUT = do_DELETE = do_POST  # noqa: N815 - names of http.server

    def _read(self) -> bytes:
        """Return the body of a request, which may come in chunks."""
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        body = b""
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return body


def chat_answer(text: str = "hi") -> Answer:
    """Return an answer of Azure OpenAI."""
    return 200, completion("azure", text)


def completion(vendor: str | None, text: str) -> Any:
    """Return an answer in a vendor's format; None for no vendor."""
    if vendor in ("azure", "openai"):
        message = {"role": "assistant", "content": text, "refusal": None}
        return {
            "id": "c",  # inspect_ai reads no answer without this and the next three
            "object": "chat.completion",
            "created": 0,
            "model": "m",
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
        }
    if vendor == "responses":
        said = {"type": "output_text", "text": text, "annotations": []}
        message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
        return {
            "id": "resp_1",
            "object": "response",
            "created_at": 0,
            "model": "m",
            "status": "completed",
            "error": None,
            "incomplete_details": None,
            "output": [{**message, "content": [said]}],
            "usage": {**USAGE, "total_tokens": 18},
        }
    if vendor == "anthropic":
        return {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "usage": USAGE,
        }
    if vendor == "gemini":
        content = {"role": "model", "parts": [{"text": text}]}
        usage = {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18}
        candidate = {"index": 0, "content": content, "finishReason": "STOP"}
        return {"candidates": [candidate], "usageMetadata": usage}
    return None


def error_body(vendor: str | None, status: int, message: str, code: str) -> Any:
    """Return an error in a vendor's format."""
    if vendor == "anthropic":
        return {"type": "error", "error": {"type": code, "message": message}}
    if vendor == "gemini":
        return {"error": {"code": status, "message": message, "status": code.upper()}}
    return {"error": {"code": code, "message": message, "type": "an_error", "param": None}}
