"""What goes out: headers and body of each vendor, to the byte."""

import asyncio
from fnmatch import fnmatchcase
from io import BytesIO
from pathlib import Path

import pytest

from loopback import KEY, Request, Server
from multiturn.documents.yaml_reader import read_documents
from multiturn.providers.anthropic.provider import AnthropicProvider, AnthropicSettings
from multiturn.providers.batch_api import BatchPart
from multiturn.providers.targets import batches_of
from vendors import GIVEN, PROVIDERS, anthropic, ask, chat

(TABLE,) = read_documents((Path(__file__).parent / "headers.yaml").read_bytes(), "headers.yaml")
REQUEST = chat(("system", "Be brief."), ("user", "Gr\u00fc\u00dfe"), temperature=0.5)
ANTHROPIC = ("anthropic-version", "authorization", "x-api-key")


def head(request: Request) -> list[str]:
    """Return the request line and the header lines, sorted, without the key."""
    lines = [f"{name}: {value}" for name, value in sorted(request.headers.items())]
    return [line.replace(KEY, "KEY") for line in (f"{request.method} {request.path}", *lines)]


@pytest.mark.parametrize("vendor", TABLE.value)
def test_a_vendor_gets_these_headers_and_this_body(vendor: str, server: Server) -> None:
    ask(PROVIDERS[vendor](server.url, max_output_tokens=64), REQUEST)
    (request,) = server.requests
    expected = TABLE.value[vendor]["head"].splitlines()
    lines = head(request)
    assert len(lines) == len(expected), lines
    for line, pattern in zip(lines, expected, strict=True):
        assert line == pattern or ("*" in pattern and fnmatchcase(line, pattern))
    assert request.body.decode() == TABLE.value[vendor]["body"]


def of_anthropic(request: Request) -> dict[str, str]:
    """Return the headers whose values are ours."""
    return {name: request.headers[name] for name in ANTHROPIC if name in request.headers}


def test_the_api_version_of_anthropic_is_the_current_one_unless_the_target_says_otherwise(
    server: Server,
) -> None:
    given = {**GIVEN, "base_url": server.url, "model": "claude-sonnet-4-6"}
    ask(AnthropicProvider(AnthropicSettings(**given)))
    ask(AnthropicProvider(AnthropicSettings(**given, api_version="2023-06-01", auth="x-api-key")))
    assert [of_anthropic(request) for request in server.requests] == [
        {"anthropic-version": "2026-10-21", "authorization": f"Bearer {KEY}"},
        {"anthropic-version": "2023-06-01", "x-api-key": KEY},
    ]


def test_requests_about_batches_have_the_same_version_and_key(server: Server) -> None:
    provider = anthropic(server.url, auth="x-api-key")
    server.answer(body={"data": [], "has_more": False, "first_id": None, "last_id": None})

    async def main() -> None:
        async with provider:
            await batches_of(provider).prepare(BatchPart("t"), BytesIO())

    asyncio.run(main())
    (request,) = server.requests
    assert of_anthropic(request) == {"anthropic-version": "2023-06-01", "x-api-key": KEY}
