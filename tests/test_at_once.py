"""Commands that write the same file at once, as processes; init is in test_init.py."""

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import BinaryIO

import pytest

import commands
from batch_server import BatchServer, write_targets
from comparing import write
from multiturn import MultiturnError, load_target
from multiturn.documents.output import lock
from multiturn.engine.batches import Batches
from multiturn.providers import results
from multiturn.providers.results import ResultsFile
from running import asked, by_id, run, start, write_slow_target, write_suite

OUTPUT = ("--output", "out.jsonl")
BATCH = ("a.eval.yaml", "--batch", *OUTPUT, "--poll", "0.05", "--target")
BOTH = 5_000_000  # characters of a prompt: two of them are more than a part of Anthropic's may have


def finish(*processes: commands.Process) -> list[tuple[int, str]]:
    """Return the exit code and the errors of each process."""
    errors = [process.communicate(timeout=60)[1] for process in processes]
    return [(process.returncode, error) for process, error in zip(processes, errors, strict=True)]


# Two runs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_slow_target(tmp_path)
    write_suite(tmp_path, ("one", "two", "three"))
    return tmp_path


@pytest.mark.parametrize("resume", [(), ("--resume",)])
def test_of_several_runs_one_writes_and_the_others_say_so(
    folder: Path, resume: tuple[str, ...]
) -> None:
    ended = finish(*(start("a.eval.yaml", *OUTPUT, *resume, folder=folder) for _ in range(3)))
    refused = "Error: another run is writing 'out.jsonl'; wait for it, or name another file\n"
    exists = "Error: 'out.jsonl' exists; add --resume to continue it, or name another file\n"
    assert any(code == 0 for code, _ in ended)
    for code, error in ended:
        assert code == 0 or (code, error) in ((2, refused), (2, exists))
    assert Counter(asked(folder)) == Counter(("one", "two", "three"))
    assert sorted(by_id(folder / "out.jsonl")) == ["c0", "c1", "c2"]


@pytest.mark.parametrize("resume", [False, True])
def test_a_run_takes_no_file_that_another_has_replaced_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resume: bool
) -> None:
    path = tmp_path / "out.jsonl"
    line = b'{"suite":"a","id":"a","target":"t","digest":"00","error":null}\n'

    def replace(file: BinaryIO, *, wait: bool) -> None:
        """Do as a run that ends between the opening and the lock."""
        monkeypatch.setattr(results, "lock", lock)
        (tmp_path / "new").write_bytes(line)
        os.replace(tmp_path / "new", path)
        lock(file, wait=wait)

    monkeypatch.setattr(results, "lock", replace)
    path.touch()
    if not resume:
        with pytest.raises(MultiturnError, match="exists; add resume= to continue it"):
            ResultsFile(str(path))
        return
    with ResultsFile(str(path), resume=True) as file:
        assert list(file.stored.values()) == ["00"]
        file.keep()
        assert file.removed is None


# A run and batch cancel


@pytest.fixture
def server(batch_server: BatchServer) -> BatchServer:
    return batch_server


def cancel(folder: Path) -> commands.Process:
    return commands.start("batch", "cancel", "out.jsonl", folder=folder)


def test_cancel_waits_for_a_part_that_is_being_sent_and_no_other_is_sent(
    tmp_path: Path, server: BatchServer
) -> None:
    write_targets(tmp_path, server)
    write_suite(tmp_path, [letter * BOTH for letter in "abc"])
    canceling: list[commands.Process] = []
    said: list[str] = []

    def watch(operation: str, acted: bool) -> None:
        if operation == "create" and not acted and not canceling:
            canceling.append(cancel(tmp_path))
            stderr = canceling[0].stderr
            assert stderr is not None
            said.append(stderr.readline())

    server.watch, server.lag, server.end = watch, 3, "cancelled"
    ran = run(*BATCH, "anthropic", folder=tmp_path)
    assert finish(*canceling) == [(0, "")]
    waiting = "another process is sending or canceling batches of these results; waiting\n"
    assert said == [waiting]
    assert (len(server.batches), server.operations.count("cancel")) == (1, 1)
    assert (
        "this run was canceled: it sends no more requests, and keeps the answers so far"
        in ran.stderr
    )
    assert [*by_id(tmp_path / "out.jsonl")] == ["c0"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("a.eval.yaml", "out.jsonl", "targets.yaml")
    ]


def test_a_run_that_waits_gets_what_a_canceled_batch_has_answered(
    tmp_path: Path, server: BatchServer
) -> None:
    write_targets(tmp_path, server)
    write_suite(tmp_path, ("one", "two"))
    server.lag, server.end = 1_000_000, "cancelled"

    def watch(operation: str, acted: bool) -> None:
        if (operation, acted) == ("cancel", True):
            server.lag = 0

    server.watch = watch
    waiting = start(*BATCH, "openai", folder=tmp_path)
    assert waiting.stderr is not None
    assert "2 requests" in waiting.stderr.readline()
    done = commands.run("batch", "cancel", "out.jsonl", folder=tmp_path)
    # The run has said that the batch is there, and may not have left its lock yet.
    said = "another process is sending or canceling batches of these results; waiting\n"
    assert (done.returncode, done.stderr.removeprefix(said)) == (0, "")
    assert finish(waiting)[0][0] == 1
    assert sorted(by_id(tmp_path / "out.jsonl")) == ["c0", "c1"]
    assert not (tmp_path / "out.jsonl.batch").exists()


def test_cancel_at_the_end_of_a_run_leaves_no_state_without_a_target(
    tmp_path: Path, server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run removes the file between the moment that cancel reads it and the one it writes."""
    write_targets(tmp_path, server)
    write_suite(tmp_path, ("one", "two"))
    monkeypatch.chdir(tmp_path)
    assert run(*BATCH, "openai", "--no-wait", folder=tmp_path).returncode == 0
    provider = load_target("openai")
    with Batches([provider], "out.jsonl", poll=0, say=print) as batches:
        assert run(*BATCH, "openai", "--resume", folder=tmp_path).returncode == 0
        with pytest.raises(MultiturnError, match=r"^no batch for 'out\.jsonl' is under way$"):
            batches.cancel()
    assert not (tmp_path / "out.jsonl.batch").exists()


def test_batches_may_be_canceled_twice_at_once(tmp_path: Path, server: BatchServer) -> None:
    write_targets(tmp_path, server)
    write_suite(tmp_path, ("one", "two"))
    server.lag, server.end = 1_000_000, "cancelled"
    assert run(*BATCH, "openai", "--no-wait", folder=tmp_path).returncode == 0
    assert [code for code, _ in finish(cancel(tmp_path), cancel(tmp_path))] == [0, 0]
    server.lag = 0
    assert run(*BATCH, "openai", "--resume", folder=tmp_path).returncode == 1
    assert (sorted(by_id(tmp_path / "out.jsonl")), len(server.batches)) == (["c0", "c1"], 1)
    assert not (tmp_path / "out.jsonl.batch").exists()


# pytest and multiturn snapshot

TESTS = """\
import pytest
from multiturn.testing import PromptSnapshot, cases, convert

@pytest.mark.parametrize("case", cases())
def test_prompt(case, snapshot):
    assert convert(case) == snapshot(extension_class=PromptSnapshot)
"""
SUITE = "evalcases:\n" + "".join(
    f"- {{id: c{n}, input_messages: [{{role: user, content: {{type: file, value: n.txt}}}}]}}\n"
    for n in range(20)
)


def snapshots(folder: Path) -> dict[str, bytes]:
    found = (path for path in (folder / "snapshots").rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def test_pytest_and_the_command_write_the_same_snapshots_at_once(tmp_path: Path) -> None:
    files = {".git/HEAD": "", "multiturn.toml": 'suites = ["evals"]', "evals/n.txt": "1"}
    files |= {f"evals/{name}.eval.yaml": SUITE for name in "ab"}
    write(tmp_path, {**files, "pytest.ini": "[pytest]", "test_prompts.py": TESTS})
    update = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--snapshot-update"]
    assert commands.run("snapshot", folder=tmp_path).returncode == 0
    expected = snapshots(tmp_path)
    for old in ("0", None):  # other snapshots are there before, or none
        shutil.rmtree(tmp_path / "snapshots")
        if old is not None:
            write(tmp_path, {"evals/n.txt": old})
            assert commands.run("snapshot", folder=tmp_path).returncode == 0
            write(tmp_path, {"evals/n.txt": "1"})
        processes = [
            commands.start("snapshot", folder=tmp_path),
            subprocess.Popen(
                update,
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            ),
        ]
        assert [code for code, _ in finish(*processes)] == [0, 0]
        assert snapshots(tmp_path) == expected
