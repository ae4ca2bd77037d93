"""Suites as data sets of inspect_ai, and its task ``multiturn/suite``.

Needs inspect_ai, which finds the task by an entry point; nothing of it is imported elsewhere.
"""

from collections.abc import Iterable
from pathlib import Path

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
)
from inspect_ai.solver import Generate, Solver, TaskState, solver

from multiturn.engine.formats import sample_of
from multiturn.engine.outcomes import outcomes
from multiturn.engine.selection import select
from multiturn.model import Conversion
from multiturn.pipelines.pipeline import Pipeline
from multiturn.pipelines.pipeline_file import DEFAULT_PIPELINE, load_pipeline

__all__ = ["answer", "dataset", "suite"]
_MESSAGES: dict[str, type[ChatMessage]] = {
    "system": ChatMessageSystem,
    "user": ChatMessageUser,
    "assistant": ChatMessageAssistant,
}


def dataset(
    *suites: str | Path,
    pipeline: str | Path | Pipeline = DEFAULT_PIPELINE,
    root: str | Path | None = None,
    guideline_patterns: Iterable[str] = (),
) -> MemoryDataset:
    """Return the cases of suites, with the messages that ``multiturn run`` sends to OpenAI.

    Args:
        suites: files and folders.
        pipeline: a name, a file, or a pipeline.
        root: attached files are read inside it only; by default the nearest folder above each
            suite that holds ``.git``, else the suite's own.
        guideline_patterns: used instead of those of the suites, if there are any.

    Raises:
        MultiturnError: there is no such suite or pipeline; or the first error in a case.
        TypeError: there is no suite.
    """
    if not suites:
        raise TypeError('dataset() needs a suite, such as "evals/"')
    names = [str(suite) for suite in suites]
    chosen = pipeline if isinstance(pipeline, Pipeline) else load_pipeline(pipeline)
    selection = select(names, root=root, guideline_patterns=guideline_patterns or None)
    samples = []
    for outcome in outcomes(selection, chosen):
        if outcome.error is not None:
            raise outcome.error
        if outcome.conversion is not None:
            samples.append(_sample(outcome.conversion))
    return MemoryDataset(samples, name=", ".join(names), location=names[0])


def _sample(conversion: Conversion) -> Sample:
    sample = sample_of(conversion, as_sent=True)
    return Sample(
        id=sample.id,
        input=[
            _MESSAGES[message.role](content=message.content, source="input")
            for message in sample.input
        ],
        target=sample.target,
        metadata=sample.metadata,
    )


@solver  # type: ignore[untyped-decorator]
def answer() -> Solver:
    """Ask the model, with the ``temperature`` and the ``max_output_tokens`` of the case."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        execution = state.metadata.get("execution")
        wanted = execution if isinstance(execution, dict) else {}
        return await generate(
            state,
            temperature=wanted.get("temperature"),
            max_tokens=wanted.get("max_output_tokens"),
        )

    return solve


@task  # type: ignore[untyped-decorator]
def suite(
    suite: str | list[str], pipeline: str = DEFAULT_PIPELINE, root: str | None = None
) -> Task:
    """Ask the model each case of suites: ``inspect eval multiturn/suite -T suite=evals/``.

    Args:
        suite: file or folder, or several.
        pipeline: a name or a file.
        root: as for ``dataset``.
    """
    suites = [suite] if isinstance(suite, str) else suite
    return Task(dataset=dataset(*suites, pipeline=pipeline, root=root), solver=answer())
