"""run_command: what it gives a process, how long it waits, and that nothing stays behind."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

import running
import standins
from limits import limited
from multiturn.errors import ProviderError
from multiturn.providers.agents.command import Command, run_command

HARDEST = "lambda: os.fork() and os._exit(0) or start_bare()"
IGNORING = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
LEFT_BEHIND = [  # ways in which a process may try to stay
    pytest.param("lambda: None", id="a child that holds the output open"),
    pytest.param(f"lambda: {IGNORING}", id="a child that ignores SIGTERM"),
    pytest.param("lambda: os.setpgid(0, 0)", id="a child in a process group of its own"),
    pytest.param("os.setsid", id="a child in a session of its own"),
    pytest.param("lambda: os.fork() and os._exit(0)", id="a grandchild whose parent is gone"),
    pytest.param("start_bare", id="a child in a session of its own without an environment"),
    pytest.param(HARDEST, id="a grandchild in a session of its own without an environment"),
]


async def run(folder: Path, program: str, *args: str, **options: Any) -> bytes:
    """Run a program, and return its output."""
    command = (standins.executable(folder, program), *args)
    lines: list[bytes] = []
    given = {"cwd": None, "env": os.environ, "timeout_seconds": 60, "take_line": lines.append}
    await run_command(command, **{**given, **options})
    return b"\n".join(lines)


async def run_until(folder: Path, program: str) -> None:
    """Run a program until the file that it is given is there, then end what was kept."""
    kept: list[Command] = []
    answer = folder / "answer"
    try:
        await run(folder, program, str(answer), answer=answer, kept=kept)
        assert answer.exists()
    finally:
        for command in kept:
            await command.end()
            command.close()


def error(work: Coroutine[Any, Any, object]) -> str:
    """Return the kind and the words of an error."""
    with pytest.raises(ProviderError) as caught:
        asyncio.run(work)
    return f"{caught.value.kind}: {caught.value.what}"


# What a process is given, and what is said of its failure


def test_a_process_gets_what_it_is_given_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OURS", "1")
    program = """
blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
print([sys.argv[1:], os.getcwd(), sys.stdin.read(), dict(os.environ), blocked])
"""
    work = tmp_path / "work"
    work.mkdir()
    given = {"stdin": b"Hi", "cwd": str(work), "env": {"A": "b c"}}
    arguments, cwd, text, env, blocked = eval(
        asyncio.run(run(tmp_path, program, "-a", "b c", **given))
    )
    env.pop("LC_CTYPE", None)
    assert (arguments, cwd, text, env) == (["-a", "b c"], str(work), "Hi", {"A": "b c"})
    assert blocked == set()


def test_no_output_fills_up_whether_it_is_read_or_not(tmp_path: Path) -> None:
    program = """
sys.stderr.write("x" * 1_000_000)
sys.stdout.write("y" * 1_000_000)
if sys.argv[1:]:
    sys.stdout.write(sys.stdin.read())
"""
    given = b"z" * 1_000_000
    output = asyncio.run(run(tmp_path, program, "read", stdin=given))
    assert output == b"y" * 1_000_000 + given
    assert asyncio.run(run(tmp_path, program, stdin=given)) == b"y" * 1_000_000


@pytest.mark.parametrize(
    ("program", "words"),
    [
        pytest.param("sys.exit(1)", r"exit code 1, without any output", id="without a word"),
        pytest.param(
            "print('limit'); os.write(2, b'\\xff no\\n'); sys.exit(77)",
            "exit code 77; the end of its output: limit\n\ufffd no",
            id="words on both outputs, and bytes that are no text",
        ),
        pytest.param("os.kill(os.getpid(), 9)", "exit code 137, without any output", id="killed"),
        pytest.param(
            "sys.exit('first ' + 'x' * 90_000 + ' last')",
            f"exit code 1; the end of its output: {'x' * 994} last",
            id="a long output, of which the end is shown",
        ),
    ],
)
def test_a_failure_is_an_error_with_the_end_of_the_output(
    tmp_path: Path, program: str, words: str
) -> None:
    assert error(run(tmp_path, program)) == f"process: agent ended with {words}"


@pytest.mark.parametrize(
    ("command", "cwd", "words"),
    [
        pytest.param("no-such-agent", None, "cannot start no-such-agent: No such", id="nothing"),
        pytest.param("/\udcff", None, "cannot start /\ufffd: No such", id="bytes that are no text"),
        pytest.param("{folder}/text", None, "/text: Permission denied", id="no program"),
        pytest.param("a\0b", None, "cannot start 'a\\x00b': ", id="a null character in its name"),
        pytest.param("true", "/no/where", "/no/where", id="a working folder that is missing"),
    ],
)
def test_what_cannot_be_started_is_an_error(
    tmp_path: Path, command: str, cwd: str | None, words: str
) -> None:
    (tmp_path / "text").write_text("Hi")
    name = command.format(folder=tmp_path)
    said = error(run_command([name], cwd=cwd, env=os.environ, timeout_seconds=9))
    assert said.startswith("process: ")
    assert words in said


def test_a_time_limit_is_kept_and_a_process_may_clean_up(tmp_path: Path) -> None:
    program = """
def clean_up(*_):
    open("cleaned-up", "x").close()
    os._exit(0)
signal.signal(signal.SIGTERM, clean_up)
print("thinking", flush=True)
time.sleep(600)
"""
    said = error(run(tmp_path, program, cwd=str(tmp_path), timeout_seconds=0.5))
    assert said == (
        "timeout: agent took more than 0.5 s (timeout_seconds); the end of its output: thinking"
    )
    assert (tmp_path / "cleaned-up").exists()


YES = "os.execvp('yes', ['yes', 'x' * 999])"


@pytest.mark.parametrize(
    ("program", "megabytes"),
    [
        pytest.param(YES, 5, id="lines"),
        pytest.param("os.execvp('cat', ['cat', '/dev/zero'])", 50, id="one line"),
        pytest.param(f"os.fork() or {YES}; time.sleep(60)", 5, id="lines of a child"),
    ],
)
def test_an_output_that_never_ends_is_cut_at_the_limit(
    tmp_path: Path, program: str, megabytes: int
) -> None:
    with limited(megabytes=megabytes):
        said = error(run(tmp_path, program, take_line=len))
    assert said == "malformed: agent printed more than 16 MiB"


def test_a_standard_error_that_never_ends_is_cut_at_the_limit(tmp_path: Path) -> None:
    started = time.monotonic()
    said = error(run(tmp_path, "os.dup2(2, 1); os.execvp('yes', ['yes'])"))
    assert said == "malformed: agent printed more than 16 MiB"
    assert time.monotonic() - started < 30


def test_the_last_line_of_an_output_needs_no_line_break(tmp_path: Path) -> None:
    program = "os.write(1, b'a\\nb'); time.sleep(0.2); os.write(1, b'c\\nd')"
    assert asyncio.run(run(tmp_path, program)) == b"a\nbc\nd"


# An answer in a file, which any process may write


def test_an_awaited_file_may_come_from_a_process_left_behind(tmp_path: Path) -> None:
    program = "os.fork() and sys.exit(); time.sleep(0.2); open(sys.argv[1], 'x').close()"
    asyncio.run(run_until(tmp_path, program))


def test_a_process_that_has_left_the_awaited_file_is_ended(tmp_path: Path) -> None:
    with standins.witness(tmp_path) as witness:
        program = f"leave_behind({witness.path!r}); open(sys.argv[1], 'x'); stay({witness.path!r})"
        asyncio.run(run_until(tmp_path, program))


def test_what_is_printed_after_the_answer_is_dropped(tmp_path: Path) -> None:
    program = """
open(sys.argv[1], "x").close()
while True:
    os.write(2, b"x" * 2**16)
    time.sleep(0.001)
"""

    async def both(kept: list[Command]) -> None:
        answer = tmp_path / "answer"
        await run(tmp_path, program, str(answer), answer=answer, kept=kept)
        started = time.monotonic()
        with pytest.raises(ProviderError, match="took"):
            await run(
                tmp_path, "time.sleep(9)", answer=tmp_path / "no", kept=kept, timeout_seconds=1
            )
        assert time.monotonic() - started < 5
        size = os.fstat(kept[0].outputs[1].fileno()).st_blocks * 512
        assert size < 10 * 2**20, size  # of about 60
        for command in kept:
            await command.end()
            command.close()

    asyncio.run(both([]))


@pytest.mark.parametrize(
    ("program", "words"),
    [
        pytest.param("sys.exit('no display')", "exit code 1; .* no display", id="a failure"),
        pytest.param("", "took more than 60 s", id="its time is up"),
    ],
)
def test_an_awaited_file_that_does_not_come_is_an_error(
    tmp_path: Path, program: str, words: str
) -> None:
    with standins.witness(tmp_path) as witness:
        work = run_until(tmp_path, f"leave_behind({witness.path!r}); {program}")
        with pytest.raises(ProviderError, match=words):
            standins.until(lambda: not program and witness.heard(), work)


# What a process leaves behind


@pytest.mark.parametrize("change", LEFT_BEHIND)
def test_nothing_outlives_a_process_that_ends(tmp_path: Path, change: str) -> None:
    with standins.witness(tmp_path) as witness:
        file = tmp_path / "heard"
        # Ends only when the child is really there.
        program = f"leave_behind({witness.path!r}, {change})\nwait_for({str(file)!r})\nsys.exit(3)"
        with pytest.raises(ProviderError, match="exit code 3"):
            standins.until(witness.tell(file), run(tmp_path, program))


@pytest.mark.parametrize(
    ("before", "cancels"),
    [
        pytest.param("", 0, id="a time-out"),
        pytest.param("", 1, id="cancel"),
        pytest.param(IGNORING, 0, id="a time-out, and it ignores SIGTERM"),
        pytest.param(IGNORING, 2, id="cancel, and again while it is being ended"),
    ],
)
def test_nothing_outlives_a_process_that_is_ended(
    tmp_path: Path, before: str, cancels: int
) -> None:
    with standins.witness(tmp_path) as witness:
        program = f"{before}\nleave_behind({witness.path!r}, {HARDEST}); stay({witness.path!r})"
        with pytest.raises(asyncio.CancelledError if cancels else ProviderError):
            standins.until(lambda: witness.heard(2), run(tmp_path, program), cancels=cancels)
        assert not witness.listen()


def test_a_process_whose_task_is_canceled_while_it_starts_does_not_stay(tmp_path: Path) -> None:
    witness = standins.Witness(tmp_path)

    async def start_and_cancel(steps: int) -> None:
        task = asyncio.create_task(run(tmp_path, f"stay({witness.path!r})"))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    for steps in range(12):
        asyncio.run(start_and_cancel(steps))
    assert witness.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of a parent's end")
def test_nothing_outlives_multiturn_when_it_is_killed(tmp_path: Path) -> None:
    with standins.witness(tmp_path) as witness:
        program = f"leave_behind({witness.path!r}, {HARDEST}); stay({witness.path!r})"
        command = [standins.executable(tmp_path, program)]
        script = (
            "import asyncio, os\n"
            "from multiturn.providers.agents.command import run_command\n"
            f"work = run_command({command!r}, cwd=None,"
            " env=os.environ, timeout_seconds=60)\n"
            "asyncio.run(work)\n"
        )
        with subprocess.Popen([sys.executable, "-c", script]) as process:
            running.wait_for(lambda: witness.heard(2))
            process.kill()


@pytest.mark.parametrize(
    "stop",
    [
        pytest.param("os.kill(guard, signal.SIGSTOP)", id="once"),
        pytest.param(
            "os.fork() or [os.kill(guard, signal.SIGSTOP) for _ in iter(int, 1)]",
            id="again and again",
        ),
    ],
)
@pytest.mark.parametrize("change", ["lambda: None", HARDEST])
def test_nothing_outlives_a_guard_that_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: str, change: str
) -> None:
    monkeypatch.setattr("multiturn.providers.agents.command._PATIENCE_SECONDS", 0.5)
    with standins.witness(tmp_path) as witness:
        path = repr(witness.path)
        program = f"guard = os.getppid(); leave_behind({path}, {change}); {stop}; stay({path})"
        with pytest.raises(ProviderError, match="took"):
            standins.until(lambda: witness.heard(2), run(tmp_path, program))
