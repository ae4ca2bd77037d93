"""Sending for ``multiturn run``: ask the provider, and write each result at once."""

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import chain, islice, takewhile
from typing import Any

import click
from msgspec import Struct, field

from multiturn.case import Case
from multiturn.cli.failures import Failures
from multiturn.cli.options import is_default, on_terminal, say_summary
from multiturn.cli.progress import Progress, estimate
from multiturn.cli.rendering import to_result_text
from multiturn.engine.outcomes import outcomes, read_cases
from multiturn.engine.record import to_json
from multiturn.engine.runner import prepare, run
from multiturn.engine.selection import Selection
from multiturn.errors import MultiturnError
from multiturn.pipelines.pipeline import Pipeline
from multiturn.providers.results import Failure, Result, ResultsFile, is_stored, key_of
from multiturn.text import first_of, number_of, utf8, visible

Write = Callable[[Result], None]


class Sending(Struct):
    """What a run has to send, which of it need not be sent, and what has become of it."""

    selection: Selection
    names: Mapping[str, str]  # of its suites, by their paths
    pipeline: Pipeline
    provider: Any
    failures: Failures
    stored: Mapping[bytes, str] = {}  # digests of stored answers, by the keys of their results
    earlier: Mapping[bytes, str] = {}  # those of the requests at a revision, by such keys, too
    write: Write = lambda _: None  # gets each result
    actions: Counter[str] = field(default_factory=Counter)  # number of cases by what is done
    seen: int = 0  # cases read
    done: int = 0  # of those with a result in this run
    retried: int = 0  # of those whose request was repeated
    is_denied: bool = False  # the provider has denied access, as it would for every case

    def cases(self) -> Iterator[Case]:
        """Yield each selected case; write a result for each that cannot be read."""
        for outcome in read_cases(self.selection):
            self.seen += 1
            if outcome.case is not None:
                yield outcome.case
            elif outcome.error is not None:
                self.done += 1
                self.failures.add(outcome.error)
                if outcome.error.case_id:
                    self.write(self._unreadable(self.names[outcome.suite], outcome.error))

    def _unreadable(self, suite: str, error: MultiturnError) -> Result:
        case_id, failure = error.case_id or "", Failure("conversion", utf8(str(error)))
        return Result(suite=utf8(suite), id=case_id, target=self.provider.name, error=failure)

    def decide(self, result: Result) -> str:
        """Say and count what is done with a case.

        ``reuse`` where there is an answer, ``leave out`` for the request of the revision, else
        ``send``, or ``refuse`` for an error.
        """
        action = "send" if result.error is None else "refuse"
        if is_stored(result, self.stored):
            action = "reuse"
        elif is_stored(result, self.earlier):
            action = "leave out"
        self.actions[action] += 1
        return action

    def skips(self, result: Result) -> bool:
        """Decide on a case, and return whether it is not sent."""
        return self.decide(result) != "send"

    def add(self, result: Result) -> None:
        """Write and count the result of a case."""
        self.write(result)
        self.done += 1
        self.retried += result.retries > 0
        if result.error is None:
            return
        if result.error.type != "access_denied":
            self.failures.say(result.error.message)
        elif not self.is_denied:
            self.is_denied = True
            self.failures.say(f"{result.error.message}; no more cases are sent")
        else:
            self.failures.count += 1

    def summary(self) -> str:
        """Return how many cases were answered, reused and failed."""
        failed, reused = self.failures.count, self.actions["reuse"]
        return f"{self.done - failed:,} answered, {reused:,} reused, {failed:,} failed"


def check_strictly(selection: Selection, pipeline: Pipeline, failures: Failures) -> None:
    """Convert all cases before the first is sent, and end the process on an error.

    They are read again to be sent: memory never holds them all.
    """
    for path in selection.suites:
        if not os.path.isfile(path):
            what = f"--strict reads a suite twice, and {path!r} can be read only once"
            raise MultiturnError(f"{what}; write it to a file")
    for _ in failures.conversions(outcomes(selection, pipeline)):
        pass
    failures.finish()


def digests_at(
    revision: str, selection: Selection, pipeline: str, provider: Any
) -> dict[bytes, str]:
    """Return the digest of each request as it was at a revision, by the key of its result.

    Raises:
        MultiturnError: there is no such revision, or the suites or the pipeline were unreadable.
    """
    from multiturn.engine.git import commit_of
    from multiturn.engine.revision import reading_at, requests_of

    digests = {}
    with reading_at(
        *(commit_of(revision), requests_of, selection, pipeline), is_default=is_default("pipeline")
    ) as then:
        for request in then:
            result = Result(suite=utf8(request.suite), id=request.eval_id, target=provider.name)
            with suppress(Exception):  # what a provider refuses has no digest
                digests[key_of(result)] = provider.wire(request).digest()
    return digests


def print_json(result: Result) -> None:
    """Print a result as a line of JSON."""
    sys.stdout.buffer.write(to_json(result))
    sys.stdout.buffer.flush()


def print_text(result: Result) -> None:
    """Print an answer for reading; standard error has the errors."""
    if result.error is None:
        sys.stdout.buffer.write(to_result_text(result, color=on_terminal()))
        sys.stdout.buffer.flush()


def preview(sending: Sending) -> None:
    """Print what would be sent, as JSON lines."""
    for case in sending.cases():
        prepared = prepare(case, sending.pipeline, sending.provider)
        result, wire = prepared.result, prepared.wire
        action = sending.decide(result)
        if action == "leave out":
            continue
        if result.error is not None:
            sending.failures.say(result.error.message)
        line = {
            "suite": result.suite,
            "id": result.id,
            "target": result.target,
            "action": action,
            "repairs": result.repairs,
            "error": result.error,
            "wire": None if wire is None else wire.body.decode(),
        }
        sys.stdout.buffer.write(to_json(line))
    sys.stdout.buffer.flush()
    counts = sending.actions
    say_summary(
        f"{counts['send']:,} to send, {counts['reuse']:,} to reuse, {counts['refuse']:,} refused;"
        " nothing was sent",
        err=True,
    )


def send(
    sending: Sending,
    results: ResultsFile | None,
    *,
    concurrency: int,
    record_wire: bool,
) -> None:
    """Send the cases, and write each result as soon as there is an answer."""
    source = sending.cases()
    ended_by = signal.SIGINT.value

    def end(number: int, task: "asyncio.Task[None]") -> None:
        nonlocal ended_by
        ended_by = number
        task.cancel()

    def skip(result: Result) -> bool:
        if results is not None:
            results.touch(result)
        return sending.skips(result)

    def show_counts() -> None:
        words = (
            f"{sending.done:,} done, {sending.failures.count:,} failed, {sending.retried:,} retried"
        )
        finished = max(sending.done, sending.seen - concurrency)  # reused ones are, too
        progress.update(finished, words)

    async def main() -> None:
        this = asyncio.current_task()
        assert this is not None  # noqa: S101 - this coroutine runs in a task
        with suppress(NotImplementedError, AttributeError):  # Windows has no such signals
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
                asyncio.get_running_loop().add_signal_handler(number, end, number, this)
        async with sending.provider:
            async for result in run(
                takewhile(lambda _: not sending.is_denied, chain(first, source)),
                sending.pipeline,
                sending.provider,
                concurrency=concurrency,
                skip=skip,
                record_wire=record_wire,
            ):
                sending.add(result)
                show_counts()

    torn = results is None and sys.stdout.isatty()
    with Progress(lambda: estimate(sending.selection), hidden=torn, after=0) as progress:
        show_counts()
        try:
            first = list(islice(source, 1))  # Ctrl-C ends the wait for a pipe only outside the loop
            asyncio.run(main())
        except (KeyboardInterrupt, asyncio.CancelledError):
            if results is not None:
                results.keep()
            kept = f"; {results.path} has what is done, --resume goes on" if results else ""
            progress.__exit__()
            click.echo(f"interrupted after {number_of(sending.done, 'case')}{kept}", err=True)
            sys.exit(128 + ended_by)
    if results is None:
        return
    results.keep()
    strays = [] if sending.is_denied or sending.selection.case_ids else results.strays()
    if strays:
        what = f"{results.path} keeps {number_of(len(strays), 'result')} of cases"
        click.echo(f"{what} that the suites no longer have: {visible(first_of(strays))}", err=True)
    say_summary(f"{sending.summary()}, {sending.retried:,} retried: {results.path}", err=True)
