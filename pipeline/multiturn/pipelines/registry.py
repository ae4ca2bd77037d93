"""The stages that can be named: those that ship, those of installed packages, and import paths."""

import os
import sys
from functools import cache
from importlib import import_module
from typing import Any, cast

import multiturn_stages
from multiturn.documents.imports import import_path, load
from multiturn.errors import ErrorDetail, InputError, PipelineError, did_you_mean, nearest
from multiturn.files.paths import names_in
from multiturn.pipelines.contract import Stage, contract_of, is_declared

ENTRY_POINTS = "multiturn.stages"


@cache
def stage_names() -> tuple[str, ...]:
    """Return the names of the stages that ship with multiturn, in alphabetical order."""
    names = names_in(multiturn_stages.__path__[0], ".py")
    return tuple(name for name in names if not name.startswith("_"))


def installed_stages() -> dict[str, Any]:
    """Return the entry points by which installed packages offer stages, by name."""
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def find_stage(name: str, folder: str = "") -> Stage:
    """Return a stage that ships, or that a package offers, or that is at ``module:function``.

    The module is looked for in ``folder`` after Python's own places.
    """
    if name in stage_names():
        return cast("Stage", getattr(import_module(f"multiturn_stages.{name}"), name))
    if ":" in name:
        found = import_path(name, folder, kind="stage", is_kind=is_declared)
    else:
        installed = installed_stages()
        if name not in installed:
            names = [*stage_names(), *installed]
            hint = did_you_mean(name, names)
            if nearest(name, names) is None:
                hint += "; a function of your own is named by its import path, module:function"
            raise InputError(f'unknown stage "{name}"; {hint}')
        found = load(name, installed[name].load)
    if not is_declared(found):
        raise InputError(f"{name!r} is not a stage; a stage is a function with @stage above it")
    contract_of(found)  # raises the error of its declaration
    return cast("Stage", found)


def name_of(stage: Stage) -> str:
    """Return the name by which ``find_stage`` finds a stage; a PipelineError if it has none."""
    module, name = stage.__module__, stage.__qualname__
    if module == f"multiturn_stages.{name}":
        return name
    if module == "__main__" or not name.isidentifier() or contract_of(stage) is None:
        what = f"{name} cannot be named in a file: a stage is at the top of a module, with @stage,"
        raise PipelineError([ErrorDetail(f"{what} and not in the program itself")])
    return f"{module}:{name}"


def pickled_stage(stage: Stage) -> Any:
    """Return the stage's name and the folder of its module, for ``find_stage``.

    A stage that another process could not import is returned itself; pickling it may fail.
    """
    module = sys.modules[stage.__module__]
    is_inside = stage.__module__ == "__main__" or not stage.__qualname__.isidentifier()
    if is_inside or module.__file__ is None:
        return stage
    up = [os.pardir] * module.__name__.count(".")
    return name_of(stage), os.path.abspath(os.path.join(os.path.dirname(module.__file__), *up))


def provider_of(fact: str) -> str | None:
    """Return the name of a stage that ships and provides a fact; None if there is none."""
    return next((name for name in stage_names() if makes(find_stage(name), fact)), None)


def makes(stage: Stage, fact: str) -> bool:
    """Return whether a stage declares that it makes a fact true which was not."""
    contract = contract_of(stage)
    return contract is not None and fact in contract.provides - contract.requires
