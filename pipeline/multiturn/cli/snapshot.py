"""The command that records what suites become, and tells when that changes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from multiturn.cli.options import PATH, load, on_terminal, pipeline_option, suite_options


@click.command()
@suite_options
@pipeline_option
@click.option(
    "--dir",
    "folder",
    metavar="DIR",
    type=PATH,
    help="The folder of the snapshots and of promoted.lock.  [default: snapshots, beside .git]",
)
@click.option(
    "--check",
    is_flag=True,
    help="Write nothing; show what differs from the snapshots, and exit with 1 if anything does.",
)
def snapshot(pipeline: str, folder: str | None, check: bool, **which: Any) -> None:
    """Record the prompt of each case in a file, for review.

    A SUITE that is a folder stands for all suites below it, also for those that are gone: their
    snapshots are removed. promoted.lock, in the same folder, lists each file that reaches a
    system message. With --case, only the snapshots of these cases are written or compared, and
    promoted.lock is not written.
    """
    from multiturn.engine.batch import UnusableError
    from multiturn.errors import MultiturnError
    from multiturn.review.recording import Recording

    chosen = load(pipeline)
    if "-" in which["suites"]:
        raise UnusableError("a snapshot is named after its suite's file, and - has none")
    try:
        recording = Recording(folder, check, **which)
        with _no_commands():
            for text in recording.run(chosen):
                click.echo(text if on_terminal() else click.unstyle(text))
    except MultiturnError as error:
        raise UnusableError(str(error)) from error
    recording.finish()


@contextmanager
def _no_commands() -> Iterator[None]:
    """Have GitHub Actions obey no line of a prompt that poses as a command of the workflow's."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        yield
        return
    import secrets

    token = secrets.token_hex()
    click.echo(f"::stop-commands::{token}")
    try:
        yield
    finally:
        click.echo(f"::{token}::")
