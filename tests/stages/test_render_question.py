"""render_question: the transcript, each turn after its role (rule 9)."""

from typing import Any

import pytest

from multiturn.testing import conversion, file, reference
from multiturn_stages.embed_files import embed_files
from multiturn_stages.render_question import render_question
from shown import Run

MARKER = reference("a.md")
TWO = [("user", "a", "b"), ("tool", "4")]


@pytest.mark.parametrize("options", [{}, {"marker": "# {role} "}, {"separator": "\n\n"}])
@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        pytest.param(["Hi", "there"], "Hi\nthere", id="a lone user prompt is bare"),
        pytest.param([" {role} %s\n"], " {role} %s\n", id="it is kept to the letter"),
        pytest.param([MARKER], "<Attached: a.md>", id="it may be a marker only"),
    ],
)
def test_leaves_alone(run_stage: Run, pieces: Any, expected: str, options: Any) -> None:
    before = conversion(("user", *pieces))
    result = run_stage(render_question, before, **options)
    assert result.question == expected
    assert result.replace(question_view=None) == before


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        pytest.param([" Hi\n", "\n there"], "Hi\n\nthere", id="segments are trimmed"),
        pytest.param(["Hi", " \n", "there"], "Hi\n\nthere", id="blank ones are left out"),
        pytest.param([MARKER, "Hi"], "Hi", id="so are markers"),
        pytest.param(["a\n\n b"], "a\n\n b", id="white space within is kept"),
        pytest.param([MARKER], "", id="nothing may be left"),
    ],
)
def test_a_lone_prompt_of_trimmed_segments(run_stage: Run, pieces: Any, expected: str) -> None:
    before = conversion(("user", *pieces))
    assert run_stage(render_question, before, lone="trimmed_segments").question == expected
    both = conversion(("user", *pieces), ("tool", " x "))
    as_written = run_stage(render_question, both).question
    assert run_stage(render_question, both, lone="trimmed_segments").question == as_written


def test_an_empty_file_in_trimmed_segments_is_its_header(run_stage: Run) -> None:
    embedded = run_stage(embed_files, conversion(("user", file("a.js"), "Hi")))
    result = run_stage(render_question, embedded, lone="trimmed_segments")
    assert result.question == "=== a.js ===\n\nHi"


@pytest.mark.parametrize(
    ("messages", "options", "expected"),
    [
        pytest.param([], {}, "", id="no turns, no transcript"),
        pytest.param([("system", "S")], {}, "[System]: S", id="a lone system turn has a marker"),
        pytest.param(
            *([("user", "Hi"), ("user", "Ho")], {}, "[User]: Hi\n[User]: Ho"),
            id="so have two user turns",
        ),
        pytest.param(
            [("user", "1"), ("system", "2"), ("tool", "3"), ("assistant", "4"), ("system", "5")],
            *({}, "[User]: 1\n[System]: 2\n[Tool]: 3\n[Assistant]: 4\n[System]: 5"),
            id="every turn in its place, system turns too",
        ),
        pytest.param(
            [("user", "a", MARKER, "b"), ("assistant", "c")],
            *({}, "[User]: a\n<Attached: a.md>\nb\n[Assistant]: c"),
            id="one marker for each turn, not for each part",
        ),
        pytest.param(
            [("user", "{role} %s"), ("tool", "[{role}]: \n")],
            *({}, "[User]: {role} %s\n[Tool]: [{role}]: \n"),
            id="placeholders in content are text",
        ),
        *(
            pytest.param(TWO, options, expected, id=str(options))
            for options, expected in (
                ({"marker": "{role} {role} "}, "User User a\nb\nTool Tool 4"),
                ({"marker": "%s {0} {} "}, "%s {0} {} a\nb\n%s {0} {} 4"),
                ({"marker": ""}, "a\nb\n4"),
                ({"separator": "{role} %s"}, "[User]: a\nb{role} %s[Tool]: 4"),
                ({"separator": ""}, "[User]: a\nb[Tool]: 4"),
            )
        ),
    ],
)
def test_rewrites(run_stage: Run, messages: Any, options: Any, expected: str) -> None:
    assert run_stage(render_question, conversion(*messages), **options).question == expected
