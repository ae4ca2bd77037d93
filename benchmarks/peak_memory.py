"""How much memory do many cases take, against few? The peak that the system counts."""

import tempfile
from pathlib import Path

from measuring import MULTITURN, show, usage

_CASE = "  - id: case-{}\n    input_messages:\n      - role: user\n        content: Question {}?\n"


def main() -> None:
    """Print the table."""
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        for count in (1_000, 100_000):
            path = Path(folder, f"{count}.eval.yaml")
            cases = "".join(_CASE.format(number, number) for number in range(count))
            path.write_text(f"evalcases:\n{cases}")
            figures[f"{count} cases"] = usage(MULTITURN, "convert", str(path))[1]
    show("peak memory", figures, "MiB", **{"100000": 2.0})


if __name__ == "__main__":
    main()
