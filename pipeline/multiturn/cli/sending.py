"""The part of ``multiturn run`` that prints results, progress and summaries."""

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import closing, suppress
from typing import Any

import click

from multiturn.cli.costs import say_estimate, say_spending
from multiturn.cli.exits import exit_code
from multiturn.cli.failures import Failures
from multiturn.cli.options import on_terminal, say_summary
from multiturn.cli.progress import Progress, estimate
from multiturn.cli.rendering import to_result_text
from multiturn.engine.budget import LimitReachedError
from multiturn.engine.costs import Estimate
from multiturn.engine.delivery import Delivery
from multiturn.engine.order import Order
from multiturn.engine.prefixes import SharedPrefixes
from multiturn.engine.record import to_json
from multiturn.engine.run import Run
from multiturn.engine.runner import answers
from multiturn.errors import MultiturnError
from multiturn.providers.failures import ENDS_RUN
from multiturn.providers.results import Result
from multiturn.text import first_of, in_line, number_of


class Tally:
    """Prints the errors of cases, and counts what became of them.

    Args:
        failures: prints and counts the errors.
        show: gets each result of a case; results that are written into a file are not shown.
    """

    def __init__(self, failures: Failures, show: Callable[[Result], None] | None = None) -> None:
        self.failures = failures
        self.show = show
        self.actions: Counter[str] = Counter()  # number of cases by their action
        self.done = 0  # number of cases with a result in this run
        self.answers: Counter[str | None] = Counter()  # number of those by kind of answer
        self.retried = 0  # number of those whose request was repeated
        self.repaired = 0  # number of those whose prompt was repaired
        self.rules: set[str] = set()  # ids of the rules that required it
        self.is_denied = False  # whether the provider denied access; no more cases are sent then

    @property
    def seen(self) -> int:
        """Number of cases so far."""
        return self.actions.total()

    def add(self, delivery: Delivery) -> None:
        """Print and count a case."""
        self.actions[delivery.action] += 1
        if not delivery.has_result:
            return
        result = delivery.result
        if self.show is not None and result.id:
            self.show(result)
        self.done += 1
        self.retried += result.retries > 0
        self.answers[result.answer] += 1
        if delivery.action == "send" and result.repairs:
            self.repaired += 1
            self.rules |= {repair.partition(":")[0] for repair in result.repairs}
        self._add_failure(delivery)

    def _add_failure(self, delivery: Delivery) -> None:
        failure = delivery.result.error
        if failure is None:
            return
        if isinstance(delivery.error, MultiturnError):
            self.failures.add(delivery.error)
        elif failure.type not in ENDS_RUN:
            self.failures.say(failure.message)
        elif not self.is_denied:
            self.is_denied = True
            self.failures.say(f"{failure.message}; no more cases are sent")
        else:
            self.failures.count += 1

    def summary(self) -> str:
        """Return how many cases were answered, reused and failed."""
        failed, reused = self.failures.count, self.actions["reuse"]
        kinds = {"empty": self.answers["empty"], "refused": self.answers["refusal"]}
        noted = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items() if count)
        of_these = f" ({noted})" if noted else ""
        return f"{self.done - failed:,} answered{of_these}, {reused:,} reused, {failed:,} failed"

    def repairs(self) -> str:
        """Return how many prompts were repaired, and by which rules, as a clause of a summary."""
        if not self.repaired:
            return ""
        return f"; {self.repaired:,} sent with repairs: {', '.join(sorted(self.rules))}"


def name_removed(ids: Sequence[str], path: str | None) -> None:
    """Print which results of a file are of cases that the suites no longer have."""
    if ids:
        what = f"{path} still has {number_of(len(ids), 'result')} of cases"
        click.echo(in_line(f"{what} that are no longer in the suites: {first_of(ids)}"), err=True)


def print_json(result: Result) -> None:
    """Print a result as a line of JSON."""
    sys.stdout.buffer.write(to_json(result))
    sys.stdout.buffer.flush()


def print_text(result: Result) -> None:
    """Print an answer for reading; standard error has the errors."""
    if result.error is None:
        sys.stdout.buffer.write(to_result_text(result, color=on_terminal()))
        sys.stdout.buffer.flush()


def preview(run: Run, deliveries: Iterable[Delivery], tally: Tally) -> None:
    """Print what would be sent, as JSON lines, and what it would cost."""
    found = Estimate(run.budget.price, SharedPrefixes(run.provider))
    for delivery in deliveries:
        tally.add(delivery)
        found.add(delivery)
        if delivery.action in ("skip", "unreadable"):
            continue
        result, wire = delivery.result, delivery.wire
        line = {
            "suite": result.suite,
            "id": result.id,
            "target": result.target,
            "action": delivery.action,
            "repairs": result.repairs,
            "error": result.error,
            "input_tokens": None if delivery.tokens is None else delivery.tokens.count,
            "wire": None if wire is None else wire.shown.decode(),
        }
        sys.stdout.buffer.write(to_json(line))
    sys.stdout.buffer.flush()
    counts = tally.actions
    say_summary(
        f"{counts['send']:,} to send, {counts['reuse']:,} to reuse, {counts['refuse']:,} refused;"
        " nothing was sent",
        err=True,
    )
    say_estimate(found, run.provider)
    run.budget.check(found, run.provider)


def send(run: Run, tally: Tally, *, concurrency: int, order: Order) -> None:
    """Send the cases of a run, and print what becomes of each."""
    ended_by, stopped = signal.SIGINT, None

    def end(number: signal.Signals, task: "asyncio.Task[None]") -> None:
        nonlocal ended_by
        ended_by = number
        task.cancel()

    def show_counts() -> None:
        words = f"{tally.done:,} done, {tally.failures.count:,} failed, {tally.retried:,} retried"
        progress.update(tally.seen, words)

    async def main(deliveries: AsyncGenerator[Delivery, None]) -> None:
        this: Any = asyncio.current_task()
        with suppress(NotImplementedError, AttributeError):  # Windows has no such signals
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
                asyncio.get_running_loop().add_signal_handler(number, end, number, this)
        async with run.provider:
            async for delivery in deliveries:
                tally.add(delivery)
                show_counts()

    is_mixed = run.path is None and sys.stdout.isatty()  # with answers, on the same terminal
    with closing(Progress(lambda: estimate(run.selection), hidden=is_mixed)) as progress:
        show_counts()
        try:
            asyncio.run(main(answers(run, concurrency=concurrency, order=order)))
        except (KeyboardInterrupt, asyncio.CancelledError):
            path = run.results_path()
            kept = f": finished results are in {path}; continue with --resume" if path else ""
            progress.close()
            say_spending(run.budget.spending, run.budget.price)
            what = f"interrupted after {number_of(tally.done, 'case')}{kept}"
            click.echo(in_line(what), err=True)
            sys.exit(exit_code(ended_by))
        except LimitReachedError as error:
            stopped = error
    path = run.results_path()
    if run.results is not None and not (tally.is_denied or run.selection.is_partial or stopped):
        name_removed(run.results.strays(), path)
    counts = f"{tally.summary()}, {tally.retried:,} retried"
    say_summary(f"{counts}{f': {path}' if path else ''}{tally.repairs()}", err=True)
    say_spending(run.budget.spending, run.budget.price)
    if stopped is not None:
        kept = f"; finished results are in {path}; continue with --resume" if path else ""
        tally.failures.say(in_line(f"{stopped}{kept}"))
