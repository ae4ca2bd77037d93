"""A stage with its options: running it, checking what it made, and what is said when it fails."""

import os
from collections.abc import Callable, Mapping
from operator import attrgetter, is_not
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from multiturn.errors import MultiturnError, StageError, end_fork, line_of
from multiturn.model import conversion as conversions
from multiturn.model.case import Case
from multiturn.model.conversion import Conversion
from multiturn.model.turns import check_fields, check_parts, check_turns
from multiturn.pipelines.contract import Stage, contract_of, ordered_facts
from multiturn.pipelines.registry import find_stage, pickled_stage
from multiturn.signals import masked

# The module of a stage or a view that ships: tests hold it to its word, not every run.
SHIPPED = "multiturn_stages."


_texts = attrgetter("turns", "guidelines", "system_prompt")


def _has_no_files(conversion: Conversion) -> bool:
    return not any(part.kind == "file" for turn in conversion.turns for part in turn.parts)


def _references_have_guidelines(conversion: Conversion) -> bool:
    parts = [part for turn in conversion.turns for part in turn.parts]
    references = {part.resolved_path for part in parts if part.kind == "reference"}
    return references <= {part.resolved_path for part in conversion.guidelines}


# How it can be seen in what a stage returns that a declared fact is true. The others cannot be
# seen: a case may have no files, and texts may pose as markers on request.
_SEEN: Mapping[str, Callable[[Conversion], bool]] = {
    "provides turns": lambda it: bool(it.turns) or not it.case.input_messages,
    "provides guidelines": _references_have_guidelines,
    "provides text": _has_no_files,
    "provides chat": lambda it: it.chat_view is not None,
    "provides visible_turns": lambda it: all(turn.says_something for turn in it.turns),
    "provides question": lambda it: it.question_view is not None,
    "consumes turns": lambda it: not it.turns,
    "consumes files": _has_no_files,
    "consumes guidelines": lambda it: not it.guidelines,
    "consumes chat": lambda it: it.chat_view is None,
    "consumes question": lambda it: it.question_view is None,
}


def check_made(before: Conversion, after: Any, stage: Stage) -> None:
    """Raise a ValueError that says what is wrong with what a stage made: a type, a fact, a call."""
    if not isinstance(after, Conversion):
        hint = "Maybe you forgot to return what conversion.replace() gives?"
        raise ValueError(f"returned {type(after).__name__} instead of a Conversion. {hint}")
    is_new = any(map(is_not, _texts(after), _texts(before)))
    try:
        # The first check of a type runs Python below C code, where an interrupt would be lost.
        with masked("SIG_BLOCK"):
            check_fields(after)
        if is_new:
            check_turns(after.turns)
            check_parts(after.guidelines)
            check_parts((after.system_prompt,) if after.system_prompt else ())
    except ValueError as error:
        raise ValueError(f"returned {error}") from None
    if contract := contract_of(stage):
        words = [f"provides {fact}" for fact in ordered_facts(contract.provides)]
        consumed = contract.consumes - contract.provides
        words += [f"consumes {fact}" for fact in ordered_facts(consumed)]
        for declared in words:
            if declared in _SEEN and not _SEEN[declared](after):
                what = f"declares that it {declared}, which is not true of what it returned;"
                raise ValueError(f"{what} docs/stages.md says what is true then")
    if after.settings is not None and after.settings is not before.settings:
        try:
            after.settings.check()
        except MultiturnError as error:
            raise ValueError(f"returned wrong settings: {error.what}") from None
    is_new |= after.tools is not before.tools
    if is_new and before.turns and before.tools and (left := _unknown(after) - _unknown(before)):
        what = f"left a call of {min(left)!r}, which is not among the tools"
        raise ValueError(f"{what}; drop the call, too, or keep the tool")


def _unknown(conversion: Conversion) -> set[str]:
    """Return the names of the tools that are called, and are not there."""
    called = {call.name for turn in conversion.turns for call in turn.calls}
    return called - {tool.name for tool in conversion.tools}


def _accounted(before: Conversion, after: Conversion, stage: str) -> Conversion:
    """Return a Conversion that says what is no text and was changed by a stage, or is gone."""
    keys: list[tuple[int | None, int | str | None]] = []
    if after.settings != before.settings:
        keys.append((None, None))
    if before.turns and after.turns is not before.turns:
        kept = {turn.message for turn in after.turns} | {None}
        keys += ((turn.message, None) for turn in before.turns if turn.message not in kept)
        parts = {part.origin for turn in after.turns for part in turn.parts}
        media = (part for turn in before.turns for part in turn.parts if part.media is not None)
        lost = (part for part in media if part.message is not None and part.origin not in parts)
        keys += ((part.message, part.content) for part in lost)
        messages = conversions.altered(conversions.by_message(before.turns), after.turns)
        keys += ((message, what) for message, what, _ in messages)
    if before.turns and after.tools is not before.tools:
        then, now = ({tool.name: tool for tool in it.tools} for it in (before, after))
        keys += ((None, name) for name in {**then, **now} if then.get(name) != now.get(name))
    return (
        replace(after, altered={**after.altered, **dict.fromkeys(keys, stage)}) if keys else after
    )


def _signed(before: Conversion, after: Conversion, stage: str) -> Conversion:
    """Return a Conversion with a stage's name on each text that is new."""
    texts = _texts(before)
    if not any(texts) or _texts(after) == texts:  # the first stage reads the suite
        return after
    sign, prompt = conversions.signing(conversions.parts_of(before), stage), after.system_prompt
    return replace(
        after,
        turns=conversions.signed_turns(after.turns, before.turns, sign, stage),
        guidelines=tuple(map(sign, after.guidelines)),
        system_prompt=sign(prompt) if prompt else None,
    )


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

    def __call__(self, conversion: Conversion, *, is_tried: bool = False) -> Conversion:
        """Run the stage; if ``is_tried``, check also what a shipped one made.

        Raises:
            MultiturnError: the stage's own error, or one that names the stage.
        """
        case, forks = conversion.case, _forks
        stage, name = self.stage, self.stage.__name__
        given = replace(conversion, stage=name)
        try:
            result = stage(given, **self.options)
        except MultiturnError as error:
            raise placed_in_case(error, case) from error.__cause__
        except (Exception, SystemExit) as error:  # nor may a stage end the run of the others
            raise stage_failure(self, error, case) from error
        finally:
            if _forks != forks:
                end_fork(f"the stage {name}")
        if is_tried or not stage.__module__.startswith(SHIPPED):
            try:
                check_made(conversion, result, stage)
            except ValueError as error:
                raise StageError(f"the stage {name} {error}").at(case.where(), case.id) from None
        if result is given or (
            result.turns is conversion.turns
            and result.guidelines is conversion.guidelines
            and result.system_prompt is conversion.system_prompt
            and result.tools is conversion.tools
            and result.settings is conversion.settings
        ):
            return result
        return _accounted(conversion, _signed(conversion, result, name), name)


_forks = 0  # as many as there were from the first process to this one


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_count_fork)


def _unpickled(stage: Any, options: Mapping[str, Any]) -> Step:
    return Step(find_stage(*stage) if isinstance(stage, tuple) else stage, options)


def placed_in_case(error: MultiturnError, case: Case) -> MultiturnError:
    """Return an error that a stage or a view raised, placed in its case if it has no case."""
    if error.case_id is not None:
        return error
    return error.at(error.where if any(error.where) else case.where(), case.id)


def stage_failure(step: Step, error: BaseException, case: Case) -> StageError:
    """Return the error for an exception of a stage: it names the stage and a line of its file."""
    place = line_of(step.stage, error)
    what = f"the stage {step.name} failed{place}: {type(error).__name__}: {error}"
    return StageError(what, where=case.where(), case_id=case.id)
