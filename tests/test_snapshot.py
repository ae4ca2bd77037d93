"""Snapshots of suites, written and checked by real processes."""

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
from unittest.mock import Mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from commands import run, start
from multiturn import (
    Conversion,
    MultiturnError,
    Part,
    load_pipeline,
    load_suite,
    stage,
)
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

SUITE = """\
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
"""
# One begins with a digit, one with a letter; both stand in quotes.
ORDER = hashlib.sha256(b"No. 7\nlate").hexdigest()
TONE = hashlib.sha256("Be quick. é".encode()).hexdigest()
SAME = "if that is meant, run it without --check, and commit"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals/shop.eval.yaml").write_text(SUITE)
    (tmp_path / "evals/tone.rules.md").write_text("Be quick. é\n", encoding="utf-8")
    (tmp_path / "evals/order.txt").write_text("No. 7\nlate\n")
    return tmp_path


def bare(text: str) -> str:
    return f"evalcases: [{{id: one, input_messages: [{{role: user, content: {text}}}]}}]\n"


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


LISTS = ("files.lock", "promoted.lock")


def write(folder: Path, *arguments: str) -> str:
    done = run("snapshot", *(arguments or ("evals",)), folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def check(folder: Path, *arguments: str, code: int) -> str:
    """Check, and make sure that it writes nothing."""
    before = files(folder)
    done = run("snapshot", *(arguments or ("evals",)), "--check", folder=folder)
    assert (done.returncode, done.stderr) == (code, "")
    assert files(folder) == before
    return done.stdout


# What is written


def test_a_snapshot_is_what_a_reviewer_wants_to_read(folder: Path) -> None:
    assert write(folder) == ("2 snapshots: 2 new, 0 same; promoted.lock and files.lock changed\n")
    written = (folder / "snapshots/evals/shop/refund.yaml").read_bytes()
    assert (
        written.decode()
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
    assert (folder / "snapshots/files.lock").read_text() == (
        "# The files that snapshots name in place of their texts: the SHA-256 of each text.\n"
        "---\nevals/shop.eval.yaml:\n"
        f'  evals/order.txt: "{ORDER}"\n  evals/tone.rules.md: "{TONE}"\n'
    )


def test_an_inline_snapshot_repeats_the_texts_of_files(folder: Path) -> None:
    write(folder, "evals", "--inline")
    written = (folder / "snapshots/evals/shop/refund.yaml").read_bytes()
    assert (
        written.decode()
        == f"""\
---
suite: evals/shop.eval.yaml
id: refund
chat_prompt:
  - role: system
    content: |-
      [[ ## Guidelines ## ]]

      Be quick. é
  - role: user
    content: |-
      <Attached: tone.rules.md>
      === order.txt ===
      No. 7
      late
      Where is it?
question: |-
  <Attached: tone.rules.md>
  === order.txt ===
  No. 7
  late
  Where is it?
input_files:
  - path: tone.rules.md
    resolved_path: evals/tone.rules.md
    guideline: true
    sha256: "{TONE}"
  - path: order.txt
    resolved_path: evals/order.txt
    guideline: false
    sha256: "{ORDER}"
"""
    )
    assert not (folder / "snapshots/files.lock").exists()
    assert check(folder, "evals", "--inline", code=0) == "2 snapshots: 2 same\n"
    (folder / "multiturn.toml").write_text("inline_snapshots = true\n")
    assert check(folder, code=0) == "2 snapshots: 2 same\n"
    (folder / "multiturn.toml").unlink()
    assert write(folder).endswith(" 1 changed, 1 same; files.lock changed\n")
    assert write(folder, "evals", "--inline").endswith("; files.lock changed\n")
    assert not (folder / "snapshots/files.lock").exists()


def test_a_chat_prompt_that_is_left_out_is_null(folder: Path) -> None:
    write(folder, "evals", "--pipeline", "shipped")
    assert b"\nchat_prompt: null\n" in (folder / "snapshots/evals/shop/hours.yaml").read_bytes()


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
    assert check(folder, code=0) == "2 snapshots: 2 same\n"


def test_what_is_the_same_is_not_written_again(folder: Path) -> None:
    write(folder)
    paths = [*(folder / "snapshots").rglob("*.*")]
    for path in paths:
        os.utime(path, (1, 1))
    assert write(folder) == "2 snapshots: 2 same\n"
    assert {path.stat().st_mtime for path in paths if path.is_file()} == {1}


def test_one_line_says_what_was_done(folder: Path) -> None:
    write(folder)
    suite = SUITE.replace("Hello", "Good day").replace("id: refund", "id: return")
    (folder / "evals/shop.eval.yaml").write_text(suite)
    (folder / "evals/b.eval.yaml").write_text(bare("Hi"))
    write(folder, "evals/b.eval.yaml")
    assert write(folder) == (
        "renamed: snapshots/evals/shop/refund.yaml -> snapshots/evals/shop/return.yaml\n"
        "3 snapshots: 1 changed, 1 renamed, 1 same\n"
    )
    assert sorted(files(folder / "snapshots")) == [
        "evals/b/one.yaml",
        "evals/shop/hours.yaml",
        "evals/shop/return.yaml",
        *LISTS,
    ]


def test_a_root_that_is_named_is_what_names_are_relative_to(folder: Path) -> None:
    write(folder, "evals", "--root", "evals")
    assert sorted(files(folder / "snapshots")) == [*(*LISTS, "shop/hours.yaml", "shop/refund.yaml")]


# What is checked


def test_a_change_is_shown_as_a_unified_diff(folder: Path) -> None:
    write(folder)
    (folder / "evals/shop.eval.yaml").write_text(SUITE.replace("Hello", "Good day"))
    assert check(folder, code=1) == (
        "evals/shop.eval.yaml: hours:\n"
        "--- snapshots/evals/shop/hours.yaml · recorded\n"
        "+++ snapshots/evals/shop/hours.yaml · now\n"
        "@@\n"
        " id: hours\n"
        " chat_prompt:\n"
        "   - role: user\n"
        "-    content: Hello\n"
        "-question: Hello\n"
        "+    content: Good day\n"
        "+question: Good day\n"
        " input_files: []\n"
        f"2 snapshots: 1 changed, 1 same; {SAME}\n"
    )


MANY = "evalcases:\n" + "".join(
    f"  - id: {case_id}\n    input_messages:\n      - {{role: system, content: Be nice.}}\n"
    f"      - {{role: user, content: ['Where is {case_id}?', {{type: file, value: {file}}}]}}\n"
    for case_id, file in zip("abcd", ("order.txt", "tone.rules.md") * 2, strict=True)
)


def test_each_difference_is_shown_once_with_the_cases_that_have_it(folder: Path) -> None:
    """Only the first has it in full; what stands around it does not matter."""
    suite = folder / "evals/shop.eval.yaml"
    suite.write_text(MANY)
    write(folder)
    suite.write_text(MANY.replace("Be nice", "Be kind").replace("is c?", "is C?"))
    options = ((), ("--stat",), ("--all",))
    shown, stat, whole = (check(folder, "evals", *option, code=1) for option in options)
    assert shown.count("-    content: Be nice.\n") == 1
    assert shown.startswith(
        "change of privilege: new text in a system message: 'Be kind.'"
        " (4 cases, such as evals/shop.eval.yaml: a, b, c)\n"
        "4 cases, such as evals/shop.eval.yaml: a, b, c:\n"
        "--- snapshots/evals/shop/a.yaml · recorded\n"
    )
    assert "\nevals/shop.eval.yaml: a, b, d:\n" in shown  # beside it, c has another one
    assert shown.count("--- snapshots/") == 3
    assert shown.count("-      Where is c?\n") == 1
    assert [line for line in stat.splitlines() if line.startswith("changed: ")] == [
        *(f"changed: snapshots/evals/shop/{name}.yaml +2 -2" for name in "ab"),
        "changed: snapshots/evals/shop/c.yaml +4 -4",
        "changed: snapshots/evals/shop/d.yaml +2 -2",
    ]
    assert whole.count("-    content: Be nice.\n") == 4
    assert {text.splitlines()[-1] for text in (shown, stat, whole)} == {
        f"4 snapshots: 4 changed, 0 same; the pipeline is spec; {SAME}"
    }


@pytest.mark.parametrize("options", [("--stat",), ("--check", "--stat", "--all")])
def test_options_of_the_check_need_it_and_exclude_each_other(
    folder: Path, options: tuple[str, ...]
) -> None:
    done = run("snapshot", "evals", *options, folder=folder)
    assert (done.returncode, "--stat and --all are for --check" in done.stderr) == (2, True)


def test_a_file_with_another_text_is_one_difference_inline(folder: Path) -> None:
    """Whatever else the cases attach, and without the digests that follow from the texts."""
    suite, file = folder / "evals/shop.eval.yaml", folder / "evals/order.txt"
    suite.write_text(MANY)
    write(folder, "evals", "--inline")
    file.write_text("No. 7\nearly\n")
    out = check(folder, "evals", "--inline", code=1)
    assert out.count("-      late\n") == 1
    assert out.startswith("evals/shop.eval.yaml: a, c:\n--- snapshots/evals/shop/a.yaml")
    assert "sha256" not in "".join(line for line in out.splitlines() if line[0] in "+-")


def test_a_file_with_another_text_is_one_line(folder: Path) -> None:
    write(folder)
    (folder / "evals/order.txt").write_text("No. 8\n")
    assert check(folder, code=1) == (
        "evals/order.txt has another text (evals/shop.eval.yaml: refund)\n"
        "changed: snapshots/files.lock\n2 snapshots: 2 same; a file has another text in 1 prompt:"
        f" see multiturn report --against HEAD; {SAME}\n"
    )
    before = files(folder / "snapshots")
    write(folder)
    after = files(folder / "snapshots")
    assert [name for name in after if after[name] != before[name]] == ["files.lock"]


def test_a_file_that_the_list_lacks_is_no_file_that_is_the_same(folder: Path) -> None:
    write(folder)
    (folder / "snapshots/files.lock").unlink()
    (folder / "evals/order.txt").write_text("No. 8\n")
    out = check(folder, "evals", "--case", "refund", code=1)
    assert "evals/order.txt is not in files.lock (evals/shop.eval.yaml: refund)\n" in out


def test_a_renamed_case_is_shown_as_renamed_with_its_difference(folder: Path) -> None:
    write(folder)
    suite = SUITE.replace("id: refund", "id: return").replace("Where is it?", "Where was it?")
    (folder / "evals/shop.eval.yaml").write_text(suite)
    out = check(folder, code=1)
    assert out.startswith(
        "renamed: snapshots/evals/shop/refund.yaml -> snapshots/evals/shop/return.yaml\n"
        "evals/shop.eval.yaml: return:\n"
        "--- snapshots/evals/shop/refund.yaml · recorded\n"
        "+++ snapshots/evals/shop/return.yaml · now\n"
    )
    assert "refund\n" not in out
    assert '-    - "Where is it?"\n+    - "Where was it?"\n' in out
    assert out.endswith(f"\n2 snapshots: 1 renamed, 1 same; {SAME}\n")


def test_a_new_name_hides_no_change_of_privilege(folder: Path) -> None:
    write(folder)
    question = '"Where is it?"}'
    suite = SUITE.replace("id: refund", "id: return").replace("role: user\n", "role: system\n")
    suite = suite.replace(question, question + "\n      - {role: user, content: Please}")
    (folder / "evals/shop.eval.yaml").write_text(suite)
    first, second, third, *_ = check(folder, code=1).splitlines()
    assert first == (
        "change of privilege: evals/order.txt is new in a system message, as its attachment"
        " (evals/shop.eval.yaml: return)"
    )
    assert second.startswith("change of privilege: user text becomes system text: 'Where is it?'")
    assert third == "renamed: snapshots/evals/shop/refund.yaml -> snapshots/evals/shop/return.yaml"


def test_a_suite_with_another_name_is_no_change_of_privilege(folder: Path) -> None:
    write(folder)
    (folder / "evals/shop.eval.yaml").rename(folder / "evals/store.eval.yaml")
    assert check(folder, code=1) == (
        "renamed: snapshots/evals/shop/refund.yaml -> snapshots/evals/store/refund.yaml\n"
        "renamed: snapshots/evals/shop/hours.yaml -> snapshots/evals/store/hours.yaml\n"
        "changed: snapshots/promoted.lock\nchanged: snapshots/files.lock\n"
        f"2 snapshots: 2 renamed, 0 same; {SAME}\n"
    )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        pytest.param(
            "role: user, content: Hello",
            "role: system, content: Hello}\n      - {role: user, content: Hi",
            "user text becomes system text: 'Hello' (evals/shop.eval.yaml: hours)",
            id="a user text",
        ),
        pytest.param(
            '["**/*.rules.md"]',
            '["**/*.rules.md", "**/*.txt"]',
            "evals/order.txt is new in a system message, by the pattern '**/*.txt'"
            " (evals/shop.eval.yaml: refund)",
            id="a file",
        ),
    ],
)
def test_what_speaks_with_another_voice_comes_first(
    folder: Path, old: str, new: str, said: str
) -> None:
    write(folder)
    (folder / "evals/shop.eval.yaml").write_text(SUITE.replace(old, new))
    first, second, *_ = check(folder, code=1).splitlines()
    assert first == f"change of privilege: {said}"
    assert not second.startswith("change of privilege")


def test_text_that_a_stage_adds_to_system_messages_comes_first(folder: Path) -> None:
    write(folder)
    (folder / "house.yaml").write_text(
        "extends: spec\nconfigure:\n  consolidate_system: {guidelines_heading: Obey}\n"
    )
    out = check(folder, "evals", "--pipeline", "house.yaml", code=1)
    assert out.startswith(
        "change of privilege: consolidate_system adds to a system message: 'Obey'"
        " (evals/shop.eval.yaml: refund)\n"
    )


def test_a_new_suite_that_shares_a_guideline_promotes_nothing_new(folder: Path) -> None:
    write(folder)
    (folder / "evals/b.eval.yaml").write_text(SUITE)
    out = check(folder, code=1)
    assert "privilege" not in out
    assert "changed: snapshots/promoted.lock\n" in out


def test_advice_does_not_lead_in_a_circle(folder: Path) -> None:
    """A broken case does not go away by writing."""
    write(folder)
    broken = SUITE.replace('["**', '["**/*.txt", "**').replace("Hello", "5")
    (folder / "evals/shop.eval.yaml").write_text(broken)
    for _ in range(2):
        done = run("snapshot", "evals", "--check", folder=folder)
        assert done.returncode == 1
        assert done.stdout.endswith(
            "; if that is meant, mend what has failed, run it without --check, and commit\n"
        )
        run("snapshot", "evals", folder=folder)


def test_a_newline_that_is_missing_at_the_end_is_a_change(folder: Path) -> None:
    write(folder)
    recorded = folder / "snapshots/evals/shop/hours.yaml"
    recorded.write_text(recorded.read_text().rstrip("\n"))
    assert "-input_files: []\n\\ No newline at end of file\n+input_files: []\n" in check(
        folder, code=1
    )


def test_new_and_removed_cases_are_named(folder: Path) -> None:
    write(folder)
    suite = SUITE.replace("id: hours", "id: days").replace("Hello", "How long are you open?")
    (folder / "evals/shop.eval.yaml").write_text(suite)
    assert check(folder, code=1) == (
        "new: snapshots/evals/shop/days.yaml\n"
        "removed: snapshots/evals/shop/hours.yaml\n"
        f"3 snapshots: 1 new, 1 removed, 1 same; {SAME}\n"
    )


def test_nothing_recorded_is_all_new(folder: Path) -> None:
    out = check(folder, code=1)
    assert out.splitlines()[:4] == [
        "new: snapshots/evals/shop/refund.yaml",
        "new: snapshots/evals/shop/hours.yaml",
        "new: snapshots/promoted.lock",
        "new: snapshots/files.lock",
    ]


def test_a_suite_that_is_gone_leaves_stale_files_to_a_folder_only(folder: Path) -> None:
    (folder / "evals/b.eval.yaml").write_text(bare("Hi"))
    write(folder)
    (folder / "evals/b.eval.yaml").unlink()
    assert check(folder, "evals/shop.eval.yaml", code=0).startswith("2 snapshots:")
    removed = "removed: snapshots/evals/b/one.yaml\n3 snapshots: 1 removed, 2 same"
    gone = "; 1 suite removed: evals/b.eval.yaml"
    assert check(folder, code=1) == f"{removed}{gone}; {SAME}\n"
    assert write(folder) == f"{removed}{gone}\n"
    assert not (folder / "snapshots/evals/b").exists()


def test_other_suites_are_neither_stale_nor_touched(folder: Path) -> None:
    (folder / "evals/plain.yaml").write_text(bare("Hi"))  # no *.eval.yaml: a folder misses it
    (folder / "other").mkdir()
    (folder / "other/b.eval.yaml").write_text(bare("Hi"))
    write(folder, "evals", "other", "evals/plain.yaml")
    before = files(folder / "snapshots")
    assert check(folder, code=0).startswith("2 snapshots:")
    write(folder)
    (folder / "other/b.eval.yaml").unlink()
    write(folder)
    assert files(folder / "snapshots") == before


def test_files_of_others_stay(folder: Path) -> None:
    write(folder)
    kept = folder / "snapshots/evals/shop"
    (kept / "notes.yaml").write_text("suite: mine\n")
    (kept / "notes.md").write_text("Mine.\n")
    (folder / "snapshots/evals/mine.yaml").write_text("---\nsuite: x\nid: y\nchat_prompt:\n")
    before = files(folder)
    assert check(folder, code=0).startswith("2 snapshots:")
    write(folder)
    assert files(folder) == before


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


def test_a_snapshot_with_a_conflict_is_written_anew(folder: Path) -> None:
    write(folder)
    place = folder / "snapshots/evals/shop/hours.yaml"
    text = place.read_text()
    place.write_text(f"<<<<<<< ours\n{text}=======\n{text}>>>>>>> theirs\n")
    assert write(folder).startswith("2 snapshots: 1 changed")
    assert place.read_text() == text


def test_the_last_suite_takes_its_snapshots_with_it(folder: Path) -> None:
    write(folder)
    (folder / "evals/shop.eval.yaml").unlink()
    out = check(folder, code=1)
    assert "removed: snapshots/evals/shop/hours.yaml\nremoved: snapshots/evals/shop/refund" in out
    out = write(folder)
    assert out.endswith(
        "2 snapshots: 2 removed, 0 same; 1 suite removed: evals/shop.eval.yaml;"
        " promoted.lock and files.lock changed\n"
    )
    assert files(folder / "snapshots").keys() == {"promoted.lock"}
    done = run("snapshot", "evals", folder=folder)
    assert done.returncode == 2
    assert "there is no *.eval.yaml" in done.stderr


def test_a_suite_that_became_a_folder_is_gone(folder: Path) -> None:
    write(folder)
    (folder / "evals/shop.eval.yaml").rename(folder / "evals/other.eval.yaml")
    (folder / "evals/shop.eval.yaml").mkdir()
    assert (
        "renamed: snapshots/evals/shop/hours.yaml -> snapshots/evals/other/hours.yaml\n"
        in check(folder, code=1)
    )


def test_the_folder_is_beside_git_wherever_the_command_runs(folder: Path) -> None:
    (folder / ".git").mkdir(exist_ok=True)
    write(folder)
    before = files(folder)
    done = run("snapshot", ".", "--check", folder=folder / "evals")
    assert (done.returncode, done.stderr) == (0, "")
    assert run("snapshot", ".", folder=folder / "evals").returncode == 0
    assert files(folder) == before


def test_suites_of_two_repositories_need_a_folder_that_is_named(folder: Path) -> None:
    (folder / ".git").mkdir(exist_ok=True)
    (folder / "third/.git").mkdir(parents=True)
    (folder / "third/a.eval.yaml").write_text(bare("Hi"))
    write(folder, ".")  # one folder, of one repository
    assert (folder / "snapshots/a/one.yaml").exists()
    shutil.rmtree(folder / "snapshots")
    done = run("snapshot", "evals", "third", folder=folder)
    assert done.returncode == 2
    assert "the suites are in several roots, as " in done.stderr
    assert done.stderr.endswith("; name the folder of their snapshots (--dir)\n")
    write(folder, "third")
    assert (folder / "third/snapshots/a/one.yaml").exists()
    assert not (folder / "snapshots").exists()
    write(folder, "evals", "third", "--dir", "both")


def test_a_suite_of_no_repository_beside_one_needs_a_folder_that_is_named(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.eval.yaml").write_text(bare("Hi"))
    (tmp_path / "a/.git").mkdir()
    done = run("snapshot", "a", "b", folder=tmp_path)
    assert (done.returncode, "in several roots" in done.stderr) == (2, True)


def test_a_root_below_takes_nothing_of_what_is_beside_it(folder: Path) -> None:
    (folder / "other").mkdir()
    (folder / "other/c.eval.yaml").write_text(bare("Hi"))
    write(folder, ".")
    write(folder, "evals", "--root", "evals")
    assert (folder / "snapshots/other/c/one.yaml").exists()


def test_with_a_root_the_folder_is_here(folder: Path) -> None:
    (folder / "work").mkdir()
    assert run("snapshot", "../evals", "--root", "..", folder=folder / "work").returncode == 0
    assert (folder / "work/snapshots/evals/shop/hours.yaml").exists()


def test_a_suite_that_is_named_and_not_there_is_an_error(folder: Path) -> None:
    done = run("snapshot", "evals", "evals/shpo.eval.yaml", folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    near = "did you mean 'evals/shop.eval.yaml'?"
    assert done.stderr == f"Error: there is no suite 'evals/shpo.eval.yaml'; {near}\n"
    assert not (folder / "snapshots").exists()


def test_a_broken_case_is_counted_and_its_suite_keeps_its_promotions(folder: Path) -> None:
    write(folder)
    lock = (folder / "snapshots/promoted.lock").read_text()
    suite = folder / "evals/shop.eval.yaml"
    suite.write_text(suite.read_text() + "  - {id: bad, input_messages: [{role: x, content: y}]}\n")
    done = run("snapshot", "evals", folder=folder)
    assert done.returncode == 1
    assert done.stdout == ("2 snapshots: 2 same; 1 failed\n")
    assert (folder / "snapshots/promoted.lock").read_text() == lock


def test_the_lists_keep_nothing_of_a_broken_suite_that_is_new(folder: Path) -> None:
    (folder / "evals/shop.eval.yaml").write_text("evalcases: [{id: bad, input_messages: 3}]\n")
    done = run("snapshot", "evals", folder=folder)
    assert done.stdout == "0 snapshots: 0 same; 1 failed; promoted.lock changed\n"


def test_two_suites_whose_names_are_written_the_same_are_refused(folder: Path) -> None:
    for name in (b"evals/\xfe.eval.yaml", b"evals/\xff.eval.yaml"):
        (folder / os.fsdecode(name)).write_text(SUITE)
    done = run("snapshot", "evals", folder=folder)
    assert done.returncode == 2
    assert "two suites are " in done.stderr


def test_a_prompt_without_chat_is_recorded_with_what_providers_add(folder: Path) -> None:
    text = 'guidelines: ["Be kind."]\nmetadata: {systemPrompt: You sell books.}\n' + bare("Hi")
    (folder / "evals/shop.eval.yaml").write_text(text)
    write(folder, "evals", "--pipeline", "shipped")
    for old, new in (("Be kind", "Leak everything"), ("You sell books", "You are evil")):
        (folder / "evals/shop.eval.yaml").write_text(text.replace(old, new))
        out = check(folder, "evals", "--pipeline", "shipped", code=1)
        assert f"-{' ' * 2 * (old == 'Be kind')}" in out
        assert old in out
        assert new in out


def test_a_terminal_of_another_encoding_gets_escapes(folder: Path) -> None:
    write(folder)
    path = folder / "evals/shop.eval.yaml"
    path.write_text(path.read_text().replace("Hello", "Zdravo č"))
    command = [sys.executable, "-m", "multiturn", "snapshot", "evals", "--check"]
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True)
    assert (done.returncode, done.stderr) == (1, b"")
    assert b'+    content: "Zdravo \\u010d"\n' in done.stdout


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


# One case


def test_one_case_says_nothing_of_the_others(folder: Path) -> None:
    write(folder)
    (folder / "snapshots/evals/shop/refund.yaml").unlink()
    hours = folder / "snapshots/evals/shop/hours.yaml"
    hours.write_text(hours.read_text().replace("Hello", "Hi"))
    stale = location_of("evals/shop.eval.yaml", "old")
    (folder / "snapshots" / stale).write_text(
        "---\nsuite: evals/shop.eval.yaml\nid: old\nchat_prompt: null\n"
    )
    out = check(folder, "evals", "--case", "hours", code=1)
    assert "refund" not in out
    assert "old" not in out
    assert out.endswith(f"1 snapshot: 1 changed, 0 same; {SAME}\n")
    out = write(folder, "evals", "--case", "hours")
    assert out == "1 snapshot: 1 changed, 0 same\n"
    assert (folder / "snapshots" / stale).exists()
    assert not (folder / "snapshots/evals/shop/refund.yaml").exists()
    assert check(folder, "evals", "--case", "hours", code=0)


def test_a_case_that_no_suite_has_is_refused(folder: Path) -> None:
    done = run("snapshot", "evals", "--check", "--case", "hour", folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert 'did you mean "hours"?' in done.stderr


# What cannot be converted


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("value: order.txt", "value: none.txt"),
        ("  - id: refund\n", "  - other: x\n"),
        ("role: user\n", "role: usr\n"),
        ("evalcases", "evalcase"),
    ],
    ids=["a file is missing", "the id is missing", "a role is wrong", "the suite is broken"],
)
def test_a_case_that_cannot_be_converted_keeps_its_snapshot(
    folder: Path, old: str, new: str
) -> None:
    write(folder)
    before = files(folder / "snapshots")
    (folder / "evals/shop.eval.yaml").write_text(SUITE.replace(old, new))
    for options in ([], ["--check"]):
        done = run("snapshot", "evals", *options, folder=folder)
        assert done.returncode == 1
        assert done.stderr.startswith("evals/shop.eval.yaml")
        assert "removed:" not in done.stdout
        assert files(folder / "snapshots") == before


def test_standard_input_is_refused(folder: Path) -> None:
    done = run("snapshot", "-", folder=folder, given=SUITE)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Error: a snapshot is named after its suite's file, and - has none\n"


def test_two_suites_of_one_name_are_refused(folder: Path) -> None:
    shutil.rmtree(folder / ".git")
    for name in ("x", "y"):
        (folder / name).mkdir()
        (folder / name / "a.eval.yaml").write_text(bare("Hi"))
    done = run("snapshot", "x", "y", folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "--root" in done.stderr
    assert not (folder / "snapshots").exists()
    write(folder, "x", "y", "--root", ".")
    assert sorted(files(folder / "snapshots")) == [
        *("promoted.lock", "x/a/one.yaml", "y/a/one.yaml")
    ]


def test_without_a_root_the_suites_of_another_folder_stay(folder: Path) -> None:
    shutil.rmtree(folder / ".git")
    for name in ("x", "y"):
        (folder / name).mkdir()
        (folder / name / f"{name}.eval.yaml").write_text(bare("Hi"))
    write(folder, "x")
    write(folder, "y")
    assert sorted(files(folder / "snapshots")) == ["promoted.lock", "x/one.yaml", "y/one.yaml"]


def test_a_suite_outside_the_root_is_refused(folder: Path) -> None:
    (folder / "inner").mkdir()
    done = run("snapshot", "evals", "--root", "inner", folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert not (folder / "snapshots").exists()


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
        ("sql-injection", "sql-injection.yaml"),
        ("002", "002.yaml"),
        ("after 30 days", "after 30 days.yaml"),
        ("v1.2_final", "v1.2_final.yaml"),
        ("a/b", "a%2Fb.yaml"),
        ("..", "%2E%2E.yaml"),
        ("caf\u00e9", "caf%C3%A9.yaml"),
        ("cafe\u0301", "cafe%CC%81.yaml"),
        ("nul", "%6Eul.yaml"),
        ("a.eval", "a%2Eeval.yaml"),
        ("100%", "100%25.yaml"),
    ],
)
def test_a_name_reads_as_the_id(case_id: str, name: str) -> None:
    assert location_of("a.eval.yaml", case_id) == f"a/{name}"


def test_a_name_with_capitals_or_too_long_ends_with_a_digest() -> None:
    digest = hashlib.sha256(b"TC-1").hexdigest()[:12]
    assert location_of("a.eval.yaml", "TC-1") == f"a/TC-1~{digest}.yaml"
    digest = hashlib.sha256(b"x" * 300).hexdigest()[:12]
    assert location_of("a.eval.yaml", "x" * 300) == f"a/{'x' * 100}~{digest}.yaml"


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


def test_what_an_id_holds_reaches_no_terminal(folder: Path) -> None:
    (folder / "evals/a.eval.yaml").write_text(bare('"Hi \\e[2J"'))
    write(folder, "evals/a.eval.yaml")
    (folder / "evals/a.eval.yaml").write_text(bare('"Ho \\e[2J"'))
    recorded = folder / "snapshots/evals/a/one.yaml"
    recorded.write_text(recorded.read_text() + "# \x1b[2J\n")
    out = check(folder, "evals/a.eval.yaml", code=1)
    assert "-# \\x1b[2J" in out
    assert "\x1b" not in out


def test_a_suite_whose_name_is_not_utf_8_is_recorded(folder: Path) -> None:
    name = os.fsdecode(b"evals/\xff.eval.yaml")
    (folder / name).write_text(SUITE)
    write(folder)
    assert 'suite: "evals/\ufffd.eval.yaml"' in (
        folder / "snapshots/evals/%EF%BF%BD/hours.yaml"
    ).read_text(encoding="utf-8")
    assert check(folder, code=0)


def test_two_cases_that_would_share_a_file_are_reported(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("multiturn.review.update.location_of", lambda *_: "evals/shop/x.yaml")
    selection = select(["evals"])
    update = Update(selection, ("evals",), "snapshots", check=False, inline=False, pipeline="spec")
    (error,) = update.run(outcomes(selection, load_pipeline("spec")))
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
            for number in range(3000):
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


def test_what_is_no_file_is_refused(folder: Path) -> None:
    os.makedirs(folder / "snapshots/evals/shop")
    os.mkfifo(folder / "snapshots/evals/shop/refund.yaml")
    done = run("snapshot", "evals", folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "Error: snapshots/evals/shop/refund.yaml: this is not a regular file; move it away\n"
    )


def test_a_folder_that_cannot_be_written_to_is_one_line(folder: Path) -> None:
    (folder / "snapshots").write_text("a file")
    done = run("snapshot", "evals", folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"Error: snapshots/evals/.*: cannot be written: .*\n", done.stderr)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_one_line(folder: Path) -> None:
    write(folder)
    (folder / "evals/shop.eval.yaml").write_text(SUITE.replace("Hello", "Hi"))
    (folder / "snapshots/evals/shop").chmod(0o500)
    done = run("snapshot", "evals", folder=folder)
    (folder / "snapshots/evals/shop").chmod(0o700)
    assert done.returncode == 2
    assert done.stderr.endswith("hours.yaml: cannot be written: Permission denied\n")


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


def test_a_run_that_is_killed_leaves_each_file_old_or_new(folder: Path) -> None:
    suite = folder / "evals/many.eval.jsonl"

    def fill(text: str) -> None:
        messages = [{"role": "user", "content": text * 2000}]
        cases = ({"id": f"c{n}", "input_messages": messages} for n in range(100))
        suite.write_text("".join(f"{json.dumps(case)}\n" for case in cases))

    fill("old ")
    write(folder)
    old = files(folder / "snapshots")
    fill("new ")
    process = start("snapshot", "evals", folder=folder)
    first = folder / "snapshots/evals/many~eval.jsonl/c0.yaml"
    while process.poll() is None and first.read_bytes() == old["evals/many~eval.jsonl/c0.yaml"]:
        pass
    process.kill()
    said = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGKILL, said
    left = {name: text for name, text in files(folder / "snapshots").items() if name in old}
    write(folder)
    new = files(folder / "snapshots")
    assert left.keys() == old.keys()
    assert all(text in (old[name], new[name]) for name, text in left.items())
    assert left not in (old, new)


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
