"""What ``run --batch`` refuses, shows and keeps; tests/test_batches.py has what goes wrong."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import commands
from batch_server import Batch, BatchServer, text_for
from loopback import KEY, Server
from multiturn.providers.batches import APIS, batches_of
from running import by_id, run, start, wait_for, write_suite
from vendors import anthropic, azure, gemini, openai

ADDRESS = {"openai": "base_url", "azure": "endpoint", "anthropic": "base_url", "gemini": "base_url"}
BATCH = ("a.eval.yaml", "--target", "t", "--batch", "--output", "r.jsonl", "--poll", "0.01")
each_vendor = pytest.mark.parametrize("vendor", ADDRESS)


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with BatchServer() as server:
        yield server


def write_target(folder: Path, server: Server, vendor: str, name: str = "t") -> None:
    url = f"{server.url}/v1" if vendor == "openai" else server.url
    target = {"name": name, "provider": vendor, "model": "m", "api_key": KEY, ADDRESS[vendor]: url}
    (folder / "targets.yaml").write_text(json.dumps([target]))


@pytest.mark.parametrize(
    "provider", ["echo", "codex", "vscode", "vscode-insiders", "shout:Shout"], ids=str
)
def test_what_has_no_batches_is_refused_before_a_suite_is_read(
    tmp_path: Path, provider: str
) -> None:
    (tmp_path / "a.eval.yaml").write_text("this is: [no suite")
    (tmp_path / "targets.yaml").write_text(json.dumps([{"name": "t", "provider": provider}]))
    shout = "class Shout:\n    name = 't'\n    async def invoke(self, request): ...\n"
    (tmp_path / "shout.py").write_text(shout)
    done = run(*BATCH, folder=tmp_path)
    assert done.stderr == (
        "Error: the target 't' has no batches; leave out --batch, or name a target"
        " of one of these providers: openai, azure, anthropic, gemini\n"
    )
    assert (done.returncode, (tmp_path / "r.jsonl").exists()) == (2, False)


def test_a_batch_needs_a_file_for_its_results(tmp_path: Path) -> None:
    write_suite(tmp_path, ["Hello"])
    done = run("a.eval.yaml", "--batch", folder=tmp_path)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        2,
        "Error: --batch writes results into a file; name one with --output",
    )


@pytest.mark.parametrize(
    ("limits", "sizes"),
    [
        pytest.param((50, 10**6), [5], id="all fit into one part"),
        pytest.param((2, 10**6), [2, 2, 1], id="a part is full of requests"),
        pytest.param((50, 600), [2, 2, 1], id="a part is full of bytes"),
        pytest.param((50, 10), [1, 1, 1, 1, 1], id="each request is larger than a part"),
    ],
)
@each_vendor
def test_a_run_is_sent_in_parts(
    tmp_path: Path,
    server: BatchServer,
    monkeypatch: pytest.MonkeyPatch,
    vendor: str,
    limits: tuple[int, int],
    sizes: list[int],
) -> None:
    """A request with these prompts takes 220 to 260 bytes, whatever the vendor."""
    monkeypatch.setattr(APIS[vendor], "most_requests", limits[0])
    monkeypatch.setattr(APIS[vendor], "most_bytes", limits[1])
    write_target(tmp_path, server, vendor)
    prompts = ["one", "two", "one", "six", "ten", "one", "all"]
    write_suite(tmp_path, prompts)
    dry = run(*BATCH, "--dry-run", folder=tmp_path)
    parts = "1 part" if len(sizes) == 1 else f"{len(sizes)} parts"
    assert dry.stdout.startswith(f"5 requests in {parts}, ")
    assert server.operations == []
    assert run(*BATCH, folder=tmp_path).returncode == 0
    assert [len(batch.requests) for batch in server.batches.values()] == sizes
    answers = {id_: result["response"] for id_, result in by_id(tmp_path / "r.jsonl").items()}
    assert answers == {f"c{number}": text_for(prompt) for number, prompt in enumerate(prompts)}


def test_parts_keep_to_the_limits_of_the_vendors() -> None:
    """From the vendors' documentation; Anthropic's parts are smaller than it takes."""
    limits = {
        connect: (batches_of(connect()).most_requests, batches_of(connect()).most_bytes)
        for connect in (openai, azure, anthropic, gemini)
    }
    assert limits == {
        openai: (50_000, 200_000_000),
        azure: (100_000, 200_000_000),
        anthropic: (100_000, 8_000_000),
        gemini: (1_000_000, 2_000_000_000),
    }


@each_vendor
def test_the_body_goes_out_byte_for_byte_and_no_key_is_kept(
    tmp_path: Path, server: BatchServer, vendor: str
) -> None:
    write_target(tmp_path, server, vendor)
    write_suite(tmp_path, ['a\u2028"\\ü'])
    server.lag = 1
    assert run(*BATCH, "--no-wait", "--record-wire", folder=tmp_path).returncode == 0
    state = (tmp_path / "r.jsonl.batch").read_bytes()
    assert KEY.encode() not in state
    assert run(*BATCH, "--resume", folder=tmp_path).returncode == 0
    result = by_id(tmp_path / "r.jsonl")["c0"]
    sent = [request.body for request in server.requests]
    assert sum(result["wire"].encode() in body for body in sent) == 1
    assert sum(result["digest"].encode() in body for body in sent) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("a.eval.yaml", "r.jsonl", "targets.yaml")
    ]


class Elsewhere(BatchServer):
    """Names another server in its answers."""

    def __init__(self, other: str) -> None:
        super().__init__()
        self.other = other

    def _anthropic_state(self, batch: Batch) -> Any:
        state = super()._anthropic_state(batch)
        return {**state, "results_url": state["results_url"] and f"{self.other}/results"}

    def take(self, request: Any) -> Any:
        step = super().take(request)
        url = step.headers.get("x-goog-upload-url", "")
        moved = url.replace(self.url, self.other)
        return step._replace(
            headers={**step.headers, "x-goog-upload-url": moved} if url else step.headers
        )


@pytest.mark.parametrize("vendor", ["anthropic", "gemini"])
def test_an_address_in_an_answer_gets_nothing(tmp_path: Path, vendor: str) -> None:
    with Server() as other, Elsewhere(other.url) as server:
        write_target(tmp_path, server, vendor)
        write_suite(tmp_path, ["Hello"])
        assert run(*BATCH, folder=tmp_path).returncode == 0
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


def test_azure_gets_the_time_that_it_takes_to_process_a_file(tmp_path: Path) -> None:
    with Slow() as server:
        write_target(tmp_path, server, "azure")
        write_suite(tmp_path, ["Hello"])
        assert run(*BATCH, "--no-wait", folder=tmp_path).returncode == 0


class Late(BatchServer):
    """Lists a batch that it has just created only when asked again."""

    misses = 0

    def _listed(self, vendor: str, after: str | None, limit: int) -> tuple[list[Batch], bool]:
        if self.batches and not self.misses:
            self.misses = 1
            return [], False
        return super()._listed(vendor, after, limit)


@each_vendor
def test_a_lost_batch_that_is_listed_late_is_found(tmp_path: Path, vendor: str) -> None:
    with Late() as server:
        write_target(tmp_path, server, vendor)
        write_suite(tmp_path, ["Hello"])
        server.trouble("create", acted=True)
        done = run(*BATCH, folder=tmp_path)
        assert (done.returncode, server.misses, server.sent()) == (0, 1, {"Hello": 1})


@each_vendor
def test_a_vendor_that_is_out_of_order_is_asked_again(
    tmp_path: Path, server: BatchServer, vendor: str
) -> None:
    write_target(tmp_path, server, vendor)
    targets = json.loads((tmp_path / "targets.yaml").read_text())
    (tmp_path / "targets.yaml").write_text(json.dumps([{**targets[0], "max_retries": 0}]))
    write_suite(tmp_path, ["Hello"])
    for operation in ("look", "results"):
        server.trouble(operation, 503, times=2)
    done = run(*BATCH, folder=tmp_path)
    assert (done.returncode, server.sent()) == (0, {"Hello": 1})
    assert done.stderr.count("asking again in 0.01 s") == 4


@each_vendor
def test_a_key_that_is_refused_ends_the_run_and_keeps_what_was_sent(
    tmp_path: Path, server: BatchServer, vendor: str
) -> None:
    write_target(tmp_path, server, vendor)
    write_suite(tmp_path, ["Hello"])
    server.lag = 1
    run(*BATCH, "--no-wait", folder=tmp_path)
    server.trouble("look", 401)
    done = run(*BATCH, "--resume", folder=tmp_path)
    assert (done.returncode, "HTTP 401" in done.stderr) == (2, True)
    assert done.stderr.endswith(
        "; --resume --batch goes on, multiturn batch cancel r.jsonl ends it;"
        " removing r.jsonl.batch forgets what was submitted\n"
    )
    assert run(*BATCH, "--resume", folder=tmp_path).returncode == 0
    assert server.sent() == {"Hello": 1}


def test_only_the_run_that_goes_on_is_let_in(tmp_path: Path, server: BatchServer) -> None:
    write_target(tmp_path, server, "openai")
    write_suite(tmp_path, ["Hello"])
    server.lag = 1
    run(*BATCH, "--no-wait", folder=tmp_path)
    for others in ((*BATCH[:3], "--output", "r.jsonl", "--resume"), BATCH, (*BATCH, "--dry-run")):
        done = run(*others, folder=tmp_path)
        assert done.stderr == (
            "Error: a batch for 'r.jsonl' is under way; add --resume --batch to get its results,"
            " or end it with: multiturn batch cancel r.jsonl\n"
        )
    write_target(tmp_path, server, "openai", name="other")
    done = run(*BATCH, "--resume", "--target", "other", folder=tmp_path)
    assert done.stderr == (
        "Error: r.jsonl.batch: a batch of the target 't', or of other settings, is under way;"
        " finish it with that target\n"
    )
    assert server.sent() == {"Hello": 1}


def test_cases_that_are_new_are_sent_too_when_a_batch_goes_on(
    tmp_path: Path, server: BatchServer
) -> None:
    write_target(tmp_path, server, "openai")
    write_suite(tmp_path, ["one"])
    server.lag = 1
    run(*BATCH, "--no-wait", folder=tmp_path)
    write_suite(tmp_path, ["one", "one", "two"])
    assert run(*BATCH, "--resume", folder=tmp_path).returncode == 0
    assert server.sent() == {"one": 1, "two": 1}
    assert set(by_id(tmp_path / "r.jsonl")) == {"c0", "c1", "c2"}


def test_ctrl_c_leaves_the_batch_and_says_how_to_go_on(tmp_path: Path, server: BatchServer) -> None:
    write_target(tmp_path, server, "openai")
    write_suite(tmp_path, ["Hello"])
    server.lag = 1
    process = start(*BATCH, "--poll", "60", folder=tmp_path)
    wait_for(lambda: "look" in server.operations)
    for line in process.stderr or ():
        if "in_progress" in line:
            process.send_signal(signal.SIGINT)
            break
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (
        130,
        "interrupted; what was submitted goes on at the provider: --resume --batch goes on,"
        " multiturn batch cancel r.jsonl ends it\n",
    )
    assert run(*BATCH, "--resume", folder=tmp_path).returncode == 0
    assert server.sent() == {"Hello": 1}


@each_vendor
def test_a_canceled_batch_keeps_its_answers_and_sends_no_more(
    tmp_path: Path, server: BatchServer, vendor: str
) -> None:
    write_target(tmp_path, server, vendor)
    write_suite(tmp_path, ["one", "two"])
    server.lag = 3
    run(*BATCH, "--no-wait", folder=tmp_path)
    done = commands.run("batch", "status", "r.jsonl", folder=tmp_path)
    assert (done.returncode, done.stdout.endswith("2 requests\n")) == (0, True)
    assert commands.run("batch", "cancel", "r.jsonl", folder=tmp_path).returncode == 0
    write_suite(tmp_path, ["one", "two", "three"])
    assert run(*BATCH, "--resume", folder=tmp_path).returncode == 1
    results = by_id(tmp_path / "r.jsonl")
    assert (results["c0"]["response"], results["c1"]["response"]) == (text_for("one"), None)
    assert results["c1"]["error"]["type"] == "batch"
    assert (set(results), server.sent()) == ({"c0", "c1"}, {"one": 1, "two": 1})
    for command in ("status", "cancel"):
        done = commands.run("batch", command, "r.jsonl", folder=tmp_path)
        assert done.stderr == "Error: no batch for 'r.jsonl' is under way\n"
