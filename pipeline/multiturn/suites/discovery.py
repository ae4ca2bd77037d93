"""Finding the suites that a command line names."""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from multiturn.documents.json_lines import is_json_lines
from multiturn.errors import InputError, MultiturnError, OutsideRootError, Place, nearest
from multiturn.files.paths import hint_at, is_below, real_path, root_of
from multiturn.logs import Notice, warn
from multiturn.suites.case_files import files_below
from multiturn.suites.keys import CASES
from multiturn.suites.suite_reader import files_of_cases

CAPTURED = ".requests.jsonl"  # how files of captured requests end
_EXTENSIONS = (".eval.yaml", ".eval.yml", ".eval.json", ".eval.jsonl", CAPTURED)
_SOME = 2**18  # bytes, and those to the end of the line, if that is not longer
# A quick look at what may name a file of cases, in linear time.
_CASES_FILE = (
    rb"""(?m)^(?:(?:%s):|[ \t]*-)[ \t]+["'\[]*+[^\s"']+\.(?:ya?ml|jsonl?)\b"""
    % "|".join(CASES).encode()
)


def find_suites(
    paths: Iterable[str], missing: dict[str, MultiturnError] | None = None
) -> Iterator[str]:
    """Yield the suites that paths name, each once; those below a folder are sorted.

    A path where nothing is, or a folder without a suite, is an error; ``missing`` gets it instead,
    if given.
    """
    seen: set[str] = set()
    for path in paths:
        if os.path.isdir(path):
            suites = _suites_below(path)
        else:
            suites = [path] if path == "-" or os.path.exists(path) else []
        if not suites:
            error = InputError(_nothing_at(path))
            if missing is None:
                raise error
            missing[path] = error
        for suite in suites:
            real = real_path(suite)
            if real not in seen:
                seen.add(real)
                yield suite


def _nothing_at(path: str) -> str:
    """Say that no suite is at a path, and which name in its folder is near."""
    if os.path.isdir(path):
        return f"there is no *.eval.yaml, *.eval.yml, *.eval.json or *.eval.jsonl below {path!r}"
    folder, name = os.path.split(path)
    near = None
    with suppress(OSError, ValueError):
        near = nearest(name, os.listdir(folder or "."))
    hint = hint_at(os.path.join(folder, near), path) if near else ""
    if os.path.islink(path):
        hint = "; the link leads nowhere: correct it"
    return f"there is no suite {path!r}{hint}"


def _suites_below(top: str) -> list[str]:
    """Return the suites below a folder, except files of cases that one of them names."""
    found = (path for path in files_below(top) if path.lower().endswith(_EXTENSIONS))
    suites = []
    for suite in sorted(map(os.path.normpath, found)):
        if os.path.isfile(suite) or not os.path.exists(suite):
            suites.append(suite)
        else:
            why = "this is not a regular file, and is skipped; to read it, name it"
            warn(Notice("suite.skipped", Place(suite), why))
    if len(suites) < 2:
        return suites
    named = {real for suite in suites for real in _named_in(suite)}
    return [suite for suite in suites if os.path.realpath(suite) not in named]


def _named_in(suite: str) -> Iterator[str]:
    """Yield the real path of each file of cases that a suite names."""
    if is_json_lines(suite):
        return
    with suppress(OSError), open(suite, "rb") as file:  # whoever reads it says so
        parts = iter(lambda: file.read(_SOME) + file.readline(_SOME), b"")
        if any(re.search(_CASES_FILE, part) for part in parts):
            yield from files_of_cases(suite)


def stay_inside(suite: str, root: str | None) -> None:
    """Refuse a link to a suite outside a root, which is that of the link's folder by default."""
    if not os.path.islink(suite):
        return
    top = real_path(root or root_of(os.path.dirname(suite)))
    if not is_below(real_path(suite), top):
        what = f"it leads outside {top!r}; name the file itself, if that is meant"
        raise OutsideRootError(what, where=suite)
