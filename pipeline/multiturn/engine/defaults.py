"""Defaults of a project: what commands and tests use where nothing else is said."""

import os
import re
from pathlib import Path
from typing import Any

from msgspec import Struct, ValidationError, convert, structs

from multiturn.documents.imports import is_foreign
from multiturn.documents.validation import must_be
from multiturn.errors import MultiturnError, did_you_mean
from multiturn.pipelines.pipeline_file import pipeline_names

_OWN = "multiturn.toml"
_SHARED = "pyproject.toml"


class Defaults(Struct, frozen=True):
    """What ``multiturn.toml``, or ``[tool.multiturn]`` of ``pyproject.toml``, says."""

    pipeline: str | None = None  # a name or a path
    root: str | None = None  # attached files are read inside it only
    suites: tuple[str, ...] = ()  # files or folders
    snapshots: str | None = None  # the folder of the snapshots
    inline_snapshots: bool = False  # snapshots repeat the texts of files
    target: str | None = None  # the name of a target


def find_defaults(folder: Path | None = None) -> tuple[Defaults, str]:
    """Return the nearest defaults, from a folder up to the one with ``.git``, and their file.

    Paths are relative to the file, and returned relative to the current folder. In one folder,
    ``multiturn.toml`` wins. Without a file, there are no defaults and its name is empty.

    Raises:
        MultiturnError: the file is another user's, or not as it should be.
    """
    start = folder or Path.cwd()
    for above in (start, *start.parents):
        for path in (above / _OWN, above / _SHARED):
            values = _values(path)
            if values is not None:
                return _read(values, path), os.path.relpath(path)
        if (above / ".git").exists():
            break
    return Defaults(), ""


def _values(path: Path) -> dict[str, Any] | None:
    """Return what a file says of multiturn; None if it says nothing, or is not there."""
    name = os.path.relpath(path)
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MultiturnError(f"cannot read it: {error.strerror}", where=name) from None
    if path.name == _SHARED and b"multiturn" not in text:
        return None
    import tomllib

    try:
        document = tomllib.loads(text.decode())
    except UnicodeDecodeError:
        raise MultiturnError("it is not UTF-8", where=name) from None
    except tomllib.TOMLDecodeError as error:
        raise MultiturnError(f"not TOML: {error}", where=name) from None
    values: dict[str, Any] | None = document
    if path.name == _SHARED:
        values = document.get("tool", {}).get("multiturn")
    if values is not None and is_foreign(path):
        what = "another user owns this file, and its pipeline could run programs; say what you"
        raise MultiturnError(f"{what} want by options", where=name)
    return values


def _read(values: dict[str, Any], path: Path) -> Defaults:
    known, name = Defaults.__struct_fields__, os.path.relpath(path)
    for key in values.keys() - set(known):
        raise MultiturnError(f'unknown key "{key}"; {did_you_mean(key, known)}', where=name)
    try:
        read = convert(values, Defaults)
    except ValidationError as error:
        expected, got, key = re.findall("`(.*?)`", str(error))
        what = f"{key.removeprefix('$.')} {must_be(expected, got)}"
        raise MultiturnError(what, where=name) from None

    def from_here(written: str | None) -> str | None:
        return None if written is None else os.path.relpath(path.parent / written)

    return structs.replace(
        read,
        suites=tuple(map(from_here, read.suites)),
        root=from_here(read.root),
        snapshots=from_here(read.snapshots),
        pipeline=read.pipeline if read.pipeline in pipeline_names() else from_here(read.pipeline),
    )
