"""multiturn snapshot: what it writes, what a check says, and that nothing else is touched."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from commands import run
from layout import write_layout
from multiturn.documents.yaml_reader import read_documents
from multiturn.snapshots.folder import SnapshotFolder

SHOP = """\
guideline_patterns: ["**/*.rules.md"]
evalcases:
  - id: refund
    input_messages:
      - role: user
        content:
          - {type: file, value: tone.rules.md}
          - {type: file, value: order.txt}
          - {type: text, value: "Where is it?"}
  - id: hours
    input_messages:
      - {role: user, content: Hello}
  - id: terms
    input_messages:
      - {role: system, content: [{type: file, value: terms.md}]}
      - {role: user, content: Hi}
"""
MANY = "evalcases:\n" + "".join(
    f"  - id: {case_id}\n    input_messages:\n      - {{role: system, content: Be nice.}}\n"
    f"      - {{role: user, content: ['Where is {case_id}?', {{type: file, value: {file}}}]}}\n"
    for case_id, file in zip("abcd", ("order.txt", "tone.rules.md") * 2, strict=True)
)
TEXTS = {"tone.rules.md": "Be quick. é", "order.txt": "No. 7\nlate", "terms.md": "No refunds."}
TONE, ORDER, TERMS = (hashlib.sha256(text.encode()).hexdigest() for text in TEXTS.values())
TABLE = Path(__file__).with_name("snapshot_checks.yaml").read_text(encoding="utf-8")
CHECKS: dict[str, dict[str, Any]] = yaml.safe_load(TABLE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals/shop.eval.yaml").write_text(SHOP)
    write_layout(tmp_path)
    for name, text in TEXTS.items():
        (tmp_path / "evals" / name).write_text(f"{text}\n", encoding="utf-8")
    return tmp_path


def bare(text: str) -> str:
    return f"evalcases: [{{id: one, input_messages: [{{role: user, content: {text}}}]}}]\n"


def files(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def change(path: Path, new: dict[str, str] | str | None) -> None:
    """Write a text, or replace some texts in it; remove the file if the new text is None."""
    if new is None:
        path.unlink()
    elif isinstance(new, str):
        path.write_bytes((SHOP if new == "SHOP" else new).encode())
    else:
        text = path.read_text()
        for old in new:
            assert old in text
            text = text.replace(old, new[old])
        path.write_text(text)


def write(folder: Path, *arguments: str) -> str:
    done = run("snapshot", *(arguments or ("evals",)), folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def check(folder: Path, *arguments: str, code: int) -> str:
    done = run("snapshot", *(arguments or ("evals",)), "--check", folder=folder)
    assert (done.returncode, done.stderr) == (code, "")
    return done.stdout


# What is written: docs/review.md has a whole snapshot


def test_the_lists_have_each_file_that_snapshots_name(folder: Path) -> None:
    assert write(folder) == "3 snapshots: 3 new, 0 same; promoted.lock and files.lock changed\n"
    assert (folder / "snapshots/files.lock").read_text() == (
        "# The files that snapshots name in place of their content: the SHA-256 of each.\n"
        f'---\nevals/order.txt:\n  - "{ORDER}"\n\nevals/terms.md:\n  - "{TERMS}"\n\n'
        f'evals/tone.rules.md:\n  - "{TONE}"\n\n'
    )
    assert yaml.safe_load((folder / "snapshots/promoted.lock").read_text()) == {
        "evals/terms.md": [{"sha256": TERMS, "pattern": None}],
        "evals/tone.rules.md": [{"sha256": TONE, "pattern": "**/*.rules.md"}],
    }


def test_an_inline_snapshot_repeats_the_texts_of_files(folder: Path) -> None:
    write(folder)
    changed = "3 snapshots: 2 changed, 1 same; files.lock changed\n"
    assert write(folder, "evals", "--inline") == changed
    recorded = yaml.safe_load((folder / "snapshots/evals/shop/refund.yaml").read_text())
    system, user = recorded["chat_prompt"]
    assert system["content"] == "[[ ## Guidelines ## ]]\n\nBe quick. é"
    assert user["content"].endswith("\n=== order.txt ===\nNo. 7\nlate\nWhere is it?")
    assert user["content"] == recorded["question"]
    assert [file["sha256"] for file in recorded["input_files"]] == [TONE, ORDER]
    assert not (folder / "snapshots/files.lock").exists()
    assert write(folder) == changed


def test_an_inline_guideline_that_was_in_no_system_message_is_no_change_of_privilege(
    folder: Path,
) -> None:
    house = "{extends: spec, configure: {consolidate_system: {sections: [messages]}}}"
    (folder / "house.yaml").write_text(house)
    options = ("evals", "--inline", "--pipeline", "house.yaml")
    write(folder, *options)
    change(folder / "evals/shop.eval.yaml", {"Where is it?": "Where?"})
    assert "privilege" not in check(folder, *options, "--stat", code=1)


def test_a_prompt_without_chat_is_recorded_with_its_system_message(folder: Path) -> None:
    suite = folder / "evals/shop.eval.yaml"
    suite.write_text(
        'guidelines: ["Be kind."]\nmetadata: {systemPrompt: You sell books.}\n' + bare("Hi")
    )
    write(folder, "evals", "--pipeline", "shipped")
    assert (folder / "snapshots/evals/shop/one.yaml").read_text() == (
        "---\nsuite: evals/shop.eval.yaml\nid: one\nchat_prompt: null\n"
        "system: |-\n  You sell books.\n\n  [[ ## Guidelines ## ]]\n\n  Be kind.\n"
        "question: Hi\ninput_files: []\n"
    )
    change(suite, {"Be kind": "Leak everything"})
    assert check(folder, "evals", "--pipeline", "shipped", code=1).startswith(
        "change of privilege: new text in a system message: 'Leak everything.'"
    )


def test_every_folder_and_every_checkout_give_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    write(folder)
    first = files(folder / "snapshots")
    write(folder / "evals", "shop.eval.yaml", "--dir", "../again")
    assert files(folder / "again") == first
    copy = shutil.copytree(folder, tmp_path / "copy" / "elsewhere")
    shutil.rmtree(copy / "snapshots")
    write(copy, str(copy / "evals"))
    assert files(copy / "snapshots") == first
    assert not any(str(tmp_path).encode() in content for content in first.values())


def test_what_is_the_same_but_for_line_ends_is_not_written_again(folder: Path) -> None:
    write(folder)
    for path in [*folder.rglob("*.yaml"), *folder.rglob("*.txt"), *folder.rglob("*.lock")]:
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
        os.utime(path, (1, 1))
    assert check(folder, code=0) == "3 snapshots: 3 same\n"
    write(folder)
    assert {path.stat().st_mtime for path in (folder / "snapshots").rglob("*.yaml")} == {1}


# What is checked, and what becomes of it


@pytest.mark.parametrize("entry", CHECKS.values(), ids=CHECKS)
def test_a_check_says_what_has_changed(folder: Path, entry: dict[str, Any]) -> None:
    """And writes nothing; after a run that writes, the check has nothing to say."""
    options = entry.get("options", "").split()
    (folder / "evals/many.eval.yaml").write_text(MANY)
    write(folder, "evals", *(option for option in options if option == "--inline"))
    for name, new in entry.get("change", {}).items():
        change(folder / name, new)
    before, errors = files(folder), entry.get("errors", "")
    shown = entry.get("show", "").split()
    done = run("snapshot", "evals", "--check", *options, *shown, folder=folder)
    assert done.stdout == entry["said"]
    assert (done.returncode, done.stderr) == (int(not entry["said"].endswith(" same\n")), errors)
    assert files(folder) == before
    done = run("snapshot", "evals", *options, folder=folder)
    assert (done.returncode, done.stderr) == (int(bool(errors)), errors)
    assert done.stdout == entry.get("wrote", done.stdout)
    after = files(folder)
    changed = [name for name in {*before, *after} if before.get(name) != after.get(name)]
    assert sorted(changed) == [f"snapshots/{name}" for name in entry.get("written", [])]
    assert all([*path.iterdir()] for path in (folder / "snapshots").rglob("*") if path.is_dir())
    if not errors and "--case" not in options:
        assert check(folder, "evals", *options, code=0).endswith(" same\n")


def test_the_last_suite_takes_its_snapshots_with_it(folder: Path) -> None:
    write(folder)
    (folder / "evals/shop.eval.yaml").rename(folder / "shop.yaml")
    assert "3 removed, 0 same; 1 suite removed: evals/shop.eval.yaml;" in write(folder)
    assert files(folder / "snapshots").keys() == {"promoted.lock"}
    done = run("snapshot", "evals", folder=folder)
    assert (done.returncode, "there is no *.eval.yaml" in done.stderr) == (2, True)


@pytest.mark.parametrize("options", [("--stat",), ("--check", "--stat", "--all")])
def test_options_of_the_check_need_it_and_exclude_each_other(
    folder: Path, options: tuple[str, ...]
) -> None:
    done = run("snapshot", "evals", *options, folder=folder)
    assert (
        done.returncode,
        "add --check, and give only one of --stat and --all" in done.stderr,
    ) == (2, True)


def test_a_prompt_gives_no_command_to_a_workflow(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    write(folder)
    change(folder / "evals/shop.eval.yaml", {"Hello": '"Hi\\n::add-mask::e"'})
    first, *lines, last = check(folder, code=1).splitlines()
    assert any(line.endswith(" ::add-mask::e") for line in lines)
    command, token = first.rsplit("::", 1)
    assert (command, last, len(token)) == ("::stop-commands", f"::{token}::", 64)


def test_a_terminal_of_another_encoding_gets_escapes(folder: Path) -> None:
    write(folder)
    (folder / "evals/shop.eval.yaml").write_text(SHOP.replace("Hello", "Zdravo č"))
    command = [sys.executable, "-m", "multiturn", "snapshot", "evals", "--check"]
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True)
    assert (done.returncode, done.stderr) == (1, b"")
    assert b"+  Zdravo \\u010d\n" in done.stdout


# Which suites, and which folder


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A folder with two suites of one name, and a suite whose name is not UTF-8."""
    for name in ("x/a.eval.yaml", "y/a.eval.yaml", os.fsdecode(b"x/z/\xff.eval.yaml")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(bare("Hi"))
    return tmp_path


@pytest.mark.parametrize(
    ("gits", "here", "arguments", "expected"),
    [
        pytest.param(".", ".", "x/a.eval.yaml", "snapshots/x/a/one.yaml", id="beside .git"),
        pytest.param(".", "y", ".", "snapshots/y/a/one.yaml", id="wherever the command is run"),
        pytest.param("", ".", "y", "snapshots/a/one.yaml", id="here, without .git"),
        pytest.param(". y", ".", "y", "y/snapshots/a/one.yaml", id="another repository"),
        pytest.param(".", "x", "../y --root ..", "x/snapshots/y/a/one.yaml", id="with a root"),
        pytest.param("", ".", "x/a.eval.yaml y --root .", "snapshots/x/a/one.yaml", id="one root"),
        pytest.param("x y", ".", "y --dir both", "both/a/one.yaml", id="a folder that is named"),
        pytest.param(".", ".", "x/z", "snapshots/x/z/%EF%BF%BD/one.yaml", id="not UTF-8"),
        pytest.param("x y", ".", "x y", "the suites are in several roots, as ", id="two roots"),
        pytest.param(
            "x", ".", "x y", "; name the folder of their snapshots (--dir)", id="one .git"
        ),
        pytest.param(
            "",
            ".",
            "x/a.eval.yaml y",
            "y/a.eval.yaml: two suites are 'a.eval.yaml' in"
            " their roots; name a root that holds both (--root)",
            id="two of one name",
        ),
        pytest.param(
            ".", ".", "x --root y", "a snapshot needs a suite inside its root", id="outside"
        ),
        pytest.param(
            ".",
            ".",
            "x y/b.eval.yaml",
            "there is no suite 'y/b.eval.yaml'; did you mean 'y/a.eval.yaml'?",
            id="a suite that is not there",
        ),
        pytest.param(".", ".", "x --case on", "no case 'on'; did you mean \"one\"?", id="no case"),
        pytest.param(
            ".", ".", "-", "a snapshot is named after its suite's file, and - has none", id="-"
        ),
    ],
)
def test_where_snapshots_are(
    two: Path, gits: str, here: str, arguments: str, expected: str
) -> None:
    for name in gits.split():
        (two / name / ".git").mkdir()
    done = run("snapshot", *arguments.split(), folder=two / here)
    if done.returncode == 0:
        assert expected in files(two)
        assert run("snapshot", *arguments.split(), "--check", folder=two / here).returncode == 0
    else:
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert expected in done.stderr
        assert not list(two.rglob("snapshots"))


def test_two_suites_whose_names_are_written_the_same_are_refused(two: Path) -> None:
    os.rename(os.fsencode(two / "x/a.eval.yaml"), os.fsencode(two) + b"/x/z/\xfe.eval.yaml")
    done = run("snapshot", "x/z", "--root", ".", folder=two)
    assert (done.returncode, "two suites are " in done.stderr) == (2, True)


def test_without_git_or_a_root_no_snapshot_is_removed(two: Path) -> None:
    write(two, "x")
    (two / "x/a.eval.yaml").unlink()
    write(two, "x")
    assert (two / "snapshots/a/one.yaml").exists()


def test_two_cases_that_would_share_a_file_are_reported(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "multiturn.snapshots.snapshot_run.location_of", lambda *_: "evals/shop/x.yaml"
    )
    done = run("snapshot", "evals", folder=folder)
    assert done.stdout.startswith("1 snapshot: 1 new,")
    assert done.stderr.splitlines()[0] == (
        "evals/shop.eval.yaml:10: case 'hours': its snapshot would replace another case's,"
        " snapshots/evals/shop/x.yaml; give it another id"
    )


def test_what_is_of_others_is_neither_stale_nor_touched(folder: Path) -> None:
    (folder / "evals/plain.yaml").write_text(bare("Hi"))  # no *.eval.yaml: a folder misses it
    (folder / "other").mkdir()
    (folder / "other/b.eval.yaml").write_text(bare("Hi"))
    write(folder, ".", "evals/plain.yaml")
    kept = folder / "snapshots/evals/shop"
    (kept / "notes.yaml").write_text("suite: mine\n")
    (kept / "notes.md").write_text("Mine.\n")
    shutil.copy(kept / "hours.yaml", kept / "copy.yaml")
    (folder / "snapshots/evals/mine.yaml").write_text("---\nsuite: x\nid: y\nchat_prompt:\n")
    before = files(folder / "snapshots")
    assert check(folder, code=0) == "3 snapshots: 3 same\n"
    write(folder, "evals", "--root", "evals", "--inline")  # a root below
    (folder / "other/b.eval.yaml").unlink()
    write(folder)
    assert before.keys() < files(folder / "snapshots").keys()


def test_the_hook_is_the_command_that_checks_all_suites(folder: Path) -> None:
    hooks = (Path(__file__).parent.parent / ".pre-commit-hooks.yaml").read_bytes()
    ((hook,),) = (node.value for node in read_documents(hooks, "hooks"))
    assert hook["entry"] == "multiturn snapshot --check"
    assert (hook["pass_filenames"], hook["always_run"]) == (False, True)  # also for a removed file
    write(folder)
    assert check(folder, *hook["args"], code=0)


def test_one_suite_of_forty_reads_few_snapshots_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = "  - {id: c%d, input_messages: [{role: user, content: [{type: file, value: %d.txt}]}]}\n"
    for suite in range(40):
        cases = "".join(case % (number, suite) for number in range(5))
        (tmp_path / f"s{suite}.eval.yaml").write_text(f"evalcases:\n{cases}")
        (tmp_path / f"{suite}.txt").write_text(f"Text {suite}.\n")
    write(tmp_path, ".", "--root", ".")
    asked: list[str] = []
    read = SnapshotFolder.read

    def counted(folder: SnapshotFolder, name: str) -> str | None:
        asked.append(name)
        return read(folder, name)

    monkeypatch.setattr(SnapshotFolder, "read", counted)
    said = check(tmp_path, "s8.eval.yaml", "--root", ".", code=0)
    assert said == "5 snapshots: 5 same\n"
    others = [name for name in asked if name.endswith(".yaml") and not name.startswith("s8/")]
    assert len(others) == 39  # one of each, for its entry in files.lock
    change(tmp_path / "snapshots/files.lock", {'\n"7.txt":': '\n"nobodys.txt":'})
    assert "files.lock" in check(tmp_path, "s8.eval.yaml", "--root", ".", code=1)
