"""What docs/stages.md says is what happens: its files are written, and its commands run."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "stages.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
QUESTION = "input_messages: [{role: user, content: Who is ada@example.org?}]"


def test_the_page_of_stages_works_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "question.eval.yaml").write_text(QUESTION)
    for _, block in BLOCKS:
        name = re.match(r"# ([\w.]+)\n", block)
        if name:
            (tmp_path / name[1]).write_text(block)
    bin_folder = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}
    console = "".join(block for language, block in BLOCKS if language == "console")
    sessions = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", console, re.MULTILINE)
    assert len(sessions) == 5
    for command, output in sessions:
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert (done.stderr, done.stdout) == ("", output)
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_house_stages.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "1 passed" in tested.stdout
