"""Pipelines in Python: what they are made of, edits, and a run; errors of YAML files are tables."""

import json
import pickle
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from layout import laid_out
from multiturn import (
    Case,
    Conversion,
    MultiturnError,
    Part,
    Pipeline,
    PipelineError,
    RequestSettings,
    StageError,
    Step,
    TestMessage,
    Turn,
    stage,
)
from multiturn.testing import conversion
from multiturn_stages.embed_files import embed_files
from multiturn_stages.guard_markers import guard_markers
from multiturn_stages.render_question import render_question

SPEC = laid_out()
CASE = Case(
    id="a",
    suite="a.yaml",
    line=3,
    input_messages=(TestMessage("user", "Hi"), TestMessage("assistant", "Yes?")),
)
DICT: Any = {"role": "user", "content": "Hi"}


def names(pipeline: Pipeline) -> list[str]:
    return [step.name for step in pipeline.steps]


def plain(given: Conversion) -> Conversion:
    return given


def shouted(parts: tuple[Part, ...], ending: str) -> tuple[Part, ...]:
    return (*(replace(part, text=part.text.upper()) for part in parts), Part("text", ending, ""))


def shout(given: Conversion, *, ending: str = "!") -> Conversion:
    return given.edit_question(shouted, ending=ending)


# Stages


def test_stage_returns_the_function_itself() -> None:
    assert stage(requires={"turns"})(plain) is plain


def test_a_function_without_a_contract_is_a_stage_with_its_options() -> None:
    pipeline = SPEC.insert(Step(shout, {"ending": "?"}), after="render_question")
    assert pipeline.request(CASE).question == "[USER]: HI\n[ASSISTANT]: YES??"


def test_a_part_of_a_pipeline_may_leave_nothing_to_answer() -> None:
    system = Case(id="a", input_messages=(TestMessage("system", "Be brief."),))
    assert Pipeline([SPEC.steps[0], SPEC.steps[3]])(Conversion(system)).chat is None


def positional(given: Conversion, mark: str = "x") -> Conversion:
    return given


def generated(given: Conversion) -> Any:
    yield given


@pytest.mark.parametrize(
    ("item", "words"),
    [
        pytest.param("embed_files", "a str is no stage: it must be a function", id="a name"),
        pytest.param(
            partial(embed_files, header="#"),
            "a partial is no stage: it must be a function with def, and without",
            id="a partial",
        ),
        pytest.param(7, "an int is no stage: it must be", id="a number"),
        pytest.param(generated, "generated is no stage: it must be", id="a generator"),
        pytest.param(
            Step(positional, {"mark": "y"}),
            'unknown option "mark" of positional; there are none',
            id="an option by position",
        ),
        pytest.param(
            Step(shout, {"endng": "?"}),
            'unknown option "endng" of shout; did you mean "ending"?',
            id="an option of an undecorated function",
        ),
    ],
)
def test_what_is_no_stage_is_said_with_what_to_write(item: Any, words: str) -> None:
    with pytest.raises(PipelineError) as caught:
        Pipeline([*SPEC.steps, item])
    assert str(caught.value).startswith(words)
    assert [error.step for error in caught.value.errors] == [6]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: stage({"turns"}),
            "facts are given by their kind; write @stage(requires={...}), or",
        ),
        (lambda: Pipeline(None), "Pipeline takes stages, a name or a path, not None"),  # type: ignore[arg-type]
        (lambda: SPEC.request(DICT), "of a Case, not a dict; write pipeline.request(case)"),
        (lambda: SPEC(CASE), "not a Case; write pipeline.request(case) or pipeline(Conversion("),  # type: ignore[arg-type]
        (lambda: SPEC(Conversion(DICT)), "of a Case, not a dict; write pipeline.request(case)"),
        (lambda: Case(id="a", input_messages=(DICT,)), 'write (TestMessage("user", "Hi"),)'),
        (lambda: Case(id="a", input_messages="Hi"), 'write (TestMessage("user", "Hi"),)'),  # type: ignore[arg-type]
        (lambda: replace(CASE, guidelines="abc"), "several texts, as in guidelines=['abc']"),
        (lambda: replace(CASE, guideline_patterns="a"), "as in guideline_patterns=['a']"),
        (lambda: conversion(DICT), 'messages are tuples, as in conversion(("user", "Hi"))'),
    ],
)
def test_what_is_of_another_type_is_said_with_what_to_write(call: Any, words: str) -> None:
    with pytest.raises(TypeError) as caught:
        call()
    assert words in str(caught.value)


@pytest.mark.parametrize("of", [tuple, list, iter], ids=["a tuple", "a list", "an iterator"])
def test_the_texts_of_a_case_are_kept_as_tuples(of: Any) -> None:
    case = replace(CASE, guidelines=of(["Be brief."]), guideline_patterns=of(["*.md"]))
    assert (case.guidelines, case.guideline_patterns) == (("Be brief.",), ("*.md",))
    assert [part.text for part in SPEC(Conversion(case)).guidelines] == ["Be brief."]


def test_all_errors_are_found_together_and_pickle() -> None:
    with pytest.raises(PipelineError) as caught:
        Pipeline([Step(embed_files, {"heder": "", "system_header": 1}), *SPEC.steps[:3]])
    errors = caught.value.errors
    assert [(error.step, error.option) for error in errors] == [
        (0, "heder"),
        (0, "system_header"),
        (0, None),
    ]
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.errors) == (str(caught.value), errors)
    assert str(again).endswith(
        "a legal order: resolve_segments, extract_guidelines, embed_files, consolidate_system"
    )


@pytest.mark.parametrize("text", ["{path}", "{{path}}", "{ pth }", "{0}", "{pth", '{"a": 1}\n'])
def test_text_without_an_unknown_placeholder_is_a_header(text: str) -> None:
    assert SPEC.configure("embed_files", header=text).steps[3].options == {"header": text}


# Edits


def test_edits_return_new_pipelines() -> None:
    before = names(SPEC)
    derived = (
        SPEC.insert(guard_markers, after="render_question", mode="escape")
        .replace("filter_empty", plain)
        .remove("extract_guidelines")
        .configure("render_question", marker="{role}> ")
    )
    assert names(derived) == [
        "resolve_segments",
        "consolidate_system",
        "embed_files",
        "plain",
        "render_question",
        "guard_markers",
    ]
    assert names(SPEC) == before
    case = Case(id="x", input_messages=(TestMessage("user", "user> a"), TestMessage("user", "b")))
    assert derived(Conversion(case)).question == "User> \\user> a\nUser> b"


def test_a_step_is_inserted_with_its_options_and_others() -> None:
    step = Step(render_question, {"marker": "{role}> ", "separator": " "})
    pipeline = SPEC.remove("render_question").insert(step, after="filter_empty", separator="|")
    assert pipeline.steps[-1].options == {"marker": "{role}> ", "separator": "|"}
    with pytest.raises(PipelineError, match='unknown option "hedder" of guard_markers'):
        SPEC.insert(guard_markers, after="render_question", hedder="")


def of_program() -> Any:
    """Return a stage of the program itself, such as a notebook's."""
    found: dict[str, Any] = {"__name__": "__main__", "stage": stage}
    exec("@stage()\ndef drops(given): return given", found)
    return found["drops"]


TWICE = Pipeline([*SPEC.steps[:3], *SPEC.steps[1:]])


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda: SPEC.remove("embed_file"), 'did you mean "embed_files"'),
        (lambda: SPEC.remove(embed_files), 'named by its name, as text; write "embed_files"'),  # type: ignore[arg-type]
        (lambda: SPEC.insert(guard_markers), 'either "after" or "before"'),
        (lambda: TWICE.remove("extract_guidelines"), '"extract_guidelines" is in this pipeline tw'),
        (lambda: Pipeline([lambda given: given]).to_yaml(), "cannot be named in a file"),
        (
            lambda: Pipeline([of_program()]).to_yaml(),
            "drops cannot be named in a file: a stage is at the top",
        ),
    ],
)
def test_an_edit_that_cannot_be_says_so(edit: Any, words: str) -> None:
    with pytest.raises(PipelineError) as caught:
        edit()
    assert words in str(caught.value)


def test_a_pipeline_does_not_change_with_what_it_was_made_of() -> None:
    options = {"marker": "{role}> "}
    stages = [*SPEC.steps[:5], Step(render_question, options)]
    pipeline = Pipeline(stages)
    stages.pop()
    options["marker"] = "changed"
    assert pipeline.request(CASE).question == "User> Hi\nAssistant> Yes?"


# A run


def parse(text: str) -> Any:
    return json.loads(text)


def stumble(given: Conversion) -> Any:
    return parse("{")


def part(**fields: Any) -> Callable[[Conversion], Conversion]:
    """Return a stage that gives a user turn with a part that has these fields."""
    made = Part(**{"kind": "text", "text": "x", **fields})
    return lambda given: given.replace(turns=(Turn("user", (made,)),))


WRONG_TYPES: list[tuple[Callable[[Conversion], Conversion], str]] = [
    (part(separator=None), "returned a Part whose separator is None"),
    (part(message="1"), "returned a Part whose message is a str"),
    (part(path=Path("a")), "returned a Part whose path is a PosixPath"),
    (
        part(kind="txt"),
        "returned a Part of the kind 'txt'; choose from: text, file, reference, media",
    ),
    (
        lambda given: given.replace(turns=(Turn("user", (), "1"),)),  # type: ignore[arg-type]
        "returned a Turn whose message is a str",
    ),
    (lambda given: given.replace(case=None), "returned a Conversion whose case is None"),
    (lambda given: given.replace(notices=None), "returned a Conversion whose notices is None"),
    (lambda given: given.replace(notices=("x",)), "returned a Conversion whose notices is a str"),
    (
        lambda given: given.replace(chat_view="x"),
        "returned a Conversion whose chat_view is a str",
    ),
    (
        lambda given: given.replace(chat_view=lambda given: [1]),
        "failed: ValueError: its chat_view gave an int in place of a Turn",
    ),
    (
        lambda given: given.replace(question_view=lambda given: None),
        "failed: ValueError: its question_view gave None in place of a tuple of parts",
    ),
    (
        lambda given: given.replace(question_view=lambda given: (1,)),
        "failed: ValueError: its question_view gave an int in place of a Part",
    ),
]


def refuse(given: Conversion) -> Conversion:
    raise MultiturnError("no more")


def give_up(given: Conversion) -> Conversion:
    raise MultiturnError("no more", where="here", case_id=given.case.id)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        pytest.param(
            lambda given: None,
            "a.yaml:3: case 'a': the stage own returned NoneType instead of a Conversion."
            " Maybe you forgot to return what conversion.replace() gives?",
            id="returns nothing",
        ),
        pytest.param(
            stumble,
            "a.yaml:3: case 'a': the stage own failed at tests/test_pipeline.py:LINE:"
            " JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2"
            " (char 1)",
            id="raises",
        ),
        pytest.param(
            lambda given: given.replace(turns=(Turn("usr"),)),  # type: ignore[arg-type]
            "a.yaml:3: case 'a': the stage own returned a turn with the role 'usr'; choose"
            " from: system, user, assistant, tool",
            id="gives a role that does not exist",
        ),
        pytest.param(
            lambda given: given.replace(settings=RequestSettings(top_p=7)),
            "a.yaml:3: case 'a': the stage own returned wrong settings: top_p must be 1 or less",
            id="sets what no suite may set",
        ),
        pytest.param(
            lambda given: given.replace(turns=(Turn("user", ("Hi",)),)),  # type: ignore[arg-type]
            "a.yaml:3: case 'a': the stage own returned a str in place of a Part",
            id="gives parts that are none",
        ),
        pytest.param(
            lambda given: given.replace(system_prompt=Part("text", None)),  # type: ignore[arg-type]
            "a.yaml:3: case 'a': the stage own returned a Part whose text is None",
            id="gives a text that is none",
        ),
        pytest.param(
            lambda given: given.replace(guidelines=None),
            "a.yaml:3: case 'a': the stage own returned a Conversion whose guidelines is None",
            id="gives no guidelines",
        ),
        *(
            pytest.param(change, f"a.yaml:3: case 'a': the stage own {words}", id=words)
            for change, words in WRONG_TYPES
        ),
        pytest.param(refuse, "a.yaml:3: case 'a': no more", id="raises an error without a place"),
        pytest.param(give_up, "here: no more", id="raises an error of its own"),
    ],
)
def test_a_stage_that_fails_is_named_with_its_case(
    broken: Any, message: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(request.config.rootpath)
    monkeypatch.setattr(broken, "__name__", "own")
    with pytest.raises(MultiturnError) as caught:
        Pipeline([broken, plain]).request(CASE)
    line = str(parse.__code__.co_firstlineno + 1)
    assert str(caught.value) == message.replace("LINE", line)
    assert caught.value.case_id == "a"
    assert isinstance(caught.value.__cause__, json.JSONDecodeError) == (broken is stumble)


def test_an_interrupt_while_what_a_stage_made_is_checked_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lose_interrupts(made: Conversion) -> None:  # as C code does that clears errors
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
            time.sleep(0)

    monkeypatch.setattr("multiturn.pipelines.step.check_fields", lose_interrupts)
    with pytest.raises(KeyboardInterrupt):
        SPEC.insert(plain, after="resolve_segments").request(CASE)


@stage(requires={"turns"})
def forget(given: Conversion) -> Conversion:
    return given.drop(given.turns, "nobody needs them")


@stage(requires={"turns"})
def blank(given: Conversion) -> Conversion:
    return given.map_parts(lambda part: replace(part, text=" "))


@pytest.mark.parametrize("silent", [forget, blank])
def test_a_stage_that_leaves_nothing_to_answer_is_named(silent: Any) -> None:
    with pytest.raises(StageError) as caught:
        SPEC.insert(silent, after="resolve_segments").request(CASE)
    assert str(caught.value) == (
        f"a.yaml:3: case 'a': the stage {silent.__name__} left nothing to answer; let it"
        " keep a user message"
    )


def test_what_is_left_out_is_logged_as_a_warning() -> None:
    image = TestMessage("user", ["Look:", {"type": "video", "value": "a.png"}])
    lenient = SPEC.configure("resolve_segments", unknown_type="warn")
    with capture_logs() as logs:
        lenient.request(replace(CASE, input_messages=(image,)))
    assert [(log["event"], log["log_level"], log["where"]) for log in logs] == [
        ("segment.left_out", "warning", "a.yaml:3: case 'a': input_messages[0].content[1]")
    ]
