"""The command that shows reviewers what the prompts are, and what has changed in them."""

import os
from typing import TYPE_CHECKING

import click

from multiturn.cli.options import (
    Command,
    SuiteOptions,
    format_option,
    is_default,
    output_option,
    pipeline_option,
    preview_provider,
    quiet_option,
    refuse_output,
    review_options,
    suite_options,
)
from multiturn.cli.printing import Failures, say_summary, writing
from multiturn.documents.output import standard_output
from multiturn.text import number_of

if TYPE_CHECKING:
    from multiturn.review.report.suites import TargetThen


@click.command(cls=Command)
@suite_options
@pipeline_option
@review_options
@quiet_option
@click.option(
    "--against",
    metavar="REV",
    help="Compare with the suites, files, pipeline and stages of this Git revision.",
)
@click.option(
    "--all",
    "all_texts",
    is_flag=True,
    help="With --against, also show the texts of the cases that are the same.",
)
@format_option(
    *("html", "markdown", "json"),
    words="A page to read, a summary for $GITHUB_STEP_SUMMARY, or a line of JSON for each case.",
)
@output_option(
    "Write to this file, whole or not at all.  [default: standard output, which must not be a"
    " terminal for a page]"
)
def report(
    options: SuiteOptions,
    pipeline: str,
    snapshot_target: str | None,
    targets_file: str | None,
    against: str | None,
    all_texts: bool,
    format_: str,
    output: str | None,
) -> None:
    """Show the prompts, and what has changed in them.

    The page is one HTML file that needs no network: the chat prompt and the transcript of each
    case, the payload for each provider, or with --target what that target gets, and where each
    text comes from. With --against, changed cases come first, side by side; each side has the
    targets file of its time. A case that cannot be converted is in the report, too; the exit code
    is then 1.
    """
    from functools import partial
    from math import ceil
    from tempfile import TemporaryFile

    from multiturn.cli.lines import report_lines
    from multiturn.cli.progress import show_progress
    from multiturn.documents.output import open_output
    from multiturn.engine.git import commit_of
    from multiturn.engine.outcomes import outcomes
    from multiturn.engine.record import to_json
    from multiturn.engine.revision import reading_at
    from multiturn.pipelines.pipeline_file import read_pipeline
    from multiturn.review.report.comparison import compare
    from multiturn.review.report.html import to_html
    from multiturn.review.report.markdown import to_markdown
    from multiturn.review.report.suites import ReviewedSuites, items, items_of

    if format_ == "html" and output is None and standard_output().isatty():
        raise click.UsageError("nobody reads a page of HTML here; add --output report.html")
    chosen, failures = read_pipeline(pipeline), Failures(debug=options.debug)
    selection = options.select(may_be_gone=against is not None)
    refuse_output(output, selection)
    seen: set[str] = set()

    provider = preview_provider(snapshot_target, targets_file)
    found = show_progress(outcomes(selection, chosen, seen), prints=False)
    has_images = format_ == "html"
    cases = items(found, selection, chosen, failures.add, provider, has_images=has_images)
    with TemporaryFile() as here, TemporaryFile() as there:
        if against is None:
            compared = compare(ReviewedSuites(cases, here))
            selection.check_ids(seen)
        else:
            commit = commit_of(against)
            target = _target_then(snapshot_target, targets_file)
            read = partial(items_of, target=target, has_images=has_images)
            with reading_at(
                *(commit, read, selection, pipeline), is_default=is_default("pipeline")
            ) as earlier:
                now = ReviewedSuites(cases, here)
                then = ReviewedSuites(earlier, there)
            selection.check_ids(seen.union(case_id for _, case_id in then.cases))
            if not now.cases and not then.cases:
                for error in selection.missing.values():
                    raise error
            name = against if commit.startswith(against) else f"{against} ({commit[:10]})"
            compared = compare(now, then, name, chosen, provider)
        if format_ == "html":
            text = to_html(compared, all_texts=all_texts)
        elif format_ == "markdown":
            text = to_markdown(compared)
        else:
            text = b"".join(map(to_json, report_lines(compared)))
    with writing(output), open_output(output) as file:
        file.write(text)
    if output is not None:
        number = number_of(len(compared.comparisons), "case")
        say_summary(f"{output}: {number}, {ceil(len(text) / 1e5) / 10} MB", err=True)
    failures.finish()


def _target_then(name: str | None, file: str | None) -> "TargetThen | None":
    """Return how the process of a revision finds the target that is named."""
    if name is None:
        return None
    from multiturn.engine.git import git
    from multiturn.files.paths import is_below
    from multiturn.providers.targets import find_targets
    from multiturn.review.report.suites import TargetThen

    now = find_targets(file)
    if file is not None and is_below(os.path.realpath(file), git("rev-parse", "--show-toplevel")):
        file = os.path.relpath(file)
    elif file is not None:  # no revision has it
        file = os.path.abspath(file)
    return TargetThen(name, file, None if now is None else os.path.abspath(now))
