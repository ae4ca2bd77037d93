"""What goes out is what ``wire`` returned, byte for byte, and its digest tells it from others."""

import asyncio
from typing import Any

import msgspec
import pytest

from loopback import Server
from multiturn import ChatMessage, ProviderResponse
from multiturn.providers.base import Wire
from vendors import HELLO, Connect, anthropic, ask, azure, chat, each_vendor, gemini, openai

TEXTS = {
    "of umlauts": "Gr\u00fc\u00dfe, \u0141\u00f3d\u017a",
    "of emoji": "\U0001f469\u200d\U0001f4bb \U0001f600",
    "of right to left": "\u05e9\u05dc\u05d5\u05dd",
    "of quotes and backslashes": 'say "hi" \\n C:\\new \'',
    "of control characters": "a\x00b\x1f\x7f\u0080",
    "of odd line ends": "a\r\nb\u2028c\u2029d\x0be",
    "of markup": "<b>&amp;</b> {x} %s ${{ KEY }}",
    "with space around": "  x\t",
}


@each_vendor
@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in TEXTS.items()])
def test_a_text_goes_out_byte_for_byte(connect: Connect, server: Server, text: str) -> None:
    provider = connect(server.url)
    request = chat(("system", text), ("user", text), ("assistant", text), ("user", text))
    wire = provider.wire(request)
    answer = ask(provider, request)
    assert server.requests[0].body == wire.body == answer.wire
    assert server.requests[0].body.count(msgspec.json.encode(text)) == 4 or connect is gemini


@each_vendor
@pytest.mark.parametrize(
    "sampling",
    [
        pytest.param({"temperature": 0.7, "max_output_tokens": 64}, id="numbers"),
        pytest.param({"temperature": 0.0}, id="zero"),
        pytest.param({"temperature": 1}, id="a whole number"),
        pytest.param({"temperature": 0.1 + 0.2}, id="many digits"),
        pytest.param({"temperature": 1e-7}, id="a tiny number"),
    ],
)
@pytest.mark.parametrize("of", ["request", "target"])
def test_parameters_go_out_byte_for_byte(
    connect: Connect, server: Server, sampling: dict[str, Any], of: str
) -> None:
    provider = connect(server.url, **(sampling if of == "target" else {}))
    request = chat(("user", "Hello"), **(sampling if of == "request" else {}))
    answer = ask(provider, request)
    assert server.requests[0].body == provider.wire(request).body == answer.wire
    sent = msgspec.json.decode(server.requests[0].body)
    assert sent.get("generationConfig", sent)["temperature"] == sampling["temperature"]


LIMITS: dict[Connect, str] = {
    openai: "max_completion_tokens",
    azure: "max_completion_tokens",
    anthropic: "max_tokens",
    gemini: "maxOutputTokens",
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
    assert (given["temperature"], given[LIMITS[connect]]) == sent


@each_vendor
def test_many_at_once_do_not_mix(connect: Connect, server: Server) -> None:
    server.fail(429, "slow down", times=5)
    provider = connect(server.url, max_retries=6)
    requests = [chat(("user", f"Hello, {number}")) for number in range(20)]

    async def answers() -> list[ProviderResponse]:
        async with provider:
            return await asyncio.gather(*(provider.invoke(request) for request in requests))

    given = asyncio.run(answers())
    assert [answer.wire for answer in given] == [provider.wire(r).body for r in requests]
    bodies = [request.body for request in server.requests]
    assert [answer.retries for answer in given] == [bodies.count(a.wire) - 1 for a in given]
    assert sum(answer.retries for answer in given) == 5


@each_vendor
def test_closing_a_provider_closes_its_connections(connect: Connect, server: Server) -> None:
    async def main() -> bool:
        async with connect(server.url) as provider:
            await provider.invoke(HELLO)
        return await asyncio.to_thread(server.wait_for_no_connection)

    assert asyncio.run(main())


@each_vendor
def test_a_provider_that_was_closed_connects_again(connect: Connect, server: Server) -> None:
    provider = connect(server.url)
    assert ask(provider) == ask(provider)


@each_vendor
def test_one_connection_serves_one_request_after_the_other(
    connect: Connect, server: Server
) -> None:
    async def main() -> None:
        async with connect(server.url) as provider:
            for _ in range(3):
                await provider.invoke(HELLO)

    asyncio.run(main())
    assert server.accepted == 1


@each_vendor
def test_the_digest_never_depends_on_the_key(connect: Connect) -> None:
    digests = {connect(api_key=key).wire(HELLO).digest() for key in ("key-123456", "key-654321")}
    assert len(digests) == 1


@each_vendor
@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"temperature": 0.5}, id="the temperature"),
        pytest.param({"max_output_tokens": 5}, id="the limit"),
        pytest.param({"metadata": {"system_prompt": "Be kind."}}, id="the system prompt"),
        pytest.param({"chat_prompt": (ChatMessage("user", "Hello!"),)}, id="the messages"),
    ],
)
def test_the_digest_changes_with_what_the_body_says_of(
    connect: Connect, other: dict[str, Any]
) -> None:
    provider, request = connect(), chat(("user", "Hello"))
    first = provider.wire(request).digest()
    assert provider.wire(chat(("user", "Hello"), question="Other logs")).digest() == first
    assert provider.wire(msgspec.structs.replace(request, **other)).digest() != first


@each_vendor
def test_the_digest_changes_with_the_model(connect: Connect) -> None:
    first, second = connect(model="claude-2.1"), connect(model="claude-2.0")
    assert first.wire(HELLO).digest() != second.wire(HELLO).digest()


@each_vendor
def test_the_digest_changes_with_the_address(connect: Connect) -> None:
    first, second = connect("http://127.0.0.1:9"), connect("http://127.0.0.1:10")
    assert first.wire(HELLO).digest() != second.wire(HELLO).digest()


def test_the_digest_changes_with_the_version_of_azure() -> None:
    first, second = azure(version="2025-01-01"), azure(version="2025-03-01")
    assert first.wire(HELLO).digest() != second.wire(HELLO).digest()


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
