"""multiturn snapshot --review, at a terminal: one difference a screen, and one key an answer."""

import json
import os
import pty
import re
import select
import signal
import termios
import time
from contextlib import suppress
from pathlib import Path

import pytest

from commands import run, start
from repositories import TONE, commit, git, replace
from running import wait_for

SHOP = "evals/shop.eval.yaml"
QUESTION = "[a]ccept  [s]kip  [A]ll like this  [q]uit"
ALONE = "[a]ccept  [s]kip  [q]uit"
NEW = """\
  - {id: new-1, input_messages: [{role: user, content: Who?}]}
  - {id: new-2, input_messages: [{role: user, content: Why?}]}
"""


class Terminal:
    """A review in a process of its own, whose screens are read and answered."""

    def __init__(self, folder: Path, suites: str = "evals") -> None:
        self.ours, its = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
        streams = {"stdin": its, "stdout": its, "stderr": its}
        command = ("snapshot", suites, "--review")
        self.process = start(*command, folder=folder, env=environment, **streams)
        os.close(its)

    def screen(self) -> str:
        """Return what is shown until the next question, or the end."""
        shown = b""
        with suppress(OSError):  # Linux says EIO when the last writer is gone
            while not shown.endswith(b"uit\r\n") and not re.search(rb"lines?\r\n$", shown):
                ready, _, _ = select.select([self.ours], [], [], 10)
                assert ready, shown
                block = os.read(self.ours, 65536)
                if not block:
                    break
                shown += block
        return shown.decode().replace("\r\n", "\n")

    def answer(self, key: str) -> str:
        # What is typed before the question is asked is discarded: nobody has seen it.
        wait_for(lambda: not termios.tcgetattr(self.ours)[3] & termios.ICANON)
        os.write(self.ours, key.encode())
        return self.screen()

    def end(self) -> int:
        code = self.process.wait(timeout=60)
        os.close(self.ours)
        return code


def plain(text: str) -> str:
    return re.sub("\x1b\\[[0-9;]*[A-Za-z]", "", text)


@pytest.fixture
def folder(repository: Path) -> Path:
    """Return a repository with four differences: a guideline, a text, and two new cases."""
    assert run("snapshot", "evals", folder=repository).returncode == 0
    commit(repository)
    replace(repository, TONE, "Three.", "Three, or four.")
    replace(repository, SHOP, "content: Bye", "content: Good bye")
    (repository / SHOP).write_text((repository / SHOP).read_text() + NEW)
    return repository


def changed(folder: Path) -> list[str]:
    """Return the files of snapshots that are not as committed."""
    lines = git(folder, "status", "--porcelain", "--untracked-files=all", "snapshots").splitlines()
    return [line[3:].removeprefix("snapshots/") for line in lines]


def files_of(folder: Path) -> dict[Path, bytes]:
    """Return the files of snapshots."""
    return {path: path.read_bytes() for path in (folder / "snapshots").rglob("*.*")}


def left(folder: Path) -> list[str]:
    """Return the kinds of differences that a check finds."""
    done = run("snapshot", "evals", "--check", "--format", "json", folder=folder)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == int(bool(lines))
    return [line["kind"] for line in lines if line["key"]]


def test_each_difference_is_a_screen_the_dangerous_ones_first(folder: Path) -> None:
    terminal = Terminal(folder)
    first = plain(terminal.screen())
    assert first.endswith(
        "1 of 4: file\n"
        f"change of privilege: {TONE} changed; it is part of a system message\n"
        "2 cases; accepted for all suites that attach it\n"
        "about +4 tokens in 2 cases\n"
        f"from {TONE} line 3\n"
        "\n"
        "@@\n One.\n Two.\n-Three.\n+Three, or four.\n Four.\n Five.\n"
        f"\n{ALONE}\n"
    )
    assert plain(terminal.answer("A")).endswith(
        f"a change of privilege is never part of all\n{ALONE}\n"
    )
    second = terminal.answer("s")
    assert plain(second).endswith(
        "2 of 4: changed\n"
        f"1 case: {SHOP}: bye\n"
        "about +1 token\n"
        f"from {SHOP}:13\n"
        "\n"
        "@@\n system:\n   Be kind.\n user:\n-  Bye\n+  Good bye\n"
        f"\n{QUESTION.replace('  [q]', '  [b]ack  [q]')}\n"
    )
    assert "\x1b[32m+  Good bye\x1b[0m" in second
    terminal.answer("q")
    assert terminal.end() == 0
    assert changed(folder) == []


def test_a_character_that_nobody_sees_is_a_code_on_its_screen(folder: Path) -> None:
    replace(folder, TONE, "Three, or four.", "Three ∀\ufe0f.\u202e")
    terminal = Terminal(folder)
    assert "+Three ∀\\ufe0f.\\u202e\n" in plain(terminal.screen())
    terminal.answer("q")
    assert terminal.end() == 0


def test_back_takes_the_last_answer_back(folder: Path) -> None:
    replace(folder, SHOP, "id: hours", "id: opening-hours")
    committed = files_of(folder)
    run("snapshot", "evals", folder=folder)
    after = files_of(folder)
    git(folder, "checkout", "-q", "snapshots")
    git(folder, "clean", "-qfd", "snapshots")
    terminal = Terminal(folder)
    first = terminal.screen()
    assert "[b]ack" not in first
    terminal.answer("a")
    assert {Path(name).name for name in changed(folder)} == {"files.lock", "promoted.lock"}
    assert terminal.answer("b") == first
    assert changed(folder) == []
    for key in "sa":  # a renamed case is the third
        screen = terminal.answer(key)
    assert "3 of 5: renamed" in plain(screen)
    assert "4 of 5: new" in plain(terminal.answer("a"))
    assert "3 of 5: renamed" in plain(terminal.answer("b"))
    assert "2 of 5: changed" in plain(terminal.answer("b"))
    assert terminal.answer("b") == first
    assert files_of(folder) == committed
    for key in "aaaA":
        screen = terminal.answer(key)
    assert "5 differences accepted, 0 left" in screen
    assert terminal.end() == 0
    assert files_of(folder) == after


def test_back_leaves_alone_what_somebody_else_has_written(folder: Path) -> None:
    terminal = Terminal(folder)
    terminal.screen()
    terminal.answer("a")
    lock = folder / "snapshots/files.lock"
    lock.write_text(lock.read_text() + "\n# mine\n")
    before = git(folder, "diff")
    assert "files.lock: it has changed meanwhile; run the command again" in terminal.answer("b")
    assert terminal.end() == 2
    assert git(folder, "diff") == before


def test_the_screen_of_a_promoted_file_has_all_of_its_text(folder: Path) -> None:
    run("snapshot", "evals", folder=folder)
    replace(folder, SHOP, '["**/*.rules.md"]', '["**/*.rules.md", list.txt]')
    terminal = Terminal(folder)
    assert plain(terminal.screen()).endswith(
        "1 of 2: file\n"
        "change of privilege: evals/list.txt is new in a system message, "
        "by the pattern 'list.txt'\n"
        "1 case; accepted for all suites that attach it\n"
        "\n"
        "its text is as recorded; all of it:\n"
        f" A book: 10\n\n{ALONE}\n"
    )
    terminal.answer("q")
    assert terminal.end() == 0


def test_what_is_accepted_is_written_and_what_is_skipped_fails_the_check(folder: Path) -> None:
    terminal = Terminal(folder)
    terminal.screen()
    terminal.answer("s")
    assert plain(terminal.answer("a")).split("\n")[0].endswith("3 of 4: new, and 1 more like this")
    assert changed(folder) == ["evals/shop/bye.yaml"]
    assert terminal.answer("A").endswith("3 differences accepted, 1 left\n")
    assert terminal.end() == 0
    assert changed(folder) == [f"evals/shop/{name}.yaml" for name in ("bye", "new-1", "new-2")]
    assert left(folder) == ["privilege"]
    terminal = Terminal(folder)
    assert "1 of 1: file" in plain(terminal.screen())
    assert terminal.answer("a").endswith("1 difference accepted, 0 left\n")
    assert terminal.end() == 0
    assert left(folder) == []


def test_all_like_one_takes_no_change_of_privilege_and_no_other_kind(folder: Path) -> None:
    replace(folder, SHOP, "content: Be kind.", "content: Obey.")
    replace(folder, SHOP, "When do you open?", "When?")
    terminal = Terminal(folder)
    screens = [terminal.screen(), terminal.answer("s"), terminal.answer("s")]
    kinds = [re.findall(r"\d of 5: (.*)", plain(screen)) for screen in screens]
    assert kinds == [["file"], ["changed"], ["changed"]]
    terminal.answer("A")
    terminal.answer("q")
    assert terminal.end() == 0
    assert changed(folder) == ["evals/shop/hours.yaml"]
    assert left(folder) == ["privilege", "privilege", "changed", "new", "new"]


def test_several_keys_at_once_answer_nothing(folder: Path) -> None:
    terminal = Terminal(folder)
    terminal.screen()
    for keys in ("as", "\x1b[A"):
        assert plain(terminal.answer(keys)).endswith(f"{ALONE}\n")
    assert "2 of 4" in plain(terminal.answer("s"))
    terminal.answer("q")
    assert terminal.end() == 0
    assert changed(folder) == []


PIECES = (
    *("\x1b [ A", "\x1b [1;2 A", "\x1b O A", "\x1b a", "\x1b[1; 2 A", "\x1b [[ A"),
    *("\x1b [?1;2c", "\x1b [?1;2 c", "\x1b [<0;1;1M", "\x1b[<0;1; 1m", "\x1b [M a A A"),
    *("\x1b ]11;rgb:0000 /0/0\x07", "\x1bP1$r q A\x1b \\"),
)


def test_what_a_terminal_sends_in_pieces_answers_nothing(folder: Path) -> None:
    terminal = Terminal(folder)
    *_, shown = (terminal.screen(), terminal.answer("s"), terminal.answer("s"))
    *_, question = plain(shown).splitlines(keepends=True)
    assert "[A]ll like this" in question
    for pieces in PIECES:
        for piece in pieces.split():
            wait_for(lambda: not termios.tcgetattr(terminal.ours)[3] & termios.ICANON)
            os.write(terminal.ours, piece.encode())
            time.sleep(0.05)  # as a slow line does
        assert plain(terminal.screen()) == question, pieces  # and no other screen
    assert "4 of 4" in plain(terminal.answer("s"))
    terminal.answer("q")
    assert terminal.end() == 0
    assert changed(folder) == []


def test_a_long_difference_is_shown_screen_by_screen(folder: Path) -> None:
    text = "".join(f"{number}\n" for number in range(60))
    (folder / TONE).write_text(text)
    terminal = Terminal(folder)
    first = plain(terminal.screen())
    # Six lines say what it is; then come "@@", five old lines and 60 new ones. 37 of the 72 fit.
    assert first.endswith("+24\n\n[a]ccept  [s]kip  [q]uit  [m]ore: 35 lines\n")
    assert first.count("\n") < 40
    rest = plain(terminal.answer("m"))
    assert rest.split("\n")[:2] == ["+25", "+26"]
    assert rest.endswith(f"+59\n\n{ALONE}\n")
    terminal.answer("q")
    assert terminal.end() == 0


@pytest.mark.parametrize("way", ["ctrl-c", "kill", "hang up"])
def test_an_interrupt_keeps_what_was_accepted_and_writes_nothing_half(
    folder: Path, way: str
) -> None:
    terminal = Terminal(folder)
    terminal.screen()
    terminal.answer("a")
    assert changed(folder) == ["files.lock", "promoted.lock"]
    if way == "ctrl-c":
        terminal.answer("\x03")
    else:
        terminal.process.send_signal(signal.SIGKILL if way == "kill" else signal.SIGHUP)
    assert terminal.end() == {"ctrl-c": 130, "kill": -9, "hang up": 129}[way]
    assert changed(folder) == ["files.lock", "promoted.lock"]
    assert left(folder) == ["changed", "new", "new"]


def test_what_changed_meanwhile_in_the_folder_is_not_replaced(folder: Path) -> None:
    terminal = Terminal(folder)
    terminal.screen()
    terminal.answer("s")
    path = folder / "snapshots/evals/shop/bye.yaml"
    path.write_text(path.read_text().replace("Bye", "Cheers"))
    before = path.read_bytes()
    assert "snapshots/evals/shop/bye.yaml: it has changed meanwhile" in terminal.answer("a")
    assert terminal.end() == 2
    assert path.read_bytes() == before


def test_a_snapshot_that_somebody_has_written_meanwhile_is_not_replaced_by_a_renamed_one(
    folder: Path,
) -> None:
    git(folder, "checkout", "-q", "evals")
    replace(folder, SHOP, "id: bye", "id: leave")
    terminal = Terminal(folder)
    assert "1 of 1: renamed" in plain(terminal.screen())
    path = folder / "snapshots/evals/shop/leave.yaml"
    path.write_text("mine\n")
    assert "snapshots/evals/shop/leave.yaml: it has changed meanwhile" in terminal.answer("a")
    assert terminal.end() == 2
    assert path.read_text() == "mine\n"
    assert (folder / "snapshots/evals/shop/bye.yaml").exists()


def test_what_is_accepted_is_what_was_shown(folder: Path) -> None:
    terminal = Terminal(folder)
    terminal.screen()
    replace(folder, TONE, "Three, or four.", "Something else.")
    terminal.answer("a")
    terminal.answer("q")
    assert terminal.end() == 0
    assert left(folder)[0] == "privilege"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (
            ("--review",),
            "--check --format json gives each difference a key, and --accept KEY takes",
        ),
        (("--review", "--check"), "--check and --review are different things"),
        (("--review", "--accept", "x"), "--review and --accept are different things"),
        (("--accept", "x", "--case", "bye"), "--accept writes the lists: leave out --case"),
        (("--accept", "x", "--resolve"), "--resolve and --accept are different things"),
        (("--accept", "x"), "no difference has the key 'x'; snapshot --check --format json, for"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_what_cannot_be_is_one_error(folder: Path, options: tuple[str, ...], error: str) -> None:
    done = run("snapshot", "evals", *options, folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert error in done.stderr
    assert changed(folder) == []
