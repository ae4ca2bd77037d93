"""Warnings: they look like errors, and with --strict they are errors."""

import io
import subprocess
import sys
from pathlib import Path

import pytest
import structlog

from commands import run
from comparing import write
from multiturn import load_suite, logs

CASES = """\
evalcases:
- id: good
  input_messages: [{role: user, content: Hi}]
- id: lax
  input_messages:
  - {role: user, content: [Hi, {type: file, value: no.txt}]}
"""
SUITE = f"names: x\n{CASES}"
LAX = "extends: spec\nconfigure: {resolve_segments: {missing_file: warn}}\n"
KEY = 'unknown key "names"; did you mean "name"?\n'
FILE = "case 'lax': input_messages[0].content[1]: no file 'no.txt'. Looked in ./\n"


@pytest.fixture(autouse=True)
def folder(root: Path) -> Path:
    write(root, {"a.eval.yaml": SUITE, "lax.yaml": LAX})
    return root


@pytest.mark.parametrize(
    "command",
    [
        "convert",
        "convert --workers 2",
        "convert --output out",
        "run --target echo",
        "run --target echo --output out",
        "snapshot",
        "report",
        "explain",
    ],
)
def test_with_strict_warnings_are_errors_and_nothing_is_written(folder: Path, command: str) -> None:
    words = [*command.split(), "a.eval.yaml", "--pipeline", "lax.yaml"]
    done = run(*words, "--strict", folder=folder)
    assert (done.returncode, done.stderr) == (1, f"a.eval.yaml:1:1: {KEY}a.eval.yaml:7: {FILE}")
    assert done.stdout == "" or command in ("report", "explain")  # which show what there is
    assert sorted(path.name for path in folder.iterdir()) == [".git", "a.eval.yaml", "lax.yaml"]
    done = run(*words, folder=folder)
    warnings = f"a.eval.yaml:1:1: warning: {KEY}a.eval.yaml:7: warning: {FILE}"
    assert done.returncode == 0
    assert done.stderr.startswith(warnings)
    (folder / "out").unlink(missing_ok=True)
    write(folder, {"a.eval.yaml": CASES})
    assert run(*words, "--strict", "--case", "good", folder=folder).returncode == 0


def test_a_strict_diff_compares_what_has_no_warning(folder: Path) -> None:
    write(folder, {"a.eval.yaml": CASES})
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
    write(folder, {"targets.yaml": "[{name: t, provider: codex, mood: m}]"})
    done = run("run", "a.eval.yaml", "--target", "t", "--strict", folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == 'Error: targets.yaml:1:29: unknown key "mood"; did you mean "model"?\n'


# As a library


def test_a_program_gets_warnings_on_standard_error(folder: Path) -> None:
    program = "import multiturn; print(len(list(multiturn.load_suite('a.eval.yaml'))))"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    expected = (0, "2\n", f"a.eval.yaml:1:1: warning: {KEY}")
    assert (done.returncode, done.stdout, done.stderr) == expected


def test_a_program_that_logs_through_structlog_gets_them_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logs, "_settings", None)
    logged = io.StringIO()
    structlog.configure(
        processors=[structlog.processors.KeyValueRenderer(sort_keys=True)],
        logger_factory=structlog.PrintLoggerFactory(logged),
    )
    try:
        list(load_suite("a.eval.yaml"))
    finally:
        structlog.reset_defaults()
    event = "event='suite.unknown_key' where='a.eval.yaml:1:1' why='unknown key"
    assert logged.getvalue().startswith(event)
