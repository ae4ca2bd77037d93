"""Warnings: they look like errors, and with --strict they are errors."""

import io
import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import structlog

from commands import run
from comparing import write
from loopback import Server
from multiturn import load_suite, logs
from running import write_stage

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
    assert (done.returncode, done.stderr) == (1, f"a.eval.yaml:7: {FILE}a.eval.yaml:1:1: {KEY}")
    assert done.stdout == "" or command in ("report", "explain")  # which show what there is
    assert sorted(path.name for path in folder.iterdir()) == [".git", "a.eval.yaml", "lax.yaml"]
    done = run(*words, folder=folder)
    warnings = f"a.eval.yaml:7: warning: {FILE}a.eval.yaml:1:1: warning: {KEY}"
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


def requests_of_a_strict_run(folder: Path, server: Server, *cases: str, **options: Any) -> Any:
    """Run cases strictly, and return how the command ended and what the server was asked."""
    target = f"- {{name: gem, provider: gemini, api_key: k, model: m, base_url: '{server.url}'}}\n"
    write(folder, {"targets.yaml": target, "b.eval.yaml": "evalcases:\n" + "".join(cases)})
    words = ("run", options.pop("suite", "b.eval.yaml"), "--target", "gem", "--strict")
    env = {"NO_PROXY": "127.0.0.1"}
    done = run(*words, *options.pop("more", ()), folder=folder, env=env, **options)
    return done, [request.json["contents"][-1]["parts"][0]["text"] for request in server.requests]


CALM = "- {id: calm, input_messages: [{role: user, content: Hi}]}\n"
STARTS_WRONG = "- {id: odd, input_messages: [{role: assistant, content: Ho}]}\n"
LOST = "- {id: lost, input_messages: [{role: user, content: [{type: file, value: no.txt}]}]}\n"


def test_a_strict_run_sends_nothing_if_the_target_refuses_a_case(
    folder: Path, server: Server
) -> None:
    given = (CALM, STARTS_WRONG, LOST, CALM.replace("calm", "same"))
    output = ("--output", "out.jsonl")
    done, asked = requests_of_a_strict_run(folder, server, *given, more=output)
    assert (done.returncode, done.stdout, asked) == (1, "", [])
    assert re.findall("case '(.*?)'", done.stderr) == ["odd", "lost"]  # each error, once
    assert not (folder / "out.jsonl").exists()
    done, asked = requests_of_a_strict_run(folder, server, CALM, more=output)
    assert (done.returncode, asked) == (0, ["Hi"])


@pytest.mark.parametrize(("most", "times"), [(2**20, 1), (1, 2)])
def test_a_strict_run_converts_again_only_what_memory_does_not_hold(
    folder: Path, server: Server, monkeypatch: pytest.MonkeyPatch, most: int, times: int
) -> None:
    seen: list[str] = []
    body = "import sys\nsys.modules['counted'].append(conversion.case.id)"
    monkeypatch.setitem(sys.modules, "counted", seen)
    monkeypatch.setattr("multiturn.engine.run._MOST_HELD", most)
    write_stage(folder, body)
    given, more = (CALM, CALM.replace("calm", "same")), ("--pipeline", "p.yaml")
    done, asked = requests_of_a_strict_run(folder, server, *given, more=more)
    assert (done.returncode, asked) == (0, ["Hi", "Hi"])
    assert seen == ["calm", "same"] * times


def test_a_strict_run_of_a_pipe_is_sent_if_memory_holds_it(
    folder: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped: Any = {"suite": "-", "given": f"evalcases:\n{CALM}"}
    done, asked = requests_of_a_strict_run(folder, server, **piped)
    assert (done.returncode, asked) == (0, ["Hi"])
    monkeypatch.setattr("multiturn.engine.run._MOST_HELD", 1)
    done, asked = requests_of_a_strict_run(folder, server, **piped)
    assert (done.returncode, done.stdout, asked) == (2, "", ["Hi"])
    assert "'-' can be read only once; write it to a file" in done.stderr


def test_a_strict_conversion_takes_a_pipe(folder: Path) -> None:
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


def test_a_program_collects_and_silences_them_by_standard_logging(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logs, "_settings", None)
    list(load_suite("a.eval.yaml"))
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("multiturn", "WARNING")
    assert record.getMessage() == f"a.eval.yaml:1:1: warning: {KEY.rstrip()}"
    notice = record.__dict__["notice"]
    assert (notice.event, str(notice.where)) == ("suite.unknown_key", "a.eval.yaml:1:1")
    caplog.clear()
    logging.getLogger("multiturn").setLevel("ERROR")
    try:
        list(load_suite("a.eval.yaml"))
    finally:
        logging.getLogger("multiturn").setLevel("NOTSET")
    assert caplog.records == []
