"""filter_empty: messages left without content leave the turns, and the chat (rules 2 and 8)."""

from collections.abc import Callable
from typing import Any

import pytest

from multiturn import Conversion, Part, Turn
from multiturn_stages.filter_empty import filter_empty

Build = Callable[..., Conversion]
Read = Callable[..., list[tuple[str, str]]]

HI = ("user", "Hi")
MARKER = ("reference", "a.md", "<Attached: a.md>")
POLICIES = ["drop_unless_alone", "drop", "keep"]


@pytest.mark.parametrize("references_only", POLICIES)
@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([HI, ("assistant", "Yes?"), ("system", "S"), ("tool", "4")], id="text"),
        pytest.param([("user", ("file", "a.js", "x"))], id="a file"),
        pytest.param([HI, ("user", ("file", "a.js", ""))], id="a file is content, even empty"),
        pytest.param([HI, ("user", ("text", "a.js", ""))], id="an empty file that is embedded"),
        pytest.param([HI, ("user", ("text", "a.js", " \n"))], id="a blank file that is embedded"),
        pytest.param([HI, ("user", MARKER, "this")], id="a marker and text"),
        pytest.param([HI, ("user", MARKER, ("file", "a.js", ""))], id="a marker and a file"),
        pytest.param([], id="no messages"),
    ],
)
def test_leaves_alone(conversation: Build, run: Build, messages: Any, references_only: str) -> None:
    conversion = conversation(*messages)
    conversion = conversion.replace(chat=conversion.turns)
    assert run(filter_empty, conversion, references_only=references_only) == conversion


@pytest.mark.parametrize("references_only", POLICIES)
@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([], id="a turn without parts"),
        pytest.param([""], id="a part without text"),
        pytest.param([" \n", "\t"], id="parts of white space"),
    ],
)
def test_rewrites(
    conversation: Build,
    run: Build,
    contents: Read,
    pieces: Any,
    role: str,
    references_only: str,
) -> None:
    conversion = conversation((role, *pieces), HI, (role, *pieces))
    conversion = conversion.replace(chat=conversion.turns)
    result = run(filter_empty, conversion, references_only=references_only)
    assert contents(result.turns) == [("user", "Hi")]
    assert contents(result.chat) == [("user", "Hi")]


USER = ("user", MARKER)
SYSTEM = ("system", MARKER)
BLANK = ("assistant", " ")


@pytest.mark.parametrize(
    ("references_only", "messages", "kept"),
    [
        pytest.param("drop_unless_alone", [USER, HI], [HI], id="beside another turn it is dropped"),
        pytest.param(
            "drop_unless_alone", [("system", "S"), USER], [("system", "S")], id="a system turn too"
        ),
        pytest.param("drop_unless_alone", [USER], [USER], id="a lone one is kept"),
        pytest.param(
            "drop_unless_alone", [SYSTEM, USER, USER], [SYSTEM, USER, USER], id="all are kept"
        ),
        pytest.param(
            "drop_unless_alone", [BLANK, USER], [USER], id="beside a blank turn it is alone"
        ),
        pytest.param(
            "drop_unless_alone",
            [USER, ("user", ("file", "a.js", ""))],
            [("user", ("file", "a.js", ""))],
            id="beside an empty file it is dropped",
        ),
        pytest.param("drop", [USER, HI, SYSTEM], [HI], id="drop drops it beside another turn"),
        pytest.param("drop", [USER], [], id="drop drops even a lone one"),
        pytest.param("keep", [USER, HI, BLANK, SYSTEM], [USER, HI, SYSTEM], id="keep keeps it"),
        pytest.param("keep", [USER], [USER], id="keep keeps a lone one"),
        pytest.param("keep", [BLANK], [], id="keep keeps no blank turn"),
    ],
)
def test_references_only(
    conversation: Build,
    run: Build,
    contents: Read,
    references_only: str,
    messages: Any,
    kept: Any,
) -> None:
    result = run(filter_empty, conversation(*messages), references_only=references_only)
    expected = [(role, piece if isinstance(piece, str) else piece[2]) for role, piece in kept]
    assert contents(result.turns) == expected
    assert result.chat is None


def test_drop_unless_alone_is_the_default(conversation: Build, run: Build) -> None:
    assert run(filter_empty, conversation(USER, HI)) == run(
        filter_empty, conversation(USER, HI), references_only="drop_unless_alone"
    )
    assert len(run(filter_empty, conversation(USER)).turns) == 1


def test_the_system_message_of_the_chat_stays(
    conversation: Build, run: Build, contents: Read
) -> None:
    conversion = conversation(("system", " "), USER, HI)
    system = Turn("system", (Part("text", "Prompt."),))
    result = run(filter_empty, conversion.replace(chat=(system, *conversion.turns[1:])))
    assert contents(result.chat) == [("system", "Prompt."), ("user", "Hi")]


def test_a_chat_turn_whose_markers_are_left_out_stays(
    conversation: Build, run: Build, contents: Read
) -> None:
    conversion = conversation(("user", MARKER, "this"), USER)
    chat = (Turn("user", conversion.turns[0].parts[1:], 0),)
    result = run(filter_empty, conversion.replace(chat=chat))
    assert contents(result.chat) == [("user", "this")]


def test_a_turn_that_a_stage_made_takes_no_other_with_it(
    conversation: Build, run: Build, contents: Read
) -> None:
    """``Turn.message`` is None for a turn that a stage made, and so it is for the system turn."""
    conversion = conversation(HI)
    system = Turn("system", (Part("text", "Prompt."),))
    conversion = conversion.replace(
        turns=(*conversion.turns, Turn("assistant")), chat=(system, *conversion.turns)
    )
    result = run(filter_empty, conversion)
    assert contents(result.chat) == [("system", "Prompt."), ("user", "Hi")]


def test_a_blank_turn_that_a_stage_made_leaves_the_chat(
    conversation: Build, run: Build, contents: Read
) -> None:
    conversion = conversation(HI)
    made = Turn("assistant", (Part("text", "Yes?"),))
    turns = (*conversion.turns, made, Turn("assistant"))
    result = run(filter_empty, conversion.replace(turns=turns, chat=turns))
    assert contents(result.chat) == [("user", "Hi"), ("assistant", "Yes?")]
