"""multiturn init: the beginning of a project, of which every command works at once."""

import json
from pathlib import Path

from commands import run

FILES = [
    "evals/first.eval.yaml",
    "evals/tone.instructions.md",
    "multiturn.toml",
    ".github/workflows/prompts.yml",
    ".pre-commit-config.yaml",
]


def test_an_empty_folder_becomes_a_project(tmp_path: Path) -> None:
    done = run("init", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[:5] == [f"wrote {path}" for path in FILES]
    assert all((tmp_path / path).is_file() for path in FILES)
    assert "Fill in MULTITURN in .github/workflows/prompts.yml: " in done.stdout
    commands = [
        line.split("  ")[1].split()[1:] for line in done.stdout.split("Next:\n")[1].splitlines()
    ]
    assert [words[0] for words in commands] == ["list", "convert", "run", "snapshot", "snapshot"]
    for words in commands:
        ran = run(*words, folder=tmp_path)
        assert (ran.returncode, ran.stderr) == (0, "")
    assert (tmp_path / "snapshots/evals/first/opening-hours.yaml").exists()


def test_a_changed_guideline_is_seen(tmp_path: Path) -> None:
    run("init", folder=tmp_path)
    run("snapshot", folder=tmp_path)
    (tmp_path / ".git").mkdir()  # the root and the names of snapshots stay
    with (tmp_path / "evals/tone.instructions.md").open("a") as file:
        file.write("Be kind.\n")
    done = run("snapshot", "--check", folder=tmp_path)
    assert done.returncode == 1
    assert "evals/tone.instructions.md, in a system message, has another text" in done.stdout


def test_nothing_is_replaced(tmp_path: Path) -> None:
    for path in FILES[2:]:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text('pipeline = "spec"')
    done = run("init", folder=tmp_path)
    assert done.stdout.splitlines()[2:5] == [f"kept  {path}" for path in FILES[2:]]
    assert [(tmp_path / path).read_text() for path in FILES[2:]] == ['pipeline = "spec"'] * 3


def test_suites_and_defaults_that_are_there_are_enough(tmp_path: Path) -> None:
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals/mine.eval.yaml").write_text("input: Hi\n")
    (tmp_path / "pyproject.toml").write_text("[tool.multiturn]\n")
    done = run("init", folder=tmp_path)
    assert done.stdout.splitlines()[:2] == ["kept  evals/mine.eval.yaml", "kept  pyproject.toml"]
    assert not (tmp_path / "multiturn.toml").exists()
    assert [path.name for path in (tmp_path / "evals").iterdir()] == ["mine.eval.yaml"]


def test_the_workflow_installs_the_commit_that_is_installed_here(tmp_path: Path) -> None:
    info = tmp_path / "multiturn-1.dist-info"  # found before the real one
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: multiturn\nVersion: 1\n")
    commit = {"vcs": "git", "commit_id": "8dbad05"}
    note = {"url": "https://git.example.org/house", "vcs_info": commit}
    (info / "direct_url.json").write_text(json.dumps(note))
    assert "Fill in" not in run("init", folder=tmp_path).stdout
    workflow = (tmp_path / FILES[3]).read_text()
    assert "  MULTITURN: git+https://git.example.org/house@8dbad05 #" in workflow
