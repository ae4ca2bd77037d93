"""What we send, the judge takes; what we refuse, it refuses: else sources dispute it, as listed."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, NamedTuple

import msgspec
import pytest

from multiturn import ProviderError, ProviderRequest
from multiturn.logs import Notice, warnings_to
from multiturn.model.settings import JsonSchema, merged
from multiturn.model.turns import Tool
from providers.settings_judge import (
    SCHEMA,
    TOOL,
    VERSIONS,
    Sample,
    anthropic_fields,
    bodies,
    gemini_fields,
    judge,
    models,
    openai_fields,
    verdict,
)
from vendors import PROVIDERS, chat

OPENAI = {"base_url": "https://api.openai.com/v1"}
TARGETS: dict[str, tuple[str, dict[str, Any]]] = {
    "openai chat": ("openai", OPENAI),
    "openai responses": ("responses", OPENAI),
    "anthropic": ("anthropic", {}),
    "gemini": ("gemini", {}),
}
FORMATS = {
    "json_object": "json",
    "json_schema": JsonSchema(schema=SCHEMA, name="river", strict=True),
}


# What stands beside each sample, as it decides what else a model takes.
BESIDE: dict[str, list[dict[str, Any]]] = {
    "openai": [{}, {"reasoning_effort": "none"}, {"reasoning_effort": "low"}],
    "anthropic": [{}, {"temperature": 0.5}, {"temperature": 1}, {"reasoning_tokens": 2048}],
    "gemini": [{}, {"reasoning_effort": "low"}, {"reasoning_tokens": 2048}],
}


def settings_of(sample: Sample) -> dict[str, Any]:
    match sample.setting, sample.value:
        case (("plain" | "system"), _):
            return {}
        case "tool_choice", "river":
            return {"tool_choice": {"name": "river"}}
        case name, list(value):
            return {name: tuple(value)}
        case name, value:
            return {name: FORMATS.get(value, value)}
    raise AssertionError(sample)


def request_of(sample: Sample, beside: dict[str, Any]) -> ProviderRequest:
    """Return the request that a sample of the judge's describes, with what stands beside it."""
    messages = [("user", "Name a river in France. Answer in JSON.")]
    if sample.setting == "system":
        messages.insert(0, ("system", sample.value))
    is_tool = sample.setting in ("tool_choice", "parallel_tool_calls")
    tools = (Tool(TOOL["name"], TOOL["description"], SCHEMA),) if is_tool else ()
    return chat(*messages, tools=tools, **beside, **settings_of(sample))


def body_of(api: str, sample: Sample, beside: dict[str, Any]) -> dict[str, Any]:
    """Return the judge's own body of such a request."""
    body = sample.body
    for name, value in beside.items():
        write = {"anthropic": anthropic_fields, "gemini": gemini_fields}.get(api)
        fields = write(name, value) if write else openai_fields(api, name, value)
        body = merged(body, fields)
    return body


class Dispute(NamedTuple):
    """Where we and the judge differ, and may: with why."""

    ours: str
    judged: str
    api: str
    models: str
    setting: str
    value: str
    beside: str
    why: str

    def covers(self, found: "Difference") -> bool:
        """Return whether a difference is one of these; `*` stands for any text."""
        return all(map(fnmatchcase, found[:-1], self[:-1]))


# What is left is disputed by sources: we doubt it, and the judge believes one of them.
DISPUTED = (
    Dispute(
        *("doubted", "accepted", "openai *", "gpt-5.*", "temperature", "1", "reasoning_effort=low"),
        "probes at the default effort say that 1 passes; the guide says to leave it out",
    ),
    Dispute(
        *("doubted", "accepted", "anthropic", "claude-sonnet-4-6", "reasoning_effort", "max", "*"),
        "pi #2397 says that it is refused, oh-my-pi #2985 that it is not",
    ),
    Dispute(
        *("doubted", "accepted", "openai responses", "gpt-6*", "reasoning_effort", "max", ""),
        "it is taken there, and Chat Completions' own list lacks it; a row is about both",
    ),
    Dispute(
        *("doubted", "refused", "openai chat", "gpt-6.1-sol", "reasoning_effort", "max", ""),
        "the same, from the other side",
    ),
)


class Difference(NamedTuple):
    """What we and the judge say of one request otherwise."""

    ours: str  # sent, doubted or refused
    judged: str  # accepted or refused
    api: str
    model: str
    setting: str
    value: str
    beside: str
    why: str


def asked(api: str) -> Iterator[tuple[str, str, Any]]:
    """Yield each model, the version of the API, and a provider that asks it."""
    kind, settings = TARGETS[api]
    for model in models(api):
        for version in VERSIONS if api == "anthropic" else VERSIONS[-1:]:
            own = {"api_version": version} if api == "anthropic" else {}
            given = {"model": model, "default_system": "omit", "model_takes": {}}
            yield model, version, PROVIDERS[kind](**settings, **own, **given)


def outcome(provider: Any, request: ProviderRequest) -> tuple[str, str, Any]:
    """Return whether a request is sent, with a doubt or not, why not, and the body."""
    doubts: list[Notice] = []
    provider._warned.clear()  # else each doubt is said once
    try:
        with warnings_to(doubts.append):
            body = msgspec.json.decode(provider.wire(request).body)
    except ProviderError as error:
        return "refused", str(error), None
    return "doubted" if doubts else "sent", "; ".join(each.why for each in doubts), body


@cache
def differences(api: str) -> tuple[int, tuple[Difference, ...]]:
    """Return how much is compared, and where we and the judge differ.

    What the judge does not know is not compared.
    """
    found, count = [], 0
    for model, version, provider in asked(api):
        for sample in bodies(api, model):
            for beside in BESIDE[api.partition(" ")[0]]:
                if sample.setting in beside:
                    continue
                ours, why, body = outcome(provider, request_of(sample, beside))
                findings = judge(api, model, body or body_of(api, sample, beside), version)
                judged = verdict(findings)
                count += judged != "unknown"
                if judged == "unknown" or {ours, judged} in ({"refused"}, {"sent", "accepted"}):
                    continue
                why = why or "; ".join(f"{each.fact}: {each.source}" for each in findings)
                value, said = str(sample.value), " ".join(f"{k}={v}" for k, v in beside.items())
                found.append(Difference(ours, judged, api, model, sample.setting, value, said, why))
    return count, tuple(found)


@pytest.mark.parametrize("api", TARGETS)
def test_we_send_what_is_taken_and_refuse_what_is_refused(api: str) -> None:
    count, found = differences(api)
    assert count > 500
    unexplained = [each for each in found if not any(row.covers(each) for row in DISPUTED)]
    sent = [each for each in unexplained if each.judged == "refused"]
    refused = [each for each in unexplained if each.judged == "accepted"]
    assert (sent, refused) == ([], [])


@pytest.mark.parametrize("dispute", DISPUTED, ids=lambda each: f"{each.models} {each.setting}")
def test_what_is_disputed_is_so_still(dispute: Dispute) -> None:
    found = [each for api in TARGETS for each in differences(api)[1]]
    assert any(dispute.covers(each) for each in found)
