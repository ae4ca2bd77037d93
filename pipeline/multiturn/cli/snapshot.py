"""The command that records what suites become, and tells when that changes."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from multiturn.cli.options import (
    PATH,
    Asked,
    check_strictly,
    on_terminal,
    pipeline_option,
    quiet_option,
    say_summary,
    suite_options,
)


@click.command()
@suite_options
@pipeline_option
@click.option(
    "--dir",
    "snapshots",
    metavar="DIR",
    type=PATH,
    help="The folder of the snapshots and of promoted.lock.  [default: snapshots, beside .git;"
    " without .git, or with --root, in the current folder]",
)
@click.option(
    "--check",
    is_flag=True,
    help="Write nothing; show what differs from the snapshots, and exit with 1 if anything does.",
)
@quiet_option
def snapshot(asked: Asked, pipeline: str, snapshots: str | None, check: bool) -> None:
    """Record the prompt of each case in a file, for review.

    A SUITE that is a folder stands for all suites below it, also for those that are gone: their
    snapshots are removed. promoted.lock, in the same folder, lists each file that reaches a
    system message. With --case, only the snapshots of these cases are written or compared, and
    promoted.lock is not written.
    """
    from multiturn.cli.drawing import as_text_diff
    from multiturn.cli.failures import Failures
    from multiturn.cli.progress import show_progress
    from multiturn.engine.outcomes import outcomes
    from multiturn.errors import MultiturnError
    from multiturn.pipelines.pipeline_file import load_pipeline
    from multiturn.review.update import Difference, Update

    chosen, failures = load_pipeline(pipeline), Failures(debug=asked.debug)
    if "-" in asked.suites:
        raise MultiturnError("a snapshot is named after its suite's file, and - has none")
    selection = asked.select(may_be_gone=True)
    if not check:
        check_strictly(asked, selection, chosen)
    update = Update(selection, asked.suites, snapshots, check)
    with _no_commands():
        for said in update.run(show_progress(outcomes(selection, chosen), "cases")):
            if isinstance(said, Exception):
                failures.add(said)
                continue
            if isinstance(said, Difference):
                names = f"{said.name} · recorded", f"{said.name} · now"
                text = as_text_diff(said.old, said.new, *names).removesuffix("\n")
            else:
                text = said
            click.echo(text if on_terminal() else click.unstyle(text))
        say_summary(update.summary)
    if check and update.differs:
        sys.exit(1)
    failures.finish()


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
