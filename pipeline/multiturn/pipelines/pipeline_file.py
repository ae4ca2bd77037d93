"""Pipelines as YAML: a list of stages, or another pipeline and what is different."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from multiturn import errors
from multiturn.documents.input import check_path, read_small
from multiturn.documents.json_lines import is_json_lines
from multiturn.documents.node import Node
from multiturn.documents.validation import read_as
from multiturn.documents.yaml_reader import read_documents
from multiturn.errors import ErrorDetail, InputError, MultiturnError, PipelineError, Place
from multiturn.files.paths import StrPath, names_in
from multiturn.model.case import CASES_KEYS, MESSAGES_KEYS
from multiturn.model.conversion import Conversion
from multiturn.pipelines.contract import Stage
from multiturn.pipelines.pipeline import Pipeline, insertion, position
from multiturn.pipelines.registry import find_stage
from multiturn.pipelines.step import Step


class Insertion(Struct, forbid_unknown_fields=True):
    """An entry of ``insert``.

    Attributes:
        stage: the stage: its name or import path, or that with a mapping of options
        after: the stage that it comes right after
        before: the stage that it comes right before
    """

    stage: Any
    after: str | None = None
    before: str | None = None


class PipelineKeys(Struct):
    """The keys of a pipeline file. All but the first two are edits, in the order they are made.

    Attributes:
        stages: the stages, in the order in which they run
        extends: the pipeline to start from: its name, or its path relative to this file
        replace: by the name of a stage: the stage that replaces it
        insert: more stages, each with the place where it goes
        configure: by the name of a stage: options to change
        remove: the names of stages to leave out
    """

    stages: list[Any] = []
    extends: str = ""
    replace: dict[str, Any] = {}
    insert: list[Insertion] = []
    configure: dict[str, Any] = {}
    remove: list[str] = []


KEYS = PipelineKeys.__struct_fields__
EDITS = KEYS[2:]
# What has one of these is never a pipeline, and imports nothing.
SUITE_KEYS = frozenset((*CASES_KEYS, *MESSAGES_KEYS, "prompts", "turns"))


DEFAULT_PIPELINE = "spec"
_SHIPPED = os.path.dirname(__file__)
_MOST_FILES = 20  # that extend each other
_A_SUITE = "this is a suite, not a pipeline; multiturn convert takes it"


def pipeline_names() -> list[str]:
    """Return the names of the pipelines that ship with multiturn."""
    return names_in(_SHIPPED, ".yaml")


def is_pipeline(path: str) -> bool:
    """Return whether a path is a pipeline's: its name, or a file with nearly its keys, no cases."""
    from difflib import get_close_matches

    if path in pipeline_names():
        return True
    check_path(path)
    if not os.path.isfile(path) or is_json_lines(path):
        return False
    try:
        data = _read(path)
        if re.search(rb"(?m)^(evalcases|tests|input_messages):", data):  # as most suites: quickly
            return False
        first = next(read_documents(data, path), None)
    except MultiturnError:  # whoever reads it as a suite says so
        return False
    keys = set() if first is None else first.members.keys()
    # One letter may be wrong; errors.nearest would take "targets" for "stages".
    is_near = (get_close_matches(key, KEYS[:2], cutoff=0.85) for key in keys)
    return not keys & SUITE_KEYS and any(is_near)


def read_pipeline(source: StrPath, depth: int = 0) -> Pipeline:
    """Return a pipeline by its name, or from a YAML file, which may import modules."""
    if not isinstance(source, str | os.PathLike):
        raise TypeError(f"load_pipeline takes a name or a path, not {source!r}")
    names, path = pipeline_names(), os.fspath(source)
    if source in names:
        with open(os.path.join(_SHIPPED, f"{path}.yaml"), "rb") as file:
            return _PipelineFile(path, _SHIPPED, depth).read(file.read())
    check_path(path)
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        near = errors.nearest(os.path.basename(path), names)
        hint = f'did you mean "{near}"?' if near else f"choose from: {', '.join(names)}, or a file"
        if not near and path.endswith((".yaml", ".yml")):
            hint = "there is no such file"
        raise InputError(f"no pipeline {path!r}; {hint}") from None
    if depth > _MOST_FILES:
        what = f"over {_MOST_FILES} pipelines that extend each other"
        raise InputError(f"{what}; end the circle, if they form one")
    folder = os.path.dirname(os.path.realpath(path))
    return _PipelineFile(path, folder, depth).read(_read(path))


def _read(path: str) -> bytes:
    return read_small(path, path, "a pipeline file", 1_000_000)


class _Entry(Step, frozen=True):
    """A step, and where it is written: the stage by the name "", its options by theirs."""

    nodes: Mapping[str, Node] = {}


class _PipelineFile:
    """One pipeline file on its way to a Pipeline."""

    def __init__(self, name: str, folder: str, depth: int) -> None:
        self.name = name
        self.folder = folder  # where its modules may be
        self.depth = depth  # how many files extend each other before it
        self.entries: list[_Entry] = []
        self.errors: list[ErrorDetail] = []
        self.advice = ""
        self.places: dict[tuple[str, str], Place] = {}

    @contextmanager
    def collect(self, where: Place) -> Iterator[None]:
        """Keep the errors of a place, or of what they name in it, and go on."""
        try:
            yield
        except PipelineError as error:
            self.advice = "" if self.errors else error.advice
            for each in error.errors:
                nodes = {} if each.step is None else self.entries[each.step].nodes
                node = nodes.get(each.option or "") or nodes.get("")
                self.add(each.what, each.where, node.place(self.name) if node else where)
        except MultiturnError as error:
            self.add(error.what, error.where, where)

    def add(self, what: str, *places: Place) -> None:
        """Keep an error, at the first place that is one."""
        self.errors.append(ErrorDetail(what, where=next(filter(any, places), Place())))

    def read(self, source: str | bytes) -> Pipeline:
        with self.collect(Place(self.name)):
            top = self.checked(source)
            keys = top.members
            base = keys.get("extends")
            stages = [] if base else keys["stages"].children
            self.entries = self.extended(base) if base else [*map(self.entry, stages)]
            for key in EDITS:
                edit: Callable[[Any, Node], None] = getattr(self, key)
                children = keys[key].children if key in keys else ()
                items = children.items() if isinstance(children, dict) else enumerate(children)
                for name, node in items:
                    with self.collect(node.key_place(self.name)):
                        edit(name, node)
            with self.collect((base or top).place(self.name)):
                pipeline = Pipeline(self.entries, name=self.name)
            if not self.errors:
                for entry in self.entries:
                    for option, node in entry.nodes.items():
                        place = Place(self.name, node.key_place(self.name).line)
                        self.places[entry.name, option] = place
                pipeline.places = self.places
                return pipeline
        raise PipelineError(self.errors, self.advice)

    def checked(self, source: str | bytes) -> Node:
        """Return the one mapping of the file, its keys checked for what can be in them."""
        documents = list(read_documents(source, self.name))
        keys = documents[0].children if documents else None
        if isinstance(keys, dict) and not SUITE_KEYS.isdisjoint(keys):
            raise InputError(_A_SUITE, where=documents[0].place(self.name))
        if len(documents) != 1 or not isinstance(keys, dict):
            raise InputError('a pipeline is one mapping, with "stages" or "extends"')
        (top,) = documents
        for key, node in keys.items():
            if key not in KEYS:
                what = f'unknown key "{key}"; {errors.did_you_mean(key, KEYS)}'
                self.add(what, node.key_place(self.name))
            elif key in EDITS and "extends" not in keys:
                self.add(f'"{key}" edits a pipeline that "extends" another', node.place(self.name))
            elif node.value == []:
                self.add(f'"{key}" must be a list with at least one entry', node.place(self.name))
        if ("stages" in keys) == ("extends" in keys):
            what = 'a pipeline has either "stages" or "extends"'
            raise InputError(what, where=top.place(self.name))
        read_as(top, PipelineKeys, where=self.name)
        return top

    def entry(self, node: Node) -> _Entry:
        """Read ``name``, or ``name: {option: value}``."""
        name, options = node.value, None
        if isinstance(name, dict) and len(name) == 1:
            ((name, options),) = node.children.items()
        nodes = {} if options is None or options.is_null else options.children
        with self.collect(node.place(self.name)):
            if not isinstance(name, str):
                raise InputError("a stage is its name, or its name with a mapping of options")
            if not isinstance(nodes, dict):
                where = (options or node).place(self.name)
                raise InputError("options must be a mapping", where=where)
            stage = find_stage(name, self.folder)
            values = {key: child.value for key, child in nodes.items()}
            return _Entry(stage, values, {"": node, **nodes})
        return _Entry(_stand_in(str(name)), {}, {"": node})

    def extended(self, node: Node) -> list[_Entry]:
        """Return the entries of the pipeline that this one extends."""
        with self.collect(node.place(self.name)):
            is_file = node.value not in pipeline_names()
            base = os.path.join(os.path.dirname(self.name), node.value) if is_file else node.value
            pipeline, here = read_pipeline(base, self.depth + 1), Place(self.name, node.line)
            self.places |= {key: p if is_file else here for key, p in pipeline.places.items()}
            return [_Entry(step.stage, step.options) for step in pipeline.steps]
        raise PipelineError([])  # an edit of nothing would only add to the errors

    def replace(self, name: str, node: Node) -> None:
        self.entries[position(self.entries, name)] = self.entry(node)

    def insert(self, _: Any, node: Node) -> None:
        keys = node.children
        beside = keys.get("after") or keys.get("before") or node
        with self.collect(beside.place(self.name)):
            at = insertion(self.entries, node.value.get("after"), node.value.get("before"))
            self.entries.insert(at, self.entry(keys["stage"]))

    def configure(self, name: str, node: Node) -> None:
        at = position(self.entries, name)
        if not isinstance(node.children, dict):
            raise InputError(f'the options of "{name}" must be a mapping')
        old = self.entries[at]
        options = {**old.options, **node.value}
        self.entries[at] = _Entry(old.stage, options, {**old.nodes, **node.children})

    def remove(self, _: Any, node: Node) -> None:
        del self.entries[position(self.entries, node.value)]


def _stand_in(name: str) -> Stage:
    """Return a stage to use where one cannot be found, so that the others are checked, too."""

    def stand_in(conversion: Conversion) -> Conversion:
        return conversion

    stand_in.__name__ = name.rpartition(":")[2]
    return stand_in
