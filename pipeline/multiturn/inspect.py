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

from multiturn.engine import formats
from multiturn.errors import options_as
from multiturn.pipelines.pipeline import Pipeline

__all__ = ["answer", "dataset", "suite"]
_MESSAGES: dict[str, type[ChatMessage]] = {
    "system": ChatMessageSystem,
    "user": ChatMessageUser,
    "assistant": ChatMessageAssistant,
}


def dataset(
    *suites: str | Path,
    pipeline: str | Path | Pipeline | None = None,
    root: str | Path | None = None,
    guideline_patterns: Iterable[str] = (),
) -> MemoryDataset:
    """Return the cases of suites, with the messages that ``multiturn run`` sends to OpenAI.

    Args:
        suites: files and folders; by default those of the project's ``multiturn.toml`` or
            ``pyproject.toml``.
        pipeline: a name, a file, or a pipeline; by default the project's, else ``spec``.
        root: attached files are read inside it only; by default the project's, else the nearest
            folder above each suite that holds ``.git``, else the suite's own.
        guideline_patterns: used instead of those of the suites, if there are any.

    Raises:
        MultiturnError: there is no such suite or pipeline; or the first error in a case.
        TypeError: there is no suite.
    """
    names, samples = formats.samples_of(suites, pipeline, root, guideline_patterns)
    return MemoryDataset([*map(_sample, samples)], name=", ".join(names), location=names[0])


def _sample(sample: formats.Sample) -> Sample:
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
    suite: str | list[str] | None = None, pipeline: str | None = None, root: str | None = None
) -> Task:
    """Ask the model each case of suites: ``inspect eval multiturn/suite -T suite=evals/``.

    Args:
        suite: file or folder, or several; by default as for ``dataset``.
        pipeline: a name or a file; by default as for ``dataset``.
        root: as for ``dataset``.
    """
    suites = [suite] if isinstance(suite, str) else suite or []
    with options_as("-T {}="):
        cases = dataset(*suites, pipeline=pipeline, root=root)
    return Task(dataset=cases, solver=answer())
