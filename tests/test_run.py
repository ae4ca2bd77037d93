"""The command ``multiturn run``: what it writes, and how it ends."""

import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from layout import write_layout
from loopback import TEXT, USAGE, Answer, Server, chat_answer
from multiturn.cli.printing import estimated_cases
from multiturn.engine.selection import Selection
from running import (
    by_id,
    records,
    run,
    run_on_terminal,
    start,
    wait_for,
    write_slow_target,
    write_suite,
    write_target,
)

AZ = ("a.eval.yaml", "--target", "az", "--output", "out.jsonl")
SUITE = """\
execution: {temperature: 0.5, max_output_tokens: 100}
evalcases:
- id: one
  guidelines: [Be kind]
  execution: {temperature: 0}
  input_messages:
  - {role: user, content: Hello}
  - {role: assistant, content: Ho}
  - {role: user, content: Bye}
"""
UNREADABLE = """\
evalcases:
- {id: good, input_messages: [{role: user, content: Hi}]}
- {id: bad, input_messages: 3}
- {id: good, input_messages: [{role: user, content: Hi}]}
- {input_messages: [{role: user, content: Hi}]}
- {id: lost, input_messages: [{role: user, content: [{type: file, value: no.txt}]}]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()  # nothing above it counts
    return tmp_path


@pytest.fixture
def server(folder: Path, server: Server) -> Server:
    write_target(folder, server, default_system="omit")
    return server


def test_a_result_says_what_was_asked_and_what_was_answered(folder: Path, server: Server) -> None:
    (folder / "a.eval.yaml").write_text(SUITE)
    write_layout(folder)
    done = run(*AZ, folder=folder)
    assert (done.returncode, done.stdout) == (0, "")
    (result,) = records(folder / "out.jsonl")
    assert (result["suite"], result["id"], result["target"]) == ("a.eval.yaml", "one", "az")
    assert (result["response"], result["error"], result["usage"]) == (TEXT, None, USAGE)
    assert (result["finish_reason"], result["retries"]) == ("stop", 0)
    assert 0 < result["latency_ms"] < 60_000
    assert "wire" not in result
    asked = result["raw_request"]
    assert asked["question"] == "[User]: Hello\n[Assistant]: Ho\n[User]: Bye"
    assert asked["guidelines"] == ["Be kind"]
    sent = server.requests[0].json
    assert sent["messages"] == asked["chat_prompt"]
    assert (sent["temperature"], sent["max_completion_tokens"]) == (0, 100)


@pytest.mark.parametrize("output", [pytest.param((), id="printed"), ("--output", "out.jsonl")])
def test_a_case_that_cannot_be_read_or_converted_has_a_result(
    folder: Path, output: tuple[str, ...]
) -> None:
    (folder / "a.eval.yaml").write_text(UNREADABLE)
    done = run("a.eval.yaml", *output, folder=folder)
    assert done.returncode == 1
    results = by_id(folder / "out.jsonl" if output else done.stdout)
    assert sorted(results) == ["bad", "good", "lost"]
    assert results["good"]["error"] is None
    message = "a.eval.yaml:3:29: case 'bad': input_messages must be a list, not a number"
    assert results["bad"]["error"] == {"type": "conversion", "message": message}
    assert (results["bad"]["suite"], results["bad"]["target"]) == ("a.eval.yaml", "echo")
    assert (results["lost"]["response"], results["lost"]["error"]["type"]) == (None, "conversion")
    assert message in done.stderr
    if output:
        counts = "1 answered, 0 reused, 4 failed, 0 retried: out.jsonl"
        assert done.stderr.endswith(f"{counts}; 1 sent with repairs: C9\n")


def test_an_error_is_said_once_beside_answers_as_text(folder: Path) -> None:
    (folder / "a.eval.yaml").write_text(UNREADABLE)
    done = run("a.eval.yaml", "--format", "text", folder=folder)
    assert (done.returncode, done.stdout.partition("\n")[0]) == (1, "a.eval.yaml · good · echo")
    assert "lost" not in done.stdout
    assert done.stderr.count("case 'lost'") == 1


def replace(output: Path) -> None:
    output.unlink()
    output.write_text("mine\n")


@pytest.mark.parametrize(
    ("change", "asked"),
    [
        pytest.param(Path.unlink, "one", id="removed at the first case"),
        pytest.param(replace, "two", id="replaced"),
        pytest.param(lambda output: shutil.rmtree(output.parent), "three", id="gone with a folder"),
    ],
)
def test_an_output_that_is_gone_is_an_error_that_names_where_its_results_are(
    folder: Path,
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path], object],
    asked: str,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    output = folder / "results" / "out.jsonl"
    output.parent.mkdir()

    def answer(content: str) -> Answer:
        if content == asked:
            change(output)
        return chat_answer()

    server.reply = answer
    write_suite(folder, ["one", "two", "three"])
    done = run(*AZ[:-1], "results/out.jsonl", "--concurrency", "1", folder=folder)
    assert done.returncode == 2
    kept = re.fullmatch(
        r"3 answered, 0 reused, 0 failed, 0 retried: (.*)\n33 input tokens, 21 output tokens; .*\n"
        r"Error: 'results/out\.jsonl' was removed"
        r" or replaced during the run; its results are in '\1', move that back\n",
        done.stderr,
    )
    assert kept is not None
    assert sorted(by_id(folder / kept[1])) == ["c0", "c1", "c2"]
    assert (Path(kept[1]).parent == Path("results")) == output.parent.exists()
    assert change is not replace or output.read_text() == "mine\n"


@pytest.mark.parametrize("status", [401, 403])
def test_a_run_ends_once_access_is_denied(folder: Path, server: Server, status: int) -> None:
    server.fail(status, "no such key", times=None)
    write_suite(folder, ["Hello"] * 40)
    done = run(*AZ, "--concurrency", "1", folder=folder)
    assert (done.returncode, len(server.requests)) == (1, 1)
    assert list(by_id(folder / "out.jsonl")) == ["c0"]
    assert done.stderr == (
        f"a.eval.yaml:1: case 'c0': HTTP {status}: no such key; check the api_key of the target"
        " 'az'; no more cases are sent\n0 answered, 0 reused, 1 failed, 0 retried: out.jsonl\n"
    )
    done = run(*AZ, "--resume", folder=folder)
    assert done.stderr.count("HTTP") == 1
    assert 1 < len(server.requests) <= 9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--resume"], "--output", id="resume without an output"),
        pytest.param(["--concurrency", "0"], "0 is not in the range", id="nothing under way"),
        pytest.param(["--output", "no/x"], "cannot write 'no/x'", id="an output in no folder"),
        pytest.param(["--output", ".", "--resume"], "'.'", id="an output that is a folder"),
        pytest.param(["--pipeline", "spce"], 'did you mean "spec"?', id="a pipeline"),
    ],
)
def test_a_usage_error_exits_with_2(folder: Path, arguments: list[str], message: str) -> None:
    write_suite(folder, ["Hello"])
    done = run("a.eval.yaml", *arguments, folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_keeps_what_is_done(
    folder: Path, number: signal.Signals, code: int
) -> None:
    write_slow_target(folder)
    write_suite(folder, ["quick", "quick", *["slow"] * 20])
    arguments = ("a.eval.yaml", "--output", "out.jsonl", "--concurrency", "3")
    process = start(*arguments, folder=folder)
    output = folder / "out.jsonl"
    wait_for(lambda: output.exists() and output.read_bytes().count(b"\n") == 2)
    process.send_signal(number)
    assert process.communicate(timeout=60) == (
        "",
        "interrupted after 2 cases: finished results are in out.jsonl; continue with --resume\n",
    )
    assert process.returncode == code
    assert sorted(by_id(output)) == ["c0", "c1"]


def test_progress_counts_on_a_terminal(folder: Path) -> None:
    write_slow_target(folder)
    write_suite(folder, ["again", "bad", *["good"] * 40])
    arguments = ("a.eval.yaml", "--output", "out.jsonl", "--concurrency", "1")
    shown = run_on_terminal(*arguments, folder=folder)
    assert re.search(r"\b[1-4][0-9] done, 1 failed, 1 retried\b", shown)
    assert re.search(r"left: +0:00:0[1-9]", shown)
    assert len(by_id(folder / "out.jsonl")) == 42


@pytest.mark.parametrize("quote", ["", '"', "'"])
def test_cases_are_estimated_in_suites_of_any_quotes(folder: Path, quote: str) -> None:
    write_suite(folder, ["Hello"] * 20)
    path = folder / "a.eval.yaml"
    path.write_text(path.read_text().replace('"', quote))
    assert estimated_cases(Selection((str(path),))) == 20


def test_an_empty_answer_and_a_refusal_are_told_apart_and_counted(
    folder: Path, server: Server
) -> None:
    no = {"choices": [{"message": {"content": None, "refusal": "I will not."}}]}
    server.answer("Hello")
    server.answer(" \n")
    server.answer(body=no)
    write_suite(folder, ["Hello"] * 3)
    done = run(*AZ, "--concurrency", "1", folder=folder)
    assert done.stderr.startswith(
        "3 answered (1 empty, 1 refused), 0 reused, 0 failed, 0 retried: out.jsonl\n"
    )
    found = by_id(folder / "out.jsonl")
    answers = [(result["answer"], result["response"]) for result in found.values()]
    assert answers == [("text", "Hello"), ("empty", " \n"), ("refusal", "I will not.")]


def test_a_result_has_what_a_grader_needs(folder: Path, server: Server) -> None:
    server.fail(400, "no", times=1)
    (folder / "a.eval.yaml").write_text(
        "evalcases:\n"
        "- {id: plain, input: Hi}\n"
        "- id: full\n"
        "  input: Hi\n"
        "  outcome: Greets.\n"
        "  expected_messages: [{role: assistant, content: Hello}]\n"
    )
    run(*AZ, "--concurrency", "1", folder=folder)
    found = by_id(folder / "out.jsonl")
    assert found["plain"]["answer"] is None
    assert not {"outcome", "expected_messages"} & found["plain"].keys()
    assert found["full"]["answer"] == "text"
    assert found["full"]["outcome"] == "Greets."
    assert found["full"]["expected_messages"] == [{"role": "assistant", "content": "Hello"}]


def test_the_summary_of_a_run_that_prints_its_results_is_on_standard_error(
    tmp_path: Path,
) -> None:
    write_suite(tmp_path, ["one", "two"])
    done = run("a.eval.yaml", folder=tmp_path)
    assert len(records(done.stdout)) == 2
    assert done.stderr == "2 answered, 0 reused, 0 failed, 0 retried; 2 sent with repairs: C9\n"
    assert run("a.eval.yaml", "-q", folder=tmp_path).stderr == ""
