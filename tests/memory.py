"""How much memory a command takes, measured in a process that has run it before.

Run as a program, it measures the suites that it is given.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from multiturn.documents import node

measurable = Path("/proc/self/clear_refs").exists()


def peak_of_convert(suite: Path, most: int | None = None) -> float:
    """Return by how many MB converting a suite raises the peak memory of a process.

    ``most`` is how many values the suite may give to its cases; None is the limit that ships.
    """
    return peaks_of_convert(suite, most=most)[suite]


def peaks_of_convert(
    *suites: Path, command: str = "convert", most: int | None = None
) -> dict[Path, float]:
    """Return it for each of several suites, or for another command."""
    program = [sys.executable, __file__, str(most or ""), command, *map(str, suites)]
    shown = subprocess.run(program, stdout=subprocess.PIPE, check=True, text=True).stdout
    return dict(zip(suites, map(float, shown.split()), strict=True))


def _main(most: str, command: str, *suites: str) -> None:
    if most:
        node.MAX_REPEATED, node.MAX_REPEATED_BY_LENGTH = int(most), 0
    answer = os.dup(1)
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    with TemporaryDirectory() as folder:
        first = Path(folder, "first.yaml")
        first.write_text("input_messages: [{role: user, content: Hello}]")
        _run(command, str(first))
    for suite in suites:  # each in a process of its own, as memory is used again
        if not (child := os.fork()):
            Path("/proc/self/clear_refs").write_text("5")  # begin anew with the peak
            before = _peak()
            _run(command, suite)
            os.write(answer, f"{(_peak() - before) / 1000}\n".encode())
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0


def _run(command: str, suite: str) -> None:
    from multiturn.cli.group import command_line

    try:
        command_line([command, suite])
    except SystemExit as ended:
        if ended.code not in (None, 0, 1):
            raise


def _peak() -> int:
    return int(re.findall(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())[0])


if __name__ == "__main__":
    _main(*sys.argv[1:])
