"""``run --batch``: every case is sent once and answered once, whatever happens in between."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from batch_server import BatchServer, text_for
from loopback import KEY


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with BatchServer() as server:
        yield server


# The server, asked by each SDK as it is

CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}


async def by_openai(client: Any, url: str, folder: Path) -> tuple[list[Any], str]:
    (folder / "in").write_text(
        json.dumps({"custom_id": "c", "method": "POST", "url": url, "body": CHAT}) + "\n"
    )
    file = await client.files.create(file=folder / "in", purpose="batch")
    made = await client.batches.create(
        input_file_id=file.id, endpoint=url, completion_window="24h", metadata={"token": "x"}
    )
    states = [made.status, *[(await client.batches.retrieve(made.id)).status for _ in "12"]]
    listed = [batch async for batch in client.batches.list(limit=1)]
    assert [(batch.id, batch.metadata) for batch in listed] == [(made.id, {"token": "x"})]
    text = (await client.files.content(listed[0].output_file_id)).content
    answer = json.loads(text)
    assert answer["custom_id"] == "c"
    return states, answer["response"]["body"]["choices"][0]["message"]["content"]


async def ask_openai(server: BatchServer, folder: Path) -> tuple[list[Any], str]:
    import openai

    async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{server.url}/v1") as client:
        return await by_openai(client, "/v1/chat/completions", folder)


async def ask_azure(server: BatchServer, folder: Path) -> tuple[list[Any], str]:
    import openai

    async with openai.AsyncAzureOpenAI(
        api_key=KEY, azure_endpoint=server.url, azure_deployment="m", api_version="1"
    ) as client:
        return await by_openai(client, "/chat/completions", folder)


async def ask_anthropic(server: BatchServer, folder: Path) -> tuple[list[Any], str]:
    import anthropic

    async with anthropic.AsyncAnthropic(api_key=KEY, base_url=server.url) as client:
        batches: Any = client.messages.batches
        made = await batches.create(requests=[{"custom_id": "c", "params": CHAT}])
        looks = [await batches.retrieve(made.id) for _ in "12"]
        listed = [batch async for batch in batches.list(limit=1)]
        assert [(batch.id, batch.request_counts.succeeded) for batch in listed] == [(made.id, 1)]
        (line,) = [line async for line in await batches.results(made.id)]
        assert line.custom_id == "c"
        states = [batch.processing_status for batch in (made, *looks)]
        return states, line.result.message.content[0].text


async def ask_gemini(server: BatchServer, folder: Path) -> tuple[list[Any], str]:
    import httpx2
    from google import genai

    (folder / "in").write_text(
        json.dumps({"key": "c", "request": {"contents": [{"parts": [{"text": "Hello"}]}]}}) + "\n"
    )
    http = httpx2.AsyncClient()
    options: Any = {"base_url": server.url, "api_version": "v1beta", "httpx_async_client": http}
    client = genai.Client(vertexai=False, api_key=KEY, http_options=options).aio
    kind = {"mime_type": "application/jsonl"}
    file: Any = await client.files.upload(file=folder / "in", config=kind)  # type: ignore[arg-type]
    made: Any = await client.batches.create(model="m", src=file.name, config={"display_name": "x"})
    states = [made.state, *[(await client.batches.get(name=made.name)).state for _ in "12"]]
    listed: Any = [batch async for batch in await client.batches.list()]
    assert [(batch.name, batch.display_name) for batch in listed] == [(made.name, "x")]
    answer = json.loads(await client.files.download(file=listed[0].dest.file_name))
    assert answer["key"] == "c"
    await http.aclose()
    states = [state.value.removeprefix("JOB_STATE_") for state in states]
    return states, answer["response"]["candidates"][0]["content"]["parts"][0]["text"]


@pytest.mark.parametrize(
    ("ask", "states"),
    [
        pytest.param(ask_openai, ["in_progress", "in_progress", "completed"], id="OpenAI"),
        pytest.param(ask_azure, ["in_progress", "in_progress", "completed"], id="Azure OpenAI"),
        pytest.param(ask_anthropic, ["in_progress", "in_progress", "ended"], id="Anthropic"),
        pytest.param(ask_gemini, ["RUNNING", "RUNNING", "SUCCEEDED"], id="Gemini"),
    ],
)
def test_each_sdk_understands_the_server(
    ask: Callable[..., Any],
    states: list[str],
    server: BatchServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server.lag = 1
    assert asyncio.run(ask(server, tmp_path)) == (states, text_for("Hello"))
    assert server.sent() == {"Hello": 1}
