"""Several processes convert what one does, to the byte."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiturn import load_pipeline
from multiturn.documents.json_lines import split_lines
from multiturn.engine.outcomes import outcomes
from multiturn.engine.selection import Selection
from multiturn.engine.slices import Join, Work, convert_slice, slices_of

WORD = "words of a question "


def convert(folder: Path, *arguments: str, **options: Any) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-W", "error", "-m", "multiturn", "convert", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, timeout=60, **options)


def json_lines(*ids: str) -> str:
    """Return a case a line, each of about 2 KB."""
    messages = [{"role": "user", "content": WORD * 100}]
    return "".join(f"{json.dumps({'id': name, 'input_messages': messages})}\n" for name in ids)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of suites: in YAML and in JSON Lines of several parts, with errors in both."""
    for number in range(5):
        (tmp_path / f"{number}.eval.yaml").write_text(
            f"evalcases:\n  - {{id: a{number}, input_messages: [{{role: user, content: Hello}}]}}\n"
            f"  - {{id: b{number}, input_messages: [{{role: nobody, content: Hello}}]}}\n"
            f"  - {{id: c{number}, input_messages: [{{role: user, content: Bye}}]}}\n"
        )
    names = [f"case {number}" for number in range(1_500)]
    lines = json_lines(*names[:700]) + "not JSON\n" + json_lines(*names[700:], "case 3")
    (tmp_path / "3.eval.jsonl").write_text(lines)
    return tmp_path


@pytest.mark.parametrize(
    ("workers", "options"),
    [("2", ()), ("3", ("--format", "yaml")), ("3", ("--pipeline", "shipped"))],
)
def test_any_number_of_workers_gives_the_same(
    folder: Path, workers: str, options: tuple[str, ...]
) -> None:
    alone = convert(folder, ".", *options)
    done = convert(folder, ".", "--workers", workers, *options)
    assert done.returncode == alone.returncode == 1
    assert done.stdout == alone.stdout
    assert done.stderr == alone.stderr
    errors = done.stderr.decode().splitlines()
    assert [line.partition(":")[0] for line in errors] == [
        *("0.eval.yaml", "1.eval.yaml", "2.eval.yaml"),
        *("3.eval.jsonl", "3.eval.jsonl", "3.eval.yaml", "4.eval.yaml"),
    ]
    assert errors[3] == "3.eval.jsonl:701:1: not JSON: Expecting value"
    assert errors[4].startswith("3.eval.jsonl:1502:1: duplicate id 'case 3', first used on")


def test_a_case_is_found_in_whatever_part_it_is(folder: Path) -> None:
    done = convert(folder, ".", "--workers", "2", "--case", "case 1400", "--case", "a4")
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == ["case 1400", "a4"]
    done = convert(folder, ".", "--workers", "2", "--case", "case 14000")
    assert done.returncode == 2
    assert b"no case 'case 14000'; did you mean" in done.stderr


def test_the_log_comes_from_all_workers(folder: Path) -> None:
    done = convert(folder, ".", "--workers", "2", "-v", "--log-format", "json", "--case", "a0")
    events = [json.loads(line) for line in done.stderr.splitlines() if line.startswith(b"{")]
    assert [event["stage"] for event in events][:2] == ["resolve_segments", "extract_guidelines"]


def test_standard_input_needs_one_process_only(tmp_path: Path) -> None:
    suite = b"input_messages: [{role: user, content: Hello}]"
    done = convert(tmp_path, "-", "--workers", "4", input=suite)
    assert (done.returncode, json.loads(done.stdout)["question"]) == (0, "Hello")


def test_attached_files_and_stages_of_a_folder_are_found(tmp_path: Path) -> None:
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals/note.txt").write_text("Noted.")
    (tmp_path / "loud.py").write_text(
        "from msgspec.structs import replace\n"
        "from multiturn import stage\n\n\n"
        "def louder(parts):\n"
        "    return [replace(part, text=part.text.upper()) for part in parts]\n\n\n"
        "@stage(requires={'question'}, provides={'question'})\n"
        "def loud(conversion):\n"
        "    return conversion.edit_question(louder)\n"
    )
    (tmp_path / "p.yaml").write_text(
        "extends: spec\ninsert: [{stage: 'loud:loud', after: render_question}]\n"
    )
    for name in "ab":
        (tmp_path / f"evals/{name}.eval.yaml").write_text(
            "input_messages: [{role: user, content: [{type: file, value: note.txt}]}]"
        )
    done = convert(tmp_path, "evals", "--workers", "2", "--pipeline", "p.yaml")
    questions = [json.loads(line)["question"] for line in done.stdout.splitlines()]
    assert (done.stderr, questions) == (b"", ["=== NOTE.TXT ===\nNOTED."] * 2)


def case(name: str, content: str = WORD * 100) -> str:
    messages = [{"role": "user", "content": content}]
    return json.dumps({"id": name, "input_messages": messages}) + "\n"


def broken(name: str) -> str:
    content = [{"type": "file", "value": "nope.md"}]
    return json.dumps({"id": name, "input_messages": [{"role": "user", "content": content}]}) + "\n"


def in_slices(suites: Iterable[Path], size: int, case_ids: Iterable[str] = ()) -> list[str]:
    """Return the cases and errors of suites that were converted in slices of a size."""
    selection = Selection(case_ids=frozenset(case_ids))
    work = Work(selection, load_pipeline("spec"), lambda conversion: conversion.case.id.encode())
    join, said = Join(selection), []
    for suite in map(str, suites):
        for part in slices_of(suite, suite, size):
            found = join.add(part, convert_slice(work, part))
            said += [str(item.error) if item.text is None else item.text.decode() for item in found]
    return said


TWICE = {
    "the first fails": (broken("dup"), case("dup")),
    "the second fails": (case("dup"), broken("dup")),
    "both fail": (broken("dup"), broken("dup")),
    "three": (case("dup"), case("dup") + case("dup") + case("other")),
    "a wrong line after it": (case("dup"), case("dup") + "not JSON\n" + case("other")),
    "a broken case after it": (case("dup"), broken("dup") + broken("other") + case("last")),
}


@pytest.mark.parametrize("case_ids", [(), ("dup",)])
@pytest.mark.parametrize(("head", "tail"), TWICE.values(), ids=TWICE)
def test_a_duplicate_id_is_found_in_any_slice(
    tmp_path: Path, head: str, tail: str, case_ids: tuple[str, ...]
) -> None:
    suites = [tmp_path / "a.eval.jsonl", tmp_path / "b.eval.yaml"]
    suites[0].write_text(head + case("fill") + tail)
    suites[1].write_text("id: dup\ninput_messages: [{role: user, content: Hello}]")
    whole = in_slices(suites, 2**20, case_ids)
    assert in_slices(suites, 1, case_ids) == whole
    selection = Selection(tuple(map(str, suites)), case_ids=frozenset(case_ids))
    assert whole == [
        found.case.id if found.case and not found.error else str(found.error)
        for found in outcomes(selection, load_pipeline("spec"))
    ]
    duplicates = [said for said in whole if "duplicate id 'dup', first used on line 1" in said]
    assert len(duplicates) == (0 if case_ids else tail.count('"dup"'))


def test_what_is_wrong_with_a_suite_is_said_once(tmp_path: Path) -> None:
    (tmp_path / ".agentv").mkdir()
    (tmp_path / ".agentv/config.yaml").write_text("guideline_patterns: 3")
    fill = json_lines(*(f"fill {number}" for number in range(1_200)))
    (tmp_path / "a.eval.jsonl").write_text(fill)
    alone = convert(tmp_path, ".")
    done = convert(tmp_path, ".", "--workers", "3")
    assert (done.returncode, done.stderr) == (alone.returncode, alone.stderr)
    assert len(alone.stderr.splitlines()) == 1


def test_a_link_to_nothing_is_an_error_like_others(tmp_path: Path) -> None:
    for name in "abcd":
        (tmp_path / f"{name}.eval.yaml").write_text(
            "input_messages: [{role: user, content: Hello}]"
        )
    (tmp_path / "bb.eval.yaml").symlink_to("nowhere")
    (tmp_path / "cc.eval.yaml").symlink_to("nowhere")
    alone = convert(tmp_path, ".")
    done = convert(tmp_path, ".", "--workers", "2")
    assert alone.stdout.count(b"\n") == 4
    assert done.stdout == alone.stdout
    assert (done.returncode, done.stderr) == (alone.returncode, alone.stderr)


def test_a_link_out_of_the_root_is_an_error_like_others(tmp_path: Path) -> None:
    for name in ("in/a.eval.yaml", "in/c.eval.yaml", "out/b.eval.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("input_messages: [{role: user, content: Hello}]")
    (tmp_path / "in/b.eval.yaml").symlink_to("../out/b.eval.yaml")
    for workers in ("1", "3"):
        done = convert(tmp_path, "in", "--workers", workers)
        assert (done.returncode, done.stdout.count(b"\n")) == (1, 2)
        assert done.stderr.startswith(b"in/b.eval.yaml: it leads outside '")
        done = convert(tmp_path, "in", "--workers", workers, "--root", ".")
        assert (done.returncode, done.stdout.count(b"\n"), done.stderr) == (0, 3, b"")
        done = convert(tmp_path, "in/a.eval.yaml", "in/b.eval.yaml", "--workers", workers)
        assert (done.returncode, done.stdout.count(b"\n"), done.stderr) == (0, 2, b"")


def with_stage(folder: Path, stage: str, suites: str) -> None:
    """Write p.yaml, a pipeline with a stage of a module of the same name, and suites of a case."""
    (folder / "p.yaml").write_text(
        f"extends: spec\ninsert: [{{stage: '{stage}:{stage}', after: render_question}}]\n"
    )
    for name in suites:
        (folder / f"{name}.eval.yaml").write_text("input_messages: [{role: user, content: Hi}]")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (
            "    global pool\n"
            "    pool = concurrent.futures.ProcessPoolExecutor(1)  # which nobody shuts down\n"
            "    pool.submit(int).result()\n",
            0,
        ),
        ("    if worker:\n        os._exit(0)\n", 2),
        (
            "    if worker:\n"
            "        global pool\n"
            "        pool = concurrent.futures.ProcessPoolExecutor(1)\n"
            "        pool.submit(int).result()\n"
            "    raise SystemExit(3)\n",
            1,
        ),
    ],
    ids=["a stage starts processes", "a stage ends the process", "a stage with processes exits"],
)
def test_a_stage_does_what_it_does_in_one_process(tmp_path: Path, body: str, code: int) -> None:
    (tmp_path / "odd.py").write_text(
        "import concurrent.futures, multiprocessing, os, pathlib, time\n"
        "from multiturn import stage\n\n\n"
        "@stage(requires={'question'}, provides={'question'})\n"
        "def odd(conversion):\n"
        "    worker = multiprocessing.parent_process() is not None\n"
        "    if worker:\n"
        "        pathlib.Path('begun').touch()\n"
        "    while not pathlib.Path('begun').exists():\n"
        "        time.sleep(0.01)\n"
        f"{body}"
        "    return conversion\n"
    )
    with_stage(tmp_path, "odd", "ab")
    done = convert(tmp_path, ".", "--workers", "2", "--pipeline", "p.yaml")
    assert done.returncode == code
    if code == 1:
        alone = convert(tmp_path, ".", "--pipeline", "p.yaml")
        assert done.stderr == alone.stderr
        assert done.stderr.count(b": the stage odd failed at odd.py:16: SystemExit: 3\n") == 2
    else:
        assert done.stderr == (b"Error: a worker process died; try fewer --workers\n" * (code > 1))


def test_an_error_of_a_stages_own_names_its_case_with_workers_too(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(
        "from multiturn import MultiturnError, stage\n\n\n"
        "class House(MultiturnError):\n"
        "    def __init__(self, code, detail):\n"
        "        super().__init__(f'{code}: {detail}')\n\n\n"
        "@stage(requires={'question'}, provides={'question'})\n"
        "def odd(conversion):\n"
        "    raise House(7, 'not today')\n"
    )
    with_stage(tmp_path, "odd", "ab")
    for workers in ("1", "2"):
        done = convert(tmp_path, ".", "--workers", workers, "--pipeline", "p.yaml")
        assert (done.returncode, done.stderr.decode()) == (
            1,
            "a.eval.yaml:1: case 'a': 7: not today\nb.eval.yaml:1: case 'b': 7: not today\n",
        )


def together(folder: Path, condition: str, workers: int) -> "subprocess.CompletedProcess[bytes]":
    """Convert seven suites with a stage that waits until a condition comes true.

    The condition is in Python, of: case, the id; cases, how many cases are begun; processes, how
    many have begun one.
    """
    (folder / "waiting.py").write_text(
        "import os, pathlib, time\nfrom multiturn import stage\n\n\n"
        "@stage(requires={'question'}, provides={'question'})\n"
        "def waiting(conversion):\n"
        "    folder, case = pathlib.Path('begun'), conversion.case.id\n"
        "    (folder / f'{os.getpid()} {conversion.case.id}').touch()\n"
        "    end = time.monotonic() + 60\n"
        "    while True:\n"
        "        names = [path.name.split() for path in folder.iterdir()]\n"
        "        cases, processes = len(names), len({name[0] for name in names})\n"
        f"        if {condition}:\n"
        "            return conversion\n"
        "        assert time.monotonic() < end, f'{cases} cases in {processes} processes'\n"
        "        time.sleep(0.01)\n"
    )
    (folder / "begun").mkdir()
    with_stage(folder, "waiting", "abcdefg")
    return convert(folder, ".", "--workers", str(workers), "--pipeline", "p.yaml")


def test_a_process_that_is_free_takes_what_another_has_not_begun(tmp_path: Path) -> None:
    done = together(tmp_path, "case != 'a' or cases > 5", 2)
    assert (done.returncode, done.stderr) == (0, b"")
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == list("abcdefg")


@pytest.mark.parametrize("workers", [2, 4])
def test_all_processes_work_at_the_same_time(tmp_path: Path, workers: int) -> None:
    done = together(tmp_path, f"processes == {workers}", workers)
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(done.stdout.splitlines()) == 7


def slow_suites(folder: Path) -> list[str]:
    """Write four suites, the last three of which take a while, and return what converts them.

    Each process says that it works, and starts another one.
    """
    (folder / "slow.py").write_text(
        "import os, pathlib, subprocess, time\nfrom multiturn import stage\n\n\n"
        "@stage(requires={'question'}, provides={'question'})\n"
        "def slow(conversion):\n"
        "    if conversion.case.id != 'a':\n"
        "        started = subprocess.Popen(['sleep', '120'])\n"
        "        pathlib.Path(f'started-{started.pid}').touch()\n"
        "        pathlib.Path(f'worker-{os.getpid()}').touch()\n"
        "        time.sleep(120)\n"
        "    return conversion\n"
    )
    with_stage(folder, "slow", "abcd")
    (folder / "out").write_text("as it was")
    options = (".", "--workers", "2", "--pipeline", "p.yaml", "--output", "out")
    return [sys.executable, "-m", "multiturn", "convert", *options]


def working(folder: Path) -> list[int]:
    """Wait until both workers work; return their numbers and those of what they have started."""
    end = time.monotonic() + 60
    while len([*folder.glob("worker-*")]) < 2:
        assert time.monotonic() < end, "they do not work"
        time.sleep(0.01)
    found = [*folder.glob("worker-*"), *folder.glob("started-*")]
    return [int(path.name.partition("-")[2]) for path in found]


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")
def test_a_worker_that_dies_ends_the_run_in_words(tmp_path: Path) -> None:
    process = subprocess.Popen(slow_suites(tmp_path), cwd=tmp_path, stderr=subprocess.PIPE)
    first, second, *_ = working(tmp_path)
    os.kill(first, signal.SIGKILL)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 2
    assert stderr == b"Error: a worker process died; try fewer --workers\n"
    assert not is_there(second)
    assert (tmp_path / "out").read_text() == "as it was"


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_ends_the_workers_at_once(tmp_path: Path, number: int) -> None:
    process = subprocess.Popen(slow_suites(tmp_path), cwd=tmp_path, stderr=subprocess.PIPE)
    found = working(tmp_path)
    assert len(found) == 4
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (128 + number, b"")
    assert not any(map(is_there, found))
    assert (tmp_path / "out").read_text() == "as it was"
    assert list(tmp_path.glob(".out.*")) == []


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit for the size of a file")
def test_a_full_disk_is_named_with_its_file(folder: Path) -> None:
    from resource import RLIMIT_FSIZE, setrlimit

    def limit() -> None:
        setrlimit(RLIMIT_FSIZE, (50_000, 50_000))

    done = convert(folder, ".", "--workers", "2", "--output", "out", preexec_fn=limit)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == b"Error: cannot write 'out': File too large"
    assert not (folder / "out").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals that are kept back")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_workers_start_ends_the_run(tmp_path: Path, number: int) -> None:
    (tmp_path / "signals.py").write_text(
        "import os\nfrom multiturn import stage\n\n"
        "os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), "
        f"{int(number)}), after_in_child=lambda: os.kill(os.getpid(), {int(number)}))\n\n\n"
        "@stage(requires={'question'}, provides={'question'})\n"
        "def signals(conversion):\n    return conversion\n"
    )
    command = slow_suites(tmp_path)
    (tmp_path / "p.yaml").write_text(
        "extends: spec\ninsert:\n  - {stage: 'slow:slow', after: render_question}\n"
        "  - {stage: 'signals:signals', after: render_question}\n"
    )
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60)
    assert done.returncode == 128 + number
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr


def test_the_first_case_is_written_while_workers_are_still_at_others(tmp_path: Path) -> None:
    command = [*slow_suites(tmp_path)[:-2], "--format", "text"]  # to standard output
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, env=environment)
    worker, *_ = working(tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "a.eval.yaml · a\n".encode()
    assert is_there(worker)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    process.stdout.close()


@given(st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"") + b"\n")), st.data())
def test_parts_of_lines_are_the_lines(lines: list[bytes], data: Any) -> None:
    whole = b"".join(lines)[: -1 if lines and data.draw(st.booleans()) else None]
    end = before = 0
    for part in split_lines(io.BytesIO(whole), data.draw(st.integers(1, 50))):
        assert (part.start, part.before) == (end, before)
        end = part.end or 0
        assert whole[end - 1 : end] == b"\n" or end == len(whole)
        before += whole[part.start : end].count(b"\n")
    assert end == len(whole)
