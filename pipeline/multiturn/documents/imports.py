"""Import paths, ``module:name``, by which pipeline files and targets files name code."""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from multiturn.errors import InputError, did_you_mean, from_here, line_in
from multiturn.files.paths import StrPath

IMPORT_PATH = r"^[^\s:]+:[^\s:]+$"


def import_path(path: str, folder: str, *, kind: str, is_kind: Callable[[Any], bool]) -> Any:
    """Return what an import path, ``module:name``, names; it may be of another kind.

    Args:
        folder: where the module may be, in addition to Python's own places.
        kind: what the file wants, such as ``stage``, for errors.
        is_kind: tells whether a value is of that kind.
    """
    name, _, member = path.partition(":")
    if not all(part.isidentifier() for part in [*name.split("."), member]):
        raise InputError(f"{path!r} is not an import path; write module:name")
    if folder not in sys.path:
        sys.path.append(folder)  # last, so that nothing of Python's is hidden by it
    module = load(path, lambda: import_module(name), folder)
    if not hasattr(module, member):
        known = [each for each, value in vars(module).items() if is_kind(value)]
        raise InputError(f'no {kind} "{member}" in {name}; {did_you_mean(member, known)}')
    return getattr(module, member)


def load(name: str, import_it: Callable[[], Any], folder: str | None = None) -> Any:
    """Return what a function imports; ``name`` and ``folder`` are for the error."""
    try:
        return import_it()
    except (Exception, SystemExit) as error:  # whatever a module does when it is imported
        ending = f"{os.sep}{name.partition(':')[0].replace('.', os.sep)}.py"
        place = line_in(error, lambda file: file.endswith(ending))
        what = f"cannot import {name!r}{place}: {type(error).__name__}: {error}"
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if folder and missing and f"{name.partition(':')[0]}.".startswith(f"{missing}."):
            what += f"; looked in {from_here(folder)}/ and where Python looks"
        raise InputError(what) from error


def is_foreign(path: StrPath) -> bool:
    """Return whether a file, or the link that leads to it, belongs to another user."""
    if not hasattr(os, "getuid"):
        return False
    return {os.stat(path).st_uid, os.lstat(path).st_uid} != {os.getuid()}
