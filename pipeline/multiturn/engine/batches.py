"""From cases to results through a vendor's batches, so that a killed process loses nothing.

Each step is recorded before the next one begins: the cases of a part, the id of its file, the id of
its batch, and that its results are stored. A batch that may have been created without a record is
looked for first.
"""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import closing
from functools import cached_property
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Self, TypeVar

from msgspec.structs import replace

from multiturn.engine.batch_state import BatchState, Target, Waiting
from multiturn.engine.filling import Filling
from multiturn.engine.runner import Prepared, answered, failed, prepare
from multiturn.errors import MultiturnError
from multiturn.model import Case
from multiturn.pipelines.pipeline import Pipeline
from multiturn.providers.base import ProviderError
from multiturn.providers.batches import batches_of
from multiturn.providers.batches.base import Look, Part, may_pass, places
from multiturn.providers.results import Result, ResultsFile, is_stored, key_of
from multiturn.text import number_of

_T = TypeVar("_T")
_CREATIONS = 3  # attempts to create a batch that is not found afterwards


class Batch:
    """The batches of a run; a context manager.

    Args:
        provider: of the target.
        output: path of the results file.
        poll: seconds between two checks of the status.
        say: called with messages for the user.

    Raises:
        MultiturnError: the provider has no batches, or another target's are under way.

    Attributes:
        looks: the last known status of each part under way, by token.
    """

    def __init__(
        self, provider: Any, output: str, *, poll: float, say: Callable[[str], None]
    ) -> None:
        self.api = batches_of(provider)
        self.provider = provider
        self.poll = poll
        self.say = say
        self.looks: dict[str, Look] = {}
        self._folder = os.path.dirname(os.path.abspath(output))
        self.state = BatchState(output)
        self._target = Target(
            provider.name, provider.kind, provider.settings.model, provider.address()
        )
        if self.state.under_way and self.state.target != self._target:
            what = f"a batch of the target {self.state.target and self.state.target.name!r}, or of"
            what += " other settings, is under way; finish it with that target"
            raise MultiturnError(what, where=self.state.path)

    def __enter__(self) -> Self:
        self.provider.check()
        self._runner = asyncio.Runner()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._runner.run(self.provider.aclose())
        finally:
            self._runner.close()
            self.state.close()

    @property
    def requests(self) -> int:
        """Number of requests under way."""
        return sum(part.requests for part in self.state.under_way)

    @cached_property
    def _waiting(self) -> Waiting:
        return self.state.waiting()

    def settle(self) -> None:
        """Find the batches of parts that were being sent; create those of uploaded parts.

        Raises:
            ProviderError: the vendor refuses, or cannot be reached.
        """
        for part in self.state.under_way:
            if part.batch or self._found(part):
                continue
            if part.file and not self.state.canceled:
                self._create(part, None)
            else:
                self.state.keep(replace(part, ended=True))

    def submit(
        self,
        cases: Iterable[Case],
        pipeline: Pipeline,
        skip: Callable[[Result], bool],
        *,
        record_wire: bool = False,
    ) -> Iterator[Result]:
        """Send the requests of cases in parts; cases with the same request share one.

        Args:
            cases: the cases.
            pipeline: converts them.
            skip: as for ``run``.
            record_wire: as for ``run``.

        Yields:
            The result of each case that fails before it is sent.

        Raises:
            ProviderError: the vendor refuses a part, or cannot be reached.
        """
        waiting = self._waiting
        with closing(Filling(self.api, self._folder)) as filling:
            for case in cases:
                prepared = prepare(case, pipeline, self.provider)
                result = prepared.result
                if result.error is not None:
                    yield result
                    continue
                key, digest = key_of(result), bytes.fromhex(result.digest)
                waiting.outdate(key, digest)
                if waiting.latest.get(key) == digest or skip(result):
                    continue
                if digest not in waiting.tokens:
                    line = self.api.line(result.digest, _body(prepared))
                    if filling.is_full(line):
                        self._send(filling)
                    filling.add(line)
                    waiting.tokens[digest] = filling.part.token
                if record_wire:
                    result = replace(result, wire=_body(prepared).decode())
                self._ask(waiting.tokens[digest], str(case.where()), result)
            if filling.part.requests:
                self._send(filling)
        self.state.keep()

    def _ask(self, part: str, where: str, result: Result) -> None:
        if self.state.target is None:
            self.state.start(self._target)
        self.state.ask(part, where, result)

    def _send(self, filling: Filling) -> None:
        """Upload a part, create its batch, and begin a new part."""
        part = filling.finish()
        part.after = self._run(self.api.newest())
        if self.api.uploads:  # no batch exists without its file
            part = replace(part, file=self._run(self.api.upload(part, filling.file)))
        self.state.keep(part)
        self._create(part, filling.file)
        filling.begin()

    def _create(self, part: Part, file: BinaryIO | None) -> None:
        for tries_left in reversed(range(_CREATIONS)):
            try:
                self._created(part, self._run(self.api.create(part, file)))
            except ProviderError as error:
                if not may_pass(error):
                    if file is not None:  # only this process has tried, and nothing was created
                        self.state.keep(replace(part, ended=True))
                    raise
                self.say(f"no batch was created, or nobody said so: {error.what}")
                if self._found(part):
                    return
                if not tries_left:
                    raise
            else:
                return

    def _created(self, part: Part, batch: str) -> None:
        self.state.keep(replace(part, batch=batch))
        self.say(f"{batch}: {number_of(part.requests, 'request')}, {part.size:,} bytes")

    def _found(self, part: Part) -> bool:
        """Look for the batch of a part; twice, because a vendor may be slow to list it."""
        others = {other.batch for other in self.state.parts.values()}
        misses, said = 0, ""
        while True:
            found = self._run(self.api.find(part, others, lambda: self.state.digests(part)))
            if found.batch:
                self._created(part, found.batch)
                return True
            if found.undecided:
                what = f"once {' and '.join(found.undecided)} ended: nothing else tells whose it is"
            elif misses:
                return False
            else:
                what = "once more, before anything is sent again"
                misses = 1
            requests = number_of(part.requests, "request")
            if what != said:
                self.say(f"looking for a batch of {requests} in {self.poll:g} s, {what}")
            said = what
            time.sleep(self.poll)

    def collect(self, results: ResultsFile, *, wait: bool) -> Iterator[Result | None]:
        """Yield the result of each case of the batches that have ended, and None after each look.

        Args:
            results: the caller writes each result into it before it asks for the next one.
            wait: whether to wait until all batches have ended.

        Raises:
            ProviderError: the vendor refuses to give a batch; all others are done.
        """
        refused: dict[str, ProviderError] = {}
        while True:
            for part in self.state.under_way:
                if part.token in refused:
                    continue
                try:
                    look = self._look(part)
                    if look.ended:
                        yield from self._results(part, look, results)
                        results.sync()
                        self.state.keep(replace(part, ended=True))
                except ProviderError as error:
                    if not may_pass(error):
                        refused[part.token] = error
                        continue
                    self.say(f"{part.batch}: {error.what}; asking again in {self.poll:g} s")
            yield None
            if refused and (not wait or len(refused) == len(self.state.under_way)):
                raise next(iter(refused.values()))
            if not self.state.under_way:
                self.state.forget()
                return
            if not wait:
                return
            time.sleep(self.poll)

    def _look(self, part: Part) -> Look:
        look = self._run(self.api.look(part.batch))
        before = self.looks.get(part.token)
        if before is None or before.state != look.state:
            self.say(f"{part.batch}: {look.state}")
        self.looks[part.token] = look
        return look

    def _results(self, part: Part, look: Look, results: ResultsFile) -> Iterator[Result]:
        with TemporaryFile(dir=self._folder) as file:
            self._run(self.api.fetch(part.batch, look, file))
            found = places(file)
            for where, result in self.state.asked(part):
                identity = key_of(result) + bytes.fromhex(result.digest)
                if is_stored(result, results.stored) or identity in self._waiting.outdated:
                    continue
                try:
                    if result.digest not in found:
                        raise look.unanswered(part.batch)
                    file.seek(found[result.digest])
                    yield answered(result, self.api.read(file.readline()))
                except ProviderError as error:
                    yield failed(result, where, error)

    def cancel(self) -> None:
        """Ask the vendor to end all batches under way, and send no more parts.

        Raises:
            ProviderError: a batch cannot be asked for.
        """
        self.state.cancel()
        known = {part.token for part in self.state.under_way if part.batch}
        for part, look in self.look():
            if not look.ended:
                self._run(self.api.cancel(part.batch))
        self.settle()
        for part in self.state.under_way:
            if part.token not in known:
                self._run(self.api.cancel(part.batch))

    def look(self) -> Iterator[tuple[Part, Look]]:
        """Yield each part under way with the status of its batch.

        Raises:
            ProviderError: a batch cannot be asked for.
        """
        for part in self.state.under_way:
            if part.batch:
                yield part, self._run(self.api.look(part.batch))

    def _run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        return self._runner.run(coroutine)


def _body(prepared: Prepared) -> bytes:
    assert prepared.wire is not None  # noqa: S101 - every provider with batches has a wire format
    return prepared.wire.body
