"""Warnings: they look like errors, and with --strict they are errors."""

import io
import subprocess
import sys
from pathlib import Path

import pytest
import structlog

from commands import run
from multiturn import load_suite, output

SUITE = """\
color: red
evalcases:
- id: good
  input_messages: [{role: user, content: Hi}]
- id: lax
  input_messages:
  - {role: user, content: [Hi, {type: file, value: no.txt}]}
"""
LAX = "extends: spec\nconfigure: {resolve_segments: {missing_file: warn}}\n"
KEY = 'unknown key "color"; choose from: '
FILE = "case 'lax': input_messages[0].content[1]: no file 'no.txt'. Looked in ./\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "a.eval.yaml").write_text(SUITE)
    (tmp_path / "lax.yaml").write_text(LAX)
    return tmp_path


def lines(text: str) -> list[str]:
    """Return the lines, without the list of known keys."""
    return [line.partition(KEY)[0] + KEY if KEY in line else line for line in text.splitlines(True)]


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["convert"], id="convert"),
        pytest.param(["convert", "--workers", "2"], id="several processes"),
        pytest.param(["run", "--target", "echo"], id="run"),
        pytest.param(["snapshot"], id="snapshot"),
        pytest.param(["report"], id="report"),
        pytest.param(["explain"], id="explain"),
    ],
)
def test_warnings_look_like_errors_and_strict_makes_them_errors(
    folder: Path, command: list[str]
) -> None:
    command = [*command, "a.eval.yaml", "--pipeline", "lax.yaml"]
    done = run(*command, folder=folder)
    assert done.returncode == 0
    assert lines(done.stderr) == [
        f"a.eval.yaml:1:1: warning: {KEY}",
        f"a.eval.yaml:7: warning: {FILE}",
    ]
    done = run(*command, "--strict", folder=folder)
    assert done.returncode == 1
    assert lines(done.stderr) == [f"a.eval.yaml:1:1: {KEY}", f"a.eval.yaml:7: {FILE}"]


@pytest.mark.parametrize(
    ("command", "output"),
    [
        pytest.param(["convert"], "", id="to standard output"),
        pytest.param(["convert", "--workers", "2"], "", id="several processes"),
        pytest.param(["convert", "--output", "out"], "out", id="to a file"),
        pytest.param(["run", "--output", "out"], "out", id="results"),
        pytest.param(["run"], "", id="printed results"),
        pytest.param(["snapshot"], "snapshots", id="snapshots"),
    ],
)
def test_a_strict_command_writes_nothing_after_an_error(
    folder: Path, command: list[str], output: str
) -> None:
    command = [*command, "a.eval.yaml", "--pipeline", "lax.yaml", "--strict"]
    done = run(*command, folder=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert sorted(path.name for path in folder.iterdir()) == [".git", "a.eval.yaml", "lax.yaml"]
    (folder / "a.eval.yaml").write_text(SUITE.replace("color: red\n", ""))
    done = run(*command, "--case", "good", folder=folder)
    assert done.returncode == 0
    assert (folder / output).exists() if output else "Hi" in done.stdout


def test_a_strict_diff_compares_what_has_no_warning(folder: Path) -> None:
    (folder / "a.eval.yaml").write_text(SUITE.replace("color: red\n", ""))
    command = ["diff", "a.eval.yaml", "--from", "lax.yaml", "--to", "spec"]
    assert run(*command, "--case", "good", "--strict", folder=folder).returncode == 0
    done = run(*command, "--strict", folder=folder)
    assert (done.returncode, done.stdout) == (1, "1 case: 1 same, 0 differ\n")
    assert done.stderr == f"a.eval.yaml:6: {FILE}"


def test_what_can_be_read_only_once_is_refused_where_strict_reads_twice(folder: Path) -> None:
    done = run("run", "-", "--strict", folder=folder, given=SUITE)
    assert (done.returncode, done.stdout) == (2, "")
    what = "--strict reads a suite twice, and '-' can be read only once; write it to a file"
    assert done.stderr == f"Error: {what}\n"
    done = run("convert", "-", "--strict", "--pipeline", "lax.yaml", folder=folder, given=SUITE)
    assert (done.returncode, done.stdout) == (1, "")


def test_a_strict_run_takes_no_target_with_an_unknown_key(folder: Path) -> None:
    (folder / "targets.yaml").write_text("[{name: t, provider: codex, mood: m}]")
    done = run("run", "a.eval.yaml", "--target", "t", "--strict", folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ('Error: targets.yaml:1:29: unknown key "mood"; did you mean "model"?\n')


# --- as a library


def test_a_program_gets_warnings_on_standard_error(folder: Path) -> None:
    program = "import multiturn; print(len(list(multiturn.load_suite('a.eval.yaml'))))"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "2\n")
    assert lines(done.stderr) == [f"a.eval.yaml:1:1: warning: {KEY}"]


def test_a_program_that_logs_through_structlog_gets_them_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "_settings", None)
    logged = io.StringIO()
    structlog.configure(
        processors=[structlog.processors.KeyValueRenderer(sort_keys=True)],
        logger_factory=structlog.PrintLoggerFactory(logged),
    )
    try:
        list(load_suite(folder / "a.eval.yaml"))
    finally:
        structlog.reset_defaults()
    event = f"event='suite.unknown_key' where='{folder / 'a.eval.yaml'}:1:1' why='{KEY}"
    assert logged.getvalue().startswith(event)
