"""What we send, the judge takes; what we refuse, it refuses: else sources dispute it, as listed."""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import msgspec
import pytest

from multiturn import ProviderError, ProviderRequest
from multiturn.logs import Notice, warnings_to
from multiturn.model.settings import JsonSchema
from multiturn.model.turns import Tool
from providers.settings_judge import (
    SCHEMA,
    TOOL,
    VERSIONS,
    Sample,
    bodies,
    openai_fields,
    judge,
    models,
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
NAMES = {"json_object": "json", "json_schema": JsonSchema(schema=SCHEMA, name="river", strict=True)}


def request_of(sample: Sample, effort: str | None) -> ProviderRequest:
    """Return the request that a sample of the judge's describes, with an effort beside it."""
    settings, messages = {}, [("user", "Name a river in France. Answer in JSON.")]
    tools: tuple[Tool, ...] = ()
    match sample.setting, sample.value:
        case "plain", _:
            pass
        case "system", text:
            messages.insert(0, ("system", text))
        case "tool_choice" | "parallel_tool_calls", value:
            tools = (Tool(**TOOL, parameters=SCHEMA),)
            settings = {sample.setting: {"name": value} if value == "river" else value}
        case name, list(value):
            settings = {name: tuple(value)}
        case name, value:
            settings = {name: NAMES.get(value, value)}
    if effort is not None:
        settings.setdefault("reasoning_effort", effort)
    return chat(*messages, tools=tools, **settings)


class Difference(NamedTuple):
    """What we and the judge say of one request otherwise."""

    ours: str  # sent, doubted or refused
    judged: str  # accepted or refused
    api: str
    model: str
    setting: str
    value: str
    effort: str | None
    version: str
    why: str


def asked(api: str, model: str) -> Iterator[tuple[Sample, str | None, str]]:
    """Yield what is asked of a model, with an effort beside it, under each version of the API."""
    for sample in bodies(api, model):
        if api == "anthropic":
            yield from ((sample, None, version) for version in VERSIONS)
            continue
        yield sample, None, VERSIONS[-1]
        if api.startswith("openai") and sample.setting != "reasoning_effort":
            for effort in ("none", "low"):
                yield sample, effort, VERSIONS[-1]


@cache
def differences(api: str) -> tuple[Difference, ...]:
    """Return where we and the judge differ; what the judge does not know is not compared."""
    found = []
    kind, settings = TARGETS[api]
    for model in models(api):
        for version in VERSIONS if api == "anthropic" else VERSIONS[-1:]:
            own = {"api_version": version} if api == "anthropic" else {}
            given = {**settings, **own, "model": model, "default_system": "omit"}
            provider = PROVIDERS[kind](**given, **({"model_takes": {}} if kind == "responses" else {}))
            for sample, effort, asked_of in asked(api, model):
                if asked_of != version:
                    continue
                warnings: list[Notice] = []
                body = sample.body
                if effort is not None:
                    body = {**body, **openai_fields(api, "reasoning_effort", effort)}
                try:
                    provider._warned.clear()
                    with warnings_to(warnings.append):
                        body = msgspec.json.decode(provider.wire(request_of(sample, effort)).body)
                    ours, why = "doubted" if warnings else "sent", ""
                except ProviderError as error:
                    ours, why = "refused", str(error)
                findings = judge(api, model, body, version)
                judged = verdict(findings)
                if judged != "unknown" and (ours == "refused") != (judged == "refused"):
                    why = why or "; ".join(f"{f.fact} {f.source}" for f in findings)
                elif not (judged == "accepted" and ours == "doubted"):
                    continue
                else:
                    why = "; ".join(w.why for w in warnings)
                value = str(sample.value)
                found.append(
                    Difference(ours, judged, api, model, sample.setting, value, effort, version, why)
                )
    return tuple(found)
