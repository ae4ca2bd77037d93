"""What a stage does to tools, calls, roles and failed results is named, and lost without a word."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from histories import history
from layout import laid_out
from multiturn import (
    Call,
    Case,
    Conversion,
    Notice,
    StageError,
    TestMessage,
    Tool,
    Turn,
    stage,
)
from multiturn.engine.converting import ConvertedCase
from multiturn.explaining.explanation import explain

WEATHER, NEWS = Tool("weather", "The weather.", line=4), Tool("news", line=5)
CASE = Case(
    id="a",
    suite="s.yaml",
    tools=(WEATHER, NEWS),
    input_messages=(
        TestMessage("user", "Hi", line=8),
        TestMessage("assistant", "Look.", line=9, calls=(Call("c1", "weather", line=10),)),
        TestMessage("tool", "Rain", line=11, answers="c1", is_error=True),
        TestMessage("user", "And?", line=12),
    ),
)
Edit = Callable[[Conversion], Conversion]


def converted(edit: Edit, case: Case = CASE, *, strict: bool = False) -> Any:
    """Return what becomes of a case where a stage ``house`` runs before filter_empty."""

    @stage(requires={"turns"})
    def house(conversion: Conversion) -> Conversion:
        return edit(conversion)

    pipeline = laid_out().insert(house, before="filter_empty")
    return ConvertedCase("s.yaml", case).converted(pipeline, strict=strict)


def told(edit: Edit, case: Case = CASE) -> list[tuple[str, str, str]]:
    """Return each fate that is not as it was written: its key, its name and why."""
    found = converted(edit, case)
    if found.error is not None:
        raise found.error
    return [
        (fate.where.label.removeprefix("case 'a': "), fate.fate, fate.why)
        for fate in explain(found.conversion).fates
        if fate.fate != "shown"
    ]


def with_turn(at: int, **changes: Any) -> Edit:
    """Return a stage that changes one of the turns."""

    def edit(conversion: Conversion) -> Conversion:
        turns = list(conversion.turns)
        turns[at] = replace(turns[at], **changes)
        return conversion.replace(turns=tuple(turns))

    return edit


def without_news(conversion: Conversion) -> Conversion:
    return conversion.replace(tools=(WEATHER,))


def renamed(conversion: Conversion) -> Conversion:
    return conversion.replace(tools=(WEATHER, replace(NEWS, name="headlines")))


def as_users(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    return tuple(replace(turn, role="user", calls=()) for turn in turns if turn.answers is None)


MADE_OF_SYSTEM = Case(
    id="a",
    suite="s.yaml",
    input_messages=(TestMessage("user", "Hi", line=3), TestMessage("assistant", "Ho", line=4)),
)


@pytest.mark.parametrize(
    ("edit", "fates"),
    [
        pytest.param(lambda it: it, [], id="nothing"),
        pytest.param(
            without_news,
            [("tools[1]", "lost", "no rule explains it; the stage house took the tool away")],
            id="a tool is dropped",
        ),
        pytest.param(
            renamed,
            [("tools[1]", "lost", "no rule explains it; the stage house took the tool away")],
            id="a tool is renamed",
        ),
        pytest.param(
            lambda it: it.replace(tools=(replace(WEATHER, description="W"), NEWS)),
            [("tools[0]", "changed", "by house")],
            id="a tool is changed",
        ),
        pytest.param(
            lambda it: it.drop(it.tools[1], "not today"),
            [("tools[1]", "dropped", "not today (the stage house)")],
            id="a tool is dropped with a reason",
        ),
        pytest.param(
            with_turn(2, is_error=False),
            [
                (
                    "input_messages[2].is_error",
                    "lost",
                    "the stage house cleared is_error, and does not say why",
                )
            ],
            id="a call did not fail any more",
        ),
        pytest.param(
            with_turn(3, role="system"),
            [
                ("input_messages[3].content", "merged", "into one system message (rule 7)"),
                (
                    "input_messages[3].role",
                    "lost",
                    "the stage house made it a message of the system, and does not say why",
                ),
            ],
            id="a user becomes the system",
        ),
        pytest.param(
            lambda it: it.drop(it.turns[1].calls[0], "no weather"),
            [
                ("input_messages[1].tool_calls[0]", "dropped", "no weather (the stage house)"),
                ("input_messages[2].content", "dropped", "no weather (the stage house)"),
            ],
            id="a call is dropped with its result",
        ),
    ],
)
def test_each_is_named_and_lost_without_a_reason(
    edit: Edit, fates: list[tuple[str, str, str]]
) -> None:
    assert told(edit) == fates
    is_lost = any(fate == "lost" for _, fate, _ in fates)
    error = converted(edit, strict=True).error
    assert (error is not None) is is_lost
    if error is not None:
        (why,) = [why for _, fate, why in fates if fate == "lost"]
        assert error.what == f"lost: {why}"
        assert error.where.line  # of the suite


def test_a_notice_about_the_message_is_the_reason_for_another_role() -> None:
    def edit(conversion: Conversion) -> Conversion:
        why = "the house has no tools"
        said = Notice("house.role", CASE.where(12), why, 3, is_warning=False)
        return with_turn(3, role="assistant")(conversion).replace(notices=(said,))

    assert told(edit) == [("input_messages[3].role", "changed", "the house has no tools")]
    assert converted(edit, strict=True).error is None


def test_an_edit_of_the_chat_that_changes_a_role_is_named() -> None:
    @stage(requires={"chat"})
    def late(conversion: Conversion) -> Conversion:
        return conversion.edit_chat(as_users)

    pipeline = laid_out().insert(late, after="render_question")
    found = ConvertedCase("s.yaml", MADE_OF_SYSTEM).converted(pipeline, strict=True)
    assert found.error is not None
    what = "lost: the stage late made it a message of the user, and does not say why"
    assert (found.error.what, found.error.where.line) == (what, 4)


def test_an_edit_of_a_chat_that_is_left_out_is_explained() -> None:
    @stage(requires={"chat"})
    def late(conversion: Conversion) -> Conversion:
        return conversion.edit_chat(as_users)

    lone = Case(id="a", input_messages=(TestMessage("user", "Hi"),))
    pipeline = laid_out("shipped").insert(late, after="omit_lone_prompt")
    fates = explain(pipeline(Conversion(lone))).fates
    assert [fate.fate for fate in fates] == ["shown"]


@pytest.mark.parametrize(
    "edit",
    [
        lambda it: it.replace(tools=(NEWS,)),
        lambda it: it.drop(it.tools[0], "no weather"),
        lambda it: it.replace(tools=(replace(WEATHER, name="sky"), NEWS)),
        lambda it: with_turn(1, calls=(Call("c1", "sky"),))(it),
        lambda it: it.replace(tools=()),
    ],
)
def test_a_call_of_a_tool_that_is_not_there_is_an_error_of_its_stage(edit: Edit) -> None:
    error = converted(edit).error
    assert isinstance(error, StageError)
    name = "sky" if error.what.count("'sky'") else "weather"
    what = f"the stage house left a call of {name!r}, which is not among the tools"
    assert error.what == f"{what}; drop the call, too, or keep the tool"


def test_without_tools_calls_name_what_they_like() -> None:
    case = replace(CASE, tools=())
    assert converted(with_turn(1, calls=(Call("c1", "sky"),)), case).error is None


def case_of(number: int) -> Case:
    """Return a random conversation with calls as a case."""
    request = history(number)
    messages = tuple(
        TestMessage(
            each.role,
            each.content,
            calls=each.tool_calls,
            answers=each.tool_call_id,
            is_error=each.is_error,
            thinking=each.thinking,
        )
        for each in request.chat_prompt or ()
    )
    return Case(id="a", input_messages=messages, tools=request.tools, settings=request.settings)


@pytest.mark.parametrize("name", ["spec", "design", "shipped", "agentv"])
def test_our_stages_change_no_tool_no_role_and_no_result(name: str) -> None:
    """A stage that ships is not looked at in a run, which takes time."""
    count = 0
    for number in range(150):
        case = case_of(number)
        conversion = Conversion(case, markers=laid_out(name).markers)
        for step in laid_out(name).steps:
            after = step(conversion, is_tried=True)
            assert not [what for _, what in after.altered if isinstance(what, str)]
            assert after.settings is None
            assert after.tools == (case.tools if after.turns else ())
            count += len(after.tools)
            conversion = after
        names = {call.name for turn in conversion.chat or () for call in turn.calls}
        assert not case.tools or names <= {tool.name for tool in case.tools}
        assert [fate for fate in explain(conversion).fates if fate.fate == "lost"] == []
    assert count
