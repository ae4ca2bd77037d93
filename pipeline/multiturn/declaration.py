"""Pipelines as YAML: a list of stages, each a name, or a name with its options."""

from difflib import get_close_matches
from pathlib import Path
from typing import Any

from multiturn.assembly import Pipeline, Step
from multiturn.catalog import find_stage, stage_names
from multiturn.errors import Mistake, MultiturnError, PipelineError, did_you_mean
from multiturn.model import Conversion
from multiturn.yaml_events import Node, read_documents

DEFAULT_PIPELINE = "spec"
_SHIPPED = Path(__file__).parent / "pipelines"


def pipeline_names() -> list[str]:
    """Return the names of the pipelines that ship with multiturn.

    >>> pipeline_names()
    ['design', 'shipped', 'spec']
    """
    return sorted(path.stem for path in _SHIPPED.glob("*.yaml"))


def load_pipeline(source: str | Path = DEFAULT_PIPELINE) -> Pipeline:
    """Load a pipeline by its name, or from a YAML file.

    Args:
        source: the name of a pipeline that ships with multiturn, or a path.

    Raises:
        PipelineError: the file does not declare a pipeline; all its mistakes together.
        MultiturnError: there is no such pipeline, or its file cannot be read or is not YAML.

    >>> load_pipeline("spec").steps[0].name
    'resolve_segments'
    """
    names = pipeline_names()
    if source in names:
        return parse_pipeline((_SHIPPED / f"{source}.yaml").read_bytes(), str(source))
    path = Path(source)
    try:
        return parse_pipeline(path.read_bytes(), str(source))
    except FileNotFoundError:
        near = get_close_matches(str(source), names, n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(names)}, and files"
        raise MultiturnError(f"no pipeline {str(source)!r}; {hint}") from None
    except OSError as error:
        raise MultiturnError(f"cannot read it: {error.strerror}", where=str(source)) from None


def parse_pipeline(source: str | bytes, name: str) -> Pipeline:
    """Build the pipeline that YAML declares.

    Args:
        source: a mapping with ``stages``: each a name, or one name with a mapping of its options.
        name: the pipeline's name, and what errors call the source.

    Raises:
        PipelineError: with every mistake, each with its place.
    """
    documents = list(read_documents(source, name))
    if len(documents) != 1 or not isinstance(documents[0].children, dict):
        raise PipelineError([Mistake(f'{name}: a pipeline is one mapping, with "stages"')])
    top = documents[0]
    mistakes = [
        Mistake(f'{child.key_place(name)}: unknown key "{key}"; {did_you_mean(key, ["stages"])}')
        for key, child in top.children.items()
        if key != "stages"
    ]
    entries = top.children.get("stages", top)
    if not isinstance(entries.children, list) or not entries.children:
        what = f'{entries.place(name)}: "stages" must be a list of stages'
        raise PipelineError([*mistakes, Mistake(what)])
    steps = []
    for number, entry in enumerate(entries.children):
        try:
            steps.append(_step(entry))
        except MultiturnError as error:
            mistakes.append(Mistake(error.what, number))
            steps.append(Step(_unknown))
    try:
        pipeline = Pipeline(steps, name=name)
    except PipelineError as error:
        mistakes += error.mistakes
    if mistakes:
        raise PipelineError([_placed(mistake, entries, name) for mistake in mistakes])
    return pipeline


def _placed(mistake: Mistake, entries: Node, name: str) -> Mistake:
    """Return a mistake that begins with the place of its step, or of its option."""
    if mistake.step is None:
        return mistake
    node = entries.children[mistake.step]
    if mistake.option is not None:
        (options,) = node.children.values()
        node = options.children[mistake.option]
    return mistake._replace(what=f"{node.place(name)}: {mistake.what}")


def _step(entry: Node) -> Step:
    """Read ``name`` or ``name: {option: value}``."""
    name: Any = entry.value
    options: Any = {}
    if isinstance(name, dict) and len(name) == 1:
        ((name, options),) = name.items()
        options = {} if options is None else options
    if not isinstance(name, str) or not isinstance(options, dict):
        raise MultiturnError("a stage is its name, or its name with a mapping of options")
    stage = find_stage(name)
    if stage is None:
        raise MultiturnError(f'unknown stage "{name}"; {did_you_mean(name, stage_names())}')
    return Step(stage, options)


def _unknown(conversion: Conversion) -> Conversion:
    """Stand in for a stage that could not be found, so that the other mistakes are found too."""
    return conversion
