"""Pipelines: stages composed into one function."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from itertools import chain
from time import perf_counter
from types import FunctionType
from typing import Any

from msgspec import structs

from multiturn import errors
from multiturn.errors import ErrorDetail, InputError, MultiturnError, PipelineError, Place
from multiturn.files import media
from multiturn.files.finding import Files
from multiturn.files.paths import StrPath
from multiturn.logs import debug, is_debugging, warn, warnings_to
from multiturn.model import turns as model
from multiturn.model.case import Case, TestMessage
from multiturn.model.conversion import Conversion, captured
from multiturn.model.request import Origins, ProviderRequest, message_of
from multiturn.pipelines.contract import Stage, contract_of, markers_of, read_options
from multiturn.pipelines.ordering import legal_order, order_errors
from multiturn.pipelines.registry import name_of
from multiturn.pipelines.step import SHIPPED, Step, placed_in_case, stage_failure

# Functions that return a coroutine or a generator instead of running.
_LATER = CO_COROUTINE | CO_GENERATOR | CO_ASYNC_GENERATOR


def prepared(stages: Iterable[Stage | Step]) -> tuple[tuple[Step, ...], tuple[str, ...]]:
    """Return the steps of a pipeline, and how the lines begin that they add to a prompt."""
    steps: list[Step] = []
    found: list[ErrorDetail] = []
    for number, item in enumerate(stages):
        step = item if isinstance(item, Step) else Step(item)
        if not isinstance(step.stage, FunctionType) or step.stage.__code__.co_flags & _LATER:
            name = getattr(step.stage, "__name__", model.kind_of(step.stage))
            what = f"{name} is no stage: it must be a function with def, and without yield"
            raise PipelineError([ErrorDetail(f"{what}; a Step gives it options", number)])
        try:
            contract_of(step.stage)
        except MultiturnError as error:
            raise PipelineError([ErrorDetail(error.what, number, where=error.where)]) from None
        options, wrong = read_options(step.stage, step.options)
        steps.append(Step(step.stage, options))
        found += [ErrorDetail(what, number, option) for option, what in wrong.items()]
    functions = [step.stage for step in steps]
    found += _unguarded(steps)
    advice = ""
    if next(order_errors(functions), None):
        order = legal_order(functions)
        found += order_errors(functions, is_legal=order is not None)
        advice = f"a legal order: {', '.join(stage.__name__ for stage in order)}" if order else ""
    if found:
        raise PipelineError(found, advice)
    begun = (texts for step in steps for _, texts in markers_of(step.stage, step.options))
    return tuple(steps), tuple(dict.fromkeys((*chain.from_iterable(begun), *media.MARKERS)))


def _unguarded(steps: list[Step]) -> Iterator[ErrorDetail]:
    """Yield an error for each marker that a guard in the pipeline cannot know by its text."""
    contracts = [(each.name, contract_of(each.stage)) for each in steps]
    guards = [name for name, each in contracts if each is not None and "guarded" in each.provides]
    for number, step in enumerate(steps) if guards else ():
        for option, texts in markers_of(step.stage, step.options):
            if not texts:
                what = f'option "{option}" of {step.name} begins with a placeholder, so {guards[0]}'
                what += " cannot know the line; write a text before it, such as #"
                yield ErrorDetail(what, number, option)


class Pipeline:
    """A named, ordered, immutable list of configured stages.

    Args:
        stages: functions, or Steps where they have options; or what ``load_pipeline`` takes.
        name: its name or path, for messages.

    Raises:
        PipelineError: an option that a stage does not take, or an order that breaks a contract.
        MultiturnError: as ``load_pipeline`` does.

    >>> from multiturn_stages.embed_files import embed_files
    >>> from multiturn_stages.resolve_segments import resolve_segments
    >>> Pipeline([resolve_segments, embed_files])
    Pipeline(resolve_segments -> embed_files)
    """

    def __init__(self, stages: Iterable[Stage | Step] | StrPath, *, name: str = "pipeline") -> None:
        if isinstance(stages, str | os.PathLike):
            from multiturn.pipelines.pipeline_file import read_pipeline  # which needs this class

            vars(self).update(vars(read_pipeline(stages)))
            return
        if not isinstance(stages, Iterable):
            raise TypeError(f"Pipeline takes stages, a name or a path, not {stages!r}")
        self.name = name
        # Where a file has each stage, which is the option "", and each option; by stage and option.
        self.places: Mapping[tuple[str, str], Place] = {}
        self.steps, self.markers = prepared(stages)

    def __repr__(self) -> str:
        return f"Pipeline({' -> '.join(step.name for step in self.steps)})"

    def __call__(self, conversion: Conversion) -> Conversion:
        """Run the stages on a Conversion; what they notice is logged as warnings.

        The chat and the question are made once, at the end, and the result keeps them.

        Raises:
            MultiturnError: a stage failed, or the view that it has chosen.
        """
        if not isinstance(conversion, Conversion) or not isinstance(conversion.case, Case):
            given = conversion.case if isinstance(conversion, Conversion) else conversion
            what = f"a pipeline takes a Conversion of a Case, not {model.kind_of(given)};"
            raise TypeError(f"{what} write pipeline.request(case) or pipeline(Conversion(case))")
        if (sent := conversion.case.sent) is not None:
            tools = conversion.case.tools
            return conversion.replace(turns=sent, tools=tools, chat_view=captured)
        result = conversion = structs.replace(conversion, markers=self.markers)
        case, run = conversion.case, _logged if is_debugging() else Step.__call__
        for step in self.steps:
            result = run(step, result)
        try:
            _show(result)
        except MultiturnError as error:
            raise placed_in_case(error, case) from error.__cause__
        except (Exception, SystemExit) as error:
            step = self._first(conversion, _show) or self.steps[-1]
            raise stage_failure(step, error, case) from error
        if what := loose_in(result):
            raise self._left(conversion, loose_in, what)
        if not _asks(result):
            what = "nothing to answer; let it keep a user message"
            raise self._left(conversion, lambda at: not _says_something(at), what)
        for notice in result.notices:
            if notice.is_warning:
                warn(structs.replace(notice, case_id=case.id))
        return result

    def _left(
        self, conversion: Conversion, wrong: Callable[[Conversion], Any], what: str
    ) -> MultiturnError:
        """Return the error for what is wrong at the end, by a stage or as the case has it."""
        case, step = conversion.case, self._first(conversion, wrong) or self.steps[0]
        at, name, unpaired = model.unpaired(case.input_messages)
        if step is self.steps[0] and at >= 0:
            where = case.where(case.input_messages[at].line, case.message_key(at))
            return InputError(f"the call {name!r} {unpaired}").at(where, case.id)
        if step is self.steps[0] and wrong is not loose_in:
            what = "there is nothing to answer: no message but the system's has content"
            return InputError(f"{what}; write the user's").at(case.where(), case.id)
        what = f"the stage {step.name} left {what}"
        return errors.StageError(what).at(case.where(), case.id)

    def _first(self, conversion: Conversion, wrong: Callable[[Conversion], Any]) -> Step | None:
        """Return the first step after which something is wrong or fails, by running them again."""
        for step in self.steps:
            conversion = step(conversion)
            try:
                is_wrong = wrong(conversion)
            except (Exception, SystemExit):
                is_wrong = True
            if is_wrong:
                return step
        return None

    def unsteady(self, case: Case) -> Iterator[str]:
        """Yield each stage that changes its own result; a MultiturnError if the case fails."""
        conversion = Conversion(case, markers=self.markers)
        with warnings_to(lambda _: None):
            self(conversion)
        for step in self.steps if case.sent is None else ():
            conversion = step(conversion)
            with suppress(MultiturnError):
                if step(conversion) == conversion:
                    continue
            yield step.name

    def request(self, case: Case) -> ProviderRequest:
        """Convert a case to the request that a provider gets.

        Raises:
            MultiturnError: the case cannot be converted; with its place in the suite.
        """
        return request_of(self(Conversion(case)))

    def replace(self, name: str, stage: Stage | Step) -> "Pipeline":
        """Return a pipeline with another stage in the place of one.

        Raises:
            PipelineError: there is no such stage here, or the other one does not fit.
        """
        at = position(self.steps, name)
        return self._with([*self.steps[:at], stage, *self.steps[at + 1 :]])

    def insert(
        self,
        stage: Stage | Step,
        *,
        after: str | None = None,
        before: str | None = None,
        **options: Any,
    ) -> "Pipeline":
        """Return a pipeline with one stage more, right after or right before another.

        Args:
            stage: a function, or a Step.
            after: the name of the stage before it.
            before: the name of the stage after it.
            options: of the stage; those of a Step that are not named stay.

        Raises:
            PipelineError: there is no such other stage, or the new one does not fit there.
        """
        at = insertion(self.steps, after, before)
        step = stage if isinstance(stage, Step) else Step(stage)
        step = Step(step.stage, {**step.options, **options})
        return self._with([*self.steps[:at], step, *self.steps[at:]])

    def remove(self, *names: str) -> "Pipeline":
        """Return a pipeline without some stages.

        Raises:
            PipelineError: there is no such stage here, or another one cannot do without it.
        """
        gone = {position(self.steps, name) for name in names}
        return self._with([step for at, step in enumerate(self.steps) if at not in gone])

    def configure(self, name: str, **options: Any) -> "Pipeline":
        """Return a pipeline in which a stage has other options; those not named stay.

        Raises:
            PipelineError: there is no such stage here, or it does not take the options.
        """
        step = self.steps[position(self.steps, name)]
        return self.replace(name, Step(step.stage, {**step.options, **options}))

    def to_yaml(self) -> str:
        """Return the pipeline as a file that ``load_pipeline`` reads back.

        Raises:
            PipelineError: a stage cannot be named: it is local to a function, or lacks ``@stage``.
        """
        from multiturn.documents.dump import dump

        names = [(name_of(step.stage), step.options) for step in self.steps]
        return dump({"stages": [{name: opts} if opts else name for name, opts in names]})

    def _with(self, steps: Iterable[Stage | Step]) -> "Pipeline":
        return Pipeline(steps, name=self.name)


def _logged(step: Step, conversion: Conversion) -> Conversion:
    """Run a step, and log how long that took."""
    start, case = perf_counter(), conversion.case
    result = step(conversion)
    time = round((perf_counter() - start) * 1000, 3)
    debug("stage.done", stage=step.name, suite=case.suite, case=case.id, ms=time)
    return result


def _show(conversion: Conversion) -> None:
    """Make the chat and the question; a ValueError says what a view made instead of them."""
    name, chat = "chat_view", () if conversion.chat is None else conversion.chat
    try:
        if not type(conversion.chat_view).__module__.startswith(SHIPPED):
            model.check_turns(chat)
        name, transcript = "question_view", conversion.transcript
        if not type(conversion.question_view).__module__.startswith(SHIPPED):
            model.check_parts(transcript)
    except ValueError as error:
        raise ValueError(f"its {name} gave {error}") from None
    for turn in conversion.sent:  # here, the system message of a chat that is left out is made
        if turn.role == "system" and turn.has_media:
            raise ValueError("its chat_view gave a system message with media, which is only text")


def loose_in(conversion: Conversion) -> str:
    """Return where a call lacks its result, or a result its call; empty if all have both."""
    for turns in (conversion.turns, conversion.chat or ()):
        if not [turn for turn in turns if turn.calls or turn.answers is not None]:
            return ""
        at, name, wrong = model.unpaired(turns)
        if at >= 0:
            what = f"a chat in which the call {name!r} {wrong.partition(';')[0]}; conversion.drop"
            return f"{what} and conversion.replace_turns keep calls and results together"
    return ""


def position(steps: Sequence[Step], name: str) -> int:
    """Return the index of the one step of that name."""
    if not isinstance(name, str):
        hint = f'; write "{name.__name__}"' if hasattr(name, "__name__") else ""
        raise _edit_error(f"a stage of a pipeline is named by its name, as text{hint}")
    names = [step.name for step in steps]
    if names.count(name) == 1:
        return names.index(name)
    if name in names:
        raise _edit_error(f'the stage "{name}" is in this pipeline twice')
    raise _edit_error(f'no stage "{name}" in this pipeline; {errors.did_you_mean(name, names)}')


def insertion(steps: Sequence[Step], after: str | None, before: str | None) -> int:
    """Return the index at which a step goes that comes right after or right before another."""
    if after is not None and before is None:
        return position(steps, after) + 1
    if before is not None and after is None:
        return position(steps, before)
    raise _edit_error('a stage is inserted either "after" or "before" another')


def _edit_error(what: str) -> PipelineError:
    return PipelineError([ErrorDetail(what)])


def _asks(conversion: Conversion) -> bool:
    """Return whether a conversion has anything to answer (rule 11), or shows nothing at all."""
    if conversion.chat_view is None and conversion.question_view is None:
        return True
    return _says_something(conversion) or not (
        conversion.turns or conversion.chat or model.is_blank(conversion.question)
    )


def _says_something(conversion: Conversion) -> bool:
    """Return whether a message other than the system's has content, or has attached a guideline."""
    for turn in conversion.turns or conversion.chat or ():
        if turn.role != "system" and turn.says_something:
            return True
    return any(part.moved_by for part in conversion.guidelines)


def request_of(conversion: Conversion) -> ProviderRequest:
    """Return the request that a finished conversion makes."""
    case, chat = conversion.case, conversion.chat
    metadata = dict(case.metadata)
    if conversion.system_prompt is not None:
        metadata["system_prompt"] = conversion.system_prompt.text
    prompt = None if chat is None else tuple(map(message_of, chat))
    system = model.joined(conversion.system)
    return ProviderRequest(
        question=conversion.question,
        guidelines=tuple(
            [part.text for part in conversion.guidelines if not model.is_blank(part.text)]
        ),
        chat_prompt=prompt,
        system=system,
        input_files=conversion.input_files,
        tools=model.without_lines(conversion.tools),
        metadata=metadata,
        eval_id=case.id,
        settings=conversion.current_settings,
        suite=case.suite,
        conversation_id=case.conversation_id,
        outcome=case.outcome,
        expected_messages=case.expected_messages,
        execution=case.execution,
        root="" if case.files is None else case.files.root,
        origins=Origins(conversion.sent, conversion.transcript, prompt, system),
    )


# The files that the case attaches are two that are there wherever multiturn is.
_FOLDER = os.path.dirname(__file__)
_GUIDELINE, _FILE = "design.yaml", "spec.yaml"


def built_in_case() -> Case:
    """Return a case with every role and every kind of part."""
    files = [{"type": "file", "value": path} for path in (_GUIDELINE, _FILE)]
    return Case(
        id="built-in",
        input_messages=(
            TestMessage("system", "The customer's name is Ada."),
            TestMessage("user", ["Hello", *files, {"type": "text", "value": "Which is longer?"}]),
            TestMessage("assistant", "One moment."),
            TestMessage("tool", {"lines": 8}),
            TestMessage("system", ["The shop closes soon.", files[1]]),
            TestMessage("user", files[0]),
            TestMessage("user", " \n"),
            TestMessage("user", "And?"),
        ),
        system_prompt="You work in a shop.",
        guidelines=("Be brief.",),
        guideline_patterns=(_GUIDELINE,),
        files=Files(_FOLDER, _FOLDER),
    )


def try_out(pipeline: Pipeline) -> str:
    """Convert the built-in case; return why a stage refuses it, or an empty text.

    A stage that fails, or declares a fact that is not true, is a StageError.
    """
    with warnings_to(lambda _: None):
        try:
            conversion = Conversion(built_in_case(), markers=pipeline.markers)
            for step in pipeline.steps:
                conversion = step(conversion, is_tried=True)
            pipeline(Conversion(built_in_case()))
        except errors.StageError:
            raise
        except MultiturnError as error:
            return error.what
    return ""
