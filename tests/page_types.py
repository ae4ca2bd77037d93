"""See that type checkers accept the programs in docs: mypy and pyright, for ``make lint``."""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from pages import blocks, write_files

ROOT = Path(__file__).parent.parent
PAGES = ("stages.md", "stage-tasks.md", "own-provider.md", "pipelines.md")
SETTINGS = '[tool.basedpyright]\ntypeCheckingMode = "strict"\nreportMissingTypeStubs = false\n'


def main() -> int:
    """Return 0 if both checkers accept the files that the pages show."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for page in PAGES:
            write_files((ROOT / "docs" / page).read_text(encoding="utf-8"), folder)
        text = (ROOT / "docs/pipelines.md").read_text(encoding="utf-8")
        (block,) = blocks(text, "python")
        (folder / "shouting.py").write_text(block)
        (folder / "pyproject.toml").write_text(SETTINGS)
        files = sorted(path.name for path in folder.glob("*.py"))
        assert {"house_stages.py", "test_house_stages.py", "shout.py", "orchestrate.py"} <= {*files}
        # With the settings and the cache of make lint, which has just checked all that they import.
        environment = {**os.environ, "MYPY_CACHE_DIR": str(ROOT / ".mypy_cache")}
        mypy = ["mypy", "--config-file", str(ROOT / "pyproject.toml")]
        pyright = ["basedpyright", "--pythonpath", sys.executable]
        codes = [
            subprocess.run([sys.executable, "-m", *command, *files], cwd=folder, env=environment)
            for command in (mypy, pyright)
        ]
        return max(done.returncode for done in codes)


if __name__ == "__main__":
    sys.exit(main())
