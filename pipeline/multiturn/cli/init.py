"""The command that begins a project."""

import json
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click

from multiturn.cli.options import MultiturnCommand
from multiturn.cli.printing import echo, writing
from multiturn.errors import AccessError, MultiturnError
from multiturn.text import CONTROL, in_line, number_of

_SUITE = ("evals/tone.instructions.md", "evals/first.eval.yaml")  # which needs the other one
_DEFAULTS = "multiturn.toml"
_WORKFLOW = ".github/workflows/prompts.yml"
_HOOK = ".pre-commit-config.yaml"
_ADDRESS = "git+https://git.example/multiturn@COMMIT"  # of the template, for pip
_CHECK = "entry: multiturn snapshot --check"
_NEXT = """\
Next:
  multiturn list{suites}              the suites and their cases
  multiturn convert{suites}           the prompts
  multiturn run{suites}               the prompts, sent to a target: echo, which repeats them
  multiturn snapshot{suites}          records the prompts, to be committed
  multiturn snapshot{suites} --check  shows what has changed since
"""


@click.command(cls=MultiturnCommand)
def init() -> None:
    """Write the first files of a project.

    They are a suite, a guideline, defaults, a workflow and a pre-commit hook; the last two at the
    top of the Git repository. No existing file is changed.
    """
    from multiturn.engine.project import find_defaults
    from multiturn.files.paths import root_of

    address, here = _address(), Path.cwd()
    top = Path(root_of(here))
    folder = here.relative_to(top).as_posix()
    if ".git" in here.parts:
        raise AccessError("Git commits nothing that is in .git; enter another folder")
    if "${{" in folder or re.search(CONTROL, folder):
        raise AccessError(f"a workflow cannot name the folder {folder!a}; rename it")
    _check_inside(Path("evals"), top)  # before anything is looked for there
    targets = [Path(name) for name in _wanted(os.path.relpath(top))]
    for target in targets:
        _check_inside(target.parent, top)
    must_fill_in = ""
    for target in targets:
        with writing(target.as_posix()):
            target.parent.mkdir(parents=True, exist_ok=True)
            is_new = _write(target, folder, address)
        echo(f"{'wrote' if is_new else 'kept '} {in_line(target.as_posix())}")
        with suppress(OSError, ValueError):  # a link may lead nowhere
            if target.name == Path(_WORKFLOW).name and _ADDRESS in target.read_text("utf-8"):
                must_fill_in = target.as_posix()
    if must_fill_in:
        echo(f"\nFill in MULTITURN in {must_fill_in}: where multiturn is installed from")
    suites = "" if "evals" in find_defaults()[0].suites else " evals"
    echo(f"\n{_NEXT.format(suites=suites)}", nl=False)


def _check_inside(folder: Path, top: Path) -> None:
    """Refuse a folder that a link leads out of the project."""
    from multiturn.files.paths import is_below, real_path

    real = real_path(folder)
    if not is_below(real, str(top)):
        what = f"a link leads from here to {real}, out of {top}; make a folder in its place"
        raise MultiturnError(what, where=folder.as_posix())


def _write(target: Path, folder: str, address: str | None) -> bool:
    """Write a file whole, for a project in a folder of its repository; return whether it is new."""
    from importlib.resources import files  # a fifth of the start-up

    from multiturn.documents.output import open_new

    # Without the dot: a package's hidden files may get lost.
    template = files("multiturn.cli").joinpath("first", target.name.removeprefix("."))
    text = template.read_text(encoding="utf-8").replace(_ADDRESS, address or _ADDRESS)
    if folder != ".":
        check = f"sh -c 'cd -- \"$0\" && exec multiturn snapshot --check' {shlex.quote(folder)}"
        text = text.replace("FOLDER: . #", f"FOLDER: {json.dumps(folder)} #")
        text = text.replace(_CHECK, f"entry: {json.dumps(check)}")
    try:
        with open_new(target) as file:
            file.write(text.encode())
    except FileExistsError:
        return False
    return True


def _address() -> str | None:
    """Return the Git address and commit that multiturn was installed from; None if from none."""
    from importlib.metadata import distribution

    # Installers leave this note: https://peps.python.org/pep-0610/
    note = json.loads(distribution("multiturn").read_text("direct_url.json") or "{}")
    commit = note.get("vcs_info", {}).get("commit_id")
    return f"git+{note['url']}@{commit}" if commit else None


def _wanted(top: str) -> Iterator[str]:
    """Yield each file that a project wants; suites and defaults only if there are none."""
    from multiturn.engine.project import find_defaults

    defaults = find_defaults()[1]
    suites = list(Path("evals").rglob("*.eval.*"))
    if suites:
        echo(f"kept  evals, with {number_of(len(suites), 'suite')}")
    else:
        yield from _SUITE
    if defaults and defaults != _DEFAULTS:
        echo(f"kept  {in_line(defaults)}")
    else:
        yield _DEFAULTS
    yield os.path.join(top, _WORKFLOW)
    yield os.path.join(top, _HOOK)
