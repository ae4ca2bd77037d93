"""``--resume``: a results file is the cache, and no finished result is ever lost."""

import json
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from commands import full_disk
from loopback import Server
from multiturn import MultiturnError
from multiturn.providers.results import ResultsFile
from running import (
    asked,
    by_id,
    records,
    run,
    start,
    wait_for,
    write_slow_target,
    write_suite,
    write_target,
)

OUTPUT = ("--output", "out.jsonl")
STORED = "from the file"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def write_lines(folder: Path, lines: Iterable[dict[str, Any]]) -> None:
    (folder / "out.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


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


def test_a_run_in_a_project_is_resumed_from_any_folder(folder: Path, server: Server) -> None:
    """Also through a link to a folder."""
    (folder / ".git").mkdir()
    (folder / "evals" / "deep").mkdir(parents=True)
    (folder / "link").symlink_to("evals")
    write_target(folder, server)
    write_suite(folder, ["one", "two"], name="evals/a.eval.yaml")
    files = ("--target", "az", "--targets", str(folder / "targets.yaml"), "--output")
    output = str(folder / "out.jsonl")
    done = run("evals", *files, "out.jsonl", folder=folder)
    assert (done.returncode, len(server.requests)) == (0, 2)
    before = (folder / "out.jsonl").read_bytes()
    for suite, here in (
        ("a.eval.yaml", folder / "evals"),
        ("..", folder / "evals" / "deep"),
        ("link/a.eval.yaml", folder),
        (str(folder), Path("/")),
    ):
        done = run(suite, *files, output, "--resume", folder=here)
        assert (done.returncode, len(server.requests)) == (0, 2)
        assert (folder / "out.jsonl").read_bytes() == before
    assert [line["suite"] for line in records(folder / "out.jsonl")] == ["evals/a.eval.yaml"] * 2


@pytest.mark.parametrize("root", [".git", "."], ids=["in a project", "in no project"])
def test_suites_of_one_name_in_two_folders_are_two(folder: Path, root: str) -> None:
    (folder / root).mkdir(exist_ok=True)
    for name in ("one", "two"):
        (folder / name).mkdir()
        write_suite(folder, [name], name=f"{name}/a.eval.yaml")
    for counts in ("2 answered, 0 reused", "0 answered, 2 reused"):
        done = run("one", "two", *OUTPUT, "--resume", folder=folder)
        assert (done.returncode, done.stderr) == (0, f"{counts}, 0 failed, 0 retried: out.jsonl\n")
    suites = [line["suite"] for line in records(folder / "out.jsonl")]
    assert sorted(suites) == ["one/a.eval.yaml", "two/a.eval.yaml"]


def test_suites_of_one_name_in_two_projects_need_a_root(folder: Path) -> None:
    for name in ("one", "two"):
        (folder / name / ".git").mkdir(parents=True)
        write_suite(folder, [name], name=f"{name}/a.eval.yaml")
    done = run("one", "two", *OUTPUT, folder=folder)
    assert (done.returncode, done.stderr) == (
        2,
        "Error: two/a.eval.yaml: two suites are 'a.eval.yaml' in their roots; name a root that"
        " holds both (--root)\n",
    )
    assert run("one", "two", "--root", ".", *OUTPUT, "--resume", folder=folder).returncode == 0
    assert len(records(folder / "out.jsonl")) == 2


def test_what_is_changed_or_new_is_asked_and_stands_once(folder: Path) -> None:
    stored_results(folder, "one", "two")
    write_suite(folder, ["one", "TWO", "three"])
    assert resumed(folder) == {"c0"}
    assert sorted(by_id(folder / "out.jsonl")) == ["c0", "c1", "c2"]
    assert "TWO" in by_id(folder / "out.jsonl")["c1"]["response"]


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
        pytest.param(-2, id="also of one whose keys are in another order"),
    ],
)
def test_a_line_that_a_crash_cut_short_is_redone(folder: Path, left: int) -> None:
    one, two = stored_results(folder, "one", "two")
    written = json.dumps({**two, "response": "é"}, ensure_ascii=False, sort_keys=left == -2)
    whole = written.encode() + (b" \n" if left == -2 else b"\n")
    torn = whole[:left]
    if left == -3:
        torn = whole[: whole.index("é".encode()) + 1]
    write_lines(folder, [one])
    with (folder / "out.jsonl").open("ab") as file:
        file.write(torn)
    assert resumed(folder) == {"c0"}
    assert sorted(by_id(folder / "out.jsonl")) == ["c0", "c1"]
    assert "two" in by_id(folder / "out.jsonl")["c1"]["response"]


def test_an_output_that_is_empty_is_written_to(folder: Path) -> None:
    write_suite(folder, ["one"])
    (folder / "out.jsonl").touch()
    assert run("a.eval.yaml", *OUTPUT, folder=folder).returncode == 0
    assert list(by_id(folder / "out.jsonl")) == ["c0"]


def test_what_failed_is_asked_again_and_has_one_line(folder: Path) -> None:
    write_slow_target(folder)
    write_suite(folder, ["good", "bad"])
    for count in (2, 3):
        assert resumed(folder, code=1) == set()
        results = by_id(folder / "out.jsonl")
        assert (results["c0"]["response"], results["c1"]["response"]) == ("hi", None)
        assert len(asked(folder)) == count


def test_an_output_that_is_there_is_refused_without_resume(folder: Path) -> None:
    stored_results(folder, "one")
    before = (folder / "out.jsonl").read_bytes()
    done = run("a.eval.yaml", *OUTPUT, folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "Error: 'out.jsonl' exists; add --resume to continue it, or name another file\n"
    )
    assert (folder / "out.jsonl").read_bytes() == before


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
        pytest.param(b'{"suite":"a", "m": %s}\n' % (b"[" * 10**5 + b"]" * 10**5), id="nesting"),
    ],
)
def test_what_is_no_results_file_is_refused_and_left_as_it_was(tmp_path: Path, text: bytes) -> None:
    output = tmp_path / "out.jsonl"
    output.write_bytes(text)
    with pytest.raises(MultiturnError, match="this is not a result; name another file"):
        ResultsFile(str(output), resume=True)
    assert output.read_bytes() == text


def finished(output: Path) -> set[bytes]:
    """Return the lines that are whole."""
    text = output.read_bytes() if output.exists() else b""
    return {line for line in text.splitlines(keepends=True) if line.endswith(b"\n")}


def test_a_full_disk_is_one_line_and_what_is_done_is_gone_on_with(folder: Path) -> None:
    write_suite(folder, ["x" * 300] * 20)
    process = start("a.eval.yaml", *OUTPUT, folder=folder, preexec_fn=full_disk(5_000))
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert err == "Error: cannot write 'out.jsonl': File too large\n"
    kept = finished(folder / "out.jsonl")
    assert len(kept) > 1
    resumed(folder)
    assert kept <= finished(folder / "out.jsonl")
    assert len(by_id(folder / "out.jsonl")) == 20


def test_killing_a_run_at_any_moment_loses_no_finished_result(folder: Path) -> None:
    write_slow_target(folder)
    contents = [str(number) for number in range(20)]
    write_suite(folder, contents)
    output = folder / "out.jsonl"
    command = ("a.eval.yaml", *OUTPUT, "--resume", "--concurrency", "4")
    kept: set[bytes] = set()
    for more in (1, 4, 7):
        before = asked(folder)
        process = start(*command, folder=folder)
        wait_for(lambda: len(asked(folder)) >= len(before) + more)  # noqa: B023
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        answered = {json.loads(line)["raw_request"]["question"] for line in kept}
        assert answered.isdisjoint(asked(folder)[len(before) :])
        assert kept <= finished(output)
        kept = finished(output)
    assert kept
    assert run(*command, folder=folder).returncode == 0
    results = by_id(output)
    assert [results[f"c{number}"]["response"] for number in range(20)] == ["hi"] * 20
    assert kept <= finished(output)
