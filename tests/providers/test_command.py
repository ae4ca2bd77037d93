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
from standins import COMMON

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


async def run(folder: Path, program: str, *args: str, **options: Any) -> bytes:
    command = (standins.executable(folder, COMMON + program), *args)
    given: dict[str, Any] = {"cwd": None, "env": os.environ, "timeout_seconds": 60, **options}
    with tempfile.TemporaryFile() as output:
        await run_command(command, output=output, **given)
        output.seek(0)
        return output.read()


def error(folder: Path, program: str, **options: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        asyncio.run(run(folder, program, **options))
    return caught.value


def test_gives_standard_input_and_returns_standard_output(tmp_path: Path) -> None:
    program = "print(sys.argv[1:], os.getcwd(), sys.stdin.read())"
    work = tmp_path / "work"
    work.mkdir()
    output = asyncio.run(run(tmp_path, program, "-a", "b c", stdin=b"Hi", cwd=str(work)))
    assert output.decode() == f"['-a', 'b c'] {work} Hi\n"


def test_the_environment_is_what_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OURS", "1")
    output = asyncio.run(run(tmp_path, "print(sorted(os.environ.items()))", env={"A": "b c"}))
    given = ast.literal_eval(output.decode())
    assert [pair for pair in given if pair[0] != "LC_CTYPE"] == [("A", "b c")]


def test_no_pipe_fills_up(tmp_path: Path) -> None:
    program = """
sys.stderr.write("x" * 1_000_000)
sys.stdout.write("y" * 1_000_000)
sys.stdout.write(sys.stdin.read())
"""
    output = asyncio.run(run(tmp_path, program, stdin=b"z" * 1_000_000))
    assert output == b"y" * 1_000_000 + b"z" * 1_000_000


def test_a_process_that_does_not_read_its_input_may_succeed(tmp_path: Path) -> None:
    assert asyncio.run(run(tmp_path, "print(1)", stdin=b"z" * 1_000_000)) == b"1\n"


@pytest.mark.parametrize(
    ("program", "words"),
    [
        pytest.param("sys.exit(1)", ["exit code 1"], id="exit code 1 without a word"),
        pytest.param("sys.exit('no login')", ["exit code 1", "no login"], id="a word"),
        pytest.param("print('limit'); sys.exit(77)", ["77", "limit"], id="a word on output"),
        pytest.param(
            "os.write(2, b'\\xff no \\xfe'); sys.exit(2)", ["2", "no"], id="a word that is not text"
        ),
        pytest.param("os.kill(os.getpid(), 9)", ["137"], id="killed"),
        pytest.param("os.abort()", ["134"], id="crashed"),
    ],
)
def test_a_failure_is_an_error_with_the_end_of_the_output(
    tmp_path: Path, program: str, words: list[str]
) -> None:
    failure = error(tmp_path, program)
    assert failure.kind == "process"
    assert [word for word in ["agent", *words] if word not in failure.what] == []


def test_of_a_long_output_an_error_has_the_end(tmp_path: Path) -> None:
    program = "sys.exit('first ' + '\\n'.join(f'line {n}' for n in range(9_000)) + ' last')"
    what = error(tmp_path, program).what
    assert "line 8999 last" in what
    assert "first" not in what
    assert len(what) < 10_000


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_an_error_has_the_end_of_either_output(tmp_path: Path, stream: str) -> None:
    program = "print('login has expired'); print('I am a warning', file=sys.stderr); sys.exit(1)"
    word = {"stdout": "login has expired", "stderr": "I am a warning"}[stream]
    assert word in error(tmp_path, program).what


@pytest.mark.parametrize(
    ("command", "word"),
    [
        pytest.param("no-such-agent", "no-such-agent", id="a command that is not on the path"),
        pytest.param("/no/such/agent", "/no/such/agent", id="a file that is not there"),
        pytest.param("/", "/", id="a folder"),
        pytest.param("{folder}/text", "text", id="a file that is no program"),
        pytest.param("a\0b", "a", id="a name with a null character"),
    ],
)
def test_what_cannot_be_started_is_an_error(tmp_path: Path, command: str, word: str) -> None:
    (tmp_path / "text").write_text("Hi")
    name = command.format(folder=tmp_path)
    with pytest.raises(ProviderError) as caught, tempfile.TemporaryFile() as output:
        asyncio.run(run_command([name], output=output, cwd=None, env={}, timeout_seconds=9))
    assert caught.value.kind == "process"
    assert word in caught.value.what


def test_a_missing_working_folder_is_an_error(tmp_path: Path) -> None:
    failure = error(tmp_path, "", cwd=str(tmp_path / "nowhere"))
    assert failure.kind == "process"
    assert "nowhere" in failure.what


def test_a_time_out_is_an_error_with_the_end_of_the_output(tmp_path: Path) -> None:
    with standins.witness(tmp_path) as witness:
        program = f"print('thinking', flush=True); stay({witness.path!r})"
        with pytest.raises(ProviderError) as caught:
            standins.until(witness.heard, run(tmp_path, program, timeout_seconds=90))
    assert caught.value.kind == "timeout"
    assert [w for w in ("agent", "90", "thinking") if w not in caught.value.what] == []


def test_a_time_limit_is_kept(tmp_path: Path) -> None:
    failure = error(tmp_path, "time.sleep(600)", timeout_seconds=0.1)
    assert failure.kind == "timeout"


def test_a_process_may_clean_up_when_its_time_is_up(tmp_path: Path) -> None:
    with standins.witness(tmp_path) as witness:
        program = f"""
def clean_up(*_):
    open("cleaned-up", "x").close()
    os._exit(0)
signal.signal(signal.SIGTERM, clean_up)
stay({witness.path!r})
"""
        with pytest.raises(ProviderError, match="took"):
            standins.until(witness.heard, run(tmp_path, program, cwd=str(tmp_path)))
    assert (tmp_path / "cleaned-up").exists()


@pytest.mark.parametrize("change", LEFT_BEHIND)
@pytest.mark.parametrize("code", [pytest.param(0, id="success"), pytest.param(3, id="failure")])
def test_nothing_outlives_a_process_that_ends(tmp_path: Path, code: int, change: str) -> None:
    with standins.witness(tmp_path) as witness:
        program = f"leave_behind({witness.path!r}, {change})\n"
        # Ends only when the child is really there.
        program += f"while not os.path.exists({str(tmp_path / 'heard')!r}): time.sleep(0.005)\n"
        program += f"sys.exit({code})"

        def heard() -> bool:
            if witness.heard():
                (tmp_path / "heard").touch()
            return False

        work = run(tmp_path, program)
        if code:
            with pytest.raises(ProviderError, match="exit code 3"):
                standins.until(heard, work)
        else:
            standins.until(heard, work)


@pytest.mark.parametrize("change", LEFT_BEHIND)
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
        pytest.param(1, id="cancel"),
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
    witness.end()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of a parent's end")
@pytest.mark.parametrize("change", LEFT_BEHIND)
def test_nothing_outlives_multiturn_when_it_is_killed(tmp_path: Path, change: str) -> None:
    with standins.witness(tmp_path) as witness:
        path = repr(witness.path)
        program = f"leave_behind({path}, {change}); stay({path})"
        command = standins.executable(tmp_path, COMMON + program)
        script = (
            "import asyncio, os, sys, tempfile\n"
            "from multiturn.providers.command import end_command, run_command\n"
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
    with standins.witness(tmp_path) as witness:
        program = standins.executable(tmp_path, f"{COMMON}stay({witness.path!r})", "other")
        pid = os.spawnv(os.P_NOWAIT, program, [program])
        error(tmp_path, "time.sleep(600)", timeout_seconds=0.1)
        assert os.waitpid(pid, os.WNOHANG) == (0, 0)
        while not witness.heard():
            pass
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


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
