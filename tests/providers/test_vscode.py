"""VS Code: what its chat is given, and how its answer is waited for."""

import asyncio
import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

import standins
from multiturn.model import InputFile, ProviderRequest
from multiturn.providers.base import ProviderError
from standins import agent, ask, saw

FILES = (
    InputFile("src/a.py", "src/a.py", False, "print(1)"),
    InputFile("rules.md", "rules.md", True, "Be brief."),
)
# The window is open already: the command leaves the prompt there and returns.
OPEN = standins.VSCODE.removeprefix(standins.COMMON)


def added(arguments: list[str]) -> list[str]:
    return [path for word, path in pairwise(arguments) if word == "--add-file"]


def test_the_chat_is_opened_in_agent_mode(tmp_path: Path) -> None:
    arguments = saw(agent("vscode", tmp_path, args=("--new-window",)))["args"]
    assert arguments[:3] == ["chat", "--mode", "agent"]
    assert "--new-window" in arguments
    assert arguments[-2].endswith(".md")  # of the last --add-file
    assert not arguments[-1].startswith("-")


def test_the_prompt_is_a_markdown_file_with_the_input_files_beside_it(tmp_path: Path) -> None:
    # The stand-in copies what it was given, as the folder is gone afterwards.
    copy = """
for path in [path for word, path in zip(sys.argv, sys.argv[1:]) if word == "--add-file"]:
    say(path=path, text=open(path).read())
sys.exit(1)
"""
    with pytest.raises(ProviderError) as caught:
        ask(agent("vscode", tmp_path, copy), "What now?", input_files=FILES)
    lines = re.findall(r"\{.*\}", caught.value.what)
    prompt, *files = map(json.loads, lines)
    assert prompt["path"].endswith(".md")
    assert prompt["text"].startswith("What now?")
    assert sorted(file["text"] for file in files) == ["Be brief.", "print(1)"]
    folder = Path(prompt["path"]).parent
    assert [file["path"] for file in files if folder not in Path(file["path"]).parents] == []
    assert (tmp_path / "work") in folder.parents
    assert folder.is_absolute()


def test_every_file_and_nothing_else_is_added(tmp_path: Path) -> None:
    record = saw(agent("vscode", tmp_path), input_files=FILES)
    _, *files = added(record["args"])
    work = tmp_path / "work"
    assert sorted(files) == sorted(str(work / path) for path in record["files"])


def test_the_argument_leads_to_the_prompt(tmp_path: Path) -> None:
    record = saw(agent("vscode", tmp_path), "-rf " * 100_000)
    sentence = record["args"][-1]
    prompt, *_ = added(record["args"])
    assert Path(prompt).name in sentence
    assert "-rf" not in sentence
    assert len(sentence) < 1_000


def test_the_prompt_asks_for_the_response_file(tmp_path: Path) -> None:
    body = agent("vscode", tmp_path).wire(ProviderRequest(question="Hi")).body.decode()
    before, after = body.split("response.tmp.md")
    assert body.startswith("Hi\n")
    assert re.search(r"[Ww]rite", before)
    assert re.search(r"[Rr]ename .*response\.md", after)


def test_the_prompt_names_a_folder_that_is_there(tmp_path: Path) -> None:
    record = saw(agent("vscode", tmp_path))
    folder = Path(added(record["args"])[0]).parent.relative_to(tmp_path / "work")
    assert f"{folder.as_posix()}/response.tmp.md" in record["prompt"]
    assert f"{folder.as_posix()}/response.md" in record["prompt"]


def test_an_answer_is_read_when_it_is_whole(tmp_path: Path) -> None:
    slow = OPEN.replace("time.sleep(0.02)", "time.sleep(0.5)")
    assert "0.5" in slow
    answer = ask(agent("vscode", tmp_path, slow), "Hi")
    assert json.loads(answer.text)["prompt"].startswith("Hi")
    assert answer.finish_reason == "stop"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        pytest.param("b''", "", id="nothing"),
        pytest.param("b'a\\n\\n'", "a\n\n", id="line ends at the end"),
        pytest.param("'Grüße 👍'.encode()", "Grüße 👍", id="Unicode"),
        pytest.param("b'x' * 2_000_000", "x" * 2_000_000, id="a long answer"),
        pytest.param("b'a\\xffb'", "a\ufffdb", id="a byte that is no character"),
    ],
)
def test_an_answer_may_be_any_text(tmp_path: Path, code: str, text: str) -> None:
    program = OPEN.split("answer =")[0] + (
        f"open(half, 'wb').write({code})\nos.rename(half, whole)\n"
    )
    assert ask(agent("vscode", tmp_path, program)).text == text


@pytest.mark.parametrize(
    ("code", "words"),
    [
        pytest.param("os.mkfifo(whole)", "not a regular file", id="a pipe that nobody writes to"),
        pytest.param("os.symlink('/dev/zero', whole)", "not a regular file", id="an endless link"),
        pytest.param("os.symlink('prompt.md', whole)", "not a regular file", id="a link"),
        pytest.param("os.symlink('nowhere', whole)", "not a regular file", id="a broken link"),
        pytest.param("os.mkdir(whole)", "not a regular file", id="a folder"),
        pytest.param("open(whole, 'w').truncate(1 << 40)", "larger than 16 MiB", id="a terabyte"),
    ],
)
def test_an_answer_that_is_no_file_hangs_nothing(tmp_path: Path, code: str, words: str) -> None:
    program = OPEN.split("answer =")[0] + code
    with pytest.raises(ProviderError, match=rf"^the agent's response.md is {words}$") as caught:
        ask(agent("vscode", tmp_path, program))
    assert caught.value.kind == "malformed"


def test_an_answer_of_a_command_that_does_not_return_is_read(tmp_path: Path) -> None:
    with standins.witness(tmp_path) as witness:
        staying = OPEN.replace("os.fork()", "os.fork() == 0")
        staying = staying.replace("sys.exit()", f"stay({witness.path!r})")
        assert "stay" in staying
        # The answer comes when the other process is there for sure.
        waiting = f"while not os.path.exists({str(tmp_path / 'heard')!r}): time.sleep(0.005)\n"
        provider = agent("vscode", tmp_path, staying.replace("answer =", f"{waiting}answer ="))

        def heard() -> bool:
            if witness.heard():
                (tmp_path / "heard").touch()
            return False

        answer = standins.until(heard, standins.invoked(provider, ProviderRequest(question="Hi")))
    assert json.loads(answer.text)["prompt"].startswith("Hi")


def test_a_window_that_never_answers_is_a_time_out(tmp_path: Path) -> None:
    provider = agent("vscode", tmp_path, "sys.exit(0)", timeout_seconds=0.3)
    with pytest.raises(ProviderError) as caught:
        ask(provider)
    assert caught.value.kind == "timeout"
    assert "0.3" in caught.value.what


def test_half_an_answer_is_no_answer(tmp_path: Path) -> None:
    program = OPEN.replace("os.rename(half, whole)", "")
    with pytest.raises(ProviderError) as caught:
        ask(agent("vscode", tmp_path, program, timeout_seconds=1))
    assert caught.value.kind == "timeout"


def test_what_one_run_has_answered_is_not_the_answer_of_the_next(tmp_path: Path) -> None:
    provider = agent("vscode", tmp_path)
    prompts = [saw(provider, question)["prompt"] for question in ("One", "Two")]
    assert [prompt[:3] for prompt in prompts] == ["One", "Two"]


def test_nothing_stays_in_the_working_folder_that_git_would_see(tmp_path: Path) -> None:
    asyncio.run(standins.invoked(agent("vscode", tmp_path), ProviderRequest(question="Hi")))
    files = [path for path in (tmp_path / "work").rglob("*") if path.is_file()]
    assert {(path.name, path.read_text()) for path in files} <= {(".gitignore", "*\n")}
