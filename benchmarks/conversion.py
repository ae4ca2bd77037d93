"""How long does a large suite take, against libyaml's bare event scan of the same text?"""

import sys
import tempfile
from collections import deque
from pathlib import Path
from time import perf_counter

import yaml

from measuring import MULTITURN, medians, process, show, write_suite
from multiturn import Conversion, load_pipeline, load_suite
from multiturn.prompts.record import record_of, to_json

_SCAN = "import sys, yaml\nfor _ in yaml.parse(open(sys.argv[1], 'rb'), yaml.CSafeLoader): pass"


def main() -> None:
    """Print the tables."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "large.eval.yaml")
        write_suite(path, 2_000)
        text = path.read_text(encoding="utf-8")
        pipeline = load_pipeline("spec")

        def convert() -> None:
            for case in load_suite(path):
                to_json(record_of(pipeline.request(case)))

        size = f"2,000 cases, {path.stat().st_size / 1e6:.1f} MB"
        subjects = {
            "libyaml's bare event scan": lambda: deque(yaml.parse(text, yaml.CSafeLoader), 0),
            "yaml.load with CSafeLoader": lambda: yaml.load(text, yaml.CSafeLoader),
            "load_suite": lambda: list(load_suite(path)),
            "convert to JSON lines": convert,
        }
        show(f"{size}, in this process", medians(7, subjects), load_suite=2.0, convert=3.5)
        scan = process(sys.executable, "-c", _SCAN, str(path))
        ours = process(MULTITURN, "convert", str(path))
        figures = medians(5, {"libyaml's bare event scan": scan, "multiturn convert": ours})
        show(f"{size}, as whole processes", figures, multiturn=3.0)

        conversions = [Conversion(case) for case in load_suite(path)]
        print("\nstages, cases a second")
        for step in pipeline.steps:
            start = perf_counter()
            conversions = [step(conversion) for conversion in conversions]
            print(f"  {step.name:<46}{len(conversions) / (perf_counter() - start):>10,.0f}")


if __name__ == "__main__":
    main()
