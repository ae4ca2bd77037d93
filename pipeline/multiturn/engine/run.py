"""A run, from cases to results: convert, send, many at a time; an error stops only its own case."""

import asyncio
import hashlib
import os
from bisect import bisect_left, insort
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from functools import partial
from itertools import chain, count, islice
from operator import itemgetter
from time import perf_counter
from typing import Any, Literal, Self, TypedDict, Unpack, get_args, overload

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

import multiturn
from multiturn import errors
from multiturn.engine import costs
from multiturn.engine.converting import ConvertedCase, convert_case, read_cases
from multiturn.engine.project import chosen_pipeline, from_project
from multiturn.engine.selection import Selection, select, suite_names
from multiturn.errors import InputError, LimitReachedError, MultiturnError, ProviderError, quoted
from multiturn.files.paths import StrPath
from multiturn.model.case import Case
from multiturn.model.request import ProviderRequest
from multiturn.model.tokens import Tokens
from multiturn.model.turns import is_blank
from multiturn.pipelines.pipeline import Pipeline, request_of
from multiturn.providers import results as results_file
from multiturn.providers.base import Provider, ProviderResponse, Rate, TargetProvider, Wire, opened
from multiturn.providers.custom import complete
from multiturn.providers.results import Failure, Made, Result, ResultsFile, StoredResults
from multiturn.providers.targets import counter_of
from multiturn.text import utf8
from multiturn.traces.given import Given, case_of


def want(value: object, kind: Any, words: str) -> None:
    """Raise a TypeError if an argument has the wrong type."""
    if not isinstance(value, kind):
        raise TypeError(f"{words}, not {type(value).__name__}")


def want_no_loop(call: str) -> None:
    """Raise a RuntimeError, with advice, if a call that blocks is made inside an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    what = f"{call} has an event loop of its own; inside another one, call it in a thread:"
    raise RuntimeError(f"{what} await asyncio.to_thread(list, {call}(...))")


Action = Literal["send", "reuse", "skip", "refuse", "unreadable"]


class RunCase(Struct, frozen=True):
    """One case on its way to one target, for the first time or again.

    Attributes:
        action: ``send``; ``reuse``, as a results file has its answer; ``skip``, as its request was
            the same at the Git revision; ``refuse``, as it cannot be converted, or the provider's
            rules forbid it; ``unreadable``, as the suite is wrong.
        result: what is known of it so far; its ``id`` is empty if an error belongs to no case.
        wire: the request; None if there is an error.
        where: the place of the case in its suite.
        error: the exception, if the case cannot be read or converted, or has no answer.
        tokens: estimated or counted; None if there is an error, or nothing needs to know it.
    """

    action: Action
    result: Result
    wire: Wire | None = None
    where: str = ""
    error: Exception | None = None
    tokens: Tokens | None = None

    @property
    def has_result(self) -> bool:
        """Whether this run has a result for the case: an answer, or an error."""
        return self.action not in ("reuse", "skip")

    @property
    def body(self) -> bytes:
        """The exact bytes to send; empty if there is an error."""
        return b"" if self.wire is None else self.wire.body

    @property
    def ends_run(self) -> bool:
        """Whether it has an error that every other case would meet, too."""
        return self.result.error is not None and self.result.error.type in errors.ENDS_RUN

    @property
    def size(self) -> int:
        """Bytes of the request; 0 where there is none."""
        return 0 if self.wire is None else len(self.wire.shown)

    def failed(self, error: Exception) -> "RunCase":
        """Return the case with an error in place of an answer."""
        if not isinstance(error, ProviderError):
            error = errors.OwnProviderError(f"{type(error).__name__}: {error}")
        failure = Failure(error.kind, utf8(f"{self.where}: {error.what}"))
        result = replace(self.result, error=failure, retries=error.retries)
        return replace(self, result=result, error=error)

    def answered(self, answer: ProviderResponse, options: "RunOptions") -> "RunCase":
        """Return the case with its answer; without text, calls are one, too."""
        kind = "refusal" if answer.is_refusal else "text"
        if kind == "text" and is_blank(answer.text):
            kind = "calls" if answer.tool_calls else "empty"
        result = replace(
            self.result,
            response=utf8(answer.text),
            answer=kind,
            tool_calls=answer.tool_calls or UNSET,
            thinking=(options.get("record_thinking") and answer.thinking) or UNSET,
            finish_reason=answer.finish_reason,
            usage=answer.usage,
            retries=answer.retries,
        )
        return replace(self, result=result)


def _converted(
    case: Case, pipeline: Pipeline, *, strict: bool
) -> tuple[RunCase, ProviderRequest | None]:
    """Return a case that no target has yet, and its request; None if it cannot be converted."""
    names = ("outcome", "expected_messages", "conversation_id")
    given = {name: value for name in names if (value := getattr(case, name)) is not None}
    result = Result(suite=utf8(case.suite), id=case.id, target="", **given)
    found = RunCase("refuse", result, where=str(case.where()))
    try:
        if case.sent is not None:
            what = "a captured request is not sent; make a suite of it by multiturn import"
            raise InputError(what).at(case.where(), case.id)
        request = request_of(convert_case(case, pipeline, strict=strict))
    except Exception as error:  # a custom stage may raise anything
        message = str(error) if isinstance(error, MultiturnError) else repr(error)
        result = replace(result, error=Failure("conversion", utf8(message)))
        return replace(found, result=result, error=error), None
    asked_for = results_file.RawRequest(
        request.question,
        request.guidelines,
        request.chat_prompt,
        request.system if request.chat_prompt is None else UNSET,
        request.tools or UNSET,
        tuple(file for file in request.input_files if file.media is not None) or UNSET,
        request.settings if request.settings.said() else UNSET,
    )
    return replace(found, result=replace(result, raw_request=asked_for)), request


class RunTarget(Struct, frozen=True):
    """A target of a run."""

    provider: TargetProvider
    where: str  # its name, for messages; empty for the only target of a run
    made: Made  # what makes each result, but for its time and settings
    budget: costs.Budget
    with_tokens: bool  # whether the tokens of requests are needed
    rate: Rate = Rate(None)

    async def turn(self) -> None:
        """Wait until another request may go; the retries of this task wait likewise."""
        Rate.of_run.set(self.rate)
        await self.rate.turn()

    def prepared(self, case: RunCase, request: ProviderRequest | None) -> RunCase:
        """Return a case for this target, with its request as it is sent; nothing is sent yet."""
        name, made = self.provider.name, replace(self.made, time=_now())
        where = ": ".join(filter(None, (self.where, case.where)))
        found = replace(case, where=where, result=replace(case.result, target=name, made=made))
        if request is None:
            return found
        try:
            wire = self.provider.wire(request)
            made = replace(made, settings_digest=_digest((wire.prepared or wire.request).settings))
            known = {"repairs": wire.repairs, "digest": wire.digest(), "made": made}
            found = replace(found, result=replace(found.result, **known))
            tokens = self.provider.tokens(wire) if self.with_tokens else None
        except Exception as error:  # a custom provider may raise anything
            return found.failed(error)
        return replace(found, action="send", wire=wire, tokens=tokens)


def prepare(
    case: Given, pipeline: Pipeline, provider: Provider, *, with_tokens: bool = True
) -> RunCase:
    """Return the request of a case as it would be sent; nothing is sent.

    Its ``result.repairs`` are what the vendor's rules have changed, and ``result.digest`` is a hash
    of it without keys.

    Args:
        case: a case, or a mapping as ``case_of`` takes it.
        pipeline: as ``load_pipeline`` gives it.
        provider: as ``load_target`` gives it, or one of your own.
        with_tokens: whether to count tokens.

    Raises:
        TypeError: an argument has the wrong type.
        ProviderError: the vendor's rules refuse the request; all that it breaks is in the message.
        MultiturnError: it is no case, or the pipeline does not convert it.
    """
    want(pipeline, Pipeline, "pipeline must be a Pipeline, as load_pipeline gives it")
    target = RunTarget(complete(provider), "", Made(), costs.Budget(None), with_tokens)
    found = target.prepared(*_converted(case_of(case), pipeline, strict=False))
    if found.error is not None:
        raise found.error
    return found


async def send(case: Given, pipeline: Pipeline, provider: Provider) -> ProviderResponse:
    """Send one case, and return the answer; many may be under way at once.

    Arguments and errors are those of ``prepare``.

    Raises:
        ProviderError: there is no answer; its ``kind`` says why.
    """
    whole = complete(provider)
    wire: Any = prepare(case, pipeline, whole, with_tokens=False).wire
    return await whole.send(wire)


Order = Literal["prefixes", "suite"]
WINDOW = 1_000  # cases that are put into order together, at most
WINDOW_BYTES = 16 * 2**20  # of their requests, at most
_WORTH_WAITING = 500  # characters of a prefix that another request is about to bring into the cache


class Lane:
    """The cases of a run for one target, in the order in which they are sent.

    If the target may have a cache, cases that share a prefix with one under way wait for its
    answer. Where it is not known whether there is a cache, none waits, but those that share a
    prefix come one after another. ``suite`` keeps the order of the suites instead.
    """

    def __init__(self, provider: TargetProvider, order: Order, concurrency: int) -> None:
        # The cases read ahead, by their texts; what is too short to share anything has none.
        self.ahead: list[tuple[str, RunCase]] = []
        self.size = 0  # bytes of their requests
        self.free = concurrency  # how many more can be sent before an answer arrives
        self._prefixes = costs.SharedPrefixes(provider, estimates=True)
        self.has_cache = False if order == "suite" else provider.has_cache  # None: not known
        self._is_blocked = False  # whether all of them wait for requests under way
        self._under_way: list[str] = []  # texts of these requests, in alphabetical order

    def next(self) -> RunCase | None:
        """Return the first case that can be sent now; None if there is none."""
        if self.free and not self._is_blocked:
            for at, (text, case) in enumerate(self.ahead):
                if not self._must_wait(text):
                    del self.ahead[at]
                    self.size -= case.size
                    return self._sent(text, case)
            self._is_blocked = True
        return None

    def add(self, case: RunCase) -> RunCase | None:
        """Add a case, when ``next`` has none; return it if it can be sent now."""
        text = "" if self.has_cache is False else self._prefixes.text(case.wire)
        if self.free and not self._must_wait(text):
            return self._sent(text, case)
        insort(self.ahead, (text, case), key=itemgetter(0))
        self.size += case.size
        return None

    def answered(self, case: RunCase) -> None:
        """Let the cases be sent that share a prefix with this one."""
        self._is_blocked = False
        self.free += 1
        if self.has_cache:
            text = self._prefixes.text(case.wire)
            del self._under_way[bisect_left(self._under_way, text)]
            self._prefixes.add(text)

    def _must_wait(self, text: str) -> bool:
        """Return whether a request under way will bring more of a text into the cache."""
        length, _ = costs.longest_common(self._under_way, text)
        if length < costs.longest_common(self._prefixes.texts, text)[0] + _WORTH_WAITING:
            return False
        return self._prefixes.tokens(text[:length]) > 0

    def _sent(self, text: str, case: RunCase) -> RunCase:
        self.free -= 1
        if self.has_cache:
            insort(self._under_way, text)
        return case


class Queue:
    """The cases of a run, each of which is read once, as they are sent to all targets.

    At most a thousand cases are read ahead. Those that have no result in this run pass at once. An
    error in reading is raised once the cases before it were returned.
    """

    def __init__(
        self, cases: Iterator[RunCase] | AsyncIterator[RunCase], lanes: dict[str, Lane]
    ) -> None:
        self.lanes = lanes  # by the names of targets; without those to which no more is sent
        self.is_waiting = False  # whether there is no case before an answer, or a case, arrives
        self._cases = cases
        self._next: asyncio.Future[RunCase] | None = None  # of cases that arrive
        self._end: Exception | None = None  # of the cases: that there are no more, or an error

    @property
    def arrival(self) -> set[asyncio.Future[RunCase]]:
        """What is done when the next case arrives, if that is waited for."""
        return set() if self._next is None or self._next.done() else {self._next}

    def next(self) -> RunCase | None:
        """Return the next case, or None to ask again; at the end, raise what ended the cases."""
        lanes = self.lanes.values()
        for lane in lanes:
            if (case := lane.next()) is not None:
                return case
        ahead = sum(len(lane.ahead) for lane in lanes)
        is_full = ahead >= WINDOW or sum(lane.size for lane in lanes) > WINDOW_BYTES
        is_needed = any(lane.free or lane.has_cache is None for lane in lanes)
        if self._end is None and is_needed and not is_full:
            return self._read()
        if not lanes or (self._end is not None and not ahead):
            raise (self._end if lanes else None) or StopIteration
        self.is_waiting = True
        return None

    def answered(self, case: RunCase) -> None:
        """Note the result of a case; after some errors, no more is sent to its target."""
        self.is_waiting = False
        if (lane := self.lanes.get(case.result.target)) is not None:
            lane.answered(case)
        if case.ends_run:
            self.lanes.pop(case.result.target, None)

    def _read(self) -> RunCase | None:
        """Read a case, and return it if it can be sent, or has no result."""
        try:
            if isinstance(self._cases, Iterator):
                case = next(self._cases)
            else:
                self._next = self._next or asyncio.ensure_future(anext(self._cases))
                if not self._next.done():
                    self.is_waiting = True
                    return None
                arrival, self._next = self._next, None
                case = arrival.result()
        except Exception as error:  # there are no more, or what a generator of cases raises
            self._end = error
            return None
        lane = self.lanes.get(case.result.target)
        return case if not case.has_result else None if lane is None else lane.add(case)


_MOST_HELD = 16 * 2**20  # bytes of requests
Cases = Iterable[Given] | AsyncIterable[Given] | Selection | StrPath

Providers = Provider | Sequence[Provider]


class RunOptions(TypedDict, total=False):
    """The options of a run that are off by default; the docstring of ``run`` describes them."""

    repeat: int
    resume: bool
    reuse: StrPath | None
    against: str | None
    record_wire: bool
    record_thinking: bool
    rate: int | None
    max_cost: float | None
    max_tokens: int | None
    prices: StrPath | None


class Run:
    """What a run sends and where its results go; a context manager that opens the results file.

    On leaving, the file keeps one line for each case. Arguments and errors are those of ``run``,
    but the cases may be a selection, and a dry run sends and writes nothing. If the pipeline comes
    from the project's defaults (``is_default``), those of a revision may name another one.
    """

    def __init__(
        self,
        cases: Cases,
        pipeline: Pipeline | StrPath | None,
        provider: Providers,
        *,
        results: StrPath | None = None,
        batch: bool = False,
        is_dry: bool = False,
        is_default: bool = False,
        **options: Unpack[RunOptions],
    ) -> None:
        for unknown in options.keys() - RunOptions.__annotations__.keys():
            what = errors.did_you_mean(unknown, RunOptions.__annotations__)
            raise TypeError(f"a run has no option {unknown!r}; {what}")
        self.options, self.is_batch, self.is_dry = options, batch, is_dry
        several: Any = provider if isinstance(provider, list | tuple) else [provider]
        providers = [complete(each) for each in several]
        if not providers:
            raise ValueError("a run has at least one provider; give one")
        self.is_arriving = isinstance(cases, AsyncIterable)
        self.selection, self._given, self.pipeline = _chosen(cases, pipeline)
        self.path = None if results is None else os.fspath(results)
        resume, against = options.get("resume", False), options.get("against")
        for name in ("resume", "reuse") if self.path is None else ():
            if options.get(name):
                raise ValueError(f"{name} needs a file of results; name it with results")
        if self.path is not None and (batch or os.path.exists(results_file.state_path(self.path))):
            # Most runs need nothing of what batches need.
            from multiturn.engine.batches import check_batches

            check_batches(providers, self.path, batch=batch, resume=resume)
        for each in providers if not is_dry else ():
            each.check()
        self.names = suite_names(self.selection)
        repeat = _limit("repeat", options.get("repeat", 1), int)
        # Of the repetitions of each case.
        self.numbers: Sequence[Any] = [UNSET] if repeat == 1 else range(1, repeat + 1)
        self.targets = self._targets(providers)
        limits = [each for each in self.targets.values() if each.budget.has_limit]
        if self.is_arriving and (batch or limits):
            raise ValueError("batches and limits take no async iterable; give a list of cases")
        self.earlier: dict[bytes, str] = {}  # digests at the revision, by the keys of results
        if against is not None:
            if isinstance(pipeline, Pipeline) or self._given is not None:
                what = "against compares files: cases must be a path, and pipeline a name or a path"
                raise ValueError(what)
            self.earlier = self._digests_at(against, is_default or pipeline is None)
        self.stored: dict[bytes, str] = {}  # digests of answered requests, by the same keys
        if is_dry and resume and self.path is not None and os.path.exists(self.path):
            self.stored = StoredResults(self.path).stored
        self._old = StoredResults(str(options.get("reuse") or ""))
        self.results: ResultsFile | None = None
        self._held: list[RunCase] | None = None  # those of ``rehearse``, if they fit

    def __enter__(self) -> Self:
        if self.path is not None:
            self.results = ResultsFile(self.path, resume=self.options.get("resume", False))
            self.stored = self.results.stored
        return self

    def __exit__(self, *error: Any) -> None:
        if self.results is not None:
            self.results.__exit__(*error)

    def _targets(self, providers: list[TargetProvider]) -> dict[str, RunTarget]:
        """Return the targets by their names, with their limits, and what makes their results."""
        options, steps, targets = self.options, self.pipeline.steps, dict[str, RunTarget]()
        made = Made(
            pipeline=self.pipeline.name,
            pipeline_digest=_digest([(s.stage.__module__, s.name, s.options) for s in steps]),
            revision=_commit(),
            version=multiturn.__version__,
        )
        for each in providers:
            if each.name in targets:
                what = f"the target {each.name!r} is given twice, and results have only its name"
                raise MultiturnError(f"{what}; give it once")
            where = f"target {each.name!r}" if len(providers) > 1 else ""
            model, prices = costs.model_of(each) or None, options.get("prices")
            budget = costs.Budget(
                costs.price_for(each, prices) if model or prices else None,
                most_cost=_limit("max_cost", options.get("max_cost")),
                most_tokens=_limit("max_tokens", options.get("max_tokens")),
                batch=self.is_batch,
                where=where,
            )
            # Without a limit, a run only says how far an estimate was off. What a published
            # tokenizer counts is no estimate, and its tables take 70 MB.
            with_tokens = self.is_dry or budget.has_limit or not each.tokenizer.encoding
            own = replace(
                made,
                provider=each.kind or each.settings.provider,
                model=model,
                prompt_caching="1h" if costs.caches_for_an_hour(each) else UNSET,
            )
            rate = _limit("rate", options.get("rate"), int)
            targets[each.name] = RunTarget(each, where, own, budget, with_tokens, Rate(rate))
        return targets

    def _digests_at(self, revision: str, is_default: bool) -> dict[bytes, str]:
        """Return the digest of each request as it was at a revision, by the key of its result."""
        from multiturn.engine.revision import commit_of, reading_at, requests_of

        digests = {}
        given = (commit_of(revision), requests_of, self.selection, self.pipeline.name)
        with reading_at(*given, is_default=is_default) as then:
            for request in then:
                for name, target in self.targets.items():
                    result = Result(suite=utf8(request.suite), id=request.eval_id, target=name)
                    with suppress(Exception):  # what a provider refuses has no digest
                        digest = target.provider.wire(request).digest()
                        digests[results_file.key_of(result)] = digest
        return digests

    def check_budget(self, waiting: Iterable[tuple[str, str]] = ()) -> None:
        """Refuse a run whose requests exceed a limit; nothing is sent yet.

        Requests that wait in batches, by target and id, add nothing, nor do those equal to another.
        """
        targets, known = self.targets.items(), {*waiting}
        if any(target.budget.has_limit for _, target in targets):
            found = {name: costs.Estimate(target.budget.price) for name, target in targets}
            for case in map(self._unless_known, self.rehearse()):
                request = case.result.target, results_file.request_id(case.result)
                if request not in known:
                    found[case.result.target].add(case)
                if self.is_batch and case.action == "send":
                    known.add(request)
            for name, target in targets:
                target.budget.check(found[name], target.provider)

    def rehearse(self) -> Iterator[RunCase]:
        """Prepare every case, and yield it; ``cases`` can follow.

        Requests of up to 16 MiB are kept in memory, and ``cases`` yields those. If there are
        more, it reads and converts the cases again, because memory must not grow with the suites;
        a suite that can be read only once, such as a pipe, is then an error.
        """
        held, size = list[RunCase](), 0
        for case in self._prepared():
            yield case
            size += case.size
            if size <= _MOST_HELD:
                held.append(case)
            elif size - case.size <= _MOST_HELD:  # it is the first that does not fit
                held.clear()
                what = f"a limit, or strict, reads requests of more than {_MOST_HELD // 2**20} MiB"
                if isinstance(self._given, Iterator):
                    one = "an iterator of cases can be read only once; give a list"
                    raise MultiturnError(f"{what} twice, and {one}")
                self.selection.check_files(what)
        self._held = held if size <= _MOST_HELD else None

    def cases(self) -> Iterator[RunCase]:
        """Read, convert and yield each case, one at a time; nothing is sent."""
        yield from map(self._noted, self._prepared())

    async def arriving(self) -> AsyncIterator[RunCase]:
        """Yield each case of an async iterable as ``cases`` does, once it is there."""
        numbers, seen = count(1), set[tuple[str, str]]()
        async for given in self._given:
            for prepared in self._for_targets(self._read(given, next(numbers), seen)):
                yield self._noted(prepared)

    def _noted(self, prepared: RunCase) -> RunCase:
        """Return a case as the results file, which gets its earlier answer, lets it be sent."""
        case = self._unless_known(prepared)
        if self.results is not None:
            self.results.touch(case.result)
            if case.action == "reuse" and not results_file.is_stored(case.result, self.stored):
                self.results.copy(self._old.line(case.result))
        return case

    def _unless_known(self, case: RunCase) -> RunCase:
        """Return a case that is not sent again if its request was answered, or is unchanged."""
        known = partial(results_file.is_stored, case.result)
        if known(self.stored) or known(self._old.stored):
            return replace(case, action="reuse")
        once = replace(case.result, repeat=UNSET)
        is_unchanged = results_file.is_stored(once, self.earlier)
        return replace(case, action="skip") if is_unchanged else case

    def _prepared(self) -> Iterator[RunCase]:
        if self._held is not None:
            return iter(self._held)
        given = self._given
        read = partial(self._read, seen=set())
        found = read_cases(self.selection) if given is None else map(read, given, count(1))
        return chain.from_iterable(map(self._for_targets, found))

    def _read(self, given: Given, number: int, seen: set[tuple[str, str]]) -> ConvertedCase:
        try:
            case = case_of(given, case_id=str(number))
            key = case.suite, case.id
            if key in seen:
                what = "ids are unique in a file of results"
                raise InputError(f"duplicate id {quoted(case.id)}; {what}")
            if self.path is not None:
                seen.add(key)
            return ConvertedCase(case.suite, case)
        except MultiturnError as error:
            return ConvertedCase("", error=error)

    def _for_targets(self, each: ConvertedCase) -> Iterator[RunCase]:
        """Yield a case for each target, as often as it is asked."""
        targets, request = [*self.targets.values()], None
        if each.case is not None and each.error is None:
            strict = self.selection.strict
            case, request = _converted(each.case, self.pipeline, strict=strict)
        else:
            failure = Failure("conversion", utf8(str(each.error)))
            suite, case_id = utf8(self.names.get(each.suite, "")), each.case_id or ""
            result = Result(suite=suite, id=case_id, target="", error=failure)
            case = RunCase("unreadable", result, error=each.error)
            targets = targets if case_id else targets[:1]
        sample = self.selection.sample
        asked_for = UNSET if sample is None else str(sample)
        case = replace(case, result=replace(case.result, sample=asked_for))
        for target in targets:
            prepared = target.prepared(case, request)
            for number in self.numbers if case.result.id else [UNSET]:
                yield replace(prepared, result=replace(prepared.result, repeat=number))

    def keep(self, case: RunCase) -> None:
        """Write the result of a case into the file, if there is one, and add up what it cost."""
        self.targets[case.result.target].budget.end(case)
        if self.results is not None and case.result.id:
            self.results.append(case.result)

    def results_path(self) -> str | None:
        """Return the path of the results file; another one if the file was removed or replaced."""
        if self.results is None:
            return None
        self.results.keep()
        return self.results.path


def _digest(value: Any) -> str:
    """Return a hash of a value as JSON; the order of keys does not matter."""
    encoded = msgspec.json.encode(value, enc_hook=repr, order="deterministic")
    return hashlib.sha256(encoded).hexdigest()


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def _commit() -> str | None:
    """Return the commit of the repository around the current folder; None where Git names none."""
    from multiturn.engine.revision import git  # which imports what only --against needs

    with suppress(MultiturnError, OSError):
        return git("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    return None


def _limit(name: str, number: Any, kind: Any = int | float) -> Any:
    what = f"{name} must be a {'whole number' if kind is int else 'number'} above 0"
    want(number, kind | None, what)
    if number is not None and not number > 0:  # NaN is not
        raise ValueError(what)
    return number


def _chosen(cases: Any, pipeline: Pipeline | StrPath | None) -> tuple[Selection, Any, Pipeline]:
    """Return which cases a run is of, the cases themselves if they are given, and the pipeline."""
    words = "pipeline must be a Pipeline, or its name or path"
    want(pipeline, Pipeline | str | os.PathLike | None, words)
    words = "cases must be an iterable of Case or mappings, or the path of a suite"
    want(cases, Iterable | AsyncIterable | Selection | os.PathLike, words)
    roots = {"root": None} if isinstance(cases, str | os.PathLike) else {}
    with from_project(pipeline=pipeline, **roots) as project:
        chosen = chosen_pipeline(project)
        if isinstance(cases, str | os.PathLike):
            cases = select([os.fspath(cases)], root=project.root)
    if isinstance(cases, Selection):
        return cases, None, chosen
    return Selection(), cases, chosen


async def run(
    cases: Iterable[Given] | AsyncIterable[Given] | StrPath,
    pipeline: Pipeline | StrPath | None,
    provider: Providers,
    *,
    results: StrPath | None = None,
    concurrency: int = 8,
    order: Order = "prefixes",
    **options: Unpack[RunOptions],
) -> AsyncIterator[Result]:
    """Yield the result of each case as soon as there is an answer, in no order.

    Memory holds the cases that wait for an answer, and at most 1,000 that are read ahead, or 16 MiB
    of their requests. A case that cannot be read or converted, or gets no answer, yields a result
    with an error; its ``id`` is empty if that belongs to no case, as where a suite is not YAML.
    After an ``access_denied``, ``target`` or ``unreachable``, that provider gets no more.

    Args:
        cases: cases, or mappings as ``case_of`` takes them, also of a generator, sync or async; a
            mapping without an id is named by its number. Or the path of a suite or of a folder,
            whose root is then the project's.
        pipeline: a pipeline, its name or the path of its file; None for the project's, or ``spec``.
        provider: answers the requests; or a list, each of which answers all, with a
            ``concurrency`` and limits of its own.
        results: path of the file to append each result to, before it is yielded; without ``resume``
            it must be new or empty.
        concurrency: maximum number of concurrent requests.
        order: ``prefixes`` sends cases whose prompts begin in the same way together, if the vendor
            may cache that, the first of them before the others; ``suite`` keeps the suites' order.
        options: any of those below, each of which is off by default.
        repeat: how often each case is asked; each answer has its number, ``repeat``.
        resume: continue the file of results: a case that succeeded there and whose request is
            unchanged is not sent, and yields nothing.
        reuse: path of the results of an earlier run, which stays as it is: likewise, but the lines
            of these cases are copied into the file of results.
        against: a Git revision: a case whose request was the same there is not sent, and yields
            nothing. Needs the path of a suite, and a pipeline's name or path.
        record_wire: add the exact body to each result.
        record_thinking: add what the model thought to each result, as the vendor sent it.
        rate: the most requests in any 60 seconds, retries included.
        max_cost: dollars: if the input alone costs more, nothing is sent; later, no more is.
        max_tokens: likewise, the most tokens, input and output together.
        prices: path of a file with prices, which wins over those of the package genai-prices.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: a number is not above 0, or arguments do not go together.
        MultiturnError: there is no such suite, pipeline or revision; a program is not installed;
            the file of results is not one, or another run's; or the run would exceed a limit.
        LimitReachedError: the run has reached a limit; after the requests under way are done.
        OSError: the file of results cannot be written.
        Exception: whatever a generator of cases raises, after the requests under way are done.
    """
    _limit("concurrency", concurrency, int)
    if order not in get_args(Order):
        raise ValueError(f"order must be one of {', '.join(get_args(Order))}")
    with Run(cases, pipeline, provider, results=results, **options) as begun:
        async with aclosing(answers(begun, concurrency=concurrency, order=order)) as done:
            async for case in done:
                if case.has_result:
                    yield case.result


@overload
def dry_run(
    cases: AsyncIterable[Given], pipeline: Pipeline | StrPath | None, provider: Providers
) -> AsyncIterator[RunCase]: ...
@overload
def dry_run(
    cases: Iterable[Given] | StrPath,
    pipeline: Pipeline | StrPath | None,
    provider: Providers,
    *,
    results: StrPath | None = None,
    count_tokens: bool = False,
    **options: Unpack[RunOptions],
) -> Iterator[RunCase]: ...
def dry_run(
    cases: Any, pipeline: Any, provider: Any, *, count_tokens: bool = False, **options: Any
) -> Iterator[RunCase] | AsyncIterator[RunCase]:
    """Return an iterator over what ``run`` would do with each case; nothing is sent or written.

    It is async where the cases are. Arguments and errors are those of ``run``. With
    ``count_tokens``, it asks the vendor how many tokens each request has, and has an event loop of
    its own: inside another one, call it in a thread, as ``run_batches``.
    """
    dry = Run(cases, pipeline, provider, is_dry=True, **options)
    if dry.is_arriving:
        return dry.arriving()
    return counted(dry) if count_tokens else dry.cases()


def estimate(
    cases: Iterable[RunCase], provider: TargetProvider, *, prices: StrPath | None = None
) -> costs.Estimate:
    """Return how many tokens requests have, and what they cost, before they are sent.

    Args:
        cases: as ``dry_run`` yields them; those that are not sent add nothing.
        provider: of the target.
        prices: path of a file with prices, which wins over those of the package genai-prices.

    Raises:
        MultiturnError: the file is not one of prices.
        OSError: it cannot be read.
    """
    found = costs.Estimate(costs.price_for(provider, prices), costs.SharedPrefixes(provider))
    for case in cases:
        found.add(case)
    return found


def answers(run: Run, *, concurrency: int, order: Order) -> AsyncGenerator[RunCase, None]:
    """Send the cases of an open run; yield each, also those not sent, once its result is kept."""
    run.check_budget()
    targets = run.targets.items()
    order = "suite" if run.is_arriving else order
    lanes = {name: Lane(target.provider, order, concurrency) for name, target in targets}
    if run.is_arriving:
        return _answers(run, Queue(run.arriving(), lanes))
    cases = run.cases()
    # The first case may come through a pipe. Ctrl-C ends the wait for it only outside the event
    # loop, which answers the first Ctrl-C by cancelling a task that never gets to run.
    first = [*islice(cases, 1)]
    return _answers(run, Queue(chain(first, cases), lanes))


async def _answers(run: Run, cases: Queue) -> AsyncGenerator[RunCase, None]:
    under_way: set[asyncio.Task[RunCase]] = set()
    failure: Exception | None = None
    limits: list[str] = []  # that targets have reached
    is_over = False
    try:
        while under_way or not is_over:
            if is_over or cases.is_waiting:
                await asyncio.wait(under_way | cases.arrival, return_when=asyncio.FIRST_COMPLETED)
                cases.is_waiting = False
            else:
                case = None
                try:
                    case = cases.next()
                    if case is not None and case.has_result:
                        target = run.targets[case.result.target]
                        target.budget.begin(case)
                        under_way.add(asyncio.create_task(_send(case, target, run.options)))
                except (StopIteration, StopAsyncIteration):
                    is_over = True
                except LimitReachedError as error:
                    limits.append(str(error))
                    failure = LimitReachedError("; ".join(limits))
                    del cases.lanes[target.provider.name]
                except Exception as error:  # raised once the requests under way are done
                    failure, is_over = error, True
                if case is not None and not case.has_result:
                    yield case
                if not cases.is_waiting:  # reading blocks the event loop: let the requests go on
                    await asyncio.sleep(0)
            for task in filter(asyncio.Task.done, [*under_way]):
                under_way.remove(task)
                cases.answered(task.result())
                run.keep(task.result())
                yield task.result()
        if failure is not None:
            raise failure
    finally:
        arrived = [task for task in under_way if task.done()]
        for waited in (*under_way, *cases.arrival):
            waited.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        for task in arrived:  # nobody reads it any more, but it may have been paid for
            run.keep(task.result())


async def _send(case: RunCase, target: RunTarget, options: RunOptions) -> RunCase:
    if case.wire is None:
        return case
    with suppress(Exception):  # send meets the same error, and reports it
        await target.provider.prepare()
    await target.turn()
    made, start = replace(case.result.made, time=_now()), perf_counter()
    sent = b""
    try:
        answer = await target.provider.send(case.wire)
        done = case.answered(answer, options)
        sent = answer.wire
    # A library may raise CancelledError, which must not end the run. Where the run itself cancels
    # this task, at its end, nobody reads the result.
    except asyncio.CancelledError:
        done = case.failed(RuntimeError("it was cancelled"))
    except Exception as error:
        sent = error.wire if isinstance(error, ProviderError) else b""
        done = case.failed(error)
    latency = round((perf_counter() - start) * 1000, 1)
    body = sent.decode("utf-8", "replace") if options.get("record_wire") and sent else UNSET
    return replace(done, result=replace(done.result, latency_ms=latency, wire=body, made=made))


def counted(run: Run, *, concurrency: int = 8) -> Iterator[RunCase]:
    """Yield each case in the order of the suites, with the tokens that the vendor counts.

    A case that the vendor does not count has an error; one that every other case of its target
    would meet ends that target. It has an event loop of its own, of which nothing is open while a
    case is yielded: an iterator may be kept until the program ends.
    """
    want_no_loop("dry_run")
    targets, cases = run.targets.items(), run.cases()
    counters = {name: counter_of(target.provider) for name, target in targets}

    async def count(case: RunCase) -> RunCase:
        if case.action != "send" or case.wire is None:
            return case
        try:
            provider = counters[case.result.target]
            await run.targets[case.result.target].turn()
            return replace(case, tokens=await provider.count_tokens(case.wire))
        except ProviderError as error:
            return replace(case.failed(error), action="refuse", wire=None, tokens=None)

    async def counts(some: list[RunCase]) -> list[RunCase]:
        async with opened(counters.values()):
            return await asyncio.gather(*map(count, some))

    left = filter(lambda case: case.result.target in counters, cases)
    while counters and (some := list(islice(left, concurrency))):
        for case in asyncio.run(counts(some)):
            if case.result.target in counters:
                yield case
            if case.ends_run:
                counters.pop(case.result.target, None)
