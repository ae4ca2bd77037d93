"""What the benchmarks share: a suite to convert, medians in turns, and a table of ratios."""

import os
import random
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter

IS_COUNTED = shutil.which("valgrind") is not None
MULTITURN = str(Path(sys.executable).with_name("multiturn"))
_WORDS = [
    *("the", "a", "list", "parse", "value", "error", "handle", "function", "returns", "review"),
    *("please", "this", "code", "for", "each", "file", "test", "where", "does", "it", "fail"),
    *("überall", "naïve", "→", "日本語", "{x}", "[1]", "'quoted'", "it's"),
]


_USAGE = (  # in a small process of its own, because a child inherits the peak of its parent
    "import os, sys\n"
    "_, status, usage = os.wait4(os.spawnv(os.P_NOWAIT, sys.argv[1], sys.argv[1:]), 0)\n"
    "print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, file=sys.stderr)\n"
    "sys.exit(os.waitstatus_to_exitcode(status))"
)


def write_suite(path: Path, cases: int) -> None:
    """Write a suite of six turns a case, 6 kB: prose of 80 columns, half of it in segments."""
    rng = random.Random(7)

    def block(indent: str) -> list[str]:
        return [indent + " ".join(rng.choices(_WORDS, k=13)) for _ in range(12)]

    lines = ["$schema: agentv-eval-v2", "metadata:", "  systemPrompt: Be brief.", "evalcases:"]
    for case in range(cases):
        lines += [f"  - id: case-{case}", f"    outcome: Answers {case}", "    input_messages:"]
        for role in ("system", *("user", "assistant") * 2, "user"):
            lines += [f"      - role: {role}"]
            if role == "user":
                lines += ["        content:", "          - type: text", "            value: |-"]
                lines += block("              ")
            else:
                lines += ["        content: |-", *block("          ")]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def process(*command: str) -> Callable[[], object]:
    """Return what runs a process to its end, without what it prints."""
    # With PYTHONUNBUFFERED, a process writes each line by itself.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)


def usage(*command: str) -> tuple[float, float]:
    """Run a process; return CPU seconds and peak MiB of it and of those that it waits for."""
    small = (sys.executable, "-S", "-c", _USAGE, *command)
    done = subprocess.run(
        small, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True, text=True
    )
    taken, peak = done.stderr.splitlines()[-1].split()
    return float(taken), float(peak)


def seconds(subject: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    start = perf_counter()
    subject()
    return perf_counter() - start


def cpu_seconds(subject: Callable[[], object]) -> float:
    """Return the CPU seconds that a call takes, with those of the processes that it waits for."""
    start = os.times()
    subject()
    return sum(os.times()[:4]) - sum(start[:4])


def costs_of_a_case(
    commands: Mapping[str, tuple[str, ...]], small: Path, large: Path, cases: int
) -> dict[str, float]:
    """Return what each command costs for one case more: the difference of two sizes.

    It is thousands of instructions, which other processes do not change, where valgrind is there;
    else the median of paired microseconds of CPU.

    Args:
        commands: by their names; the file is added.
        small: a suite.
        large: a suite of the same kind.
        cases: how many more it has.
    """

    def difference(command: tuple[str, ...]) -> float:
        if IS_COUNTED:
            return (_instructions(*command, large.name) - _instructions(*command, small.name)) / 1e3
        return (usage(*command, large.name)[0] - usage(*command, small.name)[0]) * 1e6

    rounds = 1 if IS_COUNTED else 9
    return {
        name: statistics.median(difference(command) for _ in range(rounds)) / cases
        for name, command in commands.items()
    }


def _instructions(*command: str) -> int:
    """Return how many instructions a process takes."""
    valgrind = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")
    given = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run([*valgrind, *command], capture_output=True, text=True, env=given)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if found is None:
        raise RuntimeError(done.stderr)
    return int(found[1])


def medians(
    rounds: int,
    subjects: Mapping[str, Callable[[], object]],
    measure: Callable[[Callable[[], object]], float] = seconds,
) -> dict[str, float]:
    """Return the median seconds of each; every round has all, so that they slow down together."""
    times = [[measure(subject) for subject in subjects.values()] for _ in range(rounds)]
    columns = map(statistics.median, zip(*times, strict=True))
    return dict(zip(subjects, columns, strict=True))


def show(title: str, rows: Mapping[str, float], unit: str = "s", **most: float) -> None:
    """Print each figure with its ratio to the first, which is the floor.

    Args:
        title: of the table.
        rows: the figures, by their names.
        unit: of the figures.
        most: the ratio that a row may have at most, by the first word of its name.
    """
    print(f"\n{title}")
    floor = next(iter(rows.values()))
    for name, value in rows.items():
        goal = most.get(name.split()[0])
        limit = "" if goal is None else f"   at most {goal}"
        print(f"  {name:<46}{value:>10,.3f} {unit} {value / floor:>7.2f} x{limit}")
