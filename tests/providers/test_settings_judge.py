"""The judge of settings takes and refuses what is known, and its bodies say what they claim."""

from typing import Any

import pytest

from providers.settings_judge import (
    Finding,
    bodies,
    decide,
    facts_of,
    judge,
    models,
    rows,
    sections,
    verdict,
)

CHAT, RESPONSES, CLAUDE = "openai chat", "openai responses", "anthropic"
APIS = (CHAT, RESPONSES, CLAUDE, "gemini")
OLD = "2023-06-01"
JSON, OPEN = "structured output", {"name": "a", "strict": True, "parameters": {"type": "object"}}
LOW = {"thinkingLevel": "LOW", "thinkingBudget": 2048}
SOME = {"functionCallingConfig": {"mode": "SOME"}}
UNION = {"type": "object", "anyOf": [{"type": "object"}]}


def body_of(api: str, model: str, setting: str, value: Any) -> dict[str, Any]:
    return next(
        each.body for each in bodies(api, model) if (each.setting, each.value) == (setting, value)
    )


@pytest.mark.parametrize(
    ("api", "model", "setting", "value", "expected", "fact"),
    [
        (CHAT, "gpt-4o", "temperature", 0.5, "accepted", ""),
        (CHAT, "gpt-5-mini", "temperature", 1, "accepted", ""),
        (CHAT, "gpt-5-mini-2025-08-07", "temperature", 0.5, "refused", "temperature"),
        (CHAT, "gpt-6-astra", "temperature", 1, "unknown", "temperature"),
        (CHAT, "gpt-6.2-sol", "frequency_penalty", 0.5, "refused", "penalties"),
        (CHAT, "gpt-4.1", "top_k", 40, "refused", "top_k"),
        (CHAT, "o3", "stop", ["END"], "refused", "stop"),
        (RESPONSES, "gpt-4o", "seed", 3, "refused", "seed"),
        (CHAT, "gpt-5.4", "reasoning_effort", "none", "accepted", ""),
        (CHAT, "gpt-5.4", "reasoning_effort", "minimal", "refused", "effort value"),
        (CHAT, "gpt-6-astra", "reasoning_effort", "max", "unknown", "effort value"),
        (RESPONSES, "gpt-6-astra", "reasoning_effort", "max", "accepted", ""),
        (CHAT, "gpt-4o-2024-05-13", "response_format", "json_schema", "refused", JSON),
        (CHAT, "gpt-4o-2024-08-06", "response_format", "json_schema", "accepted", ""),
        (CHAT, "gpt-5.6-luna", "tool_choice", "auto", "refused", "tools over chat"),
        (RESPONSES, "gpt-5.6-luna", "tool_choice", "required", "accepted", ""),
        (CHAT, "gpt-5.5", "tool_choice", "auto", "unknown", "tools over chat"),
        (CHAT, "o4-mini", "parallel_tool_calls", False, "refused", "parallel"),
        (CHAT, "o1-mini", "system", "Be brief.", "refused", "system"),
        (CHAT, "gpt-audio", "plain", None, "refused", "needs audio"),
        (RESPONSES, "gpt-audio", "plain", None, "refused", "endpoint"),
        (CHAT, "gpt-4o", "max_output_tokens", 1_000_000, "refused", "largest output"),
        (CHAT, "gpt-4o", "max_output_tokens", 100, "accepted", ""),
        (CHAT, "gpt-4o", "verbosity", "low", "refused", "verbosity"),
        (RESPONSES, "gpt-4o", "verbosity", "low", "refused", "verbosity"),
        (CHAT, "gpt-5.6-sol", "service_tier", "flex", "accepted", ""),
        (CLAUDE, "claude-opus-5-5", "tool_choice", "river", "refused", "forced tool choice"),
        (CLAUDE, "claude-opus-5-5", "tool_choice", "auto", "accepted", ""),
        (CLAUDE, "claude-fable-5", "tool_choice", "required", "unknown", "forced tool choice"),
        (CLAUDE, "claude-sonnet-4-6", "temperature", 1, "refused", "temperature"),
        (CLAUDE, "claude-haiku-4-5", "reasoning_effort", "low", "refused", "effort value"),
        (CLAUDE, "claude-opus-4-7", "reasoning_tokens", 2048, "refused", "thinking form"),
        (CLAUDE, "claude-opus-4-5", "max_output_tokens", 1_000_000, "refused", "largest output"),
        (CLAUDE, "claude-sonnet-4-5", "response_format", "json_object", "refused", JSON),
        (CLAUDE, "claude-opus-4-0", "reasoning_effort", "high", "refused", "effort value"),
        (CLAUDE, "claude-opus-5", "seed", 3, "refused", "seed"),
        ("gemini", "gemma-3-27b-it", "system", "Be brief.", "refused", "system"),
        ("gemini", "gemini-2.5-pro", "presence_penalty", 0.5, "refused", "penalties"),
        ("gemini", "gemini-3.8-flash", "reasoning_effort", "minimal", "refused", "effort value"),
        ("gemini", "gemini-2.5-flash", "reasoning_tokens", 2048, "accepted", ""),
        ("gemini", "gemini-4-carbon", "top_k", 40, "unknown", "top_k"),
        ("gemini", "gemini-3.5-flash", "parallel_tool_calls", False, "refused", "parallel"),
    ],
)  # fmt: skip
def test_judges_one_setting(
    api: str, model: str, setting: str, value: Any, expected: str, fact: str
) -> None:
    found = judge(api, model, body_of(api, model, setting, value))
    assert (verdict(found), fact) == (expected, found[0].fact if found else "")
    assert all(finding.source for finding in found)


def test_the_older_version_of_the_api_takes_a_temperature() -> None:
    body = body_of(CLAUDE, "claude-sonnet-4-6", "temperature", 0.5)
    assert judge(CLAUDE, "claude-sonnet-4-6", body, OLD) == []
    both = judge(CLAUDE, "claude-sonnet-4-6", {**body, "top_p": 0.5}, OLD)
    assert [(each.verdict, each.fact) for each in both] == [("refused", "top_p")]


def test_a_condition_decides_with_the_value() -> None:
    """gpt-5.6 takes tools over chat with effort none only; Opus 5 thinks with effort max."""
    body = body_of(CHAT, "gpt-5.6", "tool_choice", "auto")
    assert judge(CHAT, "gpt-5.6", {**body, "reasoning_effort": "none"}) == []
    off = {"thinking": {"type": "disabled"}, "output_config": {"effort": "max"}}
    plain = body_of(CLAUDE, "claude-opus-5", "plain", None)
    found = judge(CLAUDE, "claude-opus-5", {**plain, **off})
    assert [(each.verdict, each.fact) for each in found] == [("refused", "thinking form")]


@pytest.mark.parametrize(
    ("api", "change", "fact"),
    [
        (CHAT, {"seed": "3"}, "seed"),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "txt"}]}]}, "form"),
        (CHAT, {"stop": ["1", "2", "3", "4", "5"]}, "stop"),
        (CHAT, {"tools": [{"type": "function", "function": OPEN}]}, "tool schema"),
        (RESPONSES, {"text": {"verbosity": "none"}}, "verbosity"),
        (RESPONSES, {"reasoning": {"effort": "huge"}}, "effort value"),
        (CLAUDE, {"tools": [{"name": "a", "input_schema": UNION}]}, "tool schema"),
        (CLAUDE, {"tools": [{"name": "a"}]}, "form"),
        (CLAUDE, {"thinking": {"type": "enabled", "budget_tokens": 1000}}, "thinking form"),
        ("gemini", {"generationConfig": {"seed": "3"}}, "seed"),
        ("gemini", {"generationConfig": {"thinkingConfig": LOW}}, "thinking form"),
        ("gemini", {"toolConfig": SOME}, "forced tool choice"),
        ("gemini", {"stopSequences": ["END"]}, "stop"),
    ],
)  # fmt: skip
def test_refuses_what_is_malformed(api: str, change: dict[str, Any], fact: str) -> None:
    model = {"anthropic": "claude-sonnet-4-5", "gemini": "gemini-3-flash"}.get(api, "gpt-5")
    found = judge(api, model, {**body_of(api, model, "plain", None), **change})
    assert ("refused", fact) in [(each.verdict, each.fact) for each in found]


def test_what_no_row_names_is_unknown() -> None:
    found = Finding("unknown", "temperature", 0.5, "no source says")
    assert decide(CHAT, "gpt-7", "temperature", {"temperature": 0.5}) == found


def facts_with_rows() -> set[str]:
    return {name.partition(": ")[2] for name in sections() if not name.startswith("names")}


@pytest.mark.parametrize("api", APIS)
def test_each_row_is_read(api: str) -> None:
    for fact in facts_with_rows():
        assert all(row.models and row.values and row.source for row in rows(api, fact)), fact


def test_there_are_a_hundred_models() -> None:
    assert len({model for api in APIS for model in models(api)}) >= 100


@pytest.mark.parametrize("api", APIS)
def test_each_body_sets_one_thing_more(api: str) -> None:
    model = models(api)[-1]
    plain = facts_of(api, body_of(api, model, "plain", None))
    for sample in bodies(api, model):
        settings = facts_of(api, sample.body)
        assert settings.keys() <= facts_with_rows() | {"verbosity", "parallel"}
        more = {fact for fact, value in settings.items() if plain.get(fact) != value}
        is_tool = sample.setting in ("tool_choice", "parallel_tool_calls")
        assert len(more) <= (2 if is_tool else 1), sample
        # What an API has no field for is refused by its form.
        assert more or sample.setting == "plain" or judge(api, model, sample.body), sample
