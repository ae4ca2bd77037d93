"""What is known of models: a table typed by hand says what is expected, and why."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from multiturn import ProviderError
from multiturn.logs import Notice, warnings_to
from multiturn.providers.models import plain_name, shipped_rows
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
        provider = PROVIDERS[kind](**settings, **old_name, model=model)
        found.append(outcome(provider, request))
    assert found == expected


def test_the_table_has_at_least_60_models() -> None:
    assert len({model.values[1] for model in table()}) >= 60


def test_every_row_has_a_feature_its_source_and_the_day() -> None:
    others = {"names", "source", "seen", "whole", "rule", "api_version"}
    for rows in shipped_rows().values():
        for row in rows:
            features = {*row.__struct_fields__} - others
            assert any(getattr(row, feature) is not None for feature in features)
            assert re.fullmatch(r"2026-\d\d-\d\d", row.seen)
            assert len(row.source) > 5


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
