"""Conversion on a Dask cluster of two worker processes: the lines of one process."""

import importlib
import json
import pickle
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import distributed
import fsspec
import pytest

import commands
from multiturn import MultiturnError, load_pipeline
from multiturn.distributed import (
    convert_bag,
    convert_on_cluster,
    slices_at,
    to_line,
)
from multiturn.engine.selection import Selection
from multiturn.engine.slices import Work, convert_slice

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster:
        yield cluster


def convert(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return commands.run("convert", *arguments, folder=folder)


def hello(*ids: str) -> str:
    messages = [{"role": "user", "content": "Hello"}]
    return "".join(f"{json.dumps({'id': name, 'input_messages': messages})}\n" for name in ids)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Suites with an attached file, a stage beside the pipeline, and one error."""
    (tmp_path / "note.txt").write_text("Noted.")
    (tmp_path / "loud.py").write_text(
        "from msgspec.structs import replace\n"
        "from multiturn import Part, stage\n\n\n"
        "def louder(parts, ending):\n"
        "    loud = [replace(part, text=part.text.upper()) for part in parts]\n"
        "    return (*loud, Part('text', ending, ''))\n\n\n"
        "@stage(requires={'question'}, provides={'question'})\n"
        "def loud(conversion, *, ending: str = '!'):\n"
        "    return conversion.edit_question(louder, ending=ending)\n"
    )
    (tmp_path / "p.yaml").write_text(
        "extends: spec\ninsert: [{stage: 'loud:loud', after: render_question}]\n"
    )
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.eval.yaml").write_text(
            f"evalcases:\n  - id: {name}\n    input_messages:\n      - role: user\n"
            "        content: [{type: file, value: note.txt}]\n"
            "  - {id: wrong, input_messages: [{role: nobody, content: Hello}]}\n"
        )
    (tmp_path / "d.eval.jsonl").write_text(hello(*(f"d{number}" for number in range(50))))
    return tmp_path


def test_the_command_writes_the_lines_of_one_process(cluster: Any, folder: Path) -> None:
    alone = convert(folder, ".", "--pipeline", "p.yaml")
    options = ("--pipeline", "p.yaml", "--scheduler", cluster.scheduler_address)
    done = convert(folder, ".", *options, "--output", "out")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", alone.stderr)
    names = sorted(path.name for path in (folder / "out").iterdir())
    assert names == ["_SUCCESS", *(f"part-{number:05}.jsonl" for number in range(4))]
    parts = [(folder / "out" / name).read_text() for name in names[1:]]
    assert "".join(parts) == alone.stdout
    assert '"question":"=== NOTE.TXT ===\\nNOTED.!"' in parts[0]


def test_a_duplicate_id_is_found_over_parts(cluster: Any, folder: Path) -> None:
    (folder / "d.eval.jsonl").write_text(hello(*(f"d{number}" for number in range(50)), "d3"))
    work = Work(Selection(), load_pipeline("spec"), to_line)
    slices = list(slices_at([str(folder / "d.eval.jsonl")], 500))
    assert len(slices) > 4
    out = str(folder / "out")
    (found,) = convert_on_cluster(cluster.scheduler_address, work, slices, out)
    assert str(found.error).endswith(
        "d.eval.jsonl:51:1: duplicate id 'd3', first used on line 4; ids are unique in a file"
    )
    parts = sorted(Path(out).glob("part-*"))
    assert sum(len(path.read_text().splitlines()) for path in parts) == 50


def test_a_strict_command_marks_no_success_after_a_warning(cluster: Any, folder: Path) -> None:
    (folder / "e.eval.jsonl").write_text(hello("e").replace("{", '{"color": 1, ', 1))
    options = ("--scheduler", cluster.scheduler_address, "--output")
    done = convert(folder, "e.eval.jsonl", *options, "lax")
    assert (done.returncode, (folder / "lax/_SUCCESS").exists()) == (0, True)
    assert done.stderr.startswith('e.eval.jsonl:1:1: warning: unknown key "color"; ')
    done = convert(folder, "e.eval.jsonl", "--strict", *options, "strict")
    assert (done.returncode, (folder / "strict/_SUCCESS").exists()) == (1, False)
    assert done.stderr.startswith('e.eval.jsonl:1:1: unknown key "color"; ')


def test_an_output_folder_that_is_not_empty_is_left_alone(cluster: Any, folder: Path) -> None:
    (folder / "out").mkdir()
    (folder / "out/part-00009.jsonl").write_text("of an earlier run")
    done = convert(folder, ".", "--scheduler", cluster.scheduler_address, "--output", "out")
    assert done.returncode == 2
    assert done.stderr.endswith("out' is not empty; name a new folder for the parts\n")
    assert [path.name for path in (folder / "out").iterdir()] == ["part-00009.jsonl"]


def test_a_case_that_no_partition_has_is_an_error(cluster: Any, folder: Path) -> None:
    options = ("--scheduler", cluster.scheduler_address, "--case", "d51", "--output", "out")
    done = convert(folder, ".", *options)
    assert (done.returncode, "no case 'd51'; did you mean" in done.stderr) == (2, True)
    assert not (folder / "out/_SUCCESS").exists()


def test_a_scheduler_that_is_not_there_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("multiturn.distributed._TIMEOUT", "100 ms")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    done = convert(folder, "a.eval.yaml", "--scheduler", url, "--output", "out")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"Error: cannot use the scheduler {url!r}: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("package", ["distributed", "fsspec", "dask.bag"])
def test_without_the_extra_it_is_said_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.delitem(sys.modules, "multiturn.distributed")
    monkeypatch.setitem(sys.modules, package, None)
    said = f"a Dask cluster or bag needs the package {package}; pip install 'multiturn[dask]'"
    with pytest.raises(ImportError, match=re.escape(said)):
        importlib.import_module("multiturn.distributed")
    done = convert(folder, "a.eval.yaml", "--scheduler", "tcp://127.0.0.1:1", "--output", "out")
    assert (done.returncode, done.stderr) == (2, f"Error: {said}\n")


@pytest.mark.parametrize("options", [(), ("--output", "out", "--workers", "2")])
def test_options_that_a_cluster_has_no_use_for(folder: Path, options: tuple[str, ...]) -> None:
    done = convert(folder, "a.eval.yaml", "--scheduler", "tcp://127.0.0.1:1", *options)
    assert (done.returncode, "--scheduler writes JSON lines" in done.stderr) == (2, True)


def test_a_worker_that_is_killed_changes_nothing(cluster: Any, folder: Path) -> None:
    """The stage kills its worker in the middle of the suites, once."""
    (folder / "fatal.py").write_text(
        "import os, pathlib, signal\nfrom multiturn import stage\n\n\n"
        "@stage(requires={'question'}, provides={'question'})\n"
        "def fatal(conversion, *, once: str):\n"
        "    if conversion.case.id == 'c' and not pathlib.Path(once).exists():\n"
        "        pathlib.Path(once).touch()\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return conversion\n"
    )
    (folder / "p.yaml").write_text(
        "extends: spec\ninsert:\n"
        f"  - {{stage: {{'fatal:fatal': {{once: {folder / 'killed'}}}}}, after: render_question}}\n"
    )
    alone = convert(folder, ".")
    options = ("--pipeline", "p.yaml", "--scheduler", cluster.scheduler_address)
    done = convert(folder, ".", *options, "--output", "out")
    assert (folder / "killed").exists()
    assert done.stderr == alone.stderr
    parts = sorted((folder / "out").glob("part-*"))
    assert "".join(path.read_text() for path in parts) == alone.stdout


def test_a_bag_has_the_lines(cluster: Any, folder: Path) -> None:
    pipeline = load_pipeline(folder / "p.yaml").configure("loud", ending="?")
    urls = [f"file://{folder}/d.eval.jsonl"]
    bag = convert_bag(urls, pipeline, partition_size=500)
    assert bag.npartitions > 4
    with distributed.Client(cluster):
        questions = [json.loads(line)["question"] for line in bag.compute()]
    assert questions == ["HELLO?"] * 50


def test_the_first_error_ends_the_computation_of_a_bag(cluster: Any, folder: Path) -> None:
    bag = convert_bag([str(folder / "a.eval.yaml")], load_pipeline("spec"))
    with distributed.Client(cluster), pytest.raises(MultiturnError, match="no role 'nobody'"):
        bag.compute()


def test_suites_may_be_anywhere_that_fsspec_reads(tmp_path: Path) -> None:
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
    work = Work(Selection(), load_pipeline("spec"), to_line)
    (part,) = slices_at([url])
    (found,) = convert_slice(work, part)
    assert str(found.error).startswith(f"{url}: cannot read it: ")


def test_a_pipeline_pickles_with_the_folder_of_its_stages(folder: Path) -> None:
    pipeline = load_pipeline(folder / "p.yaml").configure("loud", ending="...")
    (folder / "pickled").write_bytes(pickle.dumps(pipeline))
    program = "import pickle; p = pickle.load(open(0, 'rb')); print(p.name, p.to_yaml())"
    with (folder / "pickled").open() as pickled:
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, cwd="/", stdin=pickled, capture_output=True, text=True)
    assert (done.stderr, done.stdout) == ("", f"{pipeline.name} {pipeline.to_yaml()}\n")


def test_an_interrupt_ends_the_command_and_not_the_cluster(cluster: Any, folder: Path) -> None:
    (folder / "slow.py").write_text(
        "import time\nfrom multiturn import stage\n\n\n"
        "@stage(requires={'question'}, provides={'question'})\n"
        "def slow(conversion):\n    time.sleep(1)\n    return conversion\n"
    )
    (folder / "p.yaml").write_text(
        "extends: spec\ninsert: [{stage: 'slow:slow', after: render_question}]\n"
    )
    command = [sys.executable, "-m", "multiturn", "convert", ".", "--pipeline", "p.yaml"]
    command += ["--scheduler", cluster.scheduler_address, "--output", "out"]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while not (folder / "out").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode not in (0, 2)
    assert "Traceback" not in stderr
    assert not (folder / "out/_SUCCESS").exists()
    with distributed.Client(cluster) as client:
        assert client.submit(sum, [1, 2]).result() == 3
