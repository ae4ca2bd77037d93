"""The part of ``multiturn run`` that prints results, progress, costs and summaries."""

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator
from contextlib import closing, suppress
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from toolz import groupby

from multiturn.cli import exit_code
from multiturn.cli.options import on_terminal
from multiturn.cli.printing import (
    Failures,
    Progress,
    echo,
    echo_table,
    estimated_cases,
    say_line,
    say_summary,
)
from multiturn.cli.rendering import to_result_text
from multiturn.documents.output import standard_output
from multiturn.engine import costs
from multiturn.engine.run import Order, Run, RunCase, RunTarget, answers
from multiturn.errors import LimitReachedError, MultiturnError, ProviderError
from multiturn.explaining.record import to_json
from multiturn.providers.base import TargetProvider, opened
from multiturn.providers.results import Result, request_id
from multiturn.text import dollars, first_of, in_line, number_of

if TYPE_CHECKING:
    from multiturn.engine.batches import BatchRun


def _say_of(target: RunTarget, words: str) -> None:
    """Print a line about a target, with its name where there are several."""
    say_summary(": ".join(filter(None, (target.where, words))), err=True)


def _tokens(estimate: costs.Estimate, provider: TargetProvider) -> str:
    words = f"{_about(estimate)}{_many(estimate.input)} input tokens"
    if estimate.shared:
        share = round(100 * estimate.shared / estimate.input)
        words += f", {share} % in prefixes that other cases share"
        if provider.cache_minimum is None:
            least = f"{costs.ASSUMED_MINIMUM:,} tokens"
            words += f" (if they are cached from {least} on, which is not known)"
    words += without_media(estimate.media)
    limited = f"at most {_many(estimate.output)} output tokens"
    if not estimate.unlimited:
        return f"{words}; {limited}"
    if estimate.unlimited == estimate.cases:
        return f"{words}; the output has no limit"
    return f"{words}; {limited}, and {_many(estimate.unlimited)} requests without a limit"


def without_media(number: int) -> str:
    """Return the words that say how many images and other media are in no count."""
    return f", without {number_of(number, 'image')} or other media (not known)" if number else ""


def _money(estimate: costs.Estimate, provider: TargetProvider) -> str:
    price = estimate.price
    if price is None:
        return costs.no_price(provider) if costs.model_of(provider) else ""
    now = _both(estimate, estimate.input_cost, estimate.output_cost)
    batch = cache = ""
    if price.batch is not None:
        cost = _both(estimate, estimate.batch_input_cost, estimate.batch_output_cost)
        batch = f"; as a batch {cost}"
    if estimate.shared and price.now.cached and provider.cache_minimum is not None:
        option = "the cache" if provider.has_cache else "prompt_caching"
        cost = _both(estimate, estimate.cached_input_cost, estimate.output_cost)
        cache = f"; with {option} {cost}"
    media = "; all without images or other media" if estimate.media else ""
    return f"{_about(estimate)}{now}{batch}{cache}{media} ({price.source})"


def _both(estimate: costs.Estimate, input_cost: float, output_cost: float) -> str:
    total = f", at most {dollars(input_cost + output_cost)} in all"
    return f"{dollars(input_cost)} for the input{'' if estimate.unlimited else total}"


def _too_large(estimate: costs.Estimate, provider: TargetProvider) -> str:
    if not estimate.too_large or estimate.price is None:
        return ""
    does = "does" if estimate.too_large == 1 else "do"
    what = f"{number_of(estimate.too_large, 'case')} {does} not fit {costs.model_of(provider)}"
    suites = groupby(itemgetter(0), estimate.named).items()
    named = [f"{suite}: {first_of([case_id for _, case_id in cases])}" for suite, cases in suites]
    return f"{what} ({estimate.price.most_input:,} tokens): {first_of(named)}"


def say_spending(run: Run) -> None:
    """Print the tokens that each vendor has counted, what they cost, and how far we were off."""
    for target in run.targets.values():
        if target.budget.cases:
            _say_of(target, _spending(target.budget))


def _spending(budget: costs.Budget) -> str:
    usage = budget.usage
    cached = f" ({_many(usage.cached)} from the cache)" if usage.cached else ""
    words = f"{_many(usage.input)} input tokens{cached}, {_many(usage.output)} output tokens"
    if budget.price is not None and budget.rates is not None:
        words += f": {dollars(budget.cost)} ({budget.price.source})"
    if budget.estimated and budget.compared:
        off = budget.estimated / budget.compared - 1
        side = "high" if off > 0 else "low"
        near = f"{abs(off):.0%} too {side}" if round(abs(off), 2) else "right"
        words += f"; the estimate of the input was {near}"
        if budget.uncounted:
            media = number_of(budget.uncounted, "case")
            words += f", without {media} with images or other media (not known)"
    return words


def _about(estimate: costs.Estimate) -> str:
    return "" if estimate.is_exact else "about "


def _many(count: int) -> str:
    """Return a number in words; one of more than a million is rounded.

    >>> _many(1200), _many(1_213_404)
    ('1,200', '1.21 million')
    """
    return f"{count:,}" if count < 1_000_000 else f"{count / 1_000_000:.2f} million"


class Tally:
    """Prints the errors of cases, and counts what became of them."""

    def __init__(self, failures: Failures, show: Callable[[Result], None] | None = None) -> None:
        self.failures = failures
        self.show = show  # prints each result of a case; None if they are written into a file
        self.actions: Counter[str] = Counter()  # number of cases by their action
        self.done = 0  # number of cases with a result in this run
        self.answers: Counter[str | None] = Counter()  # number of those by kind of answer
        self.retried = 0  # number of those whose request was repeated
        self.repaired = 0  # number of those whose prompt was repaired
        self.rules: set[str] = set()  # ids of the rules that required it
        self.denied: set[str] = set()  # targets that denied access; no more cases are sent to them
        self._said: set[str] = set()  # errors of cases that were not sent: one for all targets

    def add(self, case: RunCase) -> None:
        """Print and count a case."""
        self.actions[case.action] += 1
        if not case.has_result:
            return
        result = case.result
        if self.show is not None and result.id:
            self.show(result)
        self.done += 1
        self.retried += result.retries > 0
        self.answers[result.answer] += 1
        if case.action == "send" and result.repairs:
            self.repaired += 1
            self.rules |= {repair.partition(":")[0] for repair in result.repairs}
        if result.error is None:
            return
        message, target = result.error.message, result.target
        is_said = target in self.denied if case.ends_run else message in self._said
        if is_said:
            self.failures.count += 1
        elif result.error.type == "conversion" and isinstance(case.error, MultiturnError):
            self.failures.add(case.error)
        else:
            self.failures.say(f"{message}; no more cases are sent" if case.ends_run else message)
        self._said |= {message} if case.wire is None else set()
        self.denied |= {target} if case.ends_run else set()

    def summary(self) -> str:
        """Return how many cases were answered, reused and failed."""
        failed, reused = self.failures.count, self.actions["reuse"]
        kinds = {"empty": self.answers["empty"], "refused": self.answers["refusal"]}
        noted = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items() if count)
        of_these = f" ({noted})" if noted else ""
        return f"{self.done - failed:,} answered{of_these}, {reused:,} reused, {failed:,} failed"

    def repairs(self) -> str:
        """Return how many prompts were repaired, and by which rules, as a clause of a summary."""
        if not self.repaired:
            return ""
        return f"; {self.repaired:,} sent with repairs: {', '.join(sorted(self.rules))}"


def _name_removed(run: Run) -> None:
    """Print which results are of cases that the suites no longer have, after a run of all cases."""
    if run.results is not None and not run.selection.is_partial and (ids := run.results.strays()):
        what = f"{number_of(len(ids), 'result')} of cases that are no longer in the suites"
        say_line(f"{run.results_path()} still has {what}: {first_of(ids)}")


def print_result(result: Result, *, as_text: bool) -> None:
    """Print a result as a line of JSON, or its answer; standard error has the errors."""
    if not as_text:
        standard_output().buffer.write(to_json(result))
    elif result.error is None:
        standard_output().buffer.write(to_result_text(result, color=on_terminal()))
    standard_output().buffer.flush()


def preview(run: Run, cases: Iterable[RunCase], tally: Tally, *, as_text: bool) -> None:
    """Print what would be sent, case by case or how it is in parts, and what it would cost."""
    targets = run.targets.items()
    found = {
        name: costs.Estimate(each.budget.price, costs.SharedPrefixes(each.provider))
        for name, each in targets
    }
    show: Callable[..., None] = partial(_print_table, run) if as_text else _print_lines
    waiting: Collection[tuple[str, str]] = ()  # requests that add nothing
    if run.is_batch:
        from multiturn.engine.batches import BatchRun

        batches = BatchRun(run, poll=0, say=say_line)
        show, waiting = partial(_print_parts, batches), batches.state.waiting[0]

    def noted() -> Iterator[RunCase]:
        for case in cases:
            if (case.result.target, request_id(case.result)) not in waiting:
                found[case.result.target].add(case)
            yield case

    show(noted(), tally)
    counts = tally.actions
    words = "" if run.is_batch else f"{counts['send']:,} to send, "
    words += f"{counts['reuse']:,} to reuse, {counts['refuse']:,} refused; nothing was sent"
    say_summary(words, err=True)
    for name, target in targets:
        for words_of in (_tokens, _money, _too_large) if found[name].cases else ():
            if line := words_of(found[name], target.provider):
                _say_of(target, line)
    for name, target in targets:
        target.budget.check(found[name], target.provider)


def _print_lines(cases: Iterable[RunCase], tally: Tally) -> None:
    for case in cases:
        tally.add(case)
        if case.action in ("skip", "unreadable"):
            continue
        result, wire = case.result, case.wire
        line = {
            "suite": result.suite,
            "id": result.id,
            "target": result.target,
            "action": case.action,
            "repairs": result.repairs,
            "error": result.error,
            "input_tokens": None if case.tokens is None else case.tokens.count,
            "wire": None if wire is None else wire.shown.decode(),
            "made": result.made,
        }
        line |= {"repeat": result.repeat} if result.repeat else {}
        standard_output().buffer.write(to_json(line))
    standard_output().buffer.flush()


def _print_table(run: Run, cases: Iterable[RunCase], tally: Tally) -> None:
    """Print the tokens, their cost and the repairs of each case, the sum, and what repairs did."""
    of = {name: costs.Estimate(target.budget.price) for name, target in run.targets.items()}
    names, rows, repairs = [], [], dict[str, str]()
    for case in cases:
        tally.add(case)
        if case.action in ("skip", "unreadable"):
            continue
        result, sums = case.result, of[case.result.target]
        before = sums.input, sums.input_cost
        sums.add(case)
        rules = {repair.partition(":")[0]: repair for repair in result.repairs}
        repairs = {**rules, **repairs}
        tokens = f"{sums.input - before[0]:,}" if case.action == "send" else f"{case.action}d"
        cost = dollars(sums.input_cost - before[1]) if case.action == "send" and sums.price else ""
        names.append((result.suite, result.id, result.target, str(result.repeat or "")))
        rows.append((tokens, cost, ", ".join(rules)))
    different = [column for column in zip(*names, strict=True) if len(set(column)) > 1]
    titles = map(" · ".join, zip(*different, strict=True) if different else names)
    about = "" if all(each.is_exact for each in of.values()) else "about "
    tokens = f"{about}{sum(each.input for each in of.values()):,}"
    cost = dollars(sum(each.input_cost for each in of.values()))
    table = [
        ("case", "input tokens", "input cost", "repairs"),
        *((title, *row) for title, row in zip(titles, rows, strict=True)),
        (number_of(sum(each.cases for each in of.values()), "request"), tokens, cost, ""),
    ]
    has_price = any(each.price for each in of.values())
    echo_table(table if has_price else [(*row[:2], *row[3:]) for row in table])
    for repair in repairs.values():
        echo(in_line(repair))


def _print_parts(batches: "BatchRun", cases: Iterable[RunCase], tally: Tally) -> None:
    for case in batches.submit(cases):
        tally.add(case)
    for name, target in batches.targets.items():
        parts = [part for part in batches.parts if part.target == name]
        requests = number_of(sum(part.requests for part in parts), "request")
        size = sum(part.size for part in parts)
        where = ", ".join(filter(None, (target.provider, target.model, *target.address)))
        echo(f"{requests} in {number_of(len(parts), 'part')}, {size:,} bytes, to {where}")


def send_cases(run: Run, tally: Tally, *, concurrency: int, order: Order) -> None:
    """Send the cases of a run, and print what becomes of each."""
    ended_by, stopped = signal.SIGINT, None

    def end(number: signal.Signals, task: "asyncio.Task[None]") -> None:
        nonlocal ended_by
        ended_by = number
        task.cancel()

    async def main(cases: AsyncGenerator[RunCase, None]) -> None:
        this: Any = asyncio.current_task()
        with suppress(NotImplementedError, AttributeError):  # Windows has no such signals
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
                asyncio.get_running_loop().add_signal_handler(number, end, number, this)
        async with opened(target.provider for target in run.targets.values()):
            async for case in cases:
                tally.add(case)
                failed = f"{tally.failures.count:,} failed, {tally.retried:,} retried"
                progress.update(tally.actions.total(), f"{tally.done:,} done, {failed}")

    def kept(before: str) -> str:
        path = run.results_path()
        return f"{before} finished results are in {path}; continue with --resume" if path else ""

    is_mixed = run.path is None and standard_output().isatty()  # with answers, on the same terminal
    times = len(run.targets) * len(run.numbers)

    def total() -> int | None:
        return (estimated_cases(run.selection) or 0) * times or None

    with closing(Progress(total, hidden=is_mixed)) as progress:
        try:
            asyncio.run(main(answers(run, concurrency=concurrency, order=order)))
        except (KeyboardInterrupt, asyncio.CancelledError):
            progress.close()
            say_spending(run)
            say_line(f"interrupted after {number_of(tally.done, 'case')}{kept(':')}")
            sys.exit(exit_code(ended_by))
        except LimitReachedError as error:
            stopped = error
    path = run.results_path()
    if not (tally.denied or stopped):
        _name_removed(run)
    counts = f"{tally.summary()}, {tally.retried:,} retried"
    say_summary(f"{counts}{f': {path}' if path else ''}{tally.repairs()}", err=True)
    say_spending(run)
    if stopped is not None:
        tally.failures.say(in_line(f"{stopped}{kept(';')}"))


def send_batch(run: Run, tally: Tally, *, poll: float, wait: bool) -> None:
    """Send the cases of a run in batches, and print what becomes of them."""
    from multiturn.engine.batches import BatchRun

    advice = f"continue with --resume --batch, or cancel with: multiturn batch cancel {run.path}"
    with (
        BatchRun(run, poll=poll, say=say_line) as batches,
        closing(Progress(lambda: batches.requests, hidden=False)) as progress,
    ):
        try:
            for case in batches.cases(wait=wait):
                if case is not None:
                    tally.add(case)
                    continue
                answered = sum(status.answered or 0 for status in batches.statuses.values())
                progress.update(answered, f"{answered:,} answered")
        except KeyboardInterrupt:
            progress.close()
            say_line(f"interrupted; the provider still works on what was submitted; {advice}")
            raise
        except ProviderError as error:
            last = f"to give up what was submitted, remove {batches.state.path}"
            raise MultiturnError(f"{error}; {advice}; {last}") from None
        left = batches.requests
    _name_removed(run)
    if left:
        say_line(f"{number_of(left, 'request')} under way; get their results with --resume --batch")
    say_summary(f"{tally.summary()}: {run.results_path()}{tally.repairs()}", err=True)
    say_spending(run)
