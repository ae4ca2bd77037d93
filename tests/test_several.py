"""``run`` with several targets, or ``--repeat``: each case, target and number has one line."""

import json
import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from batch_server import BatchServer, text_for
from batch_server import write_targets as write_batch_targets
from loopback import KEY, Server
from multiturn import MultiturnError, dry_run, load_target
from running import records, run, start, write_suite
from vendors import openai

KILLS = int(os.environ.get("RUN_KILLS", "3"))
CASES = int(os.environ.get("RUN_CASES", "30"))


@pytest.fixture
def other() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path, server: Server, other: Server) -> Path:
    (tmp_path / ".git").mkdir()
    write_targets(tmp_path, a=server.url, b=other.url)
    write_suite(tmp_path, ["one", "two"])
    return tmp_path


def write_targets(folder: Path, **urls: str) -> None:
    """Write a targets file with a target for each address."""
    common = {"provider": "azure", "api_key": KEY, "model": "gpt-4o"}
    targets = [{"name": name, "endpoint": url, **common} for name, url in urls.items()]
    (folder / "targets.yaml").write_text(json.dumps({"targets": targets}))


BOTH = ("a.eval.yaml", "--target", "a", "--target", "b", "--output", "out.jsonl")


def identities(path: Path) -> Counter[tuple[str, str, int | None]]:
    """Return how many lines of a results file each case, target and number has."""
    return Counter((line["id"], line["target"], line.get("repeat")) for line in records(path))


def asked(server: Server) -> list[str]:
    return sorted(request.json["messages"][-1]["content"] for request in server.requests)


# Targets


def test_each_target_answers_each_case_and_what_is_converted_once_goes_to_both(
    folder: Path, server: Server, other: Server
) -> None:
    (folder / "house.py").write_text(
        "from multiturn import stage\n\n"
        "@stage(requires={'question'}, provides={'question'})\n"
        "def house(conversion):\n"
        "    with open('converted', 'a') as file:\n"
        "        file.write(conversion.case.id + ' ')\n"
        "    return conversion\n"
    )
    (folder / "p.yaml").write_text(
        "extends: spec\ninsert: [{stage: 'house:house', after: render_question}]\n"
    )
    done = run(*BOTH, "--pipeline", "p.yaml", folder=folder)
    assert done.returncode == 0
    assert done.stderr.splitlines()[0].startswith("4 answered, 0 reused, 0 failed, 0 retried")
    assert asked(server) == asked(other) == ["one", "two"]
    assert (folder / "converted").read_text() == "c0 c1 "
    found = identities(folder / "out.jsonl")
    assert found == Counter([(case, name, None) for case in ("c0", "c1") for name in "ab"])


def test_each_target_has_its_own_concurrency(folder: Path, server: Server, other: Server) -> None:
    write_suite(folder, map(str, range(6)))
    server.stall(seconds=0.2, times=None)
    process = start(*BOTH, "--concurrency", "2", folder=folder)
    deadline = time.monotonic() + 20
    while len(other.requests) < 6 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (len(other.requests), len(server.requests) <= 4) == (6, True)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_an_error_that_ends_the_run_of_one_target_does_not_end_the_others(
    folder: Path, server: Server, other: Server
) -> None:
    write_suite(folder, map(str, range(20)))
    server.fail(401, "no such key", times=None)
    done = run(*BOTH, "--concurrency", "1", folder=folder)
    assert done.returncode == 1
    assert len(server.requests) == 1
    assert len(other.requests) == 20
    first = done.stderr.splitlines()[0]
    assert first.startswith("target 'a': a.eval.yaml:1:")
    assert first.endswith("; no more cases are sent")
    assert "20 answered, 0 reused, 1 failed" in done.stderr
    again = run(*BOTH, "--resume", folder=folder)  # a's server fails again
    assert "0 answered, 20 reused" in again.stderr


def test_a_case_that_cannot_be_converted_is_named_once_and_has_a_line_for_each(
    folder: Path,
) -> None:
    (folder / "a.eval.yaml").write_text("evalcases: [{id: bad, input_messages: 3}, 4]\n")
    done = run(*BOTH, "--repeat", "2", folder=folder)
    assert done.stderr.splitlines() == [
        "a.eval.yaml:1:39: case 'bad': input_messages must be a list, not a number",
        "a.eval.yaml:1:43: evalcases[1]: a case must be a mapping",
        "0 answered, 0 reused, 5 failed, 0 retried: out.jsonl",
    ]
    found = identities(folder / "out.jsonl")
    assert found == Counter([("bad", name, number) for name in "ab" for number in (1, 2)])


def test_a_target_is_given_once(folder: Path) -> None:
    done = run("a.eval.yaml", "--target", "a", "--target", "a", folder=folder)
    assert (done.returncode, done.stderr) == (
        2,
        "Error: the target 'a' is given twice, and results have only its name; give it once\n",
    )
    with pytest.raises(ValueError, match="a run has at least one provider"):
        dry_run([], "spec", [])
    with pytest.raises(MultiturnError, match="the target 't' is given twice"):
        dry_run([], "spec", [openai(), openai()])


def test_in_python_providers_are_a_list(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    both = [load_target(name, sends=False) for name in ("a", "b")]
    found = [(each.result.id, each.result.target) for each in dry_run("a.eval.yaml", "spec", both)]
    assert found == [("c0", "a"), ("c0", "b"), ("c1", "a"), ("c1", "b")]


def test_a_limit_is_that_of_each_target(folder: Path, server: Server, other: Server) -> None:
    write_suite(folder, [f"{number} " + "word " * 100 for number in range(8)])
    done = run(*BOTH, "--max-tokens", "10", folder=folder)
    assert re.match(
        r"Error: target 'a': about 9\d\d input tokens exceed --max-tokens 10; nothing was sent\n",
        done.stderr,
    )
    big = {"prompt_tokens": 500, "completion_tokens": 500, "total_tokens": 1000}
    message = {"role": "assistant", "content": "hi"}
    answer = {"choices": [{"finish_reason": "stop", "message": message}], "usage": big}
    server.answer(body=answer, times=None)
    done = run(*BOTH, "--max-tokens", "1050", "--concurrency", "1", folder=folder)
    assert (done.returncode, len(server.requests), len(other.requests)) == (1, 1, 8)
    assert "target 'a': stopped at --max-tokens 1,050: 1,000 tokens used; finished" in done.stderr
    assert "target 'b': 88 input tokens, 56 output tokens" in done.stderr
    other.answer(body=answer, times=None)
    done = run(*BOTH[:-1], "new.jsonl", "--max-tokens=1050", "--concurrency=1", folder=folder)
    assert re.search(
        r"target '[ab]': stopped at --max-tokens 1,050: 1,000 tokens used; target '[ab]': stopped"
        r" at --max-tokens 1,050: 1,000 tokens used; finished results are in new.jsonl;",
        done.stderr,
    )


def test_a_dry_run_is_that_of_each_target_and_number(folder: Path, server: Server) -> None:
    done = run(*BOTH, "--repeat", "2", "--dry-run", folder=folder)
    lines = records(done.stdout)
    assert [(line["id"], line["target"], line["repeat"]) for line in lines] == [
        (case, name, number) for case in ("c0", "c1") for name in "ab" for number in (1, 2)
    ]
    assert done.stderr.splitlines()[0] == "8 to send, 0 to reuse, 0 refused; nothing was sent"
    assert [line.partition(": ")[0] for line in done.stderr.splitlines()[1:]] == [
        *["target 'a'"] * 2,
        *["target 'b'"] * 2,
    ]
    assert server.requests == []


# Repetitions


def test_what_is_printed_for_reading_says_the_target_and_the_number(folder: Path) -> None:
    done = run("a.eval.yaml", "--repeat", "2", "--format", "text", "--case", "c0", folder=folder)
    titles = [line for line in done.stdout.splitlines() if "·" in line]
    assert sorted(titles) == [f"a.eval.yaml · c0 · echo · repeat {number}" for number in (1, 2)]


def test_each_answer_has_its_number_and_more_can_be_asked_for(folder: Path, server: Server) -> None:
    one = ("a.eval.yaml", "--target", "a", "--output", "out.jsonl")
    assert run(*one, folder=folder).returncode == 0
    assert "repeat" not in records(folder / "out.jsonl")[0]
    done = run(*one, "--resume", "--repeat", "3", folder=folder)
    assert done.stderr.startswith("4 answered, 2 reused")
    assert asked(server) == ["one"] * 3 + ["two"] * 3
    found = identities(folder / "out.jsonl")
    assert found == Counter([(case, "a", n) for case in ("c0", "c1") for n in (None, 2, 3)])
    done = run(*one, "--resume", folder=folder)  # what is no longer asked for stays, unnamed
    assert done.stderr == "0 answered, 2 reused, 0 failed, 0 retried: out.jsonl\n"
    done = run(*one[:3], "--reuse=out.jsonl", "--output=new.jsonl", "--repeat=4", folder=folder)
    assert done.stderr.startswith("2 answered, 6 reused")
    found = identities(folder / "new.jsonl")
    assert found == Counter([(case, "a", n) for case in ("c0", "c1") for n in (1, 2, 3, 4)])


def test_against_a_revision_targets_and_numbers_are_skipped(
    repository: Path, server: Server, other: Server
) -> None:
    write_targets(repository, a=server.url, b=other.url)
    more = ("--target", "a", "--target", "b", "--repeat", "2", "--against", "HEAD")
    done = run("evals", *more, "--output", "out.jsonl", folder=repository)
    assert "12 unchanged cases skipped (compared with HEAD)" in done.stderr
    assert server.requests == other.requests == []


# kill -9


def test_a_run_that_is_killed_asks_each_case_target_and_number_once(
    folder: Path, server: Server, other: Server
) -> None:
    """``RUN_KILLS=20 RUN_CASES=300`` tries harder."""
    rng = random.Random(4)
    write_suite(folder, map(str, range(CASES)))
    command = (*BOTH, "--repeat", "3", "--resume", "--concurrency", "4")
    total = CASES * 2 * 3
    kept: list[str] = []

    def sent() -> int:
        return len(server.requests) + len(other.requests)

    for _ in range(KILLS):
        process = start(*command, folder=folder)
        more = sent() + rng.randint(1, max(total // (KILLS + 1), 2))
        while sent() < more and process.poll() is None:
            time.sleep(0.001)
        time.sleep(rng.choice([0, 0.001, 0.01]))
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        out = folder / "out.jsonl"
        lines = out.read_text().splitlines(keepends=True) if out.exists() else []
        whole = [line for line in lines if line.endswith("\n")]
        assert set(kept) <= set(whole)
        kept = whole
    assert kept
    done = run(*command, folder=folder)
    assert (done.returncode, f"{len(kept):,} reused" in done.stderr) == (0, True)
    found = identities(folder / "out.jsonl")
    wanted = [(f"c{at}", name, n) for at in range(CASES) for name in "ab" for n in (1, 2, 3)]
    assert found == Counter(wanted)
    # Only what was under way at a kill was asked twice.
    assert total <= sent() <= total + KILLS * 2 * 4


# Batches


@pytest.mark.parametrize("targets", [("openai", "anthropic"), ("gemini", "responses")])
def test_batches_have_a_request_for_each_target_and_number(
    tmp_path: Path, batch_server: BatchServer, targets: tuple[str, str]
) -> None:
    write_batch_targets(tmp_path, batch_server)
    write_suite(tmp_path, ["one", "two", "one"])  # the last is a duplicate
    given = [f"--target={name}" for name in targets]
    more = ("a.eval.yaml", *given, "--repeat=2", "--batch", "--output=out.jsonl", "--poll=0.01")
    done = run(*more, "--dry-run", folder=tmp_path)
    assert re.findall(r"(\d) requests in 1 part, .* to (\w+)", done.stdout) == [
        ("4", "openai" if name == "responses" else name) for name in targets
    ]
    batch_server.lag = 1
    done = run(*more, "--no-wait", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    done = run("a.eval.yaml", given[0], *more[3:], "--resume", folder=tmp_path)
    assert f"a batch of the target {targets[1]!r}, or one with other settings" in done.stderr
    write_suite(tmp_path, ["one", "two", "one", "two"])  # the new one shares what is under way
    done = run(*more, "--resume", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert batch_server.sent() == {"one": 4, "two": 4}
    found = identities(tmp_path / "out.jsonl")
    assert found == Counter(
        [(f"c{at}", name, n) for at in range(4) for name in targets for n in (1, 2)]
    )
    answers = {line["id"]: line["response"] for line in records(tmp_path / "out.jsonl")}
    assert answers == {
        f"c{at}": text_for(prompt) for at, prompt in enumerate(["one", "two", "one", "two"])
    }
    assert not (tmp_path / "out.jsonl.batch").exists()
