"""promoted.lock: what reaches a system message is on a list, and a new entry fails the check."""

import hashlib
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec import Struct, structs

from commands import run
from multiturn import (
    Case,
    Conversion,
    Files,
    MultiturnError,
    Part,
    TestMessage,
    Turn,
    load_pipeline,
)
from multiturn.review.lists import FILES, PROMOTED, lock_text, read_files, read_promoted
from multiturn.review.promotion import Promotion, promotions_of
from multiturn.suites.patterns import matching_pattern

SUITE = """\
guideline_patterns: ["*.rules.md"]
evalcases:
  - id: one
    input_messages:
      - {role: user, content: [{type: file, value: a.rules.md}, Hi]}
  - id: two
    input_messages:
      - {role: user, content: [{type: file, value: a.rules.md}, {type: file, value: b.md}]}
  - id: three
    input_messages:
      - {role: system, content: [{type: file, value: c.md}]}
      - {role: user, content: Hi}
"""
OTHER = """\
guideline_patterns: ["*.rules.md"]
input_messages:
  - {role: user, content: [{type: file, value: a.rules.md}, Hi]}
"""
ADVICE = "; if that is meant, run it without --check, and commit"


def sha(text: str) -> str:
    digest = hashlib.sha256(text.encode()).hexdigest()
    return digest if digest[0].isalpha() else f'"{digest}"'


def entry(name: str, text: str, pattern: str) -> str:
    return f"  - path: evals/{name}\n    sha256: {sha(text)}\n    pattern: {pattern}\n"


COMMENT = "# The files in system messages: a change of this list is a change of privilege.\n---\n"
A = entry("a.rules.md", "Rule A", '"*.rules.md"')
C = entry("c.md", "Text C", "null")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals/shop.eval.yaml").write_text(SUITE)
    (tmp_path / "evals/a.rules.md").write_text("Rule A\n")
    (tmp_path / "evals/b.md").write_text("Text B\n")
    (tmp_path / "evals/c.md").write_text("Text C\n")
    write(tmp_path)
    return tmp_path


def lock(folder: Path) -> str:
    return (folder / "snapshots/promoted.lock").read_bytes().decode()


def write(folder: Path, *arguments: str) -> str:
    done = run("snapshot", *(arguments or ("evals",)), folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def check(folder: Path, *arguments: str) -> list[str]:
    """Check what is expected to fail, and return the lines about privileges."""
    before = lock(folder)
    done = run("snapshot", *(arguments or ("evals",)), "--check", folder=folder)
    assert (done.returncode, done.stderr) == (1, "")
    assert lock(folder) == before
    return [line for line in done.stdout.splitlines() if "privilege:" in line]


def change(folder: Path, old: str, new: str, name: str = "shop.eval.yaml") -> None:
    path = folder / "evals" / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def said(what: str, *cases: str) -> list[str]:
    return [f"change of privilege: {what} (evals/shop.eval.yaml: {', '.join(cases)})"]


# What is listed


def test_the_lock_lists_each_file_in_a_system_message(folder: Path) -> None:
    assert lock(folder) == f"{COMMENT}evals/shop.eval.yaml:\n{A}{C}"


def test_a_suite_that_promotes_nothing_has_no_section(folder: Path) -> None:
    (folder / "evals/shop.eval.yaml").write_text("input_messages: [{role: user, content: Hi}]")
    write(folder)
    assert lock(folder) == COMMENT.removesuffix("\n") + " {}\n"


def test_other_suites_keep_their_sections(folder: Path) -> None:
    (folder / "evals/b.eval.yaml").write_text(OTHER)
    write(folder, "evals/b.eval.yaml")
    assert lock(folder) == f"{COMMENT}evals/b.eval.yaml:\n{A}evals/shop.eval.yaml:\n{A}{C}"
    (folder / "evals/b.eval.yaml").unlink()
    write(folder, "evals/shop.eval.yaml")
    assert "evals/b.eval.yaml" in lock(folder)
    write(folder)
    assert lock(folder) == f"{COMMENT}evals/shop.eval.yaml:\n{A}{C}"


def test_without_a_chat_prompt_the_guidelines_count(folder: Path) -> None:
    (folder / "bare.yaml").write_text("extends: spec\nremove: [consolidate_system]\n")
    write(folder, "evals", "--pipeline", "bare.yaml")
    assert "chat_prompt: null" in (folder / "snapshots/evals/shop/one.yaml").read_text()
    assert lock(folder) == f"{COMMENT}evals/shop.eval.yaml:\n{A}"


def promoted(folder: Path, pipeline: str, *messages: TestMessage) -> set[Promotion]:
    case = Case(
        id="x",
        input_messages=messages,
        guideline_patterns=("*.rules.md",),
        files=Files(folder / "evals", folder),
    )
    return promotions_of(load_pipeline(pipeline)(Conversion(case)))


def attached(role: str, name: str) -> TestMessage:
    return TestMessage(role, [{"type": "file", "value": name}, "Hi"])  # type: ignore[arg-type]


@pytest.mark.parametrize(("pipeline", "expected"), [("spec", {"evals/c.md"}), ("shipped", set())])
def test_a_later_system_message_counts_where_it_becomes_one(
    folder: Path, pipeline: str, expected: set[str]
) -> None:
    found = promoted(folder, pipeline, TestMessage("user", "Hi"), attached("system", "c.md"))
    assert {entry.path for entry in found} == expected


def test_a_guideline_in_a_system_message_is_there_by_its_pattern(folder: Path) -> None:
    for pipeline in ("spec", "design", "shipped", "agentv"):
        (found,) = promoted(
            folder, pipeline, attached("system", "a.rules.md"), TestMessage("user", "Hi")
        )
        assert (found.path, found.pattern) == ("evals/a.rules.md", "*.rules.md")


class Fixed(Struct, frozen=True):
    turns: tuple[Turn, ...]

    def __call__(self, conversion: Conversion) -> tuple[Turn, ...]:
        return self.turns


def test_a_file_that_no_stage_moved_is_there_by_its_role(folder: Path) -> None:
    part = Part("text", "Rule A", path="a.rules.md", resolved_path="evals/a.rules.md")
    case = Case(id="x", input_messages=(), guideline_patterns=("*.rules.md",))
    moved = structs.replace(part, moved_by="extract_guidelines")
    for found, pattern in [(part, None), (moved, "*.rules.md")]:
        conversion = Conversion(case, chat_view=Fixed((Turn("system", (found,)),)))
        sha256 = hashlib.sha256(b"Rule A").hexdigest()
        assert promotions_of(conversion) == {Promotion("evals/a.rules.md", sha256, pattern)}


def test_a_file_of_a_user_is_not_listed(folder: Path) -> None:
    for pipeline in ("spec", "design", "shipped", "agentv"):
        assert promoted(folder, pipeline, attached("user", "b.md")) == set()


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (("*.txt", "**/b.{md,txt}", "**/*.md"), "**/b.{md,txt}"),
        (("**/*.md", "!b.md"), None),
        (("!x.md", "b.md"), "b.md"),
        ((), None),
    ],
)
def test_the_pattern_is_the_first_that_matches_as_written(
    patterns: tuple[str, ...], expected: str | None
) -> None:
    assert matching_pattern(patterns, "b.md", "evals/b.md") == expected


# What fails the check


def test_a_new_guideline_fails_the_check(folder: Path) -> None:
    change(folder, "*.rules.md", "*.rules.md, b.*".replace(", ", '", "'))
    what = "evals/b.md is new in a system message, by the pattern 'b.*'"
    assert check(folder) == said(what, "two")
    write(folder)
    new = entry("b.md", "Text B", '"b.*"')
    assert lock(folder) == f"{COMMENT}evals/shop.eval.yaml:\n{A}{new}{C}"


def test_the_lock_alone_fails_the_check(folder: Path) -> None:
    """Someone commits the snapshots of a new guideline, but not the lock that has an owner."""
    before = lock(folder)
    change(folder, "*.rules.md", '*.rules.md", "b.*')
    write(folder)
    (folder / "snapshots/promoted.lock").write_text(before)
    done = run("snapshot", "evals", "--check", folder=folder)
    assert done.returncode == 1
    what = "evals/b.md is new in a system message, by the pattern 'b.*'"
    assert done.stdout == (
        f"{said(what, 'two')[0]}\nchanged: snapshots/promoted.lock\n3 snapshots: 3 same{ADVICE}\n"
    )
    done = run("snapshot", "evals", "--check", "--all", folder=folder)
    assert "\n--- snapshots/promoted.lock · recorded\n" in done.stdout
    assert "\n+  - path: evals/b.md\n" in done.stdout


ATTACHED = "{type: file, value: %s.md}"
CHANGES = {
    "another text": (
        "a.rules.md",
        "Rule A",
        "Obey",
        *("a.rules.md, in a system message, has another text", ("one", "two")),
    ),
    "another pattern": (
        *("shop.eval.yaml", "*.rules.md", "a.*"),
        *("a.rules.md, in a system message, comes by the pattern 'a.*'", ("one", "two")),
    ),
    "a system message attaches it": (
        *("shop.eval.yaml", ATTACHED % "c", f"{ATTACHED % 'c'}, {ATTACHED % 'b'}"),
        *("b.md is new in a system message, as its attachment", ("three",)),
    ),
}


@pytest.mark.parametrize(("name", "old", "new", "what", "cases"), CHANGES.values(), ids=CHANGES)
def test_a_change_fails_the_check(
    folder: Path, name: str, old: str, new: str, what: str, cases: tuple[str, ...]
) -> None:
    change(folder, old, new, name)
    assert check(folder) == said(f"evals/{what}", *cases)


def test_a_file_that_is_demoted_fails_as_a_difference(folder: Path) -> None:
    change(
        folder,
        "{role: system, content: [{type: file, value: c.md}]}",
        "{role: system, content: Be nice.}",
    )
    done = run("snapshot", "evals", "--check", folder=folder)
    assert done.returncode == 1
    assert "\nchanged: snapshots/promoted.lock\n" in f"\n{done.stdout}"
    assert "-    - file: evals/c.md\n" in done.stdout
    assert done.stdout.startswith(
        "change of privilege: new text in a system message: 'Be nice.'"
        " (evals/shop.eval.yaml: three)\n"
    )
    assert done.stdout.count("privilege") == 1


def test_line_ends_are_no_change(folder: Path) -> None:
    for path in (folder / "evals").glob("*.md"):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert run("snapshot", "evals", "--check", folder=folder).returncode == 0


# Some cases only


def test_one_case_compares_its_files(folder: Path) -> None:
    done = run("snapshot", "evals", "--check", "--case", "one", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    (folder / "evals/c.md").write_text("Obey\n")
    done = run("snapshot", "evals", "--check", "--case", "one", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = check(folder, "evals", "--case", "three")
    assert line == said("evals/c.md, in a system message, has another text", "three")[0]
    out = run("snapshot", "evals", "--check", "--case", "three", folder=folder).stdout
    assert out.endswith("; if that is meant, run it without --check and --case, and commit\n")


def test_one_case_does_not_write_the_lock(folder: Path) -> None:
    before = lock(folder)
    change(folder, "*.rules.md", "*.md")
    out = write(folder, "evals", "--case", "two")
    assert lock(folder) == before
    assert out.count("change of privilege: ") == 2
    assert out.endswith("1 snapshot: 1 changed, 0 same; for promoted.lock, run it without --case\n")


def test_a_suite_with_a_broken_case_keeps_its_section(folder: Path) -> None:
    before = lock(folder)
    change(
        folder,
        "{role: user, content: [{type: file, value: a.rules.md}, Hi]}",
        "{role: user, content: 5}",
    )
    (folder / "evals/b.md").write_text("Changed\n")
    done = run("snapshot", "evals", folder=folder)
    assert (done.returncode, lock(folder)) == (1, before)
    done = run("snapshot", "evals", "--check", folder=folder)
    assert done.returncode == 1
    assert "promoted.lock" not in done.stdout
    change(folder, "*.rules.md", "*.md")
    done = run("snapshot", "evals", "--check", folder=folder)
    assert "evals/b.md is new in a system message, by the pattern '*.md'" in done.stdout


# A lock that cannot be used


def test_a_missing_lock_is_one_line(folder: Path) -> None:
    (folder / "snapshots/promoted.lock").unlink()
    done = run("snapshot", "evals", "--check", folder=folder)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines()[0] == "new: snapshots/promoted.lock"
    assert len(done.stdout.splitlines()) == 2
    write(folder)
    assert lock(folder) == f"{COMMENT}evals/shop.eval.yaml:\n{A}{C}"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\0\0\0", id="zeros"),
        pytest.param(b"\xff\xfe", id="not UTF-8"),
        pytest.param(b"<<<<<<< ours\n---\na:\n=======\n---\n>>>>>>> theirs\n", id="a conflict"),
        pytest.param(b"---\na:\n  - path: x\n    sha2", id="torn"),
        pytest.param(b"---\na:\n  - path: x\n", id="torn between lines"),
        pytest.param(b"---\n- a\n", id="a list"),
        pytest.param(b"---\na: b\n", id="a section that is none"),
        pytest.param(b"---\na: []\n---\nb: []\n", id="two"),
    ],
)
def test_a_lock_that_is_none_is_refused_in_one_line(folder: Path, text: bytes) -> None:
    (folder / "snapshots/promoted.lock").write_bytes(text)
    for options in ([], ["--check"]):
        done = run("snapshot", "evals", *options, folder=folder)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("Error: snapshots/promoted.lock")
        assert done.stderr.count("\n") == 1
        assert "restore it, or remove it and run multiturn snapshot" in done.stderr
        assert (folder / "snapshots/promoted.lock").read_bytes() == text


def test_lists_read_back() -> None:
    files = {"x: y\n": {"a\n b": "0" * 64, "é\t": "1e10"}}
    assert read_files(lock_text(FILES, files), "x") == files
    with pytest.raises(MultiturnError, match="x:4:3: this must be text, not a number; restore it"):
        read_files(lock_text(FILES, files).replace('"1e10"', "1e10"), "x")

    entries = (Promotion("a\n b", "0" * 64, "*"), Promotion("c", "1e10", None))
    lock = {"x: y\n": entries, "z": (Promotion("é", "", "é\t"),)}
    assert read_promoted(lock_text(PROMOTED, lock), "x") == lock

    many = {"x.yaml": {str(number): "" for number in range(50_000)}}  # 100,002 values
    assert read_files(lock_text(FILES, many), "x") == many
    bomb = "a: &a [x, x, x, x]\n" + "".join(
        f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}]\n" for a, b in pairwise("abcdefghijk")
    )
    with pytest.raises(MultiturnError, match="over 100,000 values in one case, with its aliases"):
        read_promoted(bomb, "x")
    with pytest.raises(MultiturnError, match=r"x:11:14: \[1\]\.pattern must be text, not a boo"):
        read_promoted(lock_text(PROMOTED, lock).replace("null", "false"), "x")


def test_the_counts_of_0_1_are_read_and_dropped(folder: Path) -> None:
    text = f"{COMMENT}evals/other.eval.yaml:\n{A}    cases: 2\n"
    assert read_promoted(text, "x") == read_promoted(text.replace("    cases: 2\n", ""), "x")
    (folder / "snapshots/promoted.lock").write_text(text)
    write(folder, "evals/shop.eval.yaml")
    assert lock(folder) == f"{COMMENT}evals/other.eval.yaml:\n{A}evals/shop.eval.yaml:\n{A}{C}"


def test_a_case_that_changes_no_privilege_changes_nothing_in_the_lock(folder: Path) -> None:
    before = lock(folder)
    one = SUITE[SUITE.index("  - id: one") : SUITE.index("  - id: two")]
    for suite in (SUITE + one.replace("one", "four"), SUITE.replace(one, "")):
        (folder / "evals/shop.eval.yaml").write_text(suite)
        write(folder)
        assert lock(folder) == before


def test_a_merge_conflict_is_called_one(folder: Path) -> None:
    run("snapshot", "evals", folder=folder)
    lock = folder / "snapshots/promoted.lock"
    lock.write_text(f"<<<<<<< ours\n{lock.read_text()}=======\n>>>>>>> theirs\n")
    done = run("snapshot", "evals", folder=folder)
    assert done.returncode == 2
    assert "promoted.lock: it has a merge conflict; restore it, or remove it and" in done.stderr
