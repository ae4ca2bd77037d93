"""Completion: what is offered for a word, and that each shell asks for it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from commands import run
from multiturn.pipelines.pipeline_file import pipeline_names

PAGE = (Path(__file__).parent.parent / "docs/editor.md").read_text(encoding="utf-8")
TARGETS = "[{name: claude, provider: anthropic, api_key: '${{ NO_SUCH_KEY }}'}]"
SUITE = """\
evalcases:
  - id: first-case
    typo: 1
    input_messages: [{role: user, content: Hello}]
  - id: second-case
    input_messages: [{role: user, content: Hello}]
  - id: wrong
    input_messages: Hello
  - id: $(touch evil)
    input_messages: [{role: user, content: Hello}]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with suites and targets, and the command."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "a.eval.yaml").write_text(SUITE)
    (tmp_path / "b.eval.yaml").write_text("input_messages: [{role: user, content: Hi}]")
    (tmp_path / "house.yaml").write_text("extends: spec")
    (tmp_path / "targets.yaml").write_text(TARGETS)
    (tmp_path / "multiturn").write_text(f'#!/bin/sh\nexec {sys.executable} -m multiturn "$@"\n')
    (tmp_path / "multiturn").chmod(0o755)
    return tmp_path


def offered(folder: Path, line: str) -> list[str]:
    """Return what is offered for the last word of a line, asked for as bash asks."""
    asked = {"_MULTITURN_COMPLETE": "bash_complete", "COMP_WORDS": line}
    # What is given is the reader's own typing, at a terminal: nobody may read it.
    done = run(folder=folder, given=SUITE, env={**asked, "COMP_CWORD": str(line.count(" "))})
    assert done.stderr == ""
    return done.stdout.split()


IDS = ["plain,first-case", "plain,second-case"]  # not those that are broken, or that a shell runs
OFFERED = {
    "convert --pipeline ": ["file,", *(f"plain,{each}" for each in pipeline_names())],
    "diff --to sp": ["file,sp", "plain,spec"],
    "explain a.e": ["file,a.e"],
    "convert --root ": ["dir,"],
    "run --output o": ["file,o"],
    "run --targets t": ["file,t"],
    "run --target ": ["plain,echo", "plain,claude"],
    "run --targets no.yaml --target ": [],
    "convert a.eval.yaml --case ": IDS,
    "convert --case f a.eval.yaml b.eval.yaml --case ": [*IDS, "plain,b"],
    "convert no.yaml - --case ": [],
    "convert house.yaml targets.yaml --case ": [],
}


@pytest.mark.parametrize(("line", "words"), OFFERED.items(), ids=OFFERED)
def test_a_word_is_completed_from_what_is_there(folder: Path, line: str, words: list[str]) -> None:
    assert offered(folder, f"multiturn {line}") == words


def test_a_long_suite_is_read_in_part(folder: Path) -> None:
    many = "".join(
        f"- {{id: c{number}, input_messages: [{{role: user, content: Hi}}]}}\n"
        for number in range(3000)
    )
    (folder / "long.eval.yaml").write_text(f"evalcases:\n{many}")
    assert len(offered(folder, "multiturn convert long.eval.yaml --case ")) == 2000


@pytest.mark.parametrize(
    ("command", "before", "after"),
    [
        pytest.param(
            ["bash", "--norc", "-c"],
            "",
            "COMP_WORDS=(multiturn explain a.eval.yaml --case sec); COMP_CWORD=4;"
            " $(complete -p multiturn | sed 's/.*-F \\([^ ]*\\).*/\\1/') multiturn;"
            " echo $COMPREPLY",
            id="bash",
        ),
        pytest.param(
            ["zsh", "-f", "-c"],
            "autoload -Uz compinit; compinit -u -D",
            "compadd() { echo $completions }; words=(multiturn explain a.eval.yaml --case sec);"
            " CURRENT=5; $_comps[multiturn]",
            id="zsh",
        ),
        pytest.param(
            ["fish", "--no-config", "--command"],
            "true",
            'complete --do-complete "multiturn explain a.eval.yaml --case sec"',
            id="fish",
        ),
    ],
)
def test_a_shell_completes_with_the_line_of_the_page(
    folder: Path, command: list[str], before: str, after: str
) -> None:
    shell = command[0]
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} on this machine")
    (line,) = re.findall(rf"^(.*multiturn completion {shell}.*?) +#", PAGE, re.MULTILINE)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [*command, "\n".join((before, line, after))],
        cwd=folder,
        env={**os.environ, "PATH": path, "HOME": str(folder)},
        capture_output=True,
        text=True,
    )
    assert (done.stdout.split(), done.stderr) == (["second-case"], "")
