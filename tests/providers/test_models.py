"""What is known of models: a table typed by hand says what is expected, and why."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from multiturn import ChatMessage, ProviderError
from multiturn.logs import Notice, warnings_to
from multiturn.model.settings import JsonSchema
from multiturn.model.turns import Thinking, Tool
from multiturn.providers.models import FEATURES, Abilities, plain_name, shipped_rows
from multiturn.providers.rules import RULES
from vendors import PROVIDERS, chat

USER, ASSISTANT, SYSTEM = ("user", "Hello"), ("assistant", "Hi"), ("system", "Late.")
OPENAI = {"base_url": "https://api.openai.com/v1"}
TARGETS: dict[str, tuple[str, dict[str, Any]]] = {
    "openai": ("openai", OPENAI),
    "azure": ("azure", {}),
    "responses": ("responses", OPENAI),
    "servers": ("openai", {}),
    "anthropic": ("anthropic", {"api_version": "2023-06-01", "later_system": "keep"}),
    "anthropic now": ("anthropic", {"api_version": "2026-10-21", "later_system": "keep"}),
    "gemini": ("gemini", {}),
}
TOOLS = (Tool("now"),)
HELLO = ChatMessage("user", "Hello")
SIGNED = Thinking("Hm.", signature="c2ln", vendor="anthropic")
THOUGHT = (HELLO, ChatMessage("assistant", "", thinking=(SIGNED,)), HELLO)
SPOKEN = ChatMessage("assistant", "Rain", thinking=(SIGNED,))
ENDING = (HELLO, SPOKEN)
LATE = (ChatMessage("system", "Be brief."), HELLO)
SCHEMA = JsonSchema(schema={"type": "object", "additionalProperties": False}, strict=True)
REQUESTS = {
    "none": chat(USER),
    "zero": chat(USER, temperature=0),
    "one": chat(USER, temperature=1),
    "final": chat(USER, ASSISTANT),
    "later": chat(USER, SYSTEM),
    "limit": chat(USER, max_output_tokens=5),
}


def table() -> Iterator[Any]:
    """Yield each model of the table with what is expected of a request."""
    text = (Path(__file__).parent / "models.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            vendor, model, *expected, source = (cell.strip() for cell in line.split("|"))
            assert source
            yield pytest.param(vendor, model, expected, id=f"{model} ({vendor})")


def outcome(provider: Any, request: Any) -> str:
    """Return ``ok``, ``?`` for a warning, or the ids of rules, ``-`` before those of repairs."""
    warnings: list[Notice] = []
    try:
        with warnings_to(warnings.append):
            repairs = provider.wire(request).repairs
    except ProviderError as error:
        return ",".join(re.findall(r"(?:^|; )([A-Z]\d+):", str(error)))
    if warnings:
        return "?"
    return "".join(f"-{repair.partition(':')[0]}" for repair in repairs) or "ok"


@pytest.mark.parametrize(("vendor", "model", "expected"), [*table()])
def test_what_a_model_takes(vendor: str, model: str, expected: list[str]) -> None:
    kind, settings = TARGETS[vendor]
    found = []
    for name, request in REQUESTS.items():
        old_name = (
            {"max_tokens_field": "max_tokens"} if name == "limit" and kind == "openai" else {}
        )
        provider = PROVIDERS[kind](**settings, **old_name, model=model, default_system="omit")
        found.append(outcome(provider, request))
    assert found == expected


def test_the_table_has_at_least_60_models() -> None:
    assert len({model.values[1] for model in table()}) >= 60


def test_every_row_has_a_feature_its_source_and_the_day() -> None:
    others = {"names", "source", "seen", "whole", "rule", "when", "api_version"}
    for rows in shipped_rows().values():
        for row in rows:
            features = {*row.__struct_fields__} - others
            assert any(getattr(row, feature) is not None for feature in features)
            assert re.fullmatch(r"2026-\d\d-\d\d", row.seen)
            assert len(row.source) > 5


def test_each_rule_of_a_row_is_one_and_each_refusal_has_one() -> None:
    """Those of `*` among them; a row of a list or a number refuses other values."""
    for rows in shipped_rows().values():
        for row in rows:
            assert not row.rule or row.rule in RULES
            may_refuse = [word for word in row.takes.values() if word not in ("yes", "ignored")]
            is_left_out = {"encrypted_thinking", "result_media", "phase"} >= row.takes.keys()
            assert row.rule or not may_refuse or is_left_out, row


# What a request says where each feature stands.
VALUES = {"stop": "['END']", "tool_choice": "required"}


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("model", ["gpt-4o", "claude-opus-5-5", "gemma-3-27b-it", "of-ours"])
def test_the_word_of_a_target_wins(feature: str, model: str) -> None:
    """Over what each vendor's rows say of each feature."""
    for vendor in shipped_rows():
        for said in (True, False):
            abilities = Abilities(vendor, model, {feature: said})
            verdict = abilities.takes(feature, VALUES.get(feature, "0.5"))
            assert (verdict.takes, verdict.rule, verdict.is_ignored) == (said, "C4", False)


@pytest.mark.parametrize(
    ("vendor", "model", "feature", "request_"),
    [
        ("openai", "gpt-5.6-sol", "tools_over_chat", {"tools": TOOLS}),
        ("openai", "gpt-audio", "only_text", {}),
        ("openai", "gpt-5-codex", "chat", {}),
        ("responses", "gpt-5.1-mini", "responses", {}),
        ("openai", "o1-mini", "system_message", {"chat_prompt": LATE}),
        ("openai", "o1-mini", "tools", {"tools": TOOLS}),
        ("openai", "gpt-4o-2024-05-13", "response_format", {"response_format": SCHEMA}),
        ("openai", "gpt-4o-2024-05-13", "max_output_tokens", {"max_output_tokens": 4097}),
        ("openai", "gpt-4o", "reasoning_effort", {"reasoning_effort": "low"}),
        ("openai", "o3", "parallel_tool_calls", {"tools": TOOLS, "parallel_tool_calls": False}),
        ("openai", "o3", "stop", {"stop": ("END",)}),
        ("openai", "gpt-5", "top_p", {"top_p": 0.5}),
        ("openai", "gpt-4o", "verbosity", {"verbosity": "low"}),
        ("openai", "gpt-4o", "service_tier", {"service_tier": "cheap"}),
        (
            *("anthropic", "claude-opus-5-5", "forced_tool_choice"),
            {"tools": TOOLS, "tool_choice": "required"},
        ),
        ("anthropic", "claude-opus-4-5", "max_output_tokens", {"max_output_tokens": 64_001}),
        ("anthropic", "claude-haiku-4-5", "reasoning_effort", {"reasoning_effort": "low"}),
        ("anthropic", "claude-opus-4-7", "reasoning_tokens", {"reasoning_tokens": 2048}),
        ("anthropic", "claude-haiku-4-5", "top_p", {"temperature": 0, "top_p": 0.5}),
        ("anthropic", "claude-3-opus-20240229", "response_format", {"response_format": SCHEMA}),
        ("anthropic", "claude-opus-4-5", "only_thinking", {"chat_prompt": THOUGHT}),
        ("anthropic", "claude-opus-4-5", "final_thinking", {"chat_prompt": ENDING}),
        ("gemini", "gemma-3-27b-it", "system_message", {"chat_prompt": LATE}),
        ("gemini", "gemma-3-27b-it", "tools", {"tools": TOOLS}),
        ("gemini", "gemini-2.5-pro", "frequency_penalty", {"frequency_penalty": 0.5}),
        ("gemini", "gemini-2.5-pro", "presence_penalty", {"presence_penalty": 0.5}),
        ("gemini", "gemini-3.8-flash", "reasoning_effort", {"reasoning_effort": "minimal"}),
        ("gemini", "gemini-4-argon", "max_output_tokens", {"max_output_tokens": 32_769}),
    ],
)
def test_what_a_row_refuses_is_sent_where_the_target_says_so(
    vendor: str, model: str, feature: str, request_: dict[str, Any]
) -> None:
    kind, settings = TARGETS[vendor]
    given = chat(USER, **request_)

    def told(**takes: bool) -> str:
        target = {**settings, "model": model, "default_system": "omit", "model_takes": takes}
        return outcome(PROVIDERS[kind](**target), given)

    rules = {row.rule for row in shipped_rows()[vendor.replace("responses", "openai")]}
    assert told() in rules - {""}
    assert told(**{feature: True}) == "ok"
    assert told(**{feature: False}) == "C4"


def test_a_final_message_may_think_where_thinking_is_on() -> None:
    target = {"model": "claude-opus-4-5", "default_system": "omit", "reasoning_tokens": 1024}
    provider = PROVIDERS["anthropic"](**target, max_output_tokens=2048)
    assert outcome(provider, chat(USER, chat_prompt=ENDING)) == "ok"


@pytest.mark.parametrize(
    ("model", "expected"), [("claude-fable-5-2", "?"), ("claude-opus-4-5", "ok")]
)
def test_thinking_that_a_model_binds_to_what_it_followed_is_a_doubt(
    model: str, expected: str
) -> None:
    """A19: whether what stands before it is what it followed is not known."""
    provider = PROVIDERS["anthropic"](model=model, default_system="omit")
    assert outcome(provider, chat(USER, chat_prompt=(HELLO, SPOKEN, HELLO))) == expected
    told = PROVIDERS["anthropic"](
        model=model, default_system="omit", model_takes={"recorded_thinking": True}
    )
    assert outcome(told, chat(USER, chat_prompt=(HELLO, SPOKEN, HELLO))) == "ok"


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("ft:o4-mini-2025-04-16:acme::abc", "o4-mini"),
        ("ft:gpt-5-mini:acme:tuned:1", "gpt-5-mini"),
        ("models/gemini-2.5-flash", "gemini-2.5-flash"),
        ("publishers/google/models/gemini-2.0-flash-001", "gemini-2.0-flash"),
        ("gemini-2.5-flash-preview-05-20", "gemini-2.5-flash-preview"),
        ("gemini-2.5-pro-preview-09-2025", "gemini-2.5-pro-preview"),
        ("claude-3-7-sonnet-latest", "claude-3-7-sonnet"),
        ("claude-opus-latest", "claude-opus"),
        ("claude-sonnet-4@20250514", "claude-sonnet-4"),
        ("anthropic/claude-opus-4.6", "claude-opus-4-6"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("anthropic.claude-3-haiku-20240307-v1:0", "claude-3-haiku"),
        ("openai/gpt-5:free", "gpt-5"),
        ("gpt-5-chat-latest", "gpt-5-chat"),
        ("gpt-4.1-mini-2025-04-14", "gpt-4.1-mini"),
        ("gpt-3.5-turbo-0125", "gpt-3.5-turbo"),
        ("my-o1", "my-o1"),
    ],
)
def test_the_plain_name_of(written: str, plain: str) -> None:
    assert plain_name(written) == plain
