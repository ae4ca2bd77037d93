"""promoted.lock and files.lock: what reaches a system message, and what snapshots name."""

import hashlib
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec import Struct, structs

from commands import run
from multiturn import Conversion, MultiturnError, Part, Turn, load_pipeline, load_suite
from multiturn.snapshots.lists import FILES, PROMOTED, lock_text, read_lock
from multiturn.snapshots.privilege import Promotion, promotions_of
from repositories import commit, git

SUITE = """\
guideline_patterns: ["*.rules.md"]
input_messages: [{role: user, content: [{type: file, value: a.rules.md}, Hi]}]
"""
RULE_A = Promotion("a.rules.md", hashlib.sha256(b"Rule A").hexdigest(), "*.rules.md")
TEXT_B = Promotion("b.md", hashlib.sha256(b"Text B").hexdigest(), None)
A, B = {RULE_A.path: RULE_A.pattern}, {TEXT_B.path: TEXT_B.pattern}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("a.rules.md", "Rule A\n"), ("b.md", "Text B\n"), ("a.eval.yaml", SUITE)):
        (tmp_path / name).write_text(text)
    return tmp_path


# What is listed


def promoted(folder: Path, pipeline: str) -> set[Promotion]:
    (case,) = load_suite(folder / "a.eval.yaml", root=folder)
    return promotions_of(load_pipeline(pipeline)(Conversion(case)))


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param("user a.rules.md", [A] * 4, id="a guideline"),
        pytest.param(
            "system a.rules.md, user",
            [A] * 4,
            id="a guideline in a system message is there by its pattern",
        ),
        pytest.param("user b.md", [{}] * 4, id="a file of a user"),
        pytest.param(
            "user, system b.md",
            [B, B, {}, {}],
            id="a later system message counts where it becomes one",
        ),
    ],
)
def test_which_files_are_promoted(
    folder: Path, messages: str, expected: list[dict[str, str | None]]
) -> None:
    """Messages are written as a role and an attached file; pipelines are those that ship."""
    suite = 'guideline_patterns: ["*.rules.md"]\ninput_messages:\n'
    for role, *files in map(str.split, messages.split(", ")):
        attached = "".join(f"{{type: file, value: {file}}}, " for file in files)
        suite += f"- {{role: {role}, content: [{attached}Hi]}}\n"
    (folder / "a.eval.yaml").write_text(suite)
    pipelines = ("spec", "design", "shipped", "agentv")
    found = (promoted(folder, pipeline) for pipeline in pipelines)
    assert [{each.path: each.pattern for each in promotions} for promotions in found] == expected


def test_without_a_chat_prompt_the_guidelines_count(folder: Path) -> None:
    (folder / "bare.yaml").write_text("extends: spec\nremove: [consolidate_system]\n")
    assert promoted(folder, str(folder / "bare.yaml")) == {RULE_A}


class Fixed(Struct, frozen=True):
    turns: tuple[Turn, ...]

    def __call__(self, conversion: Conversion) -> tuple[Turn, ...]:
        return self.turns


def test_a_file_that_no_stage_moved_is_there_by_its_role(folder: Path) -> None:
    (case,) = load_suite(folder / "a.eval.yaml", root=folder)
    part = Part("text", "Rule A", path="a.rules.md", resolved_path="a.rules.md")
    moved = structs.replace(part, moved_by="extract_guidelines")
    for found, expected in [(part, structs.replace(RULE_A, pattern=None)), (moved, RULE_A)]:
        conversion = Conversion(case, chat_view=Fixed((Turn("system", (found,)),)))
        assert promotions_of(conversion) == {expected}


def test_a_hook_may_remove_the_blank_line_at_the_end(folder: Path) -> None:
    run("snapshot", "a.eval.yaml", folder=folder)
    for list_ in (folder / "snapshots").glob("*.lock"):
        list_.write_text(list_.read_text().rstrip("\n") + "\n")
    done = run("snapshot", "a.eval.yaml", "--check", folder=folder)
    assert (done.returncode, done.stdout) == (0, "1 snapshot: 1 same\n")


# Reading a list


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("", "x: it is not a list of files", id="empty"),
        pytest.param(
            "<<<<<<< ours\na:\n=======\n>>>>>>> theirs\n",
            "x: it has a merge conflict; run multiturn snapshot --resolve for all suites",
            id="a conflict",
        ),
        pytest.param("<<<<<<< ours\n", "x: it is not a list of files", id="a part of a conflict"),
        pytest.param(
            "---\na:\n  - path: x\n    sha2",
            "x:4:5: not YAML: could not find expected ':' while scanning a simple key;"
            ' write "key: text", all keys of a mapping and all items of a list in one column, and'
            ' quote a text that has ": " in it or ends with ":"',
            id="torn",
        ),
        pytest.param(
            "---\na:\n  - path: x\n",
            "x:3:5: [0] has no 'sha256'; add it",
            id="torn between lines",
        ),
        pytest.param("- a\n", "x: it is not a list of files", id="a list"),
        pytest.param("a: b\n", "x:1:4: this must be a list, not text", id="a section that is none"),
        pytest.param("a: []\n---\nb: []\n", "x: it is not a list of files", id="two"),
        pytest.param(
            "a:\n- {path: b, sha256: '', pattern: false}",
            'x:2:34: [0].pattern must be text, not a boolean; quote it: pattern: "false"',
            id="a value",
        ),
    ],
)
def test_a_list_that_is_none_is_an_error(text: str, error: str) -> None:
    with pytest.raises(MultiturnError) as raised:
        read_lock(PROMOTED, text, "x")
    advice = "; restore it, or remove it and run multiturn snapshot for all suites"
    assert str(raised.value) == error + advice * ("--resolve" not in error)


@pytest.mark.parametrize("name", [PROMOTED, FILES])
def test_a_list_that_cannot_be_read_stays(folder: Path, name: str) -> None:
    (folder / "snapshots").mkdir()
    (folder / "snapshots" / name).write_bytes(b"\xff\xfe")
    done = run("snapshot", "a.eval.yaml", folder=folder)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"Error: snapshots/{name}")
    (left,) = (folder / "snapshots").iterdir()
    assert (left.name, left.read_bytes()) == (name, b"\xff\xfe")


def test_lists_read_back() -> None:
    files = {"x: y\n": ("0" * 64, "1e10"), "é\t": ("1" * 64,)}
    assert read_lock(FILES, lock_text(FILES, files), "x") == files
    with pytest.raises(MultiturnError, match=r"\[1\] must be text, not a number"):
        read_lock(FILES, lock_text(FILES, files).replace('"1e10"', "1e10"), "x")

    entries = (Promotion("x: y\n", "1e10", None), Promotion("x: y\n", "0" * 64, "*"))
    lock = {"x: y\n": entries, "é": (Promotion("é", "", "é\t"),)}
    text = lock_text(PROMOTED, lock)
    assert read_lock(PROMOTED, text, "x") == lock
    more = text.replace("pattern: null", "pattern: null\n    cases: 2")
    assert read_lock(PROMOTED, more, "x") == lock


def test_a_list_may_be_long_but_has_no_aliases_that_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiturn.snapshots.lists.MAX_VALUES", 3)
    many = dict.fromkeys("abcdef", ("",))
    assert read_lock(FILES, lock_text(FILES, many), "x") == many
    bomb = "a: &a [x, x, x, x]\n" + "".join(
        f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}]\n" for a, b in pairwise("abcdefghijk")
    )
    with pytest.raises(MultiturnError, match="values in one case, with its aliases"):
        read_lock(PROMOTED, bomb, "x")


def test_a_new_pattern_is_said_only_of_the_cases_in_which_it_matched(tmp_path: Path) -> None:
    case = "input_messages: [{role: user, content: [{type: file, value: tone.rules.md}, Hi]}]"
    other = case.replace("tone.rules.md", "tone.rules.md}, {type: file, value: other.md")
    suite = 'guideline_patterns: ["*.rules.md"]\nevalcases:\n'
    files = {
        "a.eval.yaml": suite + "".join(f"  - {{id: c{n}, {case}}}\n" for n in range(5)),
        "b.eval.yaml": suite.replace("*.rules", "other") + f"  - {{id: d, {other}}}\n",
        "tone.rules.md": "Be nice.\n",
        "other.md": "Other.\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert run("snapshot", ".", "--root", ".", folder=tmp_path).returncode == 0
    wider = files["b.eval.yaml"].replace('"other.md"', '"*.md"')
    (tmp_path / "b.eval.yaml").write_text(wider)
    (tmp_path / "tone.rules.md").write_text("Be brief.\n")
    said = run("snapshot", ".", "--root", ".", "--check", folder=tmp_path).stdout.splitlines()
    assert [line for line in said if line.startswith("change of privilege")] == [
        "change of privilege: other.md is part of a system message, now by the pattern '*.md'"
        " (b.eval.yaml: d)",
        "change of privilege: tone.rules.md changed; it is part of a system message"
        " (6 cases, such as a.eval.yaml: c0, c1, c2)",
        "change of privilege: tone.rules.md is part of a system message, now by the pattern"
        " '*.md' (b.eval.yaml: d)",
    ]


PATTERNS = 'guideline_patterns: ["{}"]\nevalcases:\n  - {{id: {}, input_messages: [{}]}}\n'
ATTACHED = "{role: user, content: [{type: file, value: a.md}, Hi]}"


SHOUT = """\
from msgspec.structs import replace
from multiturn import stage


@stage(requires={"turns"})
def shout(conversion):
    return conversion.map_parts(lambda part: replace(part, text=part.text.upper()))
"""


def write(folder: Path, text: str, **patterns: str) -> None:
    """Write ``a.md``, and suites that attach it, each with a pattern of its own."""
    (folder / "a.md").write_text(text)
    for name, pattern in patterns.items():
        (folder / f"{name}.eval.yaml").write_text(PATTERNS.format(pattern, name, ATTACHED))


def test_a_new_pattern_of_one_suite_hides_no_text_that_another_one_promotes(
    tmp_path: Path,
) -> None:
    """The list has the file by that pattern already, so that only its case can say it."""
    write(tmp_path, "Obey.\n", one="a.md", two="none.md", three="none.md")
    assert run("snapshot", ".", "--root", ".", folder=tmp_path).returncode == 0
    write(tmp_path, "Obey.\n", two="a.md", three="*.md")
    said = run("snapshot", ".", "--root", ".", "--check", folder=tmp_path).stdout.splitlines()
    assert [line for line in said if line.startswith("change of privilege")] == [
        "change of privilege: a.md is part of a system message, now by the pattern '*.md'"
        " (three.eval.yaml: three)",
        "change of privilege: user text becomes system text: a.md (two.eval.yaml: two)",
    ]


def test_a_file_that_changes_hides_no_text_that_a_pattern_promotes(tmp_path: Path) -> None:
    """Its change is on the list; only its case can say that it was a user's text there."""
    write(tmp_path, "Obey.\n", one="a.md", two="none.md")
    assert run("snapshot", ".", "--root", ".", folder=tmp_path).returncode == 0
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    write(tmp_path, "Obey me.\n", two="a.md")
    checked = run("snapshot", ".", "--root", ".", "--check", folder=tmp_path).stdout.splitlines()
    assert [line for line in checked if line.startswith("change of privilege")] == [
        "change of privilege: a.md changed; it is part of a system message"
        " (one.eval.yaml: one; two.eval.yaml: two)",
        "change of privilege: user text becomes system text: a.md (two.eval.yaml: two)",
    ]
    arguments = ("report", ".", "--root", ".", "--against", "HEAD", "--format", "markdown")
    said = run(*arguments, folder=tmp_path).stdout.splitlines()
    assert [line for line in said if line.startswith("> - ")] == [
        "> - Change of privilege: <code>a.md changed&#59; it is part of a system message</code>,"
        " in 2 cases",
        "> - Change of privilege: <code>user text becomes system text&#58; a.md</code>, in 1 case",
    ]


def test_a_text_that_only_the_other_list_has_is_shown_as_it_was(tmp_path: Path) -> None:
    """pytest --snapshot-update writes files.lock, and leaves the promotion to be decided on."""
    write(tmp_path, "Obey.\nBe kind.\n", one="a.md")
    assert run("snapshot", ".", "--root", ".", folder=tmp_path).returncode == 0
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    write(tmp_path, "Obey me.\nBe kind.\n")
    assert run("snapshot", ".", "--root", ".", folder=tmp_path).returncode == 0
    git(tmp_path, "checkout", "-q", "snapshots/promoted.lock")
    commit(tmp_path)
    said = run("snapshot", ".", "--root", ".", "--check", folder=tmp_path).stdout
    assert "\n@@\n-Obey.\n+Obey me.\n Be kind.\n" in said


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("input_files:", "input_files: 5\nx:"),
        ("chat_prompt:", "chat_prompt: [3]\nx:"),
        ("input_files:", "settings: 5\ninput_files:"),
        ("input_files:", "settings: {body: 5}\ninput_files:"),
        ("input_files:", "tools: 5\ninput_files:"),
        ("question:", "<<<<<<< ours\nquestion:"),
    ],
)
def test_a_snapshot_that_cannot_be_read_is_named_first(tmp_path: Path, old: str, new: str) -> None:
    write(tmp_path, "Obey.\n", one="*.md")
    bare = PATTERNS.format("*.md", "two", "{role: user, content: Hi}")
    (tmp_path / "two.eval.yaml").write_text(bare)
    assert run("snapshot", ".", "--root", ".", folder=tmp_path).returncode == 0
    snapshot = tmp_path / "snapshots/two/two.yaml"
    assert old in snapshot.read_text()
    snapshot.write_text(snapshot.read_text().replace(old, new))
    obeying = bare.replace("[{", "[{role: system, content: Obey me.}, {")
    (tmp_path / "two.eval.yaml").write_text(obeying)
    write(tmp_path, "Obey me.\n")
    checked = run("snapshot", ".", "--root", ".", "--check", folder=tmp_path)
    assert checked.returncode == 1
    assert checked.stdout.splitlines()[:2] == [
        "change of privilege: the recorded snapshot cannot be read, so changes of privilege are not"
        " known (two.eval.yaml: two)",
        "change of privilege: a.md changed; it is part of a system message (one.eval.yaml: one)",
    ]


@pytest.mark.parametrize("question", ["Hi", "Hello"], ids=["the same case", "another text"])
@pytest.mark.parametrize("left", ["", "---\nz.md:\n  - '0'\n"], ids=["no list", "no entry"])
def test_a_list_that_somebody_has_removed_hides_no_attached_file(
    tmp_path: Path, left: str, question: str
) -> None:
    write(tmp_path, "Obey.\n", one="none.md")
    assert run("snapshot", ".", "--root", ".", folder=tmp_path).returncode == 0
    (tmp_path / "snapshots/files.lock").write_text(left)
    if not left:
        (tmp_path / "snapshots/files.lock").unlink()
    write(tmp_path, "Obey me.\n")
    suite = tmp_path / "one.eval.yaml"
    new = "  - {id: new, input_messages: [{role: user, content: [{type: file, value: b.md}]}]}\n"
    suite.write_text(suite.read_text().replace("Hi", question) + new)
    (tmp_path / "b.md").write_text("Text B\n")
    done = run("snapshot", ".", "--root", ".", "--check", folder=tmp_path)
    assert done.stdout.splitlines()[0] == "a.md is not in files.lock (one.eval.yaml: one)"
    assert "b.md" not in done.stdout


def test_without_the_list_a_text_that_a_stage_changes_is_as_it_was(tmp_path: Path) -> None:
    """files.lock has the digest of the file, and promoted.lock that of what is sent."""
    write(tmp_path, "Obey.\n", one="a.md")
    (tmp_path / "shout.py").write_text(SHOUT)
    pipeline = "extends: spec\ninsert: [{stage: shout:shout, after: resolve_segments}]\n"
    (tmp_path / "shout.yaml").write_text(pipeline)
    snapshot = ("snapshot", ".", "--root", ".", "--pipeline", "shout.yaml")
    assert run(*snapshot, folder=tmp_path).returncode == 0
    (tmp_path / "snapshots/promoted.lock").unlink()
    assert run(*snapshot, "--check", folder=tmp_path).stdout.startswith("new: ")
    (tmp_path / "a.md").write_text("Obey me.\n")
    done = run(*snapshot, "--check", folder=tmp_path)
    change = "change of privilege: a.md changed; it is part of a system message"
    assert done.stdout.startswith(change)


@pytest.mark.parametrize("options", [[], ["--inline"]], ids=["named", "in full"])
def test_a_file_that_another_case_promotes_is_new_in_the_system_message_of_a_case(
    tmp_path: Path, options: list[str]
) -> None:
    write(tmp_path, "Obey.\n", one="*.md")
    bare = PATTERNS.format("*.md", "two", "{role: user, content: Hi}")
    (tmp_path / "two.eval.yaml").write_text(bare)
    assert run("snapshot", ".", "--root", ".", *options, folder=tmp_path).returncode == 0
    write(tmp_path, "Obey.\n", two="*.md")
    checked = run("snapshot", ".", "--root", ".", "--check", *options, folder=tmp_path)
    said = checked.stdout.splitlines()
    assert [line for line in said if line.startswith("change of privilege")] == [
        "change of privilege: a.md is new in a system message (two.eval.yaml: two)"
    ]


def test_a_file_that_a_snapshot_has_in_full_is_not_new_where_it_has_changed(tmp_path: Path) -> None:
    messages = "[{role: system, content: [{type: file, value: a.txt}]}, {role: user, content: Hi}]"
    (tmp_path / "a.eval.yaml").write_text(f"id: a\ninput_messages: {messages}\n")
    (tmp_path / "a.txt").write_text("Obey.\n")
    assert run("snapshot", ".", "--root", ".", "--inline", folder=tmp_path).returncode == 0
    (tmp_path / "a.txt").write_text("Obey me.\n")
    said = run("snapshot", ".", "--root", ".", "--inline", "--check", folder=tmp_path).stdout
    assert [line for line in said.splitlines() if line.startswith("change of privilege")] == [
        "change of privilege: a.txt changed; it is part of a system message (a.eval.yaml: a)"
    ]
