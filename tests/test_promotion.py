"""promoted.lock: what reaches a system message is on a list; see also test_snapshot.py."""

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

SUITE = """\
guideline_patterns: ["*.rules.md"]
input_messages: [{role: user, content: [{type: file, value: a.rules.md}, Hi]}]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("a.rules.md", "Rule A\n"), ("b.md", "Text B\n"), ("a.eval.yaml", SUITE)):
        (tmp_path / name).write_text(text)
    return tmp_path


# What is listed


def promoted(folder: Path, pipeline: str, *messages: TestMessage) -> set[tuple[str, str | None]]:
    case = Case(
        id="x",
        input_messages=messages,
        guideline_patterns=("*.rules.md",),
        files=Files(folder, folder),
    )
    found = promotions_of(load_pipeline(pipeline)(Conversion(case)))
    return {(entry.path, entry.pattern) for entry in found}


def attached(role: str, name: str) -> TestMessage:
    return TestMessage(role, [{"type": "file", "value": name}, "Hi"])  # type: ignore[arg-type]


HI = TestMessage("user", "Hi")
BY_PATTERN, BY_ROLE = {("a.rules.md", "*.rules.md")}, {("b.md", None)}
NOWHERE: set[tuple[str, str | None]] = set()


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param([attached("user", "a.rules.md")], [BY_PATTERN] * 4, id="a guideline"),
        pytest.param(
            [attached("system", "a.rules.md"), HI],
            [BY_PATTERN] * 4,
            id="a guideline in a system message is there by its pattern",
        ),
        pytest.param([attached("user", "b.md")], [NOWHERE] * 4, id="a file of a user"),
        pytest.param(
            [HI, attached("system", "b.md")],
            [BY_ROLE, BY_ROLE, NOWHERE, NOWHERE],
            id="a later system message counts where it becomes one",
        ),
    ],
)
def test_which_files_are_promoted(
    folder: Path, messages: list[TestMessage], expected: list[set[tuple[str, str | None]]]
) -> None:
    names = ("spec", "design", "shipped", "agentv")
    assert [promoted(folder, name, *messages) for name in names] == expected


class Fixed(Struct, frozen=True):
    turns: tuple[Turn, ...]

    def __call__(self, conversion: Conversion) -> tuple[Turn, ...]:
        return self.turns


def test_a_file_that_no_stage_moved_is_there_by_its_role() -> None:
    part = Part("text", "Rule A", path="a.rules.md", resolved_path="evals/a.rules.md")
    case = Case(id="x", input_messages=(), guideline_patterns=("*.rules.md",))
    moved = structs.replace(part, moved_by="extract_guidelines")
    for found, pattern in [(part, None), (moved, "*.rules.md")]:
        conversion = Conversion(case, chat_view=Fixed((Turn("system", (found,)),)))
        sha256 = hashlib.sha256(b"Rule A").hexdigest()
        assert promotions_of(conversion) == {Promotion("evals/a.rules.md", sha256, pattern)}


def lock(folder: Path) -> str:
    assert run("snapshot", "a.eval.yaml", folder=folder).returncode == 0
    return (folder / "snapshots/promoted.lock").read_text()


def test_other_suites_keep_their_sections(folder: Path) -> None:
    entry = Promotion("a.rules.md", hashlib.sha256(b"Rule A").hexdigest(), "*.rules.md")
    other = {"b.eval.yaml": (structs.replace(entry, path="b.md"),)}
    (folder / "snapshots").mkdir()
    (folder / "snapshots/promoted.lock").write_text(lock_text(PROMOTED, other))
    assert lock(folder) == lock_text(PROMOTED, {"a.eval.yaml": (entry,), **other})
    (folder / "a.eval.yaml").write_text("input_messages: [{role: user, content: Hi}]")
    assert lock(folder) == lock_text(PROMOTED, other)


def test_without_a_chat_prompt_the_guidelines_count(folder: Path) -> None:
    (folder / "bare.yaml").write_text("extends: spec\nremove: [consolidate_system]\n")
    assert promoted(folder, str(folder / "bare.yaml"), attached("user", "a.rules.md")) == BY_PATTERN


# Reading a list


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("", "x: it is not a list of files by suite", id="empty"),
        pytest.param(
            "<<<<<<< ours\na:\n=======\n>>>>>>> theirs\n",
            "x: it has a merge conflict",
            id="a conflict",
        ),
        pytest.param(
            "---\na:\n  - path: x\n    sha2",
            "x:5:1: not YAML: could not find expected ':' while scanning a simple key;"
            ' write a colon and a space after a key, and "|" before a text of many lines',
            id="torn",
        ),
        pytest.param(
            "---\na:\n  - path: x\n",
            "x:3:5: [0] has no 'sha256'; add it",
            id="torn between lines",
        ),
        pytest.param("- a\n", "x: it is not a list of files by suite", id="a list"),
        pytest.param("a: b\n", "x:1:4: this must be a list, not text", id="a section that is none"),
        pytest.param("a: []\n---\nb: []\n", "x: it is not a list of files by suite", id="two"),
        pytest.param(
            "a:\n- {path: b, sha256: '', pattern: false}",
            'x:2:34: [0].pattern must be text, not a boolean; quote it: pattern: "false"',
            id="a value",
        ),
    ],
)
def test_a_list_that_is_none_is_an_error(text: str, error: str) -> None:
    with pytest.raises(MultiturnError) as raised:
        read_promoted(text, "x")
    advice = "; restore it, or remove it and run multiturn snapshot for all suites"
    assert str(raised.value) == error + advice


@pytest.mark.parametrize("name", [PROMOTED, FILES])
def test_a_list_that_cannot_be_read_stays(folder: Path, name: str) -> None:
    (folder / "snapshots").mkdir()
    (folder / "snapshots" / name).write_bytes(b"\xff\xfe")
    for options in ([], ["--check"]):
        done = run("snapshot", "a.eval.yaml", *options, folder=folder)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"Error: snapshots/{name}")
        assert done.stderr.count("\n") == 1
    assert files_of(folder) == {name: b"\xff\xfe"}


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "snapshots").iterdir()}


def test_lists_read_back() -> None:
    files = {"x: y\n": {"a\n b": "0" * 64, "é\t": "1e10"}}
    assert read_files(lock_text(FILES, files), "x") == files
    with pytest.raises(MultiturnError, match="x:4:3: this must be text, not a number; restore it"):
        read_files(lock_text(FILES, files).replace('"1e10"', "1e10"), "x")

    entries = (Promotion("a\n b", "0" * 64, "*"), Promotion("c", "1e10", None))
    lock = {"x: y\n": entries, "z": (Promotion("é", "", "é\t"),)}
    text = lock_text(PROMOTED, lock)
    assert read_promoted(text, "x") == lock
    assert read_promoted(text.replace("pattern: null", "pattern: null\n    cases: 2"), "x") == lock


def test_a_list_may_be_long_but_has_no_aliases_that_grow() -> None:
    many = {"x.yaml": {str(number): "" for number in range(50_000)}}  # 100,002 values
    assert read_files(lock_text(FILES, many), "x") == many
    bomb = "a: &a [x, x, x, x]\n" + "".join(
        f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}]\n" for a, b in pairwise("abcdefghijk")
    )
    with pytest.raises(MultiturnError, match="over 100,000 values in one case, with its aliases"):
        read_promoted(bomb, "x")
