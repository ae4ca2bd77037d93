"""How long does a command take that has little to do, against the imports that it cannot save?"""

import sys
import tempfile
from pathlib import Path

from measuring import MULTITURN, medians, process, show


def main() -> None:
    """Print the tables."""
    with tempfile.TemporaryDirectory() as folder:
        one = Path(folder, "one.eval.yaml")
        one.write_text("input_messages: [{role: user, content: Hi}]")
        for imports, most, command in (
            ("yaml, click", 2.0, ("--help",)),
            ("yaml, toolz, msgspec, click", 1.5, ("convert", str(one))),
        ):
            floor = process(sys.executable, "-c", f"import {imports}")
            ours = process(MULTITURN, *command)
            figures = medians(
                21, {f"python, import {imports}": floor, f"multiturn {command[0]}": ours}
            )
            show(f"start-up of multiturn {command[0]}", figures, multiturn=most)


if __name__ == "__main__":
    main()
