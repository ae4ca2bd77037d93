"""How much memory a command takes, measured in a fork of a process that has run it before.

Run as a program, it measures the suites that it is given, a path a line.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from tempfile import TemporaryDirectory

measurable = Path("/proc/self/clear_refs").exists()


@contextmanager
def measuring() -> Iterator[Callable[[Path], float]]:
    """Give a function that returns by how many MB converting a suite raises the peak memory.

    The command has to end with 0 or 1.
    """
    command = [sys.executable, __file__]
    with Popen(command, stdin=PIPE, stdout=PIPE, text=True) as process:
        ask, answer = process.stdin, process.stdout
        assert ask is not None
        assert answer is not None

        def peak_of_convert(suite: Path) -> float:
            ask.write(f"{suite}\n")
            ask.flush()
            return float(answer.readline())

        yield peak_of_convert
        process.kill()  # its input may stay open in a fork of this process


def _main() -> None:
    answer = os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    with TemporaryDirectory() as folder:
        first = Path(folder, "first.yaml")
        first.write_text("input_messages: [{role: user, content: Hello}]")
        _convert(str(first))
    for line in sys.stdin:
        if os.fork() == 0:
            Path("/proc/self/clear_refs").write_text("5")  # begin anew with the peak
            before = _peak()
            _convert(line.rstrip("\n"))
            print((_peak() - before) / 1000, file=answer, flush=True)
            os._exit(0)
        _, status = os.wait()
        if status:
            print(f"converting {line!r} ended with {status}", file=answer, flush=True)


def _convert(suite: str) -> None:
    from multiturn.cli.group import main

    try:
        main(["convert", suite])
    except SystemExit as ended:
        if ended.code not in (None, 0, 1):
            os._exit(1)


def _peak() -> int:
    return int(re.findall(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())[0])


if __name__ == "__main__":
    _main()
