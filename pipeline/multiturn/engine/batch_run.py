"""Runs in batches: cases are sent through a vendor's Batch API; a killed run can be continued."""

import math
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, Unpack

from msgspec.structs import replace

from multiturn.engine.arguments import want_no_loop
from multiturn.engine.batch_state import Waiting
from multiturn.engine.batches import Batches
from multiturn.engine.delivery import Delivery, answered, failed
from multiturn.engine.run import Run, RunOptions
from multiturn.errors import ProviderError
from multiturn.model.case import Case
from multiturn.pipelines.pipeline import Pipeline
from multiturn.providers.base import LARGEST_ANSWER, Provider
from multiturn.providers.batch_api import BatchPart, BatchStatus, may_pass, places
from multiturn.providers.results import Result, key_of


def run_batches(
    cases: Iterable[Case] | str | Path,
    pipeline: Pipeline | str | Path | None,
    provider: Provider,
    results: str | Path,
    *,
    wait: bool = True,
    poll: float = 60,
    say: Callable[[str], object] | None = None,
    **options: Unpack[RunOptions],
) -> Iterator[Result]:
    """Send the cases through the provider's Batch API, and yield each result once it is there.

    A case that cannot be read or converted yields its result first. What is under way is recorded
    in a file beside the results, so that a later call with ``resume`` sends nothing twice, even if
    this process is killed. It blocks, and has an event loop of its own: inside another one, call it
    in a thread, as in ``await asyncio.to_thread(list, run_batches(...))``.

    Args:
        cases: as for ``run``.
        pipeline: as for ``run``.
        provider: of a target; it must have a Batch API.
        results: path of the file to append each result to, before it is yielded.
        wait: whether to wait until all batches have ended; else they are only sent, and the results
            of those that have ended are yielded.
        poll: seconds between two checks of the status.
        say: called with messages about the batches, such as their ids and states.
        options: as for ``run``. ``resume`` also continues the batches that are under way for the
            file. ``max_cost`` and ``max_tokens`` limit the input and the most output together,
            because nobody can stop a batch.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: arguments do not go together.
        RuntimeError: it is called inside an event loop.
        ProviderError: the vendor refuses a batch, or cannot be reached.
        MultiturnError: as for ``run``; or the provider has no batches, or others are under way.
        OSError: a file cannot be written.
    """
    if not 0 < poll < math.inf:
        raise ValueError("poll must be a number of seconds, such as 60")
    want_no_loop("run_batches")
    with (
        Run(cases, pipeline, provider, results=results, batch=True, **options) as run,
        BatchRun(run, poll=poll, say=say or (lambda _: None)) as batches,
    ):
        for delivery in batches.deliveries(wait=wait):
            if delivery is not None and delivery.has_result:
                yield delivery.result


class BatchRun(Batches):
    """The batches of a run that is open; ``poll`` and ``say`` are as for ``Batches``."""

    def __init__(self, run: Run, *, poll: float, say: Callable[[str], object]) -> None:
        if run.path is None:
            raise ValueError("batches need a file of results; name it with results")
        super().__init__(run.provider, run.path, poll=poll, say=say)
        self.run = run
        self.removed: list[str] = []  # ids of cases with a result that the suites no longer have
        self._seen: set[bytes] = set()  # keys of the results of this run's cases
        self._suites: set[str] = set()  # of these cases

    @property
    def requests(self) -> int:
        """Number of requests under way."""
        return sum(part.requests for part in self.state.under_way)

    @property
    def _folder(self) -> str:
        return os.path.dirname(os.path.abspath(self.state.path))

    @cached_property
    def _waiting(self) -> tuple[dict[bytes, str], dict[bytes, bytes]]:
        return self.state.waiting()

    def deliveries(self, *, wait: bool = True) -> Iterator[Delivery | None]:
        """Yield each case with its result, which is then in the file; None after each status.

        A case that is not sent is yielded, too, but not one that is already under way.

        Args:
            wait: whether to wait until all batches have ended.

        Raises:
            ProviderError: the vendor refuses, or cannot be reached.
        """
        if not self.state.under_way:
            self.run.check_budget()
        with self.state.alone(self.say):
            self.settle()
        if not self.state.canceled:
            for delivery in self.submit():
                if delivery.has_result:
                    self.run.keep(delivery)
                yield delivery
        if self.state.canceled:
            self.say(
                "this run was canceled: it sends no more requests, and keeps the answers so far"
            )
        yield from self._collect(wait)

    def submit(self) -> Iterator[Delivery]:
        """Send the requests of the cases in parts; yield the cases that are not sent.

        Cases with the same request share one.
        """
        tokens, latest = self._waiting
        before, between, after = self.api.frame
        part = _new_part()
        with TemporaryFile(dir=self._folder) as file:
            for delivery in self._deliveries():
                result = delivery.result
                key = key_of(result)
                self._seen.add(key)
                self._suites.add(result.suite)
                if delivery.wire is None:  # there is an error
                    yield delivery
                    continue
                digest = bytes.fromhex(result.digest)
                if latest.get(key) == digest:
                    continue
                if key in latest:
                    latest[key] = digest  # the answer under way is outdated
                if not delivery.has_result:
                    yield delivery
                    continue
                if digest not in tokens:
                    line = self.api.line(result.digest, delivery.wire.body)
                    size = file.tell() + len(between) + len(line) + len(after)
                    is_full = size > self.api.most_bytes or part.requests == self.api.most_requests
                    if is_full and part.requests:
                        self._finish(part, file)
                        if self.state.canceled:
                            return
                        part = _new_part()
                    file.write((between if part.requests else before) + line)
                    part = replace(part, requests=part.requests + 1)
                    tokens[digest] = part.token
                if self.run.record_wire:
                    result = replace(result, wire=delivery.wire.body.decode())
                self._ask(Waiting(tokens[digest], delivery.where, result))
            if part.requests:
                self._finish(part, file)

    def _deliveries(self) -> Iterator[Delivery]:
        return self.run.deliveries()

    def _ask(self, asked: Waiting) -> None:
        if self.state.target is None:
            self.state.start(self.target)
        self.state.ask(asked)

    def _finish(self, part: BatchPart, file: BinaryIO) -> None:
        """Send a part, and empty its file."""
        file.write(self.api.frame[2])
        part = replace(part, size=file.tell())
        file.seek(0)
        self._send(part, file)
        file.seek(0)
        file.truncate()

    def _send(self, part: BatchPart, file: BinaryIO) -> None:
        """Send a part, unless another process has canceled the batches meanwhile."""
        with self.state.alone(self.say):
            if not self.state.canceled:
                part = self.call(self.api.prepare, part, file)
                self.state.keep(part)
                self.create(part, file)

    def _collect(self, wait: bool) -> Iterator[Delivery | None]:
        """Yield the cases of batches that have ended, with their results.

        An error of one batch is raised once the others have ended.
        """
        parts = self.state.under_way
        refused = []
        while parts:
            for part in list(parts):
                try:
                    before, status = self.statuses.get(part.token), self.status_of(part)
                    if before is None or before.state != status.state:
                        self.say(f"{part.batch}: {status.state}")
                    if status.ended:
                        yield from self._results(part, status)
                        self.run.sync()
                        self.state.keep(replace(part, ended=True))
                        parts.remove(part)
                except ProviderError as error:
                    if may_pass(error):
                        self.say(f"{part.batch}: {error.what}; asking again in {self.poll:g} s")
                    else:
                        refused.append(error)
                        parts.remove(part)
            yield None
            if not parts or not wait:
                break
            time.sleep(self.poll)
        if refused:
            raise refused[0]
        with self.state.alone(self.say):
            self.state.forget()

    def _results(self, part: BatchPart, status: BatchStatus) -> Iterator[Delivery]:
        """Yield the cases that wait for a part that has ended, each with its result."""
        _, latest = self._waiting
        with TemporaryFile(dir=self._folder) as file:
            self.call(self.api.fetch, status, file)
            found = places(file)
            for waiting in self.state.asked(part):
                result = waiting.result
                digest = bytes.fromhex(result.digest)
                key = key_of(result)
                if latest.get(key, digest) != digest:
                    continue  # its case has another request now
                if key not in self._seen and result.suite in self._suites:
                    self.removed.append(result.id)
                try:
                    if result.digest not in found:
                        why = status.why or f"{part.batch} ended without an answer to this request"
                        raise ProviderError(f"batch_{status.state}: {why}", kind="batch")
                    file.seek(found[result.digest])
                    answer = self.api.read(file.readline(LARGEST_ANSWER + 1))
                    thinking = self.run.record_thinking
                    result = answered(result, answer, with_thinking=thinking)
                except ProviderError as error:
                    self.api.provider.teach(error)
                    result = failed(result, waiting.where, error)
                delivery = Delivery("send", result, where=waiting.where)
                self.run.keep(delivery)
                yield delivery


def _new_part() -> BatchPart:
    return BatchPart(secrets.token_hex(16))
