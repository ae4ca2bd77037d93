"""Several processes convert what one does, to the byte."""

import io
import json
import os
import signal
import sys
import time
from collections.abc import Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import Done, Process, run, start
from multiturn import load_pipeline
from multiturn.documents.json_lines import read_json_lines, split_lines
from multiturn.engine import converting
from multiturn.engine.converting import (
    ConversionJob,
    RenderedCase,
    Slice,
    checked_slices,
    convert_cases,
    convert_slice,
    results_in_order,
    slices_of,
)
from multiturn.engine.selection import Selection
from running import wait_for, write_stage

HELLO = "input_messages: [{role: user, content: Hello}]"


def convert(folder: Path, *arguments: str, **options: Any) -> Done:
    return run("convert", *arguments, folder=folder, **options)


def alone_and_together(folder: Path, *arguments: str) -> Done:
    """Convert with one process and with three; both give the same, which is returned."""
    alone, together = (convert(folder, *arguments, "--workers", count) for count in ("1", "3"))
    found = (together.returncode, together.stdout, together.stderr)
    assert found == (alone.returncode, alone.stdout, alone.stderr)
    return alone


def case(name: str, content: Any = "Hello") -> str:
    """Return a line of JSON Lines."""
    messages = [{"role": "user", "content": content}]
    return json.dumps({"id": name, "input_messages": messages}) + "\n"


def broken(name: str) -> str:
    return case(name, [{"type": "file", "value": "nope.md"}])


def cases(names: Iterable[object]) -> str:
    return "".join(case(f"case {name}") for name in names)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of suites: in YAML and in JSON Lines of several parts, with errors in both."""
    monkeypatch.setattr(converting.slices_of, "__defaults__", (500, open))
    for number in range(5):
        (tmp_path / f"{number}.eval.yaml").write_text(
            f"evalcases:\n  - {{id: a{number}, {HELLO}}}\n"
            f"  - {{id: b{number}, {HELLO.replace('user', 'nobody')}}}\n"
            f"  - {{id: c{number}, {HELLO}}}\n"
        )
    lines = cases(range(70)) + "not JSON\n" + cases([*range(70, 150), 3])
    (tmp_path / "3.eval.jsonl").write_text(lines)
    return tmp_path


def write_suites(folder: Path, names: str) -> None:
    for name in names:
        (folder / f"{name}.eval.yaml").write_text(HELLO)


def test_any_number_of_workers_gives_the_same(folder: Path) -> None:
    done = alone_and_together(folder, ".", "--format", "yaml")
    assert done.returncode == 1
    errors = done.stderr.splitlines()
    assert [line.partition(":")[0] for line in errors] == [
        *("0.eval.yaml", "1.eval.yaml", "2.eval.yaml"),
        *("3.eval.jsonl", "3.eval.jsonl"),
        "2 more errors with the same words; --debug names each",  # 3.eval.yaml and 4.eval.yaml
    ]
    assert errors[3] == "3.eval.jsonl:71:1: not JSON: Expecting value"
    assert errors[4].startswith("3.eval.jsonl:152:1: duplicate id 'case 3', first used on line 4;")


def test_a_case_is_found_in_whatever_part_it_is(folder: Path) -> None:
    (folder / "torn.eval.yaml").write_text("a: [")
    done = alone_and_together(folder, ".", "--case", "case 140", "--case", "a4")
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == ["case 140", "a4"]
    assert done.stderr.startswith("torn.eval.yaml:2:1: not YAML: ")
    done = alone_and_together(folder, ".", "--case", "case 1400")
    assert (done.returncode, "no case 'case 1400'; did you mean" in done.stderr) == (2, True)


def test_what_is_wrong_with_a_suite_is_said_once(folder: Path) -> None:
    (folder / ".agentv").mkdir()
    (folder / ".agentv/config.yaml").write_text("guideline_patterns: 3")
    done = alone_and_together(folder, "3.eval.jsonl")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    (folder / "keys.jsonl").write_text(cases(range(30)).replace('{"id"', '{"color": "red", "id"'))
    for strict in ((), ("--strict",)):
        done = alone_and_together(folder, "keys.jsonl", "--guidelines", "*", *strict)
        assert (done.returncode, done.stderr.count('unknown key "color"')) == (len(strict), 1)


def test_suites_in_a_folder_do_not_lead_out_of_the_root(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_suites(tmp_path / "in", "ac")
    write_suites(tmp_path, "b")
    (tmp_path / "in/b.eval.yaml").symlink_to("../b.eval.yaml")
    (tmp_path / "in/d.eval.yaml").symlink_to("nowhere")
    for arguments, converted, error in (
        (("in",), 2, "in/b.eval.yaml: it leads outside '"),
        (("in", "--root", "."), 3, "in/d.eval.yaml: cannot read it: "),
        (("in/a.eval.yaml", "in/b.eval.yaml"), 2, ""),
    ):
        done = alone_and_together(tmp_path, *arguments)
        assert (done.returncode, done.stdout.count("\n")) == (int(bool(error)), converted)
        assert done.stderr.startswith(error)


def test_the_log_comes_from_all_workers(folder: Path) -> None:
    arguments = ("convert", ".", "--workers", "2", "-v", "--log-format", "json", "--case", "a0")
    _, log = start(*arguments, folder=folder).communicate(timeout=60)
    events = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert [event["stage"] for event in events][:2] == ["resolve_segments", "extract_guidelines"]


def test_standard_input_needs_one_process_only(tmp_path: Path) -> None:
    done = convert(tmp_path, "-", "--workers", "4", given=HELLO)
    assert (done.returncode, json.loads(done.stdout)["question"]) == (0, "Hello")


# Slices


def in_slices(suites: Iterable[Path], size: int, case_ids: Iterable[str] = ()) -> list[str]:
    """Return the cases and errors of suites that were converted in slices of a size."""
    selection = Selection(case_ids=frozenset(case_ids))
    job = ConversionJob(
        selection, load_pipeline("spec"), lambda conversion: conversion.case.id.encode()
    )
    parts = (part for suite in map(str, suites) for part in slices_of(suite, suite, size))
    results = ((part, convert_slice(job, part)) for part in parts)
    return [
        str(item.error) if item.text is None else item.text.decode()
        for items in checked_slices(selection, results)
        for item in items
    ]


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
    suites[1].write_text(f"id: dup\n{HELLO}")
    whole = in_slices(suites, 2**20, case_ids)
    assert in_slices(suites, 1, case_ids) == whole
    selection = Selection(tuple(map(str, suites)), case_ids=frozenset(case_ids))
    assert whole == [
        found.case.id if found.case and not found.error else str(found.error)
        for found in convert_cases(selection, load_pipeline("spec"))
    ]
    duplicates = [said for said in whole if "duplicate id 'dup', first used on line 1" in said]
    assert len(duplicates) == (0 if case_ids else tail.count('"dup"'))


def test_so_many_slices_are_under_way_and_no_more() -> None:
    submitted: list[Slice] = []

    def submit(part: Slice) -> "Future[list[RenderedCase]]":
        submitted.append(part)
        done: Future[list[RenderedCase]] = Future()
        done.set_result([])
        return done

    parts = [Slice(str(number), "") for number in range(20)]
    for number, (part, _) in enumerate(results_in_order(submit, parts, 3)):
        assert (part, len(submitted) <= number + 3) == (parts[number], True)


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


def test_a_line_that_is_too_long_belongs_to_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiturn.documents.json_lines.MAX_CASE_LINE", 10)
    file = io.BytesIO(b'"%s"\n1\n2\n' % (b"x" * 40))
    parts = [*split_lines(file, 20)]
    read = [[str(found) for found in read_json_lines(file, "x", part)] for part in parts]
    assert (len(parts), len(read[0]), len(read[1])) == (2, 1, 2)
    assert read[0] == ["x:1: a line of over 10 bytes"]


# Stages that do what they like


POOL = """\
global pool
pool = concurrent.futures.ProcessPoolExecutor(1)  # which nobody shuts down
pool.submit(int).result()
"""
DIED = "Error: a worker process died; try fewer --workers\n"
FAILED = "{0}.eval.yaml:1: case '{0}': the stage house failed at house.py:9: SystemExit: 3\n"


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        pytest.param(POOL, 0, "", id="starts processes"),
        pytest.param("os._exit(0)", 2, DIED, id="ends the process"),
        pytest.param(
            f"{POOL}raise SystemExit(3)",
            *(1, FAILED.format("a") + FAILED.format("b")),
            id="starts processes and exits",
        ),
    ],
)
def test_a_stage_that(tmp_path: Path, body: str, code: int, said: str) -> None:
    write_stage(tmp_path, body, before="import concurrent.futures, os")
    write_suites(tmp_path, "ab")
    arguments = ("convert", ".", "--workers", "2", "--pipeline", "p.yaml")
    process = start(*arguments, folder=tmp_path)
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (code, said)


def test_an_error_of_a_stages_own_names_its_case_with_workers_too(tmp_path: Path) -> None:
    error = "class House(MultiturnError):\n    def __init__(self, code, detail):\n"
    error += "        super().__init__(f'{code}: {detail}')\n"
    write_stage(tmp_path, "raise House(7, 'not today')", before=error)
    write_suites(tmp_path, "ab")
    done = alone_and_together(tmp_path, ".", "--pipeline", "p.yaml")
    errors = "".join(f"{name}.eval.yaml:1: case '{name}': 7: not today\n" for name in "ab")
    assert (done.returncode, done.stderr) == (1, errors)


def test_all_processes_work_and_one_that_is_free_takes_what_another_has_not_begun(
    tmp_path: Path,
) -> None:
    """Each case waits until three processes work; the first, until six are begun."""
    (tmp_path / "begun").mkdir()
    write_stage(
        tmp_path,
        "folder, case = pathlib.Path('begun'), conversion.case.id\n"
        "(folder / f'{os.getpid()} {case}').touch()\n"
        "end = time.monotonic() + 60\n"
        "while True:\n"
        "    begun = [path.name.split()[0] for path in folder.iterdir()]\n"
        "    if len({*begun}) == 3 and (case != 'a' or len(begun) > 5):\n"
        "        return conversion\n"
        "    assert time.monotonic() < end, begun\n"
        "    time.sleep(0.01)",
        before="import os, pathlib, time",
    )
    write_suites(tmp_path, "abcdefg")
    done = convert(tmp_path, ".", "--workers", "3", "--pipeline", "p.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == list("abcdefg")


# Ends of a run


def slow(folder: Path, *more: str, before: str = "", **options: Any) -> Process:
    """Start to convert four suites; all but the first take long, and start a process each."""
    write_stage(
        folder,
        "if conversion.case.id != 'a':\n"
        "    started = subprocess.Popen(['sleep', '120'])\n"
        "    pathlib.Path(f'started-{started.pid}').touch()\n"
        "    pathlib.Path(f'worker-{os.getpid()}').touch()\n"
        "    time.sleep(120)",
        before=f"import os, pathlib, subprocess, time\n{before}",
    )
    write_suites(folder, "abcd")
    (folder / "out").write_text("as it was")
    arguments = (".", "--workers", "2", "--pipeline", "p.yaml")
    return start("convert", *arguments, *(more or ("--output", "out")), folder=folder, **options)


def working(folder: Path) -> list[int]:
    """Wait until both workers work; return their numbers and those of what they have started."""
    wait_for(lambda: len([*folder.glob("worker-*")]) == 2)
    found = [*folder.glob("worker-*"), *folder.glob("started-*")]
    return [int(path.name.partition("-")[2]) for path in found]


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")


@needs_proc
def test_a_worker_that_dies_ends_the_run_in_words(tmp_path: Path) -> None:
    process = slow(tmp_path)
    first, second, *_ = working(tmp_path)
    os.kill(first, signal.SIGKILL)
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (2, DIED)
    assert not is_there(second)
    assert (tmp_path / "out").read_text() == "as it was"


def test_a_worker_that_is_killed_while_it_sends_a_result_ends_the_run_in_words(
    tmp_path: Path,
) -> None:
    """A result with images takes long to send, and needs memory: enough for a kernel to act."""
    write_stage(
        tmp_path,
        "def send_a_part(connection, data):\n"
        "    os.write(connection.fileno(), b'\\0\\1\\0\\0' + bytes(100))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "Connection._send_bytes = send_a_part",
        before="import os, signal\nfrom multiprocessing.connection import Connection",
    )
    write_suites(tmp_path, "ab")
    arguments = (".", "--workers", "2", "--pipeline", "p.yaml", "--output", "out")
    process = start("convert", *arguments, folder=tmp_path)
    try:
        _, stderr = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, stderr) == (2, DIED)
    assert not (tmp_path / "out").exists()


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_an_interrupt_ends_the_workers_at_once(tmp_path: Path, number: int) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = slow(tmp_path, "--format", "text", env=environment)
    found = working(tmp_path)
    assert len(found) == 4
    assert process.stdout is not None
    assert process.stdout.readline() == "a.eval.yaml · a\n", "written while they work"
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (128 + number, "")
    assert not any(map(is_there, found))


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals that are kept back")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_workers_start_ends_the_run(tmp_path: Path, number: int) -> None:
    kill = f"lambda: os.kill(os.getpid(), {int(number)})"
    process = slow(
        tmp_path, before=f"os.register_at_fork(after_in_parent={kill}, after_in_child={kill})"
    )
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "Traceback" not in stderr
    assert "Exception ignored" not in stderr
    assert (tmp_path / "out").read_text() == "as it was"
    assert list(tmp_path.glob(".out.*")) == []


@needs_proc
def test_interrupts_end_a_worker_that_was_stopped(tmp_path: Path) -> None:
    process = slow(tmp_path)
    found = working(tmp_path)
    os.kill(found[0], signal.SIGSTOP)
    for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM):
        process.send_signal(number)
        time.sleep(0.2)
    try:
        _, stderr = process.communicate(timeout=60)
    finally:
        process.kill()  # if it hangs
    assert (process.returncode, stderr) == (130, "")
    assert not any(map(is_there, found))
    assert (tmp_path / "out").read_text() == "as it was"
