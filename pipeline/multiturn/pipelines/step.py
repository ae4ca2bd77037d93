"""A stage with its options, and what is said when it fails."""

import inspect
from collections.abc import Mapping
from time import perf_counter
from traceback import walk_tb
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from multiturn.errors import MultiturnError, from_here
from multiturn.model import Case, Conversion, written
from multiturn.output import debug
from multiturn.pipelines.contract import Stage
from multiturn.turns import Part, check_parts, check_turns


class Step(Struct, frozen=True):
    """A stage with its options.

    Attributes:
        stage: the function.
        options: keyword arguments of the function.
    """

    stage: Stage
    options: Mapping[str, Any] = {}

    @property
    def name(self) -> str:
        """The stage's name, which is its function's."""
        return self.stage.__name__

    def __call__(self, conversion: Conversion) -> Conversion:
        """Run the stage.

        Raises:
            MultiturnError: the stage's own error, or one that names the stage.
        """
        case = conversion.case
        try:
            result = self.stage(replace(conversion, stage=self.name), **self.options)
        except MultiturnError as error:
            raise placed(error, case) from error.__cause__
        except (Exception, SystemExit) as error:  # nor may a stage end the run of the others
            raise failed(self, error, case) from error
        try:
            result = _checked(conversion, result, self.name)
        except ValueError as error:
            what = f"the stage {self.name} returned {error}"
            raise MultiturnError(what, where=case.where(), case_id=case.id) from None
        if len(result.turns) < len(conversion.turns):
            kept = {turn.message for turn in result.turns}
            gone = (turn.message for turn in conversion.turns if turn.message not in kept)
            result = replace(result, dropped=(*result.dropped, *((at, self.name) for at in gone)))
        return result


def _checked(before: Conversion, after: Any, stage: str) -> Conversion:
    """Return what a stage made; each text that the stage changed or added names the stage.

    A ValueError says what it made, if that is not a Conversion with turns and parts.
    """
    if not isinstance(after, Conversion):
        hint = "Maybe you forgot to return what conversion.replace() gives?"
        raise ValueError(f"{type(after).__name__} instead of a Conversion. {hint}")
    if (
        after.turns is before.turns
        and after.guidelines is before.guidelines
        and after.system_prompt is before.system_prompt
    ):
        return after
    known = set(map(id, before.turns))
    turns: Any = after.turns
    if isinstance(turns, tuple):  # only what is new is looked at: this runs after every stage
        turns = [turn for turn in turns if id(turn) not in known]
    check_turns(turns)
    parts = [part for turn in turns for part in turn.parts]
    if after.guidelines is not before.guidelines:
        check_parts(after.guidelines)
        parts += after.guidelines
    if after.system_prompt is not before.system_prompt and after.system_prompt is not None:
        check_parts((after.system_prompt,))
        parts.append(after.system_prompt)
    if not parts or not before.turns:
        return after
    old = _by_id(before)
    new = [part for part in parts if part.stage is None and id(part) not in old]
    if not new:
        return after
    texts: dict[Any, set[str]] = {}
    for part in old.values():
        texts.setdefault(part.origin, set()).add(part.text)

    def signed(part: Part) -> Part:
        if part.origin is None:
            return part if id(part) in old else replace(part, stage=stage)
        known = texts.get(part.origin)
        if known is None:
            source = written(part, before.case)
            known = {part.text if source is None else source}
        return part if part.text in known else replace(part, changed_by=stage)

    is_changed = any(signed(part) is not part for part in new)
    return after.map_parts(signed) if is_changed else after


def _by_id(conversion: Conversion) -> dict[int, Part]:
    parts = {id(part): part for turn in conversion.turns for part in turn.parts}
    parts |= {id(part): part for part in conversion.guidelines}
    prompt = conversion.system_prompt
    return parts if prompt is None else {**parts, id(prompt): prompt}


def placed(error: MultiturnError, case: Case) -> MultiturnError:
    """Return an error that a stage or a view raised, placed in its case if it has no case."""
    if error.case_id is not None:
        return error
    return error.at(error.where if any(error.where) else case.where(), case.id)


def failed(step: Step, error: BaseException, case: Case) -> MultiturnError:
    """Return the error for an exception of a stage: it names the stage and a line of its file."""
    code = getattr(inspect.unwrap(step.stage), "__code__", None)
    place = ""
    for frame, line in walk_tb(error.__traceback__):
        if code is not None and frame.f_code.co_filename == code.co_filename:
            place = f" at {from_here(code.co_filename)}:{line}"
    what = f"the stage {step.name} failed{place}: {type(error).__name__}: {error}"
    return MultiturnError(what, where=case.where(), case_id=case.id)


def logged(conversion: Conversion, step: Step) -> Conversion:
    """Run one step, and log its stage, case and time."""
    start, case = perf_counter(), conversion.case
    result = step(conversion)
    time = round((perf_counter() - start) * 1000, 3)
    debug("stage.done", stage=step.name, suite=case.suite, case=case.id, ms=time)
    return result
