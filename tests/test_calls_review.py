"""Calls, results and tools where people review prompts: snapshots, reports, text, diff."""

import json
from pathlib import Path

import pytest

from commands import run
from layout import write_layout
from repositories import commit, git

SUITE = """\
tools:
  - name: weather
    description: The weather of a city.
    parameters: {type: object, properties: {city: {type: string}}}
evalcases:
  - id: umbrella
    input_messages:
      - {role: user, content: An umbrella?}
      - role: assistant
        content: Let me look.
        tool_calls: [{id: c1, name: weather, arguments: {city: Paris}}]
      - {role: tool, tool_call_id: c1, is_error: true, content: rain}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "a.eval.yaml").write_text(SUITE)
    write_layout(tmp_path)
    return tmp_path


def committed(folder: Path) -> Path:
    git(folder, "init", "--quiet")
    (folder / "a.eval.yaml").write_text(SUITE)
    write_layout(folder)
    commit(folder)
    return folder


def test_text_shows_the_call_and_which_result_it_has(folder: Path) -> None:
    done = run("convert", "a.eval.yaml", "--format", "text", folder=folder)
    assert done.stdout == (
        "a.eval.yaml · umbrella\n"
        "user\n"
        "  An umbrella?\n"
        "assistant\n"
        "  Let me look.\n"
        '  weather({"city": "Paris"})\n'
        "tool, failed result of c1\n"
        "  rain\n"
        "\n"
    )


def test_a_snapshot_has_calls_and_tools_as_readable_yaml(folder: Path) -> None:
    run("snapshot", "a.eval.yaml", folder=folder)
    assert (folder / "snapshots/a/umbrella.yaml").read_text() == (
        "---\n"
        "suite: a.eval.yaml\n"
        "id: umbrella\n"
        "chat_prompt:\n"
        "  - role: user\n"
        '    content: "An umbrella?"\n'
        "  - role: assistant\n"
        "    content: Let me look.\n"
        "    tool_calls:\n"
        "      - id: c1\n"
        "        name: weather\n"
        "        arguments:\n"
        "          city: Paris\n"
        "  - role: tool\n"
        "    content: rain\n"
        "    tool_call_id: c1\n"
        "    is_error: true\n"
        "tools:\n"
        "  - name: weather\n"
        "    description: The weather of a city.\n"
        "    parameters:\n"
        "      type: object\n"
        "      properties:\n"
        "        city:\n"
        "          type: string\n"
        "question: |-\n"
        "  [User]: An umbrella?\n"
        "  [Assistant]: Let me look.\n"
        '  [Tool call c1]: weather({"city": "Paris"})\n'
        "  [Tool result c1]: error: rain\n"
        "input_files: []\n"
    )
    assert run("snapshot", "--check", "a.eval.yaml", folder=folder).returncode == 0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        pytest.param(
            "of a city",
            "of any city",
            "change of privilege: the definition of the tool weather changed",
            id="a description",
        ),
        pytest.param(
            "{type: string}",
            "{type: number}",
            "change of privilege: the definition of the tool weather changed",
            id="a schema",
        ),
        pytest.param(
            "    description:",
            "    strict: true\n    description:",
            "change of privilege: the definition of the tool weather changed",
            id="strict alone",
        ),
        pytest.param(
            "evalcases:",
            "  - {name: rm, parameters: {type: object}}\nevalcases:",
            "change of privilege: the definition of the tool rm is new",
            id="a tool",
        ),
        pytest.param("city: Paris", "city: Rome", "", id="arguments are no privilege"),
    ],
)
def test_what_the_model_may_do_is_a_change_of_privilege(
    folder: Path, old: str, new: str, said: str
) -> None:
    run("snapshot", "a.eval.yaml", folder=folder)
    (folder / "a.eval.yaml").write_text(SUITE.replace(old, new))
    done = run("snapshot", "--check", "a.eval.yaml", folder=folder)
    assert done.returncode == 1
    assert f"{said} (a.eval.yaml: umbrella)" in done.stdout or not said
    assert ("change of privilege" in done.stdout) == bool(said)


def test_a_report_names_the_tool_the_call_and_their_causes(tmp_path: Path) -> None:
    folder = committed(tmp_path)
    changed = SUITE.replace("of a city", "of any city").replace("city: Paris", "city: Rome")
    (folder / "a.eval.yaml").write_text(changed)
    done = run("report", "a.eval.yaml", "--against=HEAD", "--format=json", folder=folder)
    (line,) = map(json.loads, done.stdout.splitlines())
    assert line["causes"] == [
        "a.eval.yaml line 9: the messages of 'umbrella'",
        "tools of a.eval.yaml",
    ]
    assert line["privilege_changes"] == ["the definition of the tool weather changed"]
    assert "-      city: Paris\n+      city: Rome" in line["diff"]


def test_a_report_and_a_check_both_see_that_the_model_must_call_a_tool(tmp_path: Path) -> None:
    folder = committed(tmp_path)
    run("snapshot", "a.eval.yaml", folder=folder)
    must = "  - id: umbrella\n    execution: {tool_choice: required}\n"
    (folder / "a.eval.yaml").write_text(SUITE.replace("  - id: umbrella\n", must))
    check = run("snapshot", "--check", "a.eval.yaml", folder=folder)
    assert "+  tool_choice: required" in check.stdout
    done = run("report", "a.eval.yaml", "--against=HEAD", "--format=json", folder=folder)
    (line,) = map(json.loads, done.stdout.splitlines())
    assert (line["status"], line["causes"]) == ("changed", ["settings of a.eval.yaml"])
    assert line["diff"].endswith("+settings:\n+  tool_choice: required")


def test_a_line_added_above_changes_nothing(tmp_path: Path) -> None:
    folder = committed(tmp_path)
    (folder / "a.eval.yaml").write_text(f"# a comment\n{SUITE}")
    done = run("report", "a.eval.yaml", "--against=HEAD", "--format=json", folder=folder)
    assert '"status":"same"' in done.stdout
