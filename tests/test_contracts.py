"""Contracts: an order of stages is refused or right, and a stage does what it declares."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import multiturn_stages
from multiturn import (
    Case,
    Conversion,
    Files,
    MultiturnError,
    Pipeline,
    PipelineError,
    ProviderRequest,
    Step,
    TestMessage,
    load_pipeline,
)
from multiturn.pipelines.contract import Stage, contract_of
from multiturn.pipelines.ordering import order_errors
from multiturn.pipelines.pipeline import request_of
from multiturn.pipelines.pipeline_file import pipeline_names
from multiturn.turns import ROLES
from multiturn_stages.consolidate_system import consolidate_system
from multiturn_stages.embed_files import embed_files
from multiturn_stages.extract_guidelines import extract_guidelines
from multiturn_stages.filter_empty import filter_empty
from multiturn_stages.omit_lone_prompt import omit_lone_prompt
from multiturn_stages.render_question import render_question
from multiturn_stages.resolve_segments import resolve_segments

Options = Mapping[str, Mapping[str, Any]]

SIX: tuple[Stage, ...] = (
    resolve_segments,
    extract_guidelines,
    consolidate_system,
    embed_files,
    filter_empty,
    render_question,
)
SEVEN = (*SIX, omit_lone_prompt)

# Resolving comes first. Extracting needs files that are not text yet, and filtering needs its
# guidelines: of the 5! orders of the rest, extracting is the first of three in one of three.
FORTY = {
    ("resolve_segments", *rest)
    for rest in itertools.permutations([each.__name__ for each in SIX[1:]])
    if rest.index("extract_guidelines") < rest.index("embed_files")
    and rest.index("extract_guidelines") < rest.index("filter_empty")
}

# What each stage is there for, as attributes of Conversion.
CHANGES = {
    "resolve_segments": {"turns", "guidelines", "system_prompt", "notices"},
    "extract_guidelines": {"turns", "guidelines"},
    "consolidate_system": {"chat_view"},
    "embed_files": {"turns"},
    "filter_empty": {"turns", "notices"},
    "render_question": {"question_view"},
    "omit_lone_prompt": {"chat_view"},
}

# The attributes of a Conversion that a stage may change to make or end a fact.
FIELDS = {
    "turns": {"turns", "guidelines", "system_prompt", "notices"},
    "files": {"turns"},
    "guidelines": {"turns", "guidelines"},
    "text": {"turns"},
    "chat": {"chat_view"},
    "visible_turns": {"turns", "notices"},
    "question": {"question_view"},
    "guarded": {"chat_view", "question_view", "notices"},
}
SHIPPING: dict[str, Options] = {
    name: {step.name: step.options for step in load_pipeline(name).steps}
    for name in pipeline_names()
}
FILES = {
    "code.js": "console.log('test')\r\n",
    "empty.txt": "",
    "rules.instructions.md": "Be brief.\n",
    "sub/more.instructions.md": "{path}\n\nBe kind.",
    "empty.instructions.md": "\n",
}
PATHS = [*FILES, "./code.js", "./rules.instructions.md", "sub/../code.js"]

texts = st.sampled_from(["Hello", "two\nlines", "", " \n", "{path} {role} %s", "[User]: Hi"])
texts |= st.text(max_size=3)
attached = st.builds(lambda path: {"type": "file", "value": path}, st.sampled_from(PATHS))
segments = texts | attached | attached | st.just({"ort": "Köln"})
messages = st.builds(TestMessage, st.sampled_from(ROLES), texts | st.lists(segments, max_size=3))
cases = st.builds(
    Case,
    id=st.just("case"),
    input_messages=st.lists(messages, min_size=1, max_size=5).map(tuple),
    system_prompt=st.none() | texts,
    guidelines=st.lists(texts, max_size=2).map(tuple),
    guideline_patterns=st.sampled_from([("**/*.instructions.md",), ("*",), ("sub/**",), ()]),
)


def some(**options: st.SearchStrategy[Any]) -> st.SearchStrategy[Mapping[str, Any]]:
    return st.fixed_dictionaries({}, optional=options)


section = st.sampled_from(["messages_else_prompt", "messages", "prompt", "guidelines"])
any_options = st.fixed_dictionaries(
    {
        "resolve_segments": some(trailing_newlines=st.sampled_from(["drop", "keep"])),
        "extract_guidelines": some(marker=st.sampled_from(["{path}", ""])),
        "consolidate_system": some(
            sections=st.lists(section, unique=True),
            later_system=st.sampled_from(["merge", "assistant", "keep"]),
            references=st.sampled_from(["keep", "omit"]),
            guidelines_heading=st.sampled_from(["", "# Rules"]),
            guideline_header=st.sampled_from(["", "## {path}", "{name}"]),
            single_guideline=st.sampled_from(["bare", "header"]),
            guideline_end=st.sampled_from(["keep", "trim"]),
            system_marker=st.sampled_from(["", "@[System]:\n"]),
        ),
        "embed_files": some(
            header=st.sampled_from(["", "# {path}"]),
            system_header=st.sampled_from([None, "", "## {path}"]),
            footer=st.sampled_from(["", "</{path}>"]),
        ),
        "filter_empty": some(
            references_only=st.sampled_from(["drop_unless_alone", "drop", "keep"])
        ),
        "render_question": some(
            marker=st.sampled_from(["", "{role}> "]), separator=st.sampled_from(["", "\n\n"])
        ),
    }
)

RICH = Case(
    id="rich",
    suite="rich.yaml",
    line=3,
    input_messages=(
        TestMessage("user", [{"type": "file", "value": "./rules.instructions.md"}]),
        TestMessage("system", ["Late.", {"type": "file", "value": "code.js"}]),
        TestMessage("assistant", " "),
        TestMessage("tool", ["4", {"type": "file", "value": "sub/more.instructions.md"}]),
        TestMessage("user", ["Look:", {"type": "image", "value": "a.png"}]),
    ),
    system_prompt="Prompt.",
    guidelines=("Be polite.",),
    guideline_patterns=("**/*.instructions.md",),
)
LENIENT: Options = {"resolve_segments": {"unknown_type": "warn"}}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    root = tmp_path_factory.mktemp("files")
    for path, text in FILES.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(text, encoding="utf-8", newline="")
    return Files(root, root)


def configured(stages: Iterable[Stage], options: Options) -> tuple[Step, ...]:
    return tuple(Step(each, options.get(each.__name__, {})) for each in stages)


@cache
def accepted_orders(stages: tuple[Stage, ...]) -> list[tuple[Stage, ...]]:
    """Return the orders of the stages that no contract refuses."""
    return [order for order in itertools.permutations(stages) if is_accepted(order)]


def is_accepted(order: tuple[Stage, ...]) -> bool:
    return next(order_errors(order), None) is None


def results(
    orders: Sequence[tuple[Stage, ...]], options: Options, case: Case
) -> list[Conversion | str]:
    """Return the different results of orders of the same stages: conversions or errors.

    A stage runs once on conversions that are equal, whatever order has led to them.
    """
    steps = {step.stage: step for step in Pipeline(configured(orders[0], options)).steps}
    met = [Conversion(case)]
    after: dict[tuple[int, Stage], int] = {}
    ends = set()
    for order in orders:
        at = 0
        for stage in order:
            if (at, stage) not in after:
                conversion = replace(steps[stage](met[at]), stage="", dropped=())
                if conversion not in met:
                    met.append(conversion)
                after[at, stage] = met.index(conversion)
            at = after[at, stage]
        ends.add(at)
    return [converted(met[end]) for end in ends]


def converted(conversion: Conversion) -> Conversion | str:
    """Return what the end of a pipeline makes of a conversion: itself, or an error."""
    try:
        return Pipeline([])(conversion)
    except MultiturnError as error:
        return str(error)


def requested(result: Conversion | str) -> ProviderRequest | str:
    return result if isinstance(result, str) else request_of(result)


def names(stages: Iterable[Stage]) -> tuple[str, ...]:
    return tuple(each.__name__ for each in stages)


# --- orders


def test_of_720_orders_forty_are_accepted() -> None:
    assert {names(order) for order in accepted_orders(SIX)} == FORTY
    assert len(FORTY) == 40


def test_a_lone_prompt_is_omitted_anywhere_after_the_views_that_it_needs() -> None:
    assert {names(order) for order in accepted_orders(SEVEN)} == {
        (*order[:at], "omit_lone_prompt", *order[at:])
        for order in FORTY
        for at in range(7)
        if {"consolidate_system", "render_question"} <= {*order[:at]}
    }


@given(
    stages=st.sampled_from([SIX, SEVEN]),
    case=cases,
    options=any_options | st.sampled_from([*SHIPPING.values()]),
)
def test_every_accepted_order_gives_the_same_request(
    files: Files, stages: tuple[Stage, ...], case: Case, options: Options
) -> None:
    found = results(accepted_orders(stages), options, replace(case, files=files))
    first, *others = map(requested, found)
    assert all(other == first for other in others)


@pytest.mark.parametrize("missing", [consolidate_system, render_question])
def test_a_lone_prompt_is_omitted_only_after_all_it_looks_at(missing: Stage) -> None:
    with pytest.raises(PipelineError, match=r"^omit_lone_prompt \(6\) requires "):
        Pipeline(each for each in SEVEN if each is not missing)


# --- what a stage declares


def changed(before: Conversion, after: Conversion) -> set[str]:
    return {
        field
        for field in Conversion.__struct_fields__
        if field not in ("stage", "dropped") and getattr(before, field) != getattr(after, field)
    }


@settings(max_examples=50)
@given(case=cases, options=any_options, data=st.data())
def test_a_stage_alone_changes_only_what_it_declares_and_repeats_itself(
    files: Files, case: Case, options: Options, data: st.DataObject
) -> None:
    before = Conversion(replace(case, files=files))
    for step in Pipeline(
        configured(data.draw(st.sampled_from(accepted_orders(SEVEN))), options)
    ).steps:
        given_one = repr(before)
        after = step(before)
        contract = contract_of(step.stage)
        assert contract is not None
        facts = contract.provides | contract.consumes
        declared: set[str] = set().union(*(FIELDS[fact] for fact in facts))
        assert changed(before, after) <= declared & CHANGES[step.name], step.name
        assert repr(before) == given_one, f"{step.name} changed the conversion it was given"
        assert step(after) == after, f"{step.name} gives something else when it runs twice"
        before = after


def test_a_stage_changes_everything_that_it_is_there_for(files: Files) -> None:
    """Otherwise the test above would hold of stages that do nothing."""
    guideline = [{"type": "file", "value": "./rules.instructions.md"}]
    messages = (*RICH.input_messages, TestMessage("user", guideline))
    conversion = Conversion(replace(RICH, files=files, input_messages=messages))
    seen = {}
    for step in configured(SIX, LENIENT):
        after = step(conversion)
        seen[step.name] = changed(conversion, after)
        conversion = after
    seen["omit_lone_prompt"] = changed(conversion, omit_lone_prompt(conversion))
    assert seen == CHANGES


def test_file_function_and_test_have_one_name() -> None:
    modules = Path(multiturn_stages.__file__).parent.glob("[!_]*.py")
    tests = Path(__file__).parent.glob("stages/test_*.py")
    stages = {path.stem for path in modules}
    assert stages == {path.stem.removeprefix("test_") for path in tests}
    assert stages >= {*names(SEVEN)}
    for name in stages:
        function = getattr(import_module(f"multiturn_stages.{name}"), name)
        assert function.__name__ == name
        assert function.__module__ == f"multiturn_stages.{name}"
        assert contract_of(function) is not None
