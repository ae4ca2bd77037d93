"""The commands that manage the batches of ``multiturn run``."""

from typing import TYPE_CHECKING

import click

from multiturn.cli.options import PATH, MultiturnCommand, targets_option
from multiturn.cli.printing import Failures, echo, say_line
from multiturn.text import in_line, number_of

if TYPE_CHECKING:
    from multiturn.engine.batches import Batches


@click.group()
def batch() -> None:
    """Show or cancel the batches of run --batch."""


@batch.command(cls=MultiturnCommand)
@click.argument("results", type=PATH)
@targets_option
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


@batch.command(cls=MultiturnCommand)
@click.argument("results", type=PATH)
@targets_option
def cancel(results: str, targets_file: str | None) -> None:
    """Cancel the batches of the results file RESULTS.

    Answers so far are kept.
    """
    with _open(results, targets_file) as batches:
        batches.cancel()
    echo("canceled; run the same command with --resume --batch to get the answers so far")


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
    return Batches(provider, results, poll=60, say=say_line)
