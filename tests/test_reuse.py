"""``run --reuse OLD --output NEW``: what is unchanged is copied, the rest is asked, OLD stays."""

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import multiturn
from loopback import Server
from multiturn import MultiturnError, load_target
from running import by_id, records, run, write_suite, write_target

REUSE = ("--target", "az", "--reuse", "old.jsonl", "--output", "new.jsonl")


@pytest.fixture
def folder(tmp_path: Path, server: Server) -> Path:
    """A folder with the results of one run, in which a grader has written a score."""
    (tmp_path / ".git").mkdir()
    write_target(tmp_path, server)
    write_suite(tmp_path, ["one", "two", "three"])
    assert run("a.eval.yaml", "--target=az", "--output=old.jsonl", folder=tmp_path).returncode == 0
    lines = [{**line, "score": 0.5} for line in records(tmp_path / "old.jsonl")]
    (tmp_path / "old.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


def asked(server: Server) -> list[str]:
    return [request.json["messages"][-1]["content"] for request in server.requests]


def test_what_is_unchanged_is_copied_and_the_rest_is_asked(folder: Path, server: Server) -> None:
    old = (folder / "old.jsonl").read_bytes()
    write_suite(folder, ["one", "TWO", "three", "four"])
    server.requests.clear()
    done = run("a.eval.yaml", *REUSE, folder=folder)
    assert done.stderr.startswith("2 answered, 2 reused, 0 failed, 0 retried: new.jsonl")
    assert sorted(asked(server)) == ["TWO", "four"]
    assert (folder / "old.jsonl").read_bytes() == old
    before, after = by_id(old.decode()), by_id(folder / "new.jsonl")
    assert sorted(after) == ["c0", "c1", "c2", "c3"]
    assert (after["c0"], after["c2"]) == (before["c0"], before["c2"])
    assert after["c1"]["raw_request"]["question"] == "TWO"
    assert "score" not in after["c1"]


def test_what_a_case_says_of_a_good_answer_is_that_of_now(folder: Path) -> None:
    case = {"id": "c0", "input_messages": [{"role": "user", "content": "one"}]}
    good = [{"role": "assistant", "content": "1"}]
    suite = {"evalcases": [{**case, "outcome": "a digit", "expected_messages": good}]}
    (folder / "a.eval.yaml").write_text(json.dumps(suite))
    assert run("a.eval.yaml", *REUSE, folder=folder).returncode == 0
    (line,) = records(folder / "new.jsonl")
    assert line["expected_messages"][0]["content"] == "1"
    assert (line["outcome"], line["score"]) == ("a digit", 0.5)
    write_suite(folder, ["one"])
    more = ("--reuse", "new.jsonl", "--output", "newer.jsonl", "--target=az")
    assert run("a.eval.yaml", *more, folder=folder).returncode == 0
    (line,) = records(folder / "newer.jsonl")
    assert {"outcome", "expected_messages"}.isdisjoint(line)


def test_what_failed_or_was_cut_short_is_asked(folder: Path, server: Server) -> None:
    found = by_id(folder / "old.jsonl")
    one, two = found["c0"], found["c1"]
    failed = {**one, "error": {"type": "http", "message": "no"}, "response": None}
    text = "".join(json.dumps(line) + "\n" for line in (one, two, failed)) + '{"suite": "a.ev'
    (folder / "old.jsonl").write_text(text.replace(" ", ""))
    server.requests.clear()
    assert run("a.eval.yaml", *REUSE, folder=folder).returncode == 0
    assert sorted(asked(server)) == ["one", "three"]


def test_a_run_that_copies_can_be_continued(folder: Path, server: Server) -> None:
    write_suite(folder, ["one", "two", "three", "four"])
    server.requests.clear()
    server.fail(400, "no")
    assert run("a.eval.yaml", *REUSE, folder=folder).returncode == 1
    done = run("a.eval.yaml", *REUSE, "--resume", folder=folder)
    assert done.stderr.startswith("1 answered, 3 reused, 0 failed")
    assert asked(server) == ["four", "four"]
    lines = by_id(folder / "new.jsonl")  # which holds that no case has two lines
    assert [lines[f"c{number}"].get("score") for number in range(4)] == [0.5, 0.5, 0.5, None]


def test_a_dry_run_copies_nothing(folder: Path) -> None:
    write_suite(folder, ["one", "TWO"])
    done = run("a.eval.yaml", *REUSE, "--dry-run", folder=folder)
    actions = {line["id"]: line["action"] for line in records(done.stdout)}
    assert actions == {"c0": "reuse", "c1": "send"}
    assert not (folder / "new.jsonl").exists()


def reuse_changed(change: Callable[[list[Any]], list[Any]], *, in_place: bool) -> dict[str, Any]:
    """Return a run's results by id; the file it reuses is changed after two of its four cases."""
    cases = [{"id": f"c{n}", "messages": [{"role": "user", "content": f"{n}?"}]} for n in range(4)]

    def given() -> Iterator[dict[str, Any]]:
        yield from cases[:2]
        lines = change(records(Path("old.jsonl")))
        new = Path("old.jsonl" if in_place else "graded.jsonl")
        new.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
        os.replace(new, "old.jsonl")
        yield from cases[2:]

    async def collect(cases: Any, **options: Any) -> None:
        async for _ in multiturn.run(cases, None, load_target("echo"), concurrency=1, **options):
            pass

    asyncio.run(collect(cases, results="old.jsonl"))
    asyncio.run(collect(given(), results="new.jsonl", reuse="old.jsonl"))
    return by_id(Path("new.jsonl"))


def graded(lines: list[Any]) -> list[Any]:
    return [{**line, "score": 1} for line in lines]


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize(
    ("change", "scores"),
    [
        pytest.param(lambda lines: lines[::-1], [None] * 4, id="sorted"),
        pytest.param(graded, [None, None, 1, 1], id="with scores"),
    ],
)
def test_a_file_that_a_grader_rewrites_meanwhile_gives_each_case_its_own_answer(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[list[Any]], list[Any]],
    scores: list[Any],
    in_place: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    found = reuse_changed(change, in_place=in_place)
    assert {id_: line["raw_request"]["question"] for id_, line in found.items()} == {
        "c0": "0?",
        "c1": "1?",
        "c2": "2?",
        "c3": "3?",
    }
    assert [found[f"c{number}"].get("score") for number in range(4)] == scores


@pytest.mark.parametrize("in_place", [True, False])
def test_an_answer_that_is_gone_meanwhile_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_place: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MultiturnError) as caught:
        reuse_changed(lambda lines: [*lines[:2], lines[3]], in_place=in_place)
    assert str(caught.value) == (
        "old.jsonl: another program has changed this file during the run, and 'c2' is gone; add"
        " resume= to ask it again"
    )
    assert sorted(by_id(Path("new.jsonl"))) == ["c0", "c1"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ("--reuse", "old.jsonl"),
            "--reuse copies answers into the file that --output names; add --output",
        ),
        (("--reuse", "no.jsonl", "--output", "x"), "no.jsonl: cannot read it: No such file"),
        (
            ("--reuse", "a.eval.yaml", "--output", "x"),
            "a.eval.yaml:1: this is not a result; remove the line, or name another file",
        ),
        (
            ("--reuse", "old.jsonl", "--output", "old.jsonl"),
            "'old.jsonl' exists; add --resume to continue it, or name another file",
        ),
    ],
)
def test_what_cannot_be_reused_is_named(
    folder: Path, arguments: tuple[str, ...], error: str
) -> None:
    done = run("a.eval.yaml", *arguments, folder=folder)
    assert (done.returncode, f"Error: {error}" in done.stderr) == (2, True)
    assert not (folder / "x").exists()
