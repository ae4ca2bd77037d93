"""Runs in batches: cases are sent through a vendor's Batch API; a killed run can be continued.

Each step is recorded before the next one begins: the cases of a part, the id of its file, the id of
its batch, and that its results are stored. If a batch may have been created without a record of it,
the vendor's list is searched for it before another one is created.
"""

import asyncio
import os
import secrets
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Self, TypeVar, Unpack

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from multiturn.documents.input import lines_of, open_regular
from multiturn.documents.output import lock, open_locked, open_output
from multiturn.engine.run import Providers, Run, RunCase, RunOptions, want_no_loop
from multiturn.errors import BatchEndedError, MultiturnError, ProviderError, option
from multiturn.files.paths import StrPath
from multiturn.model.case import Case
from multiturn.pipelines.pipeline import Pipeline
from multiturn.providers.base import LARGEST_ANSWER, TargetProvider, opened
from multiturn.providers.batch_api import BatchApi, BatchPart, BatchStatus, may_pass, places
from multiturn.providers.results import Result, key_of, request_id, state_path
from multiturn.providers.secrets import hide
from multiturn.providers.targets import batches_of
from multiturn.text import number_of


class Target(Struct, frozen=True, tag_field="is", tag="target"):
    """A target of the batches, without its key."""

    name: str
    provider: str
    model: str
    address: tuple[str, ...]


class Canceled(Struct, frozen=True, tag_field="is", tag="canceled"):
    """No more parts may be sent."""


class Waiting(Struct, frozen=True, tag_field="is", tag="asked"):
    """A case that waits for an answer; cases with the same request have the same part."""

    part: str  # its token
    where: str  # the place of the case, for errors
    result: Result  # without the answer


_Record = Target | BatchPart | Canceled | Waiting
_decode = msgspec.json.Decoder(_Record).decode


class BatchState:
    """The state file of a run in batches: lines of JSON, of which a later one about a part wins."""

    def __init__(self, output: str) -> None:
        self.path = state_path(output)
        self._file: BinaryIO | None = None
        self._clear()
        self._catch_up()
        if not self.targets and os.path.exists(self.path):
            raise MultiturnError("this is not the state of a batch; move it away", where=self.path)
        if not self.under_way:  # the last run was killed before it removed the file
            self._clear()

    @contextmanager
    def alone(self, say: Callable[[str], object]) -> Iterator[None]:
        """Wait until no other process creates or cancels batches; note what others have written."""

        def wait(file: BinaryIO) -> None:
            try:
                lock(file, wait=False)
            except BlockingIOError:
                say("another process is sending or canceling batches of these results; waiting")
                lock(file)

        with ExitStack() as ending:
            try:
                ending.enter_context(open_locked(self.path, "rb", wait))
            except FileNotFoundError:  # there is no such file yet, or no more
                self._clear()
            if self.targets:  # else the file is that of a run that ended
                self._catch_up()
            yield

    def _clear(self) -> None:
        self.close()
        self.targets: dict[str, Target] = {}  # by their names; none if there is no such file yet
        self.parts: dict[str, BatchPart] = {}  # by their tokens
        self.canceled = False
        self._read_to = 0  # bytes of the file whose records are noted

    def _catch_up(self) -> None:
        for end, record in self._records(self._read_to):
            self._read_to = end
            self._note(record)

    def _records(self, start: int = 0) -> Iterator[tuple[int, _Record]]:
        """Yield where each line from ``start`` on ends, and what it says; skip one cut short."""
        if self._file is not None:
            self._file.flush()
        with suppress(FileNotFoundError), open_regular(self.path, self.path) as file:
            file.seek(start)
            for line in lines_of(file, self.path):
                start += len(line)
                with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                    yield start, _decode(line)

    def _note(self, record: _Record) -> None:
        if isinstance(record, Target):
            self.targets[record.name] = record
        elif isinstance(record, BatchPart):
            # Earlier versions had one target, and parts without its name.
            target = record.target or next(iter(self.targets), "")
            self.parts[record.token] = replace(record, target=target)
        elif isinstance(record, Canceled):
            self.canceled = True

    @property
    def under_way(self) -> list[BatchPart]:
        """The parts that were sent, or may have been, and whose results are not stored."""
        return [part for part in self.parts.values() if not part.ended]

    def ask(self, record: _Record) -> BinaryIO:
        """Write a record, as of a case that waits, into a buffer that ``keep`` writes to disk."""
        if self._file is None:
            self._file = open(self.path, "ab", buffering=2**16)  # noqa: SIM115 - closed by close
            self._file.write(b"\n")  # ends a line that was cut short
        self._file.write(msgspec.json.encode(record) + b"\n")
        return self._file

    def keep(self, record: Target | BatchPart | Canceled) -> None:
        """Write a record to the disk, after those in the buffer.

        The first target is in a new file, which is written whole or not at all.
        """
        if isinstance(record, Target) and not self.targets:
            self._clear()
            with open_output(self.path) as new:
                new.write(msgspec.json.encode(record) + b"\n")
        else:
            file = self.ask(record)
            file.flush()
            os.fsync(file.fileno())
        self._note(record)

    def asked(self, *parts: BatchPart) -> Iterator[Waiting]:
        """Yield the cases that wait for any of some parts."""
        tokens = {part.token for part in parts}
        for _, record in self._records() if tokens else ():
            if isinstance(record, Waiting) and record.part in tokens:
                yield record

    @cached_property
    def waiting(self) -> tuple[dict[tuple[str, str], str], dict[bytes, str]]:
        """The part of each request that waits, by target and id, and each case's digest."""
        tokens, latest = {}, {}
        for record in self.asked(*self.under_way):
            part = self.parts[record.part]
            tokens[part.target, request_id(record.result)] = part.token  # one object for all
            latest[key_of(record.result)] = record.result.digest
        return tokens, latest

    def close(self) -> None:
        """Close the file; records that are still in the buffer are written."""
        if self._file is not None:
            self._file.close()
            self._file = None


def check_batches(
    providers: Iterable[TargetProvider], path: str, *, batch: bool, resume: bool
) -> None:
    """Refuse providers without batches, and a run that would not continue one under way."""
    for provider in providers if batch else ():
        batches_of(provider)
    if BatchState(path).under_way and not (batch and resume):
        is_python = option("resume") == "resume="
        how = "call run_batches with resume=True" if is_python else "add --resume --batch"
        what = f"a batch for {path!r} is under way; {how} to get its results, or cancel it with:"
        raise MultiturnError(f"{what} multiturn batch cancel {path}")


_T = TypeVar("_T")
_CREATIONS = 3  # attempts to create a batch that is not found afterwards
_FAILURES = 60  # checks of a batch that fail in a row before a run ends without its results


class Batches:
    """The batches of a results file; a context manager. Arguments are as for ``run_batches``."""

    def __init__(
        self, providers: Iterable[Any], output: str, *, poll: float, say: Callable[[str], object]
    ) -> None:
        self.apis: dict[str, BatchApi] = {}  # by the names of targets
        self.targets: dict[str, Target] = {}
        for each in providers:
            address = hide(each.address(), each.secrets)
            self.targets[each.name] = Target(each.name, each.kind, each.settings.model, address)
            self.apis[each.name] = batches_of(each)
        self.poll = poll
        self.say = say
        self.statuses: dict[str, BatchStatus] = {}  # the last known ones, by the tokens of parts
        self.output = output
        self.state = BatchState(output)
        for part in self.state.under_way:
            if self.state.targets.get(part.target) != self.targets.get(part.target):
                what = f"a batch of the target {part.target!r}, or one with other settings, is"
                what += " under way; finish it with that target and those settings"
                raise MultiturnError(what, where=self.state.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.state.close()

    def call(self, method: Callable[..., Coroutine[Any, Any, _T]], *arguments: Any) -> _T:
        """Return what a method of the API returns.

        No event loop stays open between two calls: an iterator over results may be kept until the
        program ends, when none could be closed any more.
        """

        async def call() -> _T:
            async with opened(api.provider for api in self.apis.values()):
                return await method(*arguments)

        return asyncio.run(call())

    def settle(self) -> None:
        """Find the batches of parts that were being sent; create those of uploaded parts."""
        for part in self.state.under_way:
            if part.batch or self._found(part):
                continue
            if part.file and not self.state.canceled:
                self.create(part, None)
            else:
                self.state.keep(replace(part, ended=True))

    def create(self, part: BatchPart, file: BinaryIO | None, tries: int = _CREATIONS) -> None:
        """Create the batch of a part, unless it is there after an attempt that seemed to fail."""
        try:
            self._created(part, self.call(self.apis[part.target].create, part, file))
        except ProviderError as error:
            if not may_pass(error):
                if file is not None:  # the first attempt, which was refused: nothing was created
                    self.state.keep(replace(part, ended=True))
                raise
            self.say(f"the vendor did not confirm the batch: {error.what}")
            if self._found(part):
                return
            if tries == 1:
                raise
            self.create(part, file, tries - 1)

    def _created(self, part: BatchPart, batch: str) -> None:
        self.state.keep(replace(part, batch=batch))
        self.say(f"{batch}: {number_of(part.requests, 'request')}, {part.size:,} bytes")

    def _found(self, part: BatchPart) -> bool:
        """Search for the batch of a part, and return whether it was found.

        A second search follows a first that found nothing: a vendor may be slow to list a batch.
        """

        def ids() -> set[str]:
            return {request_id(asked.result) for asked in self.state.asked(part)}

        others = {other.batch for other in self.state.parts.values()}
        said, find = set[str](), self.apis[part.target].find
        while not (found := self.call(find, part, others, ids)).batch:
            what = ", before anything is sent again"
            if found.undecided:
                named = " and ".join(found.undecided)
                what = f": once {named} ended, the answers in it show whether it is this one"
            elif what in said:
                return False
            if what not in said:
                requests = number_of(part.requests, "request")
                self.say(f"searching again in {self.poll:g} s for a batch of {requests}{what}")
            said.add(what)
            time.sleep(self.poll)
        self._created(part, found.batch)
        return True

    def status_of(self, part: BatchPart) -> BatchStatus:
        """Return the status of a part's batch."""
        self.statuses[part.token] = self.call(self.apis[part.target].status_of, part.batch)
        return self.statuses[part.token]

    def cancel(self) -> None:
        """Ask the vendor to end all batches under way, and send no more parts.

        Raises:
            ProviderError: the vendor refuses to end a batch; all others were canceled.
            MultiturnError: none is under way.
        """
        with self.state.alone(self.say):
            if not self.state.under_way:
                raise nothing_under_way(self.output)
            self.state.keep(Canceled())
            errors = {part.token: self._end(part) for part in self.state.under_way if part.batch}
            self.settle()
            lost = [part for part in self.state.under_way if part.token not in errors]
            errors |= {part.token: self._end(part) for part in lost}
        for error in filter(None, errors.values()):
            raise error

    def _end(self, part: BatchPart) -> ProviderError | None:
        try:
            if not self.status_of(part).ended:
                self.call(self.apis[part.target].cancel, part.batch)
        except ProviderError as error:
            return error if error.status != 409 else None  # 409: it has ended meanwhile
        return None


def nothing_under_way(output: str) -> MultiturnError:
    """Return the error for a results file that has no batch under way."""
    return MultiturnError(f"no batch for {output!r} is under way")


def run_batches(
    cases: Iterable[Case] | StrPath,
    pipeline: Pipeline | StrPath | None,
    provider: Providers,
    results: StrPath,
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
        provider: of a target, or a list of them; each must have a Batch API.
        results: path of the file to append each result to, before it is yielded.
        wait: whether to wait until all batches have ended; else they are only sent, and the results
            of those that have ended are yielded.
        poll: seconds between two checks of the status, at most a day.
        say: called with messages about the batches, such as their ids and states.
        options: as for ``run``. ``resume`` also continues the batches under way for the file;
            ``max_cost`` and ``max_tokens`` limit the input and the most output together.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: arguments do not go together.
        RuntimeError: it is called inside an event loop.
        ProviderError: the vendor refuses a batch, or cannot be reached.
        MultiturnError: as for ``run``; or the provider has no batches, or others are under way.
        OSError: a file cannot be written.
    """
    if not 0 < poll <= 86400:
        raise ValueError("poll must be a number of seconds, such as 60, and at most 86400")
    want_no_loop("run_batches")
    with (
        Run(cases, pipeline, provider, results=results, batch=True, **options) as run,
        BatchRun(run, poll=poll, say=say or (lambda _: None)) as batches,
    ):
        for case in batches.cases(wait=wait):
            if case is not None and case.has_result:
                yield case.result


class BatchRun(Batches):
    """The batches of a run that is open; a dry run makes parts, and sends and records nothing."""

    def __init__(self, run: Run, *, poll: float, say: Callable[[str], object]) -> None:
        if run.path is None:
            raise ValueError("batches need a file of results; name it with results")
        providers = [target.provider for target in run.targets.values()]
        super().__init__(providers, run.path, poll=poll, say=say)
        self.run = run
        self.parts: list[BatchPart] = []
        self._seen: set[bytes] = set()  # keys of the results of this run's cases
        self._folder = os.path.dirname(os.path.abspath(run.path))

    @property
    def requests(self) -> int:
        """Number of requests under way."""
        return sum(part.requests for part in self.state.under_way)

    def cases(self, *, wait: bool = True) -> Iterator[RunCase | None]:
        """Yield each case with its result, which is then in the file; None after each status.

        A case that is not sent is yielded, too, but not one that is already under way.
        """
        with self.state.alone(self.say):
            self.settle()
        if not self.state.canceled:
            self.run.check_budget(self.state.waiting[0])
            for case in self.submit(self.run.cases()):
                if case.has_result:
                    self.run.keep(case)
                yield case
        if self.state.canceled:
            what = "this run was canceled: it sends no more requests, and keeps the answers so far"
            self.say(what)
        yield from self._collect(wait)

    def submit(self, cases: Iterable[RunCase]) -> Iterator[RunCase]:
        """Send the requests of the cases in parts, equal ones once; yield the cases not sent."""
        tokens, latest = self.state.waiting
        parts = {name: BatchPart(secrets.token_hex(16), target=name) for name in self.apis}
        with ExitStack() as ending:
            folder = self._folder
            files = {name: ending.enter_context(TemporaryFile(dir=folder)) for name in self.apis}
            for case in cases:
                result = case.result
                key = key_of(result)
                self._seen.add(key)
                if case.wire is None:  # there is an error
                    yield case
                    continue
                digest, name = result.digest, result.target
                if latest.get(key) == digest:
                    continue
                if key in latest:
                    latest[key] = digest  # the answer under way is outdated
                if not case.has_result:
                    yield case
                    continue
                name_and_id = name, request_id(result)
                if name_and_id not in tokens:
                    part, file, api = parts[name], files[name], self.apis[name]
                    before, between, after = api.frame
                    line = api.line(name_and_id[1], case.wire.body)
                    size = file.tell() + len(between) + len(line) + len(after)
                    is_full = size > api.most_bytes or part.requests == api.most_requests
                    if is_full and part.requests:
                        self._send(part, file)
                        if self.state.canceled:
                            return
                        part = BatchPart(secrets.token_hex(16), target=name)
                    file.write((between if part.requests else before) + line)
                    parts[name] = replace(part, requests=part.requests + 1)
                    tokens[name_and_id] = part.token
                if self.run.is_dry:
                    continue
                if self.run.options.get("record_wire"):
                    result = replace(result, wire=case.wire.body.decode())
                target = self.targets[name]
                if self.state.targets.get(name) != target:
                    self.state.keep(target)
                self.state.ask(Waiting(tokens[name_and_id], case.where, result))
            for name, part in parts.items():
                if part.requests:
                    self._send(part, files[name])

    def _send(self, part: BatchPart, file: BinaryIO) -> None:
        """Send a part, unless another process has canceled the batches, and empty its file."""
        file.write(self.apis[part.target].frame[2])
        part = replace(part, size=file.tell())
        self.parts.append(part)
        file.seek(0)
        if not self.run.is_dry:
            with self.state.alone(self.say):
                if not self.state.canceled:
                    part = self.call(self.apis[part.target].prepare, part, file)
                    self.state.keep(part)
                    self.create(part, file)
        file.seek(0)
        file.truncate()

    def _collect(self, wait: bool) -> Iterator[RunCase | None]:
        """Yield the cases of ended batches with their results; an error of one is raised last."""
        parts = self.state.under_way
        refused, failed = [], Counter[str]()  # how often in a row, by the tokens of parts
        while parts:
            for part in list(parts):
                try:
                    before, status = self.statuses.get(part.token), self.status_of(part)
                    if before is None or before.state != status.state:
                        self.say(f"{part.batch}: {status.state}")
                    if status.ended:
                        yield from self._results(part, status)
                        if self.run.results is not None:
                            self.run.results.sync()
                        self.state.keep(replace(part, ended=True))
                        parts.remove(part)
                    failed[part.token] = 0
                except ProviderError as error:
                    failed[part.token] += 1
                    if may_pass(error) and failed[part.token] < _FAILURES:
                        again = f"; asking again in {self.poll:g} s" * wait
                        self.say(f"{part.batch}: {error.what}{again}")
                        continue
                    if may_pass(error):
                        times = f"{_FAILURES} checks in a row have failed"
                        error.what = f"{part.batch} is kept, but {times}: {error.what}"
                    refused.append(error)
                    parts.remove(part)
            yield None
            if not parts or not wait:
                break
            time.sleep(self.poll)
        if refused:
            raise refused[0]
        with self.state.alone(self.say):
            if not self.state.under_way:
                self.state.close()
                Path(self.state.path).unlink(missing_ok=True)

    def _results(self, part: BatchPart, status: BatchStatus) -> Iterator[RunCase]:
        """Yield the cases that wait for a part that has ended, each with its result."""
        _, latest = self.state.waiting
        api = self.apis[part.target]
        with TemporaryFile(dir=self._folder) as file:
            self.call(api.fetch, status, file)
            found = places(file)
            for waiting in self.state.asked(part):
                result, key = waiting.result, key_of(waiting.result)
                if latest.get(key, result.digest) != result.digest:
                    continue  # its case has another request now
                case = RunCase("send", result, where=waiting.where)
                try:
                    name = request_id(result)
                    if name not in found:
                        why = status.why or f"{part.batch} ended without an answer to this request"
                        raise BatchEndedError(f"batch_{status.state}: {why}")
                    file.seek(found[name])
                    answer = api.read(file.readline(LARGEST_ANSWER + 1))
                    case = case.answered(answer, self.run.options)
                except ProviderError as error:
                    api.provider.teach(error)
                    case = case.failed(error)
                self.run.keep(case)
                if key not in self._seen and self.run.results is not None:
                    self.run.results.untouched.add(key)
                yield case
