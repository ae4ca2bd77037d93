"""The command that lists suites and their cases."""

from typing import TYPE_CHECKING

import click

from multiturn.cli.failures import Failures
from multiturn.cli.options import SuiteOptions, case_format_option, pipeline_option, suite_options
from multiturn.text import in_line, number_of

if TYPE_CHECKING:
    from multiturn.model.conversion import Conversion


@click.command("list")
@suite_options
@pipeline_option
@case_format_option
def list_cases(options: SuiteOptions, pipeline: str, format_: str) -> None:
    """List suites and their cases.

    Of each case: its id, messages, attached files and guidelines.

    SUITE is what convert takes. A case that cannot be converted is reported and skipped; the exit
    code is then 1.
    """
    from multiturn.engine.outcomes import outcomes
    from multiturn.engine.record import to_json
    from multiturn.pipelines.pipeline_file import read_pipeline

    failures, listed = Failures(debug=options.debug), ""
    chosen = read_pipeline(pipeline)
    for conversion in failures.conversions(outcomes(options.select(), chosen)):
        case = conversion.case
        if format_ == "json":
            click.echo(to_json(_entry(conversion)), nl=False)
            continue
        if case.suite != listed:
            listed = case.suite
            click.secho(in_line(case.suite), bold=True)
        click.echo(f"  {in_line(case.id)}: {in_line(_words(conversion))}")
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
