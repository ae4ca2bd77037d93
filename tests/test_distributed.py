"""Conversion on a Dask cluster of two worker processes: the lines of one process."""

import importlib
import json
import pickle
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import distributed
import fsspec
import pytest

import commands
from multiturn import MultiturnError, load_pipeline
from multiturn.distributed import convert_bag, slices_at, to_line
from multiturn.engine.converting import ConversionJob, convert_slice
from multiturn.engine.selection import Selection
from running import wait_for, write_stage

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
Convert = Callable[..., commands.Done]
LOUDER = """\


def louder(parts, ending):
    loud = [replace(part, text=part.text.upper()) for part in parts]
    return (*loud, Part('text', ending, ''))
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    # A worker that is killed at the wrong moment is waited for as long as this.
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "3s"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
    ):
        yield cluster


@pytest.fixture
def convert(cluster: Any, folder: Path) -> Convert:
    """Convert on the cluster into the folder ``out``."""

    def run(*arguments: str) -> commands.Done:
        options = ("--scheduler", cluster.scheduler_address, "--output", "out")
        return commands.run("convert", *arguments, *options, folder=folder)

    return run


def hello(*ids: str) -> str:
    messages = [{"role": "user", "content": "Hello"}]
    return "".join(f"{json.dumps({'id': name, 'input_messages': messages})}\n" for name in ids)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Suites with an attached file, a stage beside the pipeline, and one error."""
    (tmp_path / "note.txt").write_text("Noted.")
    write_stage(
        tmp_path,
        "conversion = conversion.edit_question(louder, ending=ending)",
        before=f"from msgspec.structs import replace\n{LOUDER}",
        options=", *, ending: str = '!'",
        module="loud",
    )
    with (tmp_path / "p.yaml").open("a") as pipeline:
        pipeline.write("configure: {embed_files: {header: '=== {path} ==='}}\n")
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.eval.yaml").write_text(
            f"evalcases:\n  - id: {name}\n    input_messages:\n      - role: user\n"
            "        content: [{type: file, value: note.txt}]\n"
            "  - {id: wrong, input_messages: [{role: nobody, content: Hello}]}\n"
        )
    (tmp_path / "d.eval.jsonl").write_text(hello(*(f"d{number}" for number in range(50))))
    return tmp_path


def test_the_command_writes_the_lines_of_one_process(folder: Path, convert: Convert) -> None:
    alone = commands.run("convert", ".", "--pipeline", "p.yaml", folder=folder)
    done = convert(".", "--pipeline", "p.yaml")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", alone.stderr)
    names = sorted(path.name for path in (folder / "out").iterdir())
    assert names == ["_SUCCESS", *(f"part-{number:05}.jsonl" for number in range(4))]
    parts = [(folder / "out" / name).read_text() for name in names[1:]]
    assert "".join(parts) == alone.stdout
    assert '"question":"=== NOTE.TXT ===\\nNOTED.!"' in parts[0]
    done = convert("a.eval.yaml")
    assert done.returncode == 2
    assert done.stderr.endswith("out' is not empty; name a new folder for the parts\n")


@pytest.mark.parametrize("options", [(), ("--strict",)])
def test_only_a_strict_command_marks_no_success_after_a_warning(
    folder: Path, convert: Convert, options: tuple[str, ...]
) -> None:
    (folder / "e.eval.jsonl").write_text(hello("e").replace("{", '{"color": 1, ', 1))
    done = convert("e.eval.jsonl", *options)
    assert (done.returncode, (folder / "out/_SUCCESS").exists()) == (
        (1, False) if options else (0, True)
    )
    kind = "" if options else "warning: "
    assert done.stderr.startswith(f'e.eval.jsonl:1:1: {kind}unknown key "color"; ')


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--case", "d51"], "no case 'd51'; did you mean"),
        (["--root", "no"], "the root '"),
        (["--format", "text"], "--scheduler writes JSON lines"),
        (["--workers", "2"], "--scheduler writes JSON lines"),
    ],
)
def test_a_usage_error(folder: Path, convert: Convert, arguments: list[str], error: str) -> None:
    done = convert(".", *arguments)
    assert (done.returncode, error in done.stderr) == (2, True)
    assert not (folder / "out/_SUCCESS").exists()


def test_a_scheduler_that_is_not_there_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("multiturn.distributed._TIMEOUT", "100 ms")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    arguments = ("convert", "a.eval.yaml", "--scheduler", url, "--output", "out")
    done = commands.run(*arguments, folder=folder)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"Error: cannot use the scheduler {url!r}: ")


def said_of(url: str, folder: Path) -> str:
    """Return the one line that the command says of a scheduler that it cannot use."""
    arguments = ("convert", "a.eval.yaml", "--scheduler", url, "--output", "out")
    done = commands.run(*arguments, folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    return line


def test_a_scheduler_without_workers_is_said_after_a_while(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("multiturn.distributed._WORKER_TIMEOUT", 0.5)
    with distributed.LocalCluster(n_workers=0, dashboard_address=":0", processes=False) as lonely:
        url = lonely.scheduler_address
        said = said_of(url, folder)
        assert said.startswith(f"Error: cannot use the scheduler {url!r}: Only 0/1 workers arrived")
        assert f"; it needs a worker (dask worker {url}), and distributed " in said


def test_a_scheduler_of_another_version_is_one_line(
    cluster: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = cluster.scheduler_address
    monkeypatch.setattr("multiturn.distributed.distributed.__version__", "1.2.3")
    said = said_of(url, folder)
    assert said.startswith(f"Error: cannot use the scheduler {url!r}: it has distributed 20")
    assert said.endswith(", and distributed 1.2.3, as here")


def test_an_error_of_a_scheduler_that_does_not_know_what_is_asked_is_one_line(
    cluster: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def identity(*_: Any, **__: Any) -> None:
        raise TypeError("Scheduler.identity() got an unexpected keyword argument\nand more")

    monkeypatch.setattr("multiturn.distributed.distributed.Client", identity)
    what = "Scheduler.identity() got an unexpected keyword argument; it needs a worker"
    assert what in said_of(cluster.scheduler_address, folder)


@pytest.mark.parametrize("package", ["distributed", "fsspec", "dask.bag"])
def test_without_the_extra_it_is_said_what_to_install(
    folder: Path, convert: Convert, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.delitem(sys.modules, "multiturn.distributed")
    monkeypatch.setitem(sys.modules, package, None)
    said = f"a Dask cluster or bag needs the package {package}; pip install 'multiturn[dask]'"
    with pytest.raises(ImportError, match=re.escape(said)):
        importlib.import_module("multiturn.distributed")
    done = convert("a.eval.yaml")
    assert (done.returncode, done.stderr) == (2, f"Error: {said}\n")


def test_a_worker_that_is_killed_changes_nothing(folder: Path, convert: Convert) -> None:
    """The stage kills its worker in the middle of the suites, once."""
    once = folder / "killed"
    body = (
        f"once = pathlib.Path({str(once)!r})\nif conversion.case.id == 'c' and not once.exists():"
    )
    body += "\n    once.touch()\n    os.kill(os.getpid(), 9)"
    write_stage(folder, body, before="import os, pathlib", module="fatal")
    alone = commands.run("convert", ".", folder=folder)
    done = convert(".", "--pipeline", "p.yaml")
    assert (once.exists(), done.stderr) == (True, alone.stderr)
    parts = sorted((folder / "out").glob("part-*"))
    assert "".join(path.read_text() for path in parts) == alone.stdout


def test_a_bag_has_the_lines_or_the_first_error(cluster: Any, folder: Path) -> None:
    pipeline = load_pipeline(folder / "p.yaml").configure("house", ending="?")
    bag = convert_bag([f"file://{folder}/d.eval.jsonl"], pipeline, partition_size=500)
    assert bag.npartitions > 4
    wrong = convert_bag([str(folder / "a.eval.yaml")], pipeline)
    with distributed.Client(cluster):
        assert [json.loads(line)["question"] for line in bag.compute()] == ["HELLO?"] * 50
        with pytest.raises(MultiturnError, match="no role 'nobody'"):
            wrong.compute()


def test_suites_may_be_anywhere_that_fsspec_reads() -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/evals/a.jsonl", (hello("a", "b") + "wrong\n" + hello("c")).encode())
    url = "memory://evals/a.jsonl"
    parts = list(slices_at([url], 100))
    assert [part.lines.before for part in parts if part.lines] == [0, 2]
    lines = convert_bag([url], load_pipeline("spec"), partition_size=100).to_delayed()
    first = [json.loads(line) for line in lines[0].compute(scheduler="sync")]
    assert [(record["suite"], record["id"]) for record in first] == [(url, "a"), (url, "b")]
    with pytest.raises(MultiturnError) as caught:
        lines[1].compute(scheduler="sync")
    assert str(caught.value) == f"{url}:3:1: not JSON: Expecting value"


@pytest.mark.parametrize(
    "url", ["memory://gone.yaml", "memory://nowhere/a.jsonl", "nothing://a.jsonl"]
)
def test_a_suite_that_cannot_be_read_is_an_error_of_its_own(url: str) -> None:
    job = ConversionJob(Selection(), load_pipeline("spec"), to_line)
    (part,) = slices_at([url])
    (found,) = convert_slice(job, part)
    assert str(found.error).startswith(f"{url}: cannot read it: ")


def test_a_pipeline_pickles_with_the_folder_of_its_stages(folder: Path) -> None:
    pipeline = load_pipeline(folder / "p.yaml").configure("house", ending="...")
    program = "import pickle; p = pickle.load(open(0, 'rb')); print(p.name, p.to_yaml())"
    command, given = [sys.executable, "-c", program], pickle.dumps(pipeline)
    done = subprocess.run(command, cwd="/", input=given, capture_output=True, check=True)
    assert done.stdout.decode() == f"{pipeline.name} {pipeline.to_yaml()}\n"


def test_an_interrupt_ends_the_command(cluster: Any, folder: Path) -> None:
    begun = folder / "begun"
    body = f"pathlib.Path({str(begun)!r}).touch()\ntime.sleep(1)"
    write_stage(folder, body, before="import pathlib, time", module="slow")
    options = ("--scheduler", cluster.scheduler_address, "--output", "out")
    process = commands.start("convert", ".", "--pipeline", "p.yaml", *options, folder=folder)
    wait_for(begun.exists)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode not in (0, 2)
    assert "Traceback" not in stderr
    assert not (folder / "out/_SUCCESS").exists()


def test_of_two_commands_one_writes_into_a_folder(cluster: Any, folder: Path) -> None:
    options = ("--scheduler", cluster.scheduler_address, "--output", "out")
    processes = [
        commands.start("convert", suite, *options, folder=folder)
        for suite in ("a.eval.yaml", "b.eval.yaml")
    ]
    errors = [process.communicate(timeout=60)[1] for process in processes]
    codes = [process.returncode for process in processes]
    (refused,) = [error for code, error in zip(codes, errors, strict=True) if code == 2]
    assert "is not empty" in refused or "File exists" in refused
    (part,) = (folder / "out").glob("part-*")
    assert len({json.loads(line)["suite"] for line in part.read_text().splitlines()}) == 1
