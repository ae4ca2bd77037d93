"""What the README says is what happens: each command and each program in it is run."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from multiturn.yaml_events import read_documents

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
BIN = Path(sys.executable).parent
ENVIRONMENT = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
ENVIRONMENT.pop("ANTHROPIC_API_KEY", None)


def sessions() -> list[tuple[str, str]]:
    """Return each command of the README with the output shown below it."""
    text = "".join(block for language, block in BLOCKS if language == "console")
    return re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files that the README speaks of."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / ".git").mkdir()  # as in a clone, the root is here
    return tmp_path


def test_a_command_prints_what_the_readme_shows(folder: Path) -> None:
    commands = [session for session in sessions() if session[0].startswith("multiturn")]
    assert len(commands) > 10
    for command, output in commands:
        done = subprocess.run(
            command, shell=True, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True
        )
        assert output.strip() in done.stdout + done.stderr


def test_the_diagram_is_what_multiturn_show_prints(folder: Path) -> None:
    (diagram,) = (block for language, block in BLOCKS if language == "mermaid")
    command = [sys.executable, "-m", "multiturn", "show", "spec", "--format", "mermaid"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout == diagram


def test_the_programs_print_what_the_readme_shows(folder: Path) -> None:
    programs = [block for language, block in BLOCKS if language == "python"]
    outputs = [block for language, block in BLOCKS if language == "text"]
    assert len(programs) == len(outputs) > 0
    for program, output in zip(programs, outputs, strict=True):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        assert (done.stderr, done.stdout) == ("", output)


def test_every_other_command_is_a_target_of_the_makefile() -> None:
    help_text = subprocess.run(
        ["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    others = [command for command, _ in sessions() if not command.startswith("multiturn")]
    assert others == ["make demo", "make test"]
    for target in ("demo", "test", "lint", "snapshots", "bench", "fuzz", "clean"):
        assert f"  make {target} " in help_text


def test_the_demo_shows_every_example() -> None:
    """The commands of ``make demo``, in the environment that runs this test."""
    recipe = subprocess.run(
        ["make", "--dry-run", "--assume-old=.venv/ready", "demo", f"BIN={BIN}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    commands = [line for line in recipe.splitlines() if line.startswith(str(BIN / "multiturn"))]
    assert commands
    for command in commands:
        done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        for suite in ("code-review", "debugging", "support-desk"):
            assert f"examples/{suite}.eval.yaml" in done.stdout


def test_the_files_that_the_readme_shows_are_in_the_examples() -> None:
    shown = [block for language, block in BLOCKS if language == "yaml"]
    assert len(shown) == 2
    for block in shown:
        path = block.partition("\n")[0].removeprefix("# ")
        assert (ROOT / path).read_text(encoding="utf-8") == block


def test_the_workflow_runs_what_is_pinned_with_the_least_rights() -> None:
    text = (ROOT / ".github/workflows/ci.yml").read_text()
    workflow = next(read_documents(text, "ci.yml")).value
    assert workflow["permissions"] == {"contents": "read"}
    (job,) = workflow["jobs"].values()
    assert job["strategy"]["matrix"] == {"python": ["3.11", "3.12", "3.13", "3.14"]}
    uses = [step["uses"] for step in job["steps"] if "uses" in step]
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action) for action in uses)
    assert job["steps"][-1] == {"run": ".ci/run"}
