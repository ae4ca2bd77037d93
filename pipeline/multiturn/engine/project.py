"""The project in Python: its defaults stand in for arguments that are not given."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import structs

from multiturn.engine.defaults import Defaults, find_defaults, named_in
from multiturn.engine.outcomes import read_cases
from multiturn.engine.sampling import sampled
from multiturn.engine.selection import Selection, select
from multiturn.errors import MultiturnError
from multiturn.model.case import Case
from multiturn.model.turns import kind_of
from multiturn.pipelines.pipeline import Pipeline
from multiturn.pipelines.pipeline_file import DEFAULT_PIPELINE, read_pipeline


@contextmanager
def from_project(**given: Any) -> Iterator[Defaults]:
    """Give arguments, by the names of defaults, and the project's in place of those that are None.

    They are looked up once, from the current folder; if no argument is None, no file is read.
    Errors inside the block that name a default say which file sets it.
    """
    missing = [name for name, value in given.items() if value is None]
    found, file = find_defaults() if missing else (Defaults(), "")
    values = {name: value for name, value in given.items() if value is not None}
    try:
        yield structs.replace(found, **values)
    except MultiturnError as error:
        error.what += named_in(error.what, file, {name: getattr(found, name) for name in missing})
        raise


def load_pipeline(source: str | Path | None = None) -> Pipeline:
    """Load a pipeline by its name, or from a YAML file.

    A file may name functions by import path; their modules are imported, also from the folder of
    the file. Without an argument it is the project's pipeline, so that call may import, too.

    Args:
        source: the name of a pipeline that ships with multiturn, or a path; by default that of
            the project's ``multiturn.toml`` or ``pyproject.toml``, else ``spec``.

    Raises:
        PipelineError: the file does not declare a pipeline; with all errors that were found.
        MultiturnError: there is no such pipeline, or its file cannot be read or is not YAML; or
            the project's defaults are wrong, or another user's.

    >>> load_pipeline("spec").steps[0].name
    'resolve_segments'
    """
    with from_project(pipeline=source) as project:
        return chosen_pipeline(project)


def chosen_pipeline(project: Defaults) -> Pipeline:
    """Return the pipeline of ``from_project``, which may have been given as one."""
    pipeline: Any = project.pipeline
    if isinstance(pipeline, Pipeline):
        return pipeline
    return read_pipeline(DEFAULT_PIPELINE if pipeline is None else pipeline)


def load_suite(
    *suites: str | Path,
    case: str | Iterable[str] = (),
    sample: int | None = None,
    seed: int = 1,
    root: str | Path | None = None,
    guideline_patterns: Iterable[str] | None = None,
    on_error: Callable[[MultiturnError], object] | None = None,
) -> Iterator[Case]:
    """Find suites, and return an iterator over their cases.

    Each case is read when the iterator comes to it.

    Args:
        suites: paths of YAML files, of ``.jsonl`` files with one case a line, or of folders: all
            ``*.eval.yaml``, ``*.eval.yml``, ``*.eval.json`` and ``*.eval.jsonl`` below, except in
            hidden folders and ``node_modules``. ``-`` is YAML on standard input. By default those
            of the project's ``multiturn.toml`` or ``pyproject.toml``.
        case: only the cases with this id, or one of these; an id may have wildcards.
        sample: only so many of these cases, chosen by a hash of the seed, the suite and the id, so
            that a case that is added replaces one of them at most; the suites are then read twice.
        seed: another one chooses other cases.
        root: attached files are read inside it only; by default the project's, else the nearest
            folder above each suite that holds ``.git``, else the suite's own.
        guideline_patterns: used instead of those of the suites and of ``.agentv/config.yaml``.
        on_error: called with each error of a suite or a case, and the next case follows; without
            it the iterator raises the first error.

    Raises:
        TypeError: no suite is given, and the project has none; or one is not a path.
        ValueError: ``sample`` is below 1.
        MultiturnError: there is no such suite or root, or a pattern is not one. The iterator
            raises it for a suite or a case that is not as the format wants it, with its place,
            and at the end if no case has a selected id.
    """
    with from_project(suites=suites or None, root=root) as project:
        selection = select(
            chosen_suites(project, 'load_suite("evals/")'),
            root=project.root,
            guideline_patterns=guideline_patterns,
            case_ids=(case,) if isinstance(case, str) else case,
        )
        if sample is not None:
            selection = sampled(selection, sample, seed)
    return _cases(selection, on_error)


def chosen_suites(project: Defaults, example: str) -> tuple[str, ...]:
    """Return the paths of the suites of ``from_project``; the example is a call that has one."""
    function = example.partition("(")[0]
    if not project.suites:
        raise TypeError(f"{function} needs a suite; write {example}, or suites in multiturn.toml")
    for path in project.suites:
        if not isinstance(path, str | Path):
            raise TypeError(f"{function} takes paths of suites, not {kind_of(path)}")
    return tuple(map(str, project.suites))


def _cases(
    selection: Selection, on_error: Callable[[MultiturnError], object] | None
) -> Iterator[Case]:
    for outcome in read_cases(selection):
        if outcome.error is None:
            if outcome.case is not None:
                yield outcome.case
        elif on_error is None:
            raise outcome.error
        else:
            on_error(outcome.error)
