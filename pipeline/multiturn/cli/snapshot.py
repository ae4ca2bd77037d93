"""The command that records the prompts of suites, and reports when they change."""

import click

from multiturn.cli import options as shared
from multiturn.cli.printing import show_progress
from multiturn.errors import MultiturnError


@shared.suite_command()
@shared.file_option(
    "--dir",
    "snapshots",
    metavar="DIR",
    help="The folder of the snapshots and of promoted.lock.  [default: snapshots, beside .git;"
    " without .git, or with --root, in the current folder]",
)
@shared.flag(
    "--check",
    help="Write nothing; show what differs from the snapshots, each difference once, and exit with"
    " 1 if anything does.",
)
@shared.flag(
    "--resolve",
    help="Show what both sides of a merge conflict have in promoted.lock and files.lock, and write"
    " the lists anew.",
)
@shared.flag(
    "--review",
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
@shared.flag("--stat", help="With --check, show one line for each file.")
@shared.flag("--all", "show_all", help="With --check, show each file's difference.")
@shared.flag(
    "--inline",
    "inline_snapshots",
    help="Repeat the texts of attached files in the snapshots, in place of their paths.",
)
@shared.format_option(
    *("text", "json", "github"),
    words="With --check: text, a line of JSON for each thing that differs, or annotations that"
    " GitHub shows in a pull request.",
)
@shared.target_options(
    "Also record what this target is sent where it is not the pipeline's prompt; what all cases"
    " share is in target.lock. No key is needed.",
    "snapshot_target",
)
@shared.quiet_option
def snapshot(
    options: shared.SuiteOptions,
    snapshots: str | None,
    check: bool,
    resolve: bool,
    review: bool,
    accepted: tuple[str, ...],
    stat: bool,
    show_all: bool,
    inline_snapshots: bool,
) -> None:
    """Record the prompt of each case in a file, for review.

    A SUITE that is a folder stands for all suites below it, also for those that are gone: their
    snapshots are removed. Beside the snapshots, promoted.lock lists each file that reaches a
    system message, and files.lock the digest of each file that snapshots name. With --case or
    --sample, only the snapshots of these cases are written or compared, and no list is written.
    With --strict, nothing is written after an error.
    """
    from multiturn.cli.snapshot_output import accept_changes, print_update, refuse_no_terminal
    from multiturn.engine.converting import convert_cases
    from multiturn.snapshots.snapshot_run import Scope, SnapshotRun

    if ((stat or show_all) and not check) or (stat and show_all):
        raise click.UsageError("add --check, and give only one of --stat and --all")
    if options.format_ != "text" and (not check or stat or show_all):
        what = f"--format {options.format_} is for --check, without --stat and --all"
        raise click.UsageError(what)
    modes = {"--check": check, "--resolve": resolve, "--review": review, "--accept": accepted}
    asked = [name for name, is_given in modes.items() if is_given]
    if len(asked) > 1:
        raise click.UsageError(f"{' and '.join(asked)} are different things; leave out all but one")
    if asked and not check and (options.case_ids or options.sample):
        raise click.UsageError(f"{asked[0]} writes the lists: leave out --case and --sample")
    if review:
        refuse_no_terminal()
    chosen = options.read_pipeline()
    if "-" in options.suites:
        raise MultiturnError("a snapshot is named after its suite's file, and - has none")
    selection = options.select(may_be_gone=True)
    run = SnapshotRun(
        selection=selection,
        scope=Scope(selection, options.suites, snapshots),
        check=check or review or bool(accepted),
        inline=inline_snapshots,
        pipeline=chosen,
        provider=options.provider(),
        resolve=resolve,
    )
    run.refuse_nothing()
    converted = show_progress(convert_cases(selection, chosen), prints=False)
    if review or accepted:
        accept_changes(run, converted, options.failures, accepted)
    else:
        print_update(run, converted, options, "all" if show_all else "stat" if stat else "once")
