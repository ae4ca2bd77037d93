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
    help="Write nothing; show what differs from the snapshots, each difference once, and exit with"
    " 1 if anything does.",
)
@click.option("--stat", is_flag=True, help="With --check, show one line for each file.")
@click.option("--all", "show_all", is_flag=True, help="With --check, show each file's difference.")
@click.option(
    "--inline",
    "inline_snapshots",
    is_flag=True,
    help="Repeat the texts of attached files in the snapshots, which name them by their paths"
    " otherwise.",
)
@quiet_option
def snapshot(
    asked: Asked,
    pipeline: str,
    snapshots: str | None,
    check: bool,
    stat: bool,
    show_all: bool,
    inline_snapshots: bool,
) -> None:
    """Record the prompt of each case in a file, for review.

    A SUITE that is a folder stands for all suites below it, also for those that are gone: their
    snapshots are removed. In the same folder, promoted.lock lists each file that reaches a system
    message, and files.lock the digests of the texts that snapshots name. With --case, only the
    snapshots of these cases are written or compared, and no list is written.
    """
    from multiturn.cli.changes import as_lines
    from multiturn.cli.failures import Failures
    from multiturn.cli.progress import show_progress
    from multiturn.engine.outcomes import outcomes
    from multiturn.errors import MultiturnError
    from multiturn.pipelines.pipeline_file import load_pipeline
    from multiturn.review.update import Update

    if ((stat or show_all) and not check) or (stat and show_all):
        raise click.UsageError("--stat and --all are for --check, one of them")
    chosen, failures = load_pipeline(pipeline), Failures(debug=asked.debug)
    if "-" in asked.suites:
        raise MultiturnError("a snapshot is named after its suite's file, and - has none")
    selection = asked.select(may_be_gone=True)
    if not check:
        check_strictly(asked, selection, chosen)
    update = Update(
        selection,
        asked.suites,
        snapshots,
        check=check,
        inline=inline_snapshots,
        pipeline=pipeline,
    )
    with _no_commands():
        found = []
        for said in update.run(show_progress(outcomes(selection, chosen), "cases")):
            if isinstance(said, MultiturnError):
                failures.add(said)
            else:
                found.append(said)
        for text in as_lines(found, "all" if show_all else "stat" if stat else "once"):
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
