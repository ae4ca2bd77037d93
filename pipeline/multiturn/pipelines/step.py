"""A stage with its options, and what is said when it fails."""

import inspect
from collections.abc import Mapping
from time import perf_counter
from traceback import walk_tb
from typing import Any

from msgspec import Struct, structs

from multiturn.errors import MultiturnError, from_here
from multiturn.logs import logger
from multiturn.model import Case, Conversion
from multiturn.pipelines.contract import Stage


class Step(Struct, frozen=True):
    """A stage with its options.

    Attributes:
        stage: the function.
        options: what it is called with, beside the Conversion.
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
            result = self.stage(structs.replace(conversion, stage=self.name), **self.options)
        except MultiturnError as error:
            raise placed(error, case) from error.__cause__
        except (Exception, SystemExit) as error:  # nor may a stage end the run of the others
            raise failed(self, error, case) from error
        if not isinstance(result, Conversion):
            raise MultiturnError(
                f"the stage {self.name} returned {type(result).__name__} instead of a Conversion."
                " Maybe you forgot to return what conversion.replace() gives?",
                where=case.where(),
                case_id=case.id,
            )
        return result


def placed(error: MultiturnError, case: Case) -> MultiturnError:
    """Return an error of a stage's or a view's own, with its case where it names none."""
    return (
        error
        if error.case_id is not None
        else error.at(error.where if any(error.where) else case.where(), case.id)
    )


def failed(step: Step, error: BaseException, case: Case) -> MultiturnError:
    """Return what a stage's exception is for whoever runs the pipeline: its stage and its place.

    The place is the innermost line of the stage's own file.
    """
    code = getattr(inspect.unwrap(step.stage), "__code__", None)
    place = ""
    for frame, line in walk_tb(error.__traceback__):
        if code is not None and frame.f_code.co_filename == code.co_filename:
            place = f" at {from_here(code.co_filename)}:{line}"
    what = f"the stage {step.name} failed{place}: {type(error).__name__}: {error}"
    return MultiturnError(what, where=case.where(), case_id=case.id)


def logged(step: Step, conversion: Conversion) -> Conversion:
    """Run one step, and log its stage, case and time."""
    start = perf_counter()
    result = step(conversion)
    elapsed = perf_counter() - start
    logger().debug(
        "stage.done",
        stage=step.name,
        suite=conversion.case.suite,
        case=conversion.case.id,
        ms=round(elapsed * 1000, 3),
    )
    return result
