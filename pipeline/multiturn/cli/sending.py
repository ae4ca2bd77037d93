"""Sending for ``multiturn run``: ask the provider, and write each result at once."""

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, islice, takewhile
from typing import Any

import click

from multiturn.cli.failures import Failures
from multiturn.cli.options import is_default, say_summary
from multiturn.cli.progress import Progress, estimate
from multiturn.cli.rendering import to_result_text
from multiturn.engine.outcomes import cases
from multiturn.engine.runner import prepare, run
from multiturn.engine.selection import Selection
from multiturn.errors import MultiturnError
from multiturn.model import Case, ProviderRequest
from multiturn.pipelines.pipeline import Pipeline
from multiturn.prompts.record import to_json, utf8
from multiturn.providers.results import Failure, Result, ResultsFile, is_stored, key_of
from multiturn.suites.suite import STDIN
from multiturn.text import number_of, visible

Write = Callable[[Result], None]


class Plan:
    """Decides which cases are sent, and counts them.

    Args:
        stored: the digests of stored answers, by the keys of their results.
        earlier: the digests of the requests at a revision, by such keys, too.
    """

    def __init__(self, stored: Mapping[bytes, str], earlier: Mapping[bytes, str]) -> None:
        self.stored = stored
        self.earlier = earlier
        self.counts: Counter[str] = Counter()

    def action(self, result: Result) -> str:
        """Return ``reuse`` where there is an answer, ``leave out`` for the request of the revision.

        Else ``send``, or ``refuse`` for an error.
        """
        action = "send" if result.error is None else "refuse"
        if is_stored(result, self.stored):
            action = "reuse"
        elif is_stored(result, self.earlier):
            action = "leave out"
        self.counts[action] += 1
        return action

    def skips(self, result: Result) -> bool:
        """Return whether a case is not sent; it is counted."""
        return self.action(result) != "send"


def digests_at(
    revision: str, selection: Selection, pipeline: str, provider: Any
) -> dict[bytes, str]:
    """Return the digest of each request as it was at a revision, by the key of its result.

    Raises:
        MultiturnError: there is no such revision, or the suites or the pipeline were unreadable.
    """
    from multiturn.engine.git import commit_of
    from multiturn.engine.revision import reading_at, requests

    digests = {}
    with reading_at(
        *(commit_of(revision), requests, selection, pipeline), is_default=is_default("pipeline")
    ) as then:
        for request in then:
            case = Case(id=request.eval_id, input_messages=(), suite=request.suite)
            result = prepare(case, _returning(request), provider).result
            if result.error is None:
                digests[key_of(result)] = result.digest
    return digests


def _returning(request: ProviderRequest) -> Callable[[Case], ProviderRequest]:
    return lambda _: request


@contextmanager
def open_results(output: str | None, resume: bool) -> Iterator[ResultsFile | None]:
    """Open the results file, or give None to print results; tidy the file at the end."""
    if output is None:
        yield None
        return
    with ResultsFile(output, resume=resume) as results:
        yield results
        results.tidy()


def printer(format_: str, *, color: bool) -> Write:
    """Return a function that writes a result to standard output."""

    def write(result: Result) -> None:
        if format_ == "text" and result.error is not None:
            return  # standard error has it
        text = to_result_text(result, color=color) if format_ == "text" else to_json(result)
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()

    return write


def read_cases(selection: Selection, failures: Failures) -> Iterator[Case]:
    """Yield each selected case; report errors to ``failures``."""
    for outcome in cases(selection):
        if outcome.error is not None:
            failures.add(outcome.error)
        elif outcome.case is not None:
            yield outcome.case


def preview(
    selection: Selection,
    pipeline: Pipeline,
    provider: Any,
    plan: Plan,
    failures: Failures,
) -> None:
    """Print what would be sent, as JSON lines."""
    for case in read_cases(selection, failures):
        prepared = prepare(case, pipeline.request, provider)
        result = prepared.result
        action = plan.action(result)
        if action == "leave out":
            continue
        if result.error is not None:
            failures.say(result.error.message)
        line = {
            "suite": result.suite,
            "id": result.id,
            "target": result.target,
            "action": action,
            "repairs": result.repairs,
            "error": result.error,
            "wire": None if prepared.wire is None else prepared.wire.body.decode(),
        }
        sys.stdout.buffer.write(to_json(line))
    sys.stdout.buffer.flush()
    counts = plan.counts
    say_summary(
        f"{counts['send']:,} to send, {counts['reuse']:,} to reuse, {counts['refuse']:,} refused;"
        " nothing was sent",
        err=True,
    )


def _unreadable(suite: str, error: MultiturnError, target: str) -> Result:
    """Return the result of a case that cannot be read."""
    failure = Failure("conversion", utf8(str(error)))
    name = STDIN if suite == "-" else suite
    return Result(suite=utf8(name), id=error.case_id or "", target=target, error=failure)


class Tally:
    """Writes and counts results.

    Args:
        write: gets each result.
        failures: gets the error of each that has one.

    Attributes:
        seen: number of cases read.
        done: of those with a result in this run.
        failed: of those with an error.
        retried: of those whose request was repeated.
        denied: whether the provider has denied access, as it would for every case.
    """

    def __init__(self, write: Write, failures: Failures) -> None:
        self.write = write
        self.failures = failures
        self.seen = self.done = self.failed = self.retried = 0
        self.denied = False

    def read(self, selection: Selection, provider: Any) -> Iterator[Case]:
        """Yield each selected case; write a result for each that cannot be read."""
        for outcome in cases(selection):
            self.seen += 1
            if outcome.case is not None and outcome.error is None:
                yield outcome.case
                continue
            self.done, self.failed = self.done + 1, self.failed + 1
            if outcome.error is not None:
                self.failures.add(outcome.error)
                if outcome.error.case_id:
                    self.write(_unreadable(outcome.suite, outcome.error, provider.name))

    def add(self, result: Result) -> None:
        """Write and count the result of a case."""
        self.write(result)
        self.done += 1
        self.retried += result.retries > 0
        if result.error is None:
            return
        self.failed += 1
        if result.error.type != "access_denied":
            self.failures.say(result.error.message)
        elif not self.denied:
            self.denied = True
            self.failures.say(f"{result.error.message}; no more cases are sent")
        else:
            self.failures.count += 1

    def summary(self, plan: Plan) -> str:
        """Return how many cases were answered, reused and failed."""
        answered, reused = self.done - self.failed, plan.counts["reuse"]
        return f"{answered:,} answered, {reused:,} reused, {self.failures.count:,} failed"


def send(
    selection: Selection,
    pipeline: Pipeline,
    provider: Any,
    results: ResultsFile | None,
    plan: Plan,
    write: Write,
    concurrency: int,
    record_wire: bool,
    failures: Failures,
) -> None:
    """Send the cases, and write each result as soon as there is an answer."""
    tally = Tally(write, failures)
    ended_by = signal.SIGINT.value

    def end(number: int, task: "asyncio.Task[None]") -> None:
        nonlocal ended_by
        ended_by = number
        task.cancel()

    def skip(result: Result) -> bool:
        if results is not None and results.untouched:
            results.untouched.discard(key_of(result))
        return plan.skips(result)

    def show_counts() -> None:
        words = f"{tally.done:,} done, {tally.failed:,} failed, {tally.retried:,} retried"
        progress.update(max(tally.done, tally.seen - concurrency), words)  # reused are over, too

    async def main() -> None:
        this = asyncio.current_task()
        assert this is not None  # noqa: S101 - this coroutine runs in a task
        with suppress(NotImplementedError, AttributeError):  # Windows has no such signals
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
                asyncio.get_running_loop().add_signal_handler(number, end, number, this)
        async with provider:
            async for result in run(
                takewhile(lambda _: not tally.denied, chain(first, source)),
                pipeline,
                provider,
                concurrency=concurrency,
                skip=skip,
                record_wire=record_wire,
            ):
                tally.add(result)
                show_counts()

    source = tally.read(selection, provider)
    with ExitStack() as stack:
        torn = results is None and sys.stdout.isatty()
        progress = Progress(lambda: estimate(selection), hidden=torn, after=0)
        stack.enter_context(progress)
        show_counts()
        try:
            first = list(islice(source, 1))  # Ctrl-C ends the wait for a pipe only outside the loop
            asyncio.run(main())
        except (KeyboardInterrupt, asyncio.CancelledError):
            if results is not None:
                results.keep()
            kept = f"; {results.path} has what is done, --resume goes on" if results else ""
            stack.close()
            click.echo(f"interrupted after {number_of(tally.done, 'case')}{kept}", err=True)
            sys.exit(128 + ended_by)
    if results is not None:
        results.keep()
        strays = [] if tally.denied or selection.case_ids else results.strays()
        if strays:
            names = visible(", ".join([*strays[:3], *(["..."] if strays[3:] else [])]))
            what = f"{results.path} keeps {number_of(len(strays), 'result')} of cases"
            click.echo(f"{what} that the suites no longer have: {names}", err=True)
        summary = f"{tally.summary(plan)}, {tally.retried:,} retried: {results.path}"
        say_summary(summary, err=True)
