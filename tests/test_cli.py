"""The command line: what commands share, and what they print, log and import."""

import itertools
import json
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import pytest

from commands import read_terminal, run
from multiturn import MultiturnError
from multiturn.cli import printing
from multiturn.cli.printing import Failures
from running import write_stage

SUITE = """\
evalcases:
  - id: one
    input_messages:
      - {role: user, content: Hello}
  - id: 002
    input_messages:
      - {role: system, content: Be brief.}
      - {role: user, content: Hi}
      - {role: assistant, content: Ho}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.eval.yaml").write_text(SUITE)
    return tmp_path


def ids(output: str) -> list[str]:
    return [json.loads(line)["id"] for line in output.splitlines()]


# Help and summaries

COMMANDS = {
    "Suites": [
        *("init", "import", "capture", "list", "check", "convert", "watch", "run", "batch"),
    ],
    "Review": ["snapshot", "report", "explain", "diff"],
    "Pipelines, editors and shells": ["stages", "schema", "completion"],
}


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


def test_help_shows_the_options_of_every_day_before_the_others(folder: Path) -> None:
    lines = run("run", "--help", folder=folder, env={"COLUMNS": "80"}).stdout.splitlines()
    found: dict[str, list[str]] = {}
    for line in lines:
        if line.endswith(":") and not line.startswith(" "):
            group = found.setdefault(line[:-1], [])
        elif line.startswith("  -"):
            group += [word for word in line.split()[:3] if word.startswith("--")][:1]
    assert found == {
        "Options": [
            *("--case", "--strict", "--pipeline", "--target", "--output", "--repeat", "--resume"),
            *("--reuse", "--against", "--dry-run", "--format", "--help"),
        ],
        "Sampling": ["--sample", "--seed"],
        "Files": ["--root", "--guidelines", "--targets"],
        "Results": ["--record-wire", "--record-thinking"],
        "Costs": ["--count-tokens", "--prices", "--max-cost", "--max-tokens"],
        "Batches": ["--batch", "--no-wait", "--poll"],
        "Scale": ["--concurrency", "--rate", "--order"],
        "Logging": ["--debug", "--verbose", "--quiet"],
    }


@pytest.mark.parametrize("command", [[], ["batch"]])
def test_a_command_without_its_own_command_shows_its_help(folder: Path, command: list[str]) -> None:
    done = run(*command, folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == run(*command, "--help", folder=folder).stdout


@pytest.mark.parametrize(
    ("arguments", "summary"),
    [
        (["snapshot"], "2 snapshots: 2 new"),
        (["snapshot", "--check"], "2 snapshots: 2 same"),
        (["check"], "a.eval.yaml: 2 cases, without errors"),
        (["check", "spec"], "spec: 6 stages"),
        (["diff", "--to", "spec"], "2 cases: 2 same, 0 differ"),
        (["run", "--output", "out.jsonl"], "2 answered, 0 reused"),
        (["run", "--dry-run"], "2 to send, 0 to reuse"),
    ],
)
@pytest.mark.parametrize("options", [[], ["-q"]])
def test_quiet_leaves_out_the_summary(
    folder: Path, arguments: list[str], summary: str, options: list[str]
) -> None:
    (folder / "multiturn.toml").write_text('suites = ["a.eval.yaml"]')
    if "--check" in arguments:
        run("snapshot", folder=folder)
    done = run(*arguments, *options, folder=folder)
    assert done.returncode == 0
    assert (summary in done.stdout + done.stderr) == (not options)


# What is printed


@pytest.mark.parametrize(
    ("format_", "written"),
    [
        (
            "json",
            '{"suite":"a.eval.yaml","id":"one","question":"Hello","chat_prompt":[{"role":"user",'
            '"content":"Hello"}],"guidelines":[],"input_files":[],"metadata":{}}\n'
            '{"suite":"a.eval.yaml","id":"002",',
        ),
        ("text", "a.eval.yaml · one\nuser\n  Hello\n\na.eval.yaml · 002\nsystem\n  Be brief.\n"),
        ("yaml", "---\nsuite: a.eval.yaml\nid: one\nquestion: Hello\nchat_prompt:\n"),
    ],
)
def test_a_case_is_a_line_of_json_text_or_a_yaml_document(
    folder: Path, format_: str, written: str
) -> None:
    done = run("convert", "a.eval.yaml", "--format", format_, folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(written)


def test_an_attached_file_is_listed_by_its_path_from_the_root(folder: Path) -> None:
    (folder / "evals").mkdir()
    (folder / "code.py").write_text("pass\n")
    (folder / "evals" / "b.eval.yaml").write_text(
        "input_messages: [{role: user, content: [{type: file, value: ../code.py}]}]"
    )
    done = run("convert", "evals", "--root", ".", "--guidelines", "*.py", folder=folder)
    record = json.loads(done.stdout)
    assert record["input_files"] == [
        {"path": "../code.py", "resolved_path": "code.py", "guideline": True}
    ]
    assert record["guidelines"] == ["pass"]


NO_COLOR = {"NO_COLOR": "1"}
PLAIN = r"^a\.eval\.yaml · one\r\nuser\r\n  Hello"


@pytest.mark.parametrize(
    ("arguments", "given", "shown"),
    [
        pytest.param(["convert"], {}, r"\x1b\[1ma\.eval\.yaml · one\x1b.*Hello", id="in color"),
        pytest.param(["convert"], NO_COLOR, PLAIN, id="NO_COLOR"),
        pytest.param(["convert"], {"TERM": "dumb"}, PLAIN, id="a terminal without colors"),
        pytest.param(
            ["convert"], {"TERM": "xterm"}, r"^\x1b\[1ma\.eval\.yaml", id="one with colors"
        ),
        pytest.param(["list"], {"TERM": "dumb"}, r"^a\.eval\.yaml\r\n  one", id="a list there"),
        pytest.param(
            ["run"],
            {"TERM": "dumb"},
            r"^a\.eval\.yaml · one · echo\r\n  repaired C9: [^\n]*\nsystem\r\n",
            id="answers there",
        ),
        pytest.param(
            ["run"],
            NO_COLOR,
            r"^a\.eval\.yaml · one · echo\r\n  repaired C9: [^\n]*\n"
            r"system\r\n  You are [^\n]*\nuser\r\n  Hello",
            id="answers of echo",
        ),
        pytest.param(
            ["run", "--dry-run", "--output", "o"],
            NO_COLOR,
            r"^case .*\r\none  .*\r\n2 requests ",
            id="a table",
        ),
        pytest.param(["convert", "--output", "out"], {}, "^$", id="to a file"),
        pytest.param(["list"], NO_COLOR, r"^a\.eval\.yaml\r\n  one", id="a list, with NO_COLOR"),
    ],
)
def test_on_a_terminal_text_is_the_default(
    folder: Path, arguments: list[str], given: dict[str, str], shown: str
) -> None:
    env = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")}
    env |= given
    found = read_terminal(*arguments, "a.eval.yaml", folder=folder, stream="stdout", env=env)
    assert re.search(shown, found, re.DOTALL)
    if "out" in arguments:
        assert ids((folder / "out").read_text()) == ["one", "002"]


@pytest.mark.parametrize(
    ("given", "in_color"),
    [({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), ({"TERM": "xterm", **NO_COLOR}, False)],
)
def test_the_log_has_colors_where_the_terminal_has(
    folder: Path, given: dict[str, str], in_color: bool
) -> None:
    env = {key: value for key, value in os.environ.items() if key != "NO_COLOR"} | given
    found = read_terminal("convert", "-v", "a.eval.yaml", folder=folder, stream="stderr", env=env)
    assert "stage.done" in found
    assert ("\x1b[" in found) is in_color


@pytest.mark.skipif(
    version("click").startswith("8.3."), reason="click suggests commands from 8.4 on"
)
def test_a_misspelled_command_is_told_which_one_it_may_be(tmp_path: Path) -> None:
    done = run("snapshoot", "a.eval.yaml", folder=tmp_path)
    assert done.returncode == 2
    assert "No such command 'snapshoot'. Did you mean 'snapshot'?" in done.stderr


def test_progress_shows_on_a_terminal_once_a_run_lasts_a_second(folder: Path) -> None:
    os.mkfifo(folder / "slow.yaml")

    def write_late() -> None:
        with open(folder / "slow.yaml", "w") as file:
            time.sleep(1.2)
            file.write(SUITE.replace("one", "three"))

    writer = threading.Thread(target=write_late)
    writer.start()
    shown = read_terminal(
        *("convert", "a.eval.yaml", "slow.yaml", "a.eval.yaml"),
        folder=folder,
        stream="stderr",
        env={**os.environ, "TERM": "xterm"},
    )
    writer.join()
    assert re.search(r"\d cases", shown)
    assert read_terminal("convert", "a.eval.yaml", folder=folder, stream="stderr") == ""


def test_a_terminal_gets_no_page_of_html(folder: Path) -> None:
    shown = read_terminal("report", "a.eval.yaml", folder=folder, stream="stdout stderr")
    assert "an HTML page is not shown in a terminal; add --output report.html" in shown
    assert "<html" not in shown
    given = ("report", "a.eval.yaml", "--format", "markdown")
    assert "2 cases" in read_terminal(*given, folder=folder, stream="stdout stderr")


def test_cases_are_counted_ten_times_a_second_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: list[int] = []
    monkeypatch.setattr(printing, "monotonic", itertools.count(0, 0.001).__next__)
    monkeypatch.setattr(printing.Progress, "_show", lambda _, done, words: shown.append(done))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert list(printing.show_progress(range(5_000), prints=False)) == list(range(5_000))
    assert 1_000 <= shown[0] <= 1_010
    assert 35 <= len(shown) <= 41  # in four seconds


def test_verbose_logs_each_stage_with_its_case_and_time(folder: Path) -> None:
    log = ("-v", "--log-format", "json")
    done = run("convert", "a.eval.yaml", "--case", "one", *log, folder=folder)
    assert ids(done.stdout) == ["one"]
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert [event["stage"] for event in events[::5]] == ["resolve_segments", "render_question"]
    for event in events:
        assert (event["event"], event["case"], event["level"]) == ("stage.done", "one", "debug")
        assert event["suite"] == "a.eval.yaml"
        assert 0 <= event["ms"] < 1000


# Errors


def test_a_failing_case_is_reported_and_the_others_are_converted(folder: Path) -> None:
    (folder / "b.eval.yaml").write_text(
        "evalcases:\n"
        "  - {id: good, input_messages: [{role: user, content: Hi}]}\n"
        "  - {id: bad, input_messages: [{role: usr, content: Hi}]}\n"
        "  - {id: worse, input_messages: [{role: user, content: [{type: file, value: no.txt}]}]}\n"
        "  - {id: last, input_messages: [{role: user, content: Hi}]}\n"
    )
    (folder / "c.eval.yaml").write_text("evalcases: [")
    done = run("convert", ".", folder=folder)
    assert done.returncode == 1
    assert ids(done.stdout) == ["one", "002", "good", "last"]
    bad, worse, broken = done.stderr.splitlines()
    assert bad.startswith("b.eval.yaml:3:")
    assert "'bad'" in bad
    assert 'did you mean "user"?' in bad
    assert worse.startswith("b.eval.yaml:4: case 'worse': input_messages[0].content[0]: no file")
    assert broken.startswith("c.eval.yaml:2:1: not YAML: ")


def test_a_path_that_is_not_utf_8_is_shown_as_well_as_it_can_be(folder: Path) -> None:
    odd = folder / os.fsdecode(b"odd\xff")
    odd.mkdir()
    (odd / "a.txt").write_text("A")
    (odd / os.fsdecode(b"\xff.eval.yaml")).write_text(
        "input_messages: [{role: user, content: [{type: file, value: a.txt}]}]"
    )
    for format_ in ("json", "yaml", "text"):
        done = run("convert", str(odd), "--root", ".", "--format", format_, folder=folder)
        assert (done.returncode, done.stderr) == (0, "")
        assert "odd\ufffd" in done.stdout
    done = run("list", str(odd), "--format", "json", folder=folder)
    assert json.loads(done.stdout)["suite"].endswith("odd\ufffd/\ufffd.eval.yaml")
    done = run("run", str(odd), "--root", ".", "--output", "r.jsonl", folder=folder)
    assert (done.returncode, done.stderr.partition(",")[0]) == (0, "1 answered")


def test_no_line_of_an_error_poses_as_another_error(capsys: pytest.CaptureFixture[str]) -> None:
    Failures().add(MultiturnError("no\na.eval.yaml: yes"))
    assert capsys.readouterr().err == "no\n    a.eval.yaml: yes\n"


@pytest.mark.parametrize("command", ["convert", "check"])
def test_debug_shows_tracebacks(folder: Path, command: str) -> None:
    (folder / "a.eval.yaml").write_text("input_messages: 3")
    assert "Traceback" not in run(command, "a.eval.yaml", folder=folder).stderr
    assert "Traceback" in run(command, "a.eval.yaml", "--debug", folder=folder).stderr


def test_case_picks_cases_and_says_nothing_of_the_others(folder: Path) -> None:
    (folder / "b.eval.yaml").write_text(
        "evalcases:\n- {id: bad, input_messages: 3}\n- [nothing]\n"
        "- {id: x, input_messages: [{role: user, content: Hi}]}\n"
    )
    done = run("convert", ".", "--case", "x", "--case", "one", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert ids(done.stdout) == ["one", "x"]


LONG = "x" * 5000
USAGE_ERRORS = {
    "convert": "name a SUITE, or set suites in multiturn.toml",
    "convert no.yaml": "there is no suite 'no.yaml'\n",
    "convert ./a.eval.yml": "there is no suite './a.eval.yml'; did you mean './a.eval.yaml'?\n",
    "convert empty": "below 'empty'",
    "convert . --case 02 --output out": "no case '02'; did you mean \"002\"?",
    "convert . --format xml": "'xml' is not one of",
    "convert . --pipeline spce": 'did you mean "spec"?',
    "convert . --guidelines=": "is empty",
    "convert . --pipeline spec --pipeline spec": "Error: --pipeline is given twice; give it once\n",
    "check . --target a --target=b": "Error: --target is given twice; give it once\n",
    "report . --output a --output b": "Error: --output is given twice; give it once\n",
    "convert . --root no": "'no' is not a folder",
    "convert . --output no/x": "cannot write 'no/x'",
    "convert . --output empty/../a.eval.yaml": "a.eval.yaml' is a suite; name another file\n",
    "report . --output empty/../a.eval.yaml": "a.eval.yaml' is a suite; name another file\n",
    "snapshot . --dir /": "/: the root of the file system has no snapshots; name a folder (--dir)",
    "snapshot . --format json": "--format json is for --check, without --stat and --all",
    "snapshot . --check --stat --format json": "--format json is for --check, without --stat",
    f"convert . --pipeline {LONG}": f"Error: cannot open '{LONG}': File name too long",
}


@pytest.mark.parametrize(
    ("command", "message"), USAGE_ERRORS.items(), ids=[each[:60] for each in USAGE_ERRORS]
)
def test_a_usage_error_is_said_in_words_and_exits_with_2(
    folder: Path, command: str, message: str
) -> None:
    (folder / "empty").mkdir()
    (folder / "out").write_text("old")
    done = run(*command.split(), folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert ((folder / "out").read_text(), (folder / "a.eval.yaml").read_text()) == ("old", SUITE)


@pytest.mark.parametrize(
    ("command", "unwanted"),
    [
        (["--help"], {"msgspec", "toolz", "structlog", "yaml", "rich"}),
        (
            ["convert", "a.eval.yaml"],
            {
                *("structlog", "rich", "tempfile", "asyncio"),
                *("multiturn.engine.formats", "multiturn.providers"),
            },
        ),
        (["snapshot", "a.eval.yaml"], {"structlog", "rich", "tempfile", "asyncio"}),
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(
    folder: Path, command: list[str], unwanted: set[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "multiturn", *command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "click" in imported
    assert imported & unwanted == set()


def test_a_long_command_counts_on_a_terminal_if_it_prints_no_cases_there(tmp_path: Path) -> None:
    write_stage(tmp_path, "import time; time.sleep(0.6)")
    cases = "".join(f"- {{id: {each}, input: {each}}}\n" for each in "abc")
    (tmp_path / "slow.eval.yaml").write_text(f"tests:\n{cases}")

    def last_line(command: str) -> tuple[str, bool]:
        shown = read_terminal(
            *(*command.split(), "slow.eval.yaml", "--pipeline", "p.yaml"),
            folder=tmp_path,
            stream="stdout stderr",
            env={**os.environ, "TERM": "xterm"},
        )
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
        counts = re.search(r"3 cases 0:\d\d:(?!00)", plain) is not None  # since the start
        return re.split(r"[\r\n]+", plain.rstrip())[-1], counts

    expected = {
        "convert --output out": ("out: 3 cases", True),
        "check": ("slow.eval.yaml: 3 cases, without errors", True),
        "snapshot": ("3 snapshots: 3 new, 0 same; promoted.lock changed", True),
        "report --output r.html": ("r.html: 3 cases, 0.1 MB", True),
        "convert": ("  c", False),
    }
    with ThreadPoolExecutor() as pool:  # as they are slow
        assert dict(zip(expected, pool.map(last_line, expected), strict=True)) == expected


def test_an_error_begins_a_line_beside_the_counts(tmp_path: Path) -> None:
    write_stage(tmp_path, "import time; time.sleep(0.6)")
    cases = "".join(f"- {{id: {each}, input: {each}}}\n" for each in "abc")
    (tmp_path / "slow.eval.yaml").write_text(f"tests:\n{cases}")
    (tmp_path / "x.eval.yaml").write_text("tests: 5\n")
    shown = read_terminal(
        *("check", "slow.eval.yaml", "x.eval.yaml", "--pipeline", "p.yaml"),
        folder=tmp_path,
        stream="stdout stderr",
        env={**os.environ, "TERM": "xterm"},
    )
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert "3 cases 0:0" in plain
    assert any(line.startswith("x.eval.yaml:1:") for line in re.split(r"[\r\n]+", plain))
