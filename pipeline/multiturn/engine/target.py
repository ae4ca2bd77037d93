"""The target that a project, or whoever calls, has chosen."""

from collections.abc import Mapping
from typing import Any

from multiturn.engine.project import from_project
from multiturn.model.turns import kind_of
from multiturn.providers.base import TargetProvider
from multiturn.providers.targets import DEFAULT, find_target


def load_target(
    name: str | Mapping[str, Any] | None = None, *, file: str | None = None, sends: bool = True
) -> TargetProvider:
    """Return the provider of a target.

    Args:
        name: of the target; by default that of the project's ``multiturn.toml`` or
            ``pyproject.toml``, else ``echo``, which sends nothing and needs no file. Or what a file
            says of a target, as a mapping; its own ``name`` is then optional.
        file: the targets file; by default the nearest ``targets.yaml`` or
            ``.agentv/targets.yaml``, from the current folder up to the one with ``.git``; never
            from a suite's folder, because it can start programs, and says where keys go.
        sends: False for a provider that only shows what it would send, whose key and address may
            be variables that are not set.

    Raises:
        MultiturnError: there is no such target, its settings or the project's defaults are wrong,
            or a variable that it uses is not set.
    """
    if not isinstance(name, str | Mapping | None):
        raise TypeError(f"load_target takes the name of a target, not {kind_of(name)}")
    with from_project(target=name, default_system=None) as project:
        chosen = DEFAULT if project.target is None else project.target
        provider = find_target(chosen, file=file, sends=sends)
    provider.default_system = project.default_system
    return provider
