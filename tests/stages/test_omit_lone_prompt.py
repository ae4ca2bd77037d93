"""omit_lone_prompt: a lone user prompt goes the legacy way, without a chat."""

from collections.abc import Callable
from typing import Any

import pytest

from multiturn import Conversion, Part, Turn
from multiturn_stages.omit_lone_prompt import omit_lone_prompt

Build = Callable[..., Conversion]


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([("user", "Hi"), ("assistant", "Yes?")], id="a conversation"),
        pytest.param([("user", "Hi"), ("user", "Ho")], id="two user turns"),
        pytest.param([("system", "S"), ("user", "Hi")], id="a system turn and a user turn"),
        pytest.param([("system", "S")], id="a lone system turn"),
        pytest.param([("assistant", "A")], id="a lone assistant turn"),
        pytest.param([("tool", "T")], id="a lone tool turn"),
        pytest.param([], id="no turns"),
    ],
)
def test_leaves_alone(conversation: Build, run: Build, messages: Any) -> None:
    conversion = conversation(*messages, collected=["G."])
    conversion = conversion.replace(chat=conversion.turns, question="Q")
    assert run(omit_lone_prompt, conversion) == conversion


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(["Hi"], id="a lone user turn"),
        pytest.param(["Hi", ("text", "a.js", "x")], id="a lone user turn with a file"),
        pytest.param([("reference", "a.md", "<Attached: a.md>")], id="a lone marker"),
    ],
)
def test_rewrites(conversation: Build, run: Build, pieces: Any) -> None:
    conversion = conversation(("user", *pieces), collected=["G."], system_prompt="P.")
    system = Turn("system", (Part("text", "P.\n\nG."),))
    conversion = conversion.replace(chat=(system, *conversion.turns), question="Hi")
    assert run(omit_lone_prompt, conversion) == conversion.replace(chat=None)
