"""The defaults of a project: multiturn.toml, or [tool.multiturn] of pyproject.toml."""

import json
import os
from pathlib import Path

import pytest

from commands import run
from comparing import write
from multiturn import Case, TestMessage
from multiturn.engine.defaults import Defaults, find_defaults
from multiturn.testing import cases, convert

HI = "input_messages: [{role: user, content: Hi}, {role: assistant, content: Ho}]\n"
HOUSE = "extends: spec\nconfigure: {render_question: {marker: '<{role}> '}}\n"
AS_SPEC, AS_HOUSE = "[User]: Hi\n[Assistant]: Ho", "<User> Hi\n<Assistant> Ho"
OWN = 'pipeline = "house.yaml"\nsuites = ["evals"]\n'
DESIGN = 'pipeline = "design"\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a suite, and a pipeline whose question has marks of its own."""
    write(tmp_path, {".git/HEAD": "", "evals/a.eval.yaml": HI, "house.yaml": HOUSE})
    (tmp_path / "deep/down").mkdir(parents=True)
    return tmp_path


OURS, SHARED, TABLE = "multiturn.toml", "pyproject.toml", "[tool.multiturn]\n"
WHICH: dict[str, tuple[str, dict[str, str], str | None, str]] = {
    "a file holds in each folder below": (
        *("deep/down", {OURS: OWN}, "../../house.yaml", f"../../{OURS}"),
    ),
    "pyproject.toml does as well": (".", {SHARED: TABLE + OWN}, "house.yaml", SHARED),
    "in one folder, our own wins": (".", {OURS: DESIGN, SHARED: f"{TABLE}no = 1"}, "design", OURS),
    "the nearest wins": (
        *("deep", {OURS: OWN, f"deep/{SHARED}": TABLE + DESIGN}, "design", SHARED),
    ),
    "a pyproject.toml without our table is passed": (
        *("deep", {OURS: DESIGN, f"deep/{SHARED}": "[project]\nname = 'multiturn-evals'"}),
        *("design", f"../{OURS}"),
    ),
    "the search ends at the repository": ("deep", {OURS: OWN, "deep/.git/HEAD": ""}, None, ""),
}


@pytest.mark.parametrize(("folder", "files", "pipeline", "file"), WHICH.values(), ids=WHICH)
def test_which_file_holds(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    folder: str,
    files: dict[str, str],
    pipeline: str | None,
    file: str,
) -> None:
    write(project, files)
    monkeypatch.chdir(project / folder)
    defaults, found = find_defaults()
    assert (defaults.pipeline, found) == (pipeline, file)


def test_paths_are_relative_to_the_file(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = 'root = "evals"\nsnapshots = "kept"\ntarget = "claude"\ninline_snapshots = true\n'
    write(project, {"multiturn.toml": said})
    monkeypatch.chdir(project / "deep")
    assert find_defaults()[0] == Defaults(
        root="../evals", snapshots="../kept", target="claude", inline_snapshots=True
    )


def test_commands_take_defaults_and_an_option_wins(project: Path) -> None:
    write(project, {"multiturn.toml": f'{OWN}snapshots = "kept"\n', "b.yaml": f"id: b\n{HI}"})
    for arguments, question in (([], AS_HOUSE), (["--pipeline", "spec"], AS_SPEC)):
        done = run("convert", *arguments, folder=project / "deep")
        assert (done.returncode, json.loads(done.stdout)["question"]) == (0, question)
    assert run("list", "b.yaml", folder=project).stdout.startswith("b.yaml\n")
    assert run("snapshot", folder=project / "deep").returncode == 0
    assert (project / "kept/evals/a/a.yaml").exists()
    assert "[default: house.yaml]" in run("convert", "--help", folder=project).stdout


@pytest.mark.parametrize("command", ["list", "run", "show"])
def test_verbose_says_where_values_come_from(project: Path, command: str) -> None:
    write(project, {"multiturn.toml": OWN})
    done = run(command, "-v", folder=project / "deep")
    assert "defaults.used" in done.stderr
    assert "file=../multiturn.toml pipeline=../house.yaml" in done.stderr
    write(project, {"multiturn.toml": ""})
    assert "defaults.used" not in run("convert", "evals", "-v", folder=project).stderr


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("suites = [", "multiturn.toml: not TOML: "),
        ("pipelines = 1", 'multiturn.toml: unknown key "pipelines"; did you mean "pipeline"?\n'),
        ("suites = 1", "multiturn.toml: suites must be a list, not a number\n"),
        ("suites = [1]", "multiturn.toml: suites[0] must be text, not a number\n"),
        ("target = 1", "multiturn.toml: target must be text, not a number\n"),
        ("target = 2026-11-22", "multiturn.toml: target must be text, not a date\n"),
    ],
)
def test_what_the_file_says_is_checked(project: Path, text: str, error: str) -> None:
    write(project, {"multiturn.toml": text})
    done = run("run", folder=project)
    assert (done.returncode, done.stderr.startswith(f"Error: {error}")) == (2, True)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--output", "evals"), "'evals' is not a regular file; results are appended to one"),
        (("--case", "evals"), "no case 'evals'; "),
    ],
)
def test_an_error_names_no_default_whose_value_the_command_line_says(
    project: Path, options: tuple[str, ...], error: str
) -> None:
    write(project, {"multiturn.toml": 'suites = ["evals"]\n'})
    done = run("run", *options, folder=project)
    assert done.stderr.startswith(f"Error: {error}")
    assert "multiturn.toml" not in done.stderr


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('suites = ["evls"]', "there is no suite 'evls'; did you mean 'evals'?"),
        ('root = "no"', "the root 'no' is not a folder"),
        ('pipeline = "house.yml"', "no pipeline 'house.yml'; "),
        ('target = "none"', "no target 'none': there is no targets.yaml"),
    ],
)
def test_an_error_says_which_default_it_names(project: Path, text: str, error: str) -> None:
    write(project, {"multiturn.toml": text})
    option = text.partition(" ")[0]
    done = run("run", *([] if option == "suites" else ["evals"]), folder=project)
    assert (done.returncode, done.stderr.startswith(f"Error: {error}")) == (2, True)
    assert done.stderr.endswith(f" (multiturn.toml sets {option})\n")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--pipeline=house.yml"], "no pipeline 'house.yml'; "),
        (["--pipeline=spec", "evls"], "there is no suite 'evls'; "),
        ([], "house.yaml:1:10: no pipeline 'spce'; "),
    ],
)
def test_other_errors_do_not(project: Path, options: list[str], error: str) -> None:
    write(project, {"multiturn.toml": OWN, "house.yaml": "extends: spce"})
    done = run("convert", *options, folder=project)
    assert (done.returncode, done.stderr.startswith(f"Error: {error}")) == (2, True)
    assert "multiturn.toml" not in done.stderr


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give")
@pytest.mark.parametrize("is_link", [False, True])
def test_the_file_of_another_user_is_refused(project: Path, is_link: bool) -> None:
    write(project, {"mine.toml": OWN})
    file = project / "multiturn.toml"
    if is_link:
        file.symlink_to("mine.toml")
    else:
        write(project, {"multiturn.toml": OWN})
    os.chown(file, 12345, 12345, follow_symlinks=False)
    done = run("list", folder=project)
    assert done.returncode == 2
    assert "multiturn.toml: another user owns this file" in done.stderr


def test_tests_of_suites_take_them(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(project, {"multiturn.toml": f'{OWN}root = "evals"'})
    monkeypatch.chdir(project)
    case = Case(id="a", input_messages=(TestMessage("user", "Hi"), TestMessage("assistant", "Ho")))
    assert (convert(case).question, convert(case, "spec").question) == (AS_HOUSE, AS_SPEC)
    assert [param.id for param in cases("evals/*.yaml")] == ["a.eval.yaml a"]
    assert [param.id for param in cases("evals/*.yaml", root=".")] == ["evals/a.eval.yaml a"]
