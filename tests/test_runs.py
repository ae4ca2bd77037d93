"""Runs from Python: resumed, against a revision, dry, and in batches."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from batch_server import BatchServer, text_for
from comparing import write
from loopback import Server
from multiturn import (
    MultiturnError,
    ProviderRequest,
    ProviderResponse,
    Result,
    RunCase,
    dry_run,
    load_pipeline,
    load_suite,
    load_target,
    run,
    run_batches,
)
from multiturn.engine.run import Run
from repositories import TONE, commit, replace
from running import by_id, write_suite
from vendors import azure, openai

BROKEN = """\
evalcases:
- {id: good, input_messages: [{role: user, content: Hi}]}
- {id: bad, input_messages: 3}
- [nothing]
- {id: lost, input_messages: [{role: user, content: [{type: file, value: no.txt}]}]}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()  # nothing above it counts
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path


def results_of(cases: Any, **options: Any) -> list[Result]:
    """Run cases one by one, and return the results."""

    async def listed(results: AsyncIterator[Result]) -> list[Result]:
        return [result async for result in results]

    return asyncio.run(listed(run(cases, "spec", load_target(), **{"concurrency": 1, **options})))


def ids(results: Iterator[Result] | list[Result]) -> list[str]:
    return [result.id for result in results]


def actions(deliveries: Iterator[RunCase]) -> list[tuple[str, str]]:
    return [(delivery.result.id, delivery.action) for delivery in deliveries]


def test_an_unknown_option_of_a_run_is_refused(folder: Path) -> None:
    write_suite(folder, ["one"])
    with pytest.raises(TypeError, match=r"a run has no option 'resum'; did you mean \"resume\"\?"):
        results_of("a.eval.yaml", results="out.jsonl", resum=True)


def test_requests_that_memory_just_holds_are_read_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_suite(folder, ["one", "two"])
    cases = list(load_suite("a.eval.yaml"))
    size = sum(case.size for case in dry_run(cases, "spec", load_target()))
    monkeypatch.setattr("multiturn.engine.run._MOST_HELD", size)
    assert len(list(Run(iter(cases), "spec", load_target()).rehearse())) == 2
    monkeypatch.setattr("multiturn.engine.run._MOST_HELD", size - 1)
    with pytest.raises(MultiturnError, match="an iterator of cases can be read only once"):
        list(Run(iter(cases), "spec", load_target()).rehearse())


# The file of results


def test_an_answer_is_kept_though_its_reader_has_left(folder: Path) -> None:
    write_suite(folder, ["one", "two", "three"])
    together = asyncio.Barrier(3)

    class Together:
        name = "together"

        async def invoke(self, request: ProviderRequest) -> ProviderResponse:
            await together.wait()
            return ProviderResponse(text="yes")

    async def main() -> None:
        sent = run("a.eval.yaml", "spec", Together(), results="out.jsonl")
        await anext(sent)
        await asyncio.sleep(0.05)  # the other answers arrive
        await sent.aclose()  # type: ignore[attr-defined]

    asyncio.run(main())
    assert sorted(by_id(Path("out.jsonl"))) == ["c0", "c1", "c2"]


def test_each_result_is_in_the_file_before_it_is_yielded(folder: Path) -> None:
    write_suite(folder, ["one", "two"])

    async def main() -> None:
        async for result in run("a.eval.yaml", "spec", load_target(), results="out.jsonl"):
            assert by_id(Path("out.jsonl"))[result.id]["response"] == result.response

    asyncio.run(main())
    assert sorted(by_id(Path("out.jsonl"))) == ["c0", "c1"]


def test_a_file_that_is_resumed_gets_only_what_is_new(folder: Path) -> None:
    write_suite(folder, ["one", "two"])
    assert ids(results_of("a.eval.yaml", results="out.jsonl")) == ["c0", "c1"]
    with pytest.raises(MultiturnError, match=r"'out\.jsonl' exists; add resume= to continue it"):
        results_of("a.eval.yaml", results="out.jsonl")
    write_suite(folder, ["one", "TWO", "three"])
    again: dict[str, Any] = {"results": Path("out.jsonl"), "resume": True}
    before = Path("out.jsonl").read_bytes()
    planned = actions(dry_run("a.eval.yaml", "spec", load_target(), **again))
    assert planned == [("c0", "reuse"), ("c1", "send"), ("c2", "send")]
    assert Path("out.jsonl").read_bytes() == before
    assert ids(results_of("a.eval.yaml", **again)) == ["c1", "c2"]
    assert sorted(by_id(Path("out.jsonl"))) == ["c0", "c1", "c2"]


def test_a_loop_that_is_left_keeps_its_results_and_can_be_continued(folder: Path) -> None:
    write_suite(folder, ["one", "two", "three"])

    async def main() -> None:
        async for _ in run("a.eval.yaml", "spec", load_target(), results="out.jsonl"):
            break

    asyncio.run(main())
    done = set(by_id(Path("out.jsonl")))
    rest = ids(results_of("a.eval.yaml", results="out.jsonl", resume=True))
    assert (done | set(rest), done & set(rest)) == ({"c0", "c1", "c2"}, set())


# Cases that fail


def test_a_case_that_cannot_be_read_is_a_result_with_an_error(folder: Path) -> None:
    (folder / "a.eval.yaml").write_text(BROKEN)
    (folder / "b.eval.yaml").write_text("id: [")
    results = results_of(".", results="out.jsonl")
    errors = {(each.suite, each.id): each.error and each.error.message for each in results}
    assert errors == {
        ("a.eval.yaml", "good"): None,
        ("a.eval.yaml", "bad"): (
            "a.eval.yaml:3:29: case 'bad': input_messages must be a list, not a number"
        ),
        ("a.eval.yaml", ""): "a.eval.yaml:4:3: evalcases[2]: a case must be a mapping",
        ("a.eval.yaml", "lost"): (
            "a.eval.yaml:5: case 'lost': input_messages[0].content[0]: no file 'no.txt'."
            " Looked in ./"
        ),
        ("b.eval.yaml", ""): errors["b.eval.yaml", ""],
    }
    assert {each.error.type for each in results if each.error} == {"conversion"}
    assert sorted(by_id(Path("out.jsonl"))) == ["bad", "good", "lost"]  # each has a case
    deliveries = list(dry_run("a.eval.yaml", "spec", load_target()))
    assert [each.action for each in deliveries] == ["send", "unreadable", "unreadable", "refuse"]
    assert [str(each.error) for each in deliveries[1:]] == [
        each.error.message for each in results[1:4] if each.error
    ]


def test_an_id_that_is_there_twice_is_a_result_with_an_error_and_replaces_no_answer(
    folder: Path,
) -> None:
    """The first is called "1", as it has no id."""
    cases = [{"input": "first"}, {"id": "1", "input": "second"}]
    for resume, answers in ((False, 1), (True, 0)):
        *good, bad = results_of(cases, results="out.jsonl", resume=resume)
        assert len(good) == answers
        assert bad.error is not None
        assert bad.error.message == "duplicate id '1'; ids are unique in a file of results"
        assert [
            line["raw_request"]["question"] for line in by_id(folder / "out.jsonl").values()
        ] == ["first"]
    assert ids(results_of(cases)) == ["1", "1"]


def test_after_access_is_denied_no_more_cases_are_sent(folder: Path, server: Server) -> None:
    server.fail(401, "no such key", times=None)
    write_suite(folder, ["one", "two", "three"])

    async def main() -> list[Result]:
        async with azure(server.url) as provider:
            given = run("a.eval.yaml", "spec", provider, concurrency=1)
            return [result async for result in given]

    (result,) = asyncio.run(main())
    assert (result.error and result.error.type, len(server.requests)) == ("access_denied", 1)


# What a revision had


def test_a_request_that_is_as_it_was_at_a_revision_is_not_sent(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    assert results_of("evals", against="HEAD") == []
    replace(repository, TONE, "Two.", "Two!")
    planned = actions(dry_run(Path("evals"), "spec", load_target(), against="HEAD"))
    assert planned == [("hours", "send"), ("price", "send"), ("bye", "skip")]
    assert ids(results_of("evals", against="HEAD")) == ["hours", "price"]


def test_an_error_of_a_revision_names_the_argument(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    write(repository, {"p.yaml": "extends: gone\n"})
    commit(repository)
    write(repository, {"p.yaml": "extends: spec\n"})
    for given, words in (
        (("spec", "NOPE"), "against=: there is no commit 'NOPE' here"),
        (("p.yaml", "HEAD"), "against=: as it was then, p.yaml:1"),
    ):
        pipeline, revision = given
        with pytest.raises(MultiturnError, match=f"^{words}"):
            list(dry_run("evals", pipeline, load_target(), against=revision))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"resume": True}, "resume needs a file of results; name it with results"),
        ({"against": "HEAD"}, "against compares files: cases must be a path, and pipeline a name"),
        ({"concurrency": 0}, "concurrency must be a whole number above 0"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(
    folder: Path, options: dict[str, Any], words: str
) -> None:
    write_suite(folder, ["one"])
    with pytest.raises(ValueError, match=words):
        results_of(load_suite("a.eval.yaml"), **options)
    for poll in (0, 86_401, 1e12):
        with pytest.raises(ValueError, match="such as 60, and at most 86400"):
            next(run_batches("a.eval.yaml", "spec", openai(), "out.jsonl", poll=poll))


# Nothing is sent


def test_a_dry_run_shows_the_body_and_needs_no_server(folder: Path) -> None:
    write_suite(folder, ["one"])
    (delivery,) = dry_run(load_suite("a.eval.yaml"), load_pipeline("spec"), openai())
    assert delivery.wire is not None
    assert delivery.wire.body == (
        b'{"messages":[{"role":"system","content":"You are a careful assistant."},'
        b'{"role":"user","content":"one"}],"model":"gpt-4o"}'
    )
    assert (delivery.result.response, delivery.result.error) == (None, None)


class Silent:
    """Answers nothing: a provider of the user's that is only asked what it would send."""

    name = "silent"

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        raise AssertionError("it was asked")


def test_a_dry_run_of_a_provider_of_ones_own_asks_it_nothing(folder: Path) -> None:
    write(folder, {"a.eval.yaml": BROKEN})
    planned = actions(dry_run("a.eval.yaml", "spec", Silent()))
    assert planned == [
        ("good", "send"),
        ("bad", "unreadable"),
        ("", "unreadable"),
        ("lost", "refuse"),
    ]


# Batches


def test_batches_that_are_not_waited_for_are_collected_by_a_later_call(
    folder: Path, batch_server: BatchServer
) -> None:
    write_suite(folder, ["one", "two", "one"])
    said: list[str] = []
    batch_server.lag = 1
    given: Any = ("a.eval.yaml", "spec", openai(batch_server.url), "out.jsonl")
    assert list(run_batches(*given, wait=False, say=said.append)) == []
    advice = r"a batch for 'out\.jsonl' is under way; call run_batches with resume=True to get"
    with pytest.raises(MultiturnError, match=advice):
        results_of("a.eval.yaml", results="out.jsonl", resume=True)
    results = list(run_batches(*given, resume=True, poll=0.001, say=said.append))
    assert batch_server.sent() == {"one": 1, "two": 1}
    assert {each.id: each.response for each in results} == {
        "c0": text_for("one"),
        "c1": text_for("two"),
        "c2": text_for("one"),
    }
    assert {id_: line["response"] for id_, line in by_id(Path("out.jsonl")).items()} == {
        each.id: each.response for each in results
    }
    assert (": 2 requests, " in said[0], said[-1].endswith(": completed")) == (True, True)


def test_inside_an_event_loop_batches_need_a_thread(
    folder: Path, batch_server: BatchServer
) -> None:
    write_suite(folder, ["one"])

    async def main() -> list[Result]:
        given: Any = ("a.eval.yaml", "spec", openai(batch_server.url), "out.jsonl")
        with pytest.raises(RuntimeError, match="call it in a thread"):
            next(run_batches(*given))
        assert not Path("out.jsonl").exists()
        return await asyncio.to_thread(list, run_batches(*given, poll=0.001))

    (result,) = asyncio.run(main())
    assert result.response == text_for("one")


def test_a_provider_without_batches_is_refused(folder: Path) -> None:
    write_suite(folder, ["one"])
    with pytest.raises(MultiturnError, match="the target 'echo' has no batches"):
        next(run_batches("a.eval.yaml", "spec", load_target(), "out.jsonl"))
    assert not Path("out.jsonl").exists()
