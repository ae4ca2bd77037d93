"""What befalls a process: Ctrl-C, a reader that leaves, a full disk, streams that are closed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import commands
import standins
from commands import Process, full_disk, start
from running import wait_for

SUITE = "evalcases:\n" + "".join(
    f"- {{id: c{number}, input_messages: [{{role: user, content: {'y' * 1000}}}]}}\n"
    for number in range(100)
)
TO_A_FILE = ("convert", "a.yaml", "--output", "out.jsonl")


def end(process: Process) -> tuple[int, str | None, str]:
    with process:
        try:
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()  # if it hangs
    return process.returncode, out, err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.yaml").write_text(SUITE)
    (tmp_path / "out.jsonl").write_text("old\n")
    return tmp_path


# Ctrl-C, and kill -9

DYING = (
    "import os; os.fsync = lambda _: os.kill(os.getpid(), 9); from multiturn.__main__ import main"
)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(TO_A_FILE, id="convert"),
        pytest.param(("snapshot", "a.yaml"), id="snapshot"),
        pytest.param(("init",), id="init"),
        pytest.param(
            ("run", "a.yaml", "--target", "t", "--batch", "--output", "new.jsonl"), id="batch"
        ),
    ],
)
def test_the_next_command_removes_what_a_killed_one_has_left(
    folder: Path, arguments: tuple[str, ...]
) -> None:
    """It is killed where it would write the file through to the disk."""
    (folder / ".git").mkdir()
    target = "{name: t, provider: openai, model: m, api_key: k, base_url: 'http://127.0.0.1:1'}"
    (folder / "targets.yaml").write_text(f"targets: [{target}]")

    def partial() -> list[str]:
        return [path.name for path in folder.rglob("*") if ".multiturn-" in path.name]

    killed = subprocess.run([sys.executable, "-c", f"{DYING}; main()", *arguments], cwd=folder)
    assert (killed.returncode, len(partial())) == (-signal.SIGKILL, 1)
    again = (*arguments, "--resume") if "--batch" in arguments else arguments
    done = commands.run(*again, folder=folder)
    assert "cannot" not in done.stderr
    assert partial() == []


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("convert",), id="convert"),
        pytest.param(("convert", "--output", "out.jsonl"), id="convert to a file"),
        pytest.param(("run",), id="run"),
    ],
)
def test_ctrl_c_while_a_suite_is_awaited_exits_with_130(
    folder: Path, arguments: tuple[str, ...]
) -> None:
    os.mkfifo(folder / "slow.yaml")
    process = start(*arguments, "slow.yaml", folder=folder)
    with open(folder / "slow.yaml", "w"):  # opens once the process reads
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        code, out, err = end(process)
    meant = "interrupted after 0 cases\n" if arguments == ("run",) else ""
    assert (code, out, err) == (130, "", meant)
    assert sorted(path.name for path in folder.iterdir()) == ["a.yaml", "out.jsonl", "slow.yaml"]
    assert (folder / "out.jsonl").read_text() == "old\n"


@pytest.mark.parametrize("place", ["multiturn.cli.group", "multiturn.engine.converting"])
def test_ctrl_c_while_the_command_starts_exits_with_130(folder: Path, place: str) -> None:
    (folder / "sitecustomize.py").write_text(
        "import sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {place!r}:\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
    )
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    process = start("convert", "a.yaml", folder=folder, env={**os.environ, "PYTHONPATH": path})
    assert end(process) == (130, "", "")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of a parent's end")
def test_no_worker_outlives_a_killed_command(folder: Path) -> None:
    (folder / "house.py").write_text(
        "import os, time\nfrom multiturn import stage\n\n\n"
        "@stage()\ndef stay(conversion):\n"
        "    end = os.open('witness', os.O_WRONLY)\n"
        "    os.write(end, b'%d\\n' % os.getpid())\n"
        "    time.sleep(600)\n"
    )
    (folder / "stay.yaml").write_text("stages: ['house:stay']\n")
    (folder / "b.yaml").write_text(SUITE)
    with standins.witness(folder) as witness:
        arguments = ("convert", "a.yaml", "b.yaml", "--pipeline", "stay.yaml", "--workers", "2")
        process = start(*arguments, folder=folder)
        wait_for(lambda: witness.heard(2))
        process.kill()
        end(process)


# Standard streams, and a full disk

NOISY = """
import ctypes, os, subprocess, sys
import click
from multiturn import ProviderResponse, stage

print("import")

@stage()
def noisy(conversion):
    print("print")
    os.write(1, b"descriptor\\n")
    subprocess.run(["echo", "child"])
    click.echo("click")
    sys.stdout.buffer.write(b"buffer\\n")
    sys.__stdout__.write("original\\n")
    library = ctypes.CDLL(None)
    library.puts(b"C")
    library.fflush(None)
    return conversion

class Provider:
    async def invoke(self, request):
        noisy(None)
        return ProviderResponse(text="Ho")
"""
WORDS = {"import", "print", "descriptor", "child", "click", "buffer", "original", "C"}


def write_noise(folder: Path) -> None:
    (folder / "noise.py").write_text(NOISY)
    step = "{stage: 'noise:noisy', after: render_question}"
    (folder / "noisy.yaml").write_text(f"extends: spec\ninsert: [{step}]")
    (folder / "targets.yaml").write_text("targets: [{name: t, provider: 'noise:Provider'}]")


@pytest.mark.parametrize(
    "arguments",
    [
        ("convert", "--pipeline", "noisy.yaml"),
        ("convert", "--pipeline", "noisy.yaml", "--workers", "2"),
        ("run", "--target", "t"),
        ("check", "--pipeline", "noisy.yaml", "--format", "json"),
    ],
)
def test_what_other_code_prints_goes_to_standard_error(
    folder: Path, arguments: tuple[str, ...]
) -> None:
    write_noise(folder)
    code, out, err = end(start(*arguments, "a.yaml", folder=folder))
    lines = str(out).splitlines()
    assert code == 0
    assert len([json.loads(line) for line in lines]) == (0 if arguments[0] == "check" else 100)
    assert set(err.splitlines()) >= WORDS


# Other code that ends the process, or doubles it

ENDING = """\
import os
from multiturn import ProviderResponse, stage

@stage()
def ends(conversion):
    if conversion.case.id == "c99":
        os._exit(0)
    return conversion

@stage()
def forks(conversion):
    if conversion.case.id == "c1" and os.fork():
        os.wait()
    return conversion

class Provider:
    async def invoke(self, request):
        os._exit(0)

class Forking:
    number = 0

    async def invoke(self, request):
        self.number += 1
        if self.number == 50 and os.fork():
            os.wait()
        return ProviderResponse(text="Ho")
"""


def write_ending(folder: Path) -> None:
    (folder / "ending.py").write_text(ENDING)
    for name in ("ends", "forks"):
        step = f"{{stage: 'ending:{name}', after: render_question}}"
        (folder / f"{name}.yaml").write_text(f"extends: spec\ninsert: [{step}]")
    (folder / "targets.yaml").write_text("targets: [{name: t, provider: 'ending:Provider'}]")
    (folder / "exits.py").write_text("import os; os._exit(0)")
    (folder / "exits.yaml").write_text(
        "extends: spec\ninsert: [{stage: 'exits:s', after: embed_files}]"
    )


@pytest.mark.parametrize(
    ("arguments", "code", "lines", "error"),
    [
        pytest.param(
            ("convert", "--pipeline", "ends.yaml"),
            *(1, 99, "case 'c99': the stage ends failed at ending.py:7: SystemExit: 0"),
            id="a stage",
        ),
        pytest.param(
            ("check", "--pipeline", "ends.yaml"),
            *(1, 0, "case 'c99': the stage ends failed at ending.py:7: SystemExit: 0"),
            id="a stage that is checked",
        ),
        pytest.param(
            ("convert", "--pipeline", "exits.yaml"),
            *(2, 0, "cannot import 'exits:s' at exits.py:1: SystemExit: 0"),
            id="a module",
        ),
        pytest.param(("run", "--target", "t"), 1, 100, "SystemExit", id="a provider"),
    ],
)
def test_no_command_succeeds_whose_process_is_ended_by_other_code(
    folder: Path, arguments: tuple[str, ...], code: int, lines: int, error: str
) -> None:
    write_ending(folder)
    ended, out, err = end(start(*arguments, "a.yaml", folder=folder))
    assert (ended, str(out).count("\n")) == (code, lines)
    assert error in f"{out}{err}"


@pytest.mark.parametrize("workers", [(), ("--workers", "2")])
def test_a_process_that_a_stage_forks_does_not_go_on_as_the_command(
    folder: Path, workers: tuple[str, ...]
) -> None:
    write_ending(folder)
    arguments = ("convert", "a.yaml", "--pipeline", "forks.yaml", *workers)
    code, out, err = end(start(*arguments, folder=folder))
    assert code == 0
    assert [json.loads(line)["id"] for line in str(out).splitlines()] == [
        f"c{n}" for n in range(100)
    ]
    what = "the stage forks forked a process and returned in it, too; end it there, with os._exit"
    assert err == f"Error: {what}\n"


def test_a_process_that_a_provider_forks_does_not_go_on_as_the_run(folder: Path) -> None:
    write_ending(folder)
    targets = "targets: [{name: t, provider: 'ending:Forking'}]"
    (folder / "targets.yaml").write_text(targets)
    code, out, err = end(start("run", "--target", "t", "a.yaml", folder=folder))
    assert code == 0
    assert len({json.loads(line)["id"] for line in str(out).splitlines()}) == 100
    assert str(out).count("\n") == 100
    what = "forked a process and returned in it, too; end it there, with os._exit"
    assert f"Error: the provider of the target t {what}\n" in err


def close(stream: int) -> Callable[[], None]:
    """Return a ``preexec_fn`` that closes a standard stream."""
    return lambda: os.close(stream)


each_way_to_print = pytest.mark.parametrize("command", ["convert", "run", "explain"])


@each_way_to_print
def test_a_reader_that_leaves_ends_a_command_as_sigpipe_would(folder: Path, command: str) -> None:
    ours, its = os.pipe()
    os.close(ours)
    process = start(command, "a.yaml", folder=folder, stdout=its)
    os.close(its)
    code, _, err = end(process)
    assert (code, err) == (141, "")


@each_way_to_print
@pytest.mark.parametrize(
    ("change", "why"), [(close(1), "Bad file descriptor"), (full_disk(10_000), "File too large")]
)
def test_an_output_that_takes_nothing_is_said_in_words(
    folder: Path, command: str, change: Callable[[], None], why: str
) -> None:
    with open(folder / "printed", "w") as printed:
        process = start(command, "a.yaml", folder=folder, stdout=printed, preexec_fn=change)
        code, _, err = end(process)
    assert (code, err) == (2, f"Error: cannot write to standard output: {why}\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_that_cannot_be_written_is_said_in_words(folder: Path, option: str) -> None:
    with open("/dev/full", "w") as full:
        code, _, err = end(start(option, folder=folder, stdout=full))
    assert (code, err) == (
        2,
        "Error: cannot write to standard output: No space left on device\n",
    )


def test_an_output_file_needs_no_standard_output(folder: Path) -> None:
    assert end(start(*TO_A_FILE, folder=folder, preexec_fn=close(1))) == (0, "", "")
    assert (folder / "out.jsonl").read_text().count("\n") == 100


def test_a_closed_standard_input_is_said_in_words(folder: Path) -> None:
    process = start("convert", "-", folder=folder, preexec_fn=close(0))
    assert end(process) == (1, "", "<stdin>: cannot read it: Bad file descriptor\n")


def test_a_closed_standard_error_takes_no_output(folder: Path) -> None:
    code, out, _ = end(start("convert", "a.yaml", folder=folder, preexec_fn=close(2)))
    assert (code, str(out).count("\n")) == (0, 100)


def test_a_disk_that_fills_leaves_the_old_output(folder: Path) -> None:
    process = start(*TO_A_FILE, folder=folder, preexec_fn=full_disk(10_000))
    assert end(process) == (2, "", "Error: cannot write 'out.jsonl': File too large\n")
    assert (folder / "out.jsonl").read_text() == "old\n"
    assert sorted(path.name for path in folder.iterdir()) == ["a.yaml", "out.jsonl"]


# A name of standard output, whose descriptor leads elsewhere while a command runs

NAMES_OF_STDOUT = ("dev/stdout", "dev/fd/1", "proc/self/fd/1")
needs_dev = pytest.mark.skipif(not os.path.exists("/dev/stdout"), reason="has no /dev/stdout")


@pytest.mark.parametrize(
    ("command", "name"),
    [
        *(("convert", "-"), ("run", "-"), ("report", "-")),
        *(pytest.param("convert", f"/{name}", marks=needs_dev) for name in NAMES_OF_STDOUT),
    ],
)
def test_an_output_that_names_standard_output_goes_there(
    folder: Path, command: str, name: str
) -> None:
    with (folder / "out").open("wb") as out, (folder / "log").open("ab") as log:
        log.write(b"before\n")
        log.flush()
        line = (sys.executable, "-m", "multiturn", command, "a.yaml", "--output", name)
        done = subprocess.run(line, cwd=folder, stdout=out, stderr=log)
    assert done.returncode == 0
    assert len((folder / "out").read_bytes()) > 10_000
    assert not (folder / "-").exists()
    said = (folder / "log").read_text()
    assert said.startswith("before\n")
    assert "yyyy" not in said


@needs_dev
def test_an_output_that_names_standard_output_reaches_a_pipe(folder: Path) -> None:
    done = commands.run("convert", "a.yaml", "--output", "/dev/stdout", folder=folder)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 100
