"""``multiturn run`` says what requests cost before they are sent, and afterwards; it keeps limits.

The server counts 11 input and 7 output tokens for each request. Each case is "2 + 2 = 4", after the
system message "You are a careful assistant.".
"""

import asyncio
import math
import re
import signal
from pathlib import Path
from typing import Any

import pytest

import commands
import multiturn
from loopback import TEXT, Server, completion
from media_files import image, pdf
from multiturn import (
    Estimate,
    LimitReachedError,
    MultiturnError,
    Result,
    RunCase,
    Tokens,
    load_suite,
)
from multiturn.model import tokens
from multiturn.providers.prices import Price, Rates
from running import by_id, records, run, start, wait_for, write_suite
from vendors import openai

TARGETS = """\
- {name: gpt, provider: openai, api_key: abcdef, model: gpt-4o}
- {name: short, provider: openai, api_key: abcdef, model: gpt-4o, max_output_tokens: 100}
- {name: house, provider: openai, base_url: "URL/v1", api_key: abcdef, model: house-model}
- {name: claude, provider: anthropic, base_url: "URL", api_key: abcdef, model: claude-haiku-4-5}
- {name: dear, provider: openai, base_url: "URL/v1", api_key: abcdef, model: gpt-4o}
"""
PRICES = """\
gpt-4o: {input: 1000, output: 10000, batch_input: 500, batch_output: 5000}
house-model: {input: 1000, output: 10000, cached_input: 100}
"""
OF_CASE = 6 + 7 + 4 + 4 + 3  # tokens: of the texts, of two messages, of the beginning of the answer


@pytest.fixture
def folder(tmp_path: Path, server: Server) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "targets.yaml").write_text(TARGETS.replace("URL", server.url))
    (tmp_path / "prices.yaml").write_text(PRICES)
    write_suite(tmp_path, ["2 + 2 = 4"] * 10)
    return tmp_path


def summary(folder: Path, *arguments: str) -> list[str]:
    """Return the lines of a dry run with our prices, without the day of their file."""
    done = run("a.eval.yaml", "--dry-run", "--prices", "prices.yaml", *arguments, folder=folder)
    assert done.returncode == 0
    return re.sub(r", changed on \d{4}-\d\d-\d\d", "", done.stderr).splitlines()


def test_a_dry_run_says_what_the_requests_cost(folder: Path) -> None:
    assert summary(folder, "--target", "short") == [
        "10 to send, 0 to reuse, 0 refused; nothing was sent",
        "240 input tokens; at most 1,000 output tokens",
        "$0.24 for the input, at most $10.24 in all; as a batch $0.12 for the input, at most $5.12"
        " in all (prices of prices.yaml)",
    ]


def test_the_price_is_said_to_be_without_media(folder: Path) -> None:
    (folder / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    shot = "{type: image, value: a.png}"
    (folder / "a.eval.yaml").write_text(
        f"evalcases: [{{id: a, input_messages: [{{role: user, content: [Hi, {shot}]}}]}}]\n"
    )
    tokens, price = summary(folder, "--target", "short")[1:]
    assert ", without 1 image or other media (not known); at most 100 " in tokens
    assert price.endswith(" in all; all without images or other media (prices of prices.yaml)")


def test_an_output_without_a_limit_is_said(folder: Path) -> None:
    assert summary(folder, "--target", "gpt")[1:] == [
        "240 input tokens; the output has no limit",
        "$0.24 for the input; as a batch $0.12 for the input (prices of prices.yaml)",
    ]


def test_the_price_of_a_model_is_that_of_the_package_with_its_day(folder: Path) -> None:
    done = run("a.eval.yaml", "--dry-run", "--target", "claude", folder=folder)
    tokens, money = done.stderr.splitlines()[1:]
    assert re.fullmatch(r"about \d+ input tokens; at most 40,960 output tokens", tokens)
    # Anthropic, November 2026: $5 for a million output tokens
    assert re.fullmatch(
        r"about \$0\.00\d+ for the input, at most \$0\.21 in all; as a batch \$0\.00\d+ for the"
        r" input, at most \$0\.10 in all \(prices of 2026-\d\d-\d\d or later, from genai-prices"
        r" [\d.]+\)",
        money,
    )


def test_no_price_is_said_and_never_guessed(folder: Path) -> None:
    done = run("a.eval.yaml", "--dry-run", "--target", "house", folder=folder)
    assert done.stderr.splitlines()[2] == (
        "no price is known for 'house-model'; give prices in a file (--prices)"
    )


@pytest.mark.parametrize("target", ["echo", "short"])
def test_a_file_of_prices_that_is_not_there_is_an_error_of_each_target(
    folder: Path, target: str
) -> None:
    done = run("a.eval.yaml", "--dry-run", "--target", target, "--prices=no.yaml", folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no.yaml" in done.stderr


def test_cases_that_do_not_fit_the_model_are_named(folder: Path) -> None:
    write_suite(folder, ["Hello", "word " * 250_000, "word " * 260_000])
    done = run("a.eval.yaml", "--dry-run", "--target", "claude", folder=folder)
    assert done.stderr.splitlines()[3] == (
        "2 cases do not fit claude-haiku-4-5 (200,000 tokens): a.eval.yaml: c1, c2"
    )


def test_a_hundred_cases_that_do_not_fit_are_named() -> None:
    rate = ((0, 1.0),)
    found = Estimate(Price(now=Rates(input=rate, output=rate), source="a test", most_input=10))
    for number in range(103):
        result = Result(suite="s", id=str(number), target="t")
        found.add(RunCase("send", result, tokens=Tokens(10 if number == 0 else 11)))
    assert (found.cases, found.too_large) == (103, 102)
    assert found.named == [("s", str(number)) for number in range(1, 101)]


def test_what_is_reused_costs_nothing(folder: Path, server: Server) -> None:
    run("a.eval.yaml", "--target", "dear", "--output", "out", "--case", "c3", folder=folder)
    again = summary(folder, "--target", "dear", "--output", "out", "--resume")
    assert again[1] == "216 input tokens; the output has no limit"  # 9 cases


def test_a_run_adds_up_what_the_vendor_counted(folder: Path, server: Server) -> None:
    usage = {"prompt_tokens": 30, "completion_tokens": 5}
    server.answer(body={"choices": [{"message": {"content": "4"}}], "usage": usage})
    cached = {**usage, "prompt_tokens_details": {"cached_tokens": 20}}
    server.answer(body={"choices": [{"message": {"content": "4"}}], "usage": cached})
    write_suite(folder, ["2 + 2 = 4"] * 2)
    arguments = ("--target", "house", "--prices", "prices.yaml", "--output", "out.jsonl")
    done = run("a.eval.yaml", *arguments, folder=folder)
    assert done.returncode == 0
    # 40 tokens at a thousandth of a dollar, 20 at a tenth of that, and 10 at a hundredth; the
    # estimate is 10 tokens for the texts of a case (380/64 and 251/64), and 11 for its messages
    assert re.sub(r", changed on \S+\)", ")", done.stderr).splitlines()[1:] == [
        "60 input tokens (20 from the cache), 10 output tokens: $0.14 (prices of prices.yaml);"
        " the estimate of the input was 30% too low"
    ]


def test_cases_with_media_that_nobody_knows_are_not_in_the_comparison(
    folder: Path, server: Server
) -> None:
    for counted in (30, 9_000):
        usage = {"prompt_tokens": counted, "completion_tokens": 5}
        server.answer(body={"choices": [{"message": {"content": "4"}}], "usage": usage})
    (folder / "a.png").write_bytes(image())
    write_suite(folder, ["2 + 2 = 4"])
    shot = "content: [{type: image, value: a.png}]"
    suite = f"evalcases: [{{id: b, input_messages: [{{role: user, {shot}}}]}}]"
    (folder / "b.eval.yaml").write_text(suite)
    given = ("--target", "house", "--concurrency", "1", "--prices", "prices.yaml", "--output", "o")
    done = run("a.eval.yaml", "b.eval.yaml", *given, folder=folder)
    assert (done.returncode, len(server.requests)) == (0, 2)
    assert done.stderr.splitlines()[-1].endswith(
        "; the estimate of the input was 30% too low, without 1 case with images or other media"
        " (not known)"
    )


@pytest.mark.parametrize(("options", "loads"), [((), False), (("--max-tokens", "9999"), True)])
def test_a_run_without_a_limit_loads_no_tables_of_a_tokenizer(
    folder: Path, server: Server, monkeypatch: pytest.MonkeyPatch, options: Any, loads: bool
) -> None:
    loaded: list[str] = []
    monkeypatch.setattr(tokens, "_published", loaded.append)
    write_suite(folder, ["word " * 2_000] * 3)  # which share a prefix that is long enough to cache
    done = run("a.eval.yaml", "--target", "dear", *options, "--output", "out", folder=folder)
    assert (done.returncode, len(server.requests)) == (0, 3)
    assert ("the estimate of the input" in done.stderr, {*loaded} == {"o200k_base"}) == (loads,) * 2


LIMITS = [
    pytest.param(
        ("--max-tokens", "200"), "240 input tokens exceed --max-tokens 200", id="of tokens"
    ),
    pytest.param(
        ("--max-cost", "0.2"), "$0.24 for the input alone exceeds --max-cost 0.2", id="of cost"
    ),
]


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
@pytest.mark.parametrize(("limit", "error"), LIMITS)
def test_a_run_beyond_a_limit_is_refused_before_anything_is_sent(
    folder: Path, server: Server, limit: tuple[str, str], error: str, more: tuple[str, ...]
) -> None:
    given = ("--target", "gpt", "--prices", "prices.yaml", *limit, *more)
    done = run("a.eval.yaml", *given, folder=folder)
    assert (done.returncode, server.requests) == (2, [])
    assert done.stderr.splitlines()[-1] == f"Error: {error}; nothing was sent"


# 24 tokens cost 6 dollars, and an answer of 120 tokens 30: binary fractions have all of these.
EXACT = "gpt-4o: {input: 250000, output: 250000}"


@pytest.mark.parametrize("limit", [("--max-tokens", "240"), ("--max-cost", "60")])
def test_a_run_may_have_as_much_input_as_its_limit(folder: Path, limit: tuple[str, str]) -> None:
    (folder / "prices.yaml").write_text(EXACT)
    assert summary(folder, "--target", "gpt", *limit)[0].startswith("10 to send")


# The first answer is counted as 120 tokens, and the second request as 24.
@pytest.mark.parametrize(
    ("limit", "sent"),
    [
        (("--max-tokens", "144"), 2),
        (("--max-tokens", "143"), 1),
        (("--max-cost", "36"), 2),
        (("--max-cost", "35.9"), 1),
    ],
)
def test_a_request_is_sent_that_reaches_the_limit_exactly(
    folder: Path, server: Server, limit: tuple[str, str], sent: int
) -> None:
    (folder / "prices.yaml").write_text(EXACT)
    write_suite(folder, ["2 + 2 = 4"] * 2)
    usage = {"prompt_tokens": 100, "completion_tokens": 20}
    body = {"choices": [{"message": {"content": "4"}}], "usage": usage}
    server.answer(body=body, times=None)
    given = ("--target", "dear", "--prices", "prices.yaml", "--concurrency", "1", *limit)
    done = run("a.eval.yaml", *given, "--output", "out.jsonl", folder=folder)
    assert (done.returncode, len(server.requests)) == (2 - sent, sent)


def test_a_limit_of_cost_needs_a_price(folder: Path, server: Server) -> None:
    done = run("a.eval.yaml", "--target", "house", "--max-cost", "5", folder=folder)
    assert (done.returncode, server.requests) == (2, [])
    assert done.stderr == (
        "Error: --max-cost needs a price: no price is known for 'house-model'; give prices in a"
        " file (--prices)\n"
    )


def test_a_run_that_sends_nothing_needs_no_limit(folder: Path) -> None:
    done = run("a.eval.yaml", "--max-cost", "5", folder=folder)
    said = "Error: --max-cost needs a price: echo costs nothing; leave it out\n"
    assert (done.returncode, done.stderr) == (2, said)


# Each answer is counted as 120 tokens, which cost 0.3 dollars. The next request counts as 24 tokens
# or 0.024 dollars, so that the third is sent, and the fourth is not.
@pytest.mark.parametrize(
    ("limit", "stopped"),
    [
        (("--max-tokens", "300"), "stopped at --max-tokens 300: 360 tokens used"),
        (("--max-cost", "0.7"), "stopped at --max-cost 0.7: $0.90 spent"),
    ],
)
def test_a_run_stops_at_its_limit_and_can_be_resumed(
    folder: Path, server: Server, limit: tuple[str, str], stopped: str
) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 20}
    for _ in range(3):
        server.answer(body={"choices": [{"message": {"content": "4"}}], "usage": usage})
    given = ("a.eval.yaml", "--target", "dear", "--prices", "prices.yaml", "--output", "out.jsonl")
    done = run(*given, *limit, "--concurrency", "1", folder=folder)
    assert (done.returncode, len(server.requests)) == (1, 3)
    assert len(by_id(folder / "out.jsonl")) == 3
    kept = "finished results are in out.jsonl; continue with --resume"
    assert done.stderr.splitlines()[-1] == f"{stopped}; {kept}"
    done = run(*given, "--resume", folder=folder)
    assert (done.returncode, len(server.requests)) == (0, 10)
    assert len(by_id(folder / "out.jsonl")) == 10


def test_an_interrupted_run_says_what_it_has_cost(folder: Path, server: Server) -> None:
    server.answer("4")
    server.stall(seconds=60)
    given = ("--target", "dear", "--prices", "prices.yaml", "--output", "out.jsonl")
    process = start("a.eval.yaml", *given, "--concurrency", "1", folder=folder)
    wait_for(lambda: len(server.requests) == 2)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    spent, interrupted = stderr.splitlines()
    assert spent.startswith("11 input tokens, 7 output tokens: $0.081 (prices of prices.yaml")
    assert interrupted.startswith("interrupted after 1 case: finished results are in out.jsonl")


def test_only_what_is_still_to_be_sent_counts_for_a_limit(folder: Path, server: Server) -> None:
    given = ("a.eval.yaml", "--target", "dear", "--output", "out.jsonl")
    run(*given, "--case", "c3", folder=folder)
    assert run(*given, "--resume", "--max-tokens", "220", folder=folder).returncode == 0
    assert len(server.requests) == 10  # 9 of 24 tokens, which fit, and one before


def test_what_memory_does_not_hold_is_read_twice(
    folder: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("multiturn.engine.run._MOST_HELD", 1)
    suite = (folder / "a.eval.yaml").read_text()
    given = ("--target", "dear", "--max-tokens", "240")
    done = commands.run("run", "-", *given, folder=folder, given=suite)
    assert (done.returncode, done.stderr) == (
        2,
        "Error: a limit, or strict, reads requests of more than 0 MiB twice, and '-' can be"
        " read only once; write it to a file\n",
    )
    with pytest.raises(MultiturnError, match="an iterator of cases can be read only once"):
        asyncio.run(results(load_suite(folder / "a.eval.yaml"), server, max_cost=5))
    assert server.requests == []
    assert run("a.eval.yaml", *given, folder=folder).returncode == 0
    assert len(server.requests) == 10


async def results(cases: Any, server: Server, **limits: Any) -> list[Result]:
    """Return the results of a run from Python, one request after the other."""
    given = {"prices": "prices.yaml", "concurrency": 1, **limits}
    async with openai(server.url) as provider:
        return [result async for result in multiturn.run(cases, None, provider, **given)]


def test_a_request_that_fails_costs_nothing(folder: Path, server: Server) -> None:
    server.fail(400, "no", times=9)
    given = ("--target", "dear", "--prices", "prices.yaml", "--output", "out.jsonl")
    done = run("a.eval.yaml", *given, "--max-cost", "0.25", "--concurrency", "1", folder=folder)
    assert len(server.requests) == 10
    assert "stopped" not in done.stderr


def test_python_gets_the_estimate_and_the_limits(
    folder: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    target = openai(server.url)
    found = multiturn.estimate(
        multiturn.dry_run("a.eval.yaml", None, target), target, prices="prices.yaml"
    )
    assert (found.cases, found.input, found.is_exact, found.unlimited) == (10, 240, True, 10)
    assert (found.input_cost, found.batch_input_cost) == pytest.approx((0.24, 0.12))

    with pytest.raises(MultiturnError, match="240 input tokens exceed max_tokens=100"):
        asyncio.run(results("a.eval.yaml", server, max_tokens=100))
    assert server.requests == []
    with pytest.raises(LimitReachedError, match=r"stopped at max_cost=0\.25: \$0\.24 spent"):
        asyncio.run(results("a.eval.yaml", server, max_cost=0.25))
    assert len(server.requests) == 3  # 11 tokens and 7, for 0.081 dollars each


def test_a_batch_that_might_exceed_a_limit_is_refused(folder: Path, server: Server) -> None:
    write_suite(folder, [f"{number} + 2 = 4" for number in range(10)])
    given = ("a.eval.yaml", "--prices", "prices.yaml", "--batch", "--output", "out.jsonl")
    done = run(*given, "--target", "short", "--max-cost", "5", folder=folder)
    assert (done.returncode, done.stderr) == (
        *(2, "Error: $5.12 with the output exceeds --max-cost 5; nothing was sent\n"),
    )
    done = run(*given, "--target", "gpt", "--max-cost", "5", folder=folder)
    assert (done.returncode, done.stderr) == (
        2,
        "Error: a batch cannot be stopped, so a limit of the run needs a limit of each answer; set"
        " max_output_tokens in the target\n",
    )
    assert server.requests == []


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_equal_requests_of_a_batch_count_once_for_a_limit(
    folder: Path, server: Server, more: tuple[str, ...]
) -> None:
    given = ("--target", "short", "--batch", "--output", "out.jsonl", "--max-tokens")
    done = run("a.eval.yaml", *given, str(OF_CASE + 99), *more, folder=folder)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        *(2, "Error: 124 tokens with the output exceed --max-tokens 123; nothing was sent"),
    )
    assert server.requests == []


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_a_limited_batch_whose_tokens_nobody_knows_is_refused(
    folder: Path, server: Server, more: tuple[str, ...]
) -> None:
    (folder / "a.pdf").write_bytes(pdf())
    write_suite(folder, [[{"type": "file", "value": "a.pdf"}, f"page {page}"] for page in (1, 2)])
    given = ("--target", "short", "--batch", "--output", "out.jsonl", *more)
    done = run("a.eval.yaml", *given, "--max-tokens", "1000", folder=folder)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        2,
        "Error: a batch cannot be stopped, so a limit of the run needs all input tokens, and those"
        " of 2 images or other media are not known; have a dry run count them (--count-tokens), and"
        " leave out the limit",
    )
    assert server.requests == []


def test_batches_from_python_have_the_limits_too(
    folder: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    write_suite(folder, [f"{number} + 2 = 4" for number in range(10)])
    target = openai(server.url, max_output_tokens=100)
    limits: dict[str, Any] = {"max_cost": 5, "prices": "prices.yaml"}
    with pytest.raises(MultiturnError, match=r"\$5\.12 with the output exceeds max_cost=5"):
        list(multiturn.run_batches("a.eval.yaml", None, target, "out.jsonl", **limits))
    assert server.requests == []


@pytest.mark.parametrize("number", ["nan", "inf"])
def test_what_is_no_number_is_no_limit(folder: Path, server: Server, number: str) -> None:
    done = run("a.eval.yaml", "--target", "house", "--max-cost", number, folder=folder)
    assert (done.returncode, server.requests) == (2, [])
    assert "Error: --max-cost takes a number of dollars, such as 5\n" in done.stderr


@pytest.mark.parametrize("limit", ["max_cost", "max_tokens"])
@pytest.mark.parametrize("number", [math.nan, 0, -1])
def test_a_limit_from_python_is_above_0(
    folder: Path, server: Server, monkeypatch: pytest.MonkeyPatch, limit: str, number: float
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(ValueError, match=f"^{limit} must be a number above 0$"):
        asyncio.run(results("a.eval.yaml", server, **{limit: number}))
    assert server.requests == []


def test_numbers_of_tokens_that_cannot_be_are_left_out(folder: Path, server: Server) -> None:
    usage = {"prompt_tokens": 10**400, "completion_tokens": -1}
    body = completion("openai", TEXT) | {"usage": usage}
    server.answer(body=body, times=None)
    given = ("--target", "house", "--prices", "prices.yaml", "--output", "out.jsonl")
    done = run("a.eval.yaml", *given, folder=folder)
    assert done.returncode == 0
    assert [result["usage"] for result in records(folder / "out.jsonl")] == [{}] * 10
