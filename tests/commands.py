"""Commands, run inside this process, which takes a tenth of the time, or as one of their own."""

import importlib
import os
import pty
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import chdir, suppress
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from multiturn import logs

Process = subprocess.Popen[str]
Done = subprocess.CompletedProcess[str]


def run(
    *arguments: str, folder: Path, given: str = "", env: Mapping[str, str | None] | None = None
) -> Done:
    """Run a command in a folder, and leave nothing of what it imported or set.

    Signals, pipes, terminals and what happens at a process's end need ``start``.
    """
    from multiturn.cli.group import command_line

    modules, path = set(sys.modules), [*sys.path]
    sys.path.insert(0, str(folder))  # as for python -m
    importlib.invalidate_caches()
    try:
        with chdir(folder):
            done = CliRunner().invoke(
                command_line, arguments, input=given, env=env, prog_name="multiturn"
            )
    finally:
        sys.path[:] = path
        logs._settings = None
        for name in sys.modules.keys() - modules:
            if _is_below(name, folder):
                del sys.modules[name]
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


def start(*arguments: str, folder: Path, **options: Any) -> Process:
    """Start a command as a process."""
    command = [sys.executable, "-W", "error", "-m", "multiturn", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=folder, **{**pipes, **options})


def read_terminal(*arguments: str, folder: Path, stream: str, **options: Any) -> str:
    """Start a command with a stream, or several, on a terminal, and return what that shows."""
    ours, its = pty.openpty()
    process = start(*arguments, folder=folder, **dict.fromkeys(stream.split(), its), **options)
    os.close(its)
    shown = b""
    with suppress(OSError):  # Linux says EIO when the last writer is gone
        while block := os.read(ours, 65536):
            shown += block
    os.close(ours)
    process.communicate(timeout=60)
    return shown.decode()


def full_disk(size: int) -> Callable[[], None]:
    """Return a ``preexec_fn``: files may have so many bytes, which fails as a full disk does."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


def _is_below(name: str, folder: Path) -> bool:
    file = getattr(sys.modules[name], "__file__", None)
    return file is not None and os.path.realpath(file).startswith(os.path.realpath(folder))
