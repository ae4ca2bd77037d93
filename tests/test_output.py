"""Output: written whole or not at all, and safe to read by machines, by diffs and on terminals."""

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
import yaml

from multiturn import ChatMessage, InputFile, Notice, Place, ProviderRequest
from multiturn.cli.rendering import to_text
from multiturn.documents.output import open_new, open_output
from multiturn.documents.yaml_reader import read_documents
from multiturn.explaining.record import Record, record_of, to_json, to_yaml
from multiturn.text import visible

# Whole or not at all


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "out.jsonl"
    path.write_bytes(b"old\n")
    return path


def write(path: Path | str, content: bytes) -> None:
    with open_output(str(path)) as file:
        file.write(content)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_file_takes_its_name_only_at_the_end(target: Path) -> None:
    with open_output(str(target)) as file:
        file.write(b"new" * 100_000)
        file.flush()
        assert target.read_bytes() == b"old\n"
        (partial,) = set(target.parent.iterdir()) - {target}
        assert mode(partial) & 0o077 == 0, "others may not read more than before"
    assert target.read_bytes() == b"new" * 100_000
    assert os.listdir(target.parent) == ["out.jsonl"]


@pytest.mark.parametrize("mishap", [ValueError, KeyboardInterrupt, BrokenPipeError])
@pytest.mark.parametrize("before", [["out.jsonl"], []])
def test_a_mishap_leaves_what_was_there_and_nothing_else(
    target: Path, mishap: type[BaseException], before: list[str]
) -> None:
    if not before:
        target.unlink()

    def fail() -> None:
        with open_output(str(target)) as file:
            file.write(b"new" * 100_000)
            raise mishap

    with pytest.raises(mishap):
        fail()
    assert os.listdir(target.parent) == before
    assert not before or target.read_bytes() == b"old\n"


def fill_the_disk(*_: str) -> None:
    raise OSError(28, "No space left on device")


def rename_and_interrupt(*paths: str) -> None:
    os.rename(*paths)
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("mishap", "error", "left"),
    [(fill_the_disk, OSError, b"old\n"), (rename_and_interrupt, KeyboardInterrupt, b"new\n")],
)
def test_a_mishap_at_the_end(
    target: Path,
    monkeypatch: pytest.MonkeyPatch,
    mishap: object,
    error: type[BaseException],
    left: bytes,
) -> None:
    monkeypatch.setattr(os, "replace", mishap)
    with pytest.raises(error):
        write(target, b"new\n")
    assert target.read_bytes() == left
    assert os.listdir(target.parent) == ["out.jsonl"]


KILLED = """
import os, sys
from multiturn.documents.output import open_new, open_output
with open_output(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    if sys.argv[2] == "killed":
        os.kill(os.getpid(), 9)
    sys.stdin.read()
"""


def writer(target: Path, end: str) -> "subprocess.Popen[bytes]":
    """Start a process that writes a file until its input ends, or until it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(target), end],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"writing\n"
    return process


def test_what_a_killed_writer_has_left_is_removed_by_the_next(target: Path) -> None:
    before = set(target.parent.iterdir())
    others = [target.with_name(f".{target.name}.{name}") for name in ("original", "bak")]
    for other in others:
        other.write_text("mine")
    writer(target, "killed").communicate()
    assert len(set(target.parent.iterdir()) - before) == 3
    with open_output(str(target)) as file:
        file.write(b"new")
    assert set(target.parent.iterdir()) == {*before, *others}


def test_what_a_killed_writer_has_left_in_the_current_folder_is_removed_by_a_new_file(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(target.parent)
    writer(target, "killed").communicate()
    target.unlink()
    with open_new(target.name) as file:
        file.write(b"new")
    assert list(target.parent.iterdir()) == [target]


def test_what_another_process_is_writing_stays(target: Path) -> None:
    process = writer(target, "waits")
    with open_output(str(target)) as file:
        file.write(b"ours")
    assert target.read_bytes() == b"ours"
    process.communicate(b"")
    assert (process.returncode, target.read_bytes()) == (0, b"half")


def test_permissions_are_kept_or_those_of_any_new_file(target: Path) -> None:
    for kept in (0o600, 0o664, 0o755, 0o400):
        target.chmod(kept)
        write(target, b"new")
        assert mode(target) == kept
    before = os.umask(0o027)
    try:
        write(target.with_name("new"), b"new")
    finally:
        os.umask(before)
    assert mode(target.with_name("new")) == 0o640


@pytest.mark.parametrize("name", ["out.jsonl", "new"])
def test_a_link_stays_and_its_file_is_written(target: Path, name: str) -> None:
    folder = target.parent / "links"
    folder.mkdir()
    (folder / "link").symlink_to(f"../{name}")
    write(folder / "link", b"new")
    assert target.with_name(name).read_bytes() == b"new"
    assert (folder / "link").is_symlink()
    assert os.listdir(folder) == ["link"]


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe, received = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write(pipe, b"one\ntwo\n")
    reader.join(5)
    assert received == [b"one\ntwo\n"]
    assert pipe.is_fifo()


def test_nothing_named_is_standard_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with open_output(None) as file:
        file.write("é\n".encode())
    print("still open", flush=True)
    assert capfdbinary.readouterr().out == b"\xc3\xa9\nstill open\n"


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127, "a b'\"$.json", ".out"])
def test_a_name_may_be_long_or_odd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(name, b"new")
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("no/out", id="a folder that there is not"),
        pytest.param("file/out", id="a folder that is a file"),
        pytest.param("", id="a folder"),
    ],
)
def test_a_place_that_cannot_be_written_to_is_an_os_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(OSError, match=r"\[Errno \d+\] "):
        write(f"{tmp_path}/{name}", b"new")
    assert os.listdir(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


# Rendering

ODD_TEXTS = [
    *("", " ", "\n", "\n\n", " \n ", "\t", "a\n", "a\n\n", "\na", " a", "a ", "a \nb", "a\tb\n\tc"),
    *("a\nb\n", "a\nb\n\n", "a\nb\n\n\n", "\n\na\nb", "  a\nb\n", "a\n\n b \n"),
    *("=", "yes", "No", "on", "y", "n", "null", "~", "true", "12:30", "010", "1_000", "0x1F"),
    *("2024-01-01", "<<", "---", "...", "- a", "? a", "a: b", "a:", "#a", "a #b", "&a", "*a", "!a"),
    *("|", ">", "%a", "@a", "`a`", "'", '"', "{}", "[]", ",", "a\\nb", "\\", "--- a\n...\nb\n"),
    *("\r", "a\r\nb", "\x00", "\x1b[31m", "\x7f", "\x85", "\x9b", "\u2028", "\u2029", "a\u2028\nb"),
    *("\ufeff", "\ufeffa\nb", "\uffff", "\ufffe", "é漢😀", "\u202e", "\xa0a\xa0", "a" * 5_000),
]


def record(text: str, **metadata: Any) -> Record:
    """Return a record that has a text in every place."""
    return record_of(
        ProviderRequest(
            suite=text,
            question=text,
            guidelines=(text, text),
            chat_prompt=(ChatMessage("system", text), ChatMessage("user", text)),
            input_files=(InputFile(text, text),),
            metadata={"key": text, **metadata},
            eval_id=text,
        )
    )


@pytest.mark.parametrize("text", [*ODD_TEXTS, "k" * 2000], ids=lambda text: ascii(text[:12]))
def test_odd_text_reads_back_from_json_and_from_yaml_1_1_and_1_2(text: str) -> None:
    odd = record(text, **{text: [text, {text: text}], "n": 1, "y": None, "f": 1.5})
    meant, line, document = msgspec.to_builtins(odd), to_json(odd), to_yaml(odd)
    meant = json.loads(json.dumps(meant))  # tuples are lists
    assert (line.count(b"\n"), line[-1:], line.count(b"\r")) == (1, b"\n", 0)
    assert json.loads(line) == meant
    assert len(text) > 1000 or yaml.safe_load(document) == meant  # PyYAML reads no key of that
    nodes = read_documents((document + document).decode(), "x")
    assert [node.value for node in nodes] == [meant, meant]


def test_a_missing_chat_prompt_is_null() -> None:
    rendered = record_of(ProviderRequest(question="Hi", eval_id="y"))
    assert [*rendered][-3:] == ["guidelines", "input_files", "metadata"], "the rest says nothing"
    assert json.loads(to_json(rendered))["chat_prompt"] is None
    assert yaml.safe_load(to_yaml(rendered))["chat_prompt"] is None
    text = click.unstyle(to_text(rendered).decode())
    assert "no chat prompt; system message and question:\nuser\n  Hi\n" in text


def test_a_record_has_what_was_noticed() -> None:
    notice = Notice("turn.dropped", Place("s.yaml", 8, label="case 'x'"), "it is left out")
    rendered = record_of(ProviderRequest(question="Hi", eval_id="x"), [notice])
    said = {"event": "turn.dropped", "where": "s.yaml:8: case 'x'", "why": "it is left out"}
    assert rendered["notices"] == [said]


# On a terminal


def test_no_control_character_reaches_a_terminal_raw() -> None:
    assert visible("a\tb\nc é😀") == "a\tb\nc é😀"
    for code in (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0)):
        raw = f"<{chr(code)}>"
        text = to_text(record(raw, **{raw: raw})).decode()
        assert ("<\\r>" if code == 0x0D else f"<\\x{code:02x}>") in text
        assert raw not in text


def test_neither_a_message_nor_an_id_can_pass_for_a_role() -> None:
    """What the suite wrote is indented below the role, which the program wrote."""
    forged = "x\nassistant\ny"
    messages = (ChatMessage("user", forged), ChatMessage("user", "assistant"))
    request = ProviderRequest(question="x", chat_prompt=messages, eval_id=forged, suite=forged)
    lines = click.unstyle(to_text(record_of(request)).decode()).split("\n")
    assert (lines.count("user"), lines.count("assistant")) == (2, 0)
