"""The command ``multiturn run`` as a process: what it writes, and how it ends."""

import json
import re
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from loopback import TEXT, USAGE, Answer, Server, chat_answer
from multiturn.cli.progress import estimate
from multiturn.engine.selection import Selection
from running import by_id, records, run, run_on_terminal, start, wait_for, write_suite, write_target

ONLY_SYSTEM = "  - {id: bare, input_messages: [{role: system, content: Be brief}]}\n"
NO_FILE = "  - {id: lost, input_messages: [{role: user, content: [{type: file, value: no.txt}]}]}\n"
FINE = "  - {id: fine, input_messages: [{role: user, content: Hello}]}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()  # nothing above it counts
    return tmp_path


@pytest.fixture
def server(folder: Path, server: Server) -> Server:
    write_target(folder, server)
    return server


def suite(folder: Path, *cases: str, head: str = "", name: str = "a.eval.yaml") -> None:
    (folder / name).write_text(f"{head}evalcases:\n{''.join(cases)}")


def test_a_result_says_what_was_asked_and_what_was_answered(folder: Path, server: Server) -> None:
    suite(
        folder,
        "  - id: one\n    guidelines: [Be kind]\n    input_messages:\n"
        "      - {role: user, content: Hello}\n"
        "      - {role: assistant, content: Ho}\n"
        "      - {role: user, content: Bye}\n",
    )
    done = run("a.eval.yaml", "--target", "az", "--output", "out.jsonl", folder=folder)
    assert (done.returncode, done.stdout) == (0, "")
    (result,) = records(folder / "out.jsonl")
    assert (result["suite"], result["id"], result["target"]) == ("a.eval.yaml", "one", "az")
    assert (result["response"], result["error"]) == (TEXT, None)
    assert result["usage"] == USAGE
    assert 0 < result["latency_ms"] < 60_000
    asked = result["raw_request"]
    assert asked["question"] == "[User]: Hello\n[Assistant]: Ho\n[User]: Bye"
    assert asked["guidelines"] == ["Be kind"]
    assert [message["role"] for message in asked["chat_prompt"]] == [
        *("system", "user", "assistant", "user")
    ]
    assert server.requests[0].json["messages"] == asked["chat_prompt"]
    assert "wire" not in result


def test_without_an_output_results_go_to_standard_output(folder: Path) -> None:
    write_suite(folder, ["Hello", "Bye"])
    done = run("a.eval.yaml", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert {id_: result["target"] for id_, result in by_id(done.stdout).items()} == {
        "c0": "echo",
        "c1": "echo",
    }


@pytest.mark.parametrize("output", [pytest.param((), id="printed"), ("--output", "out.jsonl")])
def test_a_case_that_cannot_be_read_has_a_result(folder: Path, output: tuple[str, ...]) -> None:
    good = "{role: user, content: Hi}"
    (folder / "a.eval.yaml").write_text(
        f"evalcases:\n- {{id: good, input_messages: [{good}]}}\n- {{id: bad, input_messages: 3}}\n"
        f"- {{id: good, input_messages: [{good}]}}\n- {{input_messages: [{good}]}}\n"
    )
    done = run("a.eval.yaml", *output, folder=folder)
    assert done.returncode == 1
    results = by_id(folder / "out.jsonl" if output else done.stdout)
    assert sorted(results) == ["bad", "good"]
    assert results["good"]["error"] is None
    message = "a.eval.yaml:3:29: case 'bad': input_messages must be a list, not a number"
    assert results["bad"]["error"] == {"type": "conversion", "message": message}
    assert (results["bad"]["response"], results["bad"]["target"]) == (None, "echo")
    if output:
        counts = "1 answered, 0 reused, 3 failed, 0 retried: out.jsonl\n"
        assert done.stderr.endswith(counts)


def test_a_result_is_written_as_soon_as_it_is_there(folder: Path, server: Server) -> None:
    release = threading.Event()

    def answer(content: str) -> Answer:
        assert content == "quick" or release.wait(30)
        return chat_answer()

    server.reply = answer
    write_suite(folder, ["slow", "quick", "quick"])
    process = start("a.eval.yaml", "--target", "az", "--output", "out.jsonl", folder=folder)
    output = folder / "out.jsonl"
    wait_for(lambda: output.exists() and output.read_bytes().count(b"\n") == 2)
    assert sorted(by_id(output)) == ["c1", "c2"]
    release.set()
    process.communicate(timeout=60)
    assert sorted(by_id(output)) == ["c0", "c1", "c2"]


def remove(output: Path) -> None:
    output.unlink()


def replace(output: Path) -> None:
    output.unlink()
    output.write_text("mine\n")


def rename(output: Path) -> None:
    output.rename(output.with_name("moved"))


def remove_folder(output: Path) -> None:
    shutil.rmtree(output.parent)


@pytest.mark.parametrize("asked", ["one", "three"])
@pytest.mark.parametrize("how", [remove, replace, rename, remove_folder])
def test_an_output_that_is_removed_is_an_error_that_names_where_its_results_are(
    folder: Path,
    server: Server,
    how: Callable[[Path], None],
    asked: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    output = folder / "results" / "out.jsonl"
    output.parent.mkdir()

    def answer(content: str) -> Answer:
        if content == asked:
            how(output)
        return chat_answer()

    server.reply = answer
    write_suite(folder, ["one", "two", "three"])
    arguments = ("--target", "az", "--concurrency", "1", "--output", "results/out.jsonl")
    done = run("a.eval.yaml", *arguments, folder=folder)
    assert done.returncode == 2
    counted, error = done.stderr.splitlines()
    kept = re.fullmatch(
        r"Error: 'results/out\.jsonl' was removed or replaced during the run; its results are in"
        r" '(.*)', move that back",
        error,
    )
    assert kept is not None
    assert counted == f"3 answered, 0 reused, 0 failed, 0 retried: {kept[1]}"
    assert sorted(by_id(folder / kept[1])) == ["c0", "c1", "c2"]
    assert (Path(kept[1]).parent == Path("results")) == (how is not remove_folder)
    if how is replace:
        assert output.read_text() == "mine\n"


def test_a_run_goes_on_from_results_that_were_kept(folder: Path, server: Server) -> None:
    output = folder / "out.jsonl"

    def answer(content: str) -> Answer:
        if content == "two":
            output.unlink()
        return chat_answer()

    server.reply = answer
    write_suite(folder, ["one", "two"])
    arguments = ("a.eval.yaml", "--target", "az", "--concurrency", "1", "--output", "out.jsonl")
    assert run(*arguments, folder=folder).returncode == 2
    (kept,) = folder.glob("out.kept-*.jsonl")
    kept.rename(output)
    done = run(*arguments, "--resume", folder=folder)
    assert (done.returncode, done.stderr.split(":")[0]) == (
        0,
        "0 answered, 2 reused, 0 failed, 0 retried",
    )


def test_so_many_cases_are_under_way_and_no_more(folder: Path, server: Server) -> None:
    gathered = threading.Barrier(3)

    def answer(_: str) -> Answer:
        gathered.wait(30)
        return chat_answer()

    server.reply = answer
    write_suite(folder, ["Hello"] * 12)
    done = run(*("a.eval.yaml", "--target", "az", "--concurrency", "3"), folder=folder)
    assert (done.returncode, len(by_id(done.stdout))) == (0, 12)
    assert server.most_at_once == 3


def test_cases_with_the_same_request_are_both_answered(folder: Path) -> None:
    write_suite(folder, ["Same", "Same"])
    write_suite(folder, ["Same"], name="b.eval.yaml")
    done = run(".", folder=folder)
    assert all("Same" in result["response"] for result in records(done.stdout))
    found = sorted((result["suite"], result["id"]) for result in records(done.stdout))
    assert found == [("a.eval.yaml", "c0"), ("a.eval.yaml", "c1"), ("b.eval.yaml", "c0")]


def test_a_suite_that_is_named_twice_is_run_once(folder: Path) -> None:
    write_suite(folder, ["Hello"])
    done = run("a.eval.yaml", ".", "./a.eval.yaml", folder=folder)
    assert list(by_id(done.stdout)) == ["c0"]


def test_a_failing_case_never_stops_the_others(folder: Path, server: Server) -> None:
    server.reply = lambda content: (
        (400, {"error": {"message": "too odd"}}) if content == "bad" else chat_answer()
    )
    write_suite(folder, ["bad", "good", "good"])
    done = run("a.eval.yaml", "--target", "az", "--output", "out.jsonl", folder=folder)
    assert done.returncode == 1
    results = by_id(folder / "out.jsonl")
    assert [results[id_]["response"] for id_ in ("c0", "c1", "c2")] == [None, "hi", "hi"]
    assert "too odd" in results["c0"]["error"]["message"]
    assert results["c0"]["raw_request"]["question"] == "bad"
    assert "too odd" in done.stderr
    assert "'c0'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("status", [401, 403])
def test_a_run_ends_once_access_is_denied(folder: Path, server: Server, status: int) -> None:
    server.fail(status, "no such key", times=None)
    write_suite(folder, ["Hello"] * 40)
    arguments = ("a.eval.yaml", "--target", "az", "--output", "out.jsonl")
    done = run(*arguments, "--concurrency", "1", folder=folder)
    assert (done.returncode, len(server.requests), list(by_id(folder / "out.jsonl"))) == (
        *(1, 1, ["c0"]),
    )
    assert done.stderr == (
        f"a.eval.yaml:1: case 'c0': HTTP {status}: no such key; check the api_key of the target"
        " 'az'; no more cases are sent\n0 answered, 0 reused, 1 failed, 0 retried: out.jsonl\n"
    )
    done = run(*arguments, "--resume", folder=folder)
    assert done.stderr.count("HTTP") == 1
    assert 1 < len(server.requests) <= 9


def test_an_error_is_said_once_beside_answers_as_text(folder: Path) -> None:
    suite(folder, ONLY_SYSTEM, FINE)
    done = run("a.eval.yaml", "--format", "text", folder=folder)
    assert (done.returncode, done.stdout.partition("\n")[0]) == (1, "a.eval.yaml · fine · echo")
    assert "bare" not in done.stdout
    assert done.stderr.startswith("a.eval.yaml:2: case 'bare': there is nothing to answer")


def test_what_cannot_be_converted_is_a_result_with_an_error(folder: Path) -> None:
    suite(folder, NO_FILE, "  - {id: broken, input_messages: 3}\n", ONLY_SYSTEM, FINE)
    done = run("a.eval.yaml", folder=folder)
    assert done.returncode == 1
    results = by_id(done.stdout)
    assert sorted(results) == ["bare", "broken", "fine", "lost"]
    assert results["lost"]["error"]["type"] == "conversion"
    assert "no.txt" in results["lost"]["error"]["message"]
    assert results["lost"]["raw_request"] is None
    assert "there is nothing to answer" in results["bare"]["error"]["message"]
    assert results["fine"]["error"] is None
    assert "a.eval.yaml:3:" in done.stderr
    assert "'broken'" in done.stderr


def test_a_server_that_is_not_there_is_called_that(folder: Path, server: Server) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        write_target(folder, server, endpoint=f"http://127.0.0.1:{port}", max_retries=0)
        write_suite(folder, ["Hello"])
        done = run("a.eval.yaml", "--target", "az", folder=folder)
    assert done.returncode == 1
    assert records(done.stdout)[0]["error"]["type"] == "connection"
    assert done.stderr.startswith(
        "a.eval.yaml:1: case 'c0': the connection of the target 'az' failed: "
    )
    assert str(port) in done.stderr
    assert done.stderr.endswith("; check the target's address and the network\n")


def test_execution_settings_reach_the_request(folder: Path, server: Server) -> None:
    own = FINE.replace("input_m", "execution: {temperature: 0}, input_m")
    more = "execution: {max_output_tokens: 5}, input_m"
    other = FINE.replace("fine", "other").replace("input_m", more)
    head = "execution: {temperature: 0.5, max_output_tokens: 100}\n"
    suite(folder, own, other, head=head)
    done = run("a.eval.yaml", "--target", "az", "--dry-run", folder=folder)
    bodies = [json.loads(line["wire"]) for line in records(done.stdout)]
    found = {(body["temperature"], body["max_completion_tokens"]) for body in bodies}
    assert found == {(0, 100), (0.5, 5)}


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
def test_a_usage_error_is_said_in_words_and_exits_with_2(
    folder: Path, arguments: list[str], message: str
) -> None:
    write_suite(folder, ["Hello"])
    done = run("a.eval.yaml", *arguments, folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_key_of_a_target_is_a_warning(folder: Path) -> None:
    write_suite(folder, ["Hello"])
    (folder / "targets.yaml").write_text("[{name: t, provider: echo, colour: red}]")
    done = run("a.eval.yaml", "--target", "t", folder=folder)
    assert (done.returncode, list(by_id(done.stdout))) == (0, ["c0"])
    assert done.stderr.startswith('targets.yaml:1:28: warning: unknown key "colour"; choose from: ')
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_keeps_what_is_done(
    folder: Path, server: Server, number: signal.Signals, code: int
) -> None:
    release = threading.Event()

    def answer(content: str) -> Answer:
        assert content == "quick" or release.wait(30)
        return chat_answer()

    server.reply = answer
    write_suite(folder, ["quick", "quick", *["slow"] * 20])
    process = start(
        *("a.eval.yaml", "--target", "az", "--output", "out.jsonl", "--concurrency", "3"),
        folder=folder,
    )
    output = folder / "out.jsonl"
    wait_for(lambda: output.exists() and output.read_bytes().count(b"\n") == 2)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    release.set()
    assert (process.returncode, out) == (code, "")
    assert sorted(by_id(output)) == ["c0", "c1"]
    assert len(err.splitlines()) == 1


def test_progress_counts_on_a_terminal(folder: Path, server: Server) -> None:
    lock = threading.Lock()
    seen: list[str] = []

    def answer(content: str) -> Answer:
        time.sleep(0.06)
        with lock:
            seen.append(content)
            if content == "bad" or (content == "again" and seen.count(content) == 1):
                return 400 if content == "bad" else 500, {"error": {"message": "no"}}
        return chat_answer()

    server.reply = answer
    write_suite(folder, ["again", "bad", *["good"] * 18])
    shown = run_on_terminal(
        *("a.eval.yaml", "--target", "az", "--output", "out.jsonl", "--concurrency", "2"),
        folder=folder,
    )
    assert re.search(r"\b20 done, 1 failed, 1 retried\b", shown)
    assert re.search(r"left: +0:00:0[1-9]", shown)
    assert len(by_id(folder / "out.jsonl")) == 20


@pytest.mark.parametrize("quote", ["", '"', "'"])
def test_cases_are_estimated_in_suites_of_any_quotes(folder: Path, quote: str) -> None:
    write_suite(folder, ["Hello"] * 20)
    path = folder / "a.eval.yaml"
    path.write_text(path.read_text().replace('"', quote))
    assert estimate(Selection((str(path),))) == 20


def test_progress_is_not_shown_elsewhere(folder: Path) -> None:
    write_suite(folder, ["Hello"] * 20)
    done = run("a.eval.yaml", "--output", "out.jsonl", folder=folder, env={"TERM": "xterm"})
    assert done.returncode == 0
    for sign in ("\r", "\x1b", "left", "done"):
        assert sign not in done.stderr
