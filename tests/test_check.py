"""check: suites and pipelines, and the rules of a target, offline."""

import json
from pathlib import Path

import pytest

from commands import run

SUITE = """\
evalcases:
- id: one
  input_messages: [{role: user, content: Hi}]
- id: two
  input_messages: [{role: user, content: Hi}, {role: assistant, content: Yes?}]
"""
BROKEN = """\
evalcases:
- id: one
  input_messages: [{role: usr, content: Hi}]
- id: two
  input_messages: [{role: system, content: Be brief.}]
- id: three
  mood: good
  input_messages: [{role: user, content: Hi}]
"""
TARGETS = """\
targets:
- {name: claude, provider: anthropic, model: claude-sonnet-4-6, api_key: "${{ CLAUDE_KEY }}"}
"""
PREFILL = "case 'two': A4: from 4.6 on, the last message must not be assistant (Anthropic); "
NO_ANSWER = (
    "case 'two': there is nothing to answer: only system messages have content, if any has; add a"
    " user message"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {
        "a.eval.yaml": SUITE,
        "sub/b.eval.yaml": BROKEN,
        "late.yaml": "stages: [embed_files, resolve_segments]",
        "terse.yaml": "extends: spec\nremove: [filter_empty]",
        "targets.yaml": TARGETS,
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def checked(folder: Path, *arguments: str, code: int) -> tuple[list[str], list[str]]:
    """Return the lines of standard output and of standard error."""
    done = run("check", *arguments, folder=folder, env={"CLAUDE_KEY": "none"})
    assert done.returncode == code
    return done.stdout.splitlines(), done.stderr.splitlines()


def test_suites_and_pipelines_without_errors(folder: Path) -> None:
    assert checked(folder, "a.eval.yaml", "terse.yaml", "spec", code=0) == (
        [
            "terse.yaml: 5 stages, in a legal order",
            "spec: 6 stages, in a legal order",
            "a.eval.yaml: 2 cases, without errors",
        ],
        [],
    )


def test_each_error_is_a_line(folder: Path) -> None:
    said, errors = checked(folder, ".", "late.yaml", code=1)
    assert said == ["a.eval.yaml: 2 cases, without errors"]
    *errors, warning = errors
    assert errors == [
        "late.yaml:1:10: embed_files (1) requires files, but resolve_segments (2) provides it"
        " later; move it after resolve_segments",
        "a legal order: resolve_segments, embed_files",
        "sub/b.eval.yaml:3:27: case 'one': input_messages[0]: there is no role 'usr'; did you mean"
        ' "user"?',
        f"sub/b.eval.yaml:4: {NO_ANSWER}",
    ]
    assert warning.startswith('sub/b.eval.yaml:7:3: warning: unknown key "mood"; ')


def test_a_target_adds_its_rules(folder: Path) -> None:
    said, (error,) = checked(folder, "a.eval.yaml", "--target", "claude", code=1)
    assert said == []
    assert error.startswith(f"a.eval.yaml:4: {PREFILL}")
    said, errors = checked(folder, "a.eval.yaml", "--target", "claude", "--case", "one", code=0)
    assert (said, errors) == (["a.eval.yaml: 1 case, without errors"], [])


def test_the_pipeline_is_the_one_that_is_named(folder: Path) -> None:
    (folder / "shy.yaml").write_text("extends: spec\nremove: [consolidate_system]")
    said, _ = checked(folder, "a.eval.yaml", "--target", "claude", "--pipeline", "shy.yaml", code=0)
    assert said == ["a.eval.yaml: 2 cases, without errors"]


def test_strict_makes_warnings_errors(folder: Path) -> None:
    (folder / "c.eval.yaml").write_text(SUITE + "mood: good\n")
    said, errors = checked(folder, "c.eval.yaml", code=0)
    assert said == ["c.eval.yaml: 2 cases, without errors"]
    (warning,) = errors
    assert warning.startswith("c.eval.yaml:6:1: warning: ")
    _, (error,) = checked(folder, "c.eval.yaml", "--strict", code=1)
    assert error == warning.replace("warning: ", "")


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("shiped", "no pipeline 'shiped'; did you mean \"shipped\"?"),
        (
            "none.eval.yaml",
            "Error: there is no suite 'none.eval.yaml'; did you mean 'a.eval.yaml'?",
        ),
    ],
)
def test_what_is_not_there(folder: Path, path: str, error: str) -> None:
    done = run("check", path, folder=folder)
    assert done.returncode == (2 if "Error" in error else 1)
    assert done.stderr.splitlines() == [error]


def test_a_case_that_is_not_there(folder: Path) -> None:
    _, errors = checked(folder, "a.eval.yaml", "--case", "tow", code=1)
    assert errors == ["no case 'tow'; did you mean \"two\"?"]
    (line,), _ = checked(folder, "a.eval.yaml", "--case", "tow", "--format", "json", code=1)
    assert json.loads(line)["file"] is None


@pytest.mark.parametrize(
    ("left_out", "so"),
    [
        (
            "consolidate_system",
            "LLM APIs get no chat prompt, but the question as one user message;"
            " add consolidate_system",
        ),
        (
            "render_question",
            "agents get no question, and so nothing to read; add render_question",
        ),
    ],
)
def test_what_follows_from_a_view_left_out(folder: Path, left_out: str, so: str) -> None:
    (folder / "half.yaml").write_text(f"extends: spec\nremove: [{left_out}]")
    assert checked(folder, "half.yaml", code=0) == (
        ["half.yaml: 5 stages, in a legal order", f"half.yaml: {so}"],
        [],
    )
