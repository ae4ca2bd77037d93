"""Completion, asked as a shell asks, and in real shells at a terminal."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from commands import run

PAGE = (Path(__file__).parent.parent / "docs/editor.md").read_text(encoding="utf-8")
TARGETS = "[{name: claude, provider: anthropic, api_key: '${{ NO_SUCH_KEY }}'}]"
SUITE = """\
evalcases:
  - id: first-case
    typo: 1
    input_messages:
      - {role: user, content: Hello}
  - id: second-case
    input_messages:
      - {role: user, content: Hello}
  - id: wrong
    input_messages: Hello
  - id: $(touch evil)
    input_messages:
      - {role: user, content: Hello}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with suites and targets, and a command that notes what it is called with."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "a.eval.yaml").write_text(SUITE)
    (tmp_path / "b.eval.yaml").write_text("input_messages: [{role: user, content: Hi}]")
    (tmp_path / "house.yaml").write_text("extends: spec")
    (tmp_path / "targets.yaml").write_text(TARGETS)
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin/multiturn"
    command.write_text(
        f"""#!/bin/sh
        if [ "$_MULTITURN_COMPLETE" ] || [ "$1" = completion ]; then
            exec {sys.executable} -m multiturn "$@"
        fi
        printf '%s\\n' "$@" > {tmp_path}/words.new
        mv {tmp_path}/words.new {tmp_path}/words
        """
    )
    command.chmod(0o755)
    return tmp_path


def environment(folder: Path) -> dict[str, str]:
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "TERM": "xterm", "HOME": str(folder)}


# --- asked as bash asks


def offered(folder: Path, line: str) -> list[str]:
    """Return what is offered for the last word of a line."""
    asked = {"_MULTITURN_COMPLETE": "bash_complete", "COMP_WORDS": line}
    # What is given is the reader's own typing, at a terminal: nobody may read it.
    done = run(folder=folder, given=SUITE, env={**asked, "COMP_CWORD": str(line.count(" "))})
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        pytest.param("multiturn re", ["plain,report"], id="commands"),
        pytest.param("multiturn convert --str", ["plain,--strict"], id="options"),
        pytest.param(
            "multiturn convert --pipeline ",
            ["file,", "plain,agentv", "plain,design", "plain,shipped", "plain,spec"],
            id="pipelines that ship, and files",
        ),
        pytest.param("multiturn check h", ["file,h"], id="check"),
        pytest.param("multiturn diff --to sp", ["file,sp", "plain,spec"], id="diff --to"),
        pytest.param("multiturn explain a.e", ["file,a.e"], id="suites"),
        pytest.param("multiturn convert --root ", ["dir,"], id="folders"),
        pytest.param("multiturn convert --output o", ["file,o"], id="output"),
        pytest.param("multiturn run --targets t", ["file,t"], id="targets files"),
        pytest.param("multiturn run --target ", ["plain,echo", "plain,claude"], id="targets"),
        pytest.param("multiturn run --targets no.yaml --target ", [], id="no targets file"),
        pytest.param(
            "multiturn convert a.eval.yaml --case ",
            ["plain,first-case", "plain,second-case"],
            id="cases, without those that are broken or that a shell would run",
        ),
        pytest.param("multiturn convert --case f a.eval.yaml b.eval.yaml --case ",
            ["plain,first-case", "plain,second-case", "plain,b"],
            id="cases of all suites",
        ),
        pytest.param("multiturn convert no.yaml - --case ", [], id="no suite, or no file"),
        pytest.param("multiturn convert house.yaml targets.yaml --case ", [], id="no suites"),
    ],
)  # fmt: skip
def test_a_word_is_completed_from_what_is_there(folder: Path, line: str, words: list[str]) -> None:
    assert offered(folder, line) == words


def test_a_long_suite_is_read_in_part(folder: Path) -> None:
    many = "".join(
        f"- {{id: c{number}, input_messages: [{{role: user, content: Hi}}]}}\n"
        for number in range(3000)
    )
    (folder / "long.eval.yaml").write_text(f"evalcases:\n{many}")
    assert len(offered(folder, "multiturn convert long.eval.yaml --case ")) == 2000


# --- real shells


def line_of(shell: str) -> str:
    """Return the line that the page of editors has for a shell; skip where there is none."""
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} on this machine")
    (line,) = re.findall(rf"^(.*multiturn completion {shell}.*?) +#", PAGE, re.MULTILINE)
    return str(line)


def at_terminal(command: list[str], setup: str, folder: Path, line: str) -> list[str]:
    """Type a line, its tabs included, into a shell; return the words that the command gets."""
    master, slave = pty.openpty()
    shell = subprocess.Popen(
        command,
        cwd=folder,
        env=environment(folder),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    shown = b""

    def read_until(done: Callable[[], bool]) -> None:
        nonlocal shown
        end = time.monotonic() + 60
        while not done():
            assert time.monotonic() < end, shown.decode(errors="replace")
            if select.select([master], [], [], 0.05)[0]:
                shown += os.read(master, 65536)

    try:
        # In two halves, so that the line's echo is not taken for the prompt.
        os.write(master, f'{setup}; PS1="rea""dy> "\n'.encode())
        read_until(lambda: b"ready>" in shown)
        os.write(master, line.encode() + b"\n")
        read_until((folder / "words").exists)
    finally:
        shell.kill()
        shell.wait()
        os.close(master)
    return (folder / "words").read_text().split()


LINE = "multiturn explain a.e\t--case sec\t"
WORDS = ["explain", "a.eval.yaml", "--case", "second-case"]


def test_bash_completes(folder: Path) -> None:
    command = ["bash", "--norc", "--noprofile", "-i"]
    assert at_terminal(command, line_of("bash"), folder, LINE) == WORDS


def test_zsh_completes(folder: Path) -> None:
    setup = f"autoload -Uz compinit; compinit -u -D; {line_of('zsh')}"
    assert at_terminal(["zsh", "-f", "-i"], setup, folder, LINE) == WORDS


@pytest.mark.parametrize(
    ("line", "word"),
    [("explain a.e", "a.eval.yaml"), ("explain a.eval.yaml --case sec", "second-case")],
)
def test_fish_completes(folder: Path, line: str, word: str) -> None:
    """Fish says itself what its tab key would offer."""
    asks = f'{line_of("fish")}; complete --do-complete "multiturn {line}"'
    done = subprocess.run(
        ["fish", "--no-config", "--command", asks],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
    )
    assert [said.split("\t")[0] for said in done.stdout.splitlines()] == [word]
    assert done.stderr == ""
