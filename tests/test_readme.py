"""What the README says is what happens: each command and each program in it is run."""

import re
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from commands import read_terminal
from multiturn import load_pipeline
from multiturn.documents.yaml_reader import read_documents
from pages import BIN, blocks, environment, said, sessions

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files that the README speaks of."""
    for name in ("examples", "snapshots"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / ".git").mkdir()  # as in a clone, the root is here
    return tmp_path


def test_a_command_prints_on_a_terminal_what_the_readme_shows(folder: Path) -> None:
    commands = [session for session in sessions(README) if session[0].startswith("multiturn")]
    assert len(commands) == 8
    for command, output in commands:
        if "|" in command:
            shown = said(command, folder)
        else:
            env = {**environment(), "NO_COLOR": "1"}
            words = command.split()[1:]
            shown = read_terminal(*words, folder=folder, stream="stdout stderr", env=env)
        assert output.strip() in shown.replace("\r", "")


def test_every_other_command_is_a_target_of_the_makefile() -> None:
    make = ["make", "help"]
    help_text = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    others = [command for command, _ in sessions(README) if not command.startswith("multiturn")]
    assert others == ["make demo", "make test"]
    for command in others:
        assert f"  {command} " in help_text


def test_the_makefile_runs_every_benchmark() -> None:
    (named,) = re.findall(r"for question in (.*); do", (ROOT / "Makefile").read_text())
    scripts = {path.stem for path in (ROOT / "benchmarks").glob("*.py")}
    assert set(named.split()) == scripts - {"measuring"}


def test_the_demo_shows_every_example() -> None:
    """The commands of ``make demo``, in the environment that runs this test."""
    recipe = subprocess.run(
        ["make", "--dry-run", "--assume-old=.venv/demo", "demo", f"BIN={BIN}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    commands = [line for line in recipe.splitlines() if line.startswith(str(BIN / "multiturn"))]
    assert commands
    for command in commands:
        done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True)
        summary = "5 answered, 0 reused, 0 failed, 0 retried; 1 sent with repairs: C9\n"
        summary *= " run " in command
        assert (done.returncode, done.stderr) == (0, summary)
        for suite in ("code-review", "debugging", "support-desk"):
            assert f"examples/{suite}.eval.yaml" in done.stdout


def test_the_picture_has_the_stages_of_the_default_pipeline() -> None:
    way = (ROOT / "docs/a-cases-way.md").read_text(encoding="utf-8")
    (picture,) = blocks(way, "text")
    steps = [step.name for step in load_pipeline("spec").steps]
    assert [word for word in picture.split() if "_" in word and word in steps] == steps


def workflow(path: str) -> dict[str, Any]:
    """Return a workflow's first job, once it has the least rights and pinned actions."""
    found = next(read_documents((ROOT / path).read_text(), path)).value
    assert found["permissions"] == {"contents": "read"}
    jobs: list[dict[str, Any]] = list(found["jobs"].values())
    steps = [step for job in jobs for step in job["steps"] if "uses" in step]
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"]) for step in steps)
    for job in jobs[1:]:  # one that may write runs nothing of the pull request
        assert not [step for step in job["steps"] if "run" in step or "checkout" in step["uses"]]
    assert "permissions" not in jobs[0]
    return jobs[0]


def test_the_workflow_runs_ci_on_each_python() -> None:
    job = workflow(".github/workflows/ci.yml")
    matrix = job["strategy"]["matrix"]
    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert [each["system"] for each in matrix["include"]] == ["macos-latest", "windows-latest"]
    assert job["steps"][-1] == {"if": "runner.os == 'Linux'", "run": ".ci/run"}


def test_the_workflow_of_releases_publishes_only_what_the_owner_has_switched_on() -> None:
    job = workflow(".github/workflows/release.yml")
    assert job["if"] == "vars.PUBLISH == 'yes'"
    assert [step["run"] for step in job["steps"] if "run" in step][:2] == [".ci/run", "make build"]


def test_the_workflow_of_the_examples_shows_what_a_pull_request_changes(folder: Path) -> None:
    (folder / ".git").rmdir()
    run = partial(subprocess.run, shell=True, cwd=folder, capture_output=True, text=True)
    identity = "-c user.name=a -c user.email=a"
    commit = f"git add . && git {identity} commit -qm"
    run(f"git init -q && {commit} before", check=True)
    with (folder / "examples/prompts/security.instructions.md").open("a") as file:
        file.write("- Name the line.\n")
    run(f"{commit} after", check=True)
    steps = workflow("pipeline/multiturn/cli/first/prompts.yml")["steps"]
    commands = [step["run"] for step in steps if "run" in step]
    assert commands.pop(0) == 'pip install "multiturn @ $MULTITURN"'
    summary = folder / "summary.md"
    given = {**environment(), "EVALS": "examples", "GITHUB_STEP_SUMMARY": str(summary)}
    codes = [run(command, env=given).returncode for command in commands]
    assert codes == [0, 0, 0, 0, 1]  # the last one is the check of snapshots
    cause = "examples/prompts/security.instructions.md line 5"
    assert summary.read_text().startswith(
        f"## 2 cases changed; 1 cause: <code>{cause}</code>; about +10 tokens\n"
    )
    kept = steps[-2]["with"]["path"].replace("${{ env.FOLDER }}", ".").split()
    assert kept == ["./prompts.html", "./prompts.md"]
    assert (folder / "prompts.html").stat().st_size > 10_000
