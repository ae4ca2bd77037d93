"""``run --batch`` and ``batch``: the vendors' APIs through their SDKs, and what the user sees.

tests/test_batch_run.py has what may go wrong in between.
"""

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import commands
from batch_server import Batch, BatchServer, text_for, write_targets
from loopback import KEY, TEXT, Server
from multiturn.engine import batches
from multiturn.providers.openai.provider import OpenAIBatchApi
from running import by_id, run, start, wait_for, write_suite

PROMPTS = ("one", 'a\u2028"\\ü', "three", "one")  # the last is a duplicate of the first
ALL = {f"c{number}": text_for(prompt) for number, prompt in enumerate(PROMPTS)}
ONCE = Counter(set(PROMPTS))
FINISHED = {
    "anthropic": "end_turn",
    "gemini": "STOP",
    **dict.fromkeys(("responses", "azure responses"), "completed"),
}
OUTPUT = ("--output", "out.jsonl")
BATCH = ("--batch", *OUTPUT, "--poll", "0.001")

each_vendor = pytest.mark.parametrize(
    "vendor", ["openai", "azure", "responses", "azure responses", "anthropic", "gemini"]
)


@pytest.fixture
def server(batch_server: BatchServer) -> BatchServer:
    return batch_server


@pytest.fixture
def folder(tmp_path: Path, server: BatchServer) -> Path:
    write_targets(tmp_path, server)
    write_suite(tmp_path, PROMPTS)
    return tmp_path


def ask(vendor: str, *more: str, folder: Path) -> Any:
    """Run a suite as a batch; nothing shows or keeps the key."""
    done = run("a.eval.yaml", "--target", vendor, *BATCH, *more, folder=folder)
    assert KEY not in done.stdout + done.stderr
    assert all(KEY.encode() not in path.read_bytes() for path in folder.glob("out.jsonl*"))
    return done


def batch(command: str, folder: Path) -> Any:
    return commands.run("batch", command, "out.jsonl", folder=folder, env={"NO_PROXY": "127.0.0.1"})


def answers(folder: Path) -> dict[str, str | None]:
    return {id_: line["response"] for id_, line in by_id(folder / "out.jsonl").items()}


# Each vendor


@each_vendor
def test_every_case_has_resulted_and_a_duplicate_is_sent_once(
    vendor: str, folder: Path, server: BatchServer
) -> None:
    """A state that nobody knows is waited for; results that are cut in the middle are read anew."""
    server.lag, server.waiting = 3, "moonwalking"
    server.trouble("results", 200, acted=True)
    done = ask(vendor, "--no-wait", "--record-wire", folder=folder)
    assert (done.returncode, (folder / "out.jsonl").read_text()) == (0, "")
    done = batch("status", folder)
    name = next(iter(server.batches))
    counts = {"gemini": "3"}.get(vendor, "0 of 3")
    assert (done.returncode, done.stdout) == (0, f"{name}: moonwalking, {counts} requests\n")
    done = ask(vendor, "--resume", folder=folder)
    assert (done.returncode, "33 input tokens, 21 output tokens" in done.stderr) == (0, True)
    assert (answers(folder), server.sent()) == (ALL, ONCE)
    assert {path.name for path in folder.iterdir()} == {"a.eval.yaml", "out.jsonl", "targets.yaml"}
    line = by_id(folder / "out.jsonl")["c1"]
    bodies = [request.body for request in server.requests]
    assert sum(line["wire"].encode() in body for body in bodies) == 1
    assert sum(line["digest"].encode() in body for body in bodies) == 1
    assert (line["finish_reason"], line["error"], line["target"], line["suite"]) == (
        FINISHED.get(vendor, "stop"),
        *(None, vendor, "a.eval.yaml"),
    )
    assert line["usage"] == {"input_tokens": 11, "output_tokens": 7}
    assert line["raw_request"]["question"] == PROMPTS[1]


@each_vendor
def test_what_gets_no_answer_is_an_error_and_is_asked_again_without_a_batch(
    vendor: str, folder: Path, server: BatchServer
) -> None:
    fates = ("errored", "expired", "canceled", "missing", "garbled")
    server.fates = {fate: fate for fate in fates}
    write_suite(folder, [*PROMPTS, *fates])
    bad = {f"c{number}": None for number, _ in enumerate(fates, len(PROMPTS))}
    done = ask(vendor, folder=folder)
    assert (done.returncode, answers(folder)) == (1, {**ALL, **bad})
    results = by_id(folder / "out.jsonl")
    messages = [results[id_]["error"]["message"] for id_ in bad]
    assert "it is wrong (***)" in messages[0]
    assert all(message and "\n" not in message for message in messages)
    assert all(message in done.stderr for message in messages)
    done = run("a.eval.yaml", "--target", vendor, *OUTPUT, "--resume", folder=folder)
    assert (done.returncode, answers(folder)) == (0, {**ALL, **dict.fromkeys(bad, TEXT)})
    assert server.operations.count("nothing") == len(bad)


@each_vendor
@pytest.mark.parametrize("end", ["failed", "expired", "expired without files", "cancelled"])
def test_a_batch_that_ends_otherwise_keeps_what_was_answered(
    vendor: str, end: str, folder: Path, server: BatchServer
) -> None:
    if (vendor, end) == ("anthropic", "failed"):
        pytest.skip("Anthropic's batches only end")
    server.end, server.lag = end, 1
    done = ask(vendor, folder=folder)
    is_partial = end in ("expired", "cancelled") and (vendor, end) != ("gemini", "expired")
    kept = dict.fromkeys(("c0", "c3"), text_for("one")) if is_partial else {}
    assert (done.returncode, answers(folder)) == (1, {**dict.fromkeys(ALL), **kept})


@each_vendor
def test_a_canceled_batch_keeps_its_answers_and_sends_no_more(
    vendor: str, folder: Path, server: BatchServer
) -> None:
    server.lag = 1_000_000
    assert ask(vendor, "--no-wait", folder=folder).returncode == 0
    done = batch("cancel", folder)
    assert (done.returncode, server.operations.count("cancel")) == (0, 1)
    server.lag = 0
    write_suite(folder, [*PROMPTS, "new"])
    assert ask(vendor, "--resume", folder=folder).returncode == 1
    kept = dict.fromkeys(("c0", "c3"), text_for("one"))
    assert (answers(folder), server.sent()) == ({**dict.fromkeys(ALL), **kept}, ONCE)
    for command in ("status", "cancel"):
        done = batch(command, folder)
        assert done.stderr == "Error: no batch for 'out.jsonl' is under way\n"


@each_vendor
def test_a_lost_batch_is_found_among_those_of_others(
    vendor: str, folder: Path, server: BatchServer
) -> None:
    """The others are as large, and newer. No SDK tries again to create a batch."""

    def watch(operation: str, acted: bool) -> None:
        if (operation, acted) == ("create", True):
            for _ in range(5):
                server.stranger(vendor if vendor in ("anthropic", "gemini") else "openai", 3)

    server.page = 2
    server.watch = watch
    server.trouble("create", 500, acted=True)
    write_targets(folder, server, max_retries=2)
    for _ in range(2):
        assert ask(vendor, "--resume", folder=folder).returncode == 0
        assert (answers(folder), server.sent() - Counter({"theirs": 15})) == (ALL, ONCE)


def test_a_dry_run_counts_no_request_that_waits(folder: Path, server: BatchServer) -> None:
    server.lag = 9
    ask("openai", "--no-wait", folder=folder)
    write_suite(folder, [*PROMPTS, "four", "four"])
    done = ask("openai", "--resume", "--dry-run", folder=folder)
    assert (done.returncode, done.stdout[:19]) == (0, "1 request in 1 part")
    assert done.stderr.splitlines()[1].startswith("about 18 input tokens; ")


def test_a_batch_is_collected_from_another_folder(folder: Path, server: BatchServer) -> None:
    for name in (".git", "deep"):
        (folder / name).mkdir()
    server.lag = 1
    ask("openai", "--no-wait", folder=folder)
    there = ("--target", "openai", "--batch", "--output", "../out.jsonl", "--resume")
    assert run("..", *there, folder=folder / "deep").returncode == 0
    assert (answers(folder), server.sent()) == (ALL, ONCE)


def test_a_batch_of_another_size_is_not_waited_for(folder: Path, server: BatchServer) -> None:
    def watch(operation: str, acted: bool) -> None:
        if operation == "create" and len(server.batches) == 0:
            server.stranger("anthropic", 4, is_running=True)

    server.watch = watch
    server.trouble("create", 500)
    done = ask("anthropic", folder=folder)
    assert (done.returncode, "before anything is sent again" in done.stderr) == (0, True)
    assert "answers in it" not in done.stderr


def test_a_batch_of_an_earlier_run_is_not_taken_for_a_lost_one(
    folder: Path, server: BatchServer
) -> None:
    """The batches of Anthropic have no names, and the requests are the same."""
    for number in (1, 2):
        server.trouble("create")
        assert ask("anthropic", folder=folder).returncode == 0
        assert set(server.sent().values()) == {number}
        (folder / "out.jsonl").unlink()


class Elsewhere(BatchServer):
    """Names another server in its answers."""

    other = ""

    def _anthropic_state(self, batch: Batch) -> Any:
        state = super()._anthropic_state(batch)
        return {**state, "results_url": state["results_url"] and f"{self.other}/results"}

    def take(self, request: Any) -> Any:
        step = super().take(request)
        url = step.headers.get("x-goog-upload-url", "")
        moved = {"x-goog-upload-url": url.replace(self.url, self.other)} if url else {}
        return step._replace(headers={**step.headers, **moved})


@pytest.mark.parametrize("vendor", ["anthropic", "gemini"])
def test_an_address_in_an_answer_gets_nothing(vendor: str, folder: Path) -> None:
    with Server() as other, Elsewhere() as server:
        server.other = other.url
        write_targets(folder, server)
        assert ask(vendor, folder=folder).returncode == 0
        assert other.requests == []


class Slow(BatchServer):
    """Processes an uploaded file for a while, as Azure does; it refuses a batch until then."""

    processed = False

    def act(self, request: Any) -> Any:
        status, answer = super().act(request)
        if "/openai/files" in request.path and "/content" not in request.path:
            self.processed = request.method == "GET"
            id_ = next(iter(self.files))
            return 200, {"id": id_, "status": "processed" if self.processed else "pending"}
        if request.path.startswith("/openai/batches") and not self.processed:
            return 400, {"error": {"message": "the file is not processed"}}
        return status, answer


def test_a_password_in_the_address_is_neither_shown_nor_kept(
    folder: Path, server: BatchServer
) -> None:
    write_targets(folder, server, api_key=None)
    targets = folder / "targets.yaml"
    targets.write_text(targets.read_text().replace("://", "://me:pass%2Dword@"))
    shown = ask("openai", "--dry-run", folder=folder).stdout
    assert f"{server.url}/v1".replace("://", "://me:***@") in shown
    shown += ask("openai", "--no-wait", folder=folder).stderr
    assert "pass" not in shown + (folder / "out.jsonl.batch").read_text()


def test_azure_gets_the_time_that_it_takes_to_process_a_file(folder: Path) -> None:
    with Slow() as server:
        write_targets(folder, server)
        assert ask("azure", "--no-wait", folder=folder).returncode == 0


# What is refused, and what is said


def test_what_has_no_batches_is_refused_before_a_suite_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.eval.yaml").write_text("this is: [no suite")
    done = run("a.eval.yaml", "--target", "echo", *BATCH, folder=tmp_path)
    assert done.stderr == (
        "Error: the target 'echo' has no batches; leave out --batch, or name a target"
        " of one of these providers: openai, azure, anthropic, gemini\n"
    )
    assert (done.returncode, (tmp_path / "out.jsonl").exists()) == (2, False)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--batch",), "--batch writes results into a file; name one with --output"),
        *(
            (
                ("--batch", *OUTPUT, "--poll", number),
                "--poll takes a number of seconds, such as 60, and at most 86400",
            )
            for number in ("nan", "inf", "86401", "1e12")
        ),
        (("--no-wait",), "--no-wait and --poll are for --batch; add it, or leave them out"),
        (("--poll", "60"), "--no-wait and --poll are for --batch; add it, or leave them out"),
    ],
)
def test_options_that_cannot_be_are_refused(
    folder: Path, options: tuple[str, ...], error: str
) -> None:
    done = run("a.eval.yaml", *options, folder=folder)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, f"Error: {error}")


def test_only_the_run_that_goes_on_is_let_in(folder: Path, server: BatchServer) -> None:
    server.lag = 1
    ask("openai", "--no-wait", folder=folder)
    command = ("a.eval.yaml", "--target", "openai", *OUTPUT)
    for others in (("--resume",), ("--batch",), ("--batch", "--dry-run"), ()):
        done = run(*command, *others, folder=folder)
        assert (done.returncode, done.stderr) == (
            2,
            "Error: a batch for 'out.jsonl' is under way; add --resume --batch to get its results,"
            " or cancel it with: multiturn batch cancel out.jsonl\n",
        )
    assert ask("openai", "--resume", folder=folder).returncode == 0
    assert server.sent() == ONCE


def test_an_error_that_ends_a_run_says_how_to_go_on(folder: Path, server: BatchServer) -> None:
    server.trouble("look", 401)
    done = ask("openai", folder=folder)
    assert (done.returncode, "HTTP 401" in done.stderr) == (2, True)
    assert done.stderr.endswith(
        "; continue with --resume --batch, or cancel with: multiturn batch cancel out.jsonl;"
        " to give up what was submitted, remove out.jsonl.batch\n"
    )


def test_results_that_always_fail_end_a_run_with_one_line_and_wait_for_the_next(
    folder: Path, server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "_FAILURES", 2)
    write_targets(folder, server, max_retries=0)
    for _ in range(2):
        server.trouble("results", 500)
    done = ask("openai", folder=folder)
    (name,) = server.batches
    failed = "HTTP 500: told to (***)"
    assert (done.returncode, done.stderr.splitlines()[2:]) == (
        2,
        [
            f"{name}: {failed}; asking again in 0.001 s",
            f"Error: {name} is kept, but 2 checks in a row have failed: {failed}; continue with"
            " --resume --batch, or cancel with: multiturn batch cancel out.jsonl; to give up what"
            " was submitted, remove out.jsonl.batch",
        ],
    )
    server.trouble("results", 500)
    done = ask("openai", "--resume", "--no-wait", folder=folder)
    assert f"{name}: {failed}" in done.stderr.splitlines()  # and it does not ask again
    write_targets(folder, server)
    assert ask("openai", "--resume", folder=folder).returncode == 0
    assert (answers(folder), server.sent()) == (ALL, ONCE)


def test_status_tells_of_all_batches_though_one_is_gone(
    folder: Path, server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OpenAIBatchApi, "most_requests", 1)
    server.lag = 9
    ask("openai", "--no-wait", folder=folder)
    gone, *others = server.batches
    del server.batches[gone]
    done = batch("status", folder)
    lines = [f"{name}: in_progress, 0 of 1 request" for name in others]
    assert (done.returncode, done.stdout.splitlines()) == (1, lines)
    assert done.stderr == f"{gone}: HTTP 404: there is no {gone}\n"


@each_vendor
def test_a_full_disk_while_results_are_fetched_is_said_and_loses_nothing(
    vendor: str, folder: Path, server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.lag = 1
    ask(vendor, "--no-wait", folder=folder)
    with monkeypatch.context() as patch:
        full = Path("/dev/full")
        patch.setattr(batches, "TemporaryFile", lambda **_: full.open("r+b", buffering=0))
        done = ask(vendor, "--resume", folder=folder)
    error = "Error: cannot write 'out.jsonl': No space left on device"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, error)
    assert ask(vendor, "--resume", folder=folder).returncode == 0
    assert (answers(folder), server.sent()) == (ALL, ONCE)


def test_a_case_that_cannot_be_read_or_converted_stops_no_other(
    folder: Path, server: BatchServer
) -> None:
    suite = json.loads((folder / "a.eval.yaml").read_text())
    file = [{"type": "file", "value": "no"}]
    for id_, role, content in (("none", "system", "Be brief"), ("file", "user", file)):
        message = {"role": role, "content": content}
        suite["evalcases"].append({"id": id_, "input_messages": [message]})
    (folder / "a.eval.yaml").write_text(json.dumps(suite))
    done = ask("openai", folder=folder)
    assert (done.returncode, done.stderr.splitlines()[-2]) == (
        *(1, "4 answered, 0 reused, 2 failed: out.jsonl; 4 sent with repairs: C9"),
    )
    assert (answers(folder), server.sent()) == ({**ALL, "none": None, "file": None}, ONCE)


def test_ctrl_c_leaves_the_batch_and_says_how_to_go_on(folder: Path, server: BatchServer) -> None:
    """Until then, nobody else uses the output."""
    server.lag = 1_000_000
    process = start("a.eval.yaml", "--target", "openai", *BATCH[:-1], "60", folder=folder)
    wait_for(lambda: "look" in server.operations)
    assert "in_progress" in "".join(next(process.stderr or iter(())) for _ in range(2))
    done = ask("openai", "--resume", folder=folder)
    assert (done.returncode, "another run is writing 'out.jsonl'" in done.stderr) == (2, True)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (
        130,
        "interrupted; the provider still works on what was submitted; continue with --resume"
        " --batch, or cancel with: multiturn batch cancel out.jsonl\n",
    )
    server.lag = 0
    assert ask("openai", "--resume", folder=folder).returncode == 0
    assert (answers(folder), server.sent()) == (ALL, ONCE)


def test_a_case_that_was_removed_meanwhile_is_named_when_its_batch_is_collected(
    folder: Path, server: BatchServer
) -> None:
    server.lag = 3
    write_suite(folder, PROMPTS)
    assert ask("openai", "--no-wait", folder=folder).returncode == 0
    text = (folder / "a.eval.yaml").read_text()
    suite = json.loads(text)
    del suite["evalcases"][1]
    (folder / "a.eval.yaml").write_text(json.dumps(suite))
    done = ask("openai", "--resume", folder=folder)
    assert "c1" in answers(folder)
    line = "out.jsonl still has 1 result of cases that are no longer in the suites: c1\n"
    assert done.stderr.count(line) == 1
    assert ask("openai", "--resume", folder=folder).stderr.count("no longer") == 1


@each_vendor
def test_a_refusal_in_a_batch_teaches_once(vendor: str, folder: Path, server: BatchServer) -> None:
    server.wrong = "Unsupported value: 'temperature' does not support 0 with this model."
    server.fates = dict.fromkeys(PROMPTS, "errored")
    ask(vendor, folder=folder)
    results = by_id(folder / "out.jsonl").values()
    messages = [result["error"]["message"] for result in results if result["error"]]
    assert len(messages) > 1
    assert ["set temperature: omit in the target" in message for message in messages].count(
        True
    ) == 1
