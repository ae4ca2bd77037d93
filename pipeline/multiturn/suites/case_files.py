"""Files of cases that a suite names: by a path, a folder or a glob; in YAML, JSON Lines or CSV."""

import io
import os
import re
from collections.abc import Iterator
from functools import cache

from multiturn.documents.json_lines import node_of, read_json_lines
from multiturn.documents.node import Mark, Node, Repeats
from multiturn.errors import AccessError, InputError, MultiturnError, Place, quoted
from multiturn.files.finding import Files, outside_root
from multiturn.files.paths import is_below, real_path
from multiturn.model.case import MAX_CASE_SIZE
from multiturn.suites.guideline_patterns import guideline_matcher
from multiturn.suites.streaming import read_list

MAX_GLOBS = 100  # of a suite; each is matched against each file

_GLOB = re.compile(r"[*?\[]|\{[^{}]*,")


def files_below(top: str) -> Iterator[str]:
    """Yield the path of each file below a folder, except in hidden folders and ``node_modules``.

    Links to folders are not followed. A folder that cannot be read is an error.
    """

    def refuse(error: OSError) -> None:
        raise AccessError(f"cannot read the folder {error.filename!r}: {error.strerror}")

    for folder, folders, names in os.walk(top, onerror=refuse):
        folders[:] = [name for name in folders if name[0] != "." and name != "node_modules"]
        yield from (os.path.join(folder, name) for name in names)


class Globs:
    """The globs by which one suite names files of cases below its folder."""

    def __init__(self, folder: str, root: str) -> None:
        self._folder = folder
        self._root = root
        self._left = MAX_GLOBS
        self._below = cache(self._files_below)

    def files(self, written: str) -> list[str]:
        """Return a path, or the sorted paths of the files that a glob names, as a suite has them.

        A glob that is wrong, or that no file matches, is an error, and so is one too many.
        """
        if not _GLOB.search(written):
            return [written]
        self._left -= 1
        if self._left < 0:
            raise InputError(f"over {MAX_GLOBS} globs in one suite; name a folder's files by *")
        if written.startswith("/") or ".." in written.split("/"):
            raise InputError(f"{quoted(written)} must stay below the suite's folder")
        matches = guideline_matcher((written,), called="the glob")
        names = [name for name in written.split("/") if name not in ("", ".")]
        named = next(n for n, name in enumerate(names) if re.search(r"[*?\[{]", name))
        found = self._below("/".join(names[:named]))
        files = sorted(path for path in found if matches(path))
        if not files:
            raise InputError(f"no file of cases matches {quoted(written)}")
        return files

    def _files_below(self, named: str) -> list[str]:
        """Return the paths of all files below a folder, which itself may be a link."""
        try:
            top = real_path(os.path.join(self._folder, named))
        except ValueError:  # no path has a NUL
            return []
        if not is_below(top, self._root):
            raise outside_root(named, self._root)
        if not os.path.isdir(top):
            return []
        found = (os.path.relpath(path, top) for path in files_below(top))
        return [os.path.join(named, path).replace(os.sep, "/") for path in found]


LINES = (".jsonl", ".csv")  # a case stands on a line of these, and needs no id
_FORMATS = ("", ".yaml", ".yml", ".json", *LINES)
_CASE_FILES = ("case.yml", "case.yaml")  # of both, the second
# Of promptfoo: what is asserted of the answer, and what else does not concern the prompt.
_IRRELEVANT = ("__expected", "__metric", "__threshold", "__provider", "__metadata:", "__config:")
_KEYS = {"__prefix": "prefix", "__suffix": "suffix"}


def files_at(files: Files, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each file of cases that a path from the root means, and an id.

    In a folder, each folder has one case, whose file is case.yaml; the id is the folder's name.
    """
    top = os.path.join(files.root, path)
    if not os.path.isdir(top):
        yield path, ""
        return
    inside = [(name, file) for name in sorted(os.listdir(top)) for file in _CASE_FILES]
    found = {name: file for name, file in inside if os.path.isfile(os.path.join(top, name, file))}
    if not found:
        raise InputError(
            f"the folder {quoted(path)} has no folders with a case.yaml;"
            f" for its files, name {path}/*.yaml"
        )
    for name, file in found.items():
        yield files.find(f"/{path}/{name}/{file}"), name


def cases_in_file(
    text: str, name: str, repeats: Repeats, *, has_vars: bool
) -> Iterator[Node | MultiturnError]:
    """Yield each case of a file that has nothing else, or what is wrong with it.

    With ``has_vars``, the columns of a CSV file are variables; else, they are keys of a case.
    """
    extension = os.path.splitext(name)[1].lower()
    if extension not in _FORMATS:
        what = f"cases are read from YAML, JSON, JSON Lines and CSV, not from {extension} files"
        raise InputError(what, where=name)
    if extension == ".jsonl":
        yield from read_json_lines(io.BytesIO(text.encode()), name)
    elif extension == ".csv":
        yield from _rows(text, name, has_vars)
    else:
        yield from read_list(text.encode(), name, repeats)


def _rows(text: str, name: str, has_vars: bool) -> Iterator[Node | MultiturnError]:
    import csv

    # By default, csv refuses a field that a case may well have. The limit is that of the process.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_CASE_SIZE))
    stream = io.StringIO(text, newline="")
    reader = csv.reader(stream, strict=True)
    columns: list[str] = []
    line = 1
    try:
        for row in reader:
            if not columns:
                columns = _columns(row, name)
            elif len(row) == len(columns):
                keys = _keys(dict(zip(columns, row, strict=True)), has_vars)
                yield node_of(keys, Mark(line - 1))
            elif row:
                what = f"{len(row)} fields for {len(columns)} columns; quote a field with a comma"
                yield InputError(what, where=Place(name, line))
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"not CSV: {error}", where=Place(name, line)) from None


def _columns(row: list[str], name: str) -> list[str]:
    columns = [column.strip() for column in row]
    if "" in columns or len({*columns}) < len(columns):
        raise InputError("each column needs a name of its own", where=Place(name, 1))
    if len(columns) == 1 and re.search("[;\t]", columns[0]):
        what = "its fields are separated by semicolons or tabs; separate them by commas"
        raise InputError(what, where=Place(name, 1))
    return columns


def _keys(row: dict[str, str], has_vars: bool) -> dict[str, object]:
    """Return the keys of the case that a row means."""
    keys: dict[str, object] = {}
    options = {_KEYS[column]: text for column, text in row.items() if column in _KEYS and text}
    if options:
        keys["options"] = options
    if row.get("__description"):
        keys["description"] = row["__description"]
    others = {
        column: text
        for column, text in row.items()
        if column not in (*_KEYS, "__description") and not column.startswith(_IRRELEVANT)
    }
    if has_vars:  # of AgentV, vars.input is the variable input
        others = {column.removeprefix("vars."): text for column, text in others.items()}
        return {**keys, "vars": others, **({"id": row["id"]} if row.get("id") else {})}
    return {**keys, **{column: text for column, text in others.items() if text}}
