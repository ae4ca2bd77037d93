"""Contracts: an order of stages is right or refused with advice; stages do what they declare."""

import itertools
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from generated import SECRET, cases, files_in, some_options
from layout import TEXTS, laid_out
from multiturn import (
    Case,
    Conversion,
    Files,
    MultiturnError,
    Part,
    Pipeline,
    PipelineError,
    Step,
    TestMessage,
    Turn,
    explain,
    load_pipeline,
    stage,
)
from multiturn.cli.explain import as_explanation
from multiturn.documents.validation import choices_of
from multiturn.errors import InputError, ProviderError, StageError
from multiturn.explaining.spans import joined_text
from multiturn.model.conversion import parts_of
from multiturn.model.request import message_of
from multiturn.model.turns import ROLES, Tool
from multiturn.pipelines.contract import Contract, Stage, contract_of, options_of
from multiturn.pipelines.ordering import order_errors
from multiturn.pipelines.pipeline import built_in_case, request_of, try_out
from multiturn.pipelines.pipeline_file import pipeline_names
from multiturn.providers.agents.codex import CodexProvider, CodexSettings
from multiturn.snapshots.reviewed_case import reviewed_case
from multiturn.snapshots.snapshot_file import snapshot_text
from multiturn_stages.embed_files import embed_files
from multiturn_stages.extract_guidelines import extract_guidelines
from multiturn_stages.guard_markers import guard_markers
from multiturn_stages.render_question import render_question
from multiturn_stages.render_tools import render_tools
from multiturn_stages.resolve_segments import resolve_segments
from multiturn_stages.trim_history import trim_history

Order = tuple[Stage, ...]
Options = Mapping[str, Mapping[str, Any]]

SIX: Order = tuple(step.stage for step in load_pipeline("spec").steps)
SEVEN: Order = tuple(step.stage for step in load_pipeline("shipped").steps)

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
    "turns": {"turns", "guidelines", "system_prompt", "tools", "notices"},
    "files": {"turns"},
    "history": {"turns", "notices"},
    "guidelines": {"turns", "guidelines"},
    "text": {"turns"},
    "chat": {"chat_view", "edits"},
    "visible_turns": {"turns", "notices"},
    "question": {"question_view", "edits"},
    "guarded": {"edits", "notices"},
}
SHIPPING: dict[str, Options] = {
    name: {step.name: step.options for step in load_pipeline(name).steps}
    for name in pipeline_names()
}
any_options = st.fixed_dictionaries({each.__name__: some_options(each) for each in SEVEN})
MORE: Order = (render_tools, guard_markers, trim_history)  # those that no pipeline that ships has
more_options = st.fixed_dictionaries(
    {
        "render_tools": st.fixed_dictionaries(
            {
                "definition": st.sampled_from(["", "[Tool {name}]: "]),
                "neighbors": st.sampled_from(["join", "keep"]),
            }
        ),
        "guard_markers": st.just({"mode": "escape"}),
        "trim_history": st.fixed_dictionaries(
            {"keep_first": st.integers(0, 2), "tokens": st.integers(1, 200)},
            optional={"exchanges": st.integers(1, 3)},
        ),
    }
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return files_in(tmp_path_factory.mktemp("files"))


def names(stages: Iterable[Stage]) -> tuple[str, ...]:
    return tuple(each.__name__ for each in stages)


def declared(name: str, **facts: Any) -> Stage:
    """Return a stage that does nothing."""

    def own(given: Conversion) -> Conversion:
        return given

    own.__name__ = name
    return stage(**facts)(own)


def contract(function: Stage) -> Contract:
    found = contract_of(function)
    assert found is not None
    return found


@cache
def refusal(order: Order) -> PipelineError | None:
    try:
        Pipeline(order)
    except PipelineError as error:
        return error
    return None


def is_accepted(order: Order) -> bool:
    return next(order_errors(order), None) is None


@cache
def accepted_orders(stages: Order) -> list[Order]:
    """Return the orders of the stages that no contract refuses."""
    return [order for order in itertools.permutations(stages) if is_accepted(order)]


def pipeline_of(order: Order, options: Options) -> Pipeline:
    return Pipeline(Step(each, options.get(each.__name__, {})) for each in order)


def converted(pipeline: Pipeline, case: Case) -> Conversion | str:
    """Return what a pipeline makes of a case: a conversion, or the message of an error."""
    try:
        return pipeline(Conversion(case))
    except MultiturnError as error:
        return str(error)


# --- what a stage declares


@pytest.mark.parametrize("kind", ["requires", "provides", "consumes"])
@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"trns"}, "there is no fact 'trns'; did you mean \"turns\"?"),
        ({1}, "there is no fact '1'; choose from: turns, files, history, guide"),
        ({"house."}, "there is no fact 'house.'; choose from: turns, files, history, guide"),
        ("turns", 'KIND is a set of facts; write KIND={"turns"}'),
        (None, 'KIND is a set of facts; write KIND={"turns"}'),
    ],
)
def test_an_error_in_what_is_declared_is_raised_where_the_stage_is_used(
    kind: str, facts: Any, words: str, run_stage: Any
) -> None:
    own = declared("own", **{kind: facts})
    with pytest.raises(PipelineError) as caught:
        Pipeline([resolve_segments, own])
    (error,) = caught.value.errors
    assert error.what.startswith(words.replace("KIND", kind))
    assert (error.step, error.where.line) == (1, own.__code__.co_firstlineno)
    assert Path(error.where.file).samefile(__file__)
    with pytest.raises(MultiturnError, match="fact"):
        run_stage(own, Conversion(Case(id="a", input_messages=())))


def with_more(order: Order, stages: Order, data: st.DataObject) -> Order:
    """Return an order with some stages more, each at any of its legal places."""
    for each in stages:
        places = ((*order[:at], each, *order[at:]) for at in range(len(order) + 1))
        order = data.draw(st.sampled_from([*filter(is_accepted, places)]))
    return order


@settings(max_examples=100)
@given(
    case=cases,
    options=any_options,
    more=more_options,
    order=st.deferred(lambda: st.sampled_from(accepted_orders(SEVEN))),
    data=st.data(),
)
def test_a_stage_alone_changes_only_what_it_declares_and_repeats_itself(
    files: Files, case: Case, options: Options, more: Options, order: Order, data: st.DataObject
) -> None:
    before = Conversion(replace(case, files=files))
    for step in pipeline_of(with_more(order, MORE, data), {**options, **more}).steps:
        given_one = deepcopy(before, {id(files): files})
        try:
            after = step(before)
        except InputError as error:
            assert step.stage is trim_history
            assert "tokens must stay" in str(error)  # noqa: PT017
            return
        facts = contract(step.stage).provides | contract(step.stage).consumes
        may_change = {"stage", "altered"}.union(*(FIELDS[fact] for fact in facts))
        for field in set(Conversion.__struct_fields__) - may_change:
            assert getattr(after, field) == getattr(before, field), step.name
        assert before == given_one, f"{step.name} changed the conversion it was given"
        if step.stage is not render_tools:  # its turns keep calls without tools, for transcripts
            assert step(before, is_tried=True) == after  # as stages of others are, in a run
        assert step(after) == after, f"{step.name} gives something else when it runs twice"
        before = after


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
    data=st.data(),
)
def test_every_accepted_order_gives_the_same_request(
    files: Files, stages: Order, case: Case, options: Options, data: st.DataObject
) -> None:
    case = replace(case, files=files)
    first = converted(pipeline_of(stages, options), case)
    for order in data.draw(st.lists(st.sampled_from(accepted_orders(stages)), max_size=8)):
        found = converted(pipeline_of(order, options), case)
        if isinstance(first, str) or isinstance(found, str):
            assert found == first
        else:
            assert request_of(found) == request_of(first)


@settings(max_examples=200)
@given(name=st.sampled_from([*SHIPPING]), case=cases, more=more_options, data=st.data())
def test_trimming_and_rendering_give_one_request_at_each_legal_place_and_lose_nothing(
    files: Files, name: str, case: Case, more: Options, data: st.DataObject
) -> None:
    case, options = replace(case, files=files), {**SHIPPING[name], **more}
    stages = SEVEN if "omit_lone_prompt" in SHIPPING[name] else SIX
    chosen = tuple(each for each in MORE if data.draw(st.booleans()))
    first = converted(pipeline_of((*stages, *chosen), options), case)
    for _ in range(3):
        order = with_more(data.draw(st.sampled_from(accepted_orders(stages))), chosen, data)
        found = converted(pipeline_of(order, options), case)
        if isinstance(first, str) or isinstance(found, str):
            assert found == first
            continue
        assert request_of(found) == request_of(first)
        assert explain(found).fates == explain(first).fates
        assert not [fate for fate in explain(found).fates if fate.fate == "lost"]
        spoken = [joined_text(message.spans) for message in explain(found).chat or ()]
        assert spoken == [message_of(turn).text for turn in found.chat or ()]


@pytest.mark.parametrize("at", [3, 7], ids=["before filter_empty", "last"])
def test_definitions_in_a_system_message_are_no_company_for_a_lone_reference(
    files: Files, at: int
) -> None:
    message = TestMessage("user", [{"type": "file", "value": "code.js"}])
    tools = (Tool("find", "Hello"),)
    case = Case(id="a", input_messages=(message,), tools=tools, guideline_patterns=("*",))
    step = Step(render_tools, {"definition": "[Tool {name}]: "})
    stages = load_pipeline("agentv").steps
    request = Pipeline([*stages[:at], step, *stages[at:]]).request(replace(case, files=files))
    roles = [each.role for each in request.chat_prompt or ()]
    assert roles == ["system", "user"]
    assert (request.chat_prompt or ())[1].content == "<Attached: code.js>"


def plain(given: Conversion) -> Conversion:
    return given


def test_after_an_undecorated_function_every_fact_is_taken_to_be_true() -> None:
    assert all(is_accepted((plain, each)) for each in SEVEN)
    assert is_accepted((resolve_segments, render_question, plain)), "the end is not checked"
    assert not is_accepted((embed_files, plain))
    assert not is_accepted((plain, embed_files, extract_guidelines))


# --- advice that works


def follow(order: Order, advice: str) -> Order:
    """Move a stage as a message says; only this part of its words is known here."""
    places = [*names(order)]
    match = re.match(r"(\w+) \((\d+)\) requires .*; move it (before|after) (\w+)$", advice)
    assert match, advice
    moved, number, side, other = match.groups()
    assert places.pop(int(number) - 1) == moved
    places.insert(places.index(other) + (side == "after"), moved)
    by_name = dict(zip(names(order), order, strict=True))
    return tuple(by_name[name] for name in places)


def test_the_advice_of_each_refused_order_is_accepted() -> None:
    """Both ways: the order that is advised as a whole, and one move after the other."""
    for order in itertools.permutations(SIX):
        moved, error, moves = order, refusal(order), 0
        if error is not None:
            assert tuple(error.advice.removeprefix("a legal order: ").split(", ")) in FORTY
        while error is not None:
            moved, moves = follow(moved, error.errors[0].what), moves + 1
            assert moves < 20, "following the moves leads nowhere"
            error = refusal(moved)


def test_of_several_stages_that_could_help_the_advice_names_the_nearest() -> None:
    """What used a fact up last is in the way, and what provides it first is enough."""
    again = declared("again", provides={"files"})
    other = declared("other", requires={"files"}, consumes={"files"})
    used = (resolve_segments, embed_files, again, other, extract_guidelines)
    (error,) = order_errors(used)
    assert error.what == (
        "extract_guidelines (5) requires files, but other (4) has already turned them into text;"
        " move it before other"
    )
    early = (other, resolve_segments, again)
    error, *_ = order_errors(early)
    assert error.what == (
        "other (1) requires files, but resolve_segments (2) provides it later;"
        " move it after resolve_segments"
    )


def test_the_layout_of_the_tests_has_every_default_text_of_the_stages() -> None:
    """Else another default of one that is left out would fail tests of something else."""
    for step in load_pipeline("spec").steps:
        options = options_of(step.stage).items()
        texts = {
            name
            for name, option in options
            if isinstance(option.default, str) and option.default and not choices_of(option.type)
        }
        assert texts == TEXTS.get(step.name, {}).keys()


# --- the law of views: what a stage takes out of the texts is gone, wherever the stage is


@stage(requires={"turns"})
def redact(conversion: Conversion) -> Conversion:
    """Replace what must not leave the house, and change other texts too."""

    def redacted(part: Part) -> Part:
        return replace(part, text=part.text.replace(SECRET, "<email>") + "!")

    return conversion.map_parts(redacted)


@cache
def with_redaction(stages: Order) -> list[Order]:
    """Return every accepted order with ``redact`` at every place after resolve_segments."""
    return [
        (*order[:place], redact, *order[place:])
        for order in accepted_orders(stages)
        for place in range(1, len(order) + 1)
    ]


@pytest.mark.parametrize("stages", [pytest.param(SIX, id="six"), pytest.param(SEVEN, id="seven")])
def test_a_stage_that_changes_texts_is_accepted_wherever_there_are_texts(stages: Order) -> None:
    assert all(map(is_accepted, with_redaction(stages)))
    assert not any(is_accepted((redact, *order)) for order in accepted_orders(stages))


# --- the law of signatures: only what a stage has changed names the stage


@stage(requires={"turns"})
def touch(conversion: Conversion, *, every: int = 2) -> Conversion:
    """Change every second text, or every third, and so on; a text that it has changed stays."""
    number = itertools.count()

    def touched(part: Part) -> Part:
        is_chosen = next(number) % every == 0 and not part.text.endswith("!")
        return replace(part, text=f"{part.text}!") if is_chosen else part

    return conversion.map_parts(touched)


@settings(max_examples=60)
@given(case=cases, order=st.sampled_from(with_redaction(SIX)), every=st.integers(1, 4))
def test_a_part_that_no_stage_touched_has_no_changed_by(
    files: Files, case: Case, order: Order, every: int
) -> None:
    given_one = Conversion(replace(case, files=files))
    touching = tuple(touch if each is redact else each for each in order)
    changed: set[tuple[Any, str]] = set()
    with suppress(MultiturnError):  # what a stage refuses is not of interest here
        for step in pipeline_of(touching, {"touch": {"every": every}}).steps:
            made = step(given_one)
            if step.stage is touch:
                pairs = zip(parts_of(given_one), parts_of(made), strict=True)
                changed = {(new.origin, new.text) for old, new in pairs if old.text != new.text}
            given_one = made
    shown = [*(part for turn in given_one.chat or () for part in turn.parts), *given_one.transcript]
    for part in (*parts_of(given_one), *shown):
        is_changed = part.stage is None and (part.origin, part.text) in changed
        is_call = (part.key or "").startswith("tool_calls")  # in the transcript
        assert is_call or part.changed_by == ("touch" if is_changed else None)
    written = {call.id: call.arguments for each in case.input_messages for call in each.calls}
    for call in (call for turn in given_one.turns for call in turn.calls):
        is_changed = call.arguments != written[call.id]
        assert call.changed_by == ("touch" if is_changed else None)


@settings(max_examples=60)
@given(name=st.sampled_from([*SHIPPING]), case=cases, data=st.data())
def test_a_stage_that_changes_texts_gives_the_same_request_wherever_it_stands(
    files: Files, name: str, case: Case, data: st.DataObject
) -> None:
    case = replace(case, files=files, suite=str(Path(files.root, case.suite)))
    options = SHIPPING[name]
    stages = SEVEN if "omit_lone_prompt" in options else SIX
    first = converted(pipeline_of((*stages, redact), options), case)
    if not isinstance(first, str):
        agent = CodexProvider(CodexSettings(name="agent", provider="codex"))
        wire = None
        with suppress(ProviderError):  # nothing to ask, or media that is no file
            wire = agent.wire(request_of(first))
        for told in (
            str(request_of(first)),
            snapshot_text(reviewed_case(first)),
            as_explanation(explain(first)),
            str(wire and (wire.body, wire.request)),
        ):
            assert SECRET not in told
    for order in data.draw(st.lists(st.sampled_from(with_redaction(stages)), max_size=8)):
        found = converted(pipeline_of(order, options), case)
        if isinstance(first, str) or isinstance(found, str):
            assert found == first
        else:
            assert request_of(found) == request_of(first)
            assert (found.chat, found.transcript) == (first.chat, first.transcript)
            assert explain(found).fates == explain(first).fates


@stage(requires={"turns"})
def lose(
    conversion: Conversion,
    *,
    messages: tuple[int, ...] = (),
    segments: tuple[tuple[int, int], ...] = (),
) -> Conversion:
    """Drop messages, and segments of others, by their indexes in the suite."""
    turns = [turn for turn in conversion.turns if turn.message in messages]
    others = [turn for turn in conversion.turns if turn.message not in messages]
    parts = [part for turn in others for part in turn.parts]
    picked = [part for part in parts if (part.message, part.content) in segments]
    return conversion.drop([*turns, *picked], "on purpose")


at_most_five = st.integers(0, 4)
losses = st.fixed_dictionaries(
    {
        "messages": st.lists(at_most_five, max_size=3),
        "segments": st.lists(st.tuples(at_most_five, st.integers(0, 2)), max_size=4),
    }
)


@given(
    name=st.sampled_from([*SHIPPING]),
    case=cases,
    options=losses,
    place=st.integers(0, 10),
    data=st.data(),
)
def test_a_declared_loss_is_explained_wherever_it_happens(
    files: Files, name: str, case: Case, options: Any, place: int, data: st.DataObject
) -> None:
    case = replace(case, files=files)
    stages = SEVEN if "omit_lone_prompt" in SHIPPING[name] else SIX
    order = data.draw(st.sampled_from(accepted_orders(stages)))
    at = 1 + place % len(order)
    losing = pipeline_of((*order[:at], lose, *order[at:]), {**SHIPPING[name], "lose": options})
    result = converted(losing, case)
    if isinstance(result, str):
        assert "there is nothing to answer" in result or "left nothing to answer" in result
        return
    for fate in explain(result).fates:
        assert fate.fate != "lost", fate
    shown = [part for turn in result.prompt for part in turn.parts] + [*result.transcript]
    for part in shown:
        if not part.moved_by and part.message is not None:
            assert part.message not in options["messages"]
            assert (part.message, part.content) not in options["segments"]


@given(case=cases, options=losses, data=st.data())
def test_a_declared_loss_sees_only_guidelines_and_empty_messages_change(
    files: Files, case: Case, options: Any, data: st.DataObject
) -> None:
    """The other stages may be anywhere: the request is the same."""
    case = replace(case, files=files)
    key = ("extract_guidelines", "filter_empty")

    def with_loss(order: Order, at: int) -> Order:
        return (*order[:at], lose, *order[at:])

    orders = [with_loss(order, at) for order in accepted_orders(SIX) for at in range(1, 7)]
    first = data.draw(st.sampled_from(orders))

    def before(order: Order) -> list[bool]:
        found = names(order)
        return [found.index(each) < found.index("lose") for each in key]

    second = data.draw(st.sampled_from([each for each in orders if before(each) == before(first)]))
    one, other = (converted(pipeline_of(each, {"lose": options}), case) for each in (first, second))
    if isinstance(one, str) or isinstance(other, str):
        assert one == other
    else:
        assert request_of(one) == request_of(other)


@stage(requires={"turns"})
def blank(conversion: Conversion) -> Conversion:
    """Blank the texts of the suite, as a stage may that belongs before ``filter_empty``."""
    return conversion.map_parts(lambda part: replace(part, text=re.sub("Hello", " ", part.text)))


def test_a_stage_that_blanks_texts_belongs_before_filter_empty() -> None:
    messages = (TestMessage("user", "Hello"), TestMessage("assistant", "Yes?"))
    case = Case(id="x", input_messages=messages)
    before = laid_out().insert(blank, before="filter_empty").request(case)
    after = laid_out().insert(blank, after="filter_empty").request(case)
    assert before.question == "[Assistant]: Yes?"
    assert after.question == "[User]:  \n[Assistant]: Yes?"


# --- facts are looked at


@stage(requires={"turns"}, provides={"chat"})
def liar(given: Conversion) -> Conversion:
    return given


@stage(requires={"files"}, consumes={"files"}, provides={"text"})
def leaves_files(given: Conversion) -> Conversion:
    return given


@stage(requires={"files"}, consumes={"files"})
def leaves_files_and_makes_no_text(given: Conversion) -> Conversion:
    return given


@stage(requires={"files"}, provides={"guidelines"})
def loses_guidelines(given: Conversion) -> Conversion:
    return extract_guidelines(given).replace(guidelines=())


@stage(requires={"turns"}, provides={"visible_turns"})
def leaves_empty_turns(given: Conversion) -> Conversion:
    return given.replace(turns=(*given.turns, Turn("user", (Part("text", " "),))))


@stage(requires={"turns"}, provides={"question"})
def asks_nothing(given: Conversion) -> Conversion:
    return given


@stage(provides={"turns", "files"})
def makes_no_turns(given: Conversion) -> Conversion:
    return given


@stage(requires={"chat"}, consumes={"chat"})
def keeps_the_chat(given: Conversion) -> Conversion:
    return given


TRIED = built_in_case()


@pytest.mark.parametrize(
    ("replaced", "lie", "error"),
    [
        ("consolidate_system", liar, "provides chat"),
        ("embed_files", leaves_files, "provides text"),
        ("embed_files", leaves_files_and_makes_no_text, "consumes files"),
        ("extract_guidelines", loses_guidelines, "provides guidelines"),
        ("filter_empty", leaves_empty_turns, "provides visible_turns"),
        ("render_question", asks_nothing, "provides question"),
        ("resolve_segments", makes_no_turns, "provides turns"),
        ("render_question", keeps_the_chat, "consumes chat"),
    ],
)
def test_a_declared_fact_that_is_not_true_is_an_error_that_names_stage_and_fact(
    replaced: str, lie: Stage, error: str
) -> None:
    pipeline = load_pipeline("spec").replace(replaced, lie)
    said = f"case 'built-in': the stage {lie.__name__} declares that it {error}, which is not"
    with pytest.raises(StageError) as caught:
        pipeline.request(TRIED)
    assert str(caught.value).startswith(said)
    with pytest.raises(StageError):
        try_out(pipeline)


def test_what_a_stage_provides_again_is_not_gone() -> None:
    @stage(requires={"chat"}, consumes={"chat"}, provides={"chat"})
    def again(given: Conversion) -> Conversion:
        return given

    assert try_out(load_pipeline("spec").insert(again, after="render_question")) == ""


@pytest.mark.parametrize("name", pipeline_names())
def test_what_ships_is_true_for_a_case_with_every_kind_of_part(name: str) -> None:
    assert try_out(load_pipeline(name)) == ""


def test_the_built_in_case_has_every_role_and_every_kind_of_part() -> None:
    extracted = extract_guidelines(resolve_segments(Conversion(TRIED)))
    assert {turn.role for turn in extracted.turns} == set(ROLES)
    kinds = {part.kind for turn in extracted.turns for part in turn.parts}
    assert kinds == {"text", "file", "reference"}
    assert len(extracted.guidelines) == 2
    assert extracted.system_prompt is not None


def test_a_stage_that_refuses_the_built_in_case_is_no_error() -> None:
    def refuse(given: Conversion) -> Conversion:
        raise MultiturnError("no owner")

    assert try_out(load_pipeline("spec").insert(refuse, after="render_question")) == "no owner"
