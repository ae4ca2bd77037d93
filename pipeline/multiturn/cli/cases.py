"""The commands that print something of each case: list, explain, diff."""

import sys
from typing import TYPE_CHECKING

import click

from multiturn.cli.completion import complete_pipeline
from multiturn.cli.failures import Failures
from multiturn.cli.options import (
    SuiteOptions,
    format_option,
    pipeline_option,
    quiet_option,
    say_summary,
    suite_options,
)
from multiturn.text import number_of, visible

if TYPE_CHECKING:
    from multiturn.model import Conversion

_format_option = format_option(
    "text", "json", help="Text for reading, or a line of JSON for each case."
)


@click.command("list")
@suite_options
@pipeline_option
@_format_option
def list_cases(options: SuiteOptions, pipeline: str, format_: str) -> None:
    """List suites and their cases.

    Of each case: its id, messages, attached files and guidelines.

    SUITE is what convert takes. A case that cannot be converted is reported and skipped; the exit
    code is then 1.
    """
    from multiturn.engine.outcomes import outcomes
    from multiturn.engine.record import to_json
    from multiturn.pipelines.pipeline_file import load_pipeline

    failures, listed = Failures(debug=options.debug), ""
    chosen = load_pipeline(pipeline)
    for conversion in failures.conversions(outcomes(options.select(), chosen)):
        case = conversion.case
        if format_ == "json":
            click.echo(to_json(_entry(conversion)), nl=False)
            continue
        if case.suite != listed:
            listed = case.suite
            click.secho(visible(case.suite), bold=True)
        click.echo(f"  {visible(case.id)}: {visible(_words(conversion))}")
    failures.finish()


def _entry(conversion: "Conversion") -> dict[str, object]:
    """Return what JSON says of a case."""
    case, files = conversion.case, conversion.input_files
    return {
        "suite": case.suite,
        "id": case.id,
        "file": case.file,
        "line": case.line,
        "messages": [message.role for message in case.input_messages],
        "files": [file.resolved_path for file in files if not file.guideline],
        "guidelines": [file.resolved_path for file in files if file.guideline],
    }


def _words(conversion: "Conversion") -> str:
    """Return what text says of a case: its messages, then its files."""
    files = conversion.input_files
    said = [number_of(len(conversion.case.input_messages), "message")]
    said += [f"file {file.path}" for file in files if not file.guideline]
    said += [f"guideline {file.path}" for file in files if file.guideline]
    return ", ".join(said)


@click.command()
@suite_options
@pipeline_option
@_format_option
def explain(options: SuiteOptions, pipeline: str, format_: str) -> None:
    """Show where each text of a prompt comes from.

    Segments that are not where they were written are listed, too: moved, merged, referenced or
    dropped, by which stage and rule.
    """
    from multiturn.cli.drawing import as_explanation
    from multiturn.cli.lines import explain_line
    from multiturn.engine.outcomes import outcomes
    from multiturn.engine.record import to_json
    from multiturn.pipelines.pipeline_file import load_pipeline

    chosen, failures = load_pipeline(pipeline), Failures(debug=options.debug)
    for conversion in failures.conversions(outcomes(options.select(), chosen)):
        if format_ == "json":
            click.echo(to_json(explain_line(conversion)), nl=False)
        else:
            click.echo(as_explanation(conversion))
    failures.finish()


@click.command()
@suite_options
@click.option(
    "--from",
    "old",
    metavar="PIPELINE",
    default="spec",
    show_default=True,
    shell_complete=complete_pipeline,
    help="The pipeline to compare with.",
)
@click.option(
    "--to",
    "new",
    metavar="PIPELINE",
    required=True,
    shell_complete=complete_pipeline,
    help="The pipeline whose changes are shown.",
)
@quiet_option
@_format_option
def diff(options: SuiteOptions, old: str, new: str, format_: str) -> None:
    """Show what another pipeline would change.

    Each case that differs is shown as a unified diff; the exit code is then 1.
    """
    from multiturn.cli.drawing import as_diff
    from multiturn.cli.lines import DiffLine
    from multiturn.engine.outcomes import read_cases
    from multiturn.engine.record import to_json
    from multiturn.pipelines.pipeline_file import load_pipeline

    before, after = load_pipeline(old), load_pipeline(new)
    failures = Failures(debug=options.debug)
    compared = same = 0
    for read in read_cases(options.select()):
        first = read.converted(before, strict=options.strict)
        second = read.converted(after, strict=options.strict) if first.error is None else first
        if second.error is not None:
            failures.add(second.error)
        elif first.conversion is not None and second.conversion is not None:
            compared += 1
            changes = as_diff(first.conversion, second.conversion, old, new)
            same += not changes
            if format_ == "json":
                found = first.conversion.case
                line = DiffLine(found.suite, found.id, click.unstyle(changes) or None)
                click.echo(to_json(line), nl=False)
            else:
                click.echo(changes, nl=False)
    if format_ == "text":
        say_summary(f"{number_of(compared, 'case')}: {same} same, {compared - same} differ")
    failures.finish()
    sys.exit(same < compared)
