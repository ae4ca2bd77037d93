"""A check shows how an attached file has changed, if Git has the text that is recorded."""

from collections.abc import Callable
from pathlib import Path

import pytest

from commands import run
from repositories import TONE, commit, git, replace

DIFFERENCE = [
    f"--- {TONE} · recorded",
    f"+++ {TONE} · now",
    "@@",
    " One.",
    " Two.",
    "-Three.",
    "+Drei.",
    " Four.",
    " Five.",
]


@pytest.fixture
def folder(repository: Path) -> Path:
    assert run("snapshot", "evals", folder=repository).returncode == 0
    return repository


def shown(folder: Path) -> list[str]:
    done = run("snapshot", "evals", "--check", folder=folder)
    assert (done.returncode, done.stderr) == (1, "")
    return done.stdout.splitlines()


def edit(folder: Path) -> None:
    replace(folder, TONE, "Three.", "Drei.")


def edit_and_commit(folder: Path) -> None:
    edit(folder)
    commit(folder)


def edit_often(folder: Path) -> None:
    for old, new in (("Three.", "3"), ("3", "III"), ("III", "Drei.")):
        replace(folder, TONE, old, new)
        commit(folder)


def merge(folder: Path) -> None:
    """As a pull request is checked out: the merge of its branch."""
    git(folder, "checkout", "-q", "-b", "change")
    edit_and_commit(folder)
    git(folder, "checkout", "-q", "main")
    git(folder, "merge", "-q", "--no-ff", "--no-edit", "change")
    parents = git(folder, "rev-parse", "HEAD^1", "HEAD^2")
    (folder / ".git/shallow").write_text(parents)  # what fetch-depth: 2 gives


@pytest.mark.parametrize("change", [edit, edit_and_commit, edit_often, merge])
def test_the_recorded_text_is_found_in_the_last_commits(
    folder: Path, change: Callable[[Path], None]
) -> None:
    change(folder)
    said = shown(folder)
    start = said.index(f"{TONE} (about the same length):")
    assert said[start + 1 : start + 10] == DIFFERENCE


def test_a_text_that_git_does_not_have_is_not_shown_and_no_growth_is_said(folder: Path) -> None:
    edit(folder)
    lock = folder / "snapshots/promoted.lock"
    for name in ("promoted.lock", "files.lock"):
        lock = folder / "snapshots" / name
        text = lock.read_text()
        at = text.index(TONE)
        digit = text.index('"', at) + 1
        lock.write_text(f"{text[:digit]}{'1' if text[digit] == '0' else '0'}{text[digit + 1 :]}")
    said = shown(folder)
    assert said[0].startswith(f"change of privilege: {TONE} changed;")
    assert not [line for line in said if line.startswith(("---", "+++", "@@")) or "growth" in line]


def test_a_new_case_does_not_grow_with_a_file_that_it_attaches(folder: Path) -> None:
    commit(folder)
    replace(folder, TONE, "Three.", "Three, or four.")
    text = (folder / "evals/shop.eval.yaml").read_text()
    new = text[text.index("  - id: hours") : text.index("  - id: price")]
    (folder / "evals/new.eval.yaml").write_text(
        f'guideline_patterns: ["*.rules.md"]\nevalcases:\n{new}'
    )
    assert f"{TONE} (about +4 tokens in 3 cases):" in shown(folder)  # of the two that there were
