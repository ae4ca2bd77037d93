"""filter_empty: messages left without content leave the turns (rules 2 and 8)."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from multiturn import Conversion, Part, Turn
from multiturn.testing import conversion, file, reference
from multiturn_stages.filter_empty import filter_empty
from shown import contents

Build = Callable[..., Conversion]

HI = ("user", "Hi")
MARKER = reference("a.md")


def embedded(text: str) -> Part:
    return replace(file("a.js", text), kind="text")


POLICIES = ["drop_unless_alone", "drop", "keep"]


@pytest.mark.parametrize("references_only", POLICIES)
@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([HI, ("assistant", "Yes?"), ("system", "S"), ("tool", "4")], id="text"),
        pytest.param([HI, ("user", file("a.js", ""))], id="a file is content, even empty"),
        pytest.param([HI, ("user", embedded(" \n"))], id="a blank file that is embedded"),
        pytest.param([HI, ("user", MARKER, "this")], id="a marker and text"),
        pytest.param([], id="no messages"),
    ],
)
def test_leaves_alone(run_stage: Build, messages: Any, references_only: str) -> None:
    before = conversion(*messages)
    assert run_stage(filter_empty, before, references_only=references_only) == before


@pytest.mark.parametrize("references_only", POLICIES)
@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([], id="a turn without parts"),
        pytest.param([" \n", "\t"], id="parts of white space"),
    ],
)
def test_rewrites(run_stage: Build, pieces: Any, references_only: str) -> None:
    before = conversion(("system", *pieces), HI, ("user", *pieces))
    result = run_stage(filter_empty, before, references_only=references_only)
    assert contents(result.turns) == [("user", "Hi")]


USER = ("user", MARKER)
SYSTEM = ("system", MARKER)
BLANK = ("assistant", " ")


@pytest.mark.parametrize(
    ("references_only", "messages", "kept"),
    [
        pytest.param("drop_unless_alone", [USER, HI], [HI], id="beside another turn it is dropped"),
        pytest.param("drop_unless_alone", [USER], [USER], id="a lone one is kept"),
        pytest.param(
            "drop_unless_alone", [SYSTEM, USER, USER], [SYSTEM, USER, USER], id="all are kept"
        ),
        pytest.param(
            "drop_unless_alone", [BLANK, USER], [USER], id="beside a blank turn it is alone"
        ),
        pytest.param(
            "drop_unless_alone",
            [USER, ("user", file("a.js", ""))],
            [("user", file("a.js", ""))],
            id="beside an empty file it is dropped",
        ),
        pytest.param("drop", [USER], [], id="drop drops even a lone one"),
        pytest.param("keep", [USER, HI, BLANK, SYSTEM], [USER, HI, SYSTEM], id="keep keeps it"),
        pytest.param("keep", [BLANK], [], id="keep keeps no blank turn"),
    ],
)
def test_references_only(run_stage: Build, references_only: str, messages: Any, kept: Any) -> None:
    result = run_stage(filter_empty, conversion(*messages), references_only=references_only)
    expected = [(role, piece if isinstance(piece, str) else piece.text) for role, piece in kept]
    assert contents(result.turns) == expected


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
    run_stage: Build, messages: Any, dropped: int | None
) -> None:
    notices = run_stage(filter_empty, conversion(*messages)).notices
    assert [(n.event, n.message) for n in notices] == (
        [] if dropped is None else [("turn.dropped", dropped)]
    )
    assert all("references_only: keep of filter_empty" in notice.why for notice in notices)
    assert run_stage(filter_empty, conversion(*messages), references_only="keep").notices == ()


def test_a_blank_turn_that_a_stage_made_is_dropped(run_stage: Build) -> None:
    before = conversion(HI)
    turns = (*before.turns, Turn("assistant", (Part("text", "Yes?"),)), Turn("assistant"))
    result = run_stage(filter_empty, before.replace(turns=turns))
    assert contents(result.turns) == [("user", "Hi"), ("assistant", "Yes?")]
