"""Servers that apply the vendors' rules take what passes check, and refuse what it refuses."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiturn import ProviderError, ProviderRequest
from multiturn.providers.ax import ChatProvider
from strict import StrictServer
from vendors import PROVIDERS, chat

ALL = {"temperature": True, "final_assistant": True, "later_system": True}
U, A, S, T = ("user", "Hello"), ("assistant", "Hi \n"), ("system", "Late."), ("tool", "4")
# What check was clean of, and vendors refuse: the settings of a target, and a request.
CASES: dict[str, tuple[str, dict[str, Any], ProviderRequest]] = {
    "a temperature under Anthropic's current version": (
        *("anthropic", {"model": "claude-sonnet-4-6", "api_version": "2026-10-21"}),
        chat(U, temperature=0),
    ),
    "one of 1, too": (
        *("anthropic", {"model": "claude-sonnet-4-5", "api_version": "2026-10-21"}),
        chat(U, temperature=1),
    ),
    "a temperature of Opus 4.7": (
        "anthropic",
        {"model": "claude-opus-4-7"},
        chat(U, temperature=0),
    ),
    "a system message between users": (
        *("anthropic", {"model": "claude-opus-4-8", "later_system": "keep"}),
        chat(U, S, U),
    ),
    "a system message of an older model": (
        *("anthropic", {"model": "claude-opus-4-6", "later_system": "keep"}),
        chat(U, S),
    ),
    "a final assistant message of Opus 4.6": (
        *("anthropic", {"model": "claude-opus-4-6"}),
        chat(U, A),
    ),
    "gpt-5.5": ("openai", {"model": "gpt-5.5"}, chat(U, temperature=0.5)),
    "gpt-5.6": ("openai", {"model": "gpt-5.6-sol"}, chat(U, temperature=0)),
    "gpt-6": ("openai", {"model": "gpt-6-astra"}, chat(U, temperature=1)),
    "a fine-tuned model": ("openai", {"model": "ft:gpt-5-mini:acme::1"}, chat(U, temperature=0)),
    "another": ("openai", {"model": "ft:o4-mini-2025-04-16:acme::1"}, chat(U, temperature=0)),
    "the old name of the limit": (
        *("openai", {"model": "o3", "max_tokens_field": "max_tokens"}),
        chat(U, max_output_tokens=5),
    ),
    "a final model turn of Flash-Lite": (
        *("gemini", {"model": "gemini-3.5-flash-lite"}),
        chat(U, A),
    ),
}


@pytest.fixture(scope="module")
def strict() -> Iterator[StrictServer]:
    with StrictServer() as server:
        yield server


class AsOpenAI:
    """Takes a server of ours for OpenAI's own."""

    vendor = "openai"


def target(vendor: str, server: StrictServer, **settings: Any) -> Any:
    """Return a provider that takes the strict server for the vendor's own."""
    provider = PROVIDERS[vendor](server.url, **settings)
    if vendor == "openai":
        provider.__class__ = type("OpenAI", (AsOpenAI, type(provider)), {})
    return provider


def sent(provider: ChatProvider, request: ProviderRequest) -> str:
    """Return ``ok``, ``refused`` before sending, or what the server says."""

    async def main() -> str:
        async with provider:
            try:
                await provider.invoke(request)
            except ProviderError as error:
                return "refused" if error.kind == "refused" else error.what
            return "ok"

    return asyncio.run(main())


@pytest.mark.parametrize(("vendor", "options", "request_"), CASES.values(), ids=CASES)
def test_is_refused_before_it_is_sent_and_by_the_vendor_if_it_were(
    vendor: str, options: dict[str, Any], request_: ProviderRequest, strict: StrictServer
) -> None:
    assert sent(target(vendor, strict, **options), request_) == "refused"
    if "later_system" not in options and "max_tokens_field" not in options:
        assert sent(target(vendor, strict, **options, model_takes=ALL), request_).startswith(
            "HTTP 400"
        )


MODELS = {
    "anthropic": (
        "claude-opus-4-8",
        "claude-sonnet-4-6",
        "claude-haiku-4-5",
        "claude-3-5-sonnet-latest",
    ),
    "gemini": ("gemini-2.5-flash", "gemini-3.5-flash-lite", "gemini-3.8-flash"),
    "openai": ("gpt-4o", "o3", "gpt-5-mini", "gpt-5.6-sol", "gpt-6-astra", "ft:gpt-5:a::1"),
}


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([(vendor, model) for vendor, models in MODELS.items() for model in models]),
    st.lists(
        st.sampled_from([U, A, S, T, ("user", " "), ("assistant", ""), ("system", "")]), max_size=6
    ),
    st.sampled_from([None, 0, 0.5, 1, 1.5, 2]),
    st.sampled_from([None, 5]),
    st.sampled_from(["2023-06-01", "2026-10-21"]),
    st.booleans(),
)
def test_what_is_sent_is_never_refused_for_its_form(
    strict: StrictServer,
    model: tuple[str, str],
    messages: list[tuple[str, str]],
    temperature: float | None,
    limit: int | None,
    version: str,
    keeps: bool,
) -> None:
    vendor, name = model
    options: dict[str, Any] = {"model": name}
    if vendor == "anthropic":
        options |= {"api_version": version, "later_system": "keep" if keeps else "refuse"}
    if vendor == "openai":
        options["max_tokens_field"] = "max_tokens" if keeps else "max_completion_tokens"
    request = chat(*messages, temperature=temperature, max_output_tokens=limit)
    assert sent(target(vendor, strict, **options), request) in ("ok", "refused")
