"""multiturn list: suites and their cases; and the globs of --case."""

import json
from pathlib import Path

import pytest

from commands import Done, run

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


def listed(folder: Path, *arguments: str) -> Done:
    for name, text in {"x.eval.yaml": SUITE, "a.txt": "A", "house.guide.md": "G"}.items():
        (folder / name).write_text(text)
    return run("list", "x.eval.yaml", *arguments, folder=folder)


def test_a_list_has_suites_cases_and_their_files(tmp_path: Path) -> None:
    done = listed(tmp_path)
    assert done.stdout.splitlines() == [
        "x.eval.yaml",
        "  refund-1: 2 messages, file a.txt, guideline house.guide.md",
        "  refund-2: 1 message",
    ]
    assert done.returncode == 1
    assert "case 'odd[1]': input_messages[0].content[0]: no file 'nowhere.txt'" in done.stderr


def test_a_list_in_json_has_a_case_a_line(tmp_path: Path) -> None:
    done = listed(tmp_path, "--case", "refund-1", "--format", "json")
    assert json.loads(done.stdout) == {
        "suite": "x.eval.yaml",
        "id": "refund-1",
        "file": "x.eval.yaml",
        "line": 3,
        "messages": ["system", "user"],
        "files": ["a.txt"],
        "guidelines": ["house.guide.md"],
    }


@pytest.mark.parametrize(
    ("selected", "cases"),
    [
        ("--case=refund-? --case=refund-1", ["refund-1", "refund-2"]),
        ("--case=*-[2-9]", ["refund-2"]),
        ("--case=odd[1]", ["odd[1]"]),
    ],
)
def test_cases_are_selected_by_ids_and_globs(
    tmp_path: Path, selected: str, cases: list[str]
) -> None:
    done = listed(tmp_path, *selected.split(), "--format", "json")
    failed = ["odd[1]"] if "case 'odd[1]'" in done.stderr else []
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] + failed == cases


def test_a_glob_that_matches_no_id_is_an_error(tmp_path: Path) -> None:
    done = listed(tmp_path, "--case", "order-*")
    assert done.returncode == 2
    assert done.stderr == "Error: no case 'order-*'; choose from: odd[1], refund-1, refund-2\n"
