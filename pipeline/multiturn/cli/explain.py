"""The command that shows where each text of a prompt comes from."""

import click

from multiturn.cli.failures import Failures
from multiturn.cli.options import (
    SuiteOptions,
    case_format_option,
    pipeline_option,
    preview_options,
    preview_provider,
    suite_options,
)
from multiturn.errors import MultiturnError


@click.command()
@suite_options
@pipeline_option
@preview_options
@case_format_option
def explain(
    options: SuiteOptions,
    pipeline: str,
    preview_target: str | None,
    targets_file: str | None,
    format_: str,
) -> None:
    """Show where each text of a prompt comes from.

    Segments that are not where they were written are listed, too: moved, merged, referenced or
    dropped, by which stage and rule.
    """
    from multiturn.cli.drawing import as_explanation
    from multiturn.cli.lines import explain_line
    from multiturn.engine.explanation import explain as find_origins
    from multiturn.engine.outcomes import outcomes
    from multiturn.engine.preview import explain_for
    from multiturn.engine.record import to_json
    from multiturn.pipelines.pipeline_file import read_pipeline

    provider = preview_provider(preview_target, targets_file)
    chosen, failures = read_pipeline(pipeline), Failures(debug=options.debug)
    for conversion in failures.conversions(outcomes(options.select(), chosen)):
        try:
            found = (
                find_origins(conversion) if provider is None else explain_for(conversion, provider)
            )
        except MultiturnError as error:
            failures.add(error)
            continue
        if format_ == "json":
            click.echo(to_json(explain_line(found)), nl=False)
        else:
            click.echo(as_explanation(found))
    failures.finish()
