"""multiturn init: the beginning of a project, of which every command works at once."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import yaml

from commands import Done, run

WORKFLOW, HOOK = ".github/workflows/prompts.yml", ".pre-commit-config.yaml"
SUITE = ["evals/first.eval.yaml", "evals/tone.instructions.md"]
FILES = [*SUITE, "multiturn.toml", WORKFLOW, HOOK]


def assert_next_commands_work(done: Done, folder: Path) -> None:
    """Run what init says to run next."""
    lines = done.stdout.split("Next:\n")[1].splitlines()
    commands = [line[2:].split("  ")[0].split()[1:] for line in lines]
    assert [words[0] for words in commands] == ["list", "convert", "run", "snapshot", "snapshot"]
    for words in commands:
        ran = run(*words, folder=folder)
        assert (ran.returncode, ran.stderr) == (0, "")


def test_an_empty_folder_becomes_a_project(tmp_path: Path) -> None:
    done = run("init", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[:5] == [f"wrote {path}" for path in FILES]
    assert f"Fill in MULTITURN in {WORKFLOW}: " in done.stdout
    assert_next_commands_work(done, tmp_path)
    (tmp_path / ".git").mkdir()  # the root and the names of snapshots stay
    with (tmp_path / "evals/tone.instructions.md").open("a") as file:
        file.write("Be kind.\n")
    done = run("snapshot", "--check", folder=tmp_path)
    assert done.returncode == 1
    assert "evals/tone.instructions.md changed; it is part of a system message" in done.stdout


def test_what_is_there_is_kept(tmp_path: Path) -> None:
    run("init", folder=tmp_path)
    for path in FILES[2:]:
        (tmp_path / path).write_text('pipeline = "spec"')
    done = run("init", folder=tmp_path)
    kept = ["evals, with 1 suite", *FILES[2:]]
    assert done.stdout.splitlines()[:4] == [f"kept  {path}" for path in kept]
    assert [(tmp_path / path).read_text() for path in FILES[2:]] == ['pipeline = "spec"'] * 3
    assert_next_commands_work(done, tmp_path)


def test_a_folder_below_defaults_needs_none(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "pyproject.toml").write_text('[tool.multiturn]\nroot = "."\nsuites = ["evals"]\n')
    done = run("init", folder=tmp_path / "sub")
    assert "kept  ../pyproject.toml" in done.stdout
    assert not (tmp_path / "sub/multiturn.toml").exists()
    assert_next_commands_work(done, tmp_path / "sub")


def test_github_and_pre_commit_find_a_project_below_the_top_of_its_repository(
    tmp_path: Path,
) -> None:
    (tmp_path / ".git").mkdir()
    folder = tmp_path / 'my "first" evals'
    folder.mkdir()
    done = run("init", folder=folder)
    assert f"wrote ../{WORKFLOW}\nwrote ../{HOOK}\n" in done.stdout
    assert yaml.safe_load((tmp_path / WORKFLOW).read_text())["env"]["FOLDER"] == folder.name
    assert_next_commands_work(done, folder)
    hooks = yaml.safe_load((tmp_path / HOOK).read_text())["repos"][0]["hooks"]
    bin_first = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    entry = shlex.split(hooks[0]["entry"])
    checked = subprocess.run(entry, cwd=tmp_path, env=bin_first, capture_output=True, text=True)
    assert (checked.returncode, checked.stdout) == (0, "1 snapshot: 1 same\n")


def test_the_workflow_installs_the_commit_that_is_installed_here(tmp_path: Path) -> None:
    info = tmp_path / "multiturn-1.dist-info"  # found before the real one
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: multiturn\nVersion: 1\n")
    commit = {"vcs": "git", "commit_id": "8dbad05"}
    note = {"url": "https://git.example.org/house", "vcs_info": commit}
    (info / "direct_url.json").write_text(json.dumps(note))
    assert "Fill in" not in run("init", folder=tmp_path).stdout
    workflow = (tmp_path / WORKFLOW).read_text()
    assert "  MULTITURN: git+https://git.example.org/house@8dbad05 #" in workflow
