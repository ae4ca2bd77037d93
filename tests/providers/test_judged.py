"""What we send, the judge takes; what we refuse, it refuses: else sources dispute it, as listed."""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import msgspec
import pytest

from multiturn import ProviderError, ProviderRequest
from multiturn.logs import Notice, warnings_to
from multiturn.model.settings import JsonSchema, RequestSettings
from multiturn.model.tools import Tool
from providers.settings_judge import (
    SCHEMA,
    TOOL,
    VERSIONS,
    Finding,
    Sample,
    bodies,
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
