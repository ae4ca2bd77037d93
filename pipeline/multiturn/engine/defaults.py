"""Defaults of a project: what commands and tests use where nothing else is said."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, ValidationError, convert, structs

from multiturn.documents.imports import is_foreign
from multiturn.documents.input import open_regular, read_at_most
from multiturn.documents.validation import must_be
from multiturn.errors import MultiturnError, cut, did_you_mean, quoted
from multiturn.pipelines.pipeline_file import pipeline_names

_OWN = "multiturn.toml"
_SHARED = "pyproject.toml"
_MOST_BYTES = 1_000_000
# How our table begins, in a file that is not parsed: it may be another user's. The possessive "*+"
# takes no time for a megabyte of blanks.
_TABLE = rb"""(?m)tool["'\s]*+\.["'\s]*+multiturn|^[ \t]*+\[*+[ \t]*+["']?tool["']?[ \t]*+[\]=]"""


class Defaults(Struct, frozen=True):
    """What ``multiturn.toml``, or ``[tool.multiturn]`` of ``pyproject.toml``, says."""

    pipeline: str | None = None  # a name or a path
    root: str | None = None  # attached files are read inside it only
    suites: tuple[str, ...] = ()  # files or folders
    snapshots: str | None = None  # the folder of the snapshots
    inline_snapshots: bool = False  # snapshots repeat the texts of files
    snapshot_target: str | None = None  # the target whose prompts snapshots record, too
    target: str | None = None  # the name of a target


def find_defaults(folder: Path | None = None) -> tuple[Defaults, str]:
    """Return the nearest defaults, from a folder up to the one with ``.git``, and their file.

    Paths are relative to the file, and returned relative to the current folder. In one folder,
    ``multiturn.toml`` wins. Without a file, there are no defaults and its name is empty.

    Raises:
        MultiturnError: the file is another user's, or not as it should be.
    """
    try:
        start = folder or Path.cwd()
    except FileNotFoundError:
        raise MultiturnError("the current folder was removed; enter another") from None
    for above in (start, *start.parents):
        for path in (above / _OWN, above / _SHARED):
            values = _values(path)
            if values is not None:
                return _read(values, path), os.path.relpath(path)
        if (above / ".git").exists():
            break
    return Defaults(), ""


def named_in(what: str, file: str, values: Mapping[str, Any]) -> str:
    """Return what an error's text ends with: which defaults of a file it names, if any."""
    named = [
        name
        for name, value in values.items()
        if any(repr(each) in what for each in (value if isinstance(value, tuple) else (value,)))
    ]
    return f" ({file} sets {', '.join(named)})" if named else ""


def _values(path: Path) -> dict[str, Any] | None:
    """Return what a file says of multiturn; None if it says nothing, or is not there."""
    name = os.path.relpath(path)
    try:
        if path.name == _OWN:  # a pyproject.toml is refused only if it is about multiturn
            _refuse_foreign(path, name)
        with open_regular(path, name) as file:
            data = read_at_most(_MOST_BYTES, file, name, "defaults")
        if path.name == _SHARED:
            if b"multiturn" not in data:
                return None
            if is_foreign(path) and not re.search(_TABLE, data):  # a dependency, say
                return None
            _refuse_foreign(path, name)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MultiturnError(f"cannot read it: {error.strerror}", where=name) from None
    document = _document(data, name)
    return document if path.name == _OWN else _table(document, name)


def _refuse_foreign(path: Path, name: str) -> None:
    if is_foreign(path):
        what = "another user owns this file, and its pipeline could run programs; make it yours"
        raise MultiturnError(f"{what} (chown), or put a {_OWN} of your own nearer", where=name)


def _document(data: bytes, name: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(data.decode())
    except UnicodeDecodeError:
        raise MultiturnError("it is not UTF-8", where=name) from None
    except RecursionError:
        raise MultiturnError("not TOML: it is nested too deep", where=name) from None
    except ValueError as error:  # also a number that Python refuses
        raise MultiturnError(f"not TOML: {error}", where=name) from None


def _table(document: dict[str, Any], name: str) -> dict[str, Any] | None:
    """Return the table ``tool.multiturn`` of a pyproject.toml; None if there is none."""
    table: Any = document
    for key in ("tool", "multiturn"):
        table = table.get(key)
        if table is None:
            return None
        if not isinstance(table, dict):
            what = f'{key} must be a table, as in [tool.multiturn] and pipeline = "spec" below it'
            raise MultiturnError(what, where=name)
    found: dict[str, Any] = table
    return found


def _read(values: dict[str, Any], path: Path) -> Defaults:
    known, name = Defaults.__struct_fields__, os.path.relpath(path)
    for key in values.keys() - set(known):
        raise MultiturnError(f'unknown key "{cut(key)}"; {did_you_mean(key, known)}', where=name)
    try:
        read = convert(values, Defaults)
    except ValidationError as error:
        expected, got, key = re.findall("`(.*?)`", str(error))
        what = f"{key.removeprefix('$.')} {must_be(expected, got)}"
        raise MultiturnError(what, where=name) from None

    def from_here(written: str | None) -> str | None:
        if written is None:
            return None
        if "\0" in written:
            raise MultiturnError(f"no path can be {quoted(written)}", where=name)
        return os.path.relpath(path.parent / written)

    return structs.replace(
        read,
        suites=tuple(map(from_here, read.suites)),
        root=from_here(read.root),
        snapshots=from_here(read.snapshots),
        pipeline=read.pipeline if read.pipeline in pipeline_names() else from_here(read.pipeline),
    )
