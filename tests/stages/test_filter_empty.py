"""filter_empty: messages left without content leave the turns (rules 2 and 8)."""

from typing import Any

import pytest
from msgspec.structs import replace

from multiturn import Turn
from multiturn.testing import conversion, file, reference
from multiturn_stages.filter_empty import filter_empty
from shown import Run, contents

HI = ("user", "Hi")
MARKER = reference("a.md")


USER = ("user", MARKER)
SYSTEM = ("system", MARKER)
BLANK = ("assistant", " ")
EMPTY_FILE = ("user", file("a.js", ""))
POLICIES = ["drop_unless_alone", "drop", "keep"]


@pytest.mark.parametrize("references_only", POLICIES)
@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([HI, ("assistant", "Yes?"), ("system", "S"), ("tool", "4")], id="text"),
        pytest.param([HI, EMPTY_FILE], id="a file is content, even empty"),
        pytest.param(
            [HI, ("user", replace(file("a.js", " \n"), kind="text"))],
            id="a blank file that is embedded",
        ),
        pytest.param([HI, ("user", MARKER, "this")], id="a marker and text"),
        pytest.param([], id="no messages"),
    ],
)
def test_leaves_alone(run_stage: Run, messages: Any, references_only: str) -> None:
    before = conversion(*messages)
    assert run_stage(filter_empty, before, references_only=references_only) == before


@pytest.mark.parametrize("references_only", POLICIES)
def test_rewrites(run_stage: Run, references_only: str) -> None:
    before = conversion(("system",), HI, ("user", " \n", "\t"))
    before = before.replace(turns=(*before.turns, Turn("assistant")))  # that a stage made
    result = run_stage(filter_empty, before, references_only=references_only)
    assert contents(result.turns) == [HI]


@pytest.mark.parametrize(
    ("references_only", "messages", "kept"),
    [
        pytest.param("drop_unless_alone", [USER, HI], [1], id="beside another turn it is dropped"),
        pytest.param("drop_unless_alone", [SYSTEM, USER, USER], [0, 1, 2], id="alone it is kept"),
        pytest.param("drop_unless_alone", [BLANK, USER], [1], id="also beside a blank turn"),
        pytest.param("drop_unless_alone", [USER, EMPTY_FILE], [1], id="not beside an empty file"),
        pytest.param("drop", [USER], [], id="drop drops even a lone one"),
        pytest.param("keep", [USER, HI, BLANK, SYSTEM], [0, 1, 3], id="keep keeps it"),
    ],
)
def test_references_only(run_stage: Run, references_only: str, messages: Any, kept: Any) -> None:
    result = run_stage(filter_empty, conversion(*messages), references_only=references_only)
    assert [turn.message for turn in result.turns] == kept


YES = ("assistant", "Yes?")


@pytest.mark.parametrize(
    ("messages", "dropped"),
    [
        pytest.param([HI, YES, USER], 2, id="the last user turn"),
        pytest.param([HI, USER, YES], 1, id="an answer after it makes no difference"),
        pytest.param([HI, USER, ("user", " ")], 1, id="a blank one after it was not asked"),
        pytest.param([USER, HI], None, id="not the first"),
        pytest.param([USER], None, id="not where it is kept"),
        pytest.param([HI, YES, ("user", " ")], None, id="not a blank one"),
        pytest.param([HI, SYSTEM], None, id="not a system turn"),
    ],
)
def test_a_last_user_turn_that_is_dropped_is_noticed(
    run_stage: Run, messages: Any, dropped: int | None
) -> None:
    notices = run_stage(filter_empty, conversion(*messages)).notices
    assert [(n.event, n.message) for n in notices] == (
        [] if dropped is None else [("turn.dropped", dropped)]
    )
    assert all("references_only: keep of filter_empty" in notice.why for notice in notices)
    assert run_stage(filter_empty, conversion(*messages), references_only="keep").notices == ()
