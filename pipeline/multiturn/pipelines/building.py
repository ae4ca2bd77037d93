"""Building a pipeline: its stages with valid options, in an order that their contracts allow."""

from collections.abc import Iterable, Iterator
from functools import partial
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import FunctionType
from typing import Any

from multiturn.errors import ErrorDetail, MultiturnError, PipelineError
from multiturn.files import media
from multiturn.model.checks import kind_of
from multiturn.pipelines.contract import Stage, contract_of, markers_of, read_options
from multiturn.pipelines.ordering import legal_order, order_errors
from multiturn.pipelines.registry import stage_names
from multiturn.pipelines.step import Step

# Functions that return a coroutine or a generator instead of running.
_LATER = CO_COROUTINE | CO_GENERATOR | CO_ASYNC_GENERATOR


def prepared(stages: Iterable[Stage | Step]) -> tuple[tuple[Step, ...], tuple[str, ...]]:
    """Return the steps of a pipeline, and how the lines begin that they add to a prompt.

    Raises:
        PipelineError: with all errors of the options and the order.
    """
    steps: list[Step] = []
    errors: list[ErrorDetail] = []
    for number, item in enumerate(stages):
        step = item if isinstance(item, Step) else Step(item)
        _check_stage(step.stage, number)
        options, wrong = read_options(step.stage, step.options)
        steps.append(Step(step.stage, options))
        errors += [ErrorDetail(what, number, option) for option, what in wrong.items()]
    functions = [step.stage for step in steps]
    errors += _unguarded(steps)
    misplaced = list(order_errors(functions))
    if errors or misplaced:
        order = legal_order(functions) if misplaced else None
        names = ", ".join(stage.__name__ for stage in order or ())
        raise PipelineError([*errors, *misplaced], f"a legal order: {names}" if names else "")
    texts = (
        text
        for step in steps
        for _, found in markers_of(step.stage, step.options)
        for text in found
    )
    return tuple(steps), tuple(dict.fromkeys((*texts, *media.MARKERS)))


def _check_stage(stage: Any, number: int) -> None:
    if not isinstance(stage, FunctionType) or stage.__code__.co_flags & _LATER:
        raise PipelineError([ErrorDetail(_no_stage(stage), number)])
    try:
        contract_of(stage)
    except MultiturnError as error:
        raise PipelineError([ErrorDetail(error.what, number, where=error.where)]) from None


def _unguarded(steps: list[Step]) -> Iterator[ErrorDetail]:
    """Yield an error for each marker that a guard in the pipeline cannot know by its text."""
    guards = [each.name for each in steps if "guarded" in _provides(each)]
    for number, step in enumerate(steps) if guards else ():
        for option, texts in markers_of(step.stage, step.options):
            if not texts:
                what = f'option "{option}" of {step.name} begins with a placeholder, so'
                what += f" {guards[0]} cannot know the line; write a text before it, such as #"
                yield ErrorDetail(what, number, option)


def _provides(step: Step) -> frozenset[str]:
    contract = contract_of(step.stage)
    return frozenset() if contract is None else contract.provides


def _no_stage(item: Any) -> str:
    """Return an error that says what to write in place of something that is not a stage."""
    if isinstance(item, str):
        what = f"{item!r} is a name, and Pipeline takes functions"
        if item in stage_names():
            return f"{what}; write from multiturn_stages.{item} import {item}"
        return f"{what}; load_pipeline({item!r}) loads a pipeline by its name"
    if isinstance(item, partial):
        name = getattr(item.func, "__name__", "stage")
        return f"a partial cannot be a stage; write Step({name}, {item.keywords!r})"
    if isinstance(item, FunctionType):
        return f"{item.__name__} does not return at once; write it with def, and without yield"
    return f"a stage is a function, not {kind_of(item)}"
