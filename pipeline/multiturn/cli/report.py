"""The command that shows reviewers what the prompts are, and what has changed in them."""

import os
from functools import partial
from math import ceil
from typing import TYPE_CHECKING

import click

from multiturn.cli import options as shared
from multiturn.cli.printing import say_summary, show_progress, writing
from multiturn.documents.output import open_output, standard_output
from multiturn.errors import OptionError
from multiturn.text import number_of

if TYPE_CHECKING:
    from multiturn.report.comparison import Report
    from multiturn.report.html import Page


@shared.suite_command()
@shared.review_options
@shared.quiet_option
@click.option(
    "--against",
    metavar="REV",
    help="Compare with the suites, files, pipeline and stages of this Git revision.",
)
@shared.flag(
    "--all", "all_texts", help="With --against, also show the texts of the cases that are the same."
)
@shared.format_option(
    *("html", "markdown", "json"),
    words="A page to read, a summary for $GITHUB_STEP_SUMMARY, or a line of JSON for each case.",
)
@shared.output_option(
    "Write to this file, whole or not at all.  [default: standard output, which must not be a"
    " terminal for a page]"
)
@shared.file_option(
    "--results",
    help="Show the answers of this results file, each below its prompt; SUITE is then left out.",
)
@shared.file_option(
    "--before", help="With --results: compare with the answers of this earlier file."
)
@shared.prices_option
def report(
    options: shared.SuiteOptions,
    against: str | None,
    all_texts: bool,
    output: str | None,
    results: str | None,
    **others: str | None,
) -> None:
    """Show the prompts, and what has changed in them.

    The page is one HTML file that needs no network: the chat prompt and the question of each
    case, with --target what that target is sent, and where each text comes from. With --against,
    changed cases come first, side by side; each side has the targets file of its time. A case that
    cannot be converted is in the report, too; the exit code is then 1.

    With --results, the page has the answers of a run, each below its prompt, with tokens, cost and
    the key score, if your grader wrote one into the lines. With --before, both runs are side by
    side, first the cases where prompt and answer changed, then those where only one of them did.
    """
    from tempfile import TemporaryFile

    from multiturn.engine.converting import convert_cases
    from multiturn.engine.revision import commit_of, reading_at
    from multiturn.report.comparison import compare
    from multiturn.report.html import Page
    from multiturn.report.sides import ReportSide, side_items, side_items_at, target_then

    is_page = options.format_ == "html"
    if is_page and output is None and standard_output().isatty():
        raise click.UsageError("an HTML page is not shown in a terminal; add --output report.html")
    if results is None and any(others.values()):
        raise click.UsageError("--before and --prices are for --results; add it")
    if results is not None:
        _report_answers(options.format_, output, results, **others)
        return
    chosen = options.read_pipeline()
    selection = options.select(may_be_gone=against is not None)
    shared.refuse_output(output, selection)
    seen: set[str] = set()
    provider = options.provider()
    found = show_progress(convert_cases(selection, chosen, seen), prints=False)
    on_error = options.failures.add
    cases = side_items(found, selection, chosen, on_error, provider, has_images=is_page)
    with TemporaryFile() as here, TemporaryFile() as there:
        then, name = None, ""
        if against is None:
            now = ReportSide(cases, here)
        else:
            commit, target = commit_of(against), target_then(options.target, options.targets_file)
            name = against if commit.startswith(against) else f"{against} ({commit[:10]})"
            read = partial(side_items_at, target=target, has_images=is_page)
            named, is_default = options.pipeline, shared.is_default("pipeline")
            with reading_at(commit, read, selection, named, is_default=is_default) as earlier:
                now, then = ReportSide(cases, here), ReportSide(earlier, there)
            seen.update(case_id for _, case_id in then.cases)
        selection.check_ids(seen)
        if then is not None and not now.cases and not then.cases:
            for error in selection.missing.values():
                raise error
        page = Page(now, then, all_texts=all_texts or then is None)
        take_texts = [page.add] if is_page else []
        compared = compare(now, then, name, chosen, provider, *take_texts)
        _write(compared, options.format_, output, page)


def _write(compared: "Report", format_: str, output: str | None, page: "Page") -> None:
    """Write a report, and say how large it is unless it is printed."""
    from multiturn.cli.lines import report_lines
    from multiturn.explaining.record import to_json
    from multiturn.report.html import to_html
    from multiturn.report.markdown import to_markdown

    if format_ == "html":
        text = to_html(compared, page)
    elif format_ == "markdown":
        text = to_markdown(compared)
    else:
        text = b"".join(map(to_json, report_lines(compared)))
    _write_text(text, len(compared.comparisons), output)


# The options of a report that is about results, not about suites.
_OF_ANSWERS = {"results", "before", "prices", "output", "format_", "quiet", "debug", "verbose"}


def _report_answers(
    format_: str, output: str | None, results: str, before: str | None, prices: str | None
) -> None:
    from multiturn.report.answers import AnswerReport
    from multiturn.report.html import answers_to_html
    from multiturn.report.markdown import answers_to_markdown

    for param in click.get_current_context().command.params:
        if param.name not in _OF_ANSWERS and not shared.is_default(param.name or ""):
            what = "--results shows the cases of the results file; leave out"
            raise click.UsageError(f"{what} {param.opts[0]}")
    if format_ == "json":
        raise click.UsageError("--results makes a page or Markdown; the file has lines of JSON")
    if output and os.path.realpath(output) in map(os.path.realpath, (results, before or "")):
        raise OptionError(f"--output {output!r} has the results; name another file")
    found = AnswerReport(results, before, prices)
    text = (answers_to_html if format_ == "html" else answers_to_markdown)(found)
    _write_text(text, len(found.cases), output)
    if output is not None:
        say_summary(found.summary, err=True)


def _write_text(text: bytes, cases: int, output: str | None) -> None:
    with writing(output), open_output(output) as file:
        file.write(text)
    if output is not None:
        size = f"{ceil(len(text) / 1e5) / 10} MB"
        say_summary(f"{output}: {number_of(cases, 'case')}, {size}", err=True)
