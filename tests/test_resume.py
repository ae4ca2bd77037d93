"""``--resume``: a results file is the cache, and no finished result is ever lost."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from loopback import Answer, Server, chat_answer
from running import by_id, records, run, start, wait_for, write_suite, write_target

OUTPUT = ("--output", "out.jsonl")
STORED = "from the file"
RESULT = b'{"suite":"a", %s, "target": "t", "digest": "d", "error": null}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def server(folder: Path, server: Server) -> Server:
    write_target(folder, server)
    return server


def write_lines(folder: Path, lines: Iterable[dict[str, Any]], end: str = "") -> None:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "out.jsonl").write_text(text + end)


def stored_results(folder: Path, *contents: str) -> list[dict[str, Any]]:
    """Run a suite, and mark each of its results, so that one that is reused is known."""
    write_suite(folder, contents)
    assert run("a.eval.yaml", *OUTPUT, folder=folder).returncode == 0
    lines = [{**line, "response": STORED} for line in records(folder / "out.jsonl")]
    write_lines(folder, lines)
    return lines


def resumed(folder: Path, *more: str, code: int = 0) -> set[str]:
    """Resume, and return the ids of the cases that were not asked again."""
    done = run("a.eval.yaml", *OUTPUT, "--resume", *more, folder=folder)
    assert done.returncode == code
    results = by_id(folder / "out.jsonl")
    return {id_ for id_, result in results.items() if result["response"] == STORED}


def test_what_is_unchanged_is_not_asked_again(folder: Path) -> None:
    stored_results(folder, "one", "two", "three")
    before = (folder / "out.jsonl").read_bytes()
    assert resumed(folder) == {"c0", "c1", "c2"}
    assert (folder / "out.jsonl").read_bytes() == before


def test_a_suite_that_is_named_another_way_is_the_same_suite(folder: Path) -> None:
    stored_results(folder, "one")
    for name in (".", "./a.eval.yaml", str(folder / "a.eval.yaml")):
        done = run(name, *OUTPUT, "--resume", folder=folder)
        assert done.returncode == 0
        assert [result["response"] for result in records(folder / "out.jsonl")] == [STORED]


def test_what_is_changed_or_new_is_asked_and_stands_once(folder: Path) -> None:
    stored_results(folder, "one", "two")
    write_suite(folder, ["one", "TWO", "three"])
    assert resumed(folder) == {"c0"}
    assert sorted(by_id(folder / "out.jsonl")) == ["c0", "c1", "c2"]
    assert "TWO" in by_id(folder / "out.jsonl")["c1"]["response"]


def test_a_file_that_is_not_there_yet_is_begun(folder: Path) -> None:
    write_suite(folder, ["one"])
    assert resumed(folder) == set()
    assert list(by_id(folder / "out.jsonl")) == ["c0"]


def test_what_failed_is_asked_again_and_stands_once(folder: Path, server: Server) -> None:
    broken = True

    def answer(content: str) -> Answer:
        return (400, {"error": {"message": "no"}}) if broken and content == "bad" else chat_answer()

    server.reply = answer
    write_suite(folder, ["good", "bad"])
    command = ("a.eval.yaml", "--target", "az", *OUTPUT, "--resume")
    assert run(*command, folder=folder).returncode == 1
    assert by_id(folder / "out.jsonl")["c1"]["response"] is None
    broken = False
    assert run(*command, folder=folder).returncode == 0
    assert by_id(folder / "out.jsonl")["c1"]["response"] == "hi"
    assert sorted(server.asked()) == ["bad", "bad", "good"]


def test_another_model_or_parameter_asks_again_and_another_key_does_not(
    folder: Path, server: Server
) -> None:
    write_suite(folder, ["one"])
    command = ("a.eval.yaml", "--target", "az", *OUTPUT)
    assert run(*command, folder=folder).returncode == 0
    changes: list[tuple[dict[str, Any], str]] = [
        ({"api_key": "another-key", "timeout_seconds": 5, "max_retries": 0}, "reuse"),
        ({"model": "gpt-y"}, "send"),
        ({"temperature": 0}, "send"),
        ({"version": "2026-01-01"}, "send"),
        ({"system_role": "developer"}, "send"),
    ]
    for change, action in changes:
        write_target(folder, server, **change)
        done = run(*command, "--resume", "--dry-run", folder=folder)
        assert (change, records(done.stdout)[0]["action"]) == (change, action)


def test_a_setting_of_a_case_counts_as_a_change(folder: Path, server: Server) -> None:
    write_suite(folder, ["one"])
    command = ("a.eval.yaml", "--target", "az", *OUTPUT, "--resume")
    run(*command, folder=folder)
    path = folder / "a.eval.yaml"
    path.write_text(json.dumps({"execution": {"temperature": 0}, **json.loads(path.read_text())}))
    done = run(*command, "--dry-run", folder=folder)
    assert records(done.stdout)[0]["action"] == "send"


def test_lines_of_other_targets_and_of_cases_that_are_gone_stay(folder: Path) -> None:
    one, two = stored_results(folder, "one", "two")
    other = {**one, "target": "other"}
    elsewhere = {**one, "suite": "gone.eval.yaml"}
    failed = {**two, "response": None, "error": {"type": "http", "message": "no"}}
    write_lines(folder, [other, elsewhere, failed, two, failed, one])
    write_suite(folder, ["changed"])
    assert run("a.eval.yaml", *OUTPUT, "--resume", folder=folder).returncode == 0
    lines = records(folder / "out.jsonl")
    assert len(lines) == 4
    assert [line for line in lines if line in (other, elsewhere, failed)] == [
        *(other, elsewhere, failed)
    ]
    (new,) = [line for line in lines if line not in (other, elsewhere, failed)]
    assert (new["id"], new["target"]) == ("c0", "echo")
    assert "changed" in new["response"]


def test_results_of_cases_that_are_gone_are_named(folder: Path) -> None:
    one, *_ = stored_results(folder, "one", "two", "three")
    write_lines(folder, [{**one, "target": "other"}, *records(folder / "out.jsonl")])
    write_suite(folder, ["one"])
    arguments = ("a.eval.yaml", *OUTPUT, "--resume")
    done = run(*arguments, folder=folder)
    assert done.stderr == (
        "out.jsonl keeps 2 results of cases that the suites no longer have: c1, c2\n"
        "0 answered, 1 reused, 0 failed, 0 retried: out.jsonl\n"
    )
    assert "keeps" not in run(*arguments, "--case", "c0", folder=folder).stderr
    write_suite(folder, ["ONE", "two", "three"])
    assert "keeps" not in run(*arguments, folder=folder).stderr


def test_of_several_lines_about_a_case_the_last_one_wins(folder: Path) -> None:
    one, two = stored_results(folder, "one", "two")
    failure = {"response": None, "error": {"type": "http", "message": "no"}}
    write_lines(folder, [{**one, **failure}, two, one, {**two, **failure}])
    assert resumed(folder) == {"c0"}
    assert by_id(folder / "out.jsonl")["c1"]["error"] is None


@pytest.mark.parametrize(
    "left",
    [
        pytest.param(1, id="one byte is left"),
        pytest.param(30, id="it is cut in the middle"),
        pytest.param(-3, id="it is cut inside a character"),
        pytest.param(-1, id="only the end of the line is missing"),
    ],
)
def test_a_line_that_a_crash_cut_short_is_redone(folder: Path, left: int) -> None:
    one, two = stored_results(folder, "one", "two")
    whole = json.dumps({**two, "response": "é"}, ensure_ascii=False).encode() + b"\n"
    torn = whole[:left]
    if left == -3:
        torn = whole[: whole.index("é".encode()) + 1]
    write_lines(folder, [one])
    with (folder / "out.jsonl").open("ab") as file:
        file.write(torn)
    assert resumed(folder) == {"c0"}
    assert sorted(by_id(folder / "out.jsonl")) == ["c0", "c1"]
    assert "two" in by_id(folder / "out.jsonl")["c1"]["response"]


def test_a_file_that_holds_only_a_torn_line_is_gone_on_with(folder: Path) -> None:
    (one,) = stored_results(folder, "one")
    (folder / "out.jsonl").write_text(json.dumps(one)[:25])
    assert resumed(folder) == set()
    assert list(by_id(folder / "out.jsonl")) == ["c0"]


@pytest.mark.parametrize("more", [(), ("--target", "echo")])
def test_an_output_that_is_there_is_refused_without_resume(
    folder: Path, more: tuple[str, ...]
) -> None:
    stored_results(folder, "one")
    before = (folder / "out.jsonl").read_bytes()
    done = run("a.eval.yaml", *OUTPUT, *more, folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--resume" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert (folder / "out.jsonl").read_bytes() == before


def test_what_fails_once_more_stands_once(folder: Path) -> None:
    (folder / "a.eval.yaml").write_text("input_messages: [{role: system, content: Be brief}]")
    for _ in range(2):
        assert resumed(folder, code=1) == set()
        assert by_id(folder / "out.jsonl")["a"]["error"] is not None


def test_an_output_that_is_empty_is_written_to(folder: Path) -> None:
    write_suite(folder, ["one"])
    (folder / "out.jsonl").touch()
    assert run("a.eval.yaml", *OUTPUT, folder=folder).returncode == 0
    assert list(by_id(folder / "out.jsonl")) == ["c0"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"some notes\nof mine\n", id="text"),
        pytest.param(b"some notes", id="text without an end of line"),
        pytest.param(b"one\ntwo", id="two lines of text, the last without an end"),
        pytest.param(b'{"suite": "a"}\n', id="other JSON"),
        pytest.param(b'{"name": "mine", "version": 1}', id="other JSON without an end of line"),
        pytest.param(b'[\n  {"suite": "a"}\n]\n', id="a list of JSON"),
        pytest.param(b"\x00\x01\x02\xff", id="bytes"),
        pytest.param(RESULT % b'"m": "\xff\xfe", "id": "\xff"', id="a result that is not UTF-8"),
        pytest.param(
            RESULT % b'"id": "a", "m": %s' % (b"[" * 100_000 + b"]" * 100_000), id="deep nesting"
        ),
    ],
)
def test_what_is_no_results_file_is_refused_and_left_as_it_was(folder: Path, text: bytes) -> None:
    write_suite(folder, ["one"])
    (folder / "out.jsonl").write_bytes(text)
    done = run("a.eval.yaml", *OUTPUT, "--resume", folder=folder)
    assert (folder / "out.jsonl").read_bytes() == text
    assert (done.returncode, done.stdout) == (2, "")
    assert "out.jsonl" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_full_disk_is_one_line_and_what_is_done_is_gone_on_with(folder: Path) -> None:
    write_suite(folder, ["x" * 300] * 20)
    limit = (
        "import os, resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
        "os.execv(sys.executable, [sys.executable, '-B', '-m', 'multiturn', *sys.argv[1:]])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", limit, "run", "a.eval.yaml", *OUTPUT],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert "out.jsonl" in done.stderr
    kept = finished(folder / "out.jsonl")
    assert len(kept) > 1
    resumed(folder)
    assert kept <= finished(folder / "out.jsonl")
    assert len(by_id(folder / "out.jsonl")) == 20


def finished(output: Path) -> set[bytes]:
    """Return the lines that are whole."""
    text = output.read_bytes() if output.exists() else b""
    return {line for line in text.splitlines(keepends=True) if line.endswith(b"\n")}


def ids_of(lines: set[bytes]) -> set[str]:
    return {json.loads(line)["id"] for line in lines}


def test_killing_a_run_at_any_moment_loses_no_finished_result(folder: Path, server: Server) -> None:
    def answer(_: str) -> Answer:
        time.sleep(0.02)
        return chat_answer()

    server.reply = answer
    write_suite(folder, [f"c{number}" for number in range(30)])
    output = folder / "out.jsonl"
    command = ("a.eval.yaml", "--target", "az", *OUTPUT, "--resume", "--concurrency", "4")
    kept: set[bytes] = set()
    chance = random.Random(11)
    for _ in range(4):
        asked = len(server.asked())
        process = start(*command, folder=folder)
        more = chance.randint(0, 7)
        wait_for(lambda: len(server.requests) >= asked + more or process.poll() is not None)  # noqa: B023
        time.sleep(chance.uniform(0, 0.02))
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        assert kept <= finished(output)
        assert set(server.asked()[asked:]).isdisjoint(ids_of(kept))
        kept = finished(output)
    assert kept
    done = run(*command, folder=folder)
    assert done.returncode == 0
    results = by_id(output)
    assert sorted(results) == sorted(f"c{number}" for number in range(30))
    assert {result["response"] for result in results.values()} == {"hi"}
    assert kept <= finished(output)
