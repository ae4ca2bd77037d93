"""Defaults of a project: what commands, tests and Python use where nothing else is said."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, structs

from multiturn.documents.imports import is_foreign
from multiturn.documents.input import open_regular, read_at_most
from multiturn.documents.json_lines import node_of
from multiturn.documents.node import Mark
from multiturn.documents.validation import read_as
from multiturn.engine.converting import read_cases, sampled
from multiturn.engine.selection import Selection, select
from multiturn.errors import InputError, MultiturnError, Place, quoted
from multiturn.files.paths import StrPath, above
from multiturn.model.case import Case
from multiturn.model.conversion import Conversion
from multiturn.pipelines.pipeline import Pipeline
from multiturn.pipelines.pipeline_file import DEFAULT_PIPELINE, pipeline_names, read_pipeline
from multiturn.text import first_of

if TYPE_CHECKING:
    from multiturn.providers.base import TargetProvider

_OWN = "multiturn.toml"
_SHARED = "pyproject.toml"
_MOST_BYTES = 1_000_000
# How our table begins, in a file that is not parsed: it may be another user's. The possessive "*+"
# takes no time for a megabyte of blanks.
_TABLE = rb"""(?m)tool["'\s]*+\.["'\s]*+multiturn|^[ \t]*+\[*+[ \t]*+["']?tool["']?[ \t]*+[\]=]"""


class Mask(Struct, frozen=True, rename={"name": "as"}, forbid_unknown_fields=True):
    """What changes from run to run in captured requests."""

    pattern: str  # a regular expression
    name: str  # what is written in braces in its place; the key ``as`` in a file


class Defaults(Struct, frozen=True, forbid_unknown_fields=True):
    """What ``multiturn.toml``, or ``[tool.multiturn]`` of ``pyproject.toml``, says."""

    pipeline: str | None = None  # a name or a path
    root: str | None = None  # attached files are read inside it only
    suites: tuple[str, ...] = ()  # files or folders
    snapshots: str | None = None  # the folder of the snapshots
    allow_hidden_characters: tuple[str, ...] = ()  # files and folders where they are meant
    inline_snapshots: bool = False  # snapshots repeat the texts of files
    snapshot_target: str | None = None  # the target whose prompts snapshots record, too
    target: str | None = None  # the name of a target
    default_system: Literal["send", "omit"] | None = None  # of targets that do not say it
    mask: tuple[Mask, ...] = ()  # what else changes from run to run in captured requests
    max_prompt_tokens: int | None = None  # of suites that do not say it


def find_defaults(folder: StrPath | None = None) -> tuple[Defaults, str]:
    """Return the nearest defaults, from a folder up to the one with ``.git``, and their file.

    Paths are relative to the file, and returned relative to the current folder. In one folder,
    ``multiturn.toml`` wins. Without a file, there are no defaults and its name is empty. A file
    that is another user's, or not as it should be, is an error.
    """
    try:
        start = os.fspath(folder or os.getcwd())
    except FileNotFoundError:
        raise MultiturnError("the current folder was removed; enter another") from None
    for parent in above(start):
        for path in (os.path.join(parent, _OWN), os.path.join(parent, _SHARED)):
            name = os.path.relpath(path)
            try:
                values = _values(path, name)
                if values is not None:
                    return _read(values, parent), name
            except MultiturnError as error:
                error.where = Place(name)
                raise
        if os.path.exists(os.path.join(parent, ".git")):
            break
    return Defaults(), ""


def named_in(what: str, file: str, values: Mapping[str, Any]) -> str:
    """Return what an error's text ends with: which defaults of a file it names, if any."""
    named = [
        name
        for name, value in values.items()
        if value is not None
        and any(repr(each) in what for each in (value if isinstance(value, tuple) else (value,)))
    ]
    return f" ({file} sets {', '.join(named)})" if named else ""


def _values(path: str, name: str) -> dict[str, Any] | None:
    """Return what a file says of multiturn; None if it says nothing, or is not there."""
    is_shared = os.path.basename(path) == _SHARED
    try:
        with open_regular(path, name) as file:
            data = read_at_most(_MOST_BYTES, file, name, "defaults")
        if is_shared and b"multiturn" not in data:
            return None
        if is_foreign(path):
            if is_shared and not re.search(_TABLE, data):  # a dependency, say
                return None
            what = "another user owns this file, and its pipeline could run programs; make it yours"
            raise MultiturnError(f"{what} (chown), or put a {_OWN} of your own nearer")
        import tomllib

        document: Any = tomllib.loads(data.decode())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MultiturnError(f"cannot read it: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # also a number that Python refuses
        raise MultiturnError(f"not TOML: {error}") from None
    for key in ("tool", "multiturn") if is_shared else ():
        document = document.get(key)
        if document is None:
            return None
        if not isinstance(document, dict):
            what = f'{key} must be a table, as in [tool.multiturn] and pipeline = "spec" below it'
            raise MultiturnError(what)
    return dict(document)


def _read(values: dict[str, Any], folder: str) -> Defaults:
    read = read_as(node_of(values, Mark(0)), Defaults, where=_OWN)

    def from_here(written: str | None) -> str | None:
        if written is None:
            return None
        if "\0" in written:
            raise MultiturnError(f"no path can be {quoted(written)}")
        return os.path.relpath(os.path.join(folder, written))

    return structs.replace(
        read,
        suites=tuple(map(from_here, read.suites)),
        allow_hidden_characters=tuple(map(from_here, read.allow_hidden_characters)),
        root=from_here(read.root),
        snapshots=from_here(read.snapshots),
        pipeline=read.pipeline if read.pipeline in pipeline_names() else from_here(read.pipeline),
    )


def project_masks() -> list[tuple[str | re.Pattern[str], str]]:
    """Return what changes from run to run in captured requests, for ``Recording``."""
    from multiturn.capture.recording import usual_masks

    found, file = find_defaults()
    try:
        own = [(re.compile(each.pattern), each.name) for each in found.mask]
    except re.error as error:
        what = f"mask: {quoted(str(error.pattern))} is not a regular expression: {error}"
        raise InputError(what, where=file) from None
    return [*own, *usual_masks(date.today())]


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


def load_pipeline(source: StrPath | None = None) -> Pipeline:
    """Load a pipeline by its name, or from a YAML file.

    A file, also that of the project, may name functions by import path; their modules are imported,
    also from the folder of the file.

    Args:
        source: the name of a pipeline that ships with multiturn, or a path; by default that of
            the project's ``multiturn.toml`` or ``pyproject.toml``, else ``spec``.

    Raises:
        PipelineError: the file does not declare a pipeline; with all errors that were found.
        MultiturnError: there is no such pipeline, or its file, or the project's, cannot be used.

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
    *suites: StrPath,
    case: str | Iterable[str] = (),
    sample: int | None = None,
    seed: int = 1,
    root: StrPath | None = None,
    guideline_patterns: Iterable[str] | None = None,
    on_error: Callable[[MultiturnError], object] | None = None,
) -> Iterator[Case]:
    """Find suites, and return an iterator over their cases, which reads each when it comes to it.

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
        on_error: called with each error of a suite or a case; without it, the first is raised.

    Raises:
        TypeError: no suite is given, and the project has none.
        ValueError: ``sample`` is below 1.
        MultiturnError: there is no such suite or root, or a pattern is not one. The iterator
            raises it for a suite or a case, with its place, and at the end for an unknown id.
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
    if not project.suites:
        function = example.partition("(")[0]
        raise TypeError(f"{function} needs a suite; write {example}, or suites in multiturn.toml")
    paths = (os.fspath(each) if isinstance(each, os.PathLike) else each for each in project.suites)
    return tuple(map(str, paths))


def _cases(
    selection: Selection, on_error: Callable[[MultiturnError], object] | None
) -> Iterator[Case]:
    for each in read_cases(selection):
        if each.error is not None:
            if on_error is None:
                raise each.error
            on_error(each.error)
        elif each.case is not None:
            yield each.case


class PromptLimit:
    """Finds prompts over ``max_prompt_tokens``; without a provider, tokens are estimated."""

    def __init__(self, provider: "TargetProvider | None") -> None:
        self._most = find_defaults()[0].max_prompt_tokens
        self._provider = provider
        self._count = lru_cache(256)(lambda text: self._target.tokenizer.count(text))

    @cached_property
    def _target(self) -> "TargetProvider":
        from multiturn.engine.target import load_target  # most suites have no limit

        return self._provider or load_target("echo", sends=False)

    def error_of(self, conversion: Conversion) -> InputError | None:
        """Return the error of a prompt that is too long, with its largest parts."""
        case = conversion.case
        most = case.max_prompt_tokens or self._most
        if most is None:
            return None
        from multiturn.explaining.explanation import size_of

        tokens, parts = size_of(conversion, self._target, self._count)
        if tokens.count <= most:
            return None
        about, where = "" if tokens.is_exact else "about ", case.where()
        named = first_of([f"{number:,} in {part}" for part, number in parts.items()])
        # The numbers are in the label: the words are the same for many cases, and printed once.
        where = where._replace(label=f"{where.label}: {about}{tokens.count:,} tokens, {named}")
        what = f"max_prompt_tokens is {most:,}; shorten the prompt, or allow more"
        return InputError(what, where=where, case_id=case.id)
