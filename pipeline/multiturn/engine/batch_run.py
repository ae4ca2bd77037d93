"""From cases to results through a vendor's batches, so that a killed process loses nothing."""

import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from tempfile import TemporaryFile
from typing import Any, BinaryIO

from msgspec.structs import replace

from multiturn.case import Case
from multiturn.engine.batch_state import Waiting
from multiturn.engine.batches import Batches
from multiturn.engine.runner import answered, failed, prepare
from multiturn.pipelines.pipeline import Pipeline
from multiturn.providers.base import ProviderError
from multiturn.providers.batches.base import BatchPart, BatchStatus, may_pass, places
from multiturn.providers.results import Result, ResultsFile, key_of


class BatchRun(Batches):
    """A run in batches."""

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

    def run(
        self,
        cases: Iterable[Case],
        pipeline: Pipeline,
        skip: Callable[[Result], bool],
        results: ResultsFile,
        *,
        wait: bool = True,
        record_wire: bool = False,
    ) -> Iterator[Result | None]:
        """Yield the result of each case, and None after each look at the batches.

        Args:
            cases: the cases.
            pipeline: converts them.
            skip: as for the ``run`` of single requests.
            results: the caller writes each result into it before it asks for the next one.
            wait: whether to wait until all batches have ended.
            record_wire: add the exact body to each result.

        Raises:
            ProviderError: the vendor refuses, or cannot be reached.
        """
        self.settle()
        if self.state.canceled:
            self.say("this batch was canceled: nothing more is sent, and what was answered is kept")
        else:
            yield from self.submit(cases, pipeline, skip, record_wire=record_wire)
        yield from self._collect(results, wait)

    def submit(
        self,
        cases: Iterable[Case],
        pipeline: Pipeline,
        skip: Callable[[Result], bool],
        *,
        record_wire: bool = False,
    ) -> Iterator[Result]:
        """Send the requests of cases in parts; yield the results of those that fail before it.

        Cases with the same request share one. The arguments are those of ``run``.
        """
        tokens, latest = self._waiting
        before, between, after = self.api.frame
        part = _new_part()
        with TemporaryFile(dir=self._folder) as file:
            for case in cases:
                prepared = prepare(case, pipeline, self.provider)
                result = prepared.result
                if prepared.wire is None:  # it failed
                    yield result
                    continue
                key, digest = key_of(result), bytes.fromhex(result.digest)
                if latest.get(key) == digest:
                    continue
                if key in latest:
                    latest[key] = digest  # the answer under way is outdated
                if skip(result):
                    continue
                if digest not in tokens:
                    line = self.api.line(result.digest, prepared.wire.body)
                    size = file.tell() + len(between) + len(line) + len(after)
                    is_full = size > self.api.most_bytes or part.requests == self.api.most_requests
                    if is_full and part.requests:
                        self._finish(part, file)
                        part = _new_part()
                    file.write((between if part.requests else before) + line)
                    part = replace(part, requests=part.requests + 1)
                    tokens[digest] = part.token
                if record_wire:
                    result = replace(result, wire=prepared.wire.body.decode())
                self._ask(Waiting(tokens[digest], str(case.where()), result))
            if part.requests:
                self._finish(part, file)

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
        part = self.call(self.api.prepare, part, file)
        self.state.keep(part)
        self.create(part, file)

    def _collect(self, results: ResultsFile, wait: bool) -> Iterator[Result | None]:
        """Yield the results of batches that have ended; raise an error of one after the others."""
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
                        results.sync()
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
        self.state.forget()

    def _results(self, part: BatchPart, status: BatchStatus) -> Iterator[Result]:
        _, latest = self._waiting
        with TemporaryFile(dir=self._folder) as file:
            self.call(self.api.fetch, status, file)
            found = places(file)
            for waiting in self.state.asked(part):
                result = waiting.result
                digest = bytes.fromhex(result.digest)
                if latest.get(key_of(result), digest) != digest:
                    continue  # its case has another request now
                try:
                    if result.digest not in found:
                        why = status.why or f"{part.batch} ended without an answer to this request"
                        raise ProviderError(f"batch_{status.state}: {why}", kind="batch")
                    file.seek(found[result.digest])
                    yield answered(result, self.api.read(file.readline()))
                except ProviderError as error:
                    yield failed(result, waiting.where, error)


class DryBatchRun(BatchRun):
    """A run in batches whose parts are counted, not sent."""

    def __init__(self, provider: Any, output: str) -> None:
        super().__init__(provider, output, poll=0, say=lambda _: None)
        self.parts: list[BatchPart] = []

    def _ask(self, asked: Waiting) -> None:
        """Record nothing."""

    def _send(self, part: BatchPart, file: BinaryIO) -> None:
        self.parts.append(part)


def _new_part() -> BatchPart:
    return BatchPart(secrets.token_hex(16))
