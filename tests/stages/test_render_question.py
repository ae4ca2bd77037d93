"""render_question: the transcript, each turn after its role (rule 9)."""

from collections.abc import Callable
from typing import Any

import pytest

from multiturn import Conversion
from multiturn.testing import conversion, reference
from multiturn_stages.render_question import render_question

Build = Callable[..., Conversion]

MARKER = reference("a.md")


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        pytest.param(["Hi"], "Hi", id="a lone user prompt is bare"),
        pytest.param([" {role} %s\n"], " {role} %s\n", id="it is kept to the letter"),
        pytest.param([MARKER], "<Attached: a.md>", id="it may be a marker only"),
    ],
)
def test_leaves_alone(run_stage: Build, pieces: Any, expected: str) -> None:
    before = conversion(("user", *pieces))
    assert run_stage(render_question, before).question == expected
    assert run_stage(render_question, before, marker="# {role} ").question == expected


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param([], "", id="no turns, no transcript"),
        pytest.param([("system", "S")], "[System]: S", id="a lone system turn has a marker"),
        pytest.param(
            [("user", "Hi"), ("user", "Ho")], "[User]: Hi\n[User]: Ho", id="so have two user turns"
        ),
        pytest.param(
            [("user", "1"), ("system", "2"), ("tool", "3"), ("assistant", "4"), ("system", "5")],
            "[User]: 1\n[System]: 2\n[Tool]: 3\n[Assistant]: 4\n[System]: 5",
            id="every turn in its place, system turns too",
        ),
        pytest.param(
            [("user", "a", MARKER, "b"), ("assistant", "c")],
            "[User]: a\n<Attached: a.md>\nb\n[Assistant]: c",
            id="one marker for each turn, not for each part",
        ),
        pytest.param(
            [("user", "{role} %s"), ("tool", "[{role}]: \n")],
            "[User]: {role} %s\n[Tool]: [{role}]: \n",
            id="placeholders in content are text",
        ),
    ],
)
def test_rewrites(run_stage: Build, messages: Any, expected: str) -> None:
    assert run_stage(render_question, conversion(*messages)).question == expected


@pytest.mark.parametrize(
    ("marker", "expected"),
    [
        pytest.param("{role} {role} ", "User User Hi\nTool Tool 4", id="the role is there twice"),
        pytest.param("%s {0} {} ", "%s {0} {} Hi\n%s {0} {} 4", id="only {role} is special"),
        pytest.param("", "Hi\n4", id="no marker"),
    ],
)
def test_marker(run_stage: Build, marker: str, expected: str) -> None:
    before = conversion(("user", "Hi"), ("tool", "4"))
    assert run_stage(render_question, before, marker=marker).question == expected


@pytest.mark.parametrize(
    ("separator", "expected"),
    [
        pytest.param("{role} %s", "[User]: a\nb{role} %s[Tool]: 4", id="no placeholder is special"),
        pytest.param("", "[User]: a\nb[Tool]: 4", id="nothing between turns"),
    ],
)
def test_separator(run_stage: Build, separator: str, expected: str) -> None:
    before = conversion(("user", "a", "b"), ("tool", "4"))
    assert run_stage(render_question, before, separator=separator).question == expected


def test_a_separator_leaves_a_single_turn_alone(run_stage: Build) -> None:
    for message, expected in [(("user", "a", "b"), "a\nb"), (("tool", "4"), "[Tool]: 4")]:
        result = run_stage(render_question, conversion(message), separator="\n\n")
        assert result.question == expected


def test_leaves_the_turns_alone(run_stage: Build) -> None:
    before = conversion(("system", "S"), ("user", "Hi"))
    assert run_stage(render_question, before).replace(question_view=None) == before
