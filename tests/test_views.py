"""Views: chat and question show the turns as they are, and can be changed alone."""

import pickle
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from multiturn import (
    Case,
    Conversion,
    MultiturnError,
    Part,
    Pipeline,
    TestMessage,
    Turn,
    explain,
    load_pipeline,
    stage,
)
from multiturn.pipelines.contract import Stage
from multiturn.pipelines.pipeline import request_of
from multiturn.testing import conversion, file, reference
from multiturn_stages.consolidate_system import consolidate_system
from multiturn_stages.embed_files import embed_files
from multiturn_stages.omit_lone_prompt import omit_lone_prompt
from multiturn_stages.render_question import render_question

Turns = tuple[Turn, ...]
SPEC = load_pipeline("spec")
CASE = Case(id="case", input_messages=(TestMessage("user", "Hi"), TestMessage("assistant", "Yes?")))


def viewed(*messages: Any, **given: Any) -> Conversion:
    return render_question(consolidate_system(conversion(*messages, **given)))


def spoken(turns: Turns | None) -> list[str]:
    return [f"{turn.role}: {turn.content}" for turn in turns or ()]


def tagged(turns: Turns, *, tag: str) -> Turns:
    return tuple(replace(turn, parts=(Part("text", tag), *turn.parts)) for turn in turns)


def louder(turns: Turns) -> Turns:
    return tuple(
        replace(turn, parts=tuple(replace(part, text=part.text.upper()) for part in turn.parts))
        for turn in turns
    )


def nothing(turns: Turns) -> Turns:
    return None  # type: ignore[return-value]


def stumbling(turns: Turns) -> Turns:
    raise LookupError("no such turn")


# Showing


def test_both_views_show_what_a_later_stage_leaves() -> None:
    given = viewed(("user", "a secret"), ("assistant", "a secret"), system_prompt="a secret")
    later = given.map_parts(lambda part: replace(part, text=part.text.replace("secret", "bird")))
    assert spoken(later.chat) == ["system: a bird", "user: a bird", "assistant: a bird"]
    assert later.question == "[User]: a bird\n[Assistant]: a bird"
    assert spoken(given.chat)[1] == "user: a secret"


def test_without_views_there_is_no_chat_and_no_question() -> None:
    given = conversion(("user", "Hi"))
    assert (given.chat, given.transcript, given.question) == (None, (), "")


def test_an_attached_file_is_shown_once_as_its_first_message_has_it() -> None:
    given = conversion(
        ("user", reference("g.md"), file("./a.py", "A")),
        ("user", file("a.py", "A")),
        guidelines=[replace(file("g.md", "G"), message=0, content=0)],
    )
    changed = given.map_parts(lambda part: replace(part, text=f"{part.text}!"))
    for shown in (changed, embed_files(changed)):
        assert [(f.path, f.resolved_path, f.guideline, f.text) for f in shown.input_files] == [
            ("g.md", "g.md", True, "G!"),
            ("./a.py", "a.py", False, "A!"),
        ]


def test_a_pipeline_asks_a_view_once_and_keeps_what_it_gave() -> None:
    asked: list[Conversion] = []

    def view(given: Conversion) -> Turns:
        asked.append(given)
        return given.turns

    def count(given: Conversion) -> Conversion:
        return given.replace(chat_view=view)

    result = SPEC.replace("consolidate_system", count)(Conversion(CASE))
    request_of(result)
    explain(result)
    assert len(asked) == 1


def test_a_finished_conversion_pickles_and_compares_with_its_views() -> None:
    result = load_pipeline("shipped")(Conversion(CASE)).edit_chat(tagged, tag="x")
    again = pickle.loads(pickle.dumps(result))
    assert again == result
    assert again.chat == result.chat
    assert again.question == result.question
    assert "SystemFirst(sections=" in repr(again.chat_view)


# Changing


@pytest.mark.parametrize("attribute", ["chat", "question", "transcript", "input_files"])
def test_a_view_is_not_replaced(attribute: str) -> None:
    with pytest.raises(TypeError, match=f"^{attribute} shows the turns as they are; use "):
        conversion(("user", "Hi")).replace(**{attribute: ()})


def test_an_edit_of_one_view_leaves_the_rest_alone() -> None:
    given = viewed(("user", "Hi"), ("user", "Ho"))
    chatty = given.edit_chat(louder)
    assert spoken(chatty.chat) == ["user: HI", "user: HO"]
    assert (chatty.turns, chatty.question) == (given.turns, given.question)
    asked = given.edit_question(shown_backward)
    assert asked.question == "Ho[User]: Hi[User]: "
    assert asked.chat == given.chat


def shown_backward(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    return tuple(replace(part, separator="") for part in reversed(parts))


def test_the_same_edit_twice_is_one_edit() -> None:
    once = viewed(("user", "Hi")).edit_chat(tagged, tag="a")
    assert once.edit_chat(tagged, tag="a") == once
    other = once.edit_chat(tagged, tag="b")
    assert spoken(other.chat) == ["user: b\na\nHi"]
    assert other.edit_chat(tagged, tag="a").edit_chat(tagged, tag="b") == other
    mine = once.replace(stage="mine").edit_chat(tagged, tag="a")
    assert spoken(mine.chat) == ["user: a\na\nHi"]


def test_an_edit_of_a_chat_that_is_left_out_leaves_it_out() -> None:
    assert omit_lone_prompt(viewed(("user", "Hi"))).edit_chat(louder).chat is None


def test_an_edit_needs_its_view() -> None:
    given = conversion(("user", "Hi"))
    with pytest.raises(ValueError, match=r'declare @stage\(requires={"chat"}\)'):
        given.edit_chat(louder)
    with pytest.raises(ValueError, match=r'declare @stage\(requires={"question"}\)'):
        given.edit_question(shown_backward)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda turns: turns, id="a lambda"),
        pytest.param(partial(tagged, tag="x"), id="a partial"),
        pytest.param(len, id="a built-in"),
        pytest.param("tagged", id="a name"),
    ],
)
def test_an_edit_is_a_function_at_the_top_of_a_module(function: Any) -> None:
    with pytest.raises(TypeError, match="edit_chat takes a function at the top of a module"):
        viewed(("user", "Hi")).edit_chat(function)


def numbers(turns: Turns) -> Turns:
    return (1,)  # type: ignore[return-value]


def by_nobody(turns: Turns) -> Turns:
    return tuple(replace(turn, role="usr") for turn in turns)


def greeting(turns: Turns) -> Turns:
    return (Turn("system", (Part("text", "Hello."),)), *turns)


def test_an_edit_returns_what_it_was_given() -> None:
    with pytest.raises(ValueError, match="numbers returned a int in place of a Turn"):
        _ = viewed(("user", "Hi")).edit_chat(numbers).chat
    with pytest.raises(ValueError, match="by_nobody returned a turn with the role 'usr'; choose"):
        _ = viewed(("user", "Hi")).edit_chat(by_nobody).chat
    assert spoken(viewed().edit_chat(greeting).chat) == ["system: Hello."]


def test_map_parts_gives_each_text_of_suite_and_files_once() -> None:
    given = viewed(
        ("system", "S"),
        ("user", reference("g.md"), "U", file("a.py", "A")),
        guidelines=["given", file("g.md", "G")],
        system_prompt="P",
    )
    seen: list[str] = []

    def see(part: Part) -> Part:
        seen.append(part.text)
        return part

    assert embed_files(given).map_parts(see) == embed_files(given)
    assert sorted(seen) == ["A", "G", "P", "S", "U", "given"]


def test_map_parts_wants_a_part_with_a_text_back() -> None:
    with pytest.raises(TypeError, match="returned a Part whose text is None"):
        conversion(("user", "Hi")).map_parts(lambda part: replace(part, text=None))
    with pytest.raises(TypeError, match="given to map_parts returned None in place of a Part"):
        conversion(("user", "Hi")).map_parts(lambda part: None)  # type: ignore[arg-type, return-value]


@stage(requires={"turns"})
def mumble(given: Conversion) -> Conversion:
    return given.map_parts(lambda part: replace(part, text=part.text.lower()))


@stage(requires={"chat"}, provides={"chat"})
def mark(given: Conversion) -> Conversion:
    return given.edit_chat(louder).edit_chat(tagged, tag="!")


def test_a_changed_text_names_the_last_stage_that_changed_it() -> None:
    pipeline = Pipeline([*SPEC.steps, mumble, mark])
    result = pipeline(Conversion(CASE))
    assert result.chat is not None
    assert [(p.text, p.stage, p.changed_by) for turn in result.chat for p in turn.parts] == [
        ("!", "mark", None),
        ("HI", None, "mark"),
        ("!", "mark", None),
        ("YES?", None, "mark"),
    ]
    assert [part.changed_by for turn in result.turns for part in turn.parts] == ["mumble", "mumble"]


# Failing


@stage(requires={"chat"}, provides={"chat"})
def forget(given: Conversion) -> Conversion:
    return given.edit_chat(louder).edit_chat(nothing)


@stage(requires={"chat"}, provides={"chat"})
def stumble(given: Conversion) -> Conversion:
    return given.edit_chat(stumbling).edit_chat(louder)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (
            forget,
            "the stage forget failed: ValueError: nothing returned None in place of a tuple of"
            " turns",
        ),
        (stumble, "the stage stumble failed at tests/test_views.py:"),
    ],
)
def test_a_view_that_fails_names_its_stage(
    broken: Stage, words: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(request.config.rootpath)
    pipeline = Pipeline([*SPEC.steps, broken, mark, mumble])
    with pytest.raises(MultiturnError) as caught:
        pipeline.request(CASE)
    assert str(caught.value).startswith(f"case 'case': {words}")
    assert caught.value.case_id == "case"


def test_a_view_keeps_its_own_error() -> None:
    def refuse(given: Conversion) -> Conversion:
        return given.replace(chat_view=refused)

    def refused(given: Conversion) -> Turns:
        raise MultiturnError("not today", where="here", case_id=given.case.id)

    with pytest.raises(MultiturnError, match=r"^here: not today$"):
        SPEC.replace("consolidate_system", refuse).request(CASE)


def writes_on(given: Conversion) -> Conversion:
    return given.replace(turns=(*given.turns, Turn("user")))


def writes_over(given: Conversion) -> Conversion:
    given.case.input_messages[0].content.append("more")
    return given


class Nameless:
    """A view that does not compare."""

    def __call__(self, given: Conversion) -> Turns:
        return given.turns


VIEWS: list[Any] = [Nameless(), lambda given: given.turns]


def keeps_an_object(given: Conversion) -> Conversion:
    return given.replace(chat_view=VIEWS[0])


def keeps_a_lambda(given: Conversion) -> Conversion:
    return given.replace(chat_view=VIEWS[1])


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (writes_on, "writes_on gives something else when it runs twice"),
        (writes_over, "writes_over changed the Conversion that it was given"),
        (keeps_an_object, "keeps_an_object chose a view that is another one when it was pickled"),
        (keeps_a_lambda, "keeps_a_lambda chose a view that cannot be pickled"),
    ],
)
def test_run_stage_sees_what_is_wrong_with_a_stage(run_stage: Any, broken: Any, words: str) -> None:
    with pytest.raises(pytest.fail.Exception, match=words):
        run_stage(broken, conversion(("user", "Hi")))


@pytest.mark.parametrize("key", ["guidelines", "guideline_patterns"])
def test_a_lone_text_is_not_split_into_letters(key: str) -> None:
    with pytest.raises(TypeError, match=rf"{key} are several texts, as in {key}=\['abc'\]"):
        replace(CASE, **{key: "abc"})
