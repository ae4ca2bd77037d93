"""Commands in processes of their own, which can be killed at any step of writing their files.

    with Forks() as forks:
        process = forks.start("run", "a.eval.yaml", ..., folder=folder, kill_at=3)
        assert process.wait() == -9

They are forked from a process that has done the same before: each takes a tenth of a second.
"""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, NamedTuple, Self

_WRITING = {"write", "writelines", "flush", "truncate", "close", "__exit__"}
_SYSTEM = {"fsync", "replace", "rename", "unlink", "remove", "truncate", "ftruncate", "write"}


class Process(NamedTuple):
    """A process of a command; only one runs at a time."""

    pid: int
    forks: "Forks"

    def wait(self) -> int:
        """Wait for its end, and return its exit code; that of a signal is negative."""
        return os.waitstatus_to_exitcode(self.forks.read())


class Forks:
    """Starts processes; a context manager."""

    def __enter__(self) -> Self:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._parent = subprocess.Popen([sys.executable, __file__], **pipes)
        return self

    def __exit__(self, *_: object) -> None:
        self._parent.communicate()

    def read(self) -> int:
        """Return the next number that the parent of the processes says."""
        assert self._parent.stdout is not None
        return int(self._parent.stdout.readline())

    def start(self, *arguments: str, folder: Path, **limits: int | None) -> Process:
        """Start a command; what it prints goes to the file ``printed``.

        Args:
            arguments: of ``multiturn``.
            folder: the current one.
            limits: as ``run`` takes them.
        """
        assert self._parent.stdin is not None
        self._parent.stdin.write(json.dumps([arguments, str(folder), limits]) + "\n")
        self._parent.stdin.flush()
        return Process(self.read(), self)


def run(
    arguments: list[str],
    folder: str,
    *,
    kill_at: int | None = None,
    largest: int | None = None,
    most_requests: int | None = None,
) -> None:
    """Run a command in this process.

    Args:
        arguments: of ``multiturn``.
        folder: the current one.
        kill_at: kill it at this step of writing to ``out.jsonl`` and the files beside it: just
            before and just after each call that writes, syncs, renames or removes.
        largest: no file can have more bytes, as if the disk were full.
        most_requests: in a part of a batch.
    """
    from multiturn.__main__ import main
    from multiturn.providers.batches import APIS

    os.chdir(folder)
    printed = os.open("printed", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for standard, file in ((0, os.open(os.devnull, os.O_RDONLY)), (1, printed), (2, printed)):
        os.dup2(file, standard)
    if largest is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    if most_requests is not None:
        for api in APIS.values():
            api.most_requests = most_requests
    steps = 0

    def count(_: FrameType, event: str, called: Any) -> None:
        nonlocal steps
        if event in ("c_call", "c_return") and _writes(called):
            steps += 1
            if steps == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    if kill_at is not None:
        sys.setprofile(count)
    sys.argv = ["multiturn", *arguments]
    main()


def _writes(called: Any) -> bool:
    owner, name = getattr(called, "__self__", None), getattr(called, "__name__", "")
    if getattr(owner, "__name__", "") == "posix":
        return name in _SYSTEM
    return name in _WRITING and "out.jsonl" in str(getattr(owner, "name", ""))


def _get_ready() -> None:
    """Run a batch of each vendor, which imports all that this takes."""
    import running
    from batch_server import BatchServer, write_targets

    with TemporaryDirectory() as name, BatchServer() as server:
        folder = Path(name)
        running.write_suite(folder, ["Hello"])
        for vendor in write_targets(folder, server):
            command = ("a.eval.yaml", "--target", vendor, "--batch", "--output", vendor)
            running.run(*command, folder=folder)


if __name__ == "__main__":
    os.environ["NO_PROXY"] = "127.0.0.1"
    _get_ready()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            given, where, limits = json.loads(line)
            run(given, where, **limits)
            sys.exit()
        print(child, flush=True)
        print(os.waitpid(child, 0)[1], flush=True)
