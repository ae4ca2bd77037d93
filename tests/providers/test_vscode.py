"""VS Code: what its chat is given, and how its answer is waited for."""

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import standins
from multiturn.model import InputFile, ProviderRequest
from multiturn.providers.base import ProviderError
from multiturn.providers.command import _open_at_once
from standins import agent, ask, left

FILES = (
    InputFile("src/a.py", "src/a.py", False, "print(1)"),
    InputFile("rules.md", "rules.md", True, "Be brief."),
)
Write = Callable[[Path], object]


def replace_chat(monkeypatch: pytest.MonkeyPatch, write: Write) -> list[Any]:
    """Write the answer in place of the chat, and return what it is given, with the files' texts."""
    calls = []

    async def run(command: tuple[str, ...], *, answer: Path, **given: Any) -> None:
        added = [path for word, path in pairwise(command) if word == "--add-file"]
        calls.append((command[1:], {path: Path(path).read_text() for path in added}))
        write(answer)

    monkeypatch.setattr("multiturn.providers.agent.run_command", run)
    return calls


def test_the_chat_gets_the_prompt_as_a_file_and_the_input_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = replace_chat(monkeypatch, lambda answer: answer.touch())
    question = "-rf " * 100_000
    ask(agent("vscode", tmp_path, args=("--new-window",)), question, input_files=FILES)
    ((command, files),) = calls
    assert command[:4] == ("chat", "--mode", "agent", "--new-window")
    (prompt, text), *others = files.items()
    assert prompt.endswith("/prompt.md")
    assert text.startswith(question)
    assert [text for _, text in others] == ["print(1)", "Be brief."]
    folder = Path(prompt).parent
    assert folder.parent == tmp_path / "work"
    for path, _ in others:
        assert f"\n- {Path(path).relative_to(folder.parent)}\n" in text
    assert command[-1] == f"Follow the instructions in {folder.name}/prompt.md."
    assert f"to the file {folder.name}/response.tmp.md." in text
    assert text.endswith(f"rename that file to {folder.name}/response.md.\n")


def test_git_sees_nothing_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def write(answer: Path) -> None:
        seen.append((answer.parent / ".gitignore").read_text())
        answer.touch()

    replace_chat(monkeypatch, write)
    ask(agent("vscode", tmp_path))
    assert (seen, left(tmp_path)) == (["*\n"], [])


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param(b"", "", id="nothing"),
        pytest.param(b"a\n\n", "a\n\n", id="line ends at the end"),
        pytest.param("Grüße 👍".encode(), "Grüße 👍", id="Unicode"),
        pytest.param(b"x" * 2_000_000, "x" * 2_000_000, id="a long answer"),
        pytest.param(b"a\xffb", "a\ufffdb", id="a byte that is no character"),
    ],
)
def test_an_answer_may_be_any_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, text: str
) -> None:
    replace_chat(monkeypatch, lambda answer: answer.write_bytes(data))
    assert ask(agent("vscode", tmp_path)).text == text


def write_a_terabyte(path: Path) -> None:
    with path.open("w") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize(
    ("write", "words"),
    [
        pytest.param(os.mkfifo, "not a regular file", id="a pipe that nobody writes to"),
        pytest.param(
            lambda path: path.symlink_to("/dev/zero"), "not a regular file", id="an endless link"
        ),
        pytest.param(lambda path: path.symlink_to("prompt.md"), "not a regular file", id="a link"),
        pytest.param(
            lambda path: path.symlink_to("nowhere"), "not a regular file", id="a broken link"
        ),
        pytest.param(os.mkdir, "not a regular file", id="a folder"),
        pytest.param(write_a_terabyte, "larger than 16 MiB", id="a terabyte"),
    ],
)
def test_an_answer_that_is_no_file_hangs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Write, words: str
) -> None:
    replace_chat(monkeypatch, write)
    with pytest.raises(ProviderError, match=rf"^the agent's response.md is {words}$") as caught:
        ask(agent("vscode", tmp_path))
    assert caught.value.kind == "malformed"


def test_an_answer_that_is_replaced_before_it_is_opened_hangs_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    os.close(_open_at_once(str(tmp_path / "pipe"), os.O_RDONLY))
    (tmp_path / "link").symlink_to("/dev/zero")
    with pytest.raises(OSError, match="symbolic links"):
        _open_at_once(str(tmp_path / "link"), os.O_RDONLY)


def test_an_answer_of_a_command_that_does_not_return_is_read(tmp_path: Path) -> None:
    with standins.witness(tmp_path) as witness:
        file = tmp_path / "heard"
        staying = standins.VSCODE.replace("os.fork()", "os.fork() == 0")
        staying = staying.replace("sys.exit()", f"stay({witness.path!r})")
        # The answer comes when the other process is there for sure, and it takes a while.
        staying = staying.replace("with open", f"wait_for({str(file)!r})\nwith open")
        provider = agent("vscode", tmp_path, staying.replace("0.02", "0.3"))
        work = standins.invoked(provider, ProviderRequest(question="Hi there, and more"))
        answer = standins.until(witness.tell(file), work)
    assert answer.text.startswith("Hi there, and more")


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("sys.exit(0)", id="no answer"),
        pytest.param(standins.VSCODE.replace("os.rename(half, whole)", ""), id="half an answer"),
    ],
)
def test_a_window_that_never_answers_is_a_time_out(tmp_path: Path, program: str) -> None:
    with pytest.raises(ProviderError) as caught:
        ask(agent("vscode", tmp_path, program, timeout_seconds=0.4))
    assert caught.value.kind == "timeout"
    assert "0.4" in caught.value.what


def test_what_one_run_has_answered_is_not_the_answer_of_the_next(tmp_path: Path) -> None:
    provider = agent("vscode", tmp_path)
    answers = [ask(provider, question).text for question in ("One", "Two")]
    assert [answer[:3] for answer in answers] == ["One", "Two"]
