"""The command that sends suites to a provider."""

import math
import os
from contextlib import nullcontext

import click

from multiturn.cli.completion import complete_target
from multiturn.cli.options import (
    PATH,
    SuiteOptions,
    default_format,
    is_default,
    pipeline_option,
    quiet_option,
    say_summary,
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
    "--against",
    metavar="REV",
    help="Send only new cases, and those whose request has changed since this Git revision.",
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
    help="Add the exact request body to each result, as 'wire'.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Send nothing: print what would be sent, and every wire rule that a case breaks.",
)
@click.option(
    "--batch",
    is_flag=True,
    help="Send through the provider's Batch API, at half the price and within a day, and wait for"
    " the results; needs --output.",
)
@click.option("--no-wait", is_flag=True, help="With --batch: exit once everything is submitted.")
@click.option(
    "--poll",
    metavar="SECONDS",
    type=click.FloatRange(0, min_open=True),
    default=60,
    show_default=True,
    help="With --batch: time between checks whether the batches have ended.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["json", "text"]),
    help="Format of results on standard output: JSON lines, or text for reading."
    "  [default: text on a terminal, else json]",
)
@quiet_option
def run(
    options: SuiteOptions,
    pipeline: str,
    target: str,
    targets_file: str | None,
    output: str | None,
    resume: bool,
    against: str | None,
    concurrency: int,
    record_wire: bool,
    dry_run: bool,
    batch: bool,
    no_wait: bool,
    poll: float,
    format_: str | None,
) -> None:
    """Convert eval suites, and send the prompts to a target.

    SUITE is what convert takes. A case that fails is reported and does not stop the others; the
    exit code is then 1.
    """
    from multiturn.cli.batch import check_batch, preview_batch, send_batch
    from multiturn.cli.failures import Failures, writing
    from multiturn.cli.sending import (
        Sending,
        check_strictly,
        digests_at,
        preview,
        print_json,
        print_text,
        send,
    )
    from multiturn.engine.selection import suite_names
    from multiturn.pipelines.pipeline_file import read_pipeline
    from multiturn.providers.results import ResultsFile, read_stored
    from multiturn.providers.targets import load_target
    from multiturn.text import number_of, visible

    if resume and output is None:
        raise click.UsageError("--resume continues the file that --output names; add --output")
    if batch and output is None:
        raise click.UsageError("--batch writes results into a file; name one with --output")
    if not batch and (no_wait or not is_default("poll")):
        raise click.UsageError("--no-wait and --poll are for --batch; add it, or leave them out")
    if not poll < math.inf:
        raise click.UsageError("--poll takes a number of seconds, such as 60")
    chosen, selection = read_pipeline(pipeline), options.select()
    failures = Failures(debug=options.debug)
    with writing(output):
        provider = load_target(target, file=targets_file)
        if output is not None:
            check_batch(provider, output, batch=batch, resume=resume)
        if not dry_run:
            provider.check()  # before an output is opened
        if options.strict:
            check_strictly(selection, chosen, failures)
        sending = Sending(selection, suite_names(selection), chosen, provider, failures)
        if against is not None:
            sending.earlier = digests_at(against, selection, pipeline, provider)
        if dry_run:
            if resume and output and os.path.exists(output):
                sending.stored = read_stored(output)
            if batch and output is not None:
                preview_batch(sending, output)
            else:
                preview(sending)
        else:
            with nullcontext() if output is None else ResultsFile(output, resume=resume) as results:
                is_text = (format_ or default_format(output)) == "text"
                sending.write = print_text if is_text else print_json
                if results:
                    sending.stored, sending.write = results.stored, results.append
                if batch and results:
                    wait = not no_wait
                    send_batch(sending, results, record_wire=record_wire, poll=poll, wait=wait)
                else:
                    send(sending, results, concurrency=concurrency, record_wire=record_wire)
    if against is not None:
        what = f"{number_of(sending.actions['leave out'], 'case')} left out"
        say_summary(visible(f"{what}, whose requests are the same at {against}"), err=True)
    failures.finish()
