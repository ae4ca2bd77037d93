"""Measure loading and conversion against libyaml's bare event scan, and start-up against imports.

Each figure is the median of several rounds, all subjects in each round, so that a machine that
slows down slows all of them; the ratio is what counts.
"""

import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import yaml

from multiturn import load_pipeline, load_suite
from multiturn.prompts.record import record_of, to_json

CASES, TURNS, ROUNDS = 2_000, 6, 7
WORDS = [
    *("the", "a", "list", "parse", "value", "error", "handle", "function", "returns", "review"),
    *("please", "this", "code", "for", "each", "file", "test", "where", "does", "it", "fail"),
    *("überall", "naïve", "→", "日本語", "{x}", "[1]", "'quoted'", "it's"),
]


def generate(path: Path) -> None:
    """Write a suite of about 12 MB: prose of 80 columns, half of it in segments."""
    rng = random.Random(7)
    lines = ["$schema: agentv-eval-v2", "metadata:", "  systemPrompt: Be brief.", "evalcases:"]

    def block(indent: str) -> list[str]:
        return [indent + " ".join(rng.choices(WORDS, k=13)) for _ in range(12)]

    for case in range(CASES):
        lines += [f"  - id: case-{case}", f"    outcome: Answers {case}", "    input_messages:"]
        for turn in range(TURNS):
            role = "system" if turn == 0 else ("user", "assistant")[(turn + 1) % 2]
            lines += [f"      - role: {role}"]
            if turn % 2:
                lines += ["        content:", "          - type: text", "            value: |-"]
                lines += block("              ")
            else:
                lines += ["        content: |-", *block("          ")]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def measure(subjects: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the median seconds of each subject."""
    times: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(rounds):
        for name, run in subjects.items():
            start = perf_counter()
            run()
            times[name].append(perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def report(title: str, seconds: dict[str, float], targets: dict[str, float]) -> None:
    """Print the times, and their ratios to the first."""
    print(f"\n{title}")
    floor = next(iter(seconds.values()))
    for name, value in seconds.items():
        target = f"   target {targets[name]:.1f}" if name in targets else ""
        print(f"  {name:<34}{value * 1000:>9.1f} ms {value / floor:>7.2f} x{target}")


def main() -> None:
    """Print both tables."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "large.eval.yaml")
        generate(path)
        text = path.read_text(encoding="utf-8")
        pipeline = load_pipeline("spec")

        def scan() -> None:
            for _ in yaml.parse(text, Loader=yaml.CSafeLoader):
                pass

        def convert() -> None:
            for case in load_suite(path):
                to_json(record_of(pipeline.request(case)))

        report(
            f"{CASES:,} cases of {TURNS} turns, {path.stat().st_size / 1e6:.1f} MB",
            measure(
                {
                    "libyaml's bare event scan": scan,
                    "yaml.load with CSafeLoader": lambda: yaml.load(text, yaml.CSafeLoader),
                    "load": lambda: list(load_suite(path)),
                    "text to JSON lines": convert,
                },
                ROUNDS,
            ),
            {"load": 2.0, "text to JSON lines": 3.5},
        )

    multiturn = str(Path(sys.executable).with_name("multiturn"))

    def process(*command: str) -> Callable[[], object]:
        return lambda: subprocess.run(command, check=True, capture_output=True)

    report(
        "start-up, as whole processes",
        measure(
            {
                'python -c "import yaml, click"': process(
                    sys.executable, "-c", "import yaml, click"
                ),
                "multiturn --help": process(multiturn, "--help"),
            },
            15,
        ),
        {"multiturn --help": 2.0},
    )


if __name__ == "__main__":
    main()
