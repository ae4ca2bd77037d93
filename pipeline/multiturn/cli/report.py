"""The command that shows reviewers what the prompts are, and what has changed in them."""

from typing import Any

import click

from multiturn.cli.options import load, pipeline_option, suite_options


@click.command()
@suite_options
@pipeline_option
@click.option(
    "--against",
    metavar="REV",
    help="Compare with the suites, files, pipeline and stages of this Git revision.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["html", "markdown"]),
    default="html",
    show_default=True,
    help="A page to read, or a summary for $GITHUB_STEP_SUMMARY.",
)
@click.option(
    "--output",
    metavar="FILE",
    help="Write here, whole or not at all.  [default: standard output]",
)
def report(
    pipeline: str, against: str | None, format_: str, output: str | None, **which: Any
) -> None:
    """Show what the prompts are, and what has changed in them.

    The page is one HTML file that needs no network: each case's chat prompt, transcript and the
    payload of each provider, and where each text comes from. With --against, changed cases come
    first, side by side. A case that cannot be converted is in the report, too; the exit code is
    then 1.
    """
    from multiturn.engine.batch import Batch, UnusableError, unwritable
    from multiturn.errors import MultiturnError
    from multiturn.output import open_output
    from multiturn.review.report.cases import Reviewing
    from multiturn.review.report.comparison import compare
    from multiturn.review.report.html import to_html
    from multiturn.review.report.markdown import to_markdown
    from multiturn.review.report.revision import collecting_at, commit_of
    from multiturn.suites.discovery import find_suites

    chosen = load(pipeline)
    suites = which.pop("suites")
    batch = Reviewing(suites, compared=against is not None, **which)
    batch.refuse_output(output)
    then = None
    try:
        if against is None:
            now = batch.collect(chosen)
        else:
            if "-" in suites:
                raise MultiturnError("--against compares files, and - is none")
            commit = commit_of(against)
            with collecting_at(commit, suites, pipeline, which) as earlier:
                now = batch.collect(chosen)
                then = earlier()
            batch.ids.update(case_id for _, case_id in then.cases)
            Batch.check_ids(batch)
            if not now.cases and not then.cases:
                list(find_suites(suites))  # says what there is not
            if not commit.startswith(against):
                against = f"{against} ({commit[:10]})"
    except MultiturnError as error:
        raise UnusableError(str(error)) from error
    mistakes = list(now.mistakes)
    if then is not None:
        mistakes += (f"at {against}: {each}" for each in then.mistakes if each not in mistakes)
    comparisons = compare(now, then)
    render = to_html if format_ == "html" else to_markdown
    text = render(comparisons, pipeline=pipeline, against=against, mistakes=mistakes)
    try:
        with open_output(output) as file:
            file.write(text)
    except OSError as error:
        raise unwritable(output, error) from error
    batch.finish()
