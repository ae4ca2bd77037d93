"""``--resume``: a results file is the cache, and no finished result is ever lost."""

import json
import os
import signal
import sys
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
FAILURE = {"response": None, "error": {"type": "http", "message": "no"}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def output(folder: Path) -> Path:
    return folder / "out.jsonl"


def write_lines(output: Path, lines: Iterable[dict[str, Any]]) -> None:
    output.write_text("".join(json.dumps(line) + "\n" for line in lines))


def stored_results(output: Path, *contents: str) -> list[dict[str, Any]]:
    """Run a suite, and mark each of its results, so that one that is reused is known."""
    write_suite(output.parent, contents)
    assert run("a.eval.yaml", *OUTPUT, folder=output.parent).returncode == 0
    lines = [{**line, "response": STORED} for line in records(output)]
    write_lines(output, lines)
    return lines


def resumed(output: Path, *more: str, code: int = 0) -> set[str]:
    """Resume, and return the ids of the cases that were not asked again."""
    done = run("a.eval.yaml", *OUTPUT, "--resume", *more, folder=output.parent)
    assert done.returncode == code
    return {id_ for id_, line in by_id(output).items() if line["response"] == STORED}


# Which results are those of a case


def test_what_is_unchanged_is_not_asked_again_however_its_suite_is_named(output: Path) -> None:
    stored_results(output, "one", "two")
    before = output.read_bytes()
    for name in ("a.eval.yaml", ".", "./a.eval.yaml", str(output.with_name("a.eval.yaml"))):
        assert run(name, *OUTPUT, "--resume", folder=output.parent).returncode == 0
        assert output.read_bytes() == before


@pytest.mark.parametrize("project", [".git", "--root"])
def test_a_run_in_a_project_is_resumed_from_any_folder(
    folder: Path, output: Path, server: Server, project: str
) -> None:
    (folder / "evals" / "deep").mkdir(parents=True)
    (folder / "link").symlink_to("evals")
    write_target(folder, server)
    write_suite(folder, ["one", "two"], name="evals/a.eval.yaml")
    more = ["--target", "az", "--targets", str(folder / "targets.yaml"), "--output", str(output)]
    if project == "--root":
        more += ["--root", str(folder)]
    else:
        (folder / ".git").mkdir()
    assert run("evals", *more, folder=folder).returncode == 0
    before = output.read_bytes()
    for suite, here in (
        ("a.eval.yaml", folder / "evals"),
        ("..", folder / "evals" / "deep"),
        ("link/a.eval.yaml", folder),
        (str(folder), Path("/")),
    ):
        assert run(suite, *more, "--resume", folder=here).returncode == 0
        assert (output.read_bytes(), len(server.requests)) == (before, 2)
    assert [line["suite"] for line in records(output)] == ["evals/a.eval.yaml"] * 2


def test_links_where_a_run_is_started_make_no_two_suites_one(folder: Path, output: Path) -> None:
    for name in (".git", "here/two"):
        (folder / name).mkdir(parents=True)
    (folder / "here" / "one").symlink_to("two")
    for name in ("one", "two"):
        (folder / name).mkdir()
        write_suite(folder, [name], name=f"{name}/a.eval.yaml")
    for counts in ("2 answered, 0 reused", "0 answered, 2 reused"):
        done = run("../one", "../two", "--output", str(output), "--resume", folder=folder / "here")
        assert (done.returncode, done.stderr.startswith(counts)) == (0, True)


@pytest.mark.parametrize("root", [".git", "."], ids=["in a project", "in no project"])
def test_suites_of_one_name_in_two_folders_are_two(folder: Path, output: Path, root: str) -> None:
    (folder / root).mkdir(exist_ok=True)
    for name in ("one", "two"):
        (folder / name).mkdir()
        write_suite(folder, [name], name=f"{name}/a.eval.yaml")
    for summary in (
        "2 answered, 0 reused, 0 failed, 0 retried: out.jsonl; 2 sent with repairs: C9\n",
        "0 answered, 2 reused, 0 failed, 0 retried: out.jsonl\n",
    ):
        done = run("one", "two", *OUTPUT, "--resume", folder=folder)
        assert (done.returncode, done.stderr) == (0, summary)
    assert {line["suite"] for line in records(output)} == {"one/a.eval.yaml", "two/a.eval.yaml"}


def test_suites_of_one_name_in_two_projects_need_a_root(folder: Path, output: Path) -> None:
    for name in ("one", "two"):
        (folder / name / ".git").mkdir(parents=True)
        write_suite(folder, [name], name=f"{name}/a.eval.yaml")
    done = run("one", "two", *OUTPUT, folder=folder)
    assert (done.returncode, done.stderr) == (
        2,
        "Error: two/a.eval.yaml: two suites are 'a.eval.yaml' in their roots; name a root that"
        " holds both (--root)\n",
    )
    assert not output.exists()
    assert run("one", "two", "--root", ".", *OUTPUT, folder=folder).returncode == 0
    assert len(records(output)) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="other file systems have no such names")
def test_suites_that_records_cannot_tell_apart_are_refused(folder: Path, output: Path) -> None:
    write_suite(folder, ["one"])
    for name in (b"\xfe.eval.yaml", b"\xff.eval.yaml"):
        (folder / os.fsdecode(name)).write_text((folder / "a.eval.yaml").read_text())
    done = run(".", *OUTPUT, folder=folder)
    assert done.returncode == 2
    assert "two suites are '\ufffd.eval.yaml' in their roots" in done.stderr
    assert not output.exists()


# What is asked again, and what is kept


def test_what_is_changed_or_new_is_asked_and_has_one_line(output: Path) -> None:
    stored_results(output, "one", "two")
    write_suite(output.parent, ["one", "TWO", "three"])
    assert resumed(output) == {"c0"}
    assert sorted(by_id(output)) == ["c0", "c1", "c2"]
    assert "TWO" in by_id(output)["c1"]["response"]


def test_what_failed_is_asked_again_and_has_one_line(folder: Path, output: Path) -> None:
    write_slow_target(folder)
    write_suite(folder, ["good", "bad"])
    for count in (2, 3):
        assert resumed(output, code=1) == set()
        assert [by_id(output)[id_]["response"] for id_ in ("c0", "c1")] == ["hi", None]
        assert len(asked(folder)) == count


def test_of_several_lines_about_a_case_the_last_one_wins(output: Path) -> None:
    one, two = stored_results(output, "one", "two")
    write_lines(output, [{**one, **FAILURE}, two, one, {**two, **FAILURE}])
    assert resumed(output) == {"c0"}
    assert by_id(output)["c1"]["error"] is None


def test_lines_of_other_targets_and_of_cases_that_are_gone_stay_and_are_named(output: Path) -> None:
    one, two, three = stored_results(output, "one", "two", "three")
    kept = [{**one, "target": "other"}, {**one, "suite": "gone.eval.yaml"}, {**two, **FAILURE}]
    write_lines(output, [*kept, one, three])
    write_suite(output.parent, ["changed"])
    arguments = ("a.eval.yaml", *OUTPUT, "--resume")
    said = run(*arguments, folder=output.parent).stderr
    assert said.splitlines() == [
        "out.jsonl still has 2 results of cases that are no longer in the suites: c1, c2",
        "1 answered, 0 reused, 0 failed, 0 retried: out.jsonl; 1 sent with repairs: C9",
    ]
    *lines, new = records(output)
    assert lines == [*kept, three]
    assert "changed" in new["response"]
    assert "still has" not in run(*arguments, "--case", "c0", folder=output.parent).stderr
    write_suite(output.parent, ["one", "two", "three"])
    assert "still has" not in run(*arguments, folder=output.parent).stderr


# Which files are continued


def test_an_output_is_begun_if_it_is_empty_and_refused_if_not_without_resume(output: Path) -> None:
    output.touch()
    stored_results(output, "one")
    before = output.read_bytes()
    done = run("a.eval.yaml", *OUTPUT, folder=output.parent)
    assert (done.returncode, done.stdout, output.read_bytes()) == (2, "", before)
    assert done.stderr == (
        "Error: 'out.jsonl' exists; add --resume to continue it, or name another file\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"some notes", id="text without an end of line"),
        pytest.param(b"one\ntwo", id="two lines of text, the last without an end"),
        pytest.param(b'{"name": "mine", "version": 1}', id="other JSON without an end of line"),
        pytest.param(b"\x00\x01\x02\xff", id="bytes"),
        pytest.param(b'{"suite":"a", "m": %s}\n' % (b"[" * 10**5 + b"]" * 10**5), id="nesting"),
    ],
)
def test_what_is_no_results_file_is_refused_and_left_as_it_was(output: Path, text: bytes) -> None:
    """tests/errors/results has the errors of lines."""
    output.write_bytes(text)
    with pytest.raises(
        MultiturnError, match="this is not a result; remove the line, or name another file"
    ):
        ResultsFile(str(output), resume=True)
    assert output.read_bytes() == text


# What a run leaves that ends before its time


def test_a_line_that_a_crash_cut_short_is_redone(output: Path) -> None:
    one, two = stored_results(output, "one", "two")
    line = json.dumps({**two, "response": "é"}, ensure_ascii=False).encode()
    in_a_character = line.index("é".encode()) + 1
    for torn in (line[:1], line[:30], line[:in_a_character], line[:-1]):
        write_lines(output, [one])
        with output.open("ab") as file:
            file.write(torn)
        assert resumed(output) == {"c0"}
        assert sorted(by_id(output)) == ["c0", "c1"]
        assert "two" in by_id(output)["c1"]["response"]


@pytest.mark.parametrize("sort_keys", [False, True])
def test_a_last_line_that_lacks_only_its_end_is_kept(output: Path, sort_keys: bool) -> None:
    one, two = stored_results(output, "one", "two")
    whole = json.dumps(two, sort_keys=sort_keys)
    write_lines(output, [one])
    with output.open("a") as file:
        file.write(whole)
    assert resumed(output) == {"c0", "c1"}
    assert output.read_text().splitlines(keepends=True)[1:] == [f"{whole}\n"]
    write_suite(output.parent, ["one", "two", "three"])
    resumed(output)
    assert sorted(by_id(output)) == ["c0", "c1", "c2"]


def finished(output: Path) -> set[bytes]:
    """Return the lines that are whole."""
    text = output.read_bytes() if output.exists() else b""
    return {line for line in text.splitlines(keepends=True) if line.endswith(b"\n")}


def test_a_full_disk_is_one_line_and_what_is_done_is_kept(output: Path) -> None:
    write_suite(output.parent, ["x" * 300] * 20)
    process = start("a.eval.yaml", *OUTPUT, folder=output.parent, preexec_fn=full_disk(5_000))
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert err == "Error: cannot write 'out.jsonl': File too large\n"
    kept = finished(output)
    assert len(kept) > 1
    resumed(output)
    assert kept <= finished(output)
    assert len(by_id(output)) == 20


def test_killing_a_run_at_any_moment_loses_no_finished_result(folder: Path, output: Path) -> None:
    write_slow_target(folder)
    write_suite(folder, map(str, range(20)))
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
    assert [line["response"] for line in by_id(output).values()] == ["hi"] * 20
    assert kept <= finished(output)
