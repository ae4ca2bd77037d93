"""The wire rules: each is met, repaired by its name, or refused before anything is sent."""

from typing import Any

import msgspec
import pytest

from loopback import Server
from multiturn import ProviderError, ProviderRequest
from multiturn.providers.rules import concerns
from multiturn.request import DEFAULT_SYSTEM_PROMPT
from vendors import PROVIDERS, Connect, azure, chat, echo, entries, failure, openai, sent

DEFAULT = ("system", DEFAULT_SYSTEM_PROMPT)


def turns(messages: list[dict[str, str]]) -> list[tuple[str, str]]:
    return [turn for message in messages for turn in message.items()]


@pytest.mark.parametrize(("vendor", "entry"), entries("rules.yaml"))
def test_rule(vendor: str, entry: dict[str, Any]) -> None:
    provider = PROVIDERS[vendor](**entry.get("settings", {}))
    given = entry.get("given", [{"user": "Hello"}])
    fields = {**msgspec.structs.asdict(chat(*turns(given))), **entry.get("request", {})}
    request = msgspec.convert(fields, ProviderRequest)
    if isinstance(entry[vendor], str):
        with pytest.raises(ProviderError) as caught:
            provider.wire(request)
        assert (caught.value.kind, str(caught.value)) == ("refused", entry[vendor])
        return
    wire = provider.wire(request)
    assert [turn for turn in sent(wire) if turn != DEFAULT] == turns(entry.get("sent", given))
    assert [*wire.repairs] == entry[vendor]
    if "temperature" in entry:
        body = msgspec.json.decode(wire.body)
        assert body.get("generationConfig", body).get("temperature") == entry["temperature"]


@pytest.mark.parametrize("connect", [openai, echo])
def test_what_is_refused_is_not_sent(connect: Connect, server: Server) -> None:
    error = failure(connect(server.url), chat(("system", "Be brief.")))
    assert (error.kind, error.retries, error.wire) == ("refused", 0, b"")
    assert server.requests == []


@pytest.mark.parametrize(
    ("rule", "is_for_them", "models"),
    [
        (
            *("A4", True),
            "claude-opus-4-6 claude-opus-4-6-20260205 claude-opus-4.6 claude-opus-4-10"
            " claude-haiku-5-20270101 anthropic/claude-opus-4.6 us.anthropic.claude-opus-4-6-v1:0"
            " claude-opus-4-6@20260205",
        ),
        (
            *("A4", False),
            "claude-sonnet-4-5 claude-sonnet-4-5-20250929 claude-opus-4-20250514 claude-2.1"
            " claude-sonnet-4@20250514 claude-3-5-sonnet-20241022 claude-3-haiku-20240307"
            " us.anthropic.claude-sonnet-4-5-20250929-v1:0 claude-instant-1.2",
        ),
        ("A4", None, "claude-opus-latest claude-3-7-sonnet-latest of-my-gateway claude-preview"),
        ("G4", True, "gemini-3.6-flash gemini-3.6-pro-preview gemini-4-flash gemini-3.10-flash"),
        ("G4", False, "gemini-3.5-flash gemini-3-pro-preview gemini-2.5-pro-001"),
        ("G4", None, "gemini-flash-latest gemini-of-my-gateway"),
    ],
)
def test_whether_a_rule_is_for_a_model(rule: str, is_for_them: bool | None, models: str) -> None:
    for model in models.split():
        assert (model, concerns(rule, model)) == (model, is_for_them)


@pytest.mark.parametrize("model", ["gpt-5-chat-latest", "gpt-5.1", "gpt-4o", "my-o1"])
def test_o8_other_models_take_a_temperature(model: str) -> None:
    wire = azure(model=model).wire(chat(("user", "Hello"), temperature=0.5))
    assert b'"temperature":0.5' in wire.body
