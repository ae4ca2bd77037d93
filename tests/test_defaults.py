"""The defaults of a project: multiturn.toml, or [tool.multiturn] of pyproject.toml."""

import json
import os
import textwrap
from pathlib import Path

import pytest

from commands import run
from multiturn import Case, TestMessage
from multiturn.testing import cases, convert

HI = "input_messages: [{role: user, content: Hi}, {role: assistant, content: Ho}]\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with suites, and a pipeline whose question has marks of its own."""
    for folder in (".git", "evals", "deep/down"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "evals/a.eval.yaml").write_text(HI)
    (tmp_path / "house.yaml").write_text(
        "extends: spec\nconfigure: {render_question: {marker: '<{role}> '}}\n"
    )
    return tmp_path


def write(path: Path, text: str) -> None:
    path.write_text(textwrap.dedent(text))


def question(folder: Path, *arguments: str) -> str:
    done = run("convert", *arguments, folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return str(json.loads(done.stdout)["question"])


SPEC, HOUSE = "[User]: Hi\n[Assistant]: Ho", "<User> Hi\n<Assistant> Ho"
OWN = 'pipeline = "house.yaml"\nsuites = ["evals"]\n'


@pytest.mark.parametrize(
    ("name", "text"), [("multiturn.toml", OWN), ("pyproject.toml", f"[tool.multiturn]\n{OWN}")]
)
@pytest.mark.parametrize("below", [".", "deep", "deep/down"])
def test_defaults_hold_in_each_folder_below(
    project: Path, name: str, text: str, below: str
) -> None:
    (project / name).write_text(text)
    assert question(project / below) == HOUSE


def test_an_option_wins(project: Path) -> None:
    write(project / "multiturn.toml", OWN)
    assert question(project, "--pipeline", "spec") == SPEC
    (project / "b.yaml").write_text(f"id: b\n{HI}")
    assert run("list", "b.yaml", folder=project).stdout.startswith("b.yaml\n")


def test_the_nearest_file_wins_and_in_one_folder_our_own(project: Path) -> None:
    write(project / "multiturn.toml", 'pipeline = "design"')
    write(project / "pyproject.toml", "[tool.multiturn]\nno = 1")
    assert question(project, "evals") == SPEC
    write(project / "evals/pyproject.toml", '[tool.multiturn]\npipeline = "../house.yaml"')
    assert question(project / "evals", "a.eval.yaml") == HOUSE
    write(project / "evals/pyproject.toml", '[project]\nname = "multiturn-evals"')
    assert question(project / "evals", "a.eval.yaml") == SPEC


def test_the_search_ends_at_the_repository(project: Path) -> None:
    write(project / "multiturn.toml", OWN)
    (project / "deep/.git").mkdir()
    assert question(project / "deep", "../evals/a.eval.yaml") == SPEC


def test_the_folder_of_snapshots_and_the_target_have_defaults(project: Path) -> None:
    write(project / "multiturn.toml", 'suites = ["evals"]\nsnapshots = "kept"\ntarget = "none"')
    assert run("snapshot", folder=project / "deep").returncode == 0
    assert (project / "kept/evals/a/a.yaml").exists()
    done = run("run", folder=project)
    assert done.returncode == 2
    assert "no target 'none'" in done.stderr


def test_a_root_is_relative_to_its_file(project: Path) -> None:
    write(project / "multiturn.toml", 'root = "evals"')
    (project / "house.md").write_text("out")
    attached = "{type: file, value: house.md}"
    (project / "evals/a.eval.yaml").write_text(HI.replace("Hi", f"[{attached}]"))
    done = run("convert", "a.eval.yaml", folder=project / "evals")
    assert "no file 'house.md'" in done.stderr


def test_help_shows_the_default_that_holds(project: Path) -> None:
    write(project / "multiturn.toml", OWN)
    assert "[default: house.yaml]" in run("convert", "--help", folder=project).stdout


def test_verbose_says_where_values_come_from(project: Path) -> None:
    write(project / "multiturn.toml", OWN)
    done = run("convert", "-v", "--log-format", "json", folder=project / "deep")
    entry = json.loads(done.stderr.splitlines()[0])
    assert {key: entry[key] for key in ("event", "file", "pipeline", "suites")} == {
        "event": "defaults.used",
        "file": "../multiturn.toml",
        "pipeline": "../house.yaml",
        "suites": ["../evals"],
    }
    done = run(
        *("convert", "evals", "--pipeline", "spec", "-v", "--log-format", "json"), folder=project
    )
    assert "defaults.used" not in done.stderr


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("pipelines = 1", 'unknown key "pipelines"; did you mean "pipeline"?'),
        ("suites = 1", "Expected array, got int - at suites"),
        ("suites = [", "not TOML: "),
    ],
)
def test_an_error_in_the_file_is_said(project: Path, text: str, error: str) -> None:
    write(project / "multiturn.toml", text)
    done = run("list", "evals", folder=project)
    assert done.returncode == 2
    assert done.stderr.startswith(f"Error: multiturn.toml: {error}")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give")
def test_the_file_of_another_user_is_refused(project: Path) -> None:
    write(project / "multiturn.toml", OWN)
    os.chown(project / "multiturn.toml", 12345, 12345)
    done = run("list", folder=project)
    assert done.returncode == 2
    assert "multiturn.toml: another user owns this file" in done.stderr
    (project / "multiturn.toml").rename(project / "mine.toml")
    os.chown(project / "mine.toml", 0, 0)
    (project / "multiturn.toml").symlink_to("mine.toml")
    os.chown(project / "multiturn.toml", 12345, 12345, follow_symlinks=False)
    assert "another user owns this file" in run("list", folder=project).stderr


def test_tests_of_suites_take_the_pipeline(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(project / "multiturn.toml", OWN)
    monkeypatch.chdir(project / "deep")
    messages = (TestMessage("user", "Hi"), TestMessage("assistant", "Ho"))
    case = Case(id="a", input_messages=messages)
    assert convert(case).question == HOUSE
    assert convert(case, "spec").question == SPEC


def test_tests_of_suites_take_the_root(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(project / "multiturn.toml", 'root = "evals"')
    monkeypatch.chdir(project)
    assert [param.id for param in cases("evals/*.yaml")] == ["a.eval.yaml a"]
    assert [param.id for param in cases("evals/*.yaml", root=".")] == ["evals/a.eval.yaml a"]
