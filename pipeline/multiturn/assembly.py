"""Pipelines: stages in an order that their contracts allow, composed into one function."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any

from msgspec import Struct
from toolz import compose_left

from multiturn.catalog import provider_of
from multiturn.contract import FACTS, Stage, contract_of, read_options
from multiturn.errors import Mistake, MultiturnError, PipelineError
from multiturn.logs import logger
from multiturn.model import Case, ChatMessage, Conversion, ProviderRequest


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
            result = self.stage(conversion, **self.options)
        except MultiturnError:
            raise
        except Exception as error:
            what = f"the stage {self.name} failed: {type(error).__name__}: {error}"
            raise MultiturnError(what, where=case.where(), case_id=case.id) from error
        if not isinstance(result, Conversion):
            raise MultiturnError(
                f"the stage {self.name} returned {type(result).__name__} instead of a Conversion."
                " Maybe you forgot to return what conversion.replace() gives?",
                where=case.where(),
                case_id=case.id,
            )
        return result


def _logged(step: Step, conversion: Conversion) -> Conversion:
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


class Pipeline:
    """A named, ordered, immutable list of configured stages.

    Args:
        stages: functions, or Steps where they have options.
        name: what people call it.

    Raises:
        PipelineError: an option that a stage does not take, or an order that breaks a contract.

    >>> from multiturn_stages.embed_files import embed_files
    >>> from multiturn_stages.resolve_segments import resolve_segments
    >>> Pipeline([resolve_segments, embed_files])
    Pipeline(resolve_segments -> embed_files)
    >>> Pipeline([embed_files, resolve_segments])
    Traceback (most recent call last):
    multiturn.errors.PipelineError: embed_files (1) needs files, but resolve_segments (2) \
provides that only later; move it after resolve_segments
    """

    def __init__(self, stages: Iterable[Stage | Step], *, name: str = "pipeline") -> None:
        self.name = name
        steps, mistakes = [], []
        for number, item in enumerate(stages):
            step = item if isinstance(item, Step) else Step(item)
            options, wrong = read_options(step.stage, step.options)
            steps.append(Step(step.stage, options))
            mistakes += [Mistake(what, number, option) for option, what in wrong.items()]
        mistakes += order_mistakes(steps)
        if mistakes:
            raise PipelineError(mistakes)
        self.steps = tuple(steps)
        self._run: Callable[[Conversion], Conversion] = compose_left(*steps)

    def __repr__(self) -> str:
        return f"Pipeline({' -> '.join(step.name for step in self.steps)})"

    def __call__(self, conversion: Conversion) -> Conversion:
        """Run the stages on a Conversion; what they leave out is logged as a warning."""
        result = self._run(conversion)
        for segment in result.left_out:
            logger().warning("segment.left_out", where=segment.where, why=segment.why)
        return result

    def logged(self) -> "Pipeline":
        """Return the same pipeline, which logs each stage with its case and time."""
        pipeline = Pipeline(self.steps, name=self.name)
        pipeline._run = compose_left(*(partial(_logged, step) for step in self.steps))
        return pipeline

    def request(self, case: Case) -> ProviderRequest:
        """Convert a case to the request that a provider gets.

        Raises:
            MultiturnError: the case cannot be converted; with its place in the suite.
        """
        conversion = self(Conversion(case))
        chat = conversion.chat
        metadata = dict(case.metadata)
        if case.system_prompt is not None:
            metadata["system_prompt"] = case.system_prompt
        return ProviderRequest(
            question=conversion.question,
            guidelines=tuple(part.text for part in conversion.guidelines),
            chat_prompt=None
            if chat is None
            else tuple(ChatMessage(turn.role, turn.content) for turn in chat),
            input_files=conversion.input_files,
            metadata=metadata,
            eval_id=case.id,
        )


def order_mistakes(steps: Sequence[Step]) -> Iterator[Mistake]:
    """Yield what is wrong with an order of steps, in one walk along it.

    A stage without a contract is unchecked: after it, every fact is taken to be true.
    """
    facts: set[str] = set()
    consumers: dict[str, int] = {}
    for number, step in enumerate(steps):
        contract = contract_of(step.stage)
        if contract is None:
            facts.update(FACTS)
            continue
        for fact in FACTS:
            if fact in contract.requires - facts:
                yield Mistake(_missing(fact, number, steps, consumers.get(fact)), number)
        for fact in contract.consumes & facts:
            consumers[fact] = number
        facts -= contract.consumes
        facts |= contract.provides


def _missing(fact: str, number: int, steps: Sequence[Step], consumer: int | None) -> str:
    needs = f"{steps[number].name} ({number + 1}) needs {fact}"
    if consumer is not None:
        name = steps[consumer].name
        did = FACTS[fact].consumed
        return f"{needs}, but {name} ({consumer + 1}) has already {did}; move it before {name}"
    for later in range(number + 1, len(steps)):
        contract = contract_of(steps[later].stage)
        if contract is not None and fact in contract.provides:
            name = steps[later].name
            return (
                f"{needs}, but {name} ({later + 1}) provides that only later; move it after {name}"
            )
    provider = provider_of(fact)
    return f"{needs}, which no stage before it provides" + (
        f"; add {provider} before it" if provider else ""
    )
