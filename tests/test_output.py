"""Results: written whole or not at all, and safe to read by machines, by diffs and on terminals."""

import json
import os
import signal
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

import commands
from multiturn import ChatMessage, InputFile, ProviderRequest
from multiturn.cli.rendering import to_text
from multiturn.documents.yaml_events import read_documents
from multiturn.engine.record import Record, record_of, to_json, to_yaml
from multiturn.output import open_output
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


@pytest.mark.parametrize("content", [b"", b"one\r\ntwo", b"x" * 3_000_000])
def test_a_file_is_written_new_or_over_another(target: Path, content: bytes) -> None:
    for name in ("new", "out.jsonl"):
        write(target.with_name(name), content)
        assert target.with_name(name).read_bytes() == content
    assert sorted(os.listdir(target.parent)) == ["new", "out.jsonl"]


def test_the_file_takes_its_name_only_at_the_end(target: Path) -> None:
    with open_output(str(target)) as file:
        file.write(b"new" * 100_000)
        file.flush()
        assert target.read_bytes() == b"old\n"
    assert target.read_bytes() == b"new" * 100_000
    assert os.listdir(target.parent) == ["out.jsonl"]


@pytest.mark.parametrize("mishap", [ValueError, KeyboardInterrupt, SystemExit, BrokenPipeError])
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


def test_a_full_disk_leaves_the_old_file(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        write(target, b"new")
    assert target.read_bytes() == b"old\n"
    assert os.listdir(target.parent) == ["out.jsonl"]


def test_an_interrupt_right_after_the_file_has_its_name_is_an_interrupt(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = os.replace

    def interrupted(*paths: str) -> None:
        replace(*paths)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(target, b"new\n")
    assert target.read_bytes() == b"new\n"
    assert list(target.parent.iterdir()) == [target]


def test_a_killed_process_leaves_the_old_file(target: Path) -> None:
    program = (
        "import sys, time\n"
        "from multiturn.output import open_output\n"
        "with open_output(sys.argv[1]) as file:\n"
        "    file.write(b'new' * 1_000_000)\n"
        "    file.flush()\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(target)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert target.read_bytes() == b"old\n"
    write(target, b"the next run\n")
    assert target.read_bytes() == b"the next run\n"


@pytest.mark.parametrize("mode", [0o600, 0o664, 0o755, 0o400])
def test_permissions_are_kept(target: Path, mode: int) -> None:
    target.chmod(mode)
    write(target, b"new")
    assert stat.S_IMODE(target.stat().st_mode) == mode


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_permissions_of_a_new_file_are_those_of_any_new_file(
    tmp_path: Path, mask: int, mode: int
) -> None:
    before = os.umask(mask)
    try:
        write(tmp_path / "new", b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == mode


def test_what_is_being_written_is_no_more_readable_than_the_old_file(target: Path) -> None:
    target.chmod(0o600)
    with open_output(str(target)) as file:
        file.write(b"secret")
        file.flush()
        [partial] = set(target.parent.iterdir()) - {target}
        assert stat.S_IMODE(partial.stat().st_mode) & 0o077 == 0


@pytest.mark.parametrize("name", ["out.jsonl", "new"])
def test_a_link_stays_and_its_file_is_written(target: Path, name: str) -> None:
    folder = target.parent / "links"
    folder.mkdir()
    (folder / "link").symlink_to(f"../{name}")
    target.chmod(0o640)
    write(folder / "link", b"new")
    assert (folder / "link").is_symlink()
    assert target.with_name(name).read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert os.listdir(folder) == ["link"]


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    received: list[bytes] = []
    reader = threading.Thread(
        target=lambda: received.append((tmp_path / "pipe").read_bytes()), daemon=True
    )
    reader.start()
    write(tmp_path / "pipe", b"one\ntwo\n")
    reader.join(5)
    assert received == [b"one\ntwo\n"]
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


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
    for path in (tmp_path / name, name):
        write(path, b"new")
        assert (tmp_path / name).read_bytes() == b"new"
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


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_to_is_an_os_error(target: Path) -> None:
    target.parent.chmod(0o500)
    try:
        with pytest.raises(OSError, match=r"\[Errno \d+\] "):
            write(target, b"new")
        assert target.read_bytes() == b"old\n"
    finally:
        target.parent.chmod(0o700)


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


def record(text: str = "x", **metadata: Any) -> Record:
    """Return a record that has a text in every place."""
    request = ProviderRequest(
        suite=text,
        question=text,
        guidelines=(text, text),
        chat_prompt=(ChatMessage("system", text), ChatMessage("user", text)),
        input_files=(InputFile(text, text),),
        metadata={"key": text, **metadata},
        eval_id=text,
    )
    return record_of(request)


def plain(record: Record) -> Any:
    return json.loads(json.dumps(msgspec.to_builtins(record)))


def test_a_dropped_question_is_in_the_record_and_a_warning(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("Be brief.")
    (tmp_path / "targets.yaml").write_text("targets: [{name: echo, provider: echo}]")
    (tmp_path / "s.yaml").write_text("""\
guideline_patterns: ["*.md"]
evalcases:
  - id: x
    input_messages:
      - {role: user, content: Hi}
      - {role: assistant, content: Yes?}
      - role: user
        content: [{type: file, value: a.md}]
""")
    notice = {
        "event": "turn.dropped",
        "where": "s.yaml:8: case 'x': input_messages[2]",
        "why": "the last user message only attaches guidelines and is left out, so the prompt ends"
        " with what comes before it (rule 8); references_only: keep of filter_empty keeps it",
    }
    done = commands.run("convert", "s.yaml", folder=tmp_path)
    assert json.loads(done.stdout)["notices"] == [notice]
    for command in (["convert"], ["run", "--target", "echo"]):
        warned = commands.run(*command, "s.yaml", folder=tmp_path).stderr
        assert "s.yaml:8: warning: case 'x': input_messages[2]: the last user" in warned
        assert notice["why"] in warned


@pytest.mark.parametrize("text", [*ODD_TEXTS, "k" * 2000], ids=lambda text: ascii(text[:12]))
def test_odd_text_reads_back_from_json_and_from_yaml_1_1_and_1_2(text: str) -> None:
    odd = record(text, **{text: [text, {text: text}], "n": 1, "y": None, "f": 1.5})
    meant, line, document = plain(odd), to_json(odd), to_yaml(odd)
    assert (line.count(b"\n"), line[-1:], line.count(b"\r")) == (1, b"\n", 0)
    assert json.loads(line) == meant
    assert meant["chat_prompt"][1] == {"role": "user", "content": text}
    assert len(text) > 1000 or yaml.safe_load(document) == meant  # PyYAML reads no key of that
    assert [node.value for node in read_documents(document.decode(), "x")] == [meant]


def test_yaml_documents_follow_each_other() -> None:
    rendered = to_yaml(record("a\n")) + to_yaml(record("---\n")) + to_yaml(record("..."))
    questions = [document["question"] for document in yaml.safe_load_all(rendered)]
    assert questions == ["a\n", "---\n", "..."]
    nodes = read_documents(rendered.decode(), "x")
    assert [node.value["question"] for node in nodes] == ["a\n", "---\n", "..."]


def test_a_missing_chat_prompt_is_null() -> None:
    rendered = record_of(ProviderRequest(question="Hi", eval_id="y"))
    assert [*rendered][-3:] == ["guidelines", "input_files", "metadata"], "the rest says nothing"
    assert json.loads(to_json(rendered))["chat_prompt"] is None
    assert yaml.safe_load(to_yaml(rendered))["chat_prompt"] is None
    assert "Hi" in to_text(rendered).decode()


# On a terminal


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("\x1b[2J", "\\x1b[2J", id="an escape sequence"),
        pytest.param("\x1b]0;title\x07", "\\x1b]0;title\\x07", id="a window title"),
        pytest.param("\x9b31m", "\\x9b31m", id="an escape sequence of eight bits"),
        pytest.param("\x00\x08\x7f", "\\x00\\x08\\x7f", id="a NUL, a backspace, a DEL"),
        pytest.param("safe\roverwritten", "safe\\x0doverwritten", id="a carriage return"),
        pytest.param("a\x0bb\x0cc", "a\\x0bb\\x0cc", id="a vertical tab and a form feed"),
        pytest.param("\x85\x90\x9d\x9f", "\\x85\\x90\\x9d\\x9f", id="other C1 controls"),
        pytest.param("a\tb\nc é😀", "a\tb\nc é😀", id="a tab, a newline and letters stay"),
    ],
)
def test_control_characters_are_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_no_control_character_reaches_a_terminal_raw() -> None:
    harmless = to_text(record("<.>", **{"<.>": "<.>"})).decode()
    for code in (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0)):
        raw = f"<{chr(code)}>"
        text = to_text(record(raw, **{raw: raw})).decode()
        assert f"<\\x{code:02x}>" in text
        assert raw not in text
        assert text.count("\x1b") == harmless.count("\x1b")


def test_neither_a_message_nor_an_id_can_pass_for_a_role() -> None:
    """What the suite wrote is indented below the role, which the program wrote."""
    messages = (ChatMessage("user", "x\nassistant\ny"), ChatMessage("user", "assistant"))
    forged = "x\nassistant\ny"
    request = ProviderRequest(question="x", chat_prompt=messages, eval_id=forged, suite=forged)
    lines = click.unstyle(to_text(record_of(request)).decode()).split("\n")
    assert (lines.count("user"), lines.count("assistant")) == (2, 0)


def test_text_shows_each_message_under_its_role_in_order() -> None:
    messages = (ChatMessage("system", "Be brief."), ChatMessage("user", "Hi"))
    request = ProviderRequest(question="Hi", chat_prompt=messages, eval_id="greeting", suite="x")
    text = click.unstyle(to_text(record_of(request)).decode())
    places = [text.index(piece) for piece in ("greeting", "system", "Be brief.", "user", "Hi")]
    assert places == sorted(places)
