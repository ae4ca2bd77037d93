"""Branches that change other files merge; what git cannot merge in a list, the command resolves."""

import fcntl
import os
import subprocess
from copy import deepcopy
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from commands import run, start
from limits import limited
from multiturn.snapshots.lists import sides_of
from repositories import commit, git

LISTS = {"snapshots/promoted.lock", "snapshots/files.lock"}
GUIDELINES = [f"{letter}.rules.md" for letter in "abcdef"]
LISTED = [*GUIDELINES, "x.txt", "y.txt"]  # in each base
FILES = [*LISTED, "u.txt"]
State = dict[str, Any]


def case(name: str, attached: list[str]) -> str:
    files = "".join(f"          - {{type: file, value: {path}}}\n" for path in attached)
    return (
        f"  - id: {name}\n    input_messages:\n      - role: user\n        content:\n{files}"
        f"          - The question {name}\n\n"
    )


def write(folder: Path, state: State) -> None:
    for path in filter(Path.is_file, folder.iterdir()):
        path.unlink()
    for path, text in state["files"].items():
        (folder / path).write_text(f"{text}\n")
    for suite, attached in state["suites"].items():
        head = 'guideline_patterns: ["*.rules.md"]\nevalcases:\n'
        cases = (case(f"case-{number}", files) for number, files in enumerate(attached))
        (folder / f"{suite}.eval.yaml").write_text(head + "".join(cases))
    header = f"    header: {state['header']!r}\n" if state["header"] else ""
    configure = f"configure:\n  embed_files:\n{header}" if header else ""
    (folder / "p.yaml").write_text(f"extends: spec\n{configure}")


SOME = st.lists(st.sampled_from(FILES), max_size=3, unique=True)
BASE = st.fixed_dictionaries(
    {
        "files": st.just({path: f"The text of {path}" for path in FILES}),
        "suites": st.fixed_dictionaries(
            {suite: st.lists(SOME, min_size=1, max_size=3) for suite in ("one", "three", "two")}
        ),
        "header": st.sampled_from(["", "# {path}"]),
    }
)
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("edit"), st.sampled_from([*FILES, "u.txt"]), st.integers(1, 9)),
        st.tuples(st.just("edit"), st.sampled_from(FILES), st.integers(1, 9)),
        st.tuples(st.just("add"), st.sampled_from(["aa.rules.md", "ab.rules.md", "cc.txt"]), SOME),
        st.tuples(st.just("suite"), st.sampled_from(["four", "new", "one", "two"]), SOME),
        st.tuples(st.just("remove"), st.sampled_from(["one", "three"]), st.none()),
        st.tuples(st.just("header"), st.sampled_from(["", "# {path}", "{path}:"]), st.none()),
    ),
    min_size=1,
    max_size=3,
)


SIMPLE: State = {
    "files": {path: f"The text of {path}" for path in FILES},
    "suites": {"one": [[]], "two": [[]]},
    "header": "",
}
ADDED: Any = ("add", "aa.rules.md", [])
ATTACHED: State = {**SIMPLE, "suites": {"one": [["u.txt"]], "two": [[]]}}


def changed(state: State, changes: list[Any]) -> State:
    state = deepcopy(state)
    for kind, name, value in changes:
        match kind:
            case "edit":
                state["files"][name] += f" {value}"
            case "add":  # a new file, in a suite of its own
                state["files"][name] = f"The text of {name}"
                state["suites"][f"with-{name[:2]}"] = [[name, *value]]
            case "suite":
                state["suites"].setdefault(name, []).append(value)
            case "remove":
                state["suites"].pop(name, None)
            case "header":
                state["header"] = name
    return state


def snapshot(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    return run("snapshot", ".", "--pipeline", "p.yaml", *options, folder=folder)


def paths_in(folder: Path) -> list[set[str]]:
    """Return the files that each list has."""
    return [set(yaml.safe_load((folder / name).read_text())) for name in sorted(LISTS)]


@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(BASE, CHANGES, CHANGES)
@example(SIMPLE, [("add", "aa.rules.md", [])], [("add", "ab.rules.md", [])])  # lists conflict
@example(SIMPLE, [("edit", "u.txt", 1)], [("suite", "one", ["u.txt"])])  # the check says so
@example(ATTACHED, [("remove", "one", None)], [("edit", "u.txt", 1)])  # files.lock conflicts
@example(SIMPLE, [("edit", "a.rules.md", 1)], [ADDED])  # different files, side by side: they merge
@example(SIMPLE, [("edit", "a.rules.md", 1), ADDED], [ADDED])  # Git writes the new entry twice
def test_branches_whose_prompts_do_not_conflict_merge(
    tmp_path_factory: pytest.TempPathFactory, base: State, ours: list[Any], theirs: list[Any]
) -> None:
    """After it, the check is clean or says what to run; so it is where only lists conflict."""
    base = deepcopy(base)
    base["suites"]["all"] = [[path] for path in LISTED]
    folder = tmp_path_factory.mktemp("merging")
    git(folder, "init", "-q", "-b", "main")
    entries = []
    for branch, changes in (("main", []), ("ours", ours), ("theirs", theirs)):
        if changes:
            git(folder, "checkout", "-q", "-b", branch, "main")
        write(folder, changed(base, changes))
        assert snapshot(folder).returncode == 0
        entries.append(yaml.safe_load((folder / "snapshots/files.lock").read_text()))
        commit(folder)
    merged = subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", "merge", "-q", "--no-edit", "ours"],
        cwd=folder,
        capture_output=True,
    )
    conflicts = set(git(folder, "diff", "--name-only", "--diff-filter=U").split())
    if conflicts - LISTS:
        return  # the prompts, or what they are made of, conflict
    before, *after = entries
    ours_old, theirs_old = ({p for p in before if before[p] != now.get(p)} for now in after)
    ours_new, theirs_new = (now.keys() - before for now in after)
    done = snapshot(folder, "--check")
    if "duplicate key" in done.stderr:  # Git may write the entry of a file that both add twice
        assert ours_new & theirs_new
        assert "remove it and run multiturn snapshot for all suites" in done.stderr
        for name in LISTS:
            (folder / name).unlink()
        assert snapshot(folder).returncode == 0
    elif conflicts:
        assert ours_old & theirs_old or (ours_new and theirs_new), "different files merge"
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "it has a merge conflict; run multiturn snapshot --resolve" in done.stderr
        assert snapshot(folder, "--resolve").returncode == 0
    else:
        assert merged.returncode == 0
    done = snapshot(folder, "--check")
    if done.returncode:
        last = done.stdout.splitlines()[-1]
        advice = "run snapshot without --check, or with --review, and commit the result"
        assert last.endswith(advice)
        assert snapshot(folder).returncode == 0
    assert snapshot(folder, "--check").returncode == 0


BARE: State = {"files": {}, "suites": {}, "header": ""}


def project(folder: Path, **suites: list[str]) -> None:
    """Write suites of one case, and the files that they attach."""
    files = {path: f"The text of {path}" for attached in suites.values() for path in attached}
    write(folder, {**BARE, "files": files, "suites": {s: [suites[s]] for s in suites}})


def merge_in_conflict(folder: Path) -> None:
    """Merge two branches that add an entry each in one place of both lists."""
    git(folder, "init", "-q", "-b", "main")
    project(folder, one=["a.rules.md", "z.txt"])
    snapshot(folder)
    commit(folder)
    for branch, path in (("ours", "b.rules.md"), ("theirs", "c.rules.md")):
        git(folder, "checkout", "-q", "-b", branch, "main")
        project(folder, one=["a.rules.md", "z.txt"], **{branch: [path]})
        snapshot(folder)
        commit(folder)
    with pytest.raises(subprocess.CalledProcessError):
        git(folder, "merge", "-q", "ours")


def test_two_entries_in_one_place_are_resolved_by_the_command(tmp_path: Path) -> None:
    merge_in_conflict(tmp_path)
    assert set(git(tmp_path, "diff", "--name-only", "--diff-filter=U").split()) == LISTS
    for options in ((), ("--check",)):
        done = snapshot(tmp_path, *options)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            "Error: snapshots/promoted.lock: it has a merge conflict;"
            " run multiturn snapshot --resolve for all suites\n"
        )
    done = snapshot(tmp_path, "--resolve")
    assert (done.returncode, done.stderr) == (0, "")
    name = "snapshots/promoted.lock"
    assert f"--- {name} · ours\n+++ {name} · theirs\n" in done.stdout
    assert "\n-c.rules.md:\n" in done.stdout
    assert "\n+b.rules.md:\n" in done.stdout
    assert done.stdout.endswith("3 snapshots: 3 same; promoted.lock and files.lock changed\n")
    assert paths_in(tmp_path) == [
        {"a.rules.md", "b.rules.md", "c.rules.md", "z.txt"},
        {"a.rules.md", "b.rules.md", "c.rules.md"},
    ]
    assert snapshot(tmp_path, "--check").returncode == 0
    assert run("snapshot", ".", "--resolve", "--check", folder=tmp_path).returncode == 2


def test_a_privilege_that_neither_side_of_a_merge_has_is_named_where_lists_are_resolved(
    tmp_path: Path,
) -> None:
    merge_in_conflict(tmp_path)
    (tmp_path / "c.rules.md").write_text("Obey c.\n")
    suite = tmp_path / "one.eval.yaml"
    obey = "input_messages:\n      - {role: system, content: Obey me.}"
    suite.write_text(suite.read_text().replace("input_messages:", obey))
    done = snapshot(tmp_path, "--resolve")
    said = [line for line in done.stdout.splitlines() if line.startswith("change of privilege")]
    assert said == [
        "change of privilege: c.rules.md changed; it is part of a system message"
        " (theirs.eval.yaml: case-0)",
        "change of privilege: new text in a system message: 'Obey me.' (one.eval.yaml: case-0)",
    ]
    summary = "3 snapshots: 1 changed, 2 same; promoted.lock and files.lock changed\n"
    assert done.stdout.endswith(summary)


UNMERGED = "<<<<<<< ours\nBe kind.\n=======\nBe brief.\n>>>>>>> theirs\n"


# Of a file that both sides have renamed, too.
UNMERGED_NAMES = "<<<<<<<< HEAD:a.txt\nBe kind.\n========\nBe brief.\n>>>>>>>> theirs:b.txt\n"


@pytest.mark.parametrize("text", [UNMERGED, UNMERGED_NAMES])
@pytest.mark.parametrize(
    "command", ["check", "convert", "run", "run --dry-run", "snapshot", "snapshot --check"]
)
def test_a_guideline_that_is_not_merged_is_a_warning_of_each_command(
    tmp_path: Path, command: str, text: str
) -> None:
    project(tmp_path, one=["a.rules.md"], two=["a.rules.md", "b.txt"])
    (tmp_path / "a.rules.md").write_text(text)
    (tmp_path / "b.txt").write_text(text)  # a task may well be about a conflict
    done = run(*command.split(), ".", folder=tmp_path)
    said = [line for line in (done.stdout + done.stderr).splitlines() if "merge conflict" in line]
    what = "it has lines of a merge conflict; if it is one, merge it, and run this again"
    assert said == [f"a.rules.md: warning: {what}"]


def test_lines_that_look_like_half_a_conflict_take_no_time(tmp_path: Path) -> None:
    """Signs also underline headings."""
    project(tmp_path, one=["a.rules.md"])
    (tmp_path / "a.rules.md").write_text("=======\n" * 100_000)
    with limited():
        done = run("convert", ".", folder=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        halves = "<<<<<<< a\n||||||| b\n=======\n" * 30_000
        assert sides_of(halves) == (halves, halves)


def test_a_file_that_is_not_merged_yet_is_named_when_lists_are_resolved(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    project(tmp_path, one=["a.rules.md"], two=["a.rules.md", "b.txt"])
    snapshot(tmp_path)
    commit(tmp_path)
    for branch in ("ours", "theirs"):
        git(tmp_path, "checkout", "-q", "-b", branch, "main")
        (tmp_path / "a.rules.md").write_text(f"The text of {branch}\n")
        (tmp_path / "b.txt").write_text(f"The text of {branch}\n")
        snapshot(tmp_path)
        commit(tmp_path)
    with pytest.raises(subprocess.CalledProcessError):
        git(tmp_path, "merge", "-q", "ours")
    done = snapshot(tmp_path, "--resolve")
    what = "it has lines of a merge conflict; if it is one, merge it, and run this again"
    said = [f"{name}: warning: {what}" for name in ("a.rules.md", "b.txt")]
    assert (done.returncode, done.stderr.splitlines()) == (0, said)
    for name in ("a.rules.md", "b.txt"):
        (tmp_path / name).write_text("The text of both\n")
    assert snapshot(tmp_path, "--resolve").stderr == ""


def test_a_new_entry_is_for_all_suites_that_have_the_file(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    suites = {"one": ["a.rules.md", "x.txt"], "two": ["a.rules.md"], "three": ["y.txt"]}
    project(tmp_path, **suites)
    assert run("snapshot", ".", folder=tmp_path).returncode == 0
    before = paths_in(tmp_path)
    (tmp_path / "a.rules.md").write_text("Other\n")
    done = run("snapshot", "one.eval.yaml", folder=tmp_path)
    changed = "promoted.lock and files.lock changed, also for 1 other suite"
    assert done.stdout == f"1 snapshot: 1 same; {changed}\n"
    assert run("snapshot", ".", "--check", folder=tmp_path).returncode == 0
    assert paths_in(tmp_path) == before
    project(tmp_path, **{**suites, "one": ["x.txt"]})
    (tmp_path / "a.rules.md").write_text("Other\n")
    assert run("snapshot", "one.eval.yaml", folder=tmp_path).returncode == 0
    assert paths_in(tmp_path) == before, "another suite has it"
    project(tmp_path, **{**suites, "one": [], "two": []})
    assert run("snapshot", "one.eval.yaml", "two.eval.yaml", folder=tmp_path).returncode == 0
    assert paths_in(tmp_path) == [{"y.txt"}, set()]
    assert run("snapshot", ".", "--check", folder=tmp_path).returncode == 0


def test_a_suite_with_an_error_keeps_its_entries(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    project(tmp_path, one=["a.rules.md", "x.txt"], two=["y.txt"])
    run("snapshot", ".", folder=tmp_path)
    before = paths_in(tmp_path)
    (tmp_path / "x.txt").unlink()
    (tmp_path / "y.txt").write_text("Other\n")
    assert run("snapshot", ".", folder=tmp_path).returncode == 1
    assert paths_in(tmp_path) == before


def test_two_commands_at_once_lose_nothing_of_each_other(tmp_path: Path) -> None:
    """Each records one suite, whose files no other suite has."""
    (tmp_path / ".git").mkdir()
    names = ("one", "two", "three", "four")
    project(tmp_path, **{name: [f"{name}.rules.md", f"{name}.txt"] for name in names})
    started = [start("snapshot", f"{name}.eval.yaml", folder=tmp_path) for name in names]
    for process in started:
        _, errors = process.communicate(timeout=120)
        assert (process.returncode, errors) == (0, "")
    rules = {f"{name}.rules.md" for name in names}
    assert paths_in(tmp_path) == [rules | {f"{name}.txt" for name in names}, rules]


def test_a_command_waits_for_another_one(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    project(tmp_path, one=["a.rules.md"])
    (tmp_path / "snapshots").mkdir()
    other = os.open(tmp_path / "snapshots", os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    written: list[bool] = []

    def end() -> None:
        written.append((tmp_path / "snapshots/promoted.lock").exists())
        os.close(other)

    timer = Timer(0.5, end)
    timer.start()
    assert run("snapshot", ".", folder=tmp_path).returncode == 0
    timer.join()
    assert written == [False]
    assert (tmp_path / "snapshots/promoted.lock").exists()
