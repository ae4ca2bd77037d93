"""run_command: what it gives a process, how long it waits, and that nothing stays behind."""

import ast
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

import running
import standins
from multiturn.providers.base import ProviderError
from multiturn.providers.command import end_command, run_command

# Ways in which a process may try to stay, all of which the specification names or implies.
LEFT_BEHIND = [
    pytest.param("lambda: None", id="a background child that holds the output open"),
    pytest.param(
        "lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN)", id="a child that ignores SIGTERM"
    ),
    pytest.param("lambda: os.setpgid(0, 0)", id="a child in a process group of its own"),
    pytest.param("os.setsid", id="a child in a session of its own"),
    pytest.param("lambda: os.fork() and os._exit(0)", id="a grandchild whose parent is gone"),
    pytest.param("start_bare", id="a child in a session of its own without an environment"),
    pytest.param(
        "lambda: os.fork() and os._exit(0) or start_bare()",
        id="a grandchild in a session of its own without an environment",
    ),
]
each_hard_way_to_stay = pytest.mark.parametrize("change", [LEFT_BEHIND[1], LEFT_BEHIND[-1]])


async def run(folder: Path, program: str, *args: str, **options: Any) -> bytes:
    command = (standins.executable(folder, program), *args)
    given: dict[str, Any] = {"cwd": None, "env": os.environ, "timeout_seconds": 60, **options}
    with tempfile.TemporaryFile() as output:
        await run_command(command, output=output, **given)
        output.seek(0)
        return output.read()


def error(folder: Path, program: str, **options: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        asyncio.run(run(folder, program, **options))
    return caught.value


def test_a_process_gets_what_it_is_given_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OURS", "1")
    program = "print([sys.argv[1:], os.getcwd(), sys.stdin.read(), dict(os.environ)])"
    work = tmp_path / "work"
    work.mkdir()
    given = {"stdin": b"Hi", "cwd": str(work), "env": {"A": "b c"}}
    arguments, cwd, text, env = ast.literal_eval(
        asyncio.run(run(tmp_path, program, "-a", "b c", **given)).decode()
    )
    env.pop("LC_CTYPE", None)
    assert (arguments, cwd, text, env) == (["-a", "b c"], str(work), "Hi", {"A": "b c"})


def test_no_signal_is_blocked(tmp_path: Path) -> None:
    program = "print(signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    assert asyncio.run(run(tmp_path, program)) == b"set()\n"


def test_no_pipe_fills_up_whether_it_is_read_or_not(tmp_path: Path) -> None:
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
        pytest.param("sys.exit(1)", "exit code 1, without any output", id="without a word"),
        pytest.param(
            "print('limit'); os.write(2, b'\\xff no\\n'); sys.exit(77)",
            "exit code 77; the end of its output: limit\n\ufffd no",
            id="words on both outputs, and bytes that are no text",
        ),
        pytest.param("os.kill(os.getpid(), 9)", "exit code 137, without any", id="killed"),
        pytest.param("os.abort()", "exit code 134, without any", id="crashed"),
    ],
)
def test_a_failure_is_an_error_with_the_end_of_the_output(
    tmp_path: Path, program: str, words: str
) -> None:
    failure = error(tmp_path, program)
    assert failure.kind == "process"
    assert failure.what.startswith(f"agent ended with {words}")


def test_of_a_long_output_an_error_has_the_end(tmp_path: Path) -> None:
    program = "sys.exit('first ' + '\\n'.join(f'line {n}' for n in range(9_000)) + ' last')"
    what = error(tmp_path, program).what
    assert "line 8999 last" in what
    assert "first" not in what
    assert len(what) < 10_000


@pytest.mark.parametrize(
    ("command", "words"),
    [
        pytest.param("no-such-agent", "cannot start no-such-agent: No such file", id="nothing"),
        pytest.param("/\udcff", "cannot start /\ufffd: No such file", id="bytes that are no text"),
        pytest.param("/", "cannot start /: Permission denied", id="a folder"),
        pytest.param("{folder}/text", "/text: Permission denied", id="a file that is no program"),
        pytest.param("a\0b", "cannot start 'a\\x00b': ", id="a name with a null character"),
    ],
)
def test_what_cannot_be_started_is_an_error(tmp_path: Path, command: str, words: str) -> None:
    (tmp_path / "text").write_text("Hi")
    name = command.format(folder=tmp_path)
    with pytest.raises(ProviderError) as caught, tempfile.TemporaryFile() as output:
        asyncio.run(run_command([name], output=output, cwd=None, env={}, timeout_seconds=9))
    assert caught.value.kind == "process"
    assert words in caught.value.what


def test_a_missing_working_folder_is_an_error(tmp_path: Path) -> None:
    failure = error(tmp_path, "", cwd=str(tmp_path / "nowhere"))
    assert failure.kind == "process"
    assert "nowhere" in failure.what


def test_a_time_limit_is_kept_and_a_process_may_clean_up(tmp_path: Path) -> None:
    program = """
def clean_up(*_):
    open("cleaned-up", "x").close()
    os._exit(0)
signal.signal(signal.SIGTERM, clean_up)
print("thinking", flush=True)
time.sleep(600)
"""
    failure = error(tmp_path, program, cwd=str(tmp_path), timeout_seconds=0.5)
    assert failure.kind == "timeout"
    assert failure.what == (
        "agent took more than 0.5 s (timeout_seconds); the end of its output: thinking"
    )
    assert (tmp_path / "cleaned-up").exists()


@pytest.mark.parametrize("change", LEFT_BEHIND)
def test_nothing_outlives_a_process_that_ends(tmp_path: Path, change: str) -> None:
    with standins.witness(tmp_path) as witness:
        file = tmp_path / "heard"
        # Ends only when the child is really there.
        program = f"leave_behind({witness.path!r}, {change})\nwait_for({str(file)!r})\nsys.exit(3)"
        with pytest.raises(ProviderError, match="exit code 3"):
            standins.until(witness.tell(file), run(tmp_path, program))


@each_hard_way_to_stay
@pytest.mark.parametrize(
    "cancels", [pytest.param(0, id="a time-out"), pytest.param(1, id="cancel")]
)
def test_nothing_outlives_a_process_that_is_ended(
    tmp_path: Path, cancels: int, change: str
) -> None:
    with standins.witness(tmp_path) as witness:
        path = repr(witness.path)
        work = run(tmp_path, f"leave_behind({path}, {change}); stay({path})")
        with pytest.raises(asyncio.CancelledError if cancels else ProviderError):
            standins.until(lambda: witness.heard(2), work, cancels=cancels)


@pytest.mark.parametrize(
    "cancels",
    [
        pytest.param(0, id="a time-out"),
        pytest.param(2, id="cancel, and again while it is being ended"),
    ],
)
def test_a_process_that_ignores_sigterm_is_ended_too(tmp_path: Path, cancels: int) -> None:
    with standins.witness(tmp_path) as witness:
        program = f"signal.signal(signal.SIGTERM, signal.SIG_IGN); stay({witness.path!r})"
        with pytest.raises(asyncio.CancelledError if cancels else ProviderError):
            standins.until(witness.heard, run(tmp_path, program), cancels=cancels)


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
    assert witness.all_gone()
    witness.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of a parent's end")
@each_hard_way_to_stay
def test_nothing_outlives_multiturn_when_it_is_killed(tmp_path: Path, change: str) -> None:
    with standins.witness(tmp_path) as witness:
        path = repr(witness.path)
        command = standins.executable(tmp_path, f"leave_behind({path}, {change}); stay({path})")
        script = (
            "import asyncio, os, sys, tempfile\n"
            "from multiturn.providers.command import run_command\n"
            f"work = run_command([{command!r}], output=tempfile.TemporaryFile(), cwd=None,"
            " env=os.environ, timeout_seconds=60)\n"
            "asyncio.run(work)\n"
        )
        with subprocess.Popen([sys.executable, "-c", script]) as process:
            running.wait_for(lambda: witness.heard(2))
            process.kill()


def test_a_guard_that_was_stopped_does_not_hang_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("multiturn.providers.command._PATIENCE_SECONDS", 0.2)
    with standins.witness(tmp_path) as witness:
        program = f"os.kill(os.getppid(), signal.SIGSTOP); stay({witness.path!r})"
        with pytest.raises(ProviderError, match="took"):
            standins.until(witness.heard, run(tmp_path, program))


def test_other_processes_are_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as other:
        error(tmp_path, "time.sleep(600)", timeout_seconds=0.1)
        assert other.poll() is None
        other.send_signal(signal.SIGKILL)


async def run_and_end(folder: Path, program: str) -> None:
    """Await a file of a command, and end the processes that were kept."""
    kept: list[asyncio.subprocess.Process] = []
    answer = folder / "answer"
    try:
        await run(folder, program, str(answer), answer=answer, kept=kept)
        assert answer.exists()
    finally:
        await asyncio.gather(*map(end_command, kept))


def test_an_awaited_file_may_come_from_a_process_left_behind(tmp_path: Path) -> None:
    program = "os.fork() and sys.exit(); time.sleep(0.2); open(sys.argv[1], 'x').close()"
    asyncio.run(run_and_end(tmp_path, program))


def test_a_process_that_has_left_the_awaited_file_is_ended(tmp_path: Path) -> None:
    with standins.witness(tmp_path) as witness:
        program = f"leave_behind({witness.path!r}); open(sys.argv[1], 'x'); stay({witness.path!r})"
        asyncio.run(run_and_end(tmp_path, program))


def test_a_failure_is_not_waited_for_as_long_as_a_file(tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match="no display") as caught:
        asyncio.run(run_and_end(tmp_path, "sys.exit('no display')"))
    assert caught.value.kind == "process"
