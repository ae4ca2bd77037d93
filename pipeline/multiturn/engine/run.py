"""A run: its cases and provider, which requests need not be sent again, and the results file."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypedDict

from msgspec.structs import replace

from multiturn.engine.arguments import want
from multiturn.engine.budget import Budget
from multiturn.engine.costs import Estimate, model_of, price_for
from multiturn.engine.delivery import Delivery, prepare, request_size, unless_known, unreadable
from multiturn.engine.outcomes import Outcome, read_cases
from multiturn.engine.project import chosen_pipeline, from_project
from multiturn.engine.selection import Selection, select, suite_names
from multiturn.errors import MultiturnError, option
from multiturn.model.case import Case
from multiturn.pipelines.pipeline import Pipeline
from multiturn.pipelines.pipeline_file import DEFAULT_PIPELINE
from multiturn.providers.base import Provider, TargetProvider
from multiturn.providers.custom import complete
from multiturn.providers.results import Result, ResultsFile, key_of, read_stored, state_path
from multiturn.text import utf8

_MOST_HELD = 16 * 2**20  # bytes of requests
Cases = Iterable[Case] | Selection | str | Path


class RunOptions(TypedDict, total=False):
    """The options of ``Run`` that ``run``, ``run_batches`` and the command only hand on."""

    resume: bool
    against: str | None
    record_wire: bool
    record_thinking: bool
    max_cost: float | None
    max_tokens: int | None
    prices: str | Path | None


class Run:
    """What a run sends and where its results go; a context manager that opens the results file.

    On leaving, the file keeps one line for each case. ``RunOptions`` are as for ``multiturn.run``.

    Args:
        cases: the cases, or the path of a suite or of a folder.
        pipeline: the pipeline, its name or the path of its file; None for the project's.
        provider: answers the requests.
        results: path of the file that gets each result.
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
        resume: bool = False,
        against: str | None = None,
        record_wire: bool = False,
        record_thinking: bool = False,
        max_cost: float | None = None,
        max_tokens: int | None = None,
        prices: str | Path | None = None,
        batch: bool = False,
        is_dry: bool = False,
        is_default: bool = False,
    ) -> None:
        self.provider = complete(provider)
        self.selection, self._given, self.pipeline, name = _chosen(cases, pipeline)
        if resume and results is None:
            raise ValueError("resume continues a file of results; name it with results")
        self.path = None if results is None else str(results)
        self.resume = resume
        for limit, number in {"max_cost": max_cost, "max_tokens": max_tokens}.items():
            want(number, int | float | None, f"{limit} must be a number above 0")
            if number is not None and not number > 0:  # NaN is not
                raise ValueError(f"{limit} must be a number above 0")
        self.record_wire, self.record_thinking = record_wire, record_thinking
        if self.path is not None and (batch or os.path.exists(state_path(self.path))):
            # Most runs need nothing of what batches need.
            from multiturn.engine.batch_state import check_batches

            check_batches(self.provider, self.path, batch=batch, resume=resume)
        if not is_dry:
            self.provider.check()
        self.names = suite_names(self.selection)
        self.budget = Budget(
            price_for(self.provider, prices) if model_of(self.provider) else None,
            most_cost=max_cost,
            most_tokens=max_tokens,
            batch=batch,
        )
        # Without a limit, a run only says how far an estimate was off. What a published tokenizer
        # counts is no estimate, and its tables take 70 MB.
        self._with_tokens = is_dry or self.budget.has_limit or not self.provider.tokenizer.encoding
        self.earlier: dict[bytes, str] = {}  # digests at the revision, by the keys of results
        if against is not None:
            if name is None or self._given is not None:
                what = "against compares files: cases must be a path, and pipeline a name or a path"
                raise ValueError(what)
            is_default = is_default or pipeline is None
            self.earlier = _digests_at(
                against, self.selection, name, self.provider, is_default=is_default
            )
        self.stored: dict[bytes, str] = {}  # digests of answered requests, by the same keys
        if is_dry and resume and self.path is not None and os.path.exists(self.path):
            self.stored = read_stored(self.path)
        self.results: ResultsFile | None = None
        self._held: list[Delivery] | None = None  # those of ``rehearse``, if they fit

    def __enter__(self) -> Self:
        if self.path is not None:
            self.results = ResultsFile(self.path, resume=self.resume)
            self.stored = self.results.stored
        return self

    def __exit__(self, *error: Any) -> None:
        if self.results is not None:
            self.results.__exit__(*error)

    def check_budget(self) -> None:
        """Refuse a run whose requests exceed a limit; nothing is sent yet.

        Raises:
            MultiturnError: they do; or a price is not known; or as for ``rehearse``.
        """
        if self.budget.has_limit:
            found = Estimate(self.budget.price)
            for prepared in self.rehearse():
                found.add(self._unless_known(prepared))
            self.budget.check(found, self.provider)

    def rehearse(self) -> Iterator[Delivery]:
        """Prepare every case, and yield it; ``deliveries`` can follow.

        Requests of up to 16 MiB are kept in memory, and ``deliveries`` yields those. If there are
        more, it reads and converts the cases again, because memory must not grow with the suites.

        Raises:
            MultiturnError: a suite that cannot be read again, such as a pipe, has more.
        """
        if self._held is not None:
            yield from self._held
            return
        held: list[Delivery] | None = []
        size = 0
        for delivery in self._prepared():
            yield delivery
            if held is None:
                continue
            held.append(delivery)
            size += request_size(delivery)
            if size > _MOST_HELD:
                held = None
                self._check_second_reading()
        self._held = held

    def _check_second_reading(self) -> None:
        name = "strict" if self.budget.most_tokens is None else "max-tokens"
        name = name if self.budget.most_cost is None else "max-cost"
        what = f"{option(name)} reads requests of more than {_MOST_HELD // 2**20} MiB twice, and"
        if isinstance(self._given, Iterator):
            raise MultiturnError(f"{what} an iterator of cases can be read only once; give a list")
        for path in self.selection.suites:
            if not os.path.isfile(path):
                raise MultiturnError(f"{what} {path!r} can be read only once; write it to a file")

    def deliveries(self) -> Iterator[Delivery]:
        """Read, convert and yield each case, one at a time; nothing is sent."""
        for prepared in self._prepared() if self._held is None else self._held:
            delivery = self._unless_known(prepared)
            if self.results is not None:
                self.results.touch(delivery.result)
            yield delivery

    def _unless_known(self, delivery: Delivery) -> Delivery:
        return unless_known(delivery, self.stored, self.earlier)

    def _prepared(self) -> Iterator[Delivery]:
        strict, sample = self.selection.strict, self.selection.sample
        for outcome in self._outcomes():
            if outcome.error is not None:
                name = self.names[outcome.suite]
                delivery = unreadable(outcome.error, name, self.provider.name)
            elif outcome.case is not None:
                delivery = prepare(
                    outcome.case,
                    self.pipeline,
                    self.provider,
                    strict=strict,
                    with_tokens=self._with_tokens,
                )
            if sample is not None:
                delivery = replace(delivery, result=replace(delivery.result, sample=str(sample)))
            yield delivery

    def _outcomes(self) -> Iterator[Outcome]:
        if self._given is None:
            yield from read_cases(self.selection)
            return
        for case in self._given:
            want(case, Case, "each of the cases must be a Case, as load_suite gives it")
            yield Outcome(case.suite, case)

    def keep(self, delivery: Delivery) -> None:
        """Write the result of a case into the file, if there is one, and add up what it cost."""
        self.budget.end(delivery)
        result = delivery.result
        if self.results is not None and result.id:
            self.results.append(result)

    def results_path(self) -> str | None:
        """Return the path of the results file; another one if the file was removed or replaced."""
        if self.results is None:
            return None
        self.results.keep()
        return self.results.path

    def sync(self) -> None:
        """Write the results so far to the disk, so that they survive a crash of the machine."""
        if self.results is not None:
            self.results.sync()


def _chosen(
    cases: Cases, pipeline: Pipeline | str | Path | None
) -> tuple[Selection, Iterable[Case] | None, Pipeline, str | None]:
    """Return what a run is of.

    Returns:
        Which cases; the cases themselves, where they are given; the pipeline; its name or path, or
        None for a Pipeline that is given.
    """
    words = "pipeline must be a Pipeline, or its name or path"
    want(pipeline, Pipeline | str | Path | None, words)
    words = "cases must be an iterable of Case, or the path of a suite"
    want(cases, Iterable | Selection | Path, words)
    roots = {"root": None} if isinstance(cases, str | Path) else {}
    with from_project(pipeline=pipeline, **roots) as project:
        chosen = chosen_pipeline(project)
        if isinstance(cases, str | Path):
            cases = select([str(cases)], root=project.root)
    is_given = isinstance(pipeline, Pipeline)
    name = None if is_given else str(project.pipeline or DEFAULT_PIPELINE)
    if isinstance(cases, Selection):
        return cases, None, chosen, name
    return Selection(), cases, chosen, name


def _digests_at(
    revision: str,
    selection: Selection,
    pipeline: str,
    provider: TargetProvider,
    *,
    is_default: bool,
) -> dict[bytes, str]:
    """Return the digest of each request as it was at a revision, by the key of its result."""
    from multiturn.engine.git import commit_of
    from multiturn.engine.revision import reading_at, requests_of

    digests = {}
    with reading_at(
        *(commit_of(revision), requests_of, selection, pipeline), is_default=is_default
    ) as then:
        for request in then:
            result = Result(suite=utf8(request.suite), id=request.eval_id, target=provider.name)
            with suppress(Exception):  # what a provider refuses has no digest
                digests[key_of(result)] = provider.wire(request).digest()
    return digests
