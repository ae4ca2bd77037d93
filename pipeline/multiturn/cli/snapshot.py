"""The command that records the prompts of suites, and reports when they change."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Literal

import click

from multiturn.cli.options import (
    PATH,
    Command,
    SuiteOptions,
    format_option,
    pipeline_option,
    preview_provider,
    quiet_option,
    suite_options,
    target_options,
)
from multiturn.cli.printing import Failures, echo, say_summary
from multiturn.errors import MultiturnError

if TYPE_CHECKING:
    from multiturn.engine.outcomes import Outcome
    from multiturn.review.update import SnapshotRun

Show = Literal["once", "stat", "all"]


@click.command(cls=Command)
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
@click.option(
    "--resolve",
    is_flag=True,
    help="Show what both sides of a merge conflict have in promoted.lock and files.lock, and write"
    " the lists anew.",
)
@click.option(
    "--review",
    is_flag=True,
    help="At a terminal: show each difference once, the changes of privilege first, and write those"
    " that you accept.",
)
@click.option(
    "--accept",
    "accepted",
    metavar="KEY",
    multiple=True,
    help="Write only the difference with this key, which --check --format json gives; repeat it for"
    " several.",
)
@click.option("--stat", is_flag=True, help="With --check, show one line for each file.")
@click.option("--all", "show_all", is_flag=True, help="With --check, show each file's difference.")
@click.option(
    "--inline",
    "inline_snapshots",
    is_flag=True,
    help="Repeat the texts of attached files in the snapshots, in place of their paths.",
)
@format_option(
    *("text", "json", "github"),
    words="With --check: text, a line of JSON for each thing that differs, or annotations that"
    " GitHub shows in a pull request.",
)
@target_options(
    "Also record what this target is sent where it is not the pipeline's prompt; what all cases"
    " share is in target.lock. No key is needed.",
    "snapshot_target",
)
@quiet_option
def snapshot(
    options: SuiteOptions,
    pipeline: str,
    snapshot_target: str | None,
    targets_file: str | None,
    snapshots: str | None,
    check: bool,
    resolve: bool,
    review: bool,
    accepted: tuple[str, ...],
    stat: bool,
    show_all: bool,
    inline_snapshots: bool,
    format_: str,
) -> None:
    """Record the prompt of each case in a file, for review.

    A SUITE that is a folder stands for all suites below it, also for those that are gone: their
    snapshots are removed. Beside the snapshots, promoted.lock lists each file that reaches a
    system message, and files.lock the digest of each file that snapshots name. With --case or
    --sample, only the snapshots of these cases are written or compared, and no list is written.
    With --strict, nothing is written after an error.
    """
    from multiturn.cli.progress import show_progress
    from multiturn.cli.review import refuse_no_terminal
    from multiturn.engine.outcomes import outcomes
    from multiturn.pipelines.pipeline_file import read_pipeline
    from multiturn.review.scope import Scope
    from multiturn.review.update import SnapshotRun

    if ((stat or show_all) and not check) or (stat and show_all):
        raise click.UsageError("--stat and --all are for --check, one of them")
    if format_ != "text" and (not check or stat or show_all):
        raise click.UsageError(f"--format {format_} is for --check, without --stat and --all")
    modes = {"--check": check, "--resolve": resolve, "--review": review, "--accept": accepted}
    _refuse_modes([name for name, is_given in modes.items() if is_given], options)
    if review:
        refuse_no_terminal()
    chosen, failures = read_pipeline(pipeline), Failures(debug=options.debug)
    if "-" in options.suites:
        raise MultiturnError("a snapshot is named after its suite's file, and - has none")
    selection = options.select(may_be_gone=True)
    run = SnapshotRun(
        selection=selection,
        scope=Scope(selection, options.suites, snapshots),
        pipeline=pipeline,
        check=check or review or bool(accepted),
        inline=inline_snapshots,
        provider=preview_provider(snapshot_target, targets_file),
        resolve=resolve,
    )
    run.refuse_nothing()
    converted = show_progress(outcomes(selection, chosen), prints=False)
    if review or accepted:
        with _no_commands():
            _decide(run, converted, failures, accepted)
    else:
        show: Show = "all" if show_all else "stat" if stat else "once"
        _compare(run, converted, failures, format_, show)
    failures.finish()


def _decide(
    run: "SnapshotRun",
    converted: "Iterable[Outcome]",
    failures: Failures,
    accepted: tuple[str, ...],
) -> None:
    """Write the differences with these keys, or without keys those that somebody accepts."""
    from multiturn.cli.review import accept_keys, review
    from multiturn.review.acceptance import Acceptance

    acceptance = Acceptance(run, converted, failures.add)
    if run.selection.strict:
        failures.finish()
    say_summary(accept_keys(acceptance, accepted) if accepted else review(acceptance))


def _compare(
    run: "SnapshotRun",
    converted: "Iterable[Outcome]",
    failures: Failures,
    format_: str,
    show: Show,
) -> None:
    """Check the snapshots, or write them, and print what has changed."""
    from multiturn.cli.annotations import protect_runner, snapshot_annotations
    from multiturn.logs import Notice, warnings_to

    errors: list[MultiturnError] = []

    def on_error(error: MultiturnError) -> None:
        failures.add(error)
        errors.append(error)

    warnings: list[Notice] = []
    is_github = format_ == "github"
    if is_github:
        protect_runner()
    is_strict = run.selection.strict
    with (
        nullcontext() if format_ == "json" else _no_commands(),
        warnings_to(warnings.append) if is_github and not is_strict else nullcontext(),
    ):
        if run.resolve:
            _show_conflicts(run.scope.snapshots)
        update = run.update(converted, on_error)
        if is_strict and not run.check:
            failures.finish()
        if format_ == "text":
            from multiturn.cli.changes import as_lines

            for text in as_lines(update, show):
                echo(text)
            say_summary(update.summary)
    if format_ == "json":
        from multiturn.cli.snapshot_lines import snapshot_lines
        from multiturn.engine.record import to_json

        for line in snapshot_lines(update, errors):
            echo(to_json(line), nl=False)
    elif is_github:
        for text in snapshot_annotations(update, errors, warnings):
            echo(text)
    if run.check and (update.changes or update.findings):
        sys.exit(1)


def _refuse_modes(modes: list[str], options: SuiteOptions) -> None:
    """Raise the error of several modes, or of one that writes the lists without all cases."""
    if len(modes) > 1:
        raise click.UsageError(f"{' and '.join(modes)} are different things; leave out all but one")
    if modes and modes != ["--check"] and (options.case_ids or options.sample):
        what = f"{modes[0]} writes the lists: leave out --case and --sample"
        raise click.UsageError(what)


def _show_conflicts(snapshots: str) -> None:
    """Print how the two sides of a merge conflict differ in the lists of a folder."""
    from multiturn.cli.rendering import as_text_diff
    from multiturn.review.folder import SnapshotFolder
    from multiturn.review.lists import conflicts_in

    for change in conflicts_in(SnapshotFolder(snapshots)):
        names = (f"{change.name} · {side}" for side in ("ours", "theirs"))
        echo(as_text_diff(*change.texts, *names), nl=False)


@contextmanager
def _no_commands() -> Iterator[None]:
    """Keep GitHub Actions from running a line of a prompt as a workflow command."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        yield
        return
    import secrets

    token = secrets.token_hex()
    echo(f"::stop-commands::{token}")
    try:
        yield
    finally:
        echo(f"::{token}::")
