"""VS Code: what its chat is given, and what is made of the file that it answers with."""

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from multiturn.errors import ProviderError
from multiturn.model.request import InputFile
from standins import agent, ask

FILES = (
    InputFile("src/a.py", "src/a.py", False, "print(1)"),
    InputFile("rules.md", "rules.md", True, "Be brief."),
)
Write = Callable[[Path], object]


class Chat:
    """A function in place of the chat, which writes an answer."""

    def __init__(self) -> None:
        self.write: Write = Path.touch
        self.words: tuple[str, ...] = ()
        self.added: dict[str, str] = {}  # the text of each file that was added

    async def run(self, command: tuple[str, ...], *, answer: Path, **given: Any) -> None:
        self.words = command[1:]
        paths = [path for word, path in pairwise(command) if word == "--add-file"]
        self.added = {path: Path(path).read_text() for path in paths}
        self.write(answer)


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Chat:
    chat = Chat()
    monkeypatch.setattr("multiturn.providers.agents.agent.run_command", chat.run)
    return chat


def test_the_chat_gets_the_prompt_as_a_file_and_the_input_files(chat: Chat, tmp_path: Path) -> None:
    question = "-rf " * 100_000
    ask(agent("vscode", tmp_path, args=("--new-window",)), question, input_files=FILES)
    assert chat.words[:4] == ("chat", "--mode", "agent", "--new-window")
    (prompt, text), *others = chat.added.items()
    assert prompt.endswith("/prompt.md")
    assert text.startswith(question)
    assert [text for _, text in others] == ["print(1)", "Be brief."]
    folder = Path(prompt).parent
    assert folder.parent == tmp_path / "work"
    for path, _ in others:
        assert f"\n- {Path(path).relative_to(folder.parent)}\n" in text
    assert chat.words[-1] == f"Follow the instructions in {folder.name}/prompt.md."
    assert f"to the file {folder.name}/response.tmp.md." in text
    assert text.endswith(f"rename that file to {folder.name}/response.md.\n")


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
def test_an_answer_may_be_any_text(chat: Chat, tmp_path: Path, data: bytes, text: str) -> None:
    chat.write = lambda answer: answer.write_bytes(data)
    assert ask(agent("vscode", tmp_path)).text == text


def link(to: str) -> Write:
    return lambda path: path.symlink_to(to)


def write_a_terabyte(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


@pytest.mark.parametrize(
    ("write", "words"),
    [
        pytest.param(os.mkfifo, "is not a regular file", id="a pipe that nobody writes to"),
        pytest.param(link("/dev/zero"), "cannot be read: Too many", id="an endless link"),
        pytest.param(link("prompt.md"), "cannot be read: Too many", id="a link"),
        pytest.param(link("nowhere"), "cannot be read: Too many", id="a broken link"),
        pytest.param(os.mkdir, "cannot be read: Is a directory", id="a folder"),
        pytest.param(write_a_terabyte, "is larger than 16 MiB", id="a terabyte"),
    ],
)
def test_an_answer_that_is_no_file_hangs_nothing(
    chat: Chat, tmp_path: Path, write: Write, words: str
) -> None:
    chat.write = write
    with pytest.raises(ProviderError, match=rf"^the agent's response.md {words}") as caught:
        ask(agent("vscode", tmp_path))
    assert caught.value.kind == "malformed"
