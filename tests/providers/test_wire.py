"""What goes out is what ``wire`` returned, byte for byte, and its digest tells it from others."""

import asyncio
from typing import Any

import msgspec
import pytest

from loopback import Server
from multiturn import ChatMessage, ProviderResponse
from multiturn.providers.base import Wire
from vendors import (
    FORMATS,
    HELLO,
    Connect,
    anthropic,
    ask,
    azure,
    chat,
    each_vendor,
    gemini,
    openai,
)

# What encodings treat in different ways.
TEXT = "  ".join(
    [
        "Gr\u00fc\u00dfe, \u0141\u00f3d\u017a",
        "\U0001f469\u200d\U0001f4bb \U0001f600",
        "\u05e9\u05dc\u05d5\u05dd",
        'say "hi" \\n C:\\new \'',
        "a\x00b\x1f\x7f\u0080",
        "a\r\nb\u2028c\u2029d\x0be",
        "<b>&amp;</b> {x} %s ${{ KEY }}",
        "\t",
    ]
)
NUMBERS = [0.7, 0.0, 1, 0.1 + 0.2, 1e-7]


@each_vendor
def test_a_text_goes_out_byte_for_byte(connect: Connect, server: Server) -> None:
    provider = connect(server.url)
    request = chat(("system", TEXT), ("user", TEXT), ("assistant", TEXT), ("user", TEXT))
    wire = provider.wire(request)
    answer = ask(provider, request)
    assert server.requests[0].body == wire.body == answer.wire
    assert server.requests[0].body.count(msgspec.json.encode(TEXT)) == 4 or connect is gemini


@pytest.mark.parametrize(
    ("connect", "temperature"),
    [*((gemini, number) for number in NUMBERS), *((other, 1e-7) for other in (openai, anthropic))],
)
def test_parameters_go_out_byte_for_byte(
    connect: Connect, server: Server, temperature: float
) -> None:
    provider = connect(server.url, max_output_tokens=64)
    request = chat(("user", "Hello"), temperature=temperature)
    answer = ask(provider, request)
    assert server.requests[0].body == provider.wire(request).body == answer.wire
    sent = msgspec.json.decode(server.requests[0].body)
    assert sent.get("generationConfig", sent)["temperature"] == temperature


LIMITS = {
    "azure": "max_completion_tokens",
    "anthropic": "max_tokens",
    "gemini": "maxOutputTokens",
}


@each_vendor
@pytest.mark.parametrize(
    ("of_target", "of_request", "sent"),
    [
        pytest.param((0.5, 100), (None, None), (0.5, 100), id="the target's"),
        pytest.param((None, 4096), (0.2, 20), (0.2, 20), id="the request's"),
        pytest.param((0.5, 100), (0.2, 20), (0.2, 20), id="the request's over the target's"),
        pytest.param((0.5, 100), (0.0, None), (0.0, 100), id="the request's zero, too"),
        pytest.param((0.0, 100), (None, 20), (0.0, 20), id="each for itself"),
    ],
)
def test_temperature_and_limit_are(
    connect: Connect, of_target: Any, of_request: Any, sent: tuple[float, int]
) -> None:
    names = ("temperature", "max_output_tokens")
    provider = connect(**dict(zip(names, of_target, strict=True)))
    request = chat(("user", "Hello"), **dict(zip(names, of_request, strict=True)))
    body = msgspec.json.decode(provider.wire(request).body)
    given = body.get("generationConfig", body)
    assert (given["temperature"], given[LIMITS[FORMATS[connect]]]) == sent


@each_vendor
def test_many_at_once_do_not_mix(connect: Connect, server: Server) -> None:
    server.fail(429, "slow down", times=5)
    provider = connect(server.url, max_retries=6)
    requests = [chat(("user", f"Hello, {number}")) for number in range(20)]

    async def answers() -> list[ProviderResponse]:
        async with provider:
            return [*await asyncio.gather(*map(provider.invoke, requests))]

    given = asyncio.run(answers())
    assert [answer.wire for answer in given] == [provider.wire(r).body for r in requests]
    bodies = [request.body for request in server.requests]
    assert [answer.retries for answer in given] == [bodies.count(a.wire) - 1 for a in given]
    assert sum(answer.retries for answer in given) == 5


@each_vendor
def test_a_provider_keeps_its_connection_until_it_is_closed_and_may_connect_again(
    connect: Connect, server: Server
) -> None:
    provider = connect(server.url)

    async def main() -> None:
        for number in (1, 2):
            async with provider:
                for _ in range(3):
                    await provider.invoke(HELLO)
            assert await asyncio.to_thread(server.wait_for_no_connection)
            assert server.accepted == number

    asyncio.run(main())


def digest(provider: Any, **changes: Any) -> str:
    """Return the digest of a request that has changed."""
    request = msgspec.structs.replace(HELLO, **changes)
    return str(provider.wire(request).digest())


@each_vendor
def test_the_digest_changes_with_the_request_and_the_target_but_not_with_the_key(
    connect: Connect,
) -> None:
    provider = connect()
    same = {digest(provider), digest(provider, question="Other logs"), digest(connect(api_key="k"))}
    others = {
        digest(provider, temperature=0.5),
        digest(provider, max_output_tokens=5),
        digest(provider, chat_prompt=(ChatMessage("user", "Hello"),)),
        digest(
            provider,
            chat_prompt=(ChatMessage("user", "Hello"),),
            metadata={"system_prompt": "Be kind."},
        ),
        digest(connect(model="claude-2.0")),
        digest(connect("http://127.0.0.1:10")),
    }
    assert len(same) == 1
    assert len(others - same) == 6


def test_the_digest_changes_with_the_version_of_azure() -> None:
    assert digest(azure(version="2025-01-01")) != digest(azure(version="2025-03-01"))


WIRE = Wire(provider="azure", model="m", parameters=("a", "b"), body=b"body")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"provider": "gemini"}, id="provider"),
        pytest.param({"model": "n"}, id="model"),
        pytest.param({"parameters": ("a", "c")}, id="parameters"),
        pytest.param({"parameters": ("ab",)}, id="parameters in other pieces"),
        pytest.param({"parameters": ("b", "a")}, id="parameters in another order"),
        pytest.param({"model": "ma", "parameters": ("b",)}, id="text that moves over"),
        pytest.param({"body": b"body "}, id="body"),
    ],
)
def test_the_digest_changes_with(change: dict[str, Any]) -> None:
    assert msgspec.structs.replace(WIRE, **change).digest() != WIRE.digest()


def test_the_digest_does_not_change_with_the_name_of_a_repair() -> None:
    assert msgspec.structs.replace(WIRE, repairs=("A5: cut",)).digest() == WIRE.digest()
