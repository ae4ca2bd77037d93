"""Walking folders: the files that a glob of a suite names, and the suites below a folder."""

import os
import re
from collections.abc import Iterator
from functools import cache

from multiturn.errors import MultiturnError, quoted
from multiturn.files.finding import outside_root
from multiturn.files.paths import is_below, real_path
from multiturn.suites.patterns import guideline_matcher

MAX_GLOBS = 100  # of a suite; each is matched against each file

_GLOB = re.compile(r"[*?\[]|\{[^{}]*,")


def files_below(top: str, *, depth: int | None = None) -> Iterator[str]:
    """Yield the path of each file below a folder, except in hidden folders and ``node_modules``.

    Links to folders are not followed. With a ``depth``, neither are folders that many levels below.

    Raises:
        MultiturnError: a folder cannot be read.
    """

    def refuse(error: OSError) -> None:
        raise MultiturnError(f"cannot read the folder {error.filename!r}: {error.strerror}")

    levels = top.count(os.sep)
    for folder, folders, names in os.walk(top, onerror=refuse):
        if depth is not None and folder.count(os.sep) - levels >= depth:
            folders.clear()
        folders[:] = [name for name in folders if name[0] != "." and name != "node_modules"]
        yield from (os.path.join(folder, name) for name in names)


class Globs:
    """The globs by which one suite names files of cases below its folder."""

    def __init__(self, folder: str, root: str) -> None:
        self._folder = folder
        self._root = root
        self._left = MAX_GLOBS
        self._below = cache(self._files_below)

    @staticmethod
    def is_glob(written: str) -> bool:
        """Return whether a path has wildcards, or alternatives in braces."""
        return _GLOB.search(written) is not None

    def files(self, written: str) -> list[str]:
        """Return the paths of the files that a glob names, from the suite's folder; sorted.

        Raises:
            MultiturnError: not a glob, or the suite has too many.
            OutsideRootError: it leads outside the root.
        """
        self._left -= 1
        if self._left < 0:
            raise MultiturnError(f"over {MAX_GLOBS} globs in one suite; name a folder's files by *")
        if written.startswith("/") or ".." in written.split("/"):
            raise MultiturnError(f"{quoted(written)} must stay below the suite's folder")
        matches = guideline_matcher((written,), called="the glob")
        names = [name for name in written.split("/") if name not in ("", ".")]
        named = next(n for n, name in enumerate(names) if re.search(r"[*?\[{]", name))
        depth = None if "**" in names else len(names) - named - 1
        found = self._below("/".join(names[:named]), depth)
        return sorted(path for path in found if matches(path))

    def _files_below(self, named: str, depth: int | None) -> list[str]:
        """Return the paths of all files below a folder, which itself may be a link."""
        try:
            top = real_path(os.path.join(self._folder, named))
        except ValueError:  # no path has a NUL
            return []
        if not is_below(top, self._root):
            raise outside_root(named, self._root)
        if not os.path.isdir(top):
            return []
        found = (os.path.relpath(path, top) for path in files_below(top, depth=depth))
        return [os.path.join(named, path).replace(os.sep, "/") for path in found]
