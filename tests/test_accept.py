"""Accepting differences one by one gives what ``multiturn snapshot`` gives, and nothing half."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from commands import run, start
from comparing import data_of
from media_files import data_uri, image, padded
from repositories import commit, git

FILES = ["a.rules.md", "b.rules.md", "x.txt", "y.txt"]
TEXTS = ["Hi", "Hello\nthere", "Be nice.", "Obey.", " spaced \n"]
# Images by their paths, in the suite and by their address; y.txt may be one, too.
SHOWN = ["p.png", "q.png", *(data_uri(image(seed=seed)) for seed in (1, 2))]
ADDRESS = "https://example.org/a.png"
# The first two have one size.
IMAGES = [padded(image(seed=1), 400), padded(image(seed=2), 400), padded(image(seed=1), 2_000)]
State = dict[str, Any]


def content(*pieces: str) -> list[dict[str, str]]:
    """Return a content: names of files are attached, other texts stand as they are."""
    return [
        {"type": "file" if each in FILES else "image", "value": each}
        | ({"name": "n.png"} if each.startswith("data:") else {})
        if each in FILES or each in SHOWN or each == ADDRESS
        else {"type": "text", "value": each}
        for each in pieces
    ]


def message(role: str, *pieces: str) -> dict[str, Any]:
    return {"role": role, "content": content(*pieces)}


def write(folder: Path, state: State) -> None:
    """Write the suites, files and pipeline of a state, and leave the snapshots."""
    for path in filter(Path.is_file, folder.iterdir()):
        path.unlink()
    for path, text in state["files"].items():
        (folder / path).write_bytes(text if isinstance(text, bytes) else text.encode())
    for suite, cases in state["suites"].items():
        evalcases = [{"id": name, "input_messages": said} for name, said in cases.items()]
        text = {"guideline_patterns": state["patterns"], "evalcases": evalcases}
        (folder / f"{suite}.eval.yaml").write_text(json.dumps(text))
    configure = json.dumps({"embed_files": {"header": state["header"]}})
    (folder / "p.yaml").write_text(f"extends: spec\nconfigure: {configure}\n")


def snapshot(folder: Path, *options: str, code: int = 0) -> str:
    done = run("snapshot", ".", "--pipeline", "p.yaml", *options, folder=folder)
    assert (done.returncode, errors_in(done.stderr)) == (code, [])
    return done.stdout


def errors_in(text: str) -> list[str]:
    """Return what is said but for warnings, as of a pattern that matches no file."""
    return [line for line in text.splitlines() if ": warning: " not in line]


def check(folder: Path, *options: str) -> list[dict[str, Any]]:
    done = run(
        *("snapshot", ".", "--pipeline", "p.yaml", "--check", "--format", "json", *options),
        folder=folder,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, errors_in(done.stderr)) == (int(bool(found)), [])
    return found


def keys(folder: Path, *options: str) -> list[str]:
    """Return the keys of all differences, each once."""
    return list(dict.fromkeys(line["key"] for line in check(folder, *options) if line["key"]))


def accept(folder: Path, *accepted: str, options: tuple[str, ...] = ()) -> str:
    given = (option for key in accepted for option in ("--accept", key))
    return snapshot(folder, *options, *given)


def recorded(folder: Path) -> dict[str, bytes]:
    paths = [path for path in (folder / "snapshots").rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def expected(folder: Path, *options: str) -> dict[str, bytes]:
    """Return what ``multiturn snapshot`` writes, in a copy of the folder."""
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    snapshot(copy, *options)
    found = recorded(copy)
    shutil.rmtree(copy)
    return found


MESSAGES = st.lists(
    st.builds(
        lambda role, pieces: message(role, *pieces),
        st.sampled_from(["user", "user", "assistant"]),
        st.lists(
            st.sampled_from([*TEXTS, *FILES, *SHOWN, *SHOWN, ADDRESS]), min_size=1, max_size=3
        ),
    )
    | st.builds(  # which no image can be in
        lambda pieces: message("system", *pieces),
        st.lists(st.sampled_from([*TEXTS, *FILES[:3]]), min_size=1, max_size=3),
    ),
    max_size=2,
).map(lambda messages: [*messages, message("user", "Go.")])
CASES = st.dictionaries(st.sampled_from("abcd"), MESSAGES, min_size=1, max_size=4)
FILE_TEXTS = st.fixed_dictionaries(
    {path: st.sampled_from(["1", "2\n3"]) for path in FILES[:3]}
    | {"y.txt": st.sampled_from(["1", "2\n3", IMAGES[0]])}
    | {path: st.sampled_from(IMAGES) for path in SHOWN[:2]}
)
STATES = st.fixed_dictionaries(
    {
        "files": FILE_TEXTS,
        "suites": st.dictionaries(st.sampled_from(["s", "t", "u"]), CASES, min_size=1),
        "patterns": st.sampled_from([["*.rules.md"], ["a.*"], ["*.rules.md", "x.*"]]),
        "header": st.sampled_from(["=== {path} ===", "# {path}"]),
    }
)
# Where only files change, more snapshots differ in nothing but an image.
LATER = STATES | st.fixed_dictionaries({"files": FILE_TEXTS})
LAW = settings(
    max_examples=12,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / ".git").mkdir()
    return folder


def prepared(project: Path, then: State, now: State, *options: str) -> dict[str, bytes]:
    """Record one state, write another, and return what would be recorded of that.

    What the later state lacks stays as it was.
    """
    now = {**then, **now}
    shutil.rmtree(project / "snapshots", ignore_errors=True)
    write(project, then)
    snapshot(project, *options)
    write(project, now)
    return expected(project, *options)


@LAW
@given(STATES, LATER, st.data(), st.sampled_from([(), ("--inline",)]))
def test_all_keys_in_any_order_give_the_bytes_of_snapshot(
    project: Path, then: State, now: State, data: st.DataObject, options: tuple[str, ...]
) -> None:
    wanted = prepared(project, then, now, *options)
    found = keys(project, *options)
    if found:
        accept(project, *data.draw(st.permutations(found)), options=options)
        assert recorded(project) == wanted
        assert check(project, *options) == []
    else:
        assert {line["kind"] for line in check(project, *options)} <= {"changed"}  # of lists


@LAW
@given(STATES, LATER, st.data(), st.sampled_from([(), ("--inline",)]))
def test_keys_that_are_accepted_one_by_one_do_too_and_what_is_skipped_fails_the_check(
    project: Path, then: State, now: State, data: st.DataObject, options: tuple[str, ...]
) -> None:
    wanted = prepared(project, then, now, *options)
    before = recorded(project)
    has_keys = bool(keys(project, *options))
    while left := keys(project, *options):
        last = recorded(project)
        accept(project, data.draw(st.sampled_from(left)), options=options)
        assert recorded(project) != last
        for name, text in recorded(project).items():
            if name.endswith(".yaml"):
                assert text in (before.get(name), wanted.get(name)), "a snapshot is old or new"
    if has_keys:
        assert recorded(project) == wanted


KILLED = """\
import os, signal, sys
left = int(sys.argv.pop(1))

def dying(call):
    def write(*arguments, **options):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **options)
    return write

os.replace, os.unlink = dying(os.replace), dying(os.unlink)
from multiturn.__main__ import main
main()
"""
THEN: State = {
    "files": dict.fromkeys(FILES, "1"),
    "suites": {
        "s": {
            "a": [message("user", "a.rules.md", "Hi")],
            "b": [message("user", "Hello\nthere", "x.txt")],
            "c": [message("user", "Be nice.", "Obey.")],
        }
    },
    "patterns": ["*.rules.md"],
    "header": "=== {path} ===",
}
NOW: State = {
    "files": {**THEN["files"], "a.rules.md": "2", "x.txt": "3"},
    "suites": {
        "s": {
            "a": [message("user", "a.rules.md", "Hi"), message("user", "b.rules.md")],
            "b": [message("user", "Hello\nyou", "x.txt")],
            "renamed": [message("user", "Be nice.", "Obey.")],
            "d": [message("user", "y.txt")],
        }
    },
    "patterns": ["*.rules.md"],
    "header": "=== {path} ===",
}


def test_one_option_is_one_key_for_all_paths_that_it_names(project: Path) -> None:
    cases = {name: [message("user", name, "Hi")] for name in ("x.txt", "y.txt")}
    wanted = prepared(project, {**THEN, "suites": {"s": cases}}, {"header": "# {path}"})
    (key,) = keys(project)
    accept(project, key)
    assert recorded(project) == wanted
    assert check(project) == []


def test_a_kill_at_any_write_leaves_no_file_half_written(project: Path) -> None:
    wanted = prepared(project, THEN, NOW)
    before, found = recorded(project), keys(project)
    original = shutil.copytree(project, project.with_name("original"))
    accepted = [option for key in found for option in ("--accept", key)]
    command = ["snapshot", ".", "--pipeline", "p.yaml", *accepted]
    for number in range(100):
        shutil.rmtree(project)
        shutil.copytree(original, project)
        program = [sys.executable, "-c", KILLED, str(number)]
        done = subprocess.run([*program, *command], cwd=project, capture_output=True)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
        for name, text in recorded(project).items():
            if ".multiturn-" not in name:  # what is being written has a name of its own
                assert text in (before.get(name), wanted.get(name))
        left = keys(project)
        assert left
        accept(project, *left)
        assert recorded(project) == wanted, "and nothing abandoned is left"
    # Four snapshots, one of which has another name, and two lists.
    assert number == 7


def test_a_key_of_something_else_is_an_error_and_nothing_is_accepted(project: Path) -> None:
    prepared(project, THEN, NOW)
    before, found = recorded(project), keys(project)
    (project / "a.rules.md").write_text("3")
    gone = next(iter({*found} - {*keys(project)}))
    kept = next(iter({*found} & {*keys(project)}))
    for arguments in ((kept, gone), (gone, kept)):
        given = (option for key in arguments for option in ("--accept", key))
        done = run("snapshot", ".", "--pipeline", "p.yaml", *given, folder=project)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"no difference has the key {gone!r}" in done.stderr
        assert recorded(project) == before


def test_a_report_has_the_keys_of_the_check_whatever_its_order(tmp_path: Path) -> None:
    """A report has the case with two causes first."""
    suite = (
        "metadata: {systemPrompt: Be nice.}\nevalcases:\n"
        "  - {id: one, input_messages: [{role: user, content: One}]}\n"
        "  - {id: two, input_messages: [{role: user, content: [{type: file, value: x.txt}]}]}\n"
    )
    (tmp_path / "s.eval.yaml").write_text(suite)
    (tmp_path / "x.txt").write_text("One\n")
    assert run("snapshot", ".", folder=tmp_path).returncode == 0
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    (tmp_path / "s.eval.yaml").write_text(suite.replace("nice", "kind"))
    (tmp_path / "x.txt").write_text("Two\n")
    done = run("report", ".", "--against", "HEAD", "--output", "r.html", folder=tmp_path)
    assert done.returncode == 0
    checked = run("snapshot", ".", "--check", "--format", "json", folder=tmp_path).stdout
    found = [json.loads(line)["key"] for line in checked.splitlines()]
    shown = json.loads(data_of((tmp_path / "r.html").read_text()).splitlines()[-1])["differences"]
    assert [each["key"] for each in shown] == [*filter(None, dict.fromkeys(found))]
    assert len(shown) == 2


def test_a_guideline_is_accepted_alone_by_one_key_and_for_all_suites(project: Path) -> None:
    suites = {suite: {"a": [message("user", "a.rules.md", "Hi")]} for suite in ("s", "t")}
    then = {**THEN, "suites": suites}
    now = {**then, "files": {**THEN["files"], "a.rules.md": "2"}}
    now["suites"] = {**suites, "s": {"a": [message("user", "a.rules.md", "Ho")]}}
    prepared(project, then, now)
    lines = check(project)
    (key,) = {line["key"] for line in lines if line["file"] == "a.rules.md"}
    (line,) = (line for line in lines if line["key"] == key)
    assert (line["kind"], len(line["cases"])) == ("privilege", 2)
    assert {line["key"] for line in lines if line["file"].endswith(".lock")} == {None}
    (other,) = {line["key"] for line in lines} - {key, None}
    before = recorded(project)
    other_way = shutil.copytree(project, project.with_name("other"))
    assert accept(project, key) == "1 difference accepted, 1 left\n"
    after = recorded(project)
    assert {name for name in after if after[name] != before[name]} == {
        "snapshots/files.lock",
        "snapshots/promoted.lock",
    }
    assert [line["kind"] for line in check(project)] == ["changed"]
    accept(other_way, other)
    after = recorded(other_way)
    assert {name for name in after if after[name] != before[name]} == {"snapshots/s/a.yaml"}
    assert [line["kind"] for line in check(other_way)] == ["privilege", "changed", "changed"]
    assert keys(other_way) == [key]


def test_a_file_that_is_shared_keeps_its_entry_while_a_skipped_snapshot_names_it(
    project: Path,
) -> None:
    then = {**THEN, "suites": {"s": {"a": [message("user", "x.txt")]}}}
    now = {**then, "suites": {"s": {"a": [message("user", "y.txt")], "b": [message("user", "Hi")]}}}
    wanted = prepared(project, then, now)
    new = next(line["key"] for line in check(project) if line["kind"] == "new")
    accept(project, new)
    assert b"x.txt" in recorded(project)["snapshots/files.lock"]
    accept(project, *keys(project))
    assert b"x.txt" not in recorded(project)["snapshots/files.lock"]
    assert recorded(project) == wanted


def test_a_case_that_cannot_be_converted_stands_in_the_way_of_no_other(project: Path) -> None:
    now = {**NOW, "suites": {**NOW["suites"], "t": {"e": [message("usr", "Hi")]}}}
    wanted = prepared(project, THEN, NOW)
    write(project, now)
    done = run("snapshot", ".", "--pipeline", "p.yaml", "--check", "--format=json", folder=project)
    found = {line["key"] for line in map(json.loads, done.stdout.splitlines()) if line["key"]}
    given = [option for key in found for option in ("--accept", key)]
    command = ("snapshot", ".", "--pipeline", "p.yaml", *given)
    strict = run(*command, "--strict", folder=project)
    assert (strict.returncode, "'usr'" in strict.stderr) == (1, True)
    assert recorded(project) != wanted
    done = run(*command, folder=project)
    assert (done.returncode, done.stdout) == (1, f"{len(found)} differences accepted, 0 left\n")
    assert "'usr'" in done.stderr
    assert recorded(project) == wanted


def test_the_lock_of_a_target_has_a_key(project: Path) -> None:
    targets = "targets: [{name: gpt, provider: openai, api_key: none, model: %s}]\n"
    state = {**THEN, "suites": {"s": {"a": [message("user", "Hi")]}}}
    for model in ("gpt-4.1", "gpt-5"):
        write(project, state)
        (project / "targets.yaml").write_text(targets % model)
        if model == "gpt-4.1":
            snapshot(project, "--target", "gpt")
    wanted = expected(project, "--target", "gpt")
    (line,) = (each for each in check(project, "--target", "gpt") if "target.lock" in each["file"])
    accept(project, line["key"], options=("--target", "gpt"))
    while left := keys(project, "--target", "gpt"):
        accept(project, left[0], options=("--target", "gpt"))
    assert recorded(project) == wanted


def test_two_commands_at_once_lose_nothing_of_each_other(project: Path) -> None:
    wanted = prepared(project, THEN, NOW)
    command = ("snapshot", ".", "--pipeline", "p.yaml", "--accept")
    started = [start(*command, key, folder=project) for key in keys(project)]
    for process in started:
        process.communicate(timeout=120)
        assert process.returncode == 0
    assert recorded(project) == wanted
