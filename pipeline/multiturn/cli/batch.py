"""The part of ``multiturn run`` that sends batches, and the commands that manage them."""

from contextlib import closing
from typing import TYPE_CHECKING

import click

from multiturn.cli.failures import Failures, say
from multiturn.cli.options import PATH, say_summary, targets_option
from multiturn.text import in_line, number_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multiturn.cli.sending import Tally
    from multiturn.engine.batches import Batches
    from multiturn.engine.delivery import Delivery
    from multiturn.engine.run import Run


def preview_batch(run: "Run", deliveries: "Iterator[Delivery]", tally: "Tally") -> None:
    """Print how many requests, parts and bytes would go where."""
    from multiturn.cli.costs import say_estimate
    from multiturn.engine.dry_batch import DryBatchRun

    batches = DryBatchRun(run, deliveries)
    for delivery in batches.submit():
        tally.add(delivery)
    target = batches.target
    requests = number_of(sum(part.requests for part in batches.parts), "request")
    size = sum(part.size for part in batches.parts)
    where = ", ".join(filter(None, (target.provider, target.model, *target.address)))
    click.echo(f"{requests} in {number_of(len(batches.parts), 'part')}, {size:,} bytes, to {where}")
    counts = tally.actions
    say_summary(
        f"{counts['reuse']:,} to reuse, {counts['refuse']:,} refused; nothing was sent", err=True
    )
    say_estimate(batches.estimate, run.provider)
    run.budget.check(batches.estimate, run.provider)


def send_batch(run: "Run", tally: "Tally", *, poll: float, wait: bool) -> None:
    """Send the cases of a run in batches, and print what becomes of them."""
    from multiturn.cli.costs import say_spending
    from multiturn.cli.progress import Progress
    from multiturn.cli.sending import name_removed
    from multiturn.engine.batch_run import BatchRun
    from multiturn.errors import MultiturnError
    from multiturn.providers.failures import ProviderError

    advice = f"continue with --resume --batch, or cancel with: multiturn batch cancel {run.path}"
    with (
        BatchRun(run, poll=poll, say=_say) as batches,
        closing(Progress(lambda: batches.requests, hidden=False)) as progress,
    ):
        try:
            for delivery in batches.deliveries(wait=wait):
                if delivery is not None:
                    tally.add(delivery)
                    continue
                answered = sum(status.answered or 0 for status in batches.statuses.values())
                progress.update(answered, f"{answered:,} answered")
        except KeyboardInterrupt:
            progress.close()
            _say(f"interrupted; the provider still works on what was submitted; {advice}")
            raise
        except ProviderError as error:
            last = f"to give up what was submitted, remove {batches.state.path}"
            raise MultiturnError(f"{error}; {advice}; {last}") from None
        left = batches.requests
    path = run.results_path()
    if run.results is not None and not run.selection.is_partial:
        name_removed([*batches.removed, *run.results.strays()], path)
    if left:
        _say(f"{number_of(left, 'request')} under way; get their results with --resume --batch")
    say_summary(f"{tally.summary()}: {path}{tally.repairs()}", err=True)
    say_spending(run.budget.spending, run.budget.price)


def _say(text: str) -> None:
    say(in_line(text))


@click.group()
def batch() -> None:
    """Show or cancel the batches of run --batch."""


@batch.command()
@click.argument("results", type=PATH)
@targets_option
def status(results: str, targets_file: str | None) -> None:
    """Print the state of each batch of the results file RESULTS."""
    from multiturn.providers.failures import ProviderError

    failures = Failures()
    with _open(results, targets_file) as batches:
        for part in batches.state.under_way:
            requests = number_of(part.requests, "request")
            if not part.batch:
                click.echo(f"{requests} not yet in a batch; continue with --resume --batch")
                continue
            try:
                found = batches.status_of(part)
            except ProviderError as error:
                failures.say(f"{part.batch}: {error.what}")
                continue
            count = "" if found.answered is None else f"{found.answered:,} of "
            click.echo(in_line(f"{part.batch}: {found.state}, {count}{requests}"))
            if found.why:
                click.echo(f"  {in_line(found.why)}")
    failures.finish()


@batch.command()
@click.argument("results", type=PATH)
@targets_option
def cancel(results: str, targets_file: str | None) -> None:
    """Cancel the batches of the results file RESULTS.

    Answers so far are kept.
    """
    with _open(results, targets_file) as batches:
        batches.cancel()
    click.echo("canceled; run the same command with --resume --batch to get the answers so far")


def _open(results: str, targets_file: str | None) -> "Batches":
    """Return the batches under way for a results file.

    Raises:
        MultiturnError: nothing is.
    """
    from multiturn.engine.batch_state import BatchState
    from multiturn.engine.batches import Batches, nothing_under_way
    from multiturn.providers.targets import find_target

    state = BatchState(results)
    if state.target is None or not state.under_way:
        raise nothing_under_way(results)
    provider = find_target(state.target.name, file=targets_file)
    return Batches(provider, results, poll=60, say=_say)
