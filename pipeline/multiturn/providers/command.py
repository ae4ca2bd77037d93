"""Running an agent's command line with a time limit, and ending every process it started."""

import asyncio
import os
import sys
import tempfile
from asyncio.subprocess import Process
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from multiturn.providers import guard
from multiturn.providers.base import ProviderError, hide

_TAIL = 1_000
_LONGEST_SECRET = 10_000
_PATIENCE_SECONDS = 10.0  # the guard needs at most seven
_POLL_SECONDS = 0.1


async def run_command(
    command: Sequence[str],
    *,
    output: IO[bytes],
    stdin: bytes = b"",
    cwd: str | None,
    env: Mapping[str, str],
    secrets: Iterable[str] = (),
    timeout_seconds: float,
    answer: Path | None = None,
    kept: list[Process] | None = None,
) -> None:
    """Run a command under a guard, then end every process that it has started.

    Input and output are files, not pipes: a pipe can fill up, or be kept open by a process that
    the command has left behind. They have no names, so that no process can replace them.

    Args:
        command: the executable and its arguments.
        output: gets its standard output.
        stdin: its standard input.
        cwd: its working folder.
        env: its whole environment.
        secrets: hidden in errors, which quote its output.
        timeout_seconds: how long it may take.
        answer: wait until this file appears, not until the command ends.
        kept: gets the guard of processes that shall live on; ``end_command`` ends them.
    """
    name = os.path.basename(command[0])
    keep = "END" if kept is None else "KEEP"
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as errors:
        given.write(stdin)
        given.seek(0)
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-IS", guard.__file__, str(os.getpid()), keep, *command),
                cwd=cwd,
                env=env,
                stdin=given,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise ProviderError(f"cannot start {name!r}: {error}", kind="process") from None
        is_late = False
        try:
            async with asyncio.timeout(timeout_seconds):
                if answer is None:
                    await process.wait()
                else:
                    while not os.path.lexists(answer) and not process.returncode:
                        await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            is_late = True
        finally:
            if kept is None:
                await end_command(process)
            else:
                kept.append(process)
        end = _end_of((output, errors), secrets)
        if is_late:
            what = f"{name} took more than {timeout_seconds:g} s (timeout_seconds){end}"
            raise ProviderError(what, kind="timeout")
        if process.returncode and (answer is None or not os.path.lexists(answer)):
            what = f"{name} ended with exit code {process.returncode}{end}"
            raise ProviderError(what, kind="process")


def _end_of(files: Iterable[IO[bytes]], secrets: Iterable[str]) -> str:
    """Return the end of a command's output, for an error."""
    ends = []
    for file in files:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 2 * _TAIL - _LONGEST_SECRET))
        ends.append(hide(file.read().decode("utf-8", "replace"), secrets)[-_TAIL:].strip())
    said = "\n".join(filter(None, ends))
    return f"; the end of its output: {said}" if said else ", without any output"


async def end_command(process: Process) -> None:
    """Have a guard end its command: SIGTERM, then SIGKILL after a grace period."""
    try:
        if process.returncode is None:
            process.terminate()
            await _ended(process)
    finally:  # runs even if a second interrupt cancels the wait above
        await _ended(process)


async def _ended(process: Process) -> None:
    """Wait for the end of a guard; kill one that something has stopped."""
    try:
        await asyncio.wait_for(process.wait(), _PATIENCE_SECONDS)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
