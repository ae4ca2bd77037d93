"""Advice that works, and stages that read only what they declare."""

import itertools
import re
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiturn import Case, Conversion, Pipeline, PipelineError, load_pipeline, stage
from multiturn.pipelines.contract import Stage, contract_of
from multiturn_stages.embed_files import embed_files
from multiturn_stages.guard_markers import guard_markers
from multiturn_stages.omit_lone_prompt import omit_lone_prompt
from multiturn_stages.resolve_segments import resolve_segments
from test_contracts import FIELDS, SIX, accepted_orders, cases, names

BY_NAME = {stage.__name__: stage for stage in SIX}


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
    return tuple(BY_NAME[name] for name in places)


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


@stage(requires={"files"}, provides={"files"}, consumes={"house.c"})
def first(conversion: Conversion) -> Conversion:
    return conversion


@stage(provides={"files", "house.b"})
def second(conversion: Conversion) -> Conversion:
    return conversion


@stage(requires={"house.b"})
def third(conversion: Conversion) -> Conversion:
    return conversion


def test_an_order_is_found_where_the_first_that_fits_leads_nowhere() -> None:
    """Whoever embeds the files before ``second`` brings more is left with those."""
    error = refusal((resolve_segments, first, embed_files, third, second))
    assert error is not None
    assert error.advice == "a legal order: resolve_segments, first, second, embed_files, third"


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
