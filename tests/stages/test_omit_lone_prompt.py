"""omit_lone_prompt: a lone user prompt goes the legacy way, without a chat."""

from typing import Any

import pytest

from multiturn.testing import conversion, reference
from multiturn_stages.consolidate_system import consolidate_system
from multiturn_stages.omit_lone_prompt import omit_lone_prompt
from shown import Run


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([("user", "Hi"), ("assistant", "Yes?")], id="a conversation"),
        pytest.param([("user", "Hi"), ("user", "Ho")], id="two user turns"),
        pytest.param([("system", "S"), ("user", "Hi")], id="a system turn and a user turn"),
        pytest.param([("system", "S")], id="a lone system turn"),
        pytest.param([], id="no turns"),
    ],
)
def test_leaves_alone(run_stage: Run, messages: Any) -> None:
    before = consolidate_system(conversion(*messages, guidelines=["G."]))
    assert run_stage(omit_lone_prompt, before).chat == before.chat


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(["Hi"], id="a lone user turn"),
        pytest.param([reference("a.md")], id="a lone marker"),
    ],
)
def test_rewrites(run_stage: Run, pieces: Any) -> None:
    before = conversion(("user", *pieces), guidelines=["G."], system_prompt="P.")
    before = consolidate_system(before)
    result = run_stage(omit_lone_prompt, before)
    assert result.chat is None
    assert result.replace(chat_view=before.chat_view) == before


def test_looks_at_the_turns_as_they_are_later(run_stage: Run) -> None:
    before = consolidate_system(conversion(("user", "Hi"), ("assistant", "Yes?")))
    result = run_stage(omit_lone_prompt, before)
    assert result.chat == before.chat
    assert result.replace(turns=result.turns[:1]).chat is None
