"""How long does a check of 2,000 snapshots take, against their conversion?"""

import os
import tempfile
from pathlib import Path

from measuring import MULTITURN, medians, process, show, write_suite


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        suite = Path("large.eval.yaml")
        write_suite(suite, 2_000)
        process(MULTITURN, "snapshot", suite.name)()
        subjects = {
            "multiturn convert": process(MULTITURN, "convert", suite.name),
            "checking that nothing has changed": process(
                MULTITURN, "snapshot", suite.name, "--check"
            ),
        }
        title = f"2,000 cases, {suite.stat().st_size / 1e6:.1f} MB"
        show(title, medians(5, subjects), checking=1.6)


if __name__ == "__main__":
    main()
