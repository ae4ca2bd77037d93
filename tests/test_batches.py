"""``run --batch``: every case is sent once and answered once, whatever happens in between."""

import asyncio
import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import commands
from batch_server import BatchServer, prompt_of, text_for, write_targets
from killing import Forks
from loopback import KEY, TEXT
from multiturn.providers.batches import APIS
from running import by_id, records, run, wait_for, write_suite

VENDORS = ("openai", "azure", "anthropic", "gemini")
OUTPUT = ("--output", "out.jsonl")
BATCH = ("--batch", *OUTPUT, "--poll", "0.001")
PROMPTS = ("one", "two", "three", "one")  # the last is a duplicate of the first

each_vendor = pytest.mark.parametrize("vendor", VENDORS)


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with BatchServer() as server:
        yield server


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks() as forks:
        yield forks


@pytest.fixture
def folder(tmp_path: Path, server: BatchServer) -> Path:
    write_targets(tmp_path, server)
    write_suite(tmp_path, PROMPTS)
    return tmp_path


def ask(vendor: str, *more: str, folder: Path) -> Any:
    """Run a suite as a batch."""
    done = run("a.eval.yaml", "--target", vendor, *BATCH, *more, folder=folder)
    assert KEY not in done.stdout + done.stderr
    for path in folder.glob("out.jsonl*"):
        assert KEY.encode() not in path.read_bytes()
    return done


def batch(command: str, folder: Path) -> Any:
    env = {"NO_PROXY": "127.0.0.1"}
    return commands.run("batch", command, "out.jsonl", folder=folder, env=env)


def answers(folder: Path) -> dict[str, str | None]:
    return {id_: line["response"] for id_, line in by_id(folder / "out.jsonl").items()}


def asked_one_by_one(server: BatchServer) -> int:
    return server.operations.count("nothing")


ALL = {f"c{number}": text_for(prompt) for number, prompt in enumerate(PROMPTS)}
ONCE = Counter(set(PROMPTS))


# What a batch is, and becomes


@each_vendor
def test_every_case_is_answered_and_a_duplicate_is_sent_once(
    vendor: str, folder: Path, server: BatchServer
) -> None:
    server.lag = 2
    done = ask(vendor, folder=folder)
    assert (done.returncode, answers(folder), server.sent()) == (0, ALL, ONCE)
    number = len(server.requests)
    done = run("a.eval.yaml", "--target", vendor, *OUTPUT, "--resume", folder=folder)
    assert (done.returncode, len(server.requests), answers(folder)) == (0, number, ALL)
    line = by_id(folder / "out.jsonl")["c1"]
    assert (line["finish_reason"], line["error"], line["target"], line["suite"]) == (
        {"anthropic": "end_turn", "gemini": "STOP"}.get(vendor, "stop"),
        *(None, vendor, "a.eval.yaml"),
    )
    assert line["usage"] == {"input_tokens": 11, "output_tokens": 7}
    assert line["raw_request"]["question"] == "two"


FATES = ("errored", "expired", "canceled", "missing", "garbled")


@each_vendor
def test_what_gets_no_answer_is_an_error_and_is_asked_again_without_a_batch(
    vendor: str, folder: Path, server: BatchServer
) -> None:
    server.fates = {fate: fate for fate in FATES}
    write_suite(folder, [*PROMPTS, *FATES])
    bad = {f"c{number}": None for number, _ in enumerate(FATES, len(PROMPTS))}
    done = ask(vendor, folder=folder)
    assert (done.returncode, answers(folder)) == (1, {**ALL, **bad})
    results = by_id(folder / "out.jsonl")
    messages = [results[id_]["error"]["message"] for id_ in bad]
    assert "it is wrong (***)" in messages[0]
    assert all(message and "\n" not in message for message in messages)
    assert all(message in done.stderr for message in messages)
    done = run("a.eval.yaml", "--target", vendor, *OUTPUT, "--resume", folder=folder)
    assert (done.returncode, answers(folder)) == (0, {**ALL, **dict.fromkeys(bad, TEXT)})
    assert asked_one_by_one(server) == len(bad)


@each_vendor
@pytest.mark.parametrize("end", ["failed", "expired", "expired without files", "cancelled"])
def test_a_batch_that_ends_otherwise_loses_nothing(
    vendor: str, end: str, folder: Path, server: BatchServer
) -> None:
    if (vendor, end) == ("anthropic", "failed"):
        pytest.skip("Anthropic's batches only end")
    server.end, server.lag = end, 1
    done = ask(vendor, folder=folder)
    assert done.returncode == 1
    kept = {id_: text for id_, text in answers(folder).items() if text is not None}
    is_partial = end in ("expired", "cancelled") and (vendor, end) != ("gemini", "expired")
    assert kept == ({"c0": text_for("one"), "c3": text_for("one")} if is_partial else {})
    assert sorted(answers(folder)) == sorted(ALL)
    server.end = "completed"
    assert ask(vendor, "--resume", folder=folder).returncode == 0
    assert answers(folder) == ALL
    assert server.sent() == {"one": 1 if is_partial else 2, "two": 2, "three": 2}


@each_vendor
def test_an_unknown_state_is_named_and_waited_for(
    vendor: str, folder: Path, server: BatchServer
) -> None:
    server.waiting, server.lag = "moonwalking", 2
    done = ask(vendor, folder=folder)
    assert (done.returncode, answers(folder), server.sent()) == (0, ALL, ONCE)
    assert "moonwalking" in done.stderr.lower()


# Two commands instead of one


@each_vendor
def test_what_is_not_waited_for_can_be_looked_at_and_collected(
    vendor: str, folder: Path, server: BatchServer
) -> None:
    server.lag = 3
    done = ask(vendor, "--no-wait", folder=folder)
    assert (done.returncode, server.sent(), records(folder / "out.jsonl")) == (0, ONCE, [])
    one_by_one = ("a.eval.yaml", "--target", vendor, *OUTPUT, "--resume")
    done = run(*one_by_one, folder=folder)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "--batch" in done.stderr
    done = batch("status", folder)
    assert done.returncode == 0
    assert next(iter(server.batches)) in done.stdout
    done = ask(vendor, "--resume", folder=folder)
    assert (done.returncode, answers(folder), server.sent()) == (0, ALL, ONCE)
    assert run(*one_by_one, folder=folder).returncode == 0
    assert asked_one_by_one(server) == 0


@each_vendor
def test_cancelling_keeps_partial_results(vendor: str, folder: Path, server: BatchServer) -> None:
    server.lag = 1_000_000
    assert ask(vendor, "--no-wait", folder=folder).returncode == 0
    done = batch("cancel", folder)
    assert (done.returncode, server.operations.count("cancel")) == (0, 1)
    server.lag = 0
    assert ask(vendor, "--resume", folder=folder).returncode == 1
    assert answers(folder) == {
        **dict.fromkeys(ALL),
        **dict.fromkeys(("c0", "c3"), text_for("one")),
    }
    assert server.sent() == ONCE
    assert ask(vendor, "--resume", folder=folder).returncode == 0
    assert answers(folder) == ALL


@each_vendor
def test_a_dry_run_says_what_would_go_where_and_sends_nothing(
    vendor: str, folder: Path, server: BatchServer
) -> None:
    done = ask(vendor, "--dry-run", folder=folder)
    assert done.returncode == 0
    assert "3 requests" in done.stdout + done.stderr
    assert "1 part" in done.stdout + done.stderr
    assert " bytes" in done.stdout + done.stderr
    assert server.url in done.stdout + done.stderr
    assert (server.requests, list(folder.glob("out.jsonl*"))) == ([], [])


# The network and the vendor fail


@each_vendor
@pytest.mark.parametrize(
    ("operation", "status", "acted", "max_retries"),
    [
        pytest.param("upload", None, True, 0, id="an upload is cut after"),
        pytest.param("upload", 500, False, 2, id="an upload fails"),
        pytest.param("create", None, False, 0, id="a creation is cut before"),
        pytest.param("create", None, True, 0, id="a creation is cut after"),
        pytest.param("create", None, True, 2, id="a creation is cut after, and retries are on"),
        pytest.param("create", 500, False, 0, id="a creation fails before"),
        pytest.param("create", 500, True, 2, id="a creation fails after, and retries are on"),
        pytest.param("create", 429, False, 0, id="a creation meets a limit"),
        pytest.param("create", 401, False, 0, id="a creation has the wrong key"),
        pytest.param("look", None, False, 0, id="a look is cut"),
        pytest.param("look", 429, False, 0, id="a look meets a limit"),
        pytest.param("results", None, False, 0, id="results are cut before"),
        pytest.param("results", 500, False, 0, id="results fail"),
        pytest.param("results", 200, True, 0, id="results are cut in the middle"),
    ],
)
def test_a_step_that_fails_sends_nothing_twice(
    vendor: str,
    operation: str,
    status: int | None,
    acted: bool,
    max_retries: int,
    folder: Path,
    server: BatchServer,
) -> None:
    write_targets(folder, server, max_retries=max_retries)
    server.trouble(operation, status, acted=acted)
    for number in range(4):
        done = ask(vendor, *(("--resume",) if number else ()), folder=folder)
        assert "Traceback" not in done.stderr
        if done.returncode == 0:
            break
        assert done.returncode == 2, done.stderr
    assert (done.returncode, answers(folder), server.sent()) == (0, ALL, ONCE)


@pytest.mark.parametrize("skew", [-180, 0, 180])
def test_a_lost_batch_is_found_among_those_of_others(
    skew: int, folder: Path, server: BatchServer
) -> None:
    """The others are as large, and newer."""

    def watch(operation: str, acted: bool) -> bool:
        if (operation, acted) == ("create", True):
            for _ in range(5):
                server.stranger("anthropic", 3, end="completed")
        return False

    server.skew = timedelta(seconds=skew)
    server.page = 2
    server.watch = watch
    server.trouble("create", acted=True)
    write_targets(folder, server, max_retries=0)
    for _ in range(2):
        assert ask("anthropic", "--resume", folder=folder).returncode == 0
        assert (answers(folder), server.sent() - Counter({"theirs": 15})) == (ALL, ONCE)


@each_vendor
def test_a_lost_batch_that_is_under_way_is_waited_for(
    vendor: str, folder: Path, server: BatchServer
) -> None:
    server.trouble("create", acted=True)
    server.lag = 4
    write_targets(folder, server, max_retries=0)
    ask(vendor, "--no-wait", folder=folder)
    done = ask(vendor, "--resume", folder=folder)
    assert (done.returncode, answers(folder), server.sent()) == (0, ALL, ONCE)


@pytest.mark.usefixtures("two_parts")
@each_vendor
def test_a_batch_that_is_deleted_at_the_vendor_keeps_no_other_from_being_collected(
    vendor: str, folder: Path, server: BatchServer
) -> None:
    server.lag = 2
    assert ask(vendor, "--no-wait", folder=folder).returncode == 0
    gone = server.batches.pop(next(iter(server.batches)))
    done = ask(vendor, "--resume", folder=folder)
    assert (done.returncode, answers(folder)) == (2, {"c2": text_for("three")})
    server.batches[gone.id] = gone
    assert ask(vendor, "--resume", folder=folder).returncode == 0
    assert (answers(folder), server.sent()) == (ALL, ONCE)


@each_vendor
@pytest.mark.parametrize("operation", ["upload", "create"])
def test_a_batch_that_the_vendor_refuses_can_be_given_up(
    vendor: str, operation: str, folder: Path, server: BatchServer
) -> None:
    server.trouble("create" if vendor == "anthropic" else operation, 400)
    done = ask(vendor, folder=folder)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "HTTP 400" in done.stderr.splitlines()[-1]
    write_targets(folder, server, model="another")
    assert ask(vendor, "--resume", folder=folder).returncode == 0
    assert (answers(folder), server.sent()) == (ALL, ONCE)


# kill -9


def is_killed(
    *arguments: str,
    folder: Path,
    server: BatchServer,
    forks: Forks,
    request: int | None = None,
    **limits: int,
) -> bool:
    """Run a batch, and kill it at a request, before or after the server acts, or at a write.

    Returns whether it came to that.
    """
    moments = 0
    started = threading.Event()
    ended = threading.Event()

    def watch(operation: str, acted: bool) -> bool:
        nonlocal moments
        moments += 1
        if moments != request:
            return False
        started.wait()
        os.kill(process.pid, signal.SIGKILL)
        ended.wait()
        return True

    server.watch = watch
    command = ("run", "a.eval.yaml", *BATCH, "--target", *arguments)
    process = forks.start(*command, folder=folder, **limits)
    started.set()
    code = process.wait()
    ended.set()
    server.watch = lambda operation, acted: False
    assert code in (0, -9), (folder / "printed").read_text()
    return code == -9


@pytest.fixture
def two_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process do what the killed ones do, too."""
    for api in APIS.values():
        monkeypatch.setattr(api, "most_requests", 2)


def start_anew(folder: Path, server: BatchServer) -> None:
    for path in folder.glob("out.jsonl*"):
        path.unlink()
    server.batches.clear()


@each_vendor
def test_killed_at_any_request_it_goes_on(
    vendor: str, folder: Path, server: BatchServer, forks: Forks
) -> None:
    setting: Any = {"folder": folder, "server": server, "forks": forks}
    for number in count(1):
        start_anew(folder, server)
        killed = is_killed(vendor, request=number, **setting)
        if number % 3 == 0:  # kill the second run, too
            is_killed(vendor, "--resume", request=number // 3, **setting)
        done = ask(vendor, "--resume", folder=folder)
        assert (number, done.returncode, done.stdout) == (number, 0, "")
        assert (number, answers(folder), server.sent()) == (number, ALL, ONCE)
        if not killed:
            break
    assert number > 7


@pytest.mark.usefixtures("two_parts")
@pytest.mark.parametrize(("vendor", "first"), list(zip(VENDORS, (1, 4, 6, 9), strict=True)))
def test_killed_at_any_write_it_goes_on(
    vendor: str, first: int, folder: Path, server: BatchServer, forks: Forks
) -> None:
    setting: Any = {"folder": folder, "server": server, "forks": forks, "most_requests": 2}
    for step in count(first, 10):
        start_anew(folder, server)
        killed = is_killed(vendor, kill_at=step, **setting)
        done = ask(vendor, "--resume", folder=folder)
        assert (step, done.returncode, done.stdout) == (step, 0, "")
        assert (step, answers(folder), server.sent()) == (step, ALL, ONCE)
        if not killed:
            break
    assert step > 12


# Other accidents


@pytest.mark.parametrize("largest", [100, 400, 700, 1000, 1500, 2000])
def test_a_full_disk_is_one_line_and_what_is_done_is_gone_on_with(
    largest: int, folder: Path, server: BatchServer, forks: Forks
) -> None:
    command = ("run", "a.eval.yaml", "--target", "openai", *BATCH)
    process = forks.start(*command, folder=folder, largest=largest)
    code, said = process.wait(), (folder / "printed").read_text()
    assert (code, "Traceback" in said) == (2, False), said
    assert ask("openai", "--resume", folder=folder).returncode == 0
    assert (answers(folder), server.sent()) == (ALL, ONCE)


def test_only_one_command_at_a_time_uses_an_output(
    folder: Path, server: BatchServer, forks: Forks
) -> None:
    server.lag = 1_000_000
    process = forks.start("run", "a.eval.yaml", "--target", "openai", *BATCH, folder=folder)
    wait_for(lambda: "look" in server.operations)
    done = ask("openai", "--resume", folder=folder)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert batch("status", folder).returncode == 0
    os.kill(process.pid, signal.SIGINT)
    assert (process.wait(), "--resume" in (folder / "printed").read_text()) == (130, True)
    server.lag = 0
    assert ask("openai", "--resume", folder=folder).returncode == 0
    assert (answers(folder), server.sent()) == (ALL, ONCE)


@each_vendor
def test_a_suite_that_has_changed_meanwhile_sends_only_what_is_new(
    vendor: str, folder: Path, server: BatchServer
) -> None:
    server.lag = 1
    assert ask(vendor, "--no-wait", folder=folder).returncode == 0
    next(iter(server.batches.values())).looks = -5  # it ends after the one that is yet to come
    write_suite(folder, ["one", "TWO", "three", "one"])
    for _ in range(2):
        assert ask(vendor, "--resume", folder=folder).returncode == 0
        assert (answers(folder), server.sent()) == (
            {**ALL, "c1": text_for("TWO")},
            {**ONCE, "TWO": 1},
        )


def test_another_target_or_model_does_not_lose_what_is_under_way(
    folder: Path, server: BatchServer
) -> None:
    server.lag = 1
    assert ask("openai", "--no-wait", folder=folder).returncode == 0
    assert ask("anthropic", "--resume", folder=folder).returncode == 2
    write_targets(folder, server, model="another")
    assert ask("openai", "--resume", folder=folder).returncode in (0, 2)
    write_targets(folder, server)
    server.lag = 0
    assert ask("openai", "--resume", folder=folder).returncode == 0
    models = Counter(
        (prompt_of(body), body["model"])
        for batch in server.batches.values()
        for body in batch.requests.values()
    )
    assert set(models.values()) == {1}
    lines = records(folder / "out.jsonl")
    assert {line["id"] for line in lines if line["error"] is None} == set(ALL)


def test_without_resume_what_is_under_way_is_left_alone(folder: Path, server: BatchServer) -> None:
    server.lag = 1
    assert ask("openai", "--no-wait", folder=folder).returncode == 0
    (folder / "out.jsonl").unlink(missing_ok=True)
    done = ask("openai", folder=folder)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert run("a.eval.yaml", "--target", "openai", *OUTPUT, folder=folder).returncode == 2
    assert ask("openai", "--resume", folder=folder).returncode == 0
    assert (answers(folder), server.sent()) == (ALL, ONCE)


@each_vendor
def test_a_state_file_whose_last_line_is_torn_sends_nothing_twice(
    vendor: str, folder: Path, server: BatchServer
) -> None:
    server.lag = 2
    assert ask(vendor, "--no-wait", folder=folder).returncode == 0
    state = folder / "out.jsonl.batch"
    text = state.read_bytes()
    state.write_bytes(text[:-20])
    assert ask(vendor, "--resume", folder=folder).returncode == 0
    assert (answers(folder), server.sent()) == (ALL, ONCE)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"\xff\xfe", id="bytes"),
        pytest.param(b"[]", id="a list without an end of line"),
        pytest.param(b"{}", id="a mapping without an end of line"),
        pytest.param(b"notes\n", id="notes"),
        pytest.param(b"[" * 100_000 + b"\n", id="deep nesting"),
    ],
)
def test_a_state_file_that_is_none_is_refused(
    text: bytes, folder: Path, server: BatchServer
) -> None:
    (folder / "out.jsonl.batch").write_bytes(text)
    for command in ((), ("--resume",)):
        done = ask("openai", *command, folder=folder)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    for name in ("status", "cancel"):
        done = batch(name, folder)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


def test_a_look_from_outside_leaves_a_batch_that_is_being_filled(
    folder: Path, server: BatchServer, forks: Forks
) -> None:
    """Parts take a while to fill; until then nothing is under way yet."""
    os.mkfifo(folder / "slow.eval.yaml")
    command = ("run", "a.eval.yaml", "slow.eval.yaml", "--target", "openai", *BATCH)
    process = forks.start(*command, folder=folder)
    with (folder / "slow.eval.yaml").open("w") as suite:  # opens once the other one is read
        before = (folder / "out.jsonl.batch").stat()
        batch("status", folder)
        batch("cancel", folder)
        ask("openai", "--resume", "--dry-run", folder=folder)
        ask("openai", "--resume", folder=folder)
        assert os.path.samestat(before, (folder / "out.jsonl.batch").stat())
        suite.write("input_messages: [{role: user, content: one}]")
    assert (process.wait(), server.sent()) == (0, ONCE)


def test_without_a_batch_there_is_nothing_to_look_at(folder: Path) -> None:
    for name in ("status", "cancel"):
        done = batch(name, folder)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
        assert "out.jsonl" in done.stderr


def test_a_case_that_cannot_be_converted_stops_no_other(folder: Path, server: BatchServer) -> None:
    suite = json.loads((folder / "a.eval.yaml").read_text())
    suite["evalcases"] += [
        {"id": "none", "input_messages": [{"role": "system", "content": "Be brief"}]},
        {
            "id": "file",
            "input_messages": [{"role": "user", "content": [{"type": "file", "value": "no"}]}],
        },
    ]
    (folder / "a.eval.yaml").write_text(json.dumps(suite))
    assert ask("openai", folder=folder).returncode == 1
    assert (answers(folder), server.sent()) == ({**ALL, "none": None, "file": None}, ONCE)


def test_a_suite_without_cases_to_send_makes_no_batch(folder: Path, server: BatchServer) -> None:
    (folder / "a.eval.yaml").write_text("input_messages: [{role: system, content: Be brief}]")
    assert ask("openai", folder=folder).returncode == 1
    assert server.requests == []
    write_suite(folder, [])
    assert ask("openai", "--resume", folder=folder).returncode in (0, 1, 2)
    assert server.requests == []


# The server, asked by each SDK as it is

CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}


async def by_openai(client: Any, url: str, folder: Path) -> tuple[list[Any], str]:
    (folder / "in").write_text(
        json.dumps({"custom_id": "c", "method": "POST", "url": url, "body": CHAT}) + "\n"
    )
    file = await client.files.create(file=folder / "in", purpose="batch")
    made = await client.batches.create(
        input_file_id=file.id, endpoint=url, completion_window="24h", metadata={"token": "x"}
    )
    states = [made.status, *[(await client.batches.retrieve(made.id)).status for _ in "12"]]
    listed = [batch async for batch in client.batches.list(limit=1)]
    assert [(batch.id, batch.metadata) for batch in listed] == [(made.id, {"token": "x"})]
    text = (await client.files.content(listed[0].output_file_id)).content
    answer = json.loads(text)
    assert answer["custom_id"] == "c"
    return states, answer["response"]["body"]["choices"][0]["message"]["content"]


async def ask_openai(server: BatchServer, folder: Path) -> tuple[list[Any], str]:
    import openai

    async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{server.url}/v1") as client:
        return await by_openai(client, "/v1/chat/completions", folder)


async def ask_azure(server: BatchServer, folder: Path) -> tuple[list[Any], str]:
    import openai

    async with openai.AsyncAzureOpenAI(
        api_key=KEY, azure_endpoint=server.url, azure_deployment="m", api_version="1"
    ) as client:
        return await by_openai(client, "/chat/completions", folder)


async def ask_anthropic(server: BatchServer, folder: Path) -> tuple[list[Any], str]:
    import anthropic

    async with anthropic.AsyncAnthropic(api_key=KEY, base_url=server.url) as client:
        batches: Any = client.messages.batches
        made = await batches.create(requests=[{"custom_id": "c", "params": CHAT}])
        looks = [await batches.retrieve(made.id) for _ in "12"]
        listed = [batch async for batch in batches.list(limit=1)]
        assert [(batch.id, batch.request_counts.succeeded) for batch in listed] == [(made.id, 1)]
        (line,) = [line async for line in await batches.results(made.id)]
        assert line.custom_id == "c"
        states = [batch.processing_status for batch in (made, *looks)]
        return states, line.result.message.content[0].text


async def ask_gemini(server: BatchServer, folder: Path) -> tuple[list[Any], str]:
    import httpx2
    from google import genai

    (folder / "in").write_text(
        json.dumps({"key": "c", "request": {"contents": [{"parts": [{"text": "Hello"}]}]}}) + "\n"
    )
    http = httpx2.AsyncClient()
    options: Any = {"base_url": server.url, "api_version": "v1beta", "httpx_async_client": http}
    client = genai.Client(vertexai=False, api_key=KEY, http_options=options).aio
    kind = {"mime_type": "application/jsonl"}
    file: Any = await client.files.upload(file=folder / "in", config=kind)  # type: ignore[arg-type]
    made: Any = await client.batches.create(model="m", src=file.name, config={"display_name": "x"})
    states = [made.state, *[(await client.batches.get(name=made.name)).state for _ in "12"]]
    listed: Any = [batch async for batch in await client.batches.list()]
    assert [(batch.name, batch.display_name) for batch in listed] == [(made.name, "x")]
    answer = json.loads(await client.files.download(file=listed[0].dest.file_name))
    assert answer["key"] == "c"
    await http.aclose()
    states = [state.value.removeprefix("JOB_STATE_") for state in states]
    return states, answer["response"]["candidates"][0]["content"]["parts"][0]["text"]


@pytest.mark.parametrize(
    ("by_sdk", "states"),
    [
        pytest.param(ask_openai, ["in_progress", "in_progress", "completed"], id="OpenAI"),
        pytest.param(ask_azure, ["in_progress", "in_progress", "completed"], id="Azure OpenAI"),
        pytest.param(ask_anthropic, ["in_progress", "in_progress", "ended"], id="Anthropic"),
        pytest.param(ask_gemini, ["RUNNING", "RUNNING", "SUCCEEDED"], id="Gemini"),
    ],
)
def test_each_sdk_understands_the_server(
    by_sdk: Callable[..., Any],
    states: list[str],
    server: BatchServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server.lag = 1
    assert asyncio.run(by_sdk(server, tmp_path)) == (states, text_for("Hello"))
    assert server.sent() == {"Hello": 1}
