"""Running cases from Python: results as they come, bounded, lazy, and each failing alone."""

import asyncio
import os
import re
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec import structs

from layout import laid_out
from loopback import Server
from multiturn import (
    AxProvider,
    Case,
    Conversion,
    MultiturnError,
    Pipeline,
    ProviderError,
    ProviderRequest,
    ProviderResponse,
    Result,
    TestMessage,
    load_pipeline,
    run,
    stage,
)
from multiturn.engine import run as runs
from multiturn.model.settings import RequestSettings
from multiturn.providers.client import Client
from multiturn.providers.custom import complete
from multiturn.providers.openai.provider import AzureProvider
from vendors import azure, echo

PIPELINE = laid_out()
Invoke = Callable[[ProviderRequest], Awaitable[ProviderResponse]]
T = TypeVar("T")


class Provider:
    """Anything with a name and ``invoke``."""

    name = "mine"

    def __init__(self, answer: Invoke | None = None) -> None:
        self.answer = answer
        self.requests: list[ProviderRequest] = []
        self.under_way = self.most_under_way = 0

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        self.requests.append(request)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            if self.answer is not None:
                return await self.answer(request)
            return ProviderResponse(text=f"re: {request.eval_id}")
        finally:
            self.under_way -= 1


def case(number: int, content: str = "Hello", **settings: Any) -> Case:
    message = TestMessage("user", content)
    return Case(id=f"c{number}", suite="a.yaml", input_messages=(message,), **settings)


def cases(count: int) -> Iterator[Case]:
    return (case(number) for number in range(count))


def finish(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine, which may not hang."""
    return asyncio.run(asyncio.wait_for(main, 60))


async def listed(results: AsyncIterator[Result]) -> list[Result]:
    return [result async for result in results]


def results_of(given: Iterator[Case], provider: Any, **options: Any) -> dict[str, Result]:
    """Run cases, and return the results by their id."""
    pipeline = options.pop("pipeline", PIPELINE)
    results = finish(listed(run(given, pipeline, provider, **options)))
    found = {result.id: result for result in results}
    assert len(found) == len(results)
    return found


async def settled() -> None:
    """Let every task go on as far as it gets."""
    for _ in range(200):
        await asyncio.sleep(0)


async def hang(request: ProviderRequest) -> ProviderResponse:
    await asyncio.Event().wait()
    raise AssertionError("an answer to nothing")


async def pause(request: ProviderRequest) -> ProviderResponse:
    await asyncio.sleep(0.002)
    return ProviderResponse(text="done")


def test_the_latency_is_in_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = types.SimpleNamespace(now=20.0)

    async def answer(request: ProviderRequest) -> ProviderResponse:
        clock.now += 1.5  # seconds
        return ProviderResponse(text="done")

    monkeypatch.setattr(runs, "perf_counter", lambda: clock.now)
    assert results_of(cases(1), Provider(answer))["c0"].latency_ms == 1500.0


def test_the_making_of_the_client_is_no_latency(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes 100 s by the clock of the run."""
    clock = types.SimpleNamespace(now=0.0)
    client = AzureProvider.client

    def make_slowly(provider: AzureProvider) -> Client:
        clock.now += 100 if clock.now == 0 else 0
        return client(provider)

    async def main() -> list[Result]:
        async with azure(server.url) as provider:
            return await listed(run(cases(3), PIPELINE, provider))

    monkeypatch.setattr(AzureProvider, "client", make_slowly)
    monkeypatch.setattr(runs, "perf_counter", lambda: clock.now)
    results = finish(main())
    assert [(result.error, result.latency_ms) for result in results] == [(None, 0.0)] * 3
    assert clock.now >= 100


@pytest.mark.parametrize(
    ("options", "most"),
    [({"concurrency": 1}, 1), ({"concurrency": 7}, 7), pytest.param({}, 8, id="by default")],
)
def test_as_many_are_under_way_as_was_asked_for_and_never_more(
    options: dict[str, int], most: int
) -> None:
    provider = Provider(pause)
    assert len(results_of(cases(40), provider, **options)) == 40
    assert provider.most_under_way == most


def test_a_result_does_not_wait_for_cases_that_are_not_sent_again(tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"

    async def main() -> None:
        given = cases(1000)
        results = run(given, PIPELINE, Provider(), results=output, resume=True)
        assert (await anext(results)).id == "c0"
        assert next(given).id in [f"c{number}" for number in range(1, 10)]
        assert await listed(results) == []

    assert len(results_of(cases(1000), Provider(), results=output)) == 1000
    lines = output.read_text().splitlines(keepends=True)
    output.write_text("".join(line for line in lines if '"id":"c0"' not in line))
    finish(main())
    assert len(output.read_text().splitlines()) == 1000


def test_whoever_takes_results_slowly_makes_no_cases_pile_up() -> None:
    async def main() -> None:
        given = cases(1000)
        results = run(given, PIPELINE, Provider(), concurrency=5)
        for _ in range(60):
            await anext(results)
            await settled()
        assert next(given).id in [f"c{number}" for number in range(60, 80)]
        await results.aclose()  # type: ignore[attr-defined]

    finish(main())


def test_a_result_comes_as_soon_as_it_is_there() -> None:
    async def answer(request: ProviderRequest) -> ProviderResponse:
        return await (hang(request) if request.eval_id == "c0" else pause(request))

    async def main() -> None:
        results = run(cases(4), PIPELINE, Provider(answer), concurrency=2)
        assert {(await anext(results)).id for _ in range(3)} == {"c1", "c2", "c3"}
        await results.aclose()  # type: ignore[attr-defined]

    finish(main())


@pytest.mark.parametrize("how", ["leave the loop", "cancel"])
def test_what_is_under_way_ends_with_the_run(how: str) -> None:
    async def answer(request: ProviderRequest) -> ProviderResponse:
        return await (pause(request) if request.eval_id == "c0" else hang(request))

    async def main() -> None:
        provider = Provider(answer)
        before = asyncio.all_tasks()

        async def ask() -> None:
            async for _ in run(cases(100), PIPELINE, provider, concurrency=4):
                if how == "leave the loop":
                    break

        task = asyncio.create_task(ask())
        if how == "cancel":
            await settled()
            task.cancel()
        await asyncio.wait([task])
        await settled()
        assert asyncio.all_tasks() == before
        assert (task.cancelled(), provider.under_way) == (how == "cancel", 0)
        assert len(provider.requests) <= 5

    finish(main())


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        pytest.param(
            ProviderError("no more", kind="rate_limit"), "rate_limit", "no more", id="own"
        ),
        pytest.param(ZeroDivisionError("oh"), None, "ZeroDivisionError: oh", id="any other"),
        pytest.param(TimeoutError(), None, "TimeoutError", id="one without words"),
        pytest.param(asyncio.CancelledError(), None, "", id="a library's cancellation"),
        pytest.param(
            *(None, None, "mine returned str instead of a ProviderResponse"),
            id="it returns something else",
        ),
    ],
)
def test_a_case_whose_provider_fails_fails_alone(
    error: BaseException | None, kind: str | None, words: str
) -> None:
    async def answer(request: ProviderRequest) -> ProviderResponse:
        if request.eval_id not in ("c2", "c3"):
            return await pause(request)
        if error is not None:
            raise error
        return "just text"  # type: ignore[return-value]

    results = results_of(cases(10), Provider(answer), concurrency=2)
    assert sorted(results) == [f"c{number}" for number in range(10)]
    failed = {id_: result for id_, result in results.items() if result.error is not None}
    assert sorted(failed) == ["c2", "c3"]
    for result in failed.values():
        assert result.error is not None
        assert kind is None or result.error.type == kind
        assert words in result.error.message
        assert "\n" not in result.error.message
        assert result.response is None
        assert result.raw_request is not None


@stage()
def stumble(conversion: Conversion) -> Conversion:
    """Fail for some cases, in two ways."""
    if conversion.case.id == "c1":
        raise MultiturnError("it stumbled")
    if conversion.case.id == "c2":
        raise KeyError("fell")
    return conversion


def test_a_case_that_cannot_be_converted_is_a_result_with_an_error() -> None:
    provider = Provider()
    results = results_of(cases(4), provider, pipeline=Pipeline([stumble]))
    for id_, words in (("c1", "it stumbled"), ("c2", "fell")):
        error = results[id_].error
        assert error is not None
        assert (error.type, words in error.message) == ("conversion", True)
        assert results[id_].raw_request is None
    assert {request.eval_id for request in provider.requests} == {"c0", "c3"}


def test_what_the_cases_raise_comes_out_once_all_that_is_under_way_is_done() -> None:
    def broken() -> Iterator[Case]:
        yield from cases(3)
        raise LookupError("no more cases")

    async def main() -> None:
        seen = []
        with pytest.raises(LookupError, match="no more cases"):  # noqa: PT012
            async for result in run(broken(), PIPELINE, Provider(pause), concurrency=2):
                seen.append(result.id)  # noqa: PERF401 - what came before the error counts
        assert sorted(seen) == ["c0", "c1", "c2"]

    finish(main())


def test_a_suite_and_a_pipeline_may_be_paths(tmp_path: Path) -> None:
    suite, house = tmp_path / "a.eval.yaml", tmp_path / "house.yaml"
    suite.write_text("id: a\nconversation_id: talk\ninput_messages: [{role: user, content: Hi}]\n")
    house.write_text("extends: spec\nremove: [consolidate_system]\n")
    for pipeline in ("spec", house, str(house), load_pipeline(house)):
        provider = Provider()
        (result,) = finish(listed(run(str(suite), pipeline, provider)))
        assert (result.suite, result.id, result.conversation_id) == (str(suite), "a", "talk")
        (request,) = provider.requests
        assert (request.chat_prompt is None) == (pipeline != "spec")
        assert request.root == os.path.realpath(tmp_path)
    assert finish(listed(run(suite, "spec", provider)))[0].response == "re: a"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"cases": case(1)},
            "cases must be an iterable of Case or mappings, or the path of a suite, not Case",
        ),
        ({"cases": [5]}, "a case is a Case or a mapping, not an int"),
        ({"concurrency": "8"}, "concurrency must be a whole number above 0, not str"),
        ({"pipeline": [1]}, "pipeline must be a Pipeline, or its name or path, not list"),
        ({"provider": "claude"}, "'claude' has not; load_target gives the provider of a target"),
        ({"provider": None}, "a provider has a name and a method invoke, and None has not"),
    ],
)
def test_something_else_is_said_so(arguments: dict[str, Any], words: str) -> None:
    given = {"cases": cases(1), "pipeline": PIPELINE, "provider": Provider(), **arguments}
    with pytest.raises(TypeError, match=re.escape(words)):
        finish(listed(run(**given)))


def test_what_a_request_says_for_whoever_goes_on_is_not_in_its_digest() -> None:
    said = RequestSettings(temperature=0.5)
    given = case(1, metadata={"k": [1]}, guidelines=("G",), settings=said)
    more = structs.replace(given, outcome="o", expected_messages=[1], conversation_id="c")
    (first,), (second,) = (results_of(iter([each]), Provider()).values() for each in (given, more))
    assert first.digest == second.digest
    # sha256 of 4:mine, 0:, and 231: with the JSON of what an answer depends on
    assert first.digest == "55ba000f18b9a1cc3509bc9e9dac46c11957e7b2ec2ff781ccbd4e901913ac4f"
    request = PIPELINE.request(more)
    assert (request.suite, request.outcome, request.expected_messages) == ("a.yaml", "o", [1])
    assert (request.conversation_id, request.root) == ("c", "")


class Small(AxProvider):
    accepts = frozenset({"media"})

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        return ProviderResponse(
            text=" | ".join(str(m.content) for m in self.build_chat_prompt(request))
        )


def test_a_provider_of_ones_own_needs_only_invoke() -> None:
    (result,) = finish(listed(run([case(1)], "shipped", Small())))
    assert (result.target, result.error) == ("Small", None)
    assert result.response == "You are a careful assistant. | Hello"
    with pytest.raises(TypeError, match="abstract"):
        AxProvider()  # type: ignore[abstract]


def test_a_provider_takes_nothing_but_text_unless_it_says_so() -> None:
    assert [complete(each).accepts for each in (Provider(), Small(), echo())] == [
        frozenset(),
        frozenset({"media"}),
        frozenset({"calls", "media"}),
    ]
