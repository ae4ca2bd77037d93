"""The command that sends suites to a provider."""

import click

from multiturn.cli.completion import complete_target
from multiturn.cli.options import (
    PATH,
    Asked,
    check_strictly,
    on_terminal,
    pipeline_option,
    suite_options,
    targets_option,
)


@click.command()
@suite_options
@pipeline_option
@click.option(
    "--target",
    metavar="NAME",
    default="echo",
    show_default=True,
    shell_complete=complete_target,
    help="Target to send prompts to.",
)
@targets_option
@click.option(
    "--output",
    metavar="FILE",
    type=PATH,
    help="File to append each result to, as a line of JSON, as soon as there is an answer."
    "  [default: standard output]",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Continue an earlier run: cases that succeeded and whose request is unchanged are not"
    " sent again.",
)
@click.option(
    "--concurrency",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=8,
    show_default=True,
    help="Maximum number of concurrent requests.",
)
@click.option(
    "--record-wire",
    is_flag=True,
    help="Add the exact body to each result, as 'wire'.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Send nothing: print what would be sent, and every wire rule that a case breaks.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["json", "text"]),
    default="json",
    show_default=True,
    help="Format of results on standard output: JSON lines, or text for reading.",
)
def run(
    asked: Asked,
    pipeline: str,
    target: str,
    targets_file: str | None,
    output: str | None,
    resume: bool,
    concurrency: int,
    record_wire: bool,
    dry_run: bool,
    format_: str,
) -> None:
    """Convert eval suites, and send them to a provider.

    SUITE is what convert takes. A case that fails is reported and does not stop the others; the
    exit code is then 1.
    """
    from multiturn.cli.failures import Failures, writing
    from multiturn.cli.sending import open_results, preview, printer, send
    from multiturn.pipelines.pipeline_file import load_pipeline
    from multiturn.providers.targets import load_target

    if resume and output is None:
        raise click.UsageError("--resume continues the file that --output names; add --output")
    chosen, selection = load_pipeline(pipeline), asked.select()
    failures = Failures(debug=asked.debug)
    with writing(output):
        provider = load_target(target, file=targets_file)
        check_strictly(asked, selection, chosen)
        if dry_run:
            stored = output if resume else None
            preview(selection, chosen, provider, stored, failures)
        else:
            with open_results(output, resume) as results:
                write = results.append if results else printer(format_, color=on_terminal())
                send(
                    selection, chosen, provider, results, write, concurrency, record_wire, failures
                )
    failures.finish()
