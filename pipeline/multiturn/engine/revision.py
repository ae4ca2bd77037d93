"""The suites as they were at a Git revision, without touching the work tree."""

import copyreg
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, field, structs

import multiturn
import multiturn_stages
from multiturn.engine.converting import ConvertedCase, convert_cases
from multiturn.engine.project import find_defaults
from multiturn.engine.selection import Selection, select
from multiturn.errors import MultiturnError, Place, option, options_as, spelling
from multiturn.explaining.spans import Span
from multiturn.files.media import Media
from multiturn.files.paths import is_below
from multiturn.logs import LogSettings, configure
from multiturn.model.request import ProviderRequest
from multiturn.pipelines.pipeline import Pipeline, request_of
from multiturn.pipelines.pipeline_file import DEFAULT_PIPELINE, pipeline_names, read_pipeline
from multiturn.providers.agents.guard import die_with_parent
from multiturn.signals import masked

_NO_HOOKS = ("-c", f"core.hooksPath={os.devnull}", "-c", "core.fsmonitor=false")
# A partial clone would fetch what it lacks, by a program that its configuration names.
_NO_FETCH = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": ""}
_NOWHERE = Place(), "", None  # the place of a span, its key, and what changed it


class SmallPickler(pickle.Pickler):
    """Pickles for our own processes: without bytes of media, and without places of spans.

    No report reads these; the words for an origin have the line.
    """

    dispatch_table = copyreg.dispatch_table | {
        Media: lambda it: (Media, structs.astuple(it)),
        Span: lambda it: (Span, (it.text, it.origin, it.path, it.stage, *_NOWHERE, it.media)),
    }


def commit_of(revision: str) -> str:
    """Return the commit that a revision names, as ``git rev-parse`` takes it."""
    is_shallow = git("rev-parse", "--is-shallow-repository") == "true"
    why = "; a shallow clone has the latest ones only" * is_shallow
    return git(
        *("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"),
        otherwise=f"there is no commit {revision!r} here{why}",
    ).lstrip("^")


def git(*arguments: str, otherwise: str = "", **environment: str) -> str:
    """Return what Git prints in the current folder, whatever variables of Git's are set.

    If it fails, the error has the words of ``otherwise``, or Git's own.
    """
    # GIT_DIR, GIT_WORK_TREE and others would make it another repository, or other files.
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(  # noqa: S603 - a list of arguments, and no shell
            ("git", *_NO_HOOKS, *arguments),  # noqa: S607 - the git that the user runs, too
            env={**own, **_NO_FETCH, **environment},
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=True,
        )
    except FileNotFoundError:
        raise MultiturnError(f"{option('against')} needs git, and there is none") from None
    except subprocess.CalledProcessError as error:
        why = error.stderr.strip().removeprefix("fatal: ").partition("\n")[0]
        if "promisor" in error.stderr or "transport" in error.stderr:
            why = "this partial clone lacks files of that commit; git archive REV fetches them"
        raise MultiturnError(f"{option('against')}: {otherwise or why}") from None
    return done.stdout.rstrip("\n")


T = TypeVar("T")
_CHILD = "import sys; from multiturn.engine.revision import run_child; run_child(sys.argv[1])"
_JOB, _ITEMS = "job", "items"  # the files by which the processes talk
_OURS = [str(Path(package.__path__[0]).parent) for package in (multiturn, multiturn_stages)]


class Revision(Struct, frozen=True):
    """The cases of a revision."""

    cases: Iterable[ConvertedCase]  # what became of each; errors name files as they are named now
    selection: Selection  # of the cases
    pipeline: Pipeline  # which converts them; it has today's name unless it was another one
    notes: tuple[str, ...]  # messages about suites that cannot be read


def requests_of(revision: Revision) -> Iterator[ProviderRequest]:
    """Yield the request of each case that could be converted."""
    for each in revision.cases:
        if each.conversion is not None:
            yield request_of(each.conversion)


class _Job(Struct, frozen=True):
    """The input of the process that converts a revision, checked out into a temporary folder."""

    top: str  # the folder of the repository
    tree: str  # the folder with its files as they were
    read: Callable[[Revision], Iterable[Any]]
    selection: Selection  # for the process, the named suites and the root are paths in the tree
    pipeline: str
    is_default: bool
    path: list[str]  # sys.path
    parent: int  # the process whose end is that of the job, too
    spelling: str = field(default_factory=spelling)  # of options, in errors

    def then(self, path: str) -> str | None:
        """Return the path in the tree for one in the repository; None for one outside it.

        Links are followed as they were then, and only to files of the tree.
        """
        here = os.path.normpath(os.path.join(os.path.realpath("."), path))
        for way in (here, os.path.realpath(path)):
            if is_below(way, self.top):
                return os.path.normpath(os.path.join(self.tree, os.path.relpath(way, self.top)))
        return None

    def inside(self, path: str) -> str:
        """Return the path in the tree; refuse one outside the repository."""
        then = self.then(path)
        if then is None:
            raise MultiturnError(f"{path!r} is outside the repository {self.top}")
        return then

    def has(self, path: str) -> bool:
        """Return whether a path leads to something in the tree, and not out of it."""
        return os.path.exists(path) and is_below(os.path.realpath(path), self.tree)

    def entry(self, entry: str) -> str:
        """Return the tree's folder for an entry of sys.path, unless it is multiturn's own."""
        then = self.then(entry) if entry and entry not in _OURS else None
        return then if then and os.path.isdir(then) and self.has(then) else entry


@contextmanager
def reading_at(
    commit: str,
    read: Callable[[Revision], Iterable[T]],
    selection: Selection,
    pipeline: str,
    *,
    is_default: bool,
) -> Iterator[Iterator[T]]:
    """Yield what is read of the cases as they were at a commit, which are converted meanwhile.

    Suites, attached files, the pipeline's file and the stages beside it are those of the commit.
    It is written into a temporary folder, without submodules, and converted by a process of its
    own, which imports the stages that it finds there. A suite that was not there then has no
    cases. In place of a pipeline's file that was not there then, or that the command line does not
    name (``is_default``), the defaults of the commit decide.

    Suites must be in the repository of the current folder. The other process calls ``read``, which
    is at the top level of a module, and pickles what it yields.
    """
    if "-" in selection.named:
        raise MultiturnError(f"{option('against')} compares files, and - is not a file")
    top = os.path.realpath(git("rev-parse", "--show-toplevel"))
    with ExitStack() as ending:
        # An interrupt must not come after something is there, and before it is certain to end.
        with masked("SIG_BLOCK"):
            folder = ending.enter_context(tempfile.TemporaryDirectory(prefix="multiturn-"))
        tree = os.path.join(os.path.realpath(folder), "tree")
        job = _Job(top, tree, read, selection, pipeline, is_default, sys.path, os.getpid())
        here = job.inside(".")
        named = (os.path.relpath(job.inside(path), here) for path in selection.named)
        root = selection.root and os.path.relpath(job.inside(selection.root), here)
        selection = structs.replace(selection, suites=(), named=frozenset(named), root=root)
        _write_tree(commit, top, tree, f"{folder}/index")
        try:
            if not is_below(os.path.realpath(here), tree):
                raise NotADirectoryError  # a link leads out of the repository
            os.makedirs(here, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise MultiturnError(f"{option('against')}: {os.getcwd()} was no folder then") from None
        with masked("SIG_BLOCK"):
            with open(os.path.join(folder, _JOB), "wb") as file:
                pickle.dump(structs.replace(job, selection=selection), file)
            process = subprocess.Popen(  # noqa: S603 - this very Python
                (sys.executable, "-P", "-c", _CHILD, folder),
                stdin=subprocess.DEVNULL,
                stdout=2,  # what a stage prints is not part of the output
                start_new_session=True,  # Ctrl-C reaches only this process, which kills it
            )
            ending.callback(process.wait)  # after Ctrl-C, __exit__ waits 0.25 s at most
            ending.callback(process.kill)
        yield _items(process, folder, commit)


def _write_tree(commit: str, top: str, tree: str, index: str) -> None:
    """Check out the files of a commit."""
    git_dir = git("rev-parse", "--absolute-git-dir")
    environment = {"GIT_DIR": git_dir, "GIT_WORK_TREE": top, "GIT_INDEX_FILE": index}
    git("-C", top, "read-tree", commit, **environment)
    git("-C", top, "checkout-index", "--all", f"--prefix={tree}/", **environment)
    os.makedirs(os.path.join(tree, ".git"), exist_ok=True)  # marks the root, as in the repository


def _items(process: "subprocess.Popen[bytes]", folder: str, commit: str) -> Iterator[Any]:
    """Yield what the process has read, once it has ended."""
    path = os.path.join(folder, _ITEMS)
    if process.wait() != 0 or not os.path.exists(path):
        what = f"the process that converts the suites of {commit[:10]} died"
        raise MultiturnError(f"{option('against')}: {what}")
    with open(path, "rb") as file:
        while file.peek(1):
            item = pickle.load(file)  # noqa: S301 - our own, in a folder of our own
            if isinstance(item, MultiturnError):
                raise item
            yield item


@masked("SIG_UNBLOCK")
def run_child(folder: str) -> None:
    """Convert a revision: the entry point of the child process that ``reading_at`` starts.

    The job is a file in the folder, and the items are written to another one beside it, which takes
    its name at the end: a stage may end the process, with any exit code. A MultiturnError is an
    item, too, so that the parent can raise it.
    """
    with open(os.path.join(folder, _JOB), "rb") as file:
        job: _Job = pickle.load(file)  # noqa: S301 - from the parent process
    die_with_parent(job.parent, signal.SIGKILL)
    now = os.getcwd()
    configure(LogSettings("error"))  # warnings are those of the current files
    sys.path[:] = [*map(job.entry, job.path)]
    os.chdir(job.inside("."))
    named = sorted(job.selection.named)
    outside = [name for name in named if os.path.exists(name) and not job.has(name)]
    items = os.path.join(folder, _ITEMS)
    with open(f"{items}.part", "wb") as file, options_as(job.spelling):
        try:
            selection = select(
                (name for name in named if name not in outside),
                root=job.selection.root,
                guideline_patterns=job.selection.guideline_patterns,
                case_ids=job.selection.case_ids,
                may_be_gone=True,
            )
            selection = structs.replace(selection, sample=job.selection.sample)
            path, name = _pipeline_then(job, now)
            chosen = read_pipeline(path)
            chosen.name = name
            # seen: a selected id may be missing here, and be among the current cases.
            found = _named_as_now(job, convert_cases(selection, chosen, seen=set()))
            notes = tuple(f"{name}: it led out of the repository" for name in outside)
            for item in job.read(Revision(found, selection, chosen, notes)):
                SmallPickler(file).dump(item)
        except MultiturnError as error:
            pickle.dump(MultiturnError(f"{option('against')}: as it was then, {error}"), file)
    os.replace(f"{items}.part", items)


def _pipeline_then(job: _Job, now: str) -> tuple[str, str]:
    """Return the pipeline as it was, named as in the folder ``now``, and its name for messages."""

    def place(name: str) -> str:
        if name in pipeline_names():
            return name
        path = os.path.join(now, name)
        then = job.then(path)
        if then is None or (os.path.lexists(then) and not job.has(then)):
            return path  # outside the repository
        return os.path.relpath(then)

    named = place(job.pipeline)
    if not job.is_default and (named in pipeline_names() or os.path.exists(named)):
        return named, job.pipeline
    default = find_defaults()[0].pipeline or DEFAULT_PIPELINE
    was = place(default)
    return was, job.pipeline if was == named else default


def _named_as_now(job: _Job, found: Iterable[ConvertedCase]) -> Iterator[ConvertedCase]:
    """Yield cases whose errors name files of the repository, not of the temporary folder."""
    for each in found:
        if each.error is not None:
            each.error.what = each.error.what.replace(job.tree, job.top)
        yield each
