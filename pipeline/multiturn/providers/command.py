"""Running an agent's command line with a time limit, and ending every process it started."""

import asyncio
import os
import signal
from asyncio.subprocess import Process
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from multiturn.providers.base import ProviderError, hide

# Set in the environment of a command, and inherited by the processes that it starts.
_MARK = "MULTITURN_RUN"

_TAIL = 1_000
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
    mark: str | None = None,
) -> Path:
    """Run a command, then end the processes that it has started.

    These are its process group and, on Linux, all processes that inherited its environment.

    Input and output are files, not pipes: a pipe can fill up, or be kept open by a process that
    the command has left behind.

    Args:
        command: the executable and its arguments.
        folder: holds the files ``stdin``, ``stdout`` and ``stderr``.
        stdin: its standard input.
        cwd: working folder.
        env: variables to add to the environment.
        secrets: values to hide in errors that quote its output.
        timeout_seconds: how long it may take.
        answer: wait until this file appears, not until the command ends.
        mark: leave processes outside its group running, for ``end_marked``.

    Returns:
        The file with its standard output.

    Raises:
        ProviderError: it cannot be started, ended with an error, or took too long.
    """
    name = os.path.basename(command[0])
    own_mark = mark or uuid4().hex
    streams = [folder / stream for stream in ("stdin", "stdout", "stderr")]
    streams[0].write_bytes(stdin)
    with streams[0].open("rb") as given, streams[1].open("wb") as out, streams[2].open("wb") as err:
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=cwd,
                env={**os.environ, **env, _MARK: own_mark},
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
        said = _end_of(streams[1:], secrets)
        raise ProviderError(what + said, kind="timeout") from None
    finally:
        try:
            await _end(process)
        finally:
            if mark is None:
                end_marked(own_mark)
    if process.returncode and (answer is None or not answer.exists()):
        what = f"{name} ended with exit code {process.returncode}"
        raise ProviderError(what + _end_of(streams[1:], secrets), kind="process")
    return streams[1]


def _end_of(files: Iterable[Path], secrets: Iterable[str]) -> str:
    """Return the end of a command's output, for an error."""
    ends = []
    for file in files:
        with file.open("rb") as output:
            output.seek(max(0, file.stat().st_size - 2 * _TAIL - _LONGEST_SECRET))
            ends.append(hide(output.read().decode("utf-8", "replace"), secrets)[-_TAIL:].strip())
    said = "\n".join(filter(None, ends))
    return f"; the end of its output: {said}" if said else ", without any output"


async def _end(process: Process) -> None:
    """Terminate a process group: SIGTERM, then SIGKILL after a grace period."""
    try:
        if process.returncode is None:
            _signal_group(process.pid, signal.SIGTERM)
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _GRACE_SECONDS)
    finally:  # runs even if a second interrupt cancels the wait above
        _signal_group(process.pid, signal.SIGKILL)
    await process.wait()


def _signal_group(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def end_marked(mark: str) -> None:
    """Kill all processes that have a mark, in any session; on Linux only."""
    for _ in range(10):  # they may start others meanwhile
        found = list(_marked(f"{_MARK}={mark}".encode()))
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return


def _marked(mark: bytes) -> Iterator[int]:
    """Yield the ids of running processes with a mark in their environment."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name)
