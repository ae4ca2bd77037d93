"""How much memory do many cases take, against few? The peak that the system counts."""

import subprocess
import sys
import tempfile
from pathlib import Path

from measuring import MULTITURN, show

_CASE = "  - id: case-{}\n    input_messages:\n      - role: user\n        content: Question {}?\n"
_PEAK = (  # a small process of its own, because a child inherits the peak of its parent
    "import os, sys\n"
    "_, status, usage = os.wait4(os.spawnv(os.P_NOWAIT, sys.argv[1], sys.argv[1:]), 0)\n"
    "print(usage.ru_maxrss, file=sys.stderr)\n"
    "sys.exit(os.waitstatus_to_exitcode(status))"
)


def peak(*command: str) -> float:
    """Run a process, and return its peak memory in MiB."""
    small = (sys.executable, "-S", "-c", _PEAK, *command)
    done = subprocess.run(small, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True)
    return int(done.stderr) / 1024


def main() -> None:
    """Print the table."""
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        for count in (1_000, 100_000):
            path = Path(folder, f"{count}.eval.yaml")
            cases = "".join(_CASE.format(number, number) for number in range(count))
            path.write_text(f"evalcases:\n{cases}")
            figures[f"{count} cases"] = peak(MULTITURN, "convert", str(path))
    show("peak memory", figures, "MiB", **{"100000": 2.0})


if __name__ == "__main__":
    main()
