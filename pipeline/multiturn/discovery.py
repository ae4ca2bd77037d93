"""Finding the suites that a command line names."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from multiturn.errors import MultiturnError
from multiturn.suite import find_root


def find_suites(paths: Iterable[str], *, may_be_gone: bool = False) -> Iterator[str]:
    """Yield the suites that paths name, each once.

    Args:
        paths: files, ``-``, or folders: all ``*.eval.yaml``, ``*.eval.yml`` and
            ``*.eval.jsonl`` below, sorted, but for those in hidden folders and ``node_modules``.
        may_be_gone: what is not there, or empty, is no mistake.

    Raises:
        MultiturnError: there is nothing at a path, or no suite below a folder, or a link below
            one leads out of its root.
    """

    def refuse(error: OSError) -> None:
        raise MultiturnError(f"cannot read the folder {error.filename!r}: {error.strerror}")

    seen: set[str] = set()
    for path in paths:
        if path != "-" and not os.path.exists(path):
            if may_be_gone:
                continue
            raise MultiturnError(f"there is no suite {path!r}")
        if not os.path.isdir(path):
            yield from _unseen([path], seen)
            continue
        found = []
        for folder, folders, names in os.walk(path, onerror=refuse):
            folders[:] = [name for name in folders if name[0] != "." and name != "node_modules"]
            found += [
                os.path.normpath(os.path.join(folder, name))
                for name in names
                if name.endswith((".eval.yaml", ".eval.yml", ".eval.jsonl"))
            ]
        for suite in filter(os.path.islink, found):
            _stay_inside(suite, path)
        if not found and not may_be_gone:
            raise MultiturnError(
                f"there is no *.eval.yaml, *.eval.yml or *.eval.jsonl below {path!r}"
            )
        yield from _unseen(sorted(found), seen)


def _stay_inside(suite: str, folder: str) -> None:
    """Make sure that a link leads to no suite whose attached files are elsewhere, too."""
    root = find_root(Path(os.path.realpath(folder)))
    if not Path(os.path.realpath(suite)).is_relative_to(root):
        what = f"it leads outside {str(root)!r}; name the file itself, if that is meant"
        raise MultiturnError(what, where=suite)


def _unseen(paths: list[str], seen: set[str]) -> Iterator[str]:
    for path in paths:
        real = os.path.realpath(path)
        if real not in seen:
            seen.add(real)
            yield path
