"""Views: chat and question show the turns as they are, and can be changed alone."""

import pickle
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from layout import laid_out
from multiturn import Call, Conversion, MultiturnError, Part, Turn, explain, load_pipeline, stage
from multiturn.pipelines.contract import Stage
from multiturn.pipelines.pipeline import request_of
from multiturn.testing import conversion, file, reference
from multiturn_stages.embed_files import embed_files
from multiturn_stages.omit_lone_prompt import omit_lone_prompt
from shown import contents, viewed

Turns = tuple[Turn, ...]
Parts = tuple[Part, ...]


SPEC = laid_out()
BARE = conversion(("user", "Hi"), ("assistant", "Yes?"))
GIVEN = viewed(("user", "Hi"), ("assistant", "Yes?"))


def louder(parts: Parts) -> Parts:
    return tuple(replace(part, text=part.text.upper()) for part in parts)


def all_louder(turns: Turns) -> Turns:
    return tuple(replace(turn, parts=louder(turn.parts)) for turn in turns)


def tagged(turns: Turns, *, tag: str) -> Turns:
    return tuple(replace(turn, parts=(Part("text", tag), *turn.parts)) for turn in turns)


def greeting(turns: Turns) -> Turns:
    return (Turn("system", (Part("text", "Hello."),)), *turns)


def nothing(turns: Turns) -> Any:
    return None


def numbers(turns: Turns) -> Any:
    return (1,)


def stumbling(turns: Turns) -> Turns:
    raise LookupError("no such turn")


# Showing


def test_both_views_show_what_a_later_stage_leaves() -> None:
    given = viewed(("user", "a secret"), ("assistant", "a secret"), system_prompt="a secret")
    later = given.map_parts(lambda part: replace(part, text=part.text.replace("secret", "bird")))
    assert contents(later.chat) == [
        ("system", "a bird"),
        ("user", "a bird"),
        ("assistant", "a bird"),
    ]
    assert later.question == "[User]: a bird\n[Assistant]: a bird"


def test_without_views_there_is_no_chat_and_no_question() -> None:
    assert (BARE.chat, BARE.transcript, BARE.question) == (None, (), "")


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

    result = SPEC.replace("consolidate_system", lambda given: given.replace(chat_view=view))(BARE)
    request_of(result)
    explain(result)
    assert len(asked) == 1


def test_a_finished_conversion_pickles_and_compares_with_its_views() -> None:
    result = load_pipeline("shipped")(BARE).edit_chat(tagged, tag="x")
    again = pickle.loads(pickle.dumps(result))
    assert (again, again.chat, again.question) == (result, result.chat, result.question)


# Changing


def test_an_edit_of_one_view_leaves_the_rest_alone() -> None:
    chatty, asking = GIVEN.edit_chat(all_louder), GIVEN.edit_question(louder)
    assert contents(chatty.chat) == [("user", "HI"), ("assistant", "YES?")]
    assert (chatty.turns, chatty.question) == (GIVEN.turns, GIVEN.question)
    assert asking.question == "[USER]: HI\n[ASSISTANT]: YES?"
    assert (asking.turns, asking.chat) == (GIVEN.turns, GIVEN.chat)
    assert contents(viewed().edit_chat(greeting).chat) == [("system", "Hello.")]


def test_the_same_edit_of_a_stage_is_made_once() -> None:
    once = GIVEN.edit_chat(tagged, tag="a")
    assert once.edit_chat(tagged, tag="a") == once
    both = once.edit_chat(tagged, tag="b")
    assert both.edit_chat(tagged, tag="a").edit_chat(tagged, tag="b") == both
    others = once.replace(stage="mine").edit_chat(tagged, tag="a")
    assert contents(both.chat) == [("user", "b\na\nHi"), ("assistant", "b\na\nYes?")]
    assert contents(others.chat) == [("user", "a\na\nHi"), ("assistant", "a\na\nYes?")]


def test_an_edit_of_a_chat_that_is_left_out_leaves_it_out() -> None:
    assert omit_lone_prompt(viewed(("user", "Hi"))).edit_chat(all_louder).chat is None


TOP = "edit_chat takes a function at the top of a module"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        *(
            (partial(BARE.replace, **{name: ()}), f"TypeError: {name} shows the turns as they are")
            for name in ("chat", "question", "transcript", "input_files")
        ),
        (lambda: BARE.edit_chat(all_louder), 'declare @stage(requires={"chat"})'),
        (lambda: BARE.edit_question(louder), 'declare @stage(requires={"question"})'),
        (lambda: GIVEN.edit_chat(lambda turns: turns), TOP),
        (lambda: GIVEN.edit_chat(partial(tagged, tag="x")), TOP),
        (lambda: GIVEN.edit_chat(len), TOP),  # type: ignore[arg-type]
        (lambda: GIVEN.edit_chat(numbers).chat, "ValueError: numbers returned an int in place of"),
        (lambda: BARE.map_parts(nothing), "TypeError: the function given to map_parts returned N"),  # type: ignore[arg-type]
    ],
)
def test_a_change_that_cannot_be_says_what_can(call: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    assert words in f"{caught.typename}: {caught.value}"


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


@stage(requires={"turns"})
def mumble(given: Conversion) -> Conversion:
    return given.map_parts(lambda part: replace(part, text=part.text.lower()))


@stage(requires={"chat"}, provides={"chat"})
def mark(given: Conversion) -> Conversion:
    return given.edit_chat(all_louder).edit_chat(tagged, tag="!")


def test_a_changed_text_names_the_last_stage_that_changed_it() -> None:
    pipeline = SPEC.insert(mark, after="render_question").insert(mumble, before="mark")
    result = pipeline(BARE)
    assert [(p.text, p.stage, p.changed_by) for turn in result.chat or () for p in turn.parts] == [
        ("!", "mark", None),
        ("HI", None, "mark"),
        ("!", "mark", None),
        ("YES?", None, "mark"),
    ]
    assert [part.changed_by for turn in result.turns for part in turn.parts] == ["mumble", "mumble"]


# Failing


@stage(requires={"chat"}, provides={"chat"})
def forget(given: Conversion) -> Conversion:
    return given.edit_chat(all_louder).edit_chat(nothing)


@stage(requires={"chat"}, provides={"chat"})
def stumble(given: Conversion) -> Conversion:
    return given.edit_chat(stumbling).edit_chat(all_louder)


def refused(given: Conversion) -> Turns:
    raise MultiturnError("not today", where="here", case_id=given.case.id)


def refuse(given: Conversion) -> Conversion:
    return given.replace(chat_view=refused)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (
            forget,
            "case 'case': the stage forget failed: ValueError: nothing returned None in place of a"
            " tuple of turns",
        ),
        (stumble, "case 'case': the stage stumble failed at tests/test_views.py:"),
        (refuse, "here: not today"),
    ],
)
def test_a_view_that_fails_names_its_stage_or_has_its_own_error(
    broken: Stage, words: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(request.config.rootpath)
    pipeline = SPEC.insert(mark, after="render_question").insert(broken, before="mark")
    with pytest.raises(MultiturnError) as caught:
        pipeline(BARE)
    assert str(caught.value).startswith(words)
    assert caught.value.case_id == "case"


# run_stage


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
        (keeps_an_object, "keeps_an_object chose a view that changes when it is pickled"),
        (keeps_a_lambda, "keeps_a_lambda chose a view that cannot be pickled"),
    ],
)
def test_run_stage_sees_what_is_wrong_with_a_stage(run_stage: Any, broken: Any, words: str) -> None:
    with pytest.raises(pytest.fail.Exception, match=words):
        run_stage(broken, conversion(("user", "Hi")))


def leaves_a_call_alone(given: Conversion) -> Conversion:
    return given.replace(turns=tuple(turn for turn in given.turns if turn.role != "tool"))


def without_results(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    return tuple(turn for turn in turns if turn.role != "tool")


def shows_a_call_alone(given: Conversion) -> Conversion:
    return given.edit_chat(without_results)


def test_run_stage_sees_a_call_without_its_result(run_stage: Any) -> None:
    asking = Turn("assistant", calls=(Call("c1", "now", {}),))
    talk = conversion(("user", "Hi"), asking, Turn("tool", answers="c1"), ("user", "Bye"))
    given = SPEC.steps[2](talk)  # consolidate_system
    for broken in (leaves_a_call_alone, shows_a_call_alone):
        words = f"{broken.__name__} left a chat in which the call 'c1' has no result"
        with pytest.raises(pytest.fail.Exception, match=words):
            run_stage(broken, given)
