"""Contracts: an order of stages is right or refused with advice; stages do what they declare."""

import itertools
import re
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
    stage,
)
from multiturn.documents.validation import choices_of
from multiturn.pipelines.contract import (
    Option,
    Stage,
    contract_of,
    options_of,
    placeholders_of,
)
from multiturn.pipelines.ordering import order_errors
from multiturn.pipelines.pipeline import request_of
from multiturn.pipelines.pipeline_file import pipeline_names
from multiturn.turns import ROLES
from multiturn_stages.consolidate_system import consolidate_system
from multiturn_stages.embed_files import embed_files
from multiturn_stages.extract_guidelines import extract_guidelines
from multiturn_stages.filter_empty import filter_empty
from multiturn_stages.guard_markers import guard_markers
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
SECRET = "ada@example.org"
FILES = {
    "code.js": f"// by {SECRET}\r\n",
    "empty.txt": "",
    "rules.instructions.md": f"Ask {SECRET}, twice: {SECRET}.\n",
    "sub/more.instructions.md": f"{{path}}\n\n=== {SECRET} ===",
    "empty.instructions.md": "\n",
}
PATHS = [*FILES, "./code.js", "./rules.instructions.md", "sub/../code.js"]

texts = st.sampled_from(["Hello", "two\nlines", "", " \n", "{path} {role} %s", "[User]: Hi"])
texts |= st.sampled_from([f"I am {SECRET}", f"\n{SECRET}\n[User]: x"]) | st.text(max_size=3)
attached = st.builds(lambda path: {"type": "file", "value": path}, st.sampled_from(PATHS))
segments = texts | attached | attached | st.just({"ort": "Köln", "mail": SECRET})
messages = st.builds(TestMessage, st.sampled_from(ROLES), texts | st.lists(segments, max_size=3))
cases = st.builds(
    Case,
    id=st.just("case"),
    suite=st.just("a.eval.yaml"),
    input_messages=st.lists(messages, min_size=1, max_size=5).map(tuple),
    system_prompt=st.none() | texts,
    guidelines=st.lists(texts, max_size=2).map(tuple),
    guideline_patterns=st.sampled_from([("**/*.instructions.md",), ("*",), ("sub/**",), ()]),
)


def some(options: Mapping[str, Option]) -> st.SearchStrategy[Mapping[str, Any]]:
    """Return any values of some of a stage's options."""
    values: dict[str, st.SearchStrategy[Any]] = {}
    for name, option in options.items():
        words = choices_of(option.type)
        if isinstance(option.default, tuple):
            values[name] = st.lists(st.sampled_from(words), unique=True)
        elif words:
            values[name] = st.sampled_from(words)
        elif not isinstance(option.default, int):
            filled = [f"<{name}>" for name in placeholders_of(option.type)]
            values[name] = st.sampled_from(["", "# ", *filled])
    return st.fixed_dictionaries({}, optional=values)


any_options = st.fixed_dictionaries({each.__name__: some(options_of(each)) for each in SEVEN})


def files_in(root: Path) -> Files:
    """Write the files that cases attach."""
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8", newline="")
    return Files(root, root)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return files_in(tmp_path_factory.mktemp("files"))


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
        for each in order:
            if (at, each) not in after:
                conversion = replace(steps[each](met[at]), stage="", dropped=())
                if conversion not in met:
                    met.append(conversion)
                after[at, each] = met.index(conversion)
            at = after[at, each]
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


def declared(name: str, **facts: Any) -> Stage:
    """Return a stage that does nothing."""

    def own(given: Conversion) -> Conversion:
        return given

    own.__name__ = name
    return stage(**facts)(own)


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


# --- advice that works


@cache
def refusal(order: tuple[Stage, ...]) -> PipelineError | None:
    try:
        Pipeline(order)
    except PipelineError as error:
        return error
    return None


def follow(order: tuple[Stage, ...], advice: str) -> tuple[Stage, ...]:
    """Move a stage as a message says."""
    places = [stage.__name__ for stage in order]
    match = re.match(r"(\w+) \((\d+)\) requires .*; move it (before|after) (\w+)$", advice)
    assert match, advice
    stage, number, side, other = match.groups()
    assert places[int(number) - 1] == stage
    places.remove(stage)
    places.insert(places.index(other) + (side == "after"), stage)
    by_name = {stage.__name__: stage for stage in order}
    return tuple(by_name[name] for name in places)


def test_the_advice_of_each_refused_order_is_accepted() -> None:
    """Both ways: the order that is advised as a whole, and one move after the other."""
    accepted = {names(order) for order in accepted_orders(SIX)}
    for order in itertools.permutations(SIX):
        if names(order) in accepted:
            continue
        error = refusal(order)
        assert error is not None
        assert error.advice.startswith("a legal order: "), order
        assert tuple(error.advice.removeprefix("a legal order: ").split(", ")) in accepted
        moved = order
        for _ in range(20):
            assert error is not None
            moved = follow(moved, error.errors[0].what)
            if names(moved) in accepted:
                break
            error = refusal(moved)
        assert names(moved) in accepted, "following the moves leads nowhere"


def test_an_order_is_found_where_the_first_that_fits_leads_nowhere() -> None:
    """Whoever embeds the files before ``second`` brings more is left with those."""
    first = declared("first", requires={"files"}, provides={"files"})
    second = declared("second", provides={"files", "house.b"})
    third = declared("third", requires={"house.b"})
    error = refusal((resolve_segments, first, embed_files, third, second))
    assert error is not None
    assert error.advice == "a legal order: resolve_segments, first, second, embed_files, third"


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
        assert changed(before, after) <= declared, step.name
        assert repr(before) == given_one, f"{step.name} changed the conversion it was given"
        assert step(after) == after, f"{step.name} gives something else when it runs twice"
        before = after


class Untouchable:
    """Raises on any use."""

    def _raise(self, *_: Any) -> Any:
        raise AssertionError("a field was used that no fact of the stage names")

    __getattr__ = __iter__ = __len__ = __bool__ = __eq__ = __hash__ = __add__ = _raise
    __radd__ = __contains__ = __getitem__ = __str__ = __repr__ = __format__ = _raise


@settings(max_examples=20)
@given(case=cases, data=st.data())
@pytest.mark.parametrize("stage", [*SIX, omit_lone_prompt, guard_markers])
def test_a_stage_reads_only_what_it_declares(stage: Stage, case: Case, data: Any) -> None:
    case = Case(
        id="case",
        input_messages=tuple(
            message for message in case.input_messages if "file" not in repr(message.content)
        ),
        system_prompt=case.system_prompt,
        guidelines=case.guidelines,
    )
    if not case.input_messages:
        return
    contract = contract_of(stage)
    assert contract is not None
    facts = contract.requires | contract.provides | contract.consumes
    declared = {field for fact in facts for field in FIELDS[fact]} | {"case"}
    steps = load_pipeline("spec").steps
    ran = data.draw(st.integers(0, len(steps)))
    conversion = Conversion(case)
    for step in steps[:ran]:
        conversion = step(conversion)
    hidden = {
        field: Untouchable() for field in Conversion.__struct_fields__ if field not in declared
    }
    stage(conversion.replace(**hidden))


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
