"""Pipelines in Python: what they are made of, edits, and a run; errors of YAML files are tables."""

import json
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from multiturn import (
    Case,
    Conversion,
    MultiturnError,
    Part,
    Pipeline,
    PipelineError,
    Step,
    TestMessage,
    Turn,
    load_pipeline,
    stage,
)
from multiturn.pipelines.contract import Stage, contract_of
from multiturn.testing import conversion
from multiturn_stages.embed_files import embed_files
from multiturn_stages.extract_guidelines import extract_guidelines
from multiturn_stages.guard_markers import guard_markers
from multiturn_stages.render_question import render_question
from test_contracts import declared

SPEC = load_pipeline("spec")
DICT: Any = {"role": "user", "content": "Hi"}
CASE = Case(
    id="a",
    suite="a.yaml",
    line=3,
    input_messages=(TestMessage("user", "Hi"), TestMessage("assistant", "Yes?")),
)


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
    def own(given: Conversion) -> Conversion:
        return given

    assert stage(requires={"turns"}, provides={"chat"}, consumes={"files"})(own) is own
    contract = contract_of(own)
    assert contract is not None
    assert contract.in_words() == "requires turns; provides chat; consumes files"


@pytest.mark.parametrize("kind", ["requires", "provides", "consumes"])
@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"trns"}, "there is no fact 'trns'; did you mean \"turns\"?"),
        ({1}, "there is no fact '1'; choose from: turns, files, guidelines"),
        ({"house."}, "there is no fact 'house.'; choose from: turns, files, guidelines"),
        ("turns", 'KIND is a set of facts; write KIND={"turns"}'),
        (None, 'KIND is a set of facts; write KIND={"turns"}'),
    ],
)
def test_an_error_in_what_is_declared_is_raised_where_the_stage_is_used(
    kind: str, facts: Any, words: str, run_stage: Any
) -> None:
    own = declared("own", **{kind: facts})
    with pytest.raises(PipelineError) as caught:
        Pipeline([*SPEC.steps, own])
    (error,) = caught.value.errors
    assert error.what.startswith(words.replace("KIND", kind))
    assert error.step == 6
    assert (Path(error.where.file).name, error.where.line) == (
        "test_contracts.py",
        own.__code__.co_firstlineno,
    )
    with pytest.raises(MultiturnError, match="fact"):
        run_stage(own, Conversion(CASE))


def test_facts_may_be_an_iterator() -> None:
    own = declared("own", requires=iter(["chat"]))
    with pytest.raises(PipelineError, match="requires chat"):
        Pipeline([own])


def test_an_undecorated_function_works() -> None:
    assert Pipeline([*SPEC.steps, shout]).request(CASE).question == "[USER]: HI\n[ASSISTANT]: YES?!"
    louder = Pipeline([*SPEC.steps, Step(shout, {"ending": "?"})])
    assert louder.request(CASE).question == "[USER]: HI\n[ASSISTANT]: YES??"


def test_after_an_undecorated_function_every_fact_is_taken_to_be_true() -> None:
    for step in load_pipeline("shipped").steps:
        assert names(Pipeline([plain, step])) == ["plain", step.name]
    assert names(Pipeline([*SPEC.steps[:3], *SPEC.steps[4:], plain]))[-1] == "plain"
    with pytest.raises(PipelineError, match=r"^embed_files \(1\) requires files"):
        Pipeline([embed_files, plain])
    with pytest.raises(PipelineError, match=r"^extract_guidelines \(3\) .* move it before"):
        Pipeline([plain, embed_files, extract_guidelines])


def positional(given: Conversion, mark: str = "x") -> Conversion:
    return given


def generated(given: Conversion) -> Any:
    yield given


@pytest.mark.parametrize(
    ("item", "words"),
    [
        pytest.param(
            "embed_files",
            "'embed_files' is a name, and Pipeline takes functions; write from"
            " multiturn_stages.embed_files import embed_files",
            id="the name of a stage that ships",
        ),
        pytest.param(
            "spec",
            "'spec' is a name, and Pipeline takes functions; load_pipeline('spec') loads a"
            " pipeline by its name",
            id="the name of a pipeline",
        ),
        pytest.param(
            partial(embed_files, header="#"),
            "a partial cannot be a stage; write Step(embed_files, {'header': '#'})",
            id="a partial",
        ),
        pytest.param(7, "a stage is a function, not a int", id="a number"),
        pytest.param(generated, "generated does not return at once", id="a generator"),
        pytest.param(
            positional,
            'option "mark" of positional is not keyword-only; write positional(conversion, *,'
            " mark=...)",
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
    assert (
        again.advice
        == caught.value.advice
        == ("a legal order: resolve_segments, extract_guidelines, embed_files, consolidate_system")
    )


@pytest.mark.parametrize(
    "text", ["", "---", "{path}", "{{path}}", "{}", "{ pth }", "{0}", "{pth", '{"a": 1}', "{\n}\n"]
)
def test_text_without_an_unknown_placeholder_is_a_header(text: str) -> None:
    pipeline = Pipeline([plain, Step(embed_files, {"header": text, "system_header": None})])
    assert pipeline.steps[1].options == {"header": text, "system_header": None}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: stage({"turns"}), r"given by their kind; write @stage\(requires=\{...\}\)"),
        (lambda: SPEC(CASE), r"not a Case; write pipeline.request\(case\) or pipeline"),  # type: ignore[arg-type]
        (lambda: SPEC(Conversion({"id": "a"})), "not a dict; write pipeline.request"),  # type: ignore[arg-type]
        (
            lambda: SPEC(Conversion(CASE, turns=(DICT,))),
            "has a dict in place of a Turn; write Turn",
        ),
        (lambda: Case(id="a", input_messages=(DICT,)), r'write \(TestMessage\("user", "Hi"\),\)'),
        (lambda: Case(id="a", input_messages="Hi"), r'write \(TestMessage\("user", "Hi"\),\)'),  # type: ignore[arg-type]
        (lambda: conversion(DICT), r'messages are tuples, as in conversion\(\("user", "Hi"\)\)'),
        (lambda: Pipeline("spec"), r"load_pipeline\('spec'\) loads a pipeline; Pipeline takes"),  # type: ignore[arg-type]
        (lambda: Pipeline(None), "Pipeline takes a list of stages, not None"),  # type: ignore[arg-type]
        (lambda: SPEC.request("x"), "request takes a Case, as load_suite gives them, not a str"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_list_or_no_case_is_said(call: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        call()


# Facts of your own


def refusal(*more: Stage) -> list[str]:
    with pytest.raises(PipelineError) as caught:
        Pipeline([*SPEC.steps, *more])
    return str(caught.value).splitlines()


def test_facts_of_ones_own_are_checked_like_the_others() -> None:
    clean = declared("clean", requires={"turns"}, provides={"house.redacted"})
    publish = declared("publish", requires={"house.redacted"}, consumes={"house.redacted"})
    review = declared("review", requires={"house.redacted"})
    ordered = SPEC.insert(clean, after="resolve_segments").insert(publish, after="clean")
    assert names(ordered)[1:3] == ["clean", "publish"]
    assert refusal(publish) == [
        "publish (7) requires house.redacted, which no stage before it provides"
    ]
    first, advice = refusal(publish, clean)
    assert first == (
        "publish (7) requires house.redacted, but clean (8) provides it later; move it after clean"
    )
    assert advice.endswith("render_question, clean, publish")
    assert refusal(clean, publish, review)[0] == (
        "review (9) requires house.redacted, but publish (8) has already used it up; move it"
        " before publish"
    )


def test_stages_that_require_each_other_are_not_told_to_move() -> None:
    sign = declared("sign", requires={"house.reviewed"}, provides={"house.signed"})
    countersign = declared("countersign", requires={"house.signed"}, provides={"house.reviewed"})
    assert refusal(sign, countersign) == [
        "sign (7) requires house.reviewed, but countersign (8) provides it later, and itself only"
        " runs after sign; change what one of the two requires"
    ]


# Edits


def test_edits_return_new_pipelines() -> None:
    before = names(SPEC)
    derived = (
        SPEC.insert(guard_markers, after="render_question")
        .configure("guard_markers", mode="escape")
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
    case = Case(id="x", input_messages=(TestMessage("user", "[User]: a"), TestMessage("user", "b")))
    assert derived(Conversion(case)).question == "User> \\[User]: a\nUser> b"


def test_edits_that_cannot_be_say_so() -> None:
    with pytest.raises(PipelineError, match='did you mean "embed_files"'):
        SPEC.remove("embed_file")
    with pytest.raises(PipelineError, match=r'named by its name, as text; write "embed_files"'):
        SPEC.remove(embed_files)  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match='either "after" or "before"'):
        SPEC.insert(guard_markers)
    twice = Pipeline([*SPEC.steps[:3], *SPEC.steps[:4], *SPEC.steps[4:]])
    with pytest.raises(PipelineError, match=r'"extract_guidelines" .* twice'):
        twice.remove("extract_guidelines")


def test_a_stage_that_has_no_name_cannot_be_written() -> None:
    def local(given: Conversion) -> Conversion:
        return given

    with pytest.raises(PipelineError, match="cannot be named in a file"):
        SPEC.insert(local, after="resolve_segments").to_yaml()


def test_a_pipeline_does_not_change_with_what_it_was_made_of() -> None:
    options = {"marker": "{role}> "}
    stages: list[Stage | Step] = [*SPEC.steps[:5], Step(render_question, options)]
    pipeline = Pipeline(stages)
    stages.pop()
    options["marker"] = "changed"
    case = Case(id="x", input_messages=(TestMessage("tool", "4"),))
    assert pipeline.request(case).question == "Tool> 4"
    assert isinstance(pipeline.steps, tuple)


# A run


def parse(text: str) -> Any:
    return json.loads(text)


def stumble(given: Conversion) -> Any:
    return parse("{")


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
            lambda given: given.replace(turns=(Turn("user", ("Hi",)),)),  # type: ignore[arg-type]
            "a.yaml:3: case 'a': the stage own returned a str in place of a Part",
            id="gives parts that are none",
        ),
        pytest.param(
            lambda given: given.replace(turns=None, guidelines=None),
            "a.yaml:3: case 'a': the stage own returned None in place of a tuple of turns",
            id="gives no turns",
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


def test_what_is_left_out_is_logged_as_a_warning() -> None:
    image = TestMessage("user", ["Look:", {"type": "image", "value": "a.png"}])
    lenient = SPEC.configure("resolve_segments", unknown_type="warn")
    with capture_logs() as logs:
        lenient.request(Case(id="a", suite="a.yaml", line=3, input_messages=(image,)))
    assert [(log["event"], log["log_level"], log["where"]) for log in logs] == [
        ("segment.left_out", "warning", "a.yaml:3: case 'a': input_messages[0].content[1]")
    ]
