"""The command that shows where each text of a prompt comes from."""

import click

from multiturn.cli.failures import Failures
from multiturn.cli.options import SuiteOptions, case_format_option, pipeline_option, suite_options


@click.command()
@suite_options
@pipeline_option
@case_format_option
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
