"""A stage with its options, and what is said when it fails."""

import os
from collections.abc import Mapping
from time import perf_counter
from typing import Any, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from multiturn.errors import MultiturnError, StageError, line_of
from multiturn.logs import debug
from multiturn.model.case import Case
from multiturn.model.conversion import Conversion
from multiturn.pipelines.contract import Stage
from multiturn.pipelines.facts import checked
from multiturn.pipelines.registry import find_stage, pickled_stage


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

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the stage's name, for a process that has not imported its module."""
        return _unpickled, (pickled_stage(self.stage), dict(self.options))

    def __call__(self, conversion: Conversion) -> Conversion:
        """Run the stage, and log its time.

        Raises:
            MultiturnError: the stage's own error, or one that names the stage.
        """
        start, case = perf_counter(), conversion.case
        result = self.run(conversion)
        time = round((perf_counter() - start) * 1000, 3)
        debug("stage.done", stage=self.name, suite=case.suite, case=case.id, ms=time)
        return result

    def run(self, conversion: Conversion) -> Conversion:
        """Run the stage without logging, which reads no clock."""
        case, forks = conversion.case, len(_FORKS)
        try:
            result = self.stage(replace(conversion, stage=self.stage.__name__), **self.options)
        except MultiturnError as error:
            raise placed(error, case) from error.__cause__
        except (Exception, SystemExit) as error:  # nor may a stage end the run of the others
            raise failed(self, error, case) from error
        finally:
            if len(_FORKS) != forks:
                self._end_fork()
        try:
            result = checked(conversion, result, self.stage)
        except ValueError as error:
            raise StageError(f"the stage {self.name} {error}").at(case.where(), case.id) from None
        if result.turns is not conversion.turns and (gone := _gone(conversion, result)):
            named = ((message, at, self.name) for message, at in gone)
            result = replace(result, dropped=(*result.dropped, *named))
        return result

    def _end_fork(self) -> NoReturn:
        """End a process that the stage has forked, which would do all that follows once more."""
        what = f"the stage {self.name} forked a process and returned in it, too; end it there"
        try:
            os.write(2, f"Error: {what}, with os._exit\n".encode())
        finally:
            os._exit(1)


def _gone(before: Conversion, after: Conversion) -> list[tuple[int | None, int | None]]:
    """Return what a stage has dropped: messages, and media by their message and content."""
    gone: list[tuple[int | None, int | None]] = []
    if len(after.turns) < len(before.turns):
        kept = {turn.message for turn in after.turns}
        gone += ((turn.message, None) for turn in before.turns if turn.message not in kept)
    if media := [part for turn in before.turns for part in turn.parts if part.media is not None]:
        left = {part.origin for turn in after.turns for part in turn.parts}
        gone += ((part.message, part.content) for part in media if part.origin not in left)
    return gone


_FORKS: list[None] = []  # as many as there were from the first process to this one
if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=lambda: _FORKS.append(None))


def _unpickled(stage: Any, options: Mapping[str, Any]) -> Step:
    return Step(find_stage(*stage) if isinstance(stage, tuple) else stage, options)


def placed(error: MultiturnError, case: Case) -> MultiturnError:
    """Return an error that a stage or a view raised, placed in its case if it has no case."""
    if error.case_id is not None:
        return error
    return error.at(error.where if any(error.where) else case.where(), case.id)


def failed(step: Step, error: BaseException, case: Case) -> StageError:
    """Return the error for an exception of a stage: it names the stage and a line of its file."""
    place = line_of(step.stage, error)
    what = f"the stage {step.name} failed{place}: {type(error).__name__}: {error}"
    return StageError(what, where=case.where(), case_id=case.id)
