"""The suites that a run of ``multiturn snapshot`` covers, and the folders that contain them."""

import os
from collections.abc import Iterator

from multiturn.engine.selection import Selection, suite_names
from multiturn.errors import MultiturnError
from multiturn.files.paths import root_of
from multiturn.snapshots.locations import name_in_root

_FOLDER = "snapshots"


class Scope:
    """The suites of a run, and the folders that stand for all suites below them.

    A suite outside its root, two of one name, or of several repositories are errors.
    """

    def __init__(
        self, selection: Selection, arguments: tuple[str, ...], snapshots: str | None
    ) -> None:
        self._root, self._arguments = selection.root, arguments
        self.snapshots = snapshots or self._default_folder()
        # The path of each suite in its root, by the path that was named or found.
        self.names = suite_names(selection, lambda path: name_in_root(path, self._root_of(path)))
        # The root of each folder, and how the names of the suites below it begin.
        self.folders = list(self._folders())

    def is_removed(self, suite: str) -> bool:
        """Return whether a suite was below a folder that the command names, and no longer is."""
        beside = os.path.dirname(os.path.realpath(self.snapshots))
        if os.path.isfile(os.path.join(beside, suite)):  # of another root
            return False
        return any(
            suite.startswith(prefix) and not os.path.isfile(os.path.join(root, suite))
            for root, prefix in self.folders
        )

    def _default_folder(self) -> str:
        """Return the folder of snapshots beside ``.git``, wherever below it the command is run."""
        roots = {os.path.realpath(self._root_of(path)) for path in self._arguments}
        tops = sorted(root for root in roots if os.path.exists(os.path.join(root, ".git")))
        if self._root is not None or not tops:
            return _FOLDER
        if len(roots) > 1:
            what = f"the suites are in several roots, as {' and '.join(sorted(roots)[:2])}"
            raise MultiturnError(f"{what}; name the folder of their snapshots (--dir)")
        return os.path.relpath(os.path.join(*tops, _FOLDER))

    def _folders(self) -> Iterator[tuple[str, str]]:
        """Leave out folders in no root: the name of a suite does not say that it was below."""
        for path in filter(os.path.isdir, self._arguments):
            root = self._root_of(path)
            if self._root is not None or os.path.exists(os.path.join(root, ".git")):
                real, top = os.path.realpath(path), os.path.realpath(root)
                yield top, "" if real == top else f"{name_in_root(path, root)}/"

    def _root_of(self, path: str) -> str:
        return self._root or root_of(path)
