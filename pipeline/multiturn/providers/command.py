"""Running an agent's command line: with a time limit, and so that nothing of it stays behind."""

import asyncio
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from multiturn.provider import ProviderError, hide

_TAIL = 2_000
_LONGEST_SECRET = 10_000
_GRACE_SECONDS = 2.0
_POLL_SECONDS = 0.1


async def run_command(
    command: Sequence[str],
    *,
    folder: Path,
    stdin: bytes = b"",
    cwd: str | None,
    env: Mapping[str, str],
    secrets: Iterable[str] = (),
    timeout_seconds: float,
    answer: Path | None = None,
) -> Path:
    """Run a command in a process group of its own, which is gone afterwards.

    Input and output are files, not pipes: no pipe can fill up, or be held open by a process that
    the command has left behind.

    Args:
        command: the executable and its arguments.
        folder: for the files of its input and output.
        stdin: its standard input.
        cwd: working folder.
        env: set in its environment, beside ours.
        secrets: hidden where errors quote its output.
        timeout_seconds: how long it may take.
        answer: wait for this file to appear, and not for the command to end.

    Returns:
        The file with its standard output.

    Raises:
        ProviderError: it cannot be started, failed, or took too long.
    """
    name = os.path.basename(command[0])
    stdin_file, stdout_file, stderr_file = (
        folder / f"{name}.{end}" for end in ("in", "out", "err")
    )
    stdin_file.write_bytes(stdin)
    with (
        stdin_file.open("rb") as given,
        stdout_file.open("wb") as out,
        stderr_file.open("wb") as err,
    ):
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=cwd,
                env={**os.environ, **env},
                stdin=given,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            what = f"cannot start {name!r}: {error}"
            raise ProviderError(what, kind="process") from None
    try:
        async with asyncio.timeout(timeout_seconds):
            if answer is None:
                await process.wait()
            else:
                while not answer.exists() and not process.returncode:
                    await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        what = f"{name} took more than {timeout_seconds:g} s (timeout_seconds)"
        raise ProviderError(
            what + _end_of((stderr_file, stdout_file), secrets), kind="timeout"
        ) from None
    finally:
        await _end(process)
    if process.returncode and (answer is None or not answer.exists()):
        what = f"{name} ended with exit code {process.returncode}"
        raise ProviderError(what + _end_of((stderr_file, stdout_file), secrets), kind="process")
    return stdout_file


def _end_of(files: Iterable[Path], secrets: Iterable[str]) -> str:
    """Return the end of what a command has written, as errors show it."""
    for file in files:
        with file.open("rb") as output:
            output.seek(max(0, file.stat().st_size - 2 * _TAIL - _LONGEST_SECRET))
            text = hide(output.read().decode("utf-8", "replace"), secrets)[-_TAIL:].strip()
        if text:
            return f"; the end of its output: {text}"
    return ", without any output"


async def _end(process: Process) -> None:
    """End a process and whatever it has started; first with a word, then without."""
    try:
        if process.returncode is None:
            _signal_group(process.pid, signal.SIGTERM)
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _GRACE_SECONDS)
    finally:  # also where a second signal has no patience
        _signal_group(process.pid, signal.SIGKILL)
    await process.wait()


def _signal_group(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
