"""What goes out is what ``wire`` returned, byte for byte, and its digest tells it from others."""

import asyncio
import tracemalloc
from typing import Any

import msgspec
import pytest

from histories import history
from loopback import Server
from multiturn import ChatMessage, ProviderResponse
from multiturn.model.settings import RequestSettings
from multiturn.providers.base import Wire
from vendors import HELLO, Connect, anthropic, ask, azure, chat, each_vendor, gemini, openai

# What encodings treat in different ways.
TEXT = (
    "Gr\u00fc\u00dfe, \u0141\u00f3d\u017a \U0001f469\u200d\U0001f4bb \U0001f600"
    ' \u05e9\u05dc\u05d5\u05dd say "hi" \\n C:\\new \' a\x00b\x1f\x7f\u0080'
    " a\r\nb\u2028c\u2029d\x0be <b>&amp;</b> {x} %s ${{ KEY }} \t"
)


@each_vendor
@pytest.mark.parametrize("temperature", [0.7, 0.0, 1, 0.1 + 0.2, 1e-7])
def test_a_body_goes_out_byte_for_byte(
    connect: Connect, server: Server, temperature: float
) -> None:
    provider = connect(server.url, max_output_tokens=64)
    turns = (("system", TEXT), ("user", TEXT), ("assistant", TEXT), ("user", TEXT))
    wire = provider.wire(request := chat(*turns, temperature=temperature))
    answer = ask(provider, request)
    assert server.requests[0].body == wire.body == answer.wire
    assert wire.body.count(msgspec.json.encode(TEXT)) == 4 or connect is gemini
    body = msgspec.json.decode(wire.body)
    assert body.get("generationConfig", body)["temperature"] == temperature


@each_vendor
def test_a_body_is_not_kept_once_it_is_answered(connect: Connect, server: Server) -> None:
    """The canceled timers of asyncio keep their contexts until there are a hundred of them."""
    provider, request = connect(server.url), chat(("user", "x" * 1_000_000))

    async def main() -> int:
        async with provider:
            for number in range(12):
                if number == 2:
                    tracemalloc.start()
                await provider.invoke(request)
                server.requests.clear()
            return tracemalloc.get_traced_memory()[0]

    try:
        assert asyncio.run(main()) < 3_000_000
    finally:
        tracemalloc.stop()


@each_vendor
def test_a_body_with_calls_goes_out_byte_for_byte(connect: Connect, server: Server) -> None:
    provider = connect(server.url)
    for number in range(20):
        request = history(number)
        wire = provider.wire(request)
        answer = ask(connect(server.url), request)
        assert server.requests[-1].body == wire.body == answer.wire


@pytest.mark.parametrize(
    ("of_target", "of_request", "sent"),
    [
        pytest.param((0.5, 100), (None, None), (0.5, 100), id="the target's"),
        pytest.param((0.5, 100), (0.0, 20), (0.0, 20), id="the request's over the target's"),
        pytest.param((0.0, 100), (None, 20), (0.0, 20), id="each for itself"),
    ],
)
def test_temperature_and_limit_are(
    of_target: Any, of_request: Any, sent: tuple[float, int]
) -> None:
    provider = openai(temperature=of_target[0], max_output_tokens=of_target[1])
    said = {"temperature": of_request[0], "max_output_tokens": of_request[1]}
    request = chat(("user", "Hello"), **said)
    body = msgspec.json.decode(provider.wire(request).body)
    assert (body["temperature"], body["max_completion_tokens"]) == sent


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
    return str(provider.wire(msgspec.structs.replace(HELLO, **changes)).digest())


@each_vendor
def test_the_digest_changes_with_the_request_and_the_target_but_not_with_the_key(
    connect: Connect,
) -> None:
    provider = connect()
    same = {
        digest(provider),
        digest(provider, question="Other logs"),
        digest(connect(api_key="k")),
    }
    others = [
        digest(provider, settings=RequestSettings(temperature=0.5)),
        digest(provider, chat_prompt=(ChatMessage("user", "Hello"),)),
        digest(connect(model="claude-2.0")),
        digest(connect("http://127.0.0.1:10")),
    ]
    assert len({*same, *others}) == 1 + len(others)


@pytest.mark.parametrize("connect", [azure, gemini])
def test_the_digest_changes_with_the_version_of_the_api(connect: Connect) -> None:
    assert digest(connect(version="v1")) != digest(connect(version="v2"))


def test_the_digest_changes_with_anthropics_version_but_not_with_the_header_of_the_key() -> None:
    one, other = (digest(anthropic(api_version=day)) for day in ("2023-06-01", "2026-10-21"))
    assert one != other
    assert digest(anthropic(auth="x-api-key")) == one


@each_vendor
def test_a_slash_at_the_end_of_the_address_does_not_change_the_digest(connect: Connect) -> None:
    name = connect().address_settings[0]
    first, second = (connect(**{name: f"http://a/v1{slash}"}) for slash in ("", "/"))
    assert digest(first) == digest(second)


WIRE = Wire(provider="azure", model="m", parameters=("a", "b"), shown=b"body", request=HELLO)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"provider": "gemini"}, id="provider"),
        pytest.param({"model": "n"}, id="model"),
        pytest.param({"parameters": ("ab",)}, id="parameters in other pieces"),
        pytest.param({"parameters": ("b", "a")}, id="parameters in another order"),
        pytest.param({"model": "ma", "parameters": ("b",)}, id="text that moves over"),
        pytest.param({"shown": b"body "}, id="body"),
    ],
)
def test_the_digest_changes_with(change: dict[str, Any]) -> None:
    assert msgspec.structs.replace(WIRE, **change).digest() != WIRE.digest()


def test_the_digest_does_not_change_with_the_words_of_a_repair() -> None:
    assert msgspec.structs.replace(WIRE, repairs=("A5: cut",)).digest() == WIRE.digest()
