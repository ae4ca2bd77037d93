"""The suites as they were at a Git revision, without touching the work tree."""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from msgspec import Struct

import multiturn
import multiturn_stages
from multiturn.declaration import load_pipeline
from multiturn.errors import MultiturnError
from multiturn.logs import Settings, configure
from multiturn.report.sides import Reviewing, Side

_OURS = [str(Path(package.__path__[0]).parent) for package in (multiturn, multiturn_stages)]


class _Earlier(Reviewing):
    """The cases of a revision; what was wrong with them then is no failure now."""

    def fail(self, message: str) -> None:
        """Leave it to the report."""

    def check_ids(self) -> None:
        """Leave it to the other side: a case may be new."""


class _Checkout(Struct, frozen=True):
    """A revision, written beside the repository.

    Attributes:
        top: the repository's folder.
        tree: the folder that holds the same files as they were.
    """

    top: str
    tree: str

    def then(self, path: str) -> str | None:
        """Return where a path of the repository is in the tree; None if it is of no repository."""
        real = os.path.realpath(path)
        if real != self.top and not real.startswith(self.top + os.sep):
            return None
        return os.path.normpath(os.path.join(self.tree, os.path.relpath(real, self.top)))


def commit_of(revision: str) -> str:
    """Return the commit that a revision names.

    Args:
        revision: whatever ``git rev-parse`` takes for a commit.

    Raises:
        MultiturnError: there is no git, no repository or no such revision.
    """
    _git("rev-parse", "--show-toplevel")
    return _git(
        *("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"),
        otherwise=f"there is no commit {revision!r} here; a shallow clone has the latest ones only",
    )


def collect_at(commit: str, suites: tuple[str, ...], pipeline: str, which: dict[str, Any]) -> Side:
    """Return the cases as they were at a commit.

    Suites, attached files, the pipeline's file and the stages beside it are those of the commit.
    It is written into a temporary folder, and converted by a process of its own, which imports the
    stages that it finds there. A suite that was not there then has no cases, and a pipeline's file
    that was not is taken as it is now.

    Args:
        commit: as ``commit_of`` returned it.
        suites: files and folders of the repository that the current folder is in.
        pipeline: a name, or a file.
        which: the other arguments of Batch.

    Raises:
        MultiturnError: a suite or the root is outside the repository, or the pipeline could not
            be loaded as it was.
    """
    top = os.path.realpath(_git("rev-parse", "--show-toplevel"))
    with tempfile.TemporaryDirectory(prefix="multiturn-") as folder:
        checkout = _Checkout(top, os.path.join(os.path.realpath(folder), "tree"))
        environment = {"GIT_INDEX_FILE": f"{folder}/index", "GIT_LFS_SKIP_SMUDGE": "1"}
        _git("-C", top, "read-tree", commit, **environment)
        _git("-C", top, "checkout-index", "--all", f"--prefix={checkout.tree}/", **environment)
        # The root ends here, as it does in the repository.
        os.makedirs(os.path.join(checkout.tree, ".git"), exist_ok=True)
        here = _inside(checkout, ".")
        os.makedirs(here, exist_ok=True)
        names = [os.path.relpath(_inside(checkout, suite), here) for suite in suites]
        if which["root"] is not None:
            which = {**which, "root": os.path.relpath(_inside(checkout, which["root"]), here)}
        # A process of its own, so that modules which this one has imported are read anew.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=context) as executor:
            try:
                return executor.submit(_collect, checkout, here, names, pipeline, which).result()
            except BrokenProcessPool:
                what = f"--against: the process that converts the suites of {commit[:10]} died"
                raise MultiturnError(what) from None


def _inside(checkout: _Checkout, path: str) -> str:
    then = checkout.then(path)
    if then is None:
        raise MultiturnError(f"{path!r} is outside the repository {checkout.top}")
    return then


def _collect(
    checkout: _Checkout, here: str, suites: list[str], pipeline: str, which: dict[str, Any]
) -> Side:
    """Convert the suites of a checkout, in a process that has imported no stage yet."""
    configure(Settings("error"))  # what is worth a warning now is said of the other side
    then = checkout.then(pipeline)
    now = os.path.realpath(pipeline)
    os.chdir(here)
    if os.path.exists(now):
        pipeline = os.path.relpath(then) if then and os.path.exists(then) else now
    for at, entry in enumerate(sys.path):
        moved = checkout.then(entry)
        if moved and os.path.isdir(moved) and os.path.realpath(entry) not in _OURS:
            sys.path[at] = moved
    there = tuple(suite for suite in suites if os.path.exists(suite))
    try:
        return _Earlier(there, **which).collect(load_pipeline(pipeline))
    except MultiturnError as error:  # not every kind of it can be sent to the parent
        raise MultiturnError(f"--against: as it was then, {error}") from None


def _git(*arguments: str, otherwise: str = "", **environment: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - a list of arguments, and no shell
            ("git", *arguments),  # noqa: S607 - the git that the user runs, too
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=True,
        )
    except FileNotFoundError:
        raise MultiturnError("--against needs git, and there is none") from None
    except subprocess.CalledProcessError as error:
        why = error.stderr.strip().removeprefix("fatal: ").partition("\n")[0]
        raise MultiturnError(f"--against: {otherwise or why}") from None
    return done.stdout.rstrip("\n")
