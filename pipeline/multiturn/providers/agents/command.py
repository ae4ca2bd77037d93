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
from contextlib import ExitStack, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO, NamedTuple

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
_POLL_SECONDS = 0.05


class Command(NamedTuple):
    """A command that runs under its guard, and its outputs: files without a name."""

    process: Process
    outputs: Sequence[BinaryIO]

    def has_printed_too_much(self) -> bool:
        """Return whether an output is larger than an answer may be."""
        return any(os.fstat(each.fileno()).st_size > LARGEST_ANSWER for each in self.outputs)

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
        """Close its outputs."""
        for output in self.outputs:
            output.close()


async def run_command(
    command: Sequence[str],
    *,
    take_line: Callable[[bytes], None] | None = None,
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
        take_line: gets each line of its standard output once the command has ended.
        stdin: its standard input, a file without a name, so that no process can replace it.
        env: its whole environment.
        secrets: hidden in errors, which quote its output.
        answer: wait until this file appears, not until the command ends.
        kept: gets the command if its processes shall live on; ``Command.end`` ends them.
    """
    name = os.path.basename(command[0])
    with ExitStack() as files:
        outputs = [files.enter_context(tempfile.TemporaryFile()) for _ in range(2)]
        process = await _start(command, outputs, stdin, cwd, env, keep=kept is not None)
        running, is_late = Command(process, outputs), False
        try:
            async with asyncio.timeout(timeout_seconds):
                while not (_has_ended(process, answer) or running.has_printed_too_much()):
                    # Free the disk of outputs that nobody reads: the answers are there.
                    for output in [each for other in kept or () for each in other.outputs]:
                        output.truncate(0)
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            is_late = True
        finally:
            if kept is None:
                await running.end()
            else:
                kept.append(running)
                files.pop_all()
        if running.has_printed_too_much():
            raise MalformedReplyError(f"{name} printed more than {LARGEST_ANSWER // 2**20} MiB")
        if take_line is not None:
            outputs[0].seek(0)
            for line in outputs[0]:
                take_line(line.removesuffix(b"\n"))
        end = _end_of(outputs, secrets)
    if is_late:
        what = f"{name} took more than {timeout_seconds:g} s (timeout_seconds){end}"
        raise ReplyTimeoutError(what)
    if process.returncode and (answer is None or not os.path.lexists(answer)):
        raise ProcessFailedError(f"{name} ended with exit code {process.returncode}{end}")


def _has_ended(process: Process, answer: Path | None) -> bool:
    """Return whether the answer is there, or will not come; the command may end well before it."""
    if answer is None:
        return process.returncode is not None
    return bool(process.returncode) or os.path.lexists(answer)


async def _start(
    command: Sequence[str],
    outputs: Sequence[BinaryIO],
    stdin: bytes,
    cwd: str | None,
    env: Mapping[str, str],
    *,
    keep: bool,
) -> Process:
    """Start a guard with a command."""
    with tempfile.TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        arguments = (guard.__file__, str(os.getpid()), "KEEP" if keep else "END", *command)
        try:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-IS", *arguments),
                cwd=cwd,
                env=env,
                stdin=given,
                stdout=outputs[0],
                stderr=outputs[1],
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            name = os.path.basename(command[0])
            raise ProcessFailedError(f"cannot start {name!r}: {error}") from None


def _end_of(outputs: Iterable[BinaryIO], secrets: Iterable[str]) -> str:
    """Return the end of a command's output, for an error."""
    ends = []
    for output in outputs:
        # Not by ``seek``, which would move where a command that lives on writes.
        size, most = os.fstat(output.fileno()).st_size, 2 * _TAIL + _LONGEST_SECRET
        end = os.pread(output.fileno(), most, max(0, size - most))
        ends.append(hide(end.decode("utf-8", "replace"), secrets)[-_TAIL:].strip())
    said = "\n".join(filter(None, ends))
    return f"; the end of its output: {said}" if said else ", without any output"
