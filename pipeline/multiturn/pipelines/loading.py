"""Pipelines as YAML: a list of stages, or another pipeline and what is different."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from multiturn.documents.node import Node
from multiturn.documents.source import check_path, open_rewindable
from multiturn.documents.yaml_events import read_documents
from multiturn.errors import (
    ErrorDetail,
    MultiturnError,
    PipelineError,
    Place,
    did_you_mean,
    nearest,
)
from multiturn.model import Conversion
from multiturn.pipelines.contract import Stage
from multiturn.pipelines.pipeline import Pipeline, insertion, position
from multiturn.pipelines.registry import find_stage
from multiturn.pipelines.step import Step

DEFAULT_PIPELINE = "spec"
_SHIPPED = Path(__file__).parent
_MAX_FILE = 1_000_000
_SUITE_KEYS = {"evalcases", "input_messages"}
# The keys, and what editors say of each. The edits are in the order in which they are made.
EDITS = {
    "replace": "stages that take the place of others, behind the names of those",
    "configure": "options of stages, behind the names of those",
    "insert": "further stages, each with the place where it goes",
    "remove": "the names of stages to leave out",
}
KEYS = {
    "stages": "the stages, in the order in which they run",
    "extends": "the pipeline to start from: its name, or the path of its file from this one",
    **EDITS,
}
INSERT_KEYS = {
    "stage": "the stage: its name or import path, or that with a mapping of options",
    "after": "the stage that it comes right after",
    "before": "the stage that it comes right before",
}


def pipeline_names() -> list[str]:
    """Return the names of the pipelines that ship with multiturn.

    >>> pipeline_names()
    ['design', 'shipped', 'spec']
    """
    return sorted(path.stem for path in _SHIPPED.glob("*.yaml"))


def load_pipeline(source: str | Path = DEFAULT_PIPELINE) -> Pipeline:
    """Load a pipeline by its name, or from a YAML file.

    A file may name functions by import path; those modules are imported. A module may stand
    beside the file.

    Args:
        source: the name of a pipeline that ships with multiturn, or a path.

    Raises:
        PipelineError: the file does not declare a pipeline; all its errors together.
        MultiturnError: there is no such pipeline, or its file cannot be read or is not YAML.

    >>> load_pipeline("spec").steps[0].name
    'resolve_segments'
    """
    return _load(source, ())


def _load(source: str | Path, trail: tuple[Path, ...]) -> Pipeline:
    names = pipeline_names()
    if source in names:
        path = _SHIPPED / f"{source}.yaml"
        return _Declaration(str(source), None, trail).read(path.read_bytes())
    check_path(str(source))
    path = Path(source)
    if not path.exists():
        near = nearest(path.name, names)
        hint = f'did you mean "{near}"?' if near else f"there are {', '.join(names)}, and files"
        raise MultiturnError(f"no pipeline {str(source)!r}; {hint}")
    with open_rewindable(str(path), str(source)) as file:
        data = file.read(_MAX_FILE + 1)
    if len(data) > _MAX_FILE:
        raise MultiturnError(f"a pipeline file of over {_MAX_FILE:,} bytes", where=str(source))
    return _Declaration(str(source), path.resolve(), trail).read(data)


def parse_pipeline(source: str | bytes, name: str) -> Pipeline:
    """Build the pipeline that YAML declares; import paths are refused.

    Args:
        source: a mapping with ``stages``, or with ``extends`` and edits.
        name: the pipeline's name, and what errors call the source.

    Raises:
        PipelineError: with every error, each with its place.
    """
    return _Declaration(name, None, ()).read(source)


class _Entry(Struct):
    """A step, where it is declared, and where each of its options is."""

    step: Step
    node: Node
    options: dict[str, Node]


class _Declaration:
    """One pipeline file on its way from YAML to a Pipeline.

    Args:
        name: what errors call it.
        path: where it is; None for text, which can import nothing.
        trail: the files that extend it.
    """

    def __init__(self, name: str, path: Path | None, trail: tuple[Path, ...]) -> None:
        self.name = name
        self.path = path
        self.trail = trail
        self.errors: list[ErrorDetail] = []

    @contextmanager
    def collect(self, node: Node) -> Iterator[None]:
        """Note what is wrong with a node, and go on."""
        try:
            yield
        except PipelineError as error:
            where = node.place(self.name)
            self.errors += [ErrorDetail(detail.what, where=where) for detail in error.errors]
        except MultiturnError as error:
            self.errors.append(ErrorDetail(error.what, where=node.place(self.name)))

    def read(self, source: str | bytes) -> Pipeline:
        documents = list(read_documents(source, self.name))
        first: Any = documents[0].value if documents else None
        if (
            isinstance(first, dict)
            and not KEYS.keys() & first.keys()
            and _SUITE_KEYS & first.keys()
        ):
            what = "this is a suite, and no pipeline; multiturn convert takes it"
            raise PipelineError([ErrorDetail(what, where=documents[0].place(self.name))])
        if len(documents) != 1 or not isinstance(documents[0].children, dict):
            what = 'a pipeline is one mapping, with "stages" or "extends"'
            raise PipelineError([ErrorDetail(what, where=Place(self.name))])
        top = documents[0]
        keys: dict[str, Node] = top.children
        for key, child in keys.items():
            if key not in KEYS:
                what = f'unknown key "{key}"; {did_you_mean(key, KEYS)}'
                self.errors.append(ErrorDetail(what, where=child.key_place(self.name)))
            with self.collect(child):
                if key in EDITS and "extends" not in keys:
                    raise MultiturnError(f'"{key}" edits a pipeline that "extends" another')
        entries: list[_Entry] = []
        with self.collect(top):
            if ("stages" in keys) == ("extends" in keys):
                raise MultiturnError('a pipeline has either "stages" or "extends"')
        if "stages" in keys:
            with self.collect(keys["stages"]):
                entries = [self.entry(node) for node in self.items(keys["stages"], "stages")]
        elif "extends" in keys:
            entries = self.extended(keys["extends"])
        self.inserted = _inserted(keys["insert"].value if "insert" in keys else None)
        if "extends" in keys and entries:
            for key in EDITS:
                if key in keys:
                    with self.collect(keys[key]):
                        getattr(self, key)(entries, keys[key])
        advice = ""
        try:
            pipeline = Pipeline([entry.step for entry in entries], name=self.name)
        except PipelineError as error:
            advice = "" if self.errors else error.advice
            self.errors += [self.placed(detail, entries, top) for detail in error.errors]
        if self.errors:
            raise PipelineError(self.errors, advice)
        return pipeline

    def placed(self, error: ErrorDetail, entries: list[_Entry], top: Node) -> ErrorDetail:
        node = top
        if error.step is not None:
            entry = entries[error.step]
            node = entry.options.get(error.option or "", entry.node)
        return error._replace(where=node.place(self.name))

    def entry(self, node: Node) -> _Entry:
        """Read ``name``, or ``name: {option: value}``."""
        name: Any = node.value
        options: dict[str, Node] = {}
        if isinstance(name, dict) and len(name) == 1:
            ((name, child),) = node.children.items()
            with self.collect(child):
                options = {} if child.value is None else self.fields(child, "options")
        with self.collect(node):
            if not isinstance(name, str):
                raise MultiturnError("a stage is its name, or its name with a mapping of options")
            stage = find_stage(name, self.path.parent if self.path else None)
            values = {key: child.value for key, child in options.items()}
            return _Entry(Step(stage, values), node, options)
        return _Entry(Step(_stand_in(str(name))), node, {})

    def extended(self, node: Node) -> list[_Entry]:
        """Return the entries of the pipeline that this one extends."""
        with self.collect(node):
            if not isinstance(node.value, str) or not node.value.isprintable():
                raise MultiturnError('"extends" is a pipeline\'s name, or a path from this file')
            base: str | Path = node.value
            trail = self.trail
            if base not in pipeline_names():
                if self.path is None:
                    hint = did_you_mean(node.value, pipeline_names())
                    raise MultiturnError(f"only a file can extend a file; {hint}")
                base = Path(self.name).parent / base
                trail = (*trail, self.path)
                if base.resolve() in trail:
                    circle = " -> ".join(path.name for path in (*trail, base.resolve()))
                    raise MultiturnError(f"pipelines extend each other in a circle: {circle}")
            return [_Entry(step, node, {}) for step in _load(base, trail).steps]
        return []

    def items(self, node: Node, key: str) -> list[Node]:
        if not isinstance(node.children, list) or not node.children:
            raise MultiturnError(f'"{key}" must be a list with at least one entry')
        return node.children

    def fields(self, node: Node, what: str) -> dict[str, Node]:
        if not isinstance(node.children, dict):
            raise MultiturnError(f"{what} must be a mapping")
        return node.children

    def name_in(self, node: Node, what: str) -> str:
        if not isinstance(node.value, str):
            raise MultiturnError(f"{what} is the name of a stage, as text")
        return node.value

    def replace(self, entries: list[_Entry], node: Node) -> None:
        for name, child in self.fields(node, '"replace"').items():
            with self.collect(child):
                entries[_at(entries, name)] = self.entry(child)

    def configure(self, entries: list[_Entry], node: Node) -> None:
        for name, child in self.fields(node, '"configure"').items():
            with self.collect(child):
                if name in self.inserted and name not in [entry.step.name for entry in entries]:
                    stage = f"stage: {{{self.inserted[name]}: {json.dumps(child.value)}}}"
                    raise MultiturnError(f'"{name}" is inserted; write its options there: {stage}')
                entry = entries[_at(entries, name)]
                options = self.fields(child, f'the options of "{name}"')
                values = {**entry.step.options, **child.value}
                step = Step(entry.step.stage, values)
                entries[_at(entries, name)] = _Entry(step, entry.node, entry.options | options)

    def insert(self, entries: list[_Entry], node: Node) -> None:
        for item in self.items(node, "insert"):
            with self.collect(item):
                keys = self.fields(item, "what is inserted")
                for key in keys:
                    if key not in INSERT_KEYS:
                        hint = did_you_mean(key, INSERT_KEYS)
                        raise MultiturnError(f'unknown key "{key}"; {hint}')
                if "stage" not in keys:
                    raise MultiturnError('what is inserted has no "stage"')
                steps = [entry.step for entry in entries]
                after, before = (
                    None if item.value.get(key) is None else self.name_in(keys[key], f'"{key}"')
                    for key in ("after", "before")
                )
                at = insertion(steps, after, before)
                entries.insert(at, self.entry(keys["stage"]))

    def remove(self, entries: list[_Entry], node: Node) -> None:
        for item in self.items(node, "remove"):
            with self.collect(item):
                del entries[_at(entries, self.name_in(item, "what is removed"))]


def _at(entries: list[_Entry], name: str) -> int:
    return position([entry.step for entry in entries], name)


def _inserted(items: Any) -> dict[str, str]:
    """Return the stages that are inserted as they are written, by their names."""
    listed = items if isinstance(items, list) else ()
    stages = [item.get("stage") for item in listed if isinstance(item, dict)]
    written = [next(iter(stage), None) if isinstance(stage, dict) else stage for stage in stages]
    return {stage.rpartition(":")[2]: stage for stage in written if isinstance(stage, str)}


def _stand_in(name: str) -> Stage:
    """Return a stage in the place of one that cannot be found, so that other errors are, too."""

    def stand_in(conversion: Conversion) -> Conversion:
        return conversion

    stand_in.__name__ = name.rpartition(":")[2]
    return stand_in
