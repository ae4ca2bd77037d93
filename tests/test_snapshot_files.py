"""The files of snapshots: what is in one, its name, and that no link leads out of their folder."""

import hashlib
import os
import re
import unicodedata
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from layout import laid_out
from multiturn import Conversion, MultiturnError, load_suite, stage
from multiturn.documents.dump import dump
from multiturn.documents.yaml_reader import read_documents
from multiturn.explaining.spans import Span, joined_text
from multiturn.snapshots.folder import SnapshotFolder
from multiturn.snapshots.locations import folder_of, location_of
from multiturn.snapshots.reviewed_case import reviewed_case
from multiturn.snapshots.snapshot_file import (
    RecordedSnapshot,
    _content,
    plain_text,
    read_snapshot,
    snapshot_text,
)

# What is in one

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
    spans: list[Span] = []
    for is_file, words, separator in given_parts:
        spans += [Span(separator, "", stage="")] if separator and spans else []
        spans.append(Span(text + newlines, "", path) if is_file else Span(words, ""))
    (node,) = read_documents(dump({"content": _content(tuple(spans), {path: text})}), "")
    read = node.value["content"]
    pieces = [read] if isinstance(read, str) else read
    shown = (p if isinstance(p, str) else p.get("after", "") + text for p in pieces)
    assert "\n".join(shown) == joined_text(tuple(spans))


@stage(requires={"turns"})
def hide_digits(conversion: Conversion) -> Conversion:
    """Replace each digit."""
    return conversion.map_parts(lambda part: replace(part, text=re.sub(r"\d", "#", part.text)))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("Hello\n", id="a text"),
        pytest.param("suite: [\n", id="what is no YAML"),
        pytest.param("- 1\n", id="a list"),
        pytest.param("suite: a\ninput_files: 3\nchat_prompt: 4\n", id="other types"),
        pytest.param("suite: a\ninput_files: [{}]\nchat_prompt: [{}]\n", id="other keys"),
    ],
)
def test_a_snapshot_that_somebody_has_broken_has_no_messages_and_no_files(text: str) -> None:
    assert read_snapshot(text) == RecordedSnapshot()


def test_a_content_that_somebody_has_broken_is_compared_as_it_is_written() -> None:
    text = "chat_prompt:\n  - {role: user, content: [[Hi]]}\nquestion: Hi\n"
    assert plain_text(text) == text


def test_only_the_whole_unchanged_text_of_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("Be brief.\n")
    (tmp_path / "b.md").write_text("Secret 7\n")
    suite = tmp_path / "x.eval.yaml"
    suite.write_text(
        "guideline_patterns: [a.md]\nid: one\ninput_messages:\n"
        "- {role: user, content: ['Be brief.', '- file: a.md', {type: file, value: a.md},"
        " {type: file, value: b.md}]}\n"
    )
    (case,) = load_suite(suite, root=tmp_path)
    pipeline = laid_out().insert(hide_digits, before="embed_files")
    conversion = pipeline(Conversion(case))
    (node,) = read_documents(snapshot_text(reviewed_case(conversion)), "")
    system, user = node.value["chat_prompt"]
    assert system["content"] == ["[[ ## Guidelines ## ]]\n", {"file": "a.md"}]
    assert user["content"] == "Be brief.\n- file: a.md\n<Attached: a.md>\n=== b.md ===\nSecret #"
    digest = hashlib.sha256(b"Secret #").hexdigest()
    assert [file.get("sha256") for file in node.value["input_files"]] == [None, digest]


# Names; more are in the docstrings of location_of and folder_of

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
        ("after 30 days", "after 30 days"),
        ("v1.2_final", "v1.2_final"),
        ("..", "%2E%2E"),
        ("cafe\u0301", "cafe%CC%81"),
        ("nul", "%6Eul"),
        ("100%", "100%25"),
        ("x" * 100, "x" * 100),
        ("x" * 300, f"{'x' * 100}~{hashlib.sha256(b'x' * 300).hexdigest()[:12]}"),
    ],
)
def test_a_name_reads_as_the_id(case_id: str, name: str) -> None:
    assert location_of("a.eval.yaml", case_id) == f"a/{name}.yaml"


def test_suites_that_differ_in_the_extension_have_folders_of_their_own() -> None:
    names = ["a", "a.yaml", "a.yml", "a.eval.yaml", "a.eval.yml", "a.jsonl", "a.eval.jsonl"]
    assert len({folder_of(name).casefold() for name in names}) == len(names)


def test_no_folder_has_the_place_of_a_file() -> None:
    for suite in ("evals/a/b.yaml", "evals/a/b.yaml/c.eval.yaml", "evals/a/b.yaml.eval.yaml"):
        assert not location_of(suite, "x").startswith("evals/a/b.yaml/")
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


@pytest.mark.parametrize("case_id", HOSTILE)
def test_a_hostile_id_is_written_and_found_again(tmp_path: Path, case_id: str) -> None:
    folder, name = SnapshotFolder(str(tmp_path / "snapshots")), location_of("a.eval.yaml", case_id)
    folder.write(name, dump({"suite": "a.eval.yaml", "id": case_id, "chat_prompt": None}))
    assert os.listdir(tmp_path) == ["snapshots"]
    assert list(folder.snapshots("a")) == [name]
    assert folder.case_of(name) == ("a.eval.yaml", case_id)
    folder.remove(name)
    assert os.listdir(tmp_path / "snapshots") == []


# Links, and what cannot be read or written


@pytest.mark.parametrize(
    ("link", "target"),
    [
        pytest.param("a", "outside", id="a folder"),
        pytest.param("a/b", "outside", id="a folder below"),
        pytest.param("a/b/c.yaml", "outside/c.yaml", id="a file"),
        pytest.param("a/b/c.yaml", "outside/new.yaml", id="a file that is not there"),
    ],
)
def test_no_link_leads_out_of_the_folder(tmp_path: Path, link: str, target: str) -> None:
    outside, name = tmp_path / "outside", "a/b/c.yaml"
    (outside / "b").mkdir(parents=True)
    for kept in ("c.yaml", "b/c.yaml"):
        (outside / kept).write_text("---\nsuite: a/b.eval.yaml\nid: c\nchat_prompt: null\n")
    place = tmp_path / "snapshots" / link
    place.parent.mkdir(parents=True)
    place.symlink_to(tmp_path / target)
    folder = SnapshotFolder(str(tmp_path / "snapshots"))
    before = {path for path in tmp_path.rglob("*") if path != place}
    assert link == "a" or list(folder.snapshots("a", below=True)) == []  # stale ones are removed
    refused = f"{name}: a symbolic link leads there; remove the link"
    with pytest.raises(MultiturnError, match=refused):
        folder.read(name)
    if not link.endswith(".yaml"):  # else the link is replaced, or removed
        with pytest.raises(MultiturnError, match=refused):
            folder.write(name, "new")
        with pytest.raises(MultiturnError, match=refused):
            folder.remove(name)
    assert {path for path in tmp_path.rglob("*") if path != place} == before
    assert "new" not in [path.read_text() for path in outside.rglob("*.yaml")]


@pytest.mark.parametrize("name", ["snapshots", "snapshots/"])
def test_a_folder_that_is_a_link_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "snapshots").symlink_to(".")
    with pytest.raises(MultiturnError) as raised:
        SnapshotFolder(name)
    assert str(raised.value) == (
        "snapshots: the folder of snapshots is a symbolic link; remove it, or name where it leads"
        " (snapshot_dirname=)"
    )


def test_a_folder_swapped_for_a_link_meanwhile_leads_no_write_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outside").mkdir()
    folder, inside = SnapshotFolder(str(tmp_path / "snapshots")), tmp_path / "snapshots/a"

    def swap(_: int) -> None:
        inside.rename(tmp_path / "moved")
        inside.symlink_to(tmp_path / "outside")

    monkeypatch.setattr(os, "fsync", swap)
    folder.write("a/b.yaml", "new")
    assert list((tmp_path / "outside").iterdir()) == []
    assert [path.name for path in (tmp_path / "moved").iterdir()] == ["b.yaml"]


def test_what_is_no_file_or_no_folder_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.yaml")
    with pytest.raises(MultiturnError, match=r"a\.yaml: this is not a regular file; move it away"):
        SnapshotFolder(str(tmp_path)).read("a.yaml")
    (tmp_path / "file").write_text("")
    with pytest.raises(MultiturnError, match=r"file/a\.yaml: cannot be written: File exists"):
        SnapshotFolder(str(tmp_path / "file")).write("a.yaml", "")


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
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b.yaml"]
    assert snapshots.read("a/b.yaml") == "old\n"
    if isinstance(error, OSError):
        assert str(raised.value).endswith("a/b.yaml: cannot be written: No space left on device")
