"""Running an agent's command line with a time limit, and ending every process it started."""

import asyncio
import os
import re
import signal
import sys
import tempfile
import time
from asyncio.subprocess import Process
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from multiturn.errors import MalformedReplyError, ProcessFailedError, ReplyTimeoutError
from multiturn.providers.agents import guard
from multiturn.providers.base import LARGEST_ANSWER
from multiturn.providers.secrets import hide, is_secret, passwords_in

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_INHERITED = (
    *("PATH", "HOME", "USER", "SHELL", "LANG", "LC_*", "TERM", "TMPDIR", "TZ", "XDG_*"),
    *_PROXIES,
    *map(str.lower, _PROXIES),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"),
    "CODEX_HOME",
    # Windows, where Python has all names in capitals
    *("SYSTEMROOT", "APPDATA", "LOCALAPPDATA", "USERPROFILE", "PATHEXT", "COMSPEC"),
)
_SHORTEST_KEY = 8
_KEY = re.compile(r"(?:^|_)(?:PAT|JWT|AUTH|AUTHORIZATION|BEARER|COOKIES?|DSN|CONNECTION_STRING)$")
ADVICE = "an agent inherits few environment variables; name others that it needs in pass_env"


def inherited(pass_env: Sequence[str]) -> dict[str, str]:
    """Return the variables that an agent inherits: a fixed list, and what ``pass_env`` matches."""
    globs = (*_INHERITED, *pass_env)
    return {name: value for name, value in os.environ.items() if _matches(name, globs)}


def hidden_values(pass_env: Sequence[str]) -> Iterator[str]:
    """Yield the values that are hidden in what an agent says: it may find out any variable.

    They are those of keys, proxies, and passwords in URLs. A short value is hardly a key, unless
    the agent gets it as one.
    """
    for name, value in os.environ.items():
        if not _matches(name, pass_env) and len(value) < _SHORTEST_KEY:
            continue
        if is_secret(name) or _KEY.search(name) or name.upper() in _PROXIES[:3]:
            yield value
        yield from passwords_in(value)


def _matches(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


_TAIL = 1_000
_LONGEST_SECRET = 10_000
_PATIENCE_SECONDS = 10.0  # the guard needs at most seven
_POLL_SECONDS = 0.1
_CHUNK = 2**16
_LARGEST_PIPE = 2**20  # bytes that a pipe may hold after its writers have ended

Line = Callable[[bytes], None]


class Output:
    """An output of a command, which is read as it comes; only its end is kept.

    ``take_line``, if given, gets each line. It may get 16 MiB in all, then the command is ended.
    """

    def __init__(self, take_line: Line | None = None) -> None:
        self.end = b""
        self.is_too_large = False
        self._take_line = take_line
        self._line: list[bytes] = []
        self._size = 0
        self._process: Process | None = None
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)

    def watch(self, process: Process) -> None:
        """Begin to read what a process writes."""
        self._process = process
        asyncio.get_running_loop().add_reader(self._reader, self._read)

    def _read(self) -> bool:
        """Read what is there, at most a chunk of it; return whether there was any."""
        try:
            data = b"" if self.is_too_large else os.read(self._reader, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            asyncio.get_running_loop().remove_reader(self._reader)
            return False
        self.end = (self.end + data)[-2 * _TAIL - _LONGEST_SECRET :]
        if self._take_line is None:
            return True
        self._size += len(data)
        self.is_too_large = self._size > LARGEST_ANSWER
        if not self.is_too_large:
            *lines, rest = data.split(b"\n")
            for line in lines:
                self._take_line(b"".join((*self._line, line)))
                self._line.clear()
            self._line.append(rest)
        elif self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):  # its guard ends the command, which waits for us
                self._process.terminate()
        return True

    def drain(self) -> None:
        """Read what is left by a command that has ended, and take its last line."""
        for _ in range(_LARGEST_PIPE // _CHUNK):
            if not self._read():
                break
        if self._take_line is not None and not self.is_too_large:
            self._take_line(b"".join(self._line))
            self._line.clear()

    def close_writer(self) -> None:
        """Leave the writing to the command."""
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def close(self) -> None:
        """Read no more."""
        self.close_writer()
        if self._process is not None:
            asyncio.get_running_loop().remove_reader(self._reader)
        os.close(self._reader)


class Command(NamedTuple):
    """A command that runs under its guard, and its outputs."""

    process: Process
    outputs: Sequence[Output]

    async def end(self) -> None:
        """Have the guard end the command: SIGTERM, then SIGKILL after a grace period."""
        try:
            if self.process.returncode is None:
                self.process.terminate()
                with suppress(ProcessLookupError):  # the agent may have stopped its guard
                    os.kill(self.process.pid, signal.SIGCONT)
                await self._ended()
        finally:  # runs even if a second interrupt cancels the wait above
            await self._ended()

    async def _ended(self) -> None:
        """Wait for the end of the guard; kill one that stays stopped, and all that is below it."""
        try:
            await asyncio.wait_for(self.process.wait(), _PATIENCE_SECONDS)
        except TimeoutError:
            end = time.monotonic() + _PATIENCE_SECONDS
            while (left := guard.descendants(self.process.pid)) and time.monotonic() < end:
                for pid in left:
                    with suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
                await asyncio.sleep(0)
            with suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()

    def close(self) -> None:
        """Read what is left in its outputs, and no more."""
        for output in self.outputs:
            output.drain()
            output.close()


async def run_command(
    command: Sequence[str],
    *,
    take_line: Line | None = None,
    stdin: bytes = b"",
    cwd: str | None,
    env: Mapping[str, str],
    secrets: Iterable[str] = (),
    timeout_seconds: float,
    answer: Path | None = None,
    kept: list[Command] | None = None,
) -> None:
    """Run a command under a guard, then end every process that it has started.

    Args:
        command: the executable and its arguments.
        take_line: gets each line of its standard output, as it comes: 16 MiB at most.
        stdin: its standard input, a file without a name, so that no process can replace it.
        cwd: its working folder.
        env: its whole environment.
        secrets: hidden in errors, which quote its output.
        timeout_seconds: how long it may take.
        answer: wait until this file appears, not until the command ends.
        kept: gets the command if its processes shall live on; ``Command.end`` ends them.
    """
    name = os.path.basename(command[0])
    outputs = (Output(take_line), Output())
    try:
        running = await _start(command, outputs, stdin, cwd, env, keep=kept is not None)
    except BaseException:
        for output in outputs:
            output.close()
        raise
    process, is_late = running.process, False
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
            try:
                await running.end()
            finally:
                running.close()
        else:
            kept.append(running)
            for output in outputs:
                output.drain()
    if outputs[0].is_too_large:
        raise MalformedReplyError(f"{name} printed more than {LARGEST_ANSWER // 2**20} MiB")
    end = _end_of(outputs, secrets)
    if is_late:
        what = f"{name} took more than {timeout_seconds:g} s (timeout_seconds){end}"
        raise ReplyTimeoutError(what)
    if process.returncode and (answer is None or not os.path.lexists(answer)):
        raise ProcessFailedError(f"{name} ended with exit code {process.returncode}{end}")


async def _start(
    command: Sequence[str],
    outputs: Sequence[Output],
    stdin: bytes,
    cwd: str | None,
    env: Mapping[str, str],
    *,
    keep: bool,
) -> Command:
    """Start a guard with a command, and read what they write."""
    with tempfile.TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        arguments = (guard.__file__, str(os.getpid()), "KEEP" if keep else "END", *command)
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-IS", *arguments),
                cwd=cwd,
                env=env,
                stdin=given,
                stdout=outputs[0].writer,
                stderr=outputs[1].writer,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            name = os.path.basename(command[0])
            raise ProcessFailedError(f"cannot start {name!r}: {error}") from None
    for output in outputs:
        output.close_writer()
        output.watch(process)
    return Command(process, outputs)


def _end_of(outputs: Iterable[Output], secrets: Iterable[str]) -> str:
    """Return the end of a command's output, for an error."""
    ends = [
        hide(output.end.decode("utf-8", "replace"), secrets)[-_TAIL:].strip() for output in outputs
    ]
    said = "\n".join(filter(None, ends))
    return f"; the end of its output: {said}" if said else ", without any output"
