"""Suites as data sets of inspect_ai, and its task ``multiturn/suite``.

Needs inspect_ai, which finds the task by an entry point; nothing of it is imported elsewhere.
"""

from collections.abc import Iterable, Mapping
from sys import intern
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig, ResponseSchema, get_model
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import ToolChoice, ToolFunction, ToolInfo, ToolParams

from multiturn.engine import formats
from multiturn.errors import MultiturnError, options_as
from multiturn.files.media import Base64
from multiturn.files.paths import StrPath
from multiturn.model.case import Case
from multiturn.model.turns import Turn
from multiturn.pipelines.pipeline import Pipeline

__all__ = ["answer", "dataset", "suite"]


def dataset(
    *suites: StrPath,
    pipeline: StrPath | Pipeline | None = None,
    root: StrPath | None = None,
    guideline_patterns: Iterable[str] = (),
) -> MemoryDataset:
    """Return the cases of suites, with the messages that ``multiturn run`` sends to OpenAI.

    A case that cannot be sent, or that has a tool or a schema which inspect_ai would change, is
    left out, with a warning that says why.

    Args:
        suites: files and folders; by default those of the project's ``multiturn.toml`` or
            ``pyproject.toml``.
        pipeline: a name, a file, or a pipeline; by default the project's, else ``spec``.
        root: attached files are read inside it only; by default the project's, else the nearest
            folder above each suite that holds ``.git``, else the suite's own.
        guideline_patterns: used instead of those of the suites, if there are any.

    Raises:
        MultiturnError: there is no such suite or pipeline; an error in a case; or none is left.
        TypeError: there is no suite.
    """
    names, cases = formats.grader_cases(suites, pipeline, root, guideline_patterns)
    samples = [
        Sample(**{**each._asdict(), "input": _messages(each.input)})
        for case, each in cases
        if _holds(case, each.metadata)
    ]
    if not samples:
        raise MultiturnError("no case of these suites can be sent by inspect_ai; see the warnings")
    return MemoryDataset(samples, name=", ".join(names), location=names[0])


def _holds(case: Case, metadata: Mapping[str, Any]) -> bool:
    """Return whether tools and settings of a case are held as they are; if not, warn."""
    try:
        for each in metadata.get("tools", ()):
            _tool(each["function"])
        settings, choice = _settings_in(metadata)
        GenerateConfig(**settings)
        if choice == "none":
            raise ValueError("inspect_ai sends no tools where tool_choice is none")
    except ValueError as error:
        formats.left_out(case, str(error).partition("\n")[0])
        return False
    return True


def _messages(prompt: Iterable[Turn]) -> list[Any]:
    """Return messages of which inspect_ai makes its own; cases share the URIs of equal media."""
    messages = formats.as_inspect(prompt)
    for message in messages:
        message["source"] = "input"
        if not isinstance(message["content"], str):
            message["content"] = [
                {key: intern(str(it)) if isinstance(it, Base64) else it for key, it in part.items()}
                for part in message["content"]
            ]
    return messages


def _tool(written: Mapping[str, Any]) -> ToolInfo:
    """Return the definition of a tool; a ValueError says that inspect_ai would change it."""
    every = {"type": "object", "properties": {}, "required": [], "additionalProperties": True}
    given = {**every, **written.get("parameters", {})}
    parameters = ToolParams(**given)
    if written.get("strict") or parameters.model_dump(exclude_none=True) != given:
        raise ValueError(f"inspect_ai would change the tool {written['name']!r}")
    description = written.get("description", "")
    return ToolInfo(name=written["name"], description=description, parameters=parameters)


def _settings_in(metadata: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """Return the settings of a case as ``generate`` takes them, and the choice of a tool."""
    settings = dict(metadata.get("settings") or {})
    choice = settings.pop("tool_choice", None)
    form = settings.get("response_schema")
    if form is not None:
        held = ResponseSchema(**form)
        if held.json_schema.model_dump(exclude_none=True) != form["json_schema"]:
            raise ValueError("inspect_ai would change the JSON Schema of response_format")
    return settings, choice


def _chosen(choice: Any) -> ToolChoice:
    if isinstance(choice, dict):
        return ToolFunction(choice["name"])
    return {"required": "any", "none": "none"}.get(choice, "auto")


@solver  # type: ignore[untyped-decorator]
def answer() -> Solver:
    """Ask the model, with the tools and the settings of the case.

    A call in the answer is recorded, and not run.
    """

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        settings, choice = _settings_in(state.metadata)
        tools = [_tool(each["function"]) for each in state.metadata.get("tools", ())]
        if not tools:
            return await generate(state, **settings)
        # ``generate`` takes tools that it can run only.
        config = GenerateConfig(**settings)
        state.output = await get_model().generate(state.messages, tools, _chosen(choice), config)
        state.messages.append(state.output.message)
        return state

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
