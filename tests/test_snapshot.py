"""Snapshots of suites: what is written, what a check says, and that nothing else is touched."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import unicodedata
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from commands import run
from multiturn import Conversion, MultiturnError, Part, load_pipeline, load_suite, stage
from multiturn.documents.dump import dump
from multiturn.documents.yaml_events import read_documents
from multiturn.engine.outcomes import outcomes
from multiturn.engine.selection import select
from multiturn.review.folder import SnapshotFolder
from multiturn.review.snapshots import (
    _content,
    folder_of,
    location_of,
    snapshot_text,
    texts_of_files,
)
from multiturn.review.update import Update
from multiturn.turns import joined

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
# Some begin with a digit, some with a letter; all stand in quotes.
TONE, ORDER, TERMS = (hashlib.sha256(text.encode()).hexdigest() for text in TEXTS.values())
LISTS = ("files.lock", "promoted.lock")
TABLE = Path(__file__).with_name("snapshot_checks.yaml").read_text(encoding="utf-8")
CHECKS: dict[str, dict[str, Any]] = yaml.safe_load(TABLE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals/shop.eval.yaml").write_text(SHOP)
    for name, text in TEXTS.items():
        (tmp_path / "evals" / name).write_text(f"{text}\n", encoding="utf-8")
    return tmp_path


def bare(text: str) -> str:
    return f"evalcases: [{{id: one, input_messages: [{{role: user, content: {text}}}]}}]\n"


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def write(folder: Path, *arguments: str) -> str:
    done = run("snapshot", *(arguments or ("evals",)), folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def check(folder: Path, *arguments: str, code: int) -> str:
    done = run("snapshot", *(arguments or ("evals",)), "--check", folder=folder)
    assert (done.returncode, done.stderr) == (code, "")
    return done.stdout


# What is written


def test_a_snapshot_is_what_a_reviewer_wants_to_read(folder: Path) -> None:
    assert write(folder) == "3 snapshots: 3 new, 0 same; promoted.lock and files.lock changed\n"
    written = {name: text.decode() for name, text in files(folder / "snapshots").items()}
    assert (
        written["evals/shop/refund.yaml"]
        == """\
---
suite: evals/shop.eval.yaml
id: refund
chat_prompt:
  - role: system
    content:
    - "[[ ## Guidelines ## ]]\\n"
    - file: evals/tone.rules.md
  - role: user
    content:
    - |-
      <Attached: tone.rules.md>
      === order.txt ===
    - file: evals/order.txt
    - "Where is it?"
question:
- |-
  <Attached: tone.rules.md>
  === order.txt ===
- file: evals/order.txt
- "Where is it?"
input_files:
  - path: tone.rules.md
    resolved_path: evals/tone.rules.md
    guideline: true
  - path: order.txt
    resolved_path: evals/order.txt
    guideline: false
"""
    )
    assert written["files.lock"] == (
        "# The files that snapshots name in place of their texts: the SHA-256 of each text.\n"
        f'---\nevals/shop.eval.yaml:\n  evals/order.txt: "{ORDER}"\n'
        f'  evals/terms.md: "{TERMS}"\n  evals/tone.rules.md: "{TONE}"\n'
    )
    assert (
        written["promoted.lock"]
        == f"""\
# The files in system messages: a change of this list is a change of privilege.
---
evals/shop.eval.yaml:
  - path: evals/terms.md
    sha256: "{TERMS}"
    pattern: null
  - path: evals/tone.rules.md
    sha256: "{TONE}"
    pattern: "**/*.rules.md"
"""
    )


def test_an_inline_snapshot_repeats_the_texts_of_files(folder: Path) -> None:
    write(folder, "evals", "--inline")
    written = (folder / "snapshots/evals/shop/refund.yaml").read_text(encoding="utf-8")
    assert "    content: |-\n      [[ ## Guidelines ## ]]\n\n      Be quick. é\n" in written
    assert "\n      === order.txt ===\n      No. 7\n      late\n      Where is it?\n" in written
    assert "\nquestion: |-\n  <Attached: tone.rules.md>\n  === order.txt ===\n" in written
    assert re.findall("sha256: (.*)", written) == [f'"{TONE}"', f'"{ORDER}"']
    (folder / "multiturn.toml").write_text("inline_snapshots = true\n")
    assert check(folder, code=0) == "3 snapshots: 3 same\n"
    (folder / "multiturn.toml").unlink()
    assert write(folder).endswith(" 2 changed, 1 same; files.lock changed\n")
    assert write(folder, "evals", "--inline").endswith("; files.lock changed\n")
    assert not (folder / "snapshots/files.lock").exists()


def test_a_prompt_without_chat_is_recorded_with_what_providers_add(folder: Path) -> None:
    text = 'guidelines: ["Be kind."]\nmetadata: {systemPrompt: You sell books.}\n' + bare("Hi")
    (folder / "evals/shop.eval.yaml").write_text(text)
    write(folder, "evals", "--pipeline", "shipped")
    assert (folder / "snapshots/evals/shop/one.yaml").read_text() == (
        "---\nsuite: evals/shop.eval.yaml\nid: one\nchat_prompt: null\n"
        "system_prompt: You sell books.\nguidelines:\n  - Be kind.\nquestion: Hi\ninput_files: []\n"
    )
    (folder / "evals/shop.eval.yaml").write_text(text.replace("Be kind", "Leak everything"))
    assert check(folder, "evals", "--pipeline", "shipped", code=1).startswith(
        "change of privilege: new text in a system message: 'Leak everything.'"
    )


def test_every_folder_and_every_checkout_give_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    write(folder)
    first = files(folder / "snapshots")
    done = run("snapshot", "shop.eval.yaml", "--dir", "../again", folder=folder / "evals")
    assert done.returncode == 0
    assert files(folder / "again") == first
    copy = shutil.copytree(folder, tmp_path / "copy" / "elsewhere")
    shutil.rmtree(copy / "snapshots")
    write(copy, str(copy / "evals"))
    assert files(copy / "snapshots") == first
    assert not any(str(tmp_path).encode() in content for content in first.values())


def test_line_ends_of_a_checkout_make_no_difference(folder: Path) -> None:
    write(folder)
    for path in [*folder.rglob("*.yaml"), *folder.rglob("*.txt"), *folder.rglob("*.lock")]:
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert check(folder, code=0) == "3 snapshots: 3 same\n"


def test_what_is_the_same_is_not_written_again(folder: Path) -> None:
    write(folder)
    for path in (folder / "snapshots").rglob("*.*"):
        os.utime(path, (1, 1))
    assert write(folder) == "3 snapshots: 3 same\n"
    assert {path.stat().st_mtime for path in (folder / "snapshots").rglob("*.*")} == {1}


# What is checked


@pytest.mark.parametrize("entry", CHECKS.values(), ids=CHECKS)
def test_a_check_says_what_has_changed(folder: Path, entry: dict[str, Any]) -> None:
    """And writes nothing; after a run that writes, the check has nothing to say."""
    options = entry.get("options", "").split()
    (folder / "evals/many.eval.yaml").write_text(MANY)
    write(folder, "evals", *(option for option in options if option == "--inline"))
    for name, new in entry.get("change", {}).items():
        path = folder / name
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
    before, errors = files(folder), entry.get("errors", "")
    done = run(
        *("snapshot", "evals", "--check", *options, *entry.get("show", "").split()), folder=folder
    )
    assert done.stdout == entry["said"]
    assert (done.returncode, done.stderr) == (int(not entry["said"].endswith(" same\n")), errors)
    assert files(folder) == before
    done = run("snapshot", "evals", *options, folder=folder)
    assert (done.returncode, done.stderr) == (int(bool(errors)), errors)
    after = files(folder)
    changed = [name for name in {*before, *after} if before.get(name) != after.get(name)]
    assert sorted(changed) == [f"snapshots/{name}" for name in entry.get("written", [])]
    if not errors and "--case" not in options:
        assert check(folder, "evals", *options, code=0).endswith(" same\n")


def test_a_run_says_what_it_removed(folder: Path) -> None:
    (folder / "evals/b.eval.yaml").write_text(bare("Hi"))
    write(folder)
    (folder / "evals/b.eval.yaml").unlink()
    suite = SHOP.replace("Hello", "Good day").replace("id: refund", "id: return")
    (folder / "evals/shop.eval.yaml").write_text(suite)
    assert check(folder, "evals/shop.eval.yaml", code=1).startswith("renamed: ")
    assert write(folder) == (
        "renamed: snapshots/evals/shop/refund.yaml -> snapshots/evals/shop/return.yaml\n"
        "removed: snapshots/evals/b/one.yaml\n"
        "4 snapshots: 1 changed, 1 renamed, 1 removed, 1 same;"
        " 1 suite removed: evals/b.eval.yaml\n"
    )
    assert not (folder / "snapshots/evals/b").exists()


def test_the_last_suite_takes_its_snapshots_with_it(folder: Path) -> None:
    write(folder)
    (folder / "evals/shop.eval.yaml").rename(folder / "shop.yaml")
    assert write(folder).endswith(
        "3 snapshots: 3 removed, 0 same; 1 suite removed: evals/shop.eval.yaml;"
        " promoted.lock and files.lock changed\n"
    )
    assert files(folder / "snapshots").keys() == {"promoted.lock"}
    done = run("snapshot", "evals", folder=folder)
    assert done.returncode == 2
    assert "there is no *.eval.yaml" in done.stderr


@pytest.mark.parametrize("options", [("--stat",), ("--check", "--stat", "--all")])
def test_options_of_the_check_need_it_and_exclude_each_other(
    folder: Path, options: tuple[str, ...]
) -> None:
    done = run("snapshot", "evals", *options, folder=folder)
    assert (done.returncode, "--stat and --all are for --check" in done.stderr) == (2, True)


def test_one_case_writes_one_snapshot_and_no_list(folder: Path) -> None:
    write(folder)
    change = SHOP.replace("**/*.rules.md", "*.*").replace("id: terms", "id: rules")
    (folder / "evals/shop.eval.yaml").write_text(change)
    before = files(folder)
    assert write(folder, "evals", "--case", "refund") == (
        "change of privilege: evals/order.txt is new in a system message, by the pattern '*.*'"
        " (evals/shop.eval.yaml: refund)\n"
        "change of privilege: evals/tone.rules.md, in a system message, comes by the pattern '*.*'"
        " (evals/shop.eval.yaml: refund)\n"
        "1 snapshot: 1 changed, 0 same; for promoted.lock, run it without --case\n"
    )
    after = files(folder)
    (changed,) = [name for name in after if after[name] != before.get(name)]
    assert (changed, before.keys()) == ("snapshots/evals/shop/refund.yaml", after.keys())


def test_one_case_says_which_list_does_not_have_its_files(folder: Path) -> None:
    write(folder)
    (folder / "evals/order.txt").write_text("Three books.")
    assert write(folder, "evals", "--case", "refund") == (
        "evals/order.txt has another text (evals/shop.eval.yaml: refund)\n"
        "1 snapshot: 1 same; for files.lock, run it without --case\n"
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("value: order.txt", "value: none.txt", id="a file is missing"),
        pytest.param("  - id: refund\n", "  - other: x\n", id="the id is missing"),
        pytest.param("role: user\n", "role: usr\n", id="a role is wrong"),
        pytest.param("evalcases", "evalcase", id="the suite is broken"),
    ],
)
def test_a_case_that_cannot_be_converted_keeps_its_snapshot(
    folder: Path, old: str, new: str
) -> None:
    write(folder)
    before = files(folder / "snapshots")
    (folder / "evals/shop.eval.yaml").write_text(SHOP.replace(old, new))
    for options in ([], ["--check"]):
        done = run("snapshot", "evals", *options, folder=folder)
        assert done.returncode == 1
        assert done.stderr.startswith("evals/shop.eval.yaml")
        assert "removed:" not in done.stdout
        assert files(folder / "snapshots") == before


def test_a_prompt_gives_no_command_to_a_workflow(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "evals/a.eval.yaml").write_text(bare('"Hi\\n::add-mask::e\\nline"'))
    write(folder)
    (folder / "evals/a.eval.yaml").write_text(bare('"Hi\\n::add-mask::e\\nlime"'))
    assert "stop-commands" not in check(folder, code=1)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    first, *lines, last = check(folder, code=1).splitlines()
    command, token = first.rsplit("::", 1)
    assert (command, last) == ("::stop-commands", f"::{token}::")
    assert len(token) >= 32
    assert any(line.strip() == "::add-mask::e" for line in lines)


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
    assert before.keys() < files(folder / "snapshots").keys()
    (folder / "other/b.eval.yaml").unlink()
    write(folder)
    assert before.keys() < files(folder / "snapshots").keys()


@pytest.mark.parametrize("arguments", [(), ("--dir", "evals")])
@pytest.mark.parametrize("text", ["my: own notes\n", "name: mine\nsuite: hotel\nchat_prompt: x\n"])
def test_no_file_of_somebody_is_written_over(
    folder: Path, arguments: tuple[str, ...], text: str
) -> None:
    place = folder / (arguments[-1] if arguments else "snapshots") / "evals/shop/hours.yaml"
    place.parent.mkdir(parents=True)
    place.write_text(text)
    done = run("snapshot", "evals", *arguments, folder=folder)
    assert done.returncode == 1
    assert done.stderr.endswith("evals/shop/hours.yaml: this is not a snapshot; move it away\n")
    assert place.read_text() == text
    place.write_text("")
    assert run("snapshot", "evals", *arguments, folder=folder).returncode == 0


def test_a_terminal_of_another_encoding_gets_escapes(folder: Path) -> None:
    write(folder)
    path = folder / "evals/shop.eval.yaml"
    path.write_text(path.read_text().replace("Hello", "Zdravo č"))
    command = [sys.executable, "-m", "multiturn", "snapshot", "evals", "--check"]
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True)
    assert (done.returncode, done.stderr) == (1, b"")
    assert b'+    content: "Zdravo \\u010d"\n' in done.stdout


# Names

HOSTILE = [
    *("a/b", "../../x", "..", ".", "/etc/passwd", "C:\\x", "a:b", "a\0b", "a\nb", "\x1b[2J"),
    *("CON", "con", "nul.txt", "Com1", "lpt9 .x", "aux.", " a", "a ", "a.", ".a", "-rf", "a.eval"),
    *("A", "a", "É", "é", "e\u0301", "😀", "x" * 300, "x" * 301, "X" * 300),
    *("%41", "~", "a~b", "promoted.lock", "*?<>|\"'", "\u202egnp", "ß", "SS", "ss", "ﬁ", "fi"),
]


def is_legal_everywhere(path: str) -> bool:
    return all(
        re.fullmatch(r"[A-Za-z0-9_%~][A-Za-z0-9_.%~ -]{0,149}", name)
        and name[-1] not in ". "
        and not re.match(r"(con|prn|aux|nul|com\d|lpt\d) *(\.|$)", name, re.IGNORECASE)
        for name in path.split("/")
    )


@pytest.mark.parametrize(
    ("case_id", "name"),
    [
        ("sql-injection", "sql-injection"),
        ("002", "002"),
        ("after 30 days", "after 30 days"),
        ("v1.2_final", "v1.2_final"),
        ("a/b", "a%2Fb"),
        ("..", "%2E%2E"),
        ("caf\u00e9", "caf%C3%A9"),
        ("cafe\u0301", "cafe%CC%81"),
        ("nul", "%6Eul"),
        ("a.eval", "a%2Eeval"),
        ("100%", "100%25"),
        ("TC-1", f"TC-1~{hashlib.sha256(b'TC-1').hexdigest()[:12]}"),
        ("x" * 300, f"{'x' * 100}~{hashlib.sha256(b'x' * 300).hexdigest()[:12]}"),
    ],
)
def test_a_name_reads_as_the_id(case_id: str, name: str) -> None:
    assert location_of("a.eval.yaml", case_id) == f"a/{name}.yaml"


def test_suites_that_differ_in_the_extension_have_folders_of_their_own() -> None:
    assert folder_of("evals/a.eval.yaml") == "evals/a"
    names = ["a", "a.yaml", "a.yml", "a.eval.yaml", "a.eval.yml", "a.jsonl", "a.eval.jsonl"]
    assert len({folder_of(name).casefold() for name in names}) == len(names)


def test_no_folder_has_the_place_of_a_file() -> None:
    file = location_of("evals/a.eval.yaml", "b")
    assert file == "evals/a/b.yaml"
    for suite in ("evals/a/b.yaml", "evals/a/b.yaml/c.eval.yaml", "evals/a/b.yaml.eval.yaml"):
        assert not location_of(suite, "x").startswith(f"{file}/")
    assert not folder_of("promoted.lock/a.eval.yaml").startswith("promoted.lock/")


@given(
    st.lists(st.text(max_size=12) | st.sampled_from(HOSTILE), min_size=2, max_size=2, unique=True)
)
@example(["A", "a"])
@example(["é", "e\u0301"])
@example(["CON", "%43ON"])
def test_two_ids_never_share_a_name_on_any_file_system(ids: list[str]) -> None:
    names = [location_of("evals/a.eval.yaml", case_id) for case_id in ids]
    assert all(map(is_legal_everywhere, names))
    assert len({unicodedata.normalize("NFKC", name).casefold() for name in names}) == 2
    assert all(name.count("/") == 2 for name in names)


@given(st.text(min_size=1, max_size=12).filter(lambda name: "/" not in name))
@example("con")
@example("..")
@example("\udcff")
def test_any_folder_has_a_name_that_is_legal_everywhere(name: str) -> None:
    assert is_legal_everywhere(location_of(f"{name}/{name}.eval.yaml", "x"))


def test_hostile_ids_are_written_and_found_again(folder: Path) -> None:
    suite = folder / "evals/odd.eval.jsonl"
    message = [{"role": "user", "content": "Hi \x1b[2J"}]
    lines = [json.dumps({"id": case_id, "input_messages": message}) for case_id in HOSTILE]
    suite.write_text("".join(f"{line}\n" for line in lines))
    outside = {path for path in folder.parent.rglob("*") if "snapshots" not in path.parts}
    assert write(folder, "evals/odd.eval.jsonl").startswith(
        f"{len(HOSTILE)} snapshots: {len(HOSTILE)} new"
    )
    assert {p for p in folder.parent.rglob("*") if "snapshots" not in p.parts} == outside
    names = os.listdir(folder / "snapshots/evals/odd~eval.jsonl")
    assert len({name.casefold() for name in names}) == len(HOSTILE)
    assert not any(name.endswith(".eval.yaml") for name in names)
    assert check(folder, "evals/odd.eval.jsonl", code=0)
    suite.write_text(lines[0])
    out = check(folder, "evals/odd.eval.jsonl", code=1)
    assert "\x1b" not in out
    assert f"{len(HOSTILE) - 1} removed" in out


def test_two_cases_that_would_share_a_file_are_reported(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("multiturn.review.update.location_of", lambda *_: "evals/shop/x.yaml")
    selection = select(["evals"])
    update = Update(selection, ("evals",), "snapshots", check=False, inline=False, pipeline="spec")
    error, _ = update.run(outcomes(selection, load_pipeline("spec")))
    assert update.summary.startswith("1 snapshot: 1 new,")
    assert str(error) == (
        "evals/shop.eval.yaml:10: case 'hours': its snapshot would replace another case's,"
        " snapshots/evals/shop/x.yaml; give it another id"
    )


# Links, and folders that cannot be written to


def test_a_link_in_the_folder_leads_no_write_outside(folder: Path) -> None:
    outside = folder / "outside"
    outside.mkdir()
    (outside / "hours.yaml").write_text("secret\n")
    for place, target in [
        ("snapshots/evals", outside),
        ("snapshots/evals/shop", outside),
        ("snapshots/evals/shop/hours.yaml", outside / "hours.yaml"),
        ("snapshots/evals/shop/hours.yaml", outside / "new.yaml"),
        ("snapshots/promoted.lock", outside / "hours.yaml"),
    ]:
        shutil.rmtree(folder / "snapshots", ignore_errors=True)
        (folder / place).parent.mkdir(parents=True)
        (folder / place).symlink_to(target)
        for options in ([], ["--check"]):
            done = run("snapshot", "evals", *options, folder=folder)
            assert done.returncode == 2
            assert done.stderr.startswith("Error: snapshots/")
            assert done.stderr.endswith(": a symbolic link leads there; remove the link\n")
            assert "secret" not in done.stdout + done.stderr
            assert files(outside) == {"hours.yaml": b"secret\n"}


def test_a_link_in_the_folder_is_never_removed_as_stale(folder: Path) -> None:
    write(folder)
    stale = "---\nsuite: evals/gone.eval.yaml\nid: one\nchat_prompt: null\n"
    (folder / "outside").mkdir()
    (folder / "outside/one.yaml").write_text(stale)
    (folder / "snapshots/evals/gone").symlink_to(folder / "outside")
    (folder / "snapshots/evals/shop/link.yaml").symlink_to(folder / "outside/one.yaml")
    write(folder)
    assert (folder / "outside/one.yaml").read_text() == stale
    assert (folder / "snapshots/evals/shop/link.yaml").is_symlink()


@pytest.mark.parametrize("arguments", [(), ("--check",), ("--dir", "snapshots/")])
def test_a_folder_that_is_a_link_is_refused(folder: Path, arguments: tuple[str, ...]) -> None:
    (folder / "kept").mkdir()
    (folder / "snapshots").symlink_to("kept")
    done = run("snapshot", "evals", *arguments, folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "Error: snapshots: the folder of snapshots is a symbolic link; remove it, or name where it"
        " leads (--dir)\n"
    )
    assert files(folder / "kept") == {}


@pytest.mark.skipif(sys.platform != "linux", reason="needs renameat2")
def test_a_folder_swapped_for_a_link_leads_no_write_outside(folder: Path) -> None:
    """A process exchanges a folder and a link in a loop, and nothing of outside is touched."""
    outside = folder / "outside"
    outside.mkdir()
    (outside / "c.yaml").write_text("---\nsuite: x\nid: y\nchat_prompt: secret\n")
    (folder / "snapshots/a").mkdir(parents=True)
    (folder / "snapshots/link").symlink_to(outside)
    before = files(outside)
    swap = (
        "import ctypes, sys\n"
        "libc = ctypes.CDLL(None)\n"
        "a, b = (name.encode() for name in sys.argv[1:])\n"
        "while True: libc.renameat2(-100, a, -100, b, 2)\n"  # RENAME_EXCHANGE
    )
    names = [str(folder / "snapshots" / name) for name in ("a", "link")]
    snapshots = SnapshotFolder(str(folder / "snapshots"))
    read: set[str | None] = set()
    with subprocess.Popen([sys.executable, "-c", swap, *names]) as process:
        try:
            for number in range(1000):
                with suppress(MultiturnError):
                    snapshots.write(f"a/b{number % 7}.yaml", "inside\n")
                with suppress(MultiturnError):
                    read.add(snapshots.read("a/c.yaml"))
                with suppress(MultiturnError):
                    snapshots.remove("a/c.yaml")
        finally:
            process.kill()
    assert files(outside) == before
    assert read <= {None}


def test_what_is_no_file_or_no_folder_is_refused(folder: Path) -> None:
    file = folder / "snapshots/evals/shop/refund.yaml"
    file.parent.mkdir(parents=True)
    os.mkfifo(file)
    done = run("snapshot", "evals", folder=folder)
    what = "snapshots/evals/shop/refund.yaml: this is not a regular file; move it away"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"Error: {what}\n")
    shutil.rmtree(folder / "snapshots")
    (folder / "snapshots").write_text("a file")
    done = run("snapshot", "evals", folder=folder)
    what = "snapshots/evals/shop/refund.yaml: cannot be written: File exists"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"Error: {what}\n")


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(OSError(28, "No space left on device"), id="a disk that fills"),
        pytest.param(KeyboardInterrupt(), id="an interrupt"),
    ],
)
def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    snapshots = SnapshotFolder(str(tmp_path))
    snapshots.write("a/b.yaml", "old\n")
    monkeypatch.setattr(os, "fsync", Mock(side_effect=error))
    with pytest.raises((MultiturnError, KeyboardInterrupt)) as raised:
        snapshots.write("a/b.yaml", "new\n")
    assert files(tmp_path) == {"a/b.yaml": b"old\n"}
    if isinstance(error, OSError):
        assert str(raised.value).endswith("a/b.yaml: cannot be written: No space left on device")


KILLED = """\
import os, signal
from multiturn.cli.group import main

replace, done = os.replace, []

def replace_two(*names, **folders):
    if len(done) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    done.append(replace(*names, **folders))

os.replace = replace_two
main(["snapshot", "evals"])
"""


def test_a_run_that_is_killed_leaves_each_file_old_or_new(folder: Path) -> None:
    (folder / "evals/many.eval.yaml").write_text(MANY)
    write(folder)
    old = files(folder / "snapshots")
    (folder / "evals/many.eval.yaml").write_text(MANY.replace("nice", "kind"))
    done = subprocess.run([sys.executable, "-c", KILLED], cwd=folder)
    assert done.returncode == -signal.SIGKILL
    left = files(folder / "snapshots")
    write(folder)
    new = files(folder / "snapshots")
    assert {name for name in old if left[name] != old[name]} == {
        *("evals/many/a.yaml", "evals/many/b.yaml")
    }
    assert all(left[name] in (old[name], new[name]) for name in old)


# In pre-commit


def test_the_hook_is_the_command_that_checks_all_suites(folder: Path) -> None:
    hooks = (Path(__file__).parent.parent / ".pre-commit-hooks.yaml").read_bytes()
    ((hook,),) = (node.value for node in read_documents(hooks, "hooks"))
    assert (hook["id"], hook["pass_filenames"]) == ("multiturn-snapshot-check", False)
    program, *command = hook["entry"].split()
    assert (program, command) == ("multiturn", ["snapshot", "--check"])
    write(folder)
    assert run(*command, *hook["args"], folder=folder).returncode == 0
    (folder / "evals/tone.rules.md").write_text("Obey.")
    assert run(*command, *hook["args"], folder=folder).returncode == 1
    assert hook["always_run"] is True  # also where a commit only deletes


# In Python


PIECES = st.text("ab \n-:", max_size=5)


@given(
    st.lists(st.tuples(st.booleans(), PIECES, st.sampled_from(["\n", "\n\n", "", "x", " \n"]))),
    st.sampled_from([("a.md", "- file: a.md"), ("a.md", " x\n\ny"), ("a.md", "a")]),
    st.sampled_from(["", "\n", "\n\n"]),
)
def test_a_snapshot_in_pieces_is_the_exact_prompt(
    given_parts: list[tuple[bool, str, str]], file: tuple[str, str], newlines: str
) -> None:
    """Written as YAML and read again, joined by line breaks: each text is where it was."""
    path, text = file
    parts = tuple(
        Part("text", text + newlines, separator, path=path, resolved_path=path)
        if is_file
        else Part("text", words, separator)
        for is_file, words, separator in given_parts
    )
    content = _content(parts, {path: text})
    ((node,),) = (list(read_documents(dump({"a": {"content": content}}), "")),)
    read = node.value["a"]["content"]
    pieces = [read] if isinstance(read, str) else read
    shown = (p if isinstance(p, str) else p.get("after", "") + text for p in pieces)
    assert "\n".join(shown) == joined(parts)
    if isinstance(read, str):
        assert read == joined(parts)


def test_only_the_whole_unchanged_text_of_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("Be brief.\n")
    (tmp_path / "b.md").write_text("Secret 7\n")
    suite = tmp_path / "x.eval.yaml"
    suite.write_text(
        "guideline_patterns: [a.md]\nevalcases:\n  - id: one\n    input_messages:\n"
        "      - {role: user, content: ['Be brief.', '- file: a.md', {type: file, value: a.md},"
        " {type: file, value: b.md}]}\n"
    )
    (case,) = load_suite(suite, root=tmp_path)
    pipeline = load_pipeline("spec").insert(hide_digits, before="embed_files")
    conversion = pipeline(Conversion(case))
    ((node,),) = (list(read_documents(snapshot_text(conversion, texts_of_files(conversion)), "")),)
    recorded = node.value
    system, user = recorded["chat_prompt"]
    assert system["content"] == ["[[ ## Guidelines ## ]]\n", {"file": "a.md"}]
    assert user["content"] == ("Be brief.\n- file: a.md\n<Attached: a.md>\n=== b.md ===\nSecret #")
    digest = hashlib.sha256(b"Secret #").hexdigest()
    assert [file.get("sha256") for file in recorded["input_files"]] == [None, digest]


@stage(requires={"turns"})
def hide_digits(conversion: Conversion) -> Conversion:
    """Replace each digit."""
    return conversion.map_parts(lambda part: replace(part, text=re.sub(r"\d", "#", part.text)))
