"""How long does a run take, against a server's delay alone and against the vendors' bare SDKs?"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from subprocess import PIPE, Popen
from time import perf_counter
from typing import Any

from measuring import MULTITURN, process, seconds, show
from multiturn import Case, TestMessage, load_pipeline, load_target, run

CASES, CONCURRENCY, DELAY = 2_000, 64, 0.05
KEY, TEXT, SYSTEM = (
    "key-of-nobody",
    "Say something about this. " * 20,
    "You are a careful assistant.",
)
ASKED: Any = [{"role": "user", "content": TEXT}]
ANSWERS: dict[str, Any] = {  # by what the path begins with
    "/openai": {"choices": [{"message": {"role": "assistant", "content": "Hi"}}]},
    "/v1/messages": {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
    "/": {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hi"}]}}]},
}
ADDRESS = {"azure": "endpoint", "anthropic": "base_url", "gemini": "base_url"}


class Server(asyncio.Protocol):
    """Answers every request after the delay, with as little work as possible."""

    def connection_made(self, transport: Any) -> None:
        self.transport, self.data = transport, b""

    def data_received(self, data: bytes) -> None:
        self.data += data
        top, found, body = self.data.partition(b"\r\n\r\n")
        length = int(top.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        if not found or len(body) < length:
            return
        self.data = body[length:]
        path = top.split(b" ", 2)[1].decode()
        text = json.dumps(next(ANSWERS[start] for start in ANSWERS if path.startswith(start)))
        head = f"content-type: application/json\r\ncontent-length: {len(text)}"
        answer = f"HTTP/1.1 200 OK\r\n{head}\r\n\r\n{text}"
        asyncio.get_running_loop().call_later(DELAY, self.transport.write, answer.encode())


async def serve() -> None:
    """Serve until the process is killed; print the port."""
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def served() -> Iterator[str]:
    """Start a process that serves; give its address."""
    with Popen([sys.executable, __file__, "--serve"], stdout=PIPE, text=True) as server:
        assert server.stdout is not None, "it is a pipe"
        try:
            yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
        finally:
            server.kill()


Call = Callable[[], Awaitable[Any]]


def sdk(vendor: str, url: str) -> tuple[Call, Call]:
    """Return what calls a vendor's SDK, as its documentation shows it, and what closes it."""
    if vendor == "azure":
        import openai

        azure = openai.AsyncAzureOpenAI(azure_endpoint=url, api_key=KEY, api_version="2024-12-01")
        messages: Any = [{"role": "system", "content": SYSTEM}, *ASKED]
        return lambda: azure.chat.completions.create(model="m", messages=messages), azure.close
    if vendor == "anthropic":
        import anthropic

        claude = anthropic.AsyncAnthropic(base_url=url, api_key=KEY)
        asked: Any = {"model": "m", "messages": ASKED, "system": SYSTEM, "max_tokens": 9}
        return lambda: claude.messages.create(**asked), claude.close
    import httpx2
    from google import genai

    http = httpx2.AsyncClient()
    options: Any = {"base_url": url, "httpx_async_client": http}
    gemini = genai.Client(api_key=KEY, http_options=options).aio.models
    config: Any = {"system_instruction": SYSTEM}
    contents: Any = [{"role": "user", "parts": [{"text": TEXT}]}]
    call = partial(gemini.generate_content, model="m", contents=contents, config=config)
    return call, http.aclose


async def measure(vendor: str, url: str, targets: str) -> tuple[float, float]:
    """Return the seconds of the SDK alone, and of ours; the first call of each only connects."""
    call, close = sdk(vendor, url)
    await call()
    calls = iter(range(CASES))

    async def work() -> None:
        for _ in calls:
            await call()

    start = perf_counter()
    await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    alone = perf_counter() - start
    await close()
    cases = [Case(id=str(n), input_messages=(TestMessage("user", TEXT),)) for n in range(CASES + 1)]
    pipeline = load_pipeline("spec")
    async with load_target(vendor, file=targets) as provider:
        for some in (cases[:1], cases[1:]):
            start = perf_counter()
            async for result in run(some, pipeline, provider, concurrency=CONCURRENCY):
                assert result.error is None, result.error
    return alone, perf_counter() - start


def main(url: str, folder: Path) -> None:
    """Print the tables."""
    targets, suite, output = (
        folder / name for name in ("targets.yaml", "x.eval.yaml", "out.jsonl")
    )
    given = {"api_key": KEY, "model": "m"}
    kinds = [{"name": kind, "provider": kind, ADDRESS[kind]: url, **given} for kind in ADDRESS]
    targets.write_text(json.dumps(kinds))
    message = {"role": "user", "content": TEXT}
    cases = [{"id": f"c{number}", "input_messages": [message]} for number in range(CASES)]
    suite.write_text(json.dumps({"evalcases": cases}))
    figures = {"the server's delay alone": CASES * DELAY / CONCURRENCY}
    for vendor in ADDRESS:
        alone, ours = asyncio.run(measure(vendor, url, str(targets)))
        figures |= {f"{vendor}'s SDK alone": alone, f"{vendor} by multiturn": ours}
    command = [MULTITURN, "run", str(suite), "--targets", str(targets), "--target", "azure"]
    command += ["--concurrency", str(CONCURRENCY), "--output", str(output)]
    figures["multiturn run, whole process"] = seconds(process(*command))
    title = f"{CASES} cases, {CONCURRENCY} at a time, answered after {DELAY * 1000:.0f} ms"
    show(title, figures, azure=1.3, anthropic=1.3, gemini=1.3)

    def read() -> None:
        for line in output.read_bytes().splitlines():
            json.loads(line)

    again = seconds(process(*command, "--resume"))
    show(
        "the same, resumed when all is done (1 s more at most)",
        {"reading its results as JSON": seconds(read), "multiturn run --resume": again},
    )


if __name__ == "__main__":
    if "--serve" in sys.argv:
        asyncio.run(serve())
    with served() as url, tempfile.TemporaryDirectory() as name:
        main(url, Path(name))
