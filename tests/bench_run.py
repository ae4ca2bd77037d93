"""Measure runs against a server on this machine that answers after 50 ms.

The ideal is what the server's delay alone costs at this concurrency. The vendors' SDKs alone, used
as their documentation shows, stand beside it: what they take cannot be saved.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from multiturn import Case, TestMessage, load_pipeline, run
from multiturn.providers.anthropic import AnthropicProvider, AnthropicSettings
from multiturn.providers.azure import AzureProvider, AzureSettings
from multiturn.providers.gemini import GeminiProvider, GeminiSettings

CASES, CONCURRENCY, DELAY = 2_000, 64, 0.05
IDEAL = CASES * DELAY / CONCURRENCY
KEY, MODEL, TEXT = "key-for-the-bench", "m", "Say something about this. " * 20
SYSTEM = "You are a careful assistant."
MESSAGES: Any = [{"role": "user", "content": TEXT}]

ANSWERS: dict[bytes, Any] = {
    b"/openai": {
        "choices": [{"message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1},
    },
    b"/v1/messages": {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
    b"/": {  # Gemini's
        "candidates": [{"content": {"role": "model", "parts": [{"text": "Hi"}]}}],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1},
    },
}


class Answering(asyncio.Protocol):
    """Answers every request after the delay, with as little work as possible."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.data = b""

    def data_received(self, data: bytes) -> None:
        self.data += data
        head, found, body = self.data.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        if not found or len(body) < length:
            return
        self.data = body[length:]
        path = head.split(b" ", 2)[1]
        answer = next(answer for start, answer in ANSWERS.items() if path.startswith(start))
        text = json.dumps(answer).encode()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        loop = asyncio.get_running_loop()
        loop.call_later(DELAY, self.transport.write, head % len(text) + text)


async def serve() -> None:
    """Serve until the process is killed; print the port."""
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def at_once(call: Callable[[], Awaitable[Any]]) -> float:
    """Return the seconds that all calls take."""
    await call()
    calls = iter(range(CASES))

    async def work() -> None:
        for _ in calls:
            await call()

    start = perf_counter()
    await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    return perf_counter() - start


@asynccontextmanager
async def sdk(vendor: str, url: str) -> AsyncIterator[Callable[[], Awaitable[Any]]]:
    """Yield a call of a vendor's SDK."""
    if vendor == "azure":
        import openai

        async with openai.AsyncAzureOpenAI(
            azure_endpoint=url,
            azure_deployment=MODEL,
            api_key=KEY,
            api_version="2024-12-01-preview",
        ) as client:
            messages = [{"role": "system", "content": SYSTEM}, *MESSAGES]
            yield lambda: client.chat.completions.create(model=MODEL, messages=messages)
    elif vendor == "anthropic":
        import anthropic

        async with anthropic.AsyncAnthropic(base_url=url, api_key=KEY) as other:
            yield lambda: other.messages.create(
                model=MODEL, messages=MESSAGES, system=SYSTEM, max_tokens=4096
            )
    else:
        import httpx2
        from google import genai

        http = httpx2.AsyncClient()
        options: Any = {"base_url": url, "httpx_async_client": http}
        gemini = genai.Client(api_key=KEY, http_options=options).aio
        yield lambda: gemini.models.generate_content(
            model=MODEL,
            contents=[{"role": "user", "parts": [{"text": TEXT}]}],
            config={"system_instruction": SYSTEM},
        )
        await http.aclose()


def provider(vendor: str, url: str) -> Any:
    """Return our provider of a vendor."""
    common: dict[str, Any] = {"name": vendor, "provider": vendor, "model": MODEL, "api_key": KEY}
    if vendor == "azure":
        return AzureProvider(AzureSettings(endpoint=url, **common))
    if vendor == "anthropic":
        return AnthropicProvider(AnthropicSettings(base_url=url, **common))
    return GeminiProvider(GeminiSettings(base_url=url, **common))


async def measure(vendor: str, url: str) -> tuple[float, float]:
    """Return the seconds of the SDK alone, and of ours."""
    async with sdk(vendor, url) as call:
        alone = await at_once(call)
    cases = [Case(id=str(n), input_messages=(TestMessage("user", TEXT),)) for n in range(CASES + 1)]
    pipeline = load_pipeline("spec")
    async with provider(vendor, url) as ours:
        async for result in run(cases[:1], pipeline, ours):
            assert result.error is None, result.error
        start = perf_counter()
        async for result in run(cases[1:], pipeline, ours, concurrency=CONCURRENCY):
            assert result.error is None, result.error
        return alone, perf_counter() - start


def whole_process(url: str, folder: Path) -> tuple[float, float, float]:
    """Return the seconds of ``multiturn run``, of resuming it when done, of reading its file."""
    case = "  - id: c{}\n    input_messages:\n      - role: user\n        content: {}\n"
    suite = "evalcases:\n" + "".join(case.format(number, TEXT) for number in range(CASES))
    (folder / "large.eval.yaml").write_text(suite)
    target = {"name": "t", "provider": "azure", "endpoint": url, "model": MODEL, "api_key": KEY}
    (folder / "targets.yaml").write_text(json.dumps([target]))
    output = folder / "results.jsonl"
    command = [str(Path(sys.executable).with_name("multiturn")), "run", "large.eval.yaml"]
    command += ["--target", "t", "--concurrency", str(CONCURRENCY), "--output", output.name]
    times = []
    for more in ((), ("--resume",)):
        start = perf_counter()
        subprocess.run([*command, *more], cwd=folder, check=True, capture_output=True)
        times.append(perf_counter() - start)
    start = perf_counter()
    for line in output.read_bytes().splitlines():
        json.loads(line)
    return times[0], times[1], perf_counter() - start


def main() -> None:
    """Print the table."""
    server = subprocess.Popen(
        [sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
    try:
        print(f"\n{CASES:,} cases, {CONCURRENCY} at a time, answered after {DELAY * 1000:.0f} ms")
        print(f"  {'ideal':<34}{IDEAL:>9.2f} s  {1:>7.2f} x")
        for vendor in ("azure", "anthropic", "gemini"):
            alone, ours = asyncio.run(measure(vendor, url))
            print(f"  {f'{vendor}: the SDK alone':<34}{alone:>9.2f} s  {alone / IDEAL:>7.2f} x")
            print(f"  {f'{vendor}: run':<34}{ours:>9.2f} s  {ours / IDEAL:>7.2f} x   target 1.3")
        with tempfile.TemporaryDirectory() as folder:
            first, again, reading = whole_process(url, Path(folder))
        print(f"  {'multiturn run, whole process':<34}{first:>9.2f} s  {first / IDEAL:>7.2f} x")
        print(f"  {'the same, resumed when done':<34}{again:>9.2f} s")
        print(f"  {'reading its results as JSON':<34}{reading:>9.2f} s   target: 1 s more at most")
    finally:
        server.kill()


if __name__ == "__main__":
    asyncio.run(serve()) if "--serve" in sys.argv else main()
