"""What tokens cost: the rates of the package or of a file, by the name of the model."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from genai_prices import Usage as TheirUsage
from genai_prices import calc_price

from multiturn.engine.costs import price_for
from multiturn.errors import MultiturnError
from multiturn.providers.prices import Price, Usage, price_of
from vendors import anthropic, azure, echo, gemini, openai

MODELS = ["claude-haiku-4-5", "claude-opus-4-8", "gpt-5.6", "gpt-4o-mini", "gemini-2.5-pro"]
USAGES = [
    Usage(1_000, 200),
    Usage(100_000, 4_096, cached=60_000),
    Usage(300_000, 1_000, cached=100_000, written=50_000),  # above where some prices rise
]
FILE = """\
house-model: {input: 2, output: 10, cached_input: 0.5, batch_input: 1, batch_output: 5}
gpt-4o: {input: 7, output: 8}
gpt-x: {input: 1, output: 2}
"""


@pytest.mark.parametrize("usage", USAGES)
@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_costs_are_those_of_the_package(model: str, batch: bool, usage: Usage) -> None:
    price = price_of(model)
    assert price is not None
    rates = price.batch if batch else price.now
    assert rates is not None
    written = usage.written if rates.written else 0  # the others write for nothing
    theirs = calc_price(
        TheirUsage(
            input_tokens=usage.input,
            output_tokens=usage.output,
            cache_read_tokens=usage.cached,
            cache_write_tokens=written,
        ),
        model,
        genai_request_timestamp=datetime.now(UTC),
        price_context={"processing": "batch"} if batch else None,
    )
    assert rates.cost(usage) == pytest.approx(float(theirs.total_price))


# Anthropic's page of prices, 22 November 2026: $1 and $5, reading the cache $0.10, writing into it
# $1.25 for five minutes or $2 for an hour; batches at half.
def test_caches_and_batches_have_rates_of_their_own() -> None:
    price = price_of("claude-haiku-4-5")
    assert price is not None
    assert price.batch is not None
    usage = Usage(1_000_000, 100_000, cached=500_000, written=400_000)
    assert price.now.cost(usage) == pytest.approx(0.1 + 0.5 + 0.05 + 0.5)
    assert price.batch.cost(usage) == pytest.approx((0.1 + 0.5 + 0.05 + 0.5) / 2)
    hour = price_for(anthropic(model="claude-haiku-4-5", prompt_caching="1h"))
    assert hour is not None
    assert hour.now.cost(usage) == pytest.approx(0.1 + 0.5 + 0.05 + 0.8)


@pytest.mark.parametrize("model", ["gpt-99", "llama-3.3-70b", "my-deployment", "ft:gpt-4o:acme::x"])
def test_a_model_without_a_known_price_has_none(model: str) -> None:
    assert price_for(openai(model=model)) is None


def test_a_model_has_its_price_at_every_address_but_a_deployment_has_none() -> None:
    direct = price_for(gemini(model="gemini-2.5-flash"))
    assert direct is not None
    assert price_for(openai(model="gemini/gemini-2.5-flash")) == direct
    assert price_for(azure(model="gpt-4o")) is None
    assert price_for(echo()) is None


def test_prices_of_a_file_win(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(FILE)
    house = price_for(openai(model="acme/house-model"), path)
    assert house is not None
    assert house.batch is not None
    usage = Usage(1_000_000, 100_000, cached=200_000)
    assert house.now.cost(usage) == pytest.approx(0.8 * 2 + 0.2 * 0.5 + 0.1 * 10)
    assert house.batch.cost(Usage(1_000_000, 100_000)) == pytest.approx(1 + 0.5)
    assert f"{path}, changed on {datetime.now(UTC).date()}" in house.source
    changed = price_for(openai(model="gpt-4o"), path)
    assert changed is not None
    assert changed.now.cost(Usage(1_000_000)) == 7
    assert (changed.batch, changed.most_input) == (None, 128_000)
    deployment = price_for(azure(model="gpt-x"), path)
    assert deployment is not None
    assert price_for(anthropic(model="claude-haiku-4-5"), path) == price_of("claude-haiku-4-5")


def test_without_the_package_only_a_file_has_prices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "genai_prices.data_snapshot", None)
    path = tmp_path / "prices.yaml"
    path.write_text(FILE)
    assert price_of("claude-haiku-4-5") is None
    assert isinstance(price_of("gpt-4o", str(path)), Price)


def test_prices_are_read_from_regular_files_only(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_text(" " * 2**21)
    words_of = {"pipe": "this is not a regular file", "large": "of over 1,048,576 bytes"}
    for name, words in words_of.items():
        with pytest.raises(MultiturnError, match=words):
            price_of("m", str(tmp_path / name))
