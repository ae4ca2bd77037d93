"""Conversion.drop: what a stage takes away on purpose, it says why."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from multiturn import (
    Call,
    Case,
    Conversion,
    Part,
    Pipeline,
    TestMessage,
    Thinking,
    Turn,
    load_pipeline,
    stage,
)
from multiturn.engine.converting import ConvertedCase
from multiturn.explaining.explanation import explain
from multiturn.explaining.record import record_of
from multiturn.model.turns import is_blank
from multiturn.pipelines.pipeline import request_of
from multiturn.testing import conversion, file, reference
from multiturn_stages.consolidate_system import consolidate_system
from multiturn_stages.render_question import render_question
from shown import Run, contents

SPEC = load_pipeline("spec")
GIVEN = conversion(
    ("system", "Be brief."),
    ("user", "One.", file("a.py", "pass")),
    ("user", reference("g.md"), "Two."),
    guidelines=["Given.", file("g.md", "G")],
    system_prompt="P",
)
WHY = "nobody needs it"
Picked = Callable[[Conversion], Any]


@stage(requires={"turns"})
def forget(given: Conversion) -> Conversion:
    """Drop all messages but the last, a guideline, and the system prompt."""
    guidelines = [part for part in given.guidelines if part.key]
    prompts = [part for part in (given.system_prompt,) if part is not None]
    return given.drop([*given.turns[:-1], *guidelines, *prompts], WHY)


CASE = Case(
    id="x",
    suite="s.yaml",
    input_messages=(
        TestMessage("user", "One.", line=3),
        TestMessage("user", ["Two.", " ", {"a": 1}], line=4, content_lines=(5, 6, 7)),
        TestMessage("user", "Three.", line=8),
    ),
    system_prompt="P",
    guidelines=("G",),
)
FORGETFUL = SPEC.insert(forget, after="resolve_segments")


def test_a_turn_and_a_part_are_gone_from_both_views(run_stage: Run) -> None:
    dropped = GIVEN.drop([GIVEN.turns[0], GIVEN.turns[1].parts[1]], WHY)
    assert contents(dropped.turns) == [("user", "One."), ("user", "<Attached: g.md>\nTwo.")]
    result = SPEC(Conversion(CASE)).turns
    assert contents(FORGETFUL(Conversion(CASE)).turns) == contents(result[-1:])


def test_a_guideline_goes_with_its_references() -> None:
    dropped = GIVEN.drop(GIVEN.guidelines[1], WHY)
    assert [part.text for part in dropped.guidelines] == ["Given."]
    assert dropped.turns[2].content == "Two."
    assert [(n.message, n.content) for n in dropped.notices] == [(None, None), (2, 0)]


def test_dropping_nothing_changes_nothing() -> None:
    assert GIVEN.drop([], WHY) == GIVEN


@pytest.mark.parametrize(
    ("items", "why", "words"),
    [
        (Turn("user", (Part("text", "Two."),)), WHY, "drop takes turns, parts, calls and tools of"),
        (
            [GIVEN.turns[0], Part("text", "One.")],
            WHY,
            "drop takes turns, parts, calls and tools of",
        ),
        ("Two.", WHY, "drop takes turns, parts, calls and tools of this Conversion"),
        (GIVEN.turns[0], " ", "drop takes a reason"),
    ],
)
def test_what_cannot_be_dropped_is_an_error(items: Any, why: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        GIVEN.drop(items, why)


def test_explain_has_the_reason_and_the_stage() -> None:
    fates = explain(FORGETFUL(Conversion(CASE))).fates
    said = ("dropped", f"{WHY} (the stage forget)")
    assert [(fate.fate, fate.why) for fate in fates] == [said] * 4 + [("shown", ""), said, said]
    assert not any(is_blank(str(fate.where)) for fate in fates)


@pytest.mark.parametrize("place", ["resolve_segments", "consolidate_system", "render_question"])
def test_what_is_dropped_is_neither_lost_nor_a_warning(
    place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = ConvertedCase("s.yaml", CASE).converted(SPEC.insert(forget, after=place), strict=True)
    assert outcome.error is None
    assert capsys.readouterr().err == ""


def test_a_record_has_what_was_dropped_among_its_notices() -> None:
    result = FORGETFUL(Conversion(CASE))
    why = f"{WHY} (the stage forget)"
    assert record_of(request_of(result), result.notices)["notices"] == [
        {"event": "text.dropped", "where": f"s.yaml{place}", "why": why}
        for place in (
            ":3: case 'x': input_messages[0]",
            ":5: case 'x': input_messages[1]",
            ": case 'x': guidelines[0]",
            ": case 'x': metadata.systemPrompt",
        )
    ]


def test_what_a_stage_takes_away_without_a_word_is_still_lost() -> None:
    @stage(requires={"turns"})
    def silent(given: Conversion) -> Conversion:
        return forget(given).replace(notices=())

    pipeline = Pipeline([*SPEC.steps[:1], silent, *SPEC.steps[1:]])
    assert explain(pipeline(Conversion(CASE))).fates[0].fate == "lost"


# --- calls and results go together

TALK = conversion(
    ("user", "Paris?"),
    ("assistant", "Wait.", Call("c1", "f"), Call("c2", "f")),
    Turn("tool", ("18",), answers="c1"),  # type: ignore[arg-type]
    ("user", "Well?"),
    Turn("tool", ("12",), answers="c2"),  # type: ignore[arg-type]
    ("user", "And?"),
)
USER, ASKING, FIRST, BETWEEN, SECOND, LAST = TALK.turns


@pytest.mark.parametrize(
    ("picked", "left"),
    [
        pytest.param(
            ASKING, ["Paris?", "Well?", "And?"], id="with a turn the results of its calls"
        ),
        pytest.param(
            *(FIRST, ["Paris?", "Wait. c2", "Well?", "12", "And?"]),
            id="with a result its call",
        ),
        pytest.param(
            *(ASKING.calls[1], ["Paris?", "Wait. c1", "18", "Well?", "And?"]),
            id="with a call its result",
        ),
        pytest.param(TALK.exchanges[0], ["And?"], id="an exchange"),
        pytest.param([*TALK.exchanges], [], id="all exchanges"),
    ],
)
def test_what_is_dropped_leaves_no_call_or_result_alone(picked: Any, left: list[str]) -> None:
    dropped = TALK.drop(picked, WHY)
    said = [" ".join([turn.content, *(call.id for call in turn.calls)]) for turn in dropped.turns]
    assert said == left


def test_turns_are_replaced_where_the_first_of_them_was() -> None:
    one = replace(FIRST, parts=(*FIRST.parts, *SECOND.parts))
    asked = replace(ASKING, calls=ASKING.calls[:1])
    result = TALK.replace_turns([ASKING, FIRST, SECOND], [asked, one], "merged")
    assert result.turns == (USER, asked, one, BETWEEN, LAST)
    fates = {fate.where.label.partition("[")[2]: fate for fate in explain(viewing(result)).fates}
    assert {fate.fate for fate in fates.values()} == {"shown", "dropped"}
    assert (fates["1].tool_calls[1]"].fate, fates["1].tool_calls[1]"].why) == ("dropped", "merged")
    assert TALK.replace_turns(TALK.turns[:5], ()).turns == (LAST,)


def test_only_what_is_gone_has_the_reason_of_a_replacement() -> None:
    one = replace(FIRST, parts=(*FIRST.parts, *SECOND.parts))
    asked = replace(ASKING, calls=ASKING.calls[:1])
    result = TALK.replace_turns([ASKING, FIRST, SECOND], [asked, one], "merged")
    (notice,) = result.notices
    assert (notice.where.label[-15:], notice.why) == ("].tool_calls[1]", "merged")
    assert TALK.replace_turns(TALK.turns, TALK.turns, "merged") == TALK
    # What a later stage drops is told of that stage.
    later = viewing(result.drop([asked, one], "too old"))
    why = {fate.where.label.partition("[")[2]: fate.why for fate in explain(later).fates}
    assert (why["2].content[0]"], why["4].content[0]"]) == ("too old", "too old")


THOUGHT = conversion(
    ("user", "Hi"),
    ("assistant", "One.", Thinking("Hm.", "s"), Call("c1", "f")),
    ("system", "Be brief."),
    ("assistant", "Two.", Thinking("Hm.", "s"), Call("c2", "f")),
    Turn("tool", ("1",), answers="c1"),  # type: ignore[arg-type]
    Turn("tool", ("2",), answers="c2"),  # type: ignore[arg-type]
    ("user", "And?"),
)


@pytest.mark.parametrize(
    ("places", "rewritten", "gone"),
    [
        pytest.param([1], lambda one: [replace(one, thinking=())], {1: 1}, id="thinking"),
        pytest.param([3], lambda two: [replace(two, thinking=())], {3: 1}, id="later thinking"),
        pytest.param([6], lambda last: [replace(last, role="assistant")], {}, id="a role"),
        pytest.param(
            [1, 3],
            lambda one, two: [
                replace(one, parts=(*one.parts, *two.parts), calls=(*one.calls, *two.calls))
            ],
            {3: 1},
            id="joined messages with calls",
        ),
    ],
)
def test_what_a_later_stage_drops_has_the_reason_of_that_stage(
    places: list[int], rewritten: Any, gone: dict[int, int]
) -> None:
    """Only the thinking, or the role, that the first one took away has the reason of the first."""
    given = replace(THOUGHT, stage="first")
    old = [given.turns[at] for at in places]
    first = given.replace_turns(old, rewritten(*old), "not needed")
    assert {note.message: 1 for note in first.notices if note.event != "turn.changed"} == gone
    later = replace(first, stage="later")
    found = explain(viewing(later.drop([*later.exchanges, later.turns[-1]], "too old"))).fates
    whys = {fate.where.label.partition(": ")[2]: fate.why for fate in found}
    mine = {f"input_messages[{at}].thinking[0]" for at in gone}
    system = whys.pop("input_messages[2].content[0]")
    assert system == "into one system message (rule 7)"
    assert whys == {
        place: "not needed (the stage first)" if place in mine else "too old (the stage later)"
        for place in whys
    }
    assert len(whys) == 10


def test_the_same_turns_again_change_nothing_also_around_a_system_message() -> None:
    (exchange, _) = THOUGHT.exchanges
    assert THOUGHT.replace_turns(exchange, exchange, WHY) == THOUGHT


def test_another_role_is_explained_by_the_reason_of_a_replacement() -> None:
    spoken = replace(BETWEEN, role="assistant")
    silent, said = (explain(viewing(TALK.replace_turns(BETWEEN, spoken, why))) for why in ("", WHY))
    assert [fate.fate for fate in silent.fates if fate.fate != "shown"] == ["lost"]
    assert [fate.why for fate in said.fates if fate.fate != "shown"] == [WHY]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (ASKING, (), "leave only the call 'c1', or only its result; have both in the new turns"),
        ([FIRST, LAST], LAST, "leave only the call 'c1', or only its result"),
        (FIRST, replace(FIRST, answers="c9"), "leave only the call 'c1', or only its result"),
        ((), LAST, "replace_turns takes turns of this Conversion"),
        (replace(LAST, message=None), LAST, "replace_turns takes turns of this Conversion"),
        (LAST, ["And?"], "a str in place of a Turn"),
    ],
)
def test_a_replacement_that_cannot_be_says_what_would_dangle(
    old: Any, new: Any, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        TALK.replace_turns(old, new)


def viewing(given: Conversion) -> Conversion:
    return render_question(consolidate_system(given))
