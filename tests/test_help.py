"""What the commands share: the list of them, and the options that most of them take."""

from pathlib import Path

import pytest

from commands import run

SUITE = "input_messages: [{role: user, content: Hi}]\n"
COMMANDS = {
    "Suites": ["init", "list", "check", "convert", "watch", "run", "batch"],
    "Review": ["snapshot", "report", "explain", "diff"],
    "Pipelines": ["stages", "show"],
    "Editors and shells": ["schema", "completion"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.eval.yaml").write_text(SUITE)
    (tmp_path / "multiturn.toml").write_text('pipeline = "design"\nsuites = ["a.eval.yaml"]\n')
    return tmp_path


def test_the_list_of_commands_is_grouped_and_fits_a_screen(folder: Path) -> None:
    lines = run("--help", folder=folder, env={"COLUMNS": "80"}).stdout.splitlines()
    assert len(lines) < 24  # a line is left for the prompt
    assert [line for line in lines if len(line) > 80 or line.endswith("...")] == lines[:1]
    found: dict[str, list[str]] = {}
    for line in lines[4:]:
        if line.endswith(":"):
            group = found.setdefault(line[:-1], [])
        else:
            group.append(line.split()[0])
    assert found == COMMANDS


@pytest.mark.parametrize(
    ("arguments", "summary"),
    [
        (["snapshot"], "1 snapshot: 1 new"),
        (["snapshot", "--check"], "1 snapshot: 1 same"),
        (["check"], "a.eval.yaml: 1 case, without errors"),
        (["check", "spec"], "spec: 6 stages"),
        (["diff", "--to", "design"], "1 case: 1 same, 0 differ"),
        (["run", "--output", "out.jsonl"], "1 answered, 0 reused"),
        (["run", "--dry-run"], "1 to send, 0 to reuse"),
    ],
)
@pytest.mark.parametrize("options", [[], ["-q"]])
def test_quiet_leaves_out_the_summary(
    folder: Path, arguments: list[str], summary: str, options: list[str]
) -> None:
    if "--check" in arguments:
        run("snapshot", folder=folder)
    done = run(*arguments, *options, folder=folder)
    assert done.returncode == 0
    assert (summary in done.stdout + done.stderr) == (not options)


@pytest.mark.parametrize("command", ["list", "run", "show"])
def test_each_command_says_where_defaults_come_from(folder: Path, command: str) -> None:
    for options, is_said in ([], False), (["-v"], True):
        said = run(command, *options, folder=folder).stderr
        assert ("multiturn.toml" in said and "pipeline=design" in said) == is_said
