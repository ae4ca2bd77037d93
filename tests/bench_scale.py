"""Measure whole processes: time against floors, memory against smaller suites, workers against one.

Each figure is the median of several rounds, all subjects in each round. Memory is the peak
resident size that the system has counted for the process.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import bench
from multiturn import Conversion, load_pipeline, load_suite

MULTITURN = str(Path(sys.executable).with_name("multiturn"))
SCAN = (
    "import sys, yaml\nfor _ in yaml.parse(open(sys.argv[1], 'rb'), Loader=yaml.CSafeLoader): pass"
)
PEAK = (
    "import os, sys\n"
    "pid = os.spawnv(os.P_NOWAIT, sys.argv[1], sys.argv[1:])\n"
    "_, status, usage = os.wait4(pid, 0)\n"
    "print(usage.ru_maxrss, file=sys.stderr)\n"
    "sys.exit(os.waitstatus_to_exitcode(status))"
)
SMALL = "  - id: case-{}\n    input_messages:\n      - role: user\n        content: Question {}?\n"


def seconds(*command: str) -> float:
    """Run a process, and return its seconds."""
    start = perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return perf_counter() - start


def peak(*command: str) -> float:
    """Run a process, and return its peak memory in MiB; from a small one, whose own it inherits."""
    small = (sys.executable, "-S", "-c", PEAK, *command)
    done = subprocess.run(small, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True)
    return int(done.stderr) / 1024


def median(rounds: int, *commands: tuple[str, ...]) -> list[float]:
    """Return the median seconds of each command."""
    times = [[seconds(*command) for command in commands] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*times, strict=True)]


def line(name: str, value: str, ratio: float, target: str = "") -> None:
    """Print one row."""
    print(f"  {name:<44}{value:>12} {ratio:>7.2f} x{f'   target {target}' if target else ''}")


def per_stage(path: Path) -> None:
    """Print how many cases each stage takes in a second."""
    cases = list(load_suite(path))
    conversions = [Conversion(case) for case in cases]
    print(f"\nstages, {len(cases):,} cases of {bench.TURNS} turns")
    for step in load_pipeline("spec").steps:
        start = perf_counter()
        conversions = [step(conversion) for conversion in conversions]
        print(f"  {step.name:<44}{len(cases) / (perf_counter() - start):>12,.0f} cases/s")


def main() -> None:
    """Print all tables."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        large = folder / "large.eval.yaml"
        bench.generate(large)
        per_stage(large)

        print(f"\nwhole processes, a suite of {large.stat().st_size / 1e6:.1f} MB")
        scan = (sys.executable, "-c", SCAN, str(large))
        floor, ours = median(5, scan, (MULTITURN, "convert", str(large)))
        line("libyaml's bare event scan, only yaml imported", f"{floor * 1000:,.0f} ms", 1)
        line("multiturn convert", f"{ours * 1000:,.0f} ms", ours / floor, "3.0")

        one = folder / "one.eval.yaml"
        one.write_text("input_messages: [{role: user, content: Hi}]")
        imports = (sys.executable, "-c", "import yaml, toolz, msgspec, click")
        floor, ours = median(21, imports, (MULTITURN, "convert", str(one)))
        line("python -c 'import yaml, toolz, msgspec, click'", f"{floor * 1000:,.0f} ms", 1)
        line("multiturn convert, one case", f"{ours * 1000:,.0f} ms", ours / floor, "1.6")

        print("\npeak memory")
        sizes = []
        for count in (1_000, 100_000):
            path = folder / f"{count}.eval.yaml"
            cases = "".join(SMALL.format(number, number) for number in range(count))
            path.write_text(f"evalcases:\n{cases}")
            sizes.append(peak(MULTITURN, "convert", str(path)))
            target = "2.0" if count > 1_000 else ""
            line(f"{count:,} cases", f"{sizes[-1]:.1f} MiB", sizes[-1] / sizes[0], target)

        print("\nfifty suites of 100 cases")
        suites, halves = folder / "suites", [folder / "half-0", folder / "half-1"]
        for each in (suites, *halves):
            each.mkdir()
        bench.CASES = 100
        for number in range(50):
            path = suites / f"{number:02}.eval.yaml"
            bench.generate(path)
            os.link(path, halves[number % 2] / path.name)
        by_hand = " & ".join(f"{MULTITURN} convert {half}" for half in halves) + " & wait"
        alone, two, hand = median(
            5,
            (MULTITURN, "convert", str(suites)),
            (MULTITURN, "convert", str(suites), "--workers", "2"),
            ("sh", "-c", by_hand),
        )
        line("one worker", f"{alone * 1000:,.0f} ms", 1)
        line("two workers", f"{two * 1000:,.0f} ms", alone / two, "1.6")
        line("two processes, half the suites each", f"{hand * 1000:,.0f} ms", alone / hand)


if __name__ == "__main__":
    main()
