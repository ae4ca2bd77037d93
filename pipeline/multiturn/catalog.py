"""The stages that can be named: in a pipeline file, a name is all there is."""

import pkgutil
from functools import cache
from importlib import import_module
from typing import cast

import multiturn_stages
from multiturn.contract import Stage, contract_of


@cache
def stage_names() -> tuple[str, ...]:
    """Return the names of the stages that ship with multiturn, in alphabetical order."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(multiturn_stages.__path__)))


def find_stage(name: str) -> Stage | None:
    """Return the stage of that name, or None; only a known name is ever imported.

    >>> find_stage("embed_files").__name__
    'embed_files'
    >>> find_stage("os")
    """
    if name not in stage_names():
        return None
    return cast("Stage", getattr(import_module(f"multiturn_stages.{name}"), name))


def provider_of(fact: str) -> str | None:
    """Return the name of a stage that provides a fact."""
    for name in stage_names():
        stage = find_stage(name)
        contract = contract_of(stage) if stage else None
        if contract and fact in contract.provides:
            return name
    return None
