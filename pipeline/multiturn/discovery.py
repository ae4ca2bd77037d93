"""Finding the suites that a command line names."""

import os
from collections.abc import Iterable, Iterator

from multiturn.errors import MultiturnError


def find_suites(paths: Iterable[str]) -> Iterator[str]:
    """Yield the suites that paths name, each once.

    Args:
        paths: files, ``-``, or folders: all ``*.eval.yaml``, ``*.eval.yml`` and
            ``*.eval.jsonl`` below, sorted.

    Raises:
        MultiturnError: there is nothing at a path, or no suite below a folder.
    """

    def refuse(error: OSError) -> None:
        raise MultiturnError(f"cannot read the folder {error.filename!r}: {error.strerror}")

    seen: set[str] = set()
    for path in paths:
        if path != "-" and not os.path.exists(path):
            raise MultiturnError(f"there is no suite {path!r}")
        if not os.path.isdir(path):
            yield from _unseen([path], seen)
            continue
        found = [
            os.path.normpath(os.path.join(folder, name))
            for folder, _, names in os.walk(path, onerror=refuse)
            for name in names
            if name.endswith((".eval.yaml", ".eval.yml", ".eval.jsonl"))
        ]
        if not found:
            raise MultiturnError(
                f"there is no *.eval.yaml, *.eval.yml or *.eval.jsonl below {path!r}"
            )
        yield from _unseen(sorted(found), seen)


def _unseen(paths: list[str], seen: set[str]) -> Iterator[str]:
    for path in paths:
        real = os.path.realpath(path)
        if real not in seen:
            seen.add(real)
            yield path
