"""multiturn list: suites and their cases; and the globs of --case."""

import json
from pathlib import Path

import pytest

from commands import run

SUITE = """\
guideline_patterns: ["*.guide.md"]
evalcases:
- id: refund-1
  input_messages:
  - {role: system, content: Be kind.}
  - role: user
    content: [Hi, {type: file, value: a.txt}, {type: file, value: house.guide.md}]
- id: refund-2
  input_messages: [{role: user, content: Hi}]
- id: "odd[1]"
  input_messages: [{role: user, content: [{type: file, value: nowhere.txt}]}]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"x.eval.yaml": SUITE, "a.txt": "A", "house.guide.md": "G"}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_list_has_suites_cases_and_their_files(folder: Path) -> None:
    done = run("list", ".", folder=folder)
    assert done.stdout.splitlines() == [
        "x.eval.yaml",
        "  refund-1: 2 messages, file a.txt, guideline house.guide.md",
        "  refund-2: 1 message",
    ]
    assert done.returncode == 1
    assert "case 'odd[1]': input_messages[0].content[0]: no file 'nowhere.txt'" in done.stderr


def test_a_list_in_json_has_a_case_a_line(folder: Path) -> None:
    done = run("list", "x.eval.yaml", "--case", "refund-1", "--format", "json", folder=folder)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {
            "suite": "x.eval.yaml",
            "id": "refund-1",
            "file": "x.eval.yaml",
            "line": 3,
            "messages": ["system", "user"],
            "files": ["a.txt"],
            "guidelines": ["house.guide.md"],
        }
    ]


@pytest.mark.parametrize(
    ("selected", "cases"),
    [
        (["refund-?", "refund-1"], ["refund-1", "refund-2"]),
        (["*-[2-9]"], ["refund-2"]),
        (["refund-1"], ["refund-1"]),
        (["odd[1]"], ["odd[1]"]),
    ],
)
def test_cases_are_selected_by_ids_and_globs(
    folder: Path, selected: list[str], cases: list[str]
) -> None:
    options = [word for each in selected for word in ("--case", each)]
    done = run("list", ".", *options, "--format", "json", folder=folder)
    named = [json.loads(line)["id"] for line in done.stdout.splitlines()]
    assert named == [case for case in cases if case != "odd[1]"]
    assert done.stderr.startswith("x.eval.yaml:11: case 'odd[1]': ") == ("odd[1]" in cases)


def test_a_glob_that_matches_no_id_is_an_error(folder: Path) -> None:
    done = run("list", ".", "--case", "order-*", folder=folder)
    assert done.returncode == 2
    assert done.stderr == "Error: no case 'order-*'; choose from: odd[1], refund-1, refund-2\n"
