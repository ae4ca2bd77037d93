"""The wire rules: each is met, repaired by its name, or refused before anything is sent."""

from typing import Any

import msgspec
import pytest

from loopback import Server
from multiturn import ProviderError, ProviderRequest
from multiturn.model.settings import RequestSettings
from vendors import PROVIDERS, Connect, chat, echo, entries, failure, openai, sent


def turns(messages: list[dict[str, str]]) -> list[tuple[str, str]]:
    return [turn for message in messages for turn in message.items()]


@pytest.mark.parametrize(("vendor", "entry"), entries("rules.yaml"))
def test_rule(vendor: str, entry: dict[str, Any]) -> None:
    provider = PROVIDERS[vendor](**{"default_system": "omit", **entry.get("settings", {})})
    given = entry.get("given", [{"user": "Hello"}])
    others = {**entry.get("request", {})}
    said = RequestSettings(**others.pop("settings", {}))  # only the rules check it
    fields = {**msgspec.structs.asdict(chat(*turns(given))), **others, "settings": said}
    request = msgspec.convert(fields, ProviderRequest)
    if isinstance(entry[vendor], str):
        with pytest.raises(ProviderError) as caught:
            provider.wire(request)
        assert (caught.value.kind, str(caught.value)) == ("refused", entry[vendor])
        return
    wire = provider.wire(request)
    assert sent(wire) == turns(entry.get("sent", given))
    assert [*wire.repairs] == entry[vendor]
    if "temperature" in entry:
        body = msgspec.json.decode(wire.body)
        assert body.get("generationConfig", body).get("temperature") == entry["temperature"]


@pytest.mark.parametrize("connect", [openai, echo])
def test_what_is_refused_is_not_sent(connect: Connect, server: Server) -> None:
    error = failure(connect(server.url), chat(("system", "Be brief.")))
    assert (error.kind, error.retries, error.wire) == ("refused", 0, b"")
    assert server.requests == []
