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
        text = (_SHIPPED / f"{source}.yaml").read_text(encoding="utf-8")
        return parse_pipeline(text, str(source))
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        near = get_close_matches(str(source), names, n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(names)}, and files"
        raise MultiturnError(f"no pipeline {str(source)!r}; {hint}") from None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise MultiturnError(f"cannot read the pipeline: {why}", where=str(source)) from None
    return parse_pipeline(text, str(source))


def parse_pipeline(text: str, name: str) -> Pipeline:
    """Build the pipeline that a YAML text declares.

    Args:
        text: a mapping with ``stages``: each a name, or one name with a mapping of its options.
        name: the pipeline's name, and what errors call the text.

    Raises:
        PipelineError: with every mistake, each with its place.
    """
    documents = list(read_documents(text, name))
    if len(documents) != 1 or not isinstance(documents[0].children, dict):
        raise PipelineError([Mistake(None, f'{name}: a pipeline is one mapping with "stages"')])
    top = documents[0]
    mistakes = [
        Mistake(None, f'{top.children[key].place(name)}: unknown key "{key}"; {hint}')
        for key in top.value
        if key != "stages" and (hint := did_you_mean(key, ["stages"]))
    ]
    entries = top.children.get("stages", top)
    if not isinstance(entries.children, list) or not entries.children:
        what = f'{entries.place(name)}: "stages" must be a list of stage names'
        raise PipelineError([*mistakes, Mistake(None, what)])
    steps = []
    for number, entry in enumerate(entries.children):
        try:
            steps.append(_step(entry))
        except MultiturnError as error:
            mistakes.append(Mistake(number, error.what))
            steps.append(Step(_unknown))
    try:
        pipeline = Pipeline(steps, name=name)
    except PipelineError as error:
        mistakes += error.mistakes
    if mistakes:
        raise PipelineError(
            mistake
            if mistake.step is None
            else Mistake(
                mistake.step, f"{entries.children[mistake.step].place(name)}: {mistake.what}"
            )
            for mistake in mistakes
        )
    return pipeline


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
