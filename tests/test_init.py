"""multiturn init: the beginning of a project, of which every command works at once."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from commands import Done, full_disk, run, start
from limits import limited

WORKFLOW, HOOK = ".github/workflows/prompts.yml", ".pre-commit-config.yaml"
SUITE = ["evals/tone.instructions.md", "evals/first.eval.yaml"]
FILES = [*SUITE, "multiturn.toml", WORKFLOW, HOOK]


def assert_next_commands_work(done: Done, folder: Path) -> None:
    """Run what init says to run next."""
    lines = done.stdout.split("Next:\n")[1].splitlines()
    commands = [line[2:].split("  ")[0].split()[1:] for line in lines]
    assert [words[0] for words in commands] == ["list", "convert", "run", "snapshot", "snapshot"]
    for words in commands:
        ran = run(*words, folder=folder)
        summary = "1 answered, 0 reused, 0 failed, 0 retried\n" if words[0] == "run" else ""
        assert (ran.returncode, ran.stderr) == (0, summary)


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


def test_what_is_to_be_filled_in_is_said_until_it_is(tmp_path: Path) -> None:
    told = f"Fill in MULTITURN in {WORKFLOW}: "
    for _ in range(2):
        assert told in run("init", folder=tmp_path).stdout
    workflow = tmp_path / WORKFLOW
    workflow.write_text(workflow.read_text().replace("git.example", "git.example.org"))
    assert told not in run("init", folder=tmp_path).stdout


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


def test_a_disk_that_fills_leaves_no_file_in_part_and_the_next_init_goes_on(tmp_path: Path) -> None:
    process = start("init", folder=tmp_path, preexec_fn=full_disk(40))
    out, error = process.communicate()
    assert (process.returncode, out) == (2, "wrote evals/tone.instructions.md\n")
    assert error == "Error: cannot write 'evals/first.eval.yaml': File too large\n"
    assert [path.name for path in (tmp_path / "evals").iterdir()] == ["tone.instructions.md"]
    done = run("init", folder=tmp_path)
    assert done.stdout.splitlines()[:2] == [f"kept  {SUITE[0]}", f"wrote {SUITE[1]}"]
    assert_next_commands_work(done, tmp_path)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        (".git/hooks", "Git commits nothing that is in .git; enter another folder"),
        ("a/${{ x }}", "a workflow cannot name the folder 'a/${{ x }}'; rename it"),
        ("a\nb", "a workflow cannot name the folder 'a\\nb'; rename it"),
        ("a\udcff", "a workflow cannot name the folder 'a\\udcff'; rename it"),
    ],
)
def test_a_folder_that_git_or_a_workflow_cannot_have_is_refused(
    tmp_path: Path, name: str, error: str
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / name).mkdir(parents=True)
    done = run("init", folder=tmp_path / name)
    assert (done.returncode, done.stderr) == (2, f"Error: {error}\n")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("link", ["evals", ".github", ".github/workflows"])
@pytest.mark.parametrize("leads", ["elsewhere", "/"])
def test_a_link_out_of_the_project_is_not_followed(tmp_path: Path, link: str, leads: str) -> None:
    folder, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    (folder / link).parent.mkdir(parents=True)
    elsewhere.mkdir()
    real = "/" if leads == "/" else str(elsewhere)
    (folder / link).symlink_to(real)
    with limited():
        done = run("init", folder=folder)
    end = "/workflows" if link == ".github" else ""
    what = (
        f"a link leads from here to {real.rstrip('/')}{end or ('' if real != '/' else '/')}, out of"
    )
    error = f"Error: {link}{end}: {what} {folder}; make a folder in its place\n"
    assert (done.returncode, done.stderr) == (2, error)
    assert not [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    assert list(elsewhere.iterdir()) == []


def test_a_name_that_a_link_has_is_kept(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project/multiturn.toml").symlink_to(tmp_path / "elsewhere.toml")
    done = run("init", folder=tmp_path / "project")
    assert "kept  multiturn.toml\n" in done.stdout
    assert not (tmp_path / "elsewhere.toml").exists()


def test_several_at_once_write_each_file_once_and_whole(tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    run("init", folder=tmp_path / "alone")
    (tmp_path / "shared").mkdir()
    processes = [start("init", folder=tmp_path / "shared") for _ in range(4)]
    said = [process.communicate() for process in processes]
    assert [
        (process.returncode, error) for process, (_, error) in zip(processes, said, strict=True)
    ] == [(0, "")] * 4
    written = [line for out, _ in said for line in out.splitlines() if line.startswith("wrote ")]
    assert sorted(written) == sorted(f"wrote {path}" for path in FILES)

    def files(folder: Path) -> dict[str, bytes]:
        found = (path for path in folder.rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}

    assert files(tmp_path / "shared") == files(tmp_path / "alone")


def test_a_current_folder_that_was_removed_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    gone = f"cd gone && rmdir ../gone && exec {sys.executable} -m multiturn list"
    done = subprocess.run(["sh", "-c", gone], cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr == "Error: the current folder was removed; enter another\n"
