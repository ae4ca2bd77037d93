"""The command that shows reviewers what the prompts are, and what has changed in them."""

from typing import Any

import click

from multiturn.cli_options import load, pipeline_option, suite_options


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
    from multiturn.batch import UnusableError, unwritable
    from multiturn.errors import MultiturnError
    from multiturn.output import open_output
    from multiturn.report.comparison import compare
    from multiturn.report.page import to_html
    from multiturn.report.revision import collecting_at, commit_of
    from multiturn.report.sides import Reviewing
    from multiturn.report.summary import to_markdown

    chosen = load(pipeline)
    suites = which.pop("suites")
    batch = Reviewing(suites, **which)
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
            if not commit.startswith(against):
                against = f"{against} ({commit[:10]})"
    except MultiturnError as error:
        raise UnusableError(str(error)) from error
    comparisons = compare(now, then)
    render = to_html if format_ == "html" else to_markdown
    text = render(comparisons, pipeline=pipeline, against=against, mistakes=now.mistakes)
    try:
        with open_output(output) as file:
            file.write(text)
    except OSError as error:
        raise unwritable(output, error) from error
    batch.finish()
