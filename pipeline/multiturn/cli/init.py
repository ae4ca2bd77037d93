"""The command that begins a project."""

from collections.abc import Iterator
from pathlib import Path

import click

_SUITE = ("evals/first.eval.yaml", "evals/tone.instructions.md")
_DEFAULTS = "multiturn.toml"
_WORKFLOW = ".github/workflows/prompts.yml"
_HOOK = ".pre-commit-config.yaml"
_ADDRESS = b"git+https://git.example/multiturn@COMMIT"  # of the template, for pip
_NEXT = """\
Next:
  multiturn list              the suites and their cases
  multiturn convert           the prompts
  multiturn run               the prompts, sent to a target: echo, which repeats them
  multiturn snapshot          records the prompts, to be committed
  multiturn snapshot --check  shows what has changed since
"""


@click.command()
def init() -> None:
    """Write the first files of a project.

    They are a suite, a guideline, defaults, a workflow and a pre-commit hook.
    No existing file is changed.
    """
    from importlib.resources import files  # a fifth of the start-up

    address = _address()
    must_fill_in = False
    for path in _wanted():
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with target.open("xb") as file:
                name = target.name.removeprefix(".")  # a package's hidden files may get lost
                text = files("multiturn.cli").joinpath("first", name).read_bytes()
                must_fill_in |= path == _WORKFLOW and address is None
                file.write(text.replace(_ADDRESS, address or _ADDRESS))
            click.echo(f"wrote {path}")
        except FileExistsError:
            click.echo(f"kept  {path}")
    if must_fill_in:
        click.echo(f"\nFill in MULTITURN in {_WORKFLOW}: where multiturn is installed from")
    click.echo(f"\n{_NEXT}", nl=False)


def _address() -> bytes | None:
    """Return the Git address and commit that multiturn was installed from; None if from none.

    Installers leave a note of it: https://peps.python.org/pep-0610/
    """
    import json
    from importlib.metadata import distribution

    note = json.loads(distribution("multiturn").read_text("direct_url.json") or "{}")
    commit = note.get("vcs_info", {}).get("commit_id")
    return f"git+{note['url']}@{commit}".encode() if commit else None


def _wanted() -> Iterator[str]:
    """Yield each file that a project wants; suites and defaults only if there are none."""
    from multiturn.engine.defaults import find_defaults

    defaults = find_defaults()[1]
    suites = sorted(Path("evals").rglob("*.eval.*"))
    if suites:
        click.echo(f"kept  {suites[0].as_posix()}")
    else:
        yield from _SUITE
    if defaults and defaults != _DEFAULTS:
        click.echo(f"kept  {defaults}")
    else:
        yield _DEFAULTS
    yield _WORKFLOW
    yield _HOOK
