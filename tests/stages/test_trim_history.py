"""trim_history: the last exchanges stay, or as many as fit into a number of tokens."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from histories import conversion_of, history
from multiturn import Call, Conversion, MultiturnError, Turn, explain, load_pipeline
from multiturn.explaining.explanation import size_of
from multiturn.model import tokens
from multiturn.model.tokens import Tokenizer
from multiturn.pipelines.pipeline import request_of
from multiturn.testing import conversion, reference
from multiturn_stages.trim_history import trim_history
from shown import Run, contents, viewed
from vendors import echo

SYSTEM = ("system", "S")
ONE = [("user", "1"), ("assistant", "one")]
TWO = [("user", "2"), ("assistant", "", Call("c", "f")), Turn("tool", (), answers="c")]
THREE = [("user", "3"), ("assistant", "three")]
LAST = [("user", "4")]
# Tokens: 3 of a request and 4 of a message; the text of one is 1, but S and Hi are too short.
SHORT = viewed(SYSTEM, ("user", "Hi"), ("assistant", "Yes?"), ("user", "How?"))


def said(given: Conversion) -> str:
    """Return what the turns say, a letter for each: of a call c, of a result r."""
    return "".join(
        "c" if turn.calls else "r" if turn.answers else turn.content[:1] for turn in given.turns
    )


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"exchanges": 2}, id="as many exchanges as may stay"),
        pytest.param({"exchanges": 9}, id="fewer than may stay"),
        pytest.param({"tokens": 21}, id="as many tokens as may stay"),
        pytest.param({"exchanges": 1, "keep_first": 1}, id="the first and the last are all"),
        pytest.param({"exchanges": 1, "keep_first": 9}, id="all of them are the first"),
    ],
)
def test_leaves_alone(run_stage: Run, options: Any) -> None:
    assert run_stage(trim_history, SHORT, **options) == SHORT


@pytest.mark.parametrize(
    ("options", "left"),
    [
        pytest.param({"exchanges": 1}, "S4", id="only the last, and the system message"),
        pytest.param({"exchanges": 2}, "S3t4", id="the last two"),
        pytest.param({"exchanges": 3}, "S2cr3t4", id="a call stays with its result"),
        pytest.param({"exchanges": 1, "keep_first": 1}, "S1o4", id="the first stays, too"),
        pytest.param({"exchanges": 1, "keep_first": 2}, "S1o2cr4", id="the first two stay"),
        pytest.param({"tokens": 22}, "S3t4", id="what fits"),
        pytest.param({"tokens": 21}, "S4", id="one token less"),
        pytest.param({"tokens": 10**6, "exchanges": 2}, "S3t4", id="both limits hold"),
        pytest.param({"tokens": 21, "exchanges": 2}, "S4", id="also the other way round"),
    ],
)
def test_rewrites(run_stage: Run, options: Any, left: str) -> None:
    given = viewed(SYSTEM, *ONE, *TWO, *THREE, *LAST)
    result = run_stage(trim_history, given, **options)
    assert said(result) == left


def test_what_is_gone_is_a_declared_loss_and_its_guideline_stays(run_stage: Run) -> None:
    given = viewed(
        ("user", "1", reference("g.md")), ("assistant", "one"), *LAST, guidelines=["Be kind."]
    )
    result = run_stage(trim_history, given, exchanges=1)
    assert contents(result.chat) == [
        ("system", "[[ ## Guidelines ## ]]\n\nBe kind."),
        ("user", "4"),
    ]
    fates = [(fate.fate, fate.why) for fate in explain(result).fates]
    gone = ("dropped", "only the last exchange is kept (the stage trim_history)")
    assert fates[0] == fates[2] == gone
    assert fates[3] == ("shown", "")


def test_it_refuses_what_must_stay_with_the_figures() -> None:
    given = viewed(SYSTEM, *ONE, *TWO, *LAST)
    with pytest.raises(MultiturnError) as caught:
        trim_history(given, tokens=15, keep_first=1)
    assert str(caught.value) == (
        "22 tokens must stay, more than tokens: 15 of trim_history; 7 without exchanges, 15 of the"
        " last one and the first 1; raise tokens, or shorten them"
    )


def test_it_wants_a_limit_and_the_tokenizer_that_it_counts_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(MultiturnError, match="trim_history has no limit; give it exchanges or tok"):
        trim_history(SHORT)
    assert trim_history(SHORT, tokens=99, count="o200k_base") == SHORT
    monkeypatch.setattr(tokens, "_published", lambda encoding: None)
    with pytest.raises(MultiturnError) as caught:
        trim_history(SHORT, tokens=99, count="o200k_base")
    assert str(caught.value) == (
        "trim_history counts with o200k_base, and the package bpe-openai is not installed;"
        " pip install 'multiturn[tokens]', or leave out count"
    )


@given(
    number=st.integers(0, 3000),
    exchanges=st.integers(1, 6),
    over=st.sampled_from([-1, 0, 1, 5, 10]),
    count=st.sampled_from(["estimate", "o200k_base"]),
    keep_first=st.sampled_from([0, 0, 1]),
)
def test_no_prompt_is_above_the_number_and_one_more_exchange_would_be(
    number: int, exchanges: int, over: int, count: Any, keep_first: int
) -> None:
    whole = conversion_of(history(number))
    tokenizer = Tokenizer("" if count == "estimate" else count)

    class Counting(type(echo())):  # type: ignore[misc]
        tokenizer = Tokenizer("" if count == "estimate" else count)

    provider = Counting(echo().settings)

    def size(conversion: Conversion) -> int:
        return size_of(conversion, provider, tokenizer.count)[0].count

    limit = size(trim_history(whole, exchanges=exchanges)) + over
    try:
        result = trim_history(whole, tokens=limit, count=count, keep_first=keep_first)
    except MultiturnError:
        least = trim_history(whole, exchanges=1, keep_first=keep_first)
        assert size(least) > limit
        return
    assert size(result) <= limit
    if result.turns != whole.turns:
        last = len(result.exchanges) - keep_first
        more = trim_history(whole, exchanges=last + 1, keep_first=keep_first)
        assert len(more.exchanges) == len(result.exchanges) + 1
        assert size(more) > limit


@given(number=st.integers(0, 3000))
def test_exchanges_have_every_turn_once_and_no_call_without_its_result(number: int) -> None:
    whole = conversion_of(history(number))
    assert [t for each in whole.exchanges for t in each] == [
        turn for turn in whole.turns if turn.role != "system"
    ]
    for exchange in whole.exchanges:
        asked = {call.id for turn in exchange for call in turn.calls}
        assert {turn.answers for turn in exchange} - {None} == asked
        assert any(turn.role == "user" for turn in exchange)
    for _, exchange in pairwise(whole.exchanges):
        assert exchange[0].role == "user"


def test_what_comes_before_the_first_user_is_in_the_first_exchange() -> None:
    given = conversion(("assistant", "Hello."), *ONE, SYSTEM, *LAST)
    assert [said(replace(given, turns=each)) for each in given.exchanges] == ["H1o", "4"]
    assert conversion(SYSTEM).exchanges == ()


@pytest.mark.parametrize("name", ["guard_markers", "omit_lone_prompt", "render_tools"])
def test_a_stage_that_changes_the_size_is_refused_after_it(name: str) -> None:
    from multiturn.pipelines.registry import find_stage

    pipeline = load_pipeline("spec").insert(trim_history, after="render_question", exchanges=1)
    with pytest.raises(MultiturnError) as caught:
        pipeline.insert(find_stage(name), after="trim_history")
    assert (
        f"{name} (8) requires history, but trim_history (7) has already trimmed it; move it before"
        " trim_history"
    ) in str(caught.value)
    request = pipeline.insert(find_stage(name), before="trim_history")(SHORT)
    assert request_of(request).question == "[System]: S\n[User]: How?"
