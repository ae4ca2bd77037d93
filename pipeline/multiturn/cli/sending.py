"""Sending for ``multiturn run``: ask the provider, and write each result at once."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, islice
from typing import Any

import click

from multiturn.cli.failures import Failures
from multiturn.cli.progress import Progress, estimate
from multiturn.cli.rendering import to_result_text
from multiturn.engine.outcomes import cases
from multiturn.engine.runner import is_stored, prepare, run
from multiturn.engine.selection import Selection
from multiturn.errors import MultiturnError
from multiturn.model import Case
from multiturn.pipelines.pipeline import Pipeline
from multiturn.prompts.record import to_json, utf8
from multiturn.providers.results import Failure, Result, ResultsFile, read_stored
from multiturn.suites.suite import STDIN
from multiturn.text import number_of

Write = Callable[[Result], None]


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
        text = to_json(result)
        if format_ == "text":
            text = to_result_text(result, color=color)
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
    output: str | None,
    failures: Failures,
) -> None:
    """Print what would be sent, as JSON lines."""
    stored = read_stored(output) if output is not None and os.path.exists(output) else {}
    counts = {"send": 0, "reuse": 0, "refuse": 0}
    for case in read_cases(selection, failures):
        prepared = prepare(case, pipeline.request, provider)
        result = prepared.result
        action = "send"
        if result.error is not None:
            action = "refuse"
            failures.say(result.error.message)
        elif is_stored(prepared, stored):
            action = "reuse"
        counts[action] += 1
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
    click.echo(
        f"{counts['send']:,} to send, {counts['reuse']:,} to reuse, {counts['refuse']:,} refused;"
        " nothing was sent",
        err=True,
    )


def _unreadable(suite: str, error: MultiturnError, target: str) -> Result:
    """Return the result of a case that cannot be read."""
    failure = Failure("conversion", utf8(str(error)))
    name = STDIN if suite == "-" else suite
    return Result(suite=utf8(name), id=error.case_id or "", target=target, error=failure)


def send(
    selection: Selection,
    pipeline: Pipeline,
    provider: Any,
    results: ResultsFile | None,
    write: Write,
    concurrency: int,
    record_wire: bool,
    failures: Failures,
) -> None:
    """Send the cases, and write each result as soon as there is an answer."""
    seen = done = failed = retried = 0
    ended_by = signal.SIGINT.value

    def counted() -> Iterator[Case]:
        nonlocal seen, done, failed
        for outcome in cases(selection):
            seen += 1
            if outcome.case is not None and outcome.error is None:
                yield outcome.case
                continue
            done, failed = done + 1, failed + 1
            if outcome.error is not None:
                failures.add(outcome.error)
                if outcome.error.case_id:
                    write(_unreadable(outcome.suite, outcome.error, provider.name))

    def end(number: int, task: "asyncio.Task[None]") -> None:
        nonlocal ended_by
        ended_by = number
        task.cancel()

    def count(result: Result) -> None:
        nonlocal done, failed, retried
        done += 1
        retried += result.retries > 0
        if result.error is not None:
            failed += 1
            failures.say(result.error.message)
        show_counts()

    def show_counts() -> None:
        words = f"{done:,} done, {failed:,} failed, {retried:,} retried"
        progress.update(max(done, seen - concurrency), words)  # those reused are over, too

    async def main() -> None:
        this = asyncio.current_task()
        assert this is not None  # noqa: S101 - this coroutine runs in a task
        with suppress(NotImplementedError, AttributeError):  # Windows has no such signals
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
                asyncio.get_running_loop().add_signal_handler(number, end, number, this)
        async with provider:
            async for result in run(
                chain(first, source),
                pipeline,
                provider,
                concurrency=concurrency,
                stored=results.stored if results else None,
                record_wire=record_wire,
            ):
                write(result)
                count(result)

    source = counted()
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
            click.echo(f"interrupted after {number_of(done, 'case')}{kept}", err=True)
            sys.exit(128 + ended_by)
    if results is not None:
        results.keep()
        click.echo(
            f"{done - failed:,} answered, {seen - done:,} reused,"
            f" {failures.count:,} failed, {retried:,} retried: {results.path}",
            err=True,
        )
