"""How long do a large suite and its snapshots take, and how much memory do many cases take?

The floor of times is what libyaml needs to find the events of the same file, and for JSON Lines
what msgspec needs to read the lines: it cannot be saved. They are CPU times, so that a machine
which is busy gives the same ratios as one which is not.

Of a tiny case, with Python 3.11, reading takes two fifths, of which libyaml's part is a half; the
stages and the checks of what they made take a third, the request, its record and the output a
quarter.
"""

import json
import os
import sys
import tempfile
from collections import deque
from pathlib import Path
from time import process_time

import yaml

from measuring import (
    IS_COUNTED,
    MULTITURN,
    costs_of_a_case,
    cpu_seconds,
    medians,
    process,
    show,
    usage,
    write_suite,
)
from multiturn import Conversion, load_pipeline, load_suite
from multiturn.explaining.record import record_of, to_json

_SCAN = "import sys, yaml\nfor _ in yaml.parse(open(sys.argv[1], 'rb'), yaml.CSafeLoader): pass"
_JSON_SCAN = "import sys, msgspec\nfor line in open(sys.argv[1], 'rb'): msgspec.json.decode(line)"
_MOST: dict[str, dict[str, float]] = {
    "large": {"convert": 3.0, "check": 2.5, "list": 1.9},
    "tiny": {"convert": 4.2, "check": 3.7, "list": 2.7},
}
_CASE = "  - id: case-{}\n    input_messages:\n      - role: user\n        content: Question {}?\n"


def time() -> None:
    """Print times against libyaml's bare event scan of the same text."""
    path = Path("large.eval.yaml")
    write_suite(path, 2_000)
    text = path.read_text(encoding="utf-8")
    pipeline = load_pipeline("spec")

    def convert() -> None:
        for case in load_suite(path):
            to_json(record_of(pipeline.request(case)))

    size = _size(path, 2_000)
    subjects = {
        "libyaml's bare event scan": lambda: deque(yaml.parse(text, yaml.CSafeLoader), 0),
        "yaml.load with CSafeLoader": lambda: yaml.load(text, yaml.CSafeLoader),
        "load_suite": lambda: list(load_suite(path)),
        "convert to JSON lines": convert,
    }
    show(f"{size}, in this process", medians(7, subjects, cpu_seconds), load_suite=2.0, convert=3.5)
    show_processes(path, size, yaml=3.9, json_lines=10.0)
    ours = process(MULTITURN, "convert", path.name)
    process(MULTITURN, "snapshot", path.name)()
    check = process(MULTITURN, "snapshot", path.name, "--check")
    subjects = {"multiturn convert": ours, "checking that nothing has changed": check}
    figures = medians(5, subjects, cpu_seconds)
    show(f"{size}, their snapshots", figures, checking=1.8)

    conversions = [Conversion(case) for case in load_suite(path)]
    print("\nstages, cases a second")
    for step in pipeline.steps:
        start = process_time()
        conversions = [step(conversion) for conversion in conversions]
        print(f"  {step.name:<46}{len(conversions) / (process_time() - start):>10,.0f}")


def tiny_cases() -> None:
    """Print times where the work for each case is more than its text."""
    path = write_tiny_cases(20_000)
    show_processes(path, _size(path, 20_000), yaml=7.2, json_lines=32.0)


def show_processes(path: Path, size: str, **most: float) -> None:
    """Print what conversions take with their imports, against scans of the same files.

    Args:
        path: a suite in YAML.
        size: the suite's, in words.
        most: the ratio that each format may have at most.
    """
    for name, file, code in (
        ("yaml", path, _SCAN),
        ("json_lines", _as_json_lines(path), _JSON_SCAN),
    ):
        scan = process(sys.executable, "-c", code, file.name)
        convert = process(MULTITURN, "convert", file.name)
        subjects = {f"a bare scan of {file.suffix}": scan, "multiturn convert": convert}
        title = f"{size}, as whole processes"
        show(title, medians(5, subjects, cpu_seconds), multiturn=most[name])


def _as_json_lines(path: Path) -> Path:
    """Write the cases of a suite in YAML as lines of JSON."""
    lines = path.with_suffix(".jsonl")
    cases = yaml.load(path.read_bytes(), yaml.CSafeLoader)["evalcases"]
    lines.write_text("".join(json.dumps(case) + "\n" for case in cases))
    return lines


def write_tiny_cases(count: int) -> Path:
    """Write a suite of one short message a case."""
    path = Path(f"{count}.eval.yaml")
    cases = "".join(_CASE.format(number, number) for number in range(count))
    path.write_text(f"evalcases:\n{cases}")
    return path


def _size(path: Path, cases: int) -> str:
    return f"{cases:,} cases, {path.stat().st_size / 1e6:.1f} MB"


def each_case() -> None:
    """Print what one case more costs, without the start of a process."""
    unit = "k instructions" if IS_COUNTED else "µs"
    multiturn = (sys.executable, "-m", "multiturn")
    commands: dict[str, tuple[str, ...]] = {
        name: (*multiturn, name) for name in ("convert", "check", "list")
    }
    large = [Path(f"large-{count}.eval.yaml") for count in (20, 80)]
    for path, count in zip(large, (20, 80), strict=True):
        write_suite(path, count)
    tiny = [write_tiny_cases(count) for count in (300, 900)]
    for words, (small, more), cases in (("large", large, 60), ("tiny", tiny, 600)):
        scan: dict[str, tuple[str, ...]] = {
            "libyaml's bare event scan": (sys.executable, "-c", _SCAN)
        }
        title = f"one more of {words} cases"
        show(title, costs_of_a_case(scan | commands, small, more, cases), unit, **_MOST[words])
    lines = {
        "msgspec's bare scan": (sys.executable, "-c", _JSON_SCAN),
        "convert": commands["convert"],
    }
    for words, suites, cases in (("large", large, 60), ("tiny", tiny, 600)):
        small, more = map(_as_json_lines, suites)
        show(f"one more {words} line", costs_of_a_case(lines, small, more, cases), unit)


def memory() -> None:
    """Print the peak memory that the system counts."""
    figures = {}
    for count in (1_000, 100_000):
        path = write_tiny_cases(count)
        figures[f"{count} cases"] = usage(MULTITURN, "convert", path.name)[1]
    show("peak memory", figures, "MiB", **{"100000": 2.0})


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        each_case()
        time()
        tiny_cases()
        memory()
