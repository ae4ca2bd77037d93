"""The package datasets reads a file of the format openai, however the cases differ."""

import shutil
import subprocess
import sys
from pathlib import Path

import commands
from pages import program
from running import records

PAGE = (Path(__file__).parents[2] / "docs/formats.md").read_text(encoding="utf-8")
SUITE = Path(__file__).with_name("evals.eval.yaml")
SHOW = "import json; print(*map(json.dumps, dataset), sep='\\n')"


def test_datasets_has_the_messages_to_the_letter(tmp_path: Path) -> None:
    shutil.copy(SUITE, tmp_path)
    command = ("convert", SUITE.name, "--format", "openai", "--output", "train.jsonl")
    commands.run(*command, folder=tmp_path)
    environment = {"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program(PAGE, "from datasets") + SHOW],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    rows = records(done.stdout)
    assert rows == records(tmp_path / "train.jsonl")
    assert rows[1]["messages"][-1] == {"role": "assistant", "content": "18 degrees"}
