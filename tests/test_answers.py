"""The report of answers: what changed between two runs, in Python, as Markdown and in a browser."""

import html
import json
import re
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from browser import Reader
from comparing import data_of, run
from multiturn.report.answers import AnswerReport

PRICES = "m: {input: 2, output: 10}\n"
LONG = "The parcel was sent on Monday.\nIt takes three days.\nPlease wait."


def line(case: str, said: str, **changes: Any) -> dict[str, Any]:
    """Return a result as ``run`` writes it, with an answer of the model ``m``."""
    chat = changes.pop("chat", [("system", "You are kind."), ("user", f"Hi {case}")])
    return {
        "suite": "evals/a.eval.yaml",
        "id": case,
        "target": "one",
        "response": said,
        "finish_reason": "stop",
        "usage": {"input_tokens": 1000, "output_tokens": 200},
        "error": None,
        "raw_request": {
            "question": "",
            "guidelines": [],
            "chat_prompt": [{"role": role, "content": text} for role, text in chat],
        },
        "digest": "d",
        "answer": "text",
        "made": {"provider": "openai", "model": "m", "settings_digest": "s"},
        **changes,
    }


def results(folder: Path, name: str, *lines: dict[str, Any]) -> str:
    (folder / name).write_text("".join(json.dumps(each) + "\n" for each in lines))
    return str(folder / name)


BRIEF = [("system", "You are brief."), ("user", "Hi")]
FAILED: dict[str, Any] = {"response": None, "answer": None, "usage": {}}
FAILED |= {"error": {"type": "timeout", "message": "evals/a.eval.yaml:3: no reply"}}


@pytest.fixture
def compared(tmp_path: Path) -> AnswerReport:
    (tmp_path / "prices.yaml").write_text(PRICES)
    before = results(
        *(tmp_path, "old.jsonl"),
        line("same", "Yes.", score=1),
        line("asked", "Yes."),
        line("said", LONG, score=1),
        line("both", "Yes.", score=True),
        line("graded", "Yes.", score={"tone": 1}),
        line("gone", "Yes."),
        line("broken", "Yes."),
    )
    now = results(
        *(tmp_path, "new.jsonl"),
        line("new", "Yes."),
        line("same", "Yes.", score=1),
        line("asked", "Yes.", chat=BRIEF),
        line("said", LONG.replace("three", "four"), score=0),
        line("both", "No.", chat=BRIEF, score=False),
        line("graded", "Yes.", score={"tone": 0}),
        line("broken", "", **FAILED),
    )
    return AnswerReport(now, before, str(tmp_path / "prices.yaml"))


def test_cases_come_in_the_order_of_what_changed(compared: AnswerReport) -> None:
    assert [(case.id, case.status, case.scores) for case in compared.cases] == [
        ("both", "prompt and answer changed", "score: true → false"),
        ("said", "answer changed", "score: 1 → 0"),
        ("broken", "answer changed", ""),
        ("asked", "prompt changed", ""),
        ("graded", "score changed", 'score: {"tone": 1} → {"tone": 0}'),
        ("new", "new", ""),
        ("gone", "removed", ""),
        ("same", "same", ""),
    ]


def test_totals_of_a_target_are_shown_then_and_now(compared: AnswerReport) -> None:
    """An answer costs 1,000 x $2 + 200 x $10 for a million; the mean is of numbers and booleans."""
    assert [*compared.totals()] == [
        ("target", "answers", "failed", "input tokens", "output tokens", "cost", "mean score"),
        (
            *("one", "7 → 6", "0 → 1", "7,000 → 6,000", "1,400 → 1,200", "$0.028 → $0.024"),
            "1.000 → 0.333",
        ),
    ]


def test_an_answer_says_what_is_known_of_it(tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text(PRICES)
    given = line("a", "", answer="calls", finish_reason="tool_calls", score=0.5)
    given["tool_calls"] = [{"id": "c1", "name": "look", "arguments": {"at": "x"}}]
    report = AnswerReport(
        results(tmp_path, "r.jsonl", given, {**given, "repeat": 2, "tool_calls": None}),
        prices=str(tmp_path / "prices.yaml"),
    )
    (case,) = report.cases
    shown = case.texts(1)
    assert shown == (
        *(("system", "You are kind."), ("user", "Hi a")),
        *(("answer (1)", 'look({"at": "x"})'), ("answer (2)", "")),
    )
    words = (
        "m · answer calls · finish reason tool_calls · 1,000 input and 200 output tokens"
        " · $0.0040 · score: 0.5"
    )
    assert report.facts(case.sides[1]["answer (1)"], shown[:2]) == words
    other = f"{words} · another prompt than the one above"
    assert report.facts(case.sides[1]["answer (1)"], shown[:1]) == other


def test_two_files_of_one_target_each_compare_the_targets(tmp_path: Path) -> None:
    before = results(tmp_path, "old.jsonl", line("a", "Yes."))
    made = {"provider": "openai", "model": "n", "settings_digest": "t"}
    now = results(tmp_path, "new.jsonl", line("a", "No.", target="two", made=made))
    (case,) = AnswerReport(now, before).cases
    assert case.status == "answer changed"


def test_each_target_and_repeat_is_compared_with_its_own(tmp_path: Path) -> None:
    names = [(target, repeat) for target in ("one", "two") for repeat in (1, 2)]
    sides = [
        results(
            *(tmp_path, name),
            *(line("a", f"{t} {r} {name * (t == 'two')}", target=t, repeat=r) for t, r in names),
        )
        for name in ("old.jsonl", "new.jsonl")
    ]
    (case,) = AnswerReport(sides[1], sides[0]).cases
    assert [case.texts(at)[2:] for at in (0, 1)] == [
        (
            ("answer of one (1)", "one 1 "),
            ("answer of one (2)", "one 2 "),
            ("answer of two (1)", f"two 1 {name}"),
            ("answer of two (2)", f"two 2 {name}"),
        )
        for name in ("old.jsonl", "new.jsonl")
    ]


@pytest.mark.parametrize("is_gone", [True, False])
def test_an_answer_that_only_one_run_has_is_a_change_of_its_case(
    tmp_path: Path, *, is_gone: bool
) -> None:
    both = [line("a", "Yes.", target=target) for target in ("one", "two")]
    sides = [results(tmp_path, "all.jsonl", *both), results(tmp_path, "one.jsonl", both[0])]
    (case,) = AnswerReport(*(sides[::-1] if is_gone else sides)).cases
    assert case.status == "answer changed"


def test_a_file_that_begins_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    """Programs of Windows write one."""
    path = Path(results(tmp_path, "a.jsonl", line("a", "Yes."), line("b", "Yes.")))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert [case.id for case in AnswerReport(str(path)).cases] == ["a", "b"]


def test_what_a_model_wrote_in_place_of_arguments_is_shown(tmp_path: Path) -> None:
    given = line("a", "Hm.", tool_calls=[{"id": "c", "name": "f", "arguments": '{"a":'}])
    (case,) = AnswerReport(results(tmp_path, "r.jsonl", given)).cases
    assert case.texts(1)[-1] == ("answer", 'Hm.\nf("{\\"a\\":")')


def test_a_call_without_arguments_is_shown(tmp_path: Path) -> None:
    """A result has no arguments of a call that has none."""
    given = line("a", "", answer="calls", tool_calls=[{"id": "c", "name": "now"}])
    (case,) = AnswerReport(results(tmp_path, "r.jsonl", given)).cases
    assert case.texts(1)[-1] == ("answer", "now({})")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"usage": {"input_tokens": None, "output_tokens": 5}},
            "Expected `int`, got `null` - at `$.usage[...]`",
        ),
        ({"usage": {"input_tokens": "10"}}, "Expected `int`, got `str` - at `$.usage[...]`"),
        ({"made": {"model": ["m"]}}, "Expected `str | null`, got `array` - at `$.made.model`"),
    ],
)
def test_a_line_that_was_edited_is_one_error(
    tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    results(tmp_path, "r.jsonl", line("a", "Yes."), line("b", "Yes.", **changes))
    done = run(tmp_path, "--results", "r.jsonl", "--output", "r.html")
    what = f"this is not a result ({why}); remove the line, or name another file"
    assert (done.returncode, done.stderr) == (2, f"Error: r.jsonl:2: {what}\n")


def test_what_a_cache_keeps_for_an_hour_costs_more(tmp_path: Path) -> None:
    """100,000 tokens cost $3.75 for a million that are kept for 5 minutes, and $6 for an hour."""
    made = {"provider": "anthropic", "model": "claude-sonnet-4-5"}
    usage = {"input_tokens": 100_000, "output_tokens": 0, "cache_write_tokens": 100_000}
    for other, cost in ({}, "$0.38"), ({"prompt_caching": "1h"}, "$0.60"):
        given = line("a", "Yes.", usage=usage, made={**made, **other})
        report = AnswerReport(results(tmp_path, "r.jsonl", given))
        assert dict(zip(*report.totals(), strict=True))["cost"] == cost


def test_a_cost_that_is_not_known_of_each_answer_is_left_out(tmp_path: Path) -> None:
    """The name of a model on Azure is that of a deployment, so no package knows its price."""
    made = {"provider": "openai", "model": "gpt-4o"}
    for other in ({**made, "provider": "azure"}, {**made, "model": "house"}):
        lines = [line("a", "Yes.", made=made), line("b", "Yes.", made=other)]
        report = AnswerReport(results(tmp_path, "r.jsonl", *lines))
        first, second = (report.facts(case.sides[1]["answer"], ()) for case in report.cases)
        assert ("$" in first, "$" in second) == (True, False)
        assert "cost" not in report.totals()[0]


def test_markdown_has_the_totals_and_the_lines_that_changed(
    compared: AnswerReport, tmp_path: Path
) -> None:
    given = ("--results", "new.jsonl", "--before", "old.jsonl", "--format", "markdown")
    done = run(tmp_path, *given, "--prices", "prices.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    _, first, second, *_, graded = done.stdout.split("\n### ")
    said = 'score changed, score: {"tone": 1} → {"tone": 0}'
    assert "\ngraded\n\n" + said + "\n" == html.unescape(re.sub("</?code>", "", f"\n{graded}"))
    assert first.startswith("<code>both</code>\n\n<code>prompt and answer changed, score&#58; true")
    assert second.endswith(
        "```diff\n@@ -6,5 +6,5 @@\n \n answer:\n The parcel was sent on Monday.\n"
        "-It takes three days.\n+It takes four days.\n Please wait.\n```\n"
    )
    assert "| <code>one</code> | <code>7 → 6</code> | <code>0 → 1</code> |" in done.stdout


@pytest.fixture
def page(compared: AnswerReport, reader: Reader, tmp_path: Path) -> Page:
    given = ("--results", "new.jsonl", "--before", "old.jsonl", "--output", "r.html")
    done = run(tmp_path, *given, "--prices", "prices.yaml")
    assert done.stderr == (
        "r.html: 8 cases, 0.1 MB\nnew.jsonl, compared with old.jsonl: 1 prompt and answer changed,"
        " 2 answer changed, 1 prompt changed, 1 score changed, 1 new, 1 removed, 1 same\n"
    )
    return reader.open(tmp_path / "r.html")


def test_the_page_begins_with_the_totals_and_each_case_that_changed(page: Page) -> None:
    expect(page.locator("#case h2")).to_have_text("7 differences")
    totals = page.locator("#totals td").all_text_contents()
    assert totals[4:] == ["$0.028 → $0.024", "1.000 → 0.333"]
    cards = page.locator(".difference .head h3").all_text_contents()
    assert cards == ["both", "said", "broken", "asked", "graded", "new", "gone"]
    card = page.locator(".difference").nth(1)
    assert card.locator("del").all_text_contents() == ["three"]
    assert card.locator("ins").all_text_contents() == ["four"]
    facts = card.locator("p.answered").all_text_contents()
    assert [each.partition("$")[2] for each in facts] == ["0.0040 · score: 1", "0.0040 · score: 0"]


def test_answers_are_below_the_prompt_side_by_side(page: Page) -> None:
    page.locator("#cases a", has_text="both").click()
    expect(page.locator("#case .about").first).to_have_text(
        "evals/a.eval.yaml · prompt and answer changed · score: true → false"
    )
    assert page.locator("#panel h3").all_text_contents() == ["system", "user", "answer"]
    assert page.locator("#panel del").all_text_contents() == ["kind", " both", "Yes."]
    assert page.locator("#panel ins").all_text_contents() == ["brief", "No."]


def test_the_answers_of_several_targets_are_columns(reader: Reader, tmp_path: Path) -> None:
    results(tmp_path, "r.jsonl", line("a", "Yes."), line("a", "No.", target="two"))
    run(tmp_path, "--results", "r.jsonl", "--output", "r.html")
    page = reader.open(tmp_path / "r.html", "#suite=evals%2Fa.eval.yaml&case=a")
    one, two = (page.locator(".answers > li").nth(at).bounding_box() for at in (0, 1))
    assert one is not None
    assert two is not None
    assert one["y"] == two["y"]
    assert one["x"] + one["width"] <= two["x"]
    assert page.locator(".answers h3").all_text_contents() == ["answer of one", "answer of two"]


def test_a_target_that_only_one_run_has_is_shown_alone(reader: Reader, tmp_path: Path) -> None:
    results(tmp_path, "old.jsonl", line("a", "Yes."))
    results(tmp_path, "new.jsonl", line("a", "Yes."), line("a", "No.", target="two"))
    run(tmp_path, *("--results", "new.jsonl", "--before", "old.jsonl", "--output", "r.html"))
    page = reader.open(tmp_path / "r.html", "#suite=evals%2Fa.eval.yaml&case=a")
    shown = page.locator("#panel h3").all_text_contents()
    assert shown[2:] == ["answer of one", "answer of two new"]


@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 1200)])
def test_everybody_can_use_the_page_of_answers(
    page: Page, reader: Reader, tmp_path: Path, scheme: Any, width: int
) -> None:
    for address in ("", "#suite=evals%2Fa.eval.yaml&case=said"):
        page = reader.open(tmp_path / "r.html", address, width, scheme)
        assert Axe().run(page).response["violations"] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_two_thousand_cases_take_five_seconds_and_ten_megabytes(tmp_path: Path) -> None:
    for name in ("old.jsonl", "new.jsonl"):
        texts = (" ".join(f"{name[0]}{at * k % 997:x}" for k in range(300)) for at in range(2000))
        results(tmp_path, name, *(line(f"c{at}", text) for at, text in enumerate(texts)))
    start = perf_counter()
    given = ("--results", "new.jsonl", "--before", "old.jsonl", "--output", "r.html")
    assert run(tmp_path, *given).returncode == 0
    assert perf_counter() - start < 5
    assert 1_000_000 < (tmp_path / "r.html").stat().st_size < 10_000_000
    assert "c1999" in data_of((tmp_path / "r.html").read_text())


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ("a.yaml --results r.jsonl --output r.html", "leave out suites"),
        ("--results r.jsonl --case a --output r.html", "leave out --case"),
        ("--results r.jsonl --against HEAD --output r.html", "leave out --against"),
        ("--results r.jsonl --format json", "--results makes a page or Markdown"),
        ("--results r.jsonl --output ./r.jsonl", "has the results; name another file"),
        ("--results r.jsonl --before none.jsonl --output r.html", "none.jsonl"),
        ("--results prices.yaml --output r.html", "prices.yaml:1: this is not a result"),
        ("a.yaml --before r.jsonl --output r.html", "are for --results; add it"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    tmp_path: Path, given: str, error: str
) -> None:
    results(tmp_path, "r.jsonl", line("a", "Yes."))
    (tmp_path / "prices.yaml").write_text(PRICES)
    done = run(tmp_path, *given.split())
    assert done.returncode == 2
    assert error in done.stderr
