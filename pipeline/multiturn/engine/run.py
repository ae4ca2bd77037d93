"""A run, from cases to results: convert, send, many at a time; an error stops only its own case."""

import asyncio
import hashlib
import os
from bisect import bisect_left, insort
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Iterator
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, Self, TypedDict, Unpack, get_args, overload

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

import multiturn
from multiturn import errors
from multiturn.engine import costs
from multiturn.engine.converting import ConvertedCase, convert_case, read_cases
from multiturn.engine.given import Given, case_of
from multiturn.engine.project import chosen_pipeline, from_project
from multiturn.engine.selection import Selection, select, suite_names
from multiturn.errors import MultiturnError, ProviderError, option
from multiturn.model.case import Case
from multiturn.model.tokens import Tokens
from multiturn.model.turns import is_blank
from multiturn.pipelines.pipeline import Pipeline, request_of
from multiturn.providers import results as results_file
from multiturn.providers import targets
from multiturn.providers.base import Provider, ProviderResponse, TargetProvider, Wire
from multiturn.providers.custom import complete
from multiturn.providers.results import Failure, Made, Result, ResultsFile
from multiturn.text import utf8


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
    """One case on its way to a provider.

    Attributes:
        action: what is done with it: ``send``; ``reuse``, as the results file has its answer;
            ``skip``, as its request was the same at the Git revision; ``refuse``, as it cannot be
            converted, or the provider's rules forbid it; ``unreadable``, as the suite is wrong.
        result: what is known of its result so far, such as repairs, digest and error. Its ``id`` is
            empty if an error belongs to no case.
        wire: the request; ``wire.body`` is the exact body. None if there is an error.
        where: the place of the case in its suite.
        tokens: how many tokens the request has, estimated or counted; None if there is an error, or
            nothing needs to know it.
        error: the exception, if the case cannot be read or converted, or has no answer.
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

    def answered(self, answer: ProviderResponse, *, with_thinking: bool) -> "RunCase":
        """Return the case with its answer; without text, calls are one, too."""
        kind = "refusal" if answer.is_refusal else "text"
        if kind == "text" and is_blank(answer.text):
            kind = "calls" if answer.tool_calls else "empty"
        result = replace(
            self.result,
            response=utf8(answer.text),
            answer=kind,
            tool_calls=answer.tool_calls or UNSET,
            thinking=answer.thinking if with_thinking and answer.thinking else UNSET,
            finish_reason=answer.finish_reason,
            usage=answer.usage,
            retries=answer.retries,
        )
        return replace(self, result=result)


def prepare(
    case: Given, pipeline: Pipeline, provider: Provider, *, with_tokens: bool = True
) -> RunCase:
    """Return the request of a case as it would be sent; nothing is sent.

    Of what it returns, ``body`` is what a vendor gets, ``result.repairs`` what its rules have
    changed, ``result.digest`` a hash without keys, and ``tokens`` how many tokens the request has.

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
    found = prepare_case(case_of(case), pipeline, complete(provider), with_tokens=with_tokens)
    if found.error is not None:
        raise found.error
    return found


async def send(case: Given, pipeline: Pipeline, provider: Provider) -> ProviderResponse:
    """Send one case, and return the answer; many may be under way at once.

    Arguments and errors are those of ``prepare``.

    Raises:
        ProviderError: there is no answer; its ``kind`` says why.
    """
    wire: Any = prepare(case, pipeline, provider, with_tokens=False).wire
    return await complete(provider).send(wire)


def prepare_case(
    case: Case,
    pipeline: Pipeline,
    provider: TargetProvider,
    *,
    strict: bool = False,
    with_tokens: bool = True,
) -> RunCase:
    """Convert a case and prepare its request, without sending anything.

    If strict, text that is lost without a rule is an error.
    """
    names = ("outcome", "expected_messages", "conversation_id")
    given = {name: value for name in names if (value := getattr(case, name)) is not None}
    result = Result(suite=utf8(case.suite), id=case.id, target=provider.name, **given)
    found = RunCase("refuse", result, where=str(case.where()))
    try:
        request = request_of(convert_case(case, pipeline, strict=strict))
    except Exception as error:  # a custom stage may raise anything
        message = str(error) if isinstance(error, MultiturnError) else repr(error)
        result = replace(result, error=Failure("conversion", utf8(message)))
        return replace(found, result=result, error=error)
    asked_for = results_file.RawRequest(
        request.question,
        request.guidelines,
        request.chat_prompt,
        request.system if request.chat_prompt is None else UNSET,
        request.tools or UNSET,
        tuple(file for file in request.input_files if file.media is not None) or UNSET,
        request.settings if request.settings.said() else UNSET,
    )
    found = replace(found, result=replace(result, raw_request=asked_for))
    try:
        wire = provider.wire(request)
        result = replace(found.result, repairs=wire.repairs, digest=wire.digest())
        found = replace(found, result=result)
        tokens = provider.tokens(wire) if with_tokens else None
    except Exception as error:  # so may a custom provider
        return found.failed(error)
    return replace(found, action="send", wire=wire, tokens=tokens)


Order = Literal["prefixes", "suite"]
WINDOW = 1_000  # cases that are put into order together, at most
WINDOW_BYTES = 16 * 2**20  # of their requests, at most
_WORTH_WAITING = 500  # characters of a prefix that another request is about to bring into the cache


class Queue:
    """The cases of a run in the order in which they are sent; by default, that of the suites.

    If the target may have a cache, cases are read ahead that others have a prefix with: those that
    share one with a request under way wait for its answer. Where it is not known whether there is a
    cache, none waits, but as long as no more can be sent, cases are read, so that those that share
    a prefix come one after another.

    At most a thousand cases are read ahead. Those that have no result in this run pass at once. An
    error in reading is raised once the cases before it were returned.

    Attributes:
        is_waiting: whether there is no case before an answer arrives.
    """

    def __init__(self, cases: Iterator[RunCase], provider: TargetProvider, order: Order) -> None:
        self.is_waiting = False
        self._cases = cases
        self._prefixes = costs.SharedPrefixes(provider, estimates=True)
        self._is_by_suite = order == "suite" or provider.has_cache is False
        self._waits = bool(provider.has_cache) and not self._is_by_suite
        self._end: Exception | None = None  # of the cases: StopIteration, or an error
        # Those that were read ahead, by their texts; what is too short to share anything has none.
        self._ahead: list[tuple[str, RunCase]] = []
        self._size = 0  # bytes of their requests
        self._is_blocked = False  # whether all of them wait for requests under way
        self._under_way: list[str] = []  # texts of these requests, in alphabetical order

    def next(self, *, is_busy: bool) -> RunCase | None:
        """Return the next case; None if another one was read, or all wait for an answer.

        If ``is_busy``, no more can be sent before an answer arrives.
        """
        if not is_busy and not self._is_blocked:
            for at, (text, case) in enumerate(self._ahead):
                if not self._must_wait(text):
                    del self._ahead[at]
                    self._size -= case.size
                    return self._sent(text, case)
            self._is_blocked = True
        is_needed = not (is_busy and (self._is_by_suite or self._waits))
        is_full = len(self._ahead) >= WINDOW or self._size > WINDOW_BYTES
        if self._end is None and is_needed and not is_full:
            return self._read(is_busy=is_busy)
        if self._end is not None and not self._ahead:
            raise self._end
        self.is_waiting = True
        return None

    def answered(self, case: RunCase) -> None:
        """Let the cases be sent that share a prefix with this one."""
        self.is_waiting = self._is_blocked = False
        if self._waits:
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
        if self._waits:
            insort(self._under_way, text)
        return case

    def _read(self, *, is_busy: bool) -> RunCase | None:
        """Read a case, and return it if it can be sent, or has no result."""
        try:
            case = next(self._cases)
        except Exception as error:  # StopIteration, or what a generator of cases raises
            self._end = error
            return None
        if not case.has_result:
            return case
        text = "" if self._is_by_suite else self._prefixes.text(case.wire)
        if not is_busy and not self._must_wait(text):
            return self._sent(text, case)
        insort(self._ahead, (text, case), key=itemgetter(0))
        self._size += case.size
        return None


_MOST_HELD = 16 * 2**20  # bytes of requests
Cases = Iterable[Given] | AsyncIterable[Given] | Selection | str | Path


class Arriving(Iterator[Given]):
    """An iterator over the cases of an async iterable; ``next`` is for one that has arrived."""

    def __init__(self, cases: AsyncIterable[Given]) -> None:
        self._cases = aiter(cases)
        self._next: asyncio.Task[Given | None] | None = None

    def pending(self) -> asyncio.Task[Given | None] | None:
        """Return the task that ends when the next case arrives; None if it has arrived."""
        if self._next is None:
            self._next = asyncio.ensure_future(anext(self._cases, None))
        return None if self._next.done() else self._next

    def __next__(self) -> Given:
        """Return the case that has arrived, or raise what the async iterable raises."""
        if self._next is None or not self._next.done():
            raise ValueError("batches and limits take no async iterable; give a list of cases")
        case, self._next = self._next.result(), None
        if case is None:
            raise StopIteration
        return case

    def cancel(self) -> None:
        """Wait no longer for the next case."""
        if self._next is not None:
            self._next.cancel()


class RunOptions(TypedDict, total=False):
    """The options of a run that are off by default; the docstring of ``run`` describes them."""

    resume: bool
    against: str | None
    record_wire: bool
    record_thinking: bool
    max_cost: float | None
    max_tokens: int | None
    prices: str | Path | None


class Run:
    """What a run sends and where its results go; a context manager that opens the results file.

    On leaving, the file keeps one line for each case.

    Args:
        cases: as for ``run``, or a selection; so are all arguments that are not named here.
        batch: whether the requests are sent in batches.
        is_dry: whether nothing is sent or written.
        is_default: whether the pipeline comes from the project's defaults; those of the revision
            may then name another one.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: arguments do not go together.
        MultiturnError: see ``multiturn.run``.
    """

    def __init__(
        self,
        cases: Cases,
        pipeline: Pipeline | str | Path | None,
        provider: Provider,
        *,
        results: str | Path | None = None,
        batch: bool = False,
        is_dry: bool = False,
        is_default: bool = False,
        **options: Unpack[RunOptions],
    ) -> None:
        for unknown in options.keys() - RunOptions.__annotations__.keys():
            what = errors.did_you_mean(unknown, RunOptions.__annotations__)
            raise TypeError(f"a run has no option {unknown!r}; {what}")
        self.options = options
        self.provider = complete(provider)
        self.arriving = Arriving(cases) if isinstance(cases, AsyncIterable) else None
        self.selection, self._given, self.pipeline = _chosen(self.arriving or cases, pipeline)
        self.path = None if results is None else str(results)
        resume, against = options.get("resume", False), options.get("against")
        if resume and self.path is None:
            raise ValueError("resume continues a file of results; name it with results")
        if self.path is not None and (batch or os.path.exists(results_file.state_path(self.path))):
            # Most runs need nothing of what batches need.
            from multiturn.engine.batches import check_batches

            check_batches(self.provider, self.path, batch=batch, resume=resume)
        if not is_dry:
            self.provider.check()
        self.names = suite_names(self.selection)
        steps = self.pipeline.steps
        self._made = Made(
            provider=self.provider.kind or self.provider.settings.provider,
            model=costs.model_of(self.provider) or None,
            pipeline=self.pipeline.name,
            pipeline_digest=_digest([(s.stage.__module__, s.name, s.options) for s in steps]),
            revision=_commit(),
            version=multiturn.__version__,
        )
        self.budget = costs.Budget(
            costs.price_for(self.provider, options.get("prices")) if self._made.model else None,
            most_cost=_limit("max_cost", options.get("max_cost")),
            most_tokens=_limit("max_tokens", options.get("max_tokens")),
            batch=batch,
        )
        # Without a limit, a run only says how far an estimate was off. What a published tokenizer
        # counts is no estimate, and its tables take 70 MB.
        self._with_tokens = is_dry or self.budget.has_limit or not self.provider.tokenizer.encoding
        self.earlier: dict[bytes, str] = {}  # digests at the revision, by the keys of results
        if against is not None:
            if isinstance(pipeline, Pipeline) or self._given is not None:
                what = "against compares files: cases must be a path, and pipeline a name or a path"
                raise ValueError(what)
            self.earlier = self._digests_at(against, is_default or pipeline is None)
        self.stored: dict[bytes, str] = {}  # digests of answered requests, by the same keys
        if is_dry and resume and self.path is not None and os.path.exists(self.path):
            self.stored = results_file.read_stored(self.path)
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

    def _digests_at(self, revision: str, is_default: bool) -> dict[bytes, str]:
        """Return the digest of each request as it was at a revision, by the key of its result."""
        from multiturn.engine.revision import commit_of, reading_at, requests_of

        digests = {}
        given = (commit_of(revision), requests_of, self.selection, self.pipeline.name)
        with reading_at(*given, is_default=is_default) as then:
            for request in then:
                suite, target = utf8(request.suite), self.provider.name
                result = Result(suite=suite, id=request.eval_id, target=target)
                with suppress(Exception):  # what a provider refuses has no digest
                    digests[results_file.key_of(result)] = self.provider.wire(request).digest()
        return digests

    def check_budget(self) -> None:
        """Refuse a run whose requests exceed a limit; nothing is sent yet.

        Raises:
            MultiturnError: they do; or a price is not known; or as for ``rehearse``.
        """
        if self.budget.has_limit:
            found = costs.Estimate(self.budget.price)
            for prepared in self.rehearse():
                found.add(self._unless_known(prepared))
            self.budget.check(found, self.provider)

    def rehearse(self) -> Iterator[RunCase]:
        """Prepare every case, and yield it; ``cases`` can follow.

        Requests of up to 16 MiB are kept in memory, and ``cases`` yields those. If there are
        more, it reads and converts the cases again, because memory must not grow with the suites.

        Raises:
            MultiturnError: a suite that cannot be read again, such as a pipe, has more.
        """
        if self._held is not None:
            yield from self._held
            return
        held: list[RunCase] = []
        size = 0
        for case in self._prepared():
            yield case
            if size <= _MOST_HELD:
                held.append(case)
                size += case.size
                if size > _MOST_HELD:
                    held.clear()
                    self._check_second_reading()
        self._held = held if size <= _MOST_HELD else None

    def _check_second_reading(self) -> None:
        name = "strict" if self.budget.most_tokens is None else "max-tokens"
        name = name if self.budget.most_cost is None else "max-cost"
        what = f"{option(name)} reads requests of more than {_MOST_HELD // 2**20} MiB"
        if isinstance(self._given, Iterator):
            one = "an iterator of cases can be read only once; give a list"
            raise MultiturnError(f"{what} twice, and {one}")
        self.selection.check_files(what)

    def cases(self) -> Iterator[RunCase]:
        """Read, convert and yield each case, one at a time; nothing is sent."""
        for prepared in self._prepared() if self._held is None else self._held:
            case = self._unless_known(prepared)
            if self.results is not None:
                self.results.touch(case.result)
            yield case

    def _unless_known(self, case: RunCase) -> RunCase:
        """Return a case that is not sent again if its request was answered, or is unchanged."""
        if results_file.is_stored(case.result, self.stored):
            return replace(case, action="reuse")
        is_unchanged = results_file.is_stored(case.result, self.earlier)
        return replace(case, action="skip") if is_unchanged else case

    def _prepared(self) -> Iterator[RunCase]:
        strict, sample = self.selection.strict, self.selection.sample
        for each in self._read():
            if each.case is not None and each.error is None:
                given = (each.case, self.pipeline, self.provider)
                case = prepare_case(*given, strict=strict, with_tokens=self._with_tokens)
            else:
                failure = Failure("conversion", utf8(str(each.error)))
                suite, case_id = utf8(self.names.get(each.suite, "")), each.case_id or ""
                result = Result(suite=suite, id=case_id, target=self.provider.name, error=failure)
                case = RunCase("unreadable", result, error=each.error)
            asked_for = UNSET if sample is None else str(sample)
            result = replace(case.result, sample=asked_for, made=self.made_of(case.wire))
            yield replace(case, result=result)

    def made_of(self, wire: Wire | None) -> Made:
        """Return what makes the result of a request, now; without one, of an error."""
        digest = None if wire is None else _digest((wire.prepared or wire.request).settings)
        now = datetime.now(UTC).replace(microsecond=0)
        return replace(self._made, settings_digest=digest, time=now)

    def _read(self) -> Iterator[ConvertedCase]:
        if self._given is None:
            yield from read_cases(self.selection)
            return
        for number, given in enumerate(self._given, 1):
            try:
                case = case_of(given, case_id=str(number))
                yield ConvertedCase(case.suite, case)
            except MultiturnError as error:
                yield ConvertedCase("", error=error)

    def keep(self, case: RunCase) -> None:
        """Write the result of a case into the file, if there is one, and add up what it cost."""
        self.budget.end(case)
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


def _commit() -> str | None:
    """Return the commit of the repository around the current folder; None where Git names none."""
    from multiturn.engine.revision import git  # which imports what only --against needs

    try:
        return git("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    except (MultiturnError, OSError):
        return None


def _limit(name: str, number: Any) -> Any:
    want(number, int | float | None, f"{name} must be a number above 0")
    if number is not None and not number > 0:  # NaN is not
        raise ValueError(f"{name} must be a number above 0")
    return number


def _chosen(
    cases: Any, pipeline: Pipeline | str | Path | None
) -> tuple[Selection, Iterable[Given] | None, Pipeline]:
    """Return which cases a run is of, the cases themselves if they are given, and the pipeline."""
    words = "pipeline must be a Pipeline, or its name or path"
    want(pipeline, Pipeline | str | Path | None, words)
    words = "cases must be an iterable of Case or mappings, or the path of a suite"
    want(cases, Iterable | Selection | Path, words)
    roots = {"root": None} if isinstance(cases, str | Path) else {}
    with from_project(pipeline=pipeline, **roots) as project:
        chosen = chosen_pipeline(project)
        if isinstance(cases, str | Path):
            cases = select([str(cases)], root=project.root)
    if isinstance(cases, Selection):
        return cases, None, chosen
    return Selection(), cases, chosen


async def run(
    cases: Iterable[Given] | AsyncIterable[Given] | str | Path,
    pipeline: Pipeline | str | Path | None,
    provider: Provider,
    *,
    results: str | Path | None = None,
    concurrency: int = 8,
    order: Order = "prefixes",
    **options: Unpack[RunOptions],
) -> AsyncIterator[Result]:
    """Yield the result of each case as soon as there is an answer, in no order.

    Memory holds only the cases that wait for an answer, and at most 1,000 that are read ahead, or
    16 MiB of their requests. A case that cannot be read or converted, or gets no answer, yields a
    result with an error; its ``id`` is empty if that belongs to no case, as where a suite is not
    YAML. After an ``access_denied``, ``target`` or ``unreachable``, no more cases are sent.

    Args:
        cases: the cases, or mappings as ``case_of`` takes them, which may come from a generator,
            sync or async; or the path of a suite or of a folder, whose root is then the project's.
        pipeline: the pipeline, its name or the path of its file; None for the project's, else
            ``spec``.
        provider: answers the requests.
        results: path of the file to append each result to, before it is yielded; without ``resume``
            it must be new or empty.
        concurrency: maximum number of concurrent requests.
        order: ``prefixes`` sends cases whose prompts begin in the same way together, if the vendor
            may cache that, the first of them before the others; ``suite`` keeps the suites' order.
        options: any of those below, each of which is off by default.
        resume: continue the file of results: a case that succeeded there and whose request is
            unchanged is not sent, and yields nothing.
        against: a Git revision: a case whose request was the same there is not sent, and yields
            nothing. Needs the path of a suite, and a pipeline's name or path.
        record_wire: add the exact body to each result.
        record_thinking: add what the model thought to each result, as the vendor sent it.
        max_cost: dollars: if the input alone costs more, nothing is sent; later, no more is.
        max_tokens: likewise, the most tokens, input and output together.
        prices: path of a file with prices, which wins over those of the package genai-prices.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: ``concurrency`` is below 1, a limit is not above 0, or arguments do not go
            together.
        MultiturnError: there is no such suite, pipeline or revision; the provider's program is
            not installed; the file of results is not one, or belongs to another run; or the run
            would exceed a limit.
        LimitReachedError: the run has reached a limit; after the requests under way are done.
        OSError: the file of results cannot be written.
        Exception: whatever a generator of cases raises, after the requests under way are done.
    """
    want(concurrency, int, "concurrency must be a whole number")
    if concurrency < 1:
        raise ValueError("concurrency must be 1 or more")
    if order not in get_args(Order):
        raise ValueError(f"order must be one of {', '.join(get_args(Order))}")
    with Run(cases, pipeline, provider, results=results, **options) as opened:
        async with aclosing(answers(opened, concurrency=concurrency, order=order)) as done:
            async for case in done:
                if case.has_result:
                    yield case.result


@overload
def dry_run(
    cases: AsyncIterable[Given], pipeline: Pipeline | str | Path | None, provider: Provider
) -> AsyncIterator[RunCase]: ...
@overload
def dry_run(
    cases: Iterable[Given] | str | Path,
    pipeline: Pipeline | str | Path | None,
    provider: Provider,
    *,
    results: str | Path | None = None,
    resume: bool = False,
    against: str | None = None,
    count_tokens: bool = False,
) -> Iterator[RunCase]: ...
def dry_run(cases: Any, pipeline: Any, provider: Provider, **options: Any) -> Any:
    """Return an iterator over what ``run`` would do with each case; nothing is sent or written.

    It is an async one where the cases come from an async iterable.

    The arguments and errors are those of ``run``; but with ``count_tokens``, it asks the vendor how
    many tokens each request has, and has an event loop of its own: inside another one, call it in a
    thread, as ``run_batches``.
    """
    count_tokens = options.pop("count_tokens", False)
    dry = Run(cases, pipeline, provider, is_dry=True, **options)
    if dry.arriving is not None:
        return _arrived(dry, dry.arriving)
    return counted(dry) if count_tokens else dry.cases()


async def _arrived(run: Run, arriving: Arriving) -> AsyncIterator[RunCase]:
    cases = run.cases()
    while True:
        if (arrival := arriving.pending()) is not None:
            await arrival
        if (case := next(cases, None)) is None:
            return
        yield case


def estimate(
    cases: Iterable[RunCase], provider: TargetProvider, *, prices: str | Path | None = None
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
    """Send the cases of a run that is open; yield each with its result, which is then in the file.

    A case that is not sent is yielded, too.

    Raises:
        MultiturnError: the run would exceed a limit; nothing is sent.
        LimitReachedError: it would exceed one if it went on; after the requests under way are done.
    """
    run.check_budget()
    cases = run.cases()
    # The first case may come through a pipe. Ctrl-C ends the wait for it only outside the event
    # loop, which answers the first Ctrl-C by cancelling a task that never gets to run.
    if run.arriving is not None:
        return _answers(run, Queue(cases, run.provider, "suite"), concurrency)
    first = list(islice(cases, 1))
    return _answers(run, Queue(chain(first, cases), run.provider, order), concurrency)


async def _answers(run: Run, cases: Queue, concurrency: int) -> AsyncGenerator[RunCase, None]:
    under_way: dict[asyncio.Task[RunCase], RunCase] = {}
    failure, is_over = None, False
    try:
        while under_way or not is_over:
            is_free = len(under_way) < concurrency and not is_over
            arrival = run.arriving.pending() if run.arriving is not None and is_free else None
            if arrival is not None:
                await asyncio.wait((*under_way, arrival), return_when=asyncio.FIRST_COMPLETED)
            elif is_over or cases.is_waiting:
                await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            else:
                case = None
                try:
                    case = cases.next(is_busy=len(under_way) == concurrency)
                    if case is not None and case.has_result:
                        run.budget.begin(case)
                        under_way[asyncio.create_task(_send(case, run))] = case
                except StopIteration:
                    is_over = True
                except Exception as error:  # raised once the requests under way are done
                    failure, is_over = error, True
                if case is not None and not case.has_result:
                    yield case
                await asyncio.sleep(0)  # reading blocks the event loop: let the requests continue
            for task in filter(asyncio.Task.done, [*under_way]):
                cases.answered(under_way.pop(task))
                run.keep(task.result())
                is_over |= task.result().ends_run
                yield task.result()
        if failure is not None:
            raise failure
    finally:
        if run.arriving is not None:
            run.arriving.cancel()
        arrived = [task for task in under_way if task.done()]
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        for task in arrived:  # nobody reads it any more, but it may have been paid for
            run.keep(task.result())


async def _send(case: RunCase, run: Run) -> RunCase:
    if case.wire is None:
        return case
    with suppress(Exception):  # send meets the same error, and reports it
        await run.provider.prepare()
    made, start = run.made_of(case.wire), perf_counter()
    sent = b""
    try:
        answer = await run.provider.send(case.wire)
        done = case.answered(answer, with_thinking=run.options.get("record_thinking", False))
        sent = answer.wire
    # A library may raise CancelledError, which must not end the run. Where the run itself cancels
    # this task, at its end, nobody reads the result.
    except asyncio.CancelledError:
        done = case.failed(RuntimeError("it was cancelled"))
    except Exception as error:
        sent = error.wire if isinstance(error, ProviderError) else b""
        done = case.failed(error)
    latency = round((perf_counter() - start) * 1000, 1)
    body = sent.decode("utf-8", "replace") if run.options.get("record_wire") and sent else UNSET
    return replace(done, result=replace(done.result, latency_ms=latency, wire=body, made=made))


def counted(run: Run, *, concurrency: int = 8) -> Iterator[RunCase]:
    """Yield each case in the order of the suites, with the tokens that the vendor counts.

    A case that the vendor does not count has an error. It has an event loop of its own, of which
    nothing is open while a case is yielded: an iterator may be kept until the program ends.

    Raises:
        MultiturnError: the vendor counts no tokens.
        RuntimeError: it is called inside an event loop.
    """
    want_no_loop("dry_run")
    provider, cases = targets.counter_of(run.provider), run.cases()

    async def count(case: RunCase) -> RunCase:
        if case.action != "send" or case.wire is None:
            return case
        try:
            return replace(case, tokens=await provider.count_tokens(case.wire))
        except ProviderError as error:
            return replace(case.failed(error), action="refuse", wire=None, tokens=None)

    async def counts(some: list[RunCase]) -> list[RunCase]:
        async with provider:
            return await asyncio.gather(*map(count, some))

    while some := list(islice(cases, concurrency)):
        for case in asyncio.run(counts(some)):
            yield case
            if case.ends_run:
                return
