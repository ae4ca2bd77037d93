"""The stages of a pipeline, and what is different in those of two revisions."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

import multiturn_stages
from multiturn.pipelines.pipeline import Pipeline
from multiturn.review.diff import changed_lines

_SHIPPED = os.path.realpath(multiturn_stages.__path__[0])


class Stage(Struct, frozen=True):
    """A stage of a pipeline, as two sides are compared."""

    name: str  # of its function
    options: Mapping[str, str]  # their values, as Python writes them
    places: Mapping[str, str]  # where each option is written, and the stage, which is the option ""
    path: str  # of the file with its code
    code: str  # that file's text; empty for a stage that ships


def stages_of(pipeline: Pipeline) -> Iterator[Stage]:
    """Yield the stages of a pipeline, as two sides are compared."""
    for step in pipeline.steps:
        path, code = step.stage.__code__.co_filename, ""
        if os.path.dirname(os.path.realpath(path)) != _SHIPPED:
            with suppress(OSError):  # of a module that was never a file
                code = Path(path).read_text(encoding="utf-8", errors="replace")
        places = {
            option: str(pipeline.places.get((step.name, option), ""))
            for option in ("", *step.options)
        }
        options = {option: repr(value) for option, value in step.options.items()}
        yield Stage(step.name, options, places, os.path.relpath(path), code)


def pipeline_changes(then: Iterable[Stage], now: Iterable[Stage], pipeline: str) -> Iterator[str]:
    """Yield what is different in a pipeline of this name: an option, a stage, a stage's code."""
    old, new = ({stage.name: stage for stage in stages} for stages in (then, now))
    for name, stage in new.items():
        if name not in old:
            yield f"the stage {name} in {stage.places[''] or pipeline}"
            continue
        for option in sorted(stage.options.keys() | old[name].options.keys()):
            if stage.options.get(option) != old[name].options.get(option):
                place = stage.places.get(option) or stage.places[""] or pipeline
                yield f"{name}.{option} in {place}"
    yield from (f"{name} is no longer in {pipeline}" for name in old if name not in new)
    if [name for name in new if name in old] != [name for name in old if name in new]:
        yield f"the order of the stages in {pipeline}"
    codes = {stage.path: (old[name].code, stage.code) for name, stage in new.items() if name in old}
    yield from (
        f"{path} {changed_lines(*code)}" for path, code in codes.items() if code[0] != code[1]
    )
