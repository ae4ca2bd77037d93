"""Git commands that run no hook and fetch nothing."""

import os
import subprocess

from multiturn.errors import MultiturnError, option

_NO_HOOKS = ("-c", f"core.hooksPath={os.devnull}", "-c", "core.fsmonitor=false")
# A partial clone would fetch what it lacks, by a program that its configuration names.
_NO_FETCH = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": ""}


def commit_of(revision: str) -> str:
    """Return the commit that a revision names, as ``git rev-parse`` takes it.

    Raises:
        MultiturnError: there is no git, no repository or no such revision.
    """
    is_shallow = git("rev-parse", "--is-shallow-repository") == "true"
    why = "; a shallow clone has the latest ones only" * is_shallow
    return git(
        *("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"),
        otherwise=f"there is no commit {revision!r} here{why}",
    ).lstrip("^")


def git(*arguments: str, otherwise: str = "", **environment: str) -> str:
    """Return what Git prints in the current folder, whatever variables of Git's are set.

    Raises:
        MultiturnError: there is no Git, or it fails: in the words of ``otherwise``, or its own.
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
        elif why.startswith("not a git repository"):
            why += "; run it inside the repository"
        raise MultiturnError(f"{option('against')}: {otherwise or why}") from None
    return done.stdout.rstrip("\n")
