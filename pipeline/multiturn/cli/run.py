"""The command that sends suites to a provider, and those that manage its batches."""

import math
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import click

from multiturn.cli import options as shared
from multiturn.cli.printing import Failures, echo, say_line, say_summary, writing
from multiturn.text import in_line, number_of

if TYPE_CHECKING:
    from multiturn.engine.batches import Batches
    from multiturn.engine.run import Order, RunOptions


def _rate(_context: click.Context, _param: click.Parameter, text: str | None) -> int | None:
    if text is not None and not re.fullmatch("0*[1-9][0-9]{0,8}/min", text):
        what = "write the number of requests in a minute, such as 100/min"
        raise click.BadParameter(f"{what}, and at most 999999999/min")
    return None if text is None else int(text.removesuffix("/min"))


@shared.suite_command("run")
@shared.target_options(
    "Target to send prompts to; echo sends nothing, and answers with the messages, before the"
    " repairs that a vendor requires. Repeatable: each target answers every case.",
    several=("echo",),
)
@shared.output_option(
    "File to append each result to, as a line of JSON, as soon as there is an answer."
    "  [default: standard output]"
)
@shared.defaulted(
    "--repeat",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=1,
    help="Ask each case N times; each result has its number, as 'repeat'.",
)
@shared.flag(
    "--resume",
    help="Continue an earlier run: cases that succeeded and whose request is unchanged are not"
    " sent again.",
)
@shared.file_option(
    "--reuse",
    metavar="OLD",
    help="Copy from the results of an earlier run what is unchanged, and send the rest; needs"
    " --output, another file.",
)
@click.option(
    "--against",
    metavar="REV",
    help="Send only new cases, and those whose request has changed since this Git revision.",
)
@shared.defaulted(
    "--concurrency",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=8,
    help="Maximum number of concurrent requests to each target.",
)
@click.option(
    "--rate",
    metavar="N/min",
    callback=_rate,
    help="Maximum number of requests to each target in any 60 seconds, retries included.",
)
@shared.defaulted(
    "--order",
    type=click.Choice(["prefixes", "suite"]),
    default="prefixes",
    help="Order of sending: prefixes keeps cases together whose prompts begin in the same way, and"
    " sends the first of them before the others, if the vendor caches prompts; suite is that of"
    " the suites.",
)
@shared.flag("--record-wire", help="Add the exact request body to each result, as 'wire'.")
@shared.flag("--record-thinking", help="Add what the model thought to each result, as 'thinking'.")
@shared.flag(
    "--dry-run",
    help="Send nothing: print what would be sent, as a table or as lines of JSON with the bodies,"
    " and every wire rule that a case breaks.",
)
@shared.flag(
    "--count-tokens",
    help="With --dry-run: have the vendor count the tokens of each request; this needs the key.",
)
@shared.prices_option
@click.option(
    "--max-cost",
    metavar="DOLLARS",
    type=click.FloatRange(0, min_open=True),
    help="Send nothing if the input alone costs more, and no more requests once that is spent; each"
    " target may cost as much.",
)
@click.option(
    "--max-tokens",
    metavar="N",
    type=click.IntRange(1),
    help="Likewise, for the tokens of each target, input and output together.",
)
@shared.flag(
    "--batch",
    help="Send through the provider's Batch API, at half the price and within a day, and wait for"
    " the results; needs --output.",
)
@shared.flag("--no-wait", help="With --batch: exit once everything is submitted.")
@shared.defaulted(
    "--poll",
    metavar="SECONDS",
    type=click.FloatRange(0, min_open=True),
    default=60,
    help="With --batch: time between two checks of the batches' status.",
)
@shared.format_option(
    *("json", "text"),
    words="Format of results on standard output: JSON lines, or text for reading.",
    by_output=True,
)
@shared.quiet_option
def run_suites(
    options: shared.SuiteOptions,
    output: str | None,
    concurrency: int,
    order: "Order",
    dry_run: bool,
    count_tokens: bool,
    batch: bool,
    no_wait: bool,
    poll: float,
    **run_options: Unpack["RunOptions"],
) -> None:
    """Convert eval suites, and send the prompts to a target.

    SUITE is what convert takes. A case that fails is reported and does not stop the others; the
    exit code is then 1. With --strict, all requests are prepared first, and nothing is sent after
    an error.
    """
    from multiturn.cli import sending
    from multiturn.engine.run import Run, counted
    from multiturn.engine.target import load_target

    _check_options(click.get_current_context().params)
    selection = options.select()
    show = partial(sending.print_result, as_text=options.format_ == "text")
    tally = sending.Tally(options.failures, show if output is None and not dry_run else None)
    # What is to be sent again depends on the address, which must then be known.
    sends = run_options["resume"] or not dry_run
    with writing(output):
        file = options.targets_file
        providers = [load_target(name, file=file, sends=sends) for name in options.targets]
        chosen = Run(
            *(selection, options.pipeline, providers),
            results=output,
            batch=batch,
            is_dry=dry_run,
            is_default=shared.is_default("pipeline"),
            **run_options,
        )
        if options.strict:
            rehearsed = sending.Tally(options.failures)
            for case in chosen.rehearse():
                rehearsed.add(case)
            options.failures.finish()
        if dry_run:
            dry = counted(chosen, concurrency=concurrency) if count_tokens else chosen.cases()
            sending.preview(chosen, dry, tally, as_text=options.format_ == "text")
        else:
            with chosen:
                if batch:
                    sending.send_batch(chosen, tally, poll=poll, wait=not no_wait)
                else:
                    sending.send_cases(chosen, tally, concurrency=concurrency, order=order)
    if (against := run_options["against"]) is not None:
        unchanged = number_of(tally.actions["skip"], "unchanged case")
        say_summary(f"{unchanged} skipped (compared with {against})", err=True)


def _check_options(given: dict[str, Any]) -> None:
    """Refuse options that do not go together."""
    from multiturn.providers.targets import DEFAULT

    is_echo = given["target"] == (DEFAULT,) and shared.is_default("target")
    output, batch, max_cost = given["output"], given["batch"], given["max_cost"]
    refused = {
        "--targets is for --target; add it": given["targets_file"] is not None and is_echo,
        "--resume continues the file that --output names; add --output": given["resume"]
        and output is None,
        "--reuse copies answers into the file that --output names; add --output": output is None
        and given["reuse"] is not None,
        "--batch writes results into a file; name one with --output": batch and output is None,
        "--rate limits single requests, not batches; leave it out": batch and given["rate"],
        "--no-wait and --poll are for --batch; add it, or leave them out": not batch
        and (given["no_wait"] or not shared.is_default("poll")),
        "--count-tokens is for --dry-run; add it": given["count_tokens"] and not given["dry_run"],
        "--poll takes a number of seconds, such as 60, and at most 86400": not given["poll"]
        <= 86400,
        "--max-cost takes a number of dollars, such as 5": max_cost is not None
        and not max_cost < math.inf,
    }
    for what, is_wrong in refused.items():
        if is_wrong:
            raise click.UsageError(what)


@click.group()
def batch() -> None:
    """Show or cancel the batches of run --batch."""


@batch.command(cls=shared.MultiturnCommand)
@click.argument("results", type=shared.PATH)
@shared.targets_option
def status(results: str, targets_file: str | None) -> None:
    """Print the state of each batch of the results file RESULTS."""
    from multiturn.errors import ProviderError

    failures = Failures()
    with _open(results, targets_file) as batches:
        for part in batches.state.under_way:
            requests = number_of(part.requests, "request")
            if not part.batch:
                echo(f"{requests} not yet in a batch; continue with --resume --batch")
                continue
            try:
                found = batches.status_of(part)
            except ProviderError as error:
                failures.say(f"{part.batch}: {error.what}")
                continue
            count = "" if found.answered is None else f"{found.answered:,} of "
            echo(in_line(f"{part.batch}: {found.state}, {count}{requests}"))
            if found.why:
                echo(f"  {in_line(found.why)}")
    failures.finish()


@batch.command(cls=shared.MultiturnCommand)
@click.argument("results", type=shared.PATH)
@shared.targets_option
def cancel(results: str, targets_file: str | None) -> None:
    """Cancel the batches of the results file RESULTS.

    Answers so far are kept.
    """
    with _open(results, targets_file) as batches:
        batches.cancel()
    echo("canceled; run the same command with --resume --batch to get the answers so far")


def _open(results: str, targets_file: str | None) -> "Batches":
    """Return the batches under way for a results file; that there are none is an error."""
    from multiturn.engine.batches import Batches, BatchState, nothing_under_way
    from multiturn.providers.targets import find_target

    state = BatchState(results)
    if not state.under_way:
        raise nothing_under_way(results)
    names = dict.fromkeys(part.target for part in state.under_way)
    providers = [find_target(name, file=targets_file) for name in names]
    return Batches(providers, results, poll=60, say=say_line)
