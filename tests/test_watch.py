"""multiturn watch: a real process that converts again whenever a file changes."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands import run, start

SUITE = """\
guideline_patterns: ["*.guide.md"]
evalcases:
- id: one
  input_messages: [{role: user, content: [{type: file, value: tone.guide.md}, Hi]}]
- id: two
  input_messages: [{role: user, content: Hello}]
"""
STAGE = """\
from msgspec.structs import replace
from multiturn import Conversion, stage

@stage(requires={"text"})
def house(conversion: Conversion) -> Conversion:
    return conversion.map_parts(lambda part: replace(part, text=part.text + "A"))
"""
PIPELINE = "extends: spec\ninsert: [{stage: 'house:house', after: embed_files}]\n"


class Watching:
    """``multiturn watch`` in a folder; whoever waits for what it never says fails."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = start(
            *("watch", ".", "--pipeline", "house.yaml"),
            folder=folder,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={key: each for key, each in os.environ.items() if not key.startswith("PYTHON")},
        )
        self.timer = threading.Timer(60, self.process.kill)
        self.timer.start()

    def until(self, end: str) -> list[str]:
        """Return the lines up to the first that ends so."""
        assert self.process.stdout is not None
        lines: list[str] = []
        for line in self.process.stdout:
            lines.append(line.rstrip("\n"))
            if lines[-1].endswith(end):
                return lines
        raise AssertionError(lines)

    def end(self, number: int) -> int:
        """Send a signal, at which it ends and says nothing; return its exit code."""
        os.killpg(self.process.pid, number)
        assert self.process.communicate()[0] == ""
        return self.process.returncode

    def write(self, name: str, text: str) -> None:
        """Save a file whole, as editors do, and each time in the same second."""
        (self.folder / "sed5RzSlt").write_text(text)
        os.utime(self.folder / "sed5RzSlt", (1, 1))
        os.replace(self.folder / "sed5RzSlt", self.folder / name)


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[Watching]:
    for name, text in {
        "a.eval.yaml": SUITE,
        "tone.guide.md": "Be kind.\n",
        "house.py": STAGE,
        "house.yaml": PIPELINE,
    }.items():
        (tmp_path / name).write_text(text)
    watching = Watching(tmp_path)
    assert watching.until("ends") == ["watching 2 prompts; Ctrl-C ends"]
    yield watching
    watching.timer.cancel()
    watching.process.kill()
    with watching.process:
        pass


def changed(lines: list[str]) -> set[str]:
    """Return what a diff has added and removed, without indentation."""
    return {
        f"{line[0]}{line[1:].strip()}"
        for line in lines
        if line[0] in "+-" and line[:3] not in ("+++", "---")
    }


def test_a_stage_may_print(watching: Watching) -> None:
    watching.write("house.py", STAGE.replace('"A"', '"B"') + "print('{')\n")
    assert "+content: HelloB" in changed(watching.until("2 changed, 0 same"))


def test_each_kind_of_change_is_shown(watching: Watching) -> None:
    watching.write("tone.guide.md", "Be brief.\n")
    lines = watching.until("1 changed, 1 same")
    assert lines[:2] == ["--- a.eval.yaml · one · before", "+++ a.eval.yaml · one · now"]
    assert changed(lines) == {"-Be kind.A", "+Be brief.A", "-- Be kind.A", "+- Be brief.A"}
    assert lines[-1] == "tone.guide.md: 1 changed, 1 same"
    for mark in "BC":  # of one length, too: Python would take what it has compiled
        watching.write("house.py", STAGE.replace('"A"', f'"{mark}"'))
        assert f"+content: Hello{mark}" in changed(watching.until("2 changed, 0 same"))
    watching.write("house.yaml", "extends: spec\n")
    assert "+content: Hello" in changed(watching.until("2 changed, 0 same"))
    watching.write("a.eval.yaml", SUITE.replace("Hello", "Good day"))
    assert "+content: Good day" in changed(watching.until("1 changed, 1 same"))
    watching.write("a.eval.yaml", SUITE.split("- id: two")[0])
    assert "-content: Good day" in changed(watching.until("1 changed, 1 same"))
    assert watching.end(signal.SIGINT) == 130


def test_an_error_is_said_and_the_next_change_is_compared_with_what_was_before(
    watching: Watching,
) -> None:
    watching.write("a.eval.yaml", SUITE.replace("content: Hello", "content: {"))
    lines = watching.until("0 changed, 1 same, 1 failed; with errors, see above")
    assert lines[0].startswith("a.eval.yaml:")
    watching.write("house.py", STAGE.replace("def house", "def house("))
    lines = watching.until("0 changed, 0 same, 2 failed; with errors, see above")
    assert lines[0].startswith("Error: house.yaml:2:")
    watching.write("house.py", STAGE)
    watching.until("with errors, see above")
    watching.write("a.eval.yaml", SUITE.replace("Hello", "Bye"))
    lines = watching.until("1 changed, 1 same")
    assert changed(lines) == {
        "-question: HelloA",
        "+question: ByeA",
        "-content: HelloA",
        "+content: ByeA",
    }
    assert watching.end(signal.SIGTERM) == -signal.SIGTERM


def test_what_it_prints_into_a_file_of_the_folder_is_no_change(tmp_path: Path) -> None:
    suite, log = tmp_path / "a.eval.yaml", tmp_path / "log.txt"
    suite.write_text("evalcases: [{id: one, input_messages: [{role: user, content: Hi}]}]\n")
    with log.open("w") as stream:
        watching = start("watch", ".", folder=tmp_path, stdout=stream, stderr=stream)

    def wait_for(line: str) -> None:
        for _ in range(600):
            if line in log.read_text().splitlines():
                return
            time.sleep(0.1)
        raise AssertionError(log.read_text())

    try:
        wait_for("watching 1 prompt; Ctrl-C ends")
        suite.write_text(suite.read_text().replace("Hi", "Bye"))
        wait_for("a.eval.yaml: 1 changed, 0 same")
        time.sleep(1)
        assert log.read_text().count("changed, ") == 1
    finally:
        watching.kill()
        watching.communicate()


@pytest.mark.skipif(sys.platform == "darwin", reason="it refuses such a name")
def test_a_name_that_is_no_utf_8_is_an_error_in_words(watching: Watching) -> None:
    os.mkdir(os.fsencode(watching.folder) + b"/bad\xff")
    out, _ = watching.process.communicate(timeout=60)
    assert out.startswith("Error: cannot watch: Unable to decode path ")
    assert out.endswith("; name a smaller --root\n")
    assert watching.process.returncode == 2


def test_without_its_package_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    (tmp_path / "a.eval.yaml").write_text(SUITE)
    done = run("watch", ".", folder=tmp_path)
    said = "Error: watch needs the package watchfiles; pip install 'multiturn[watch]'\n"
    assert (done.returncode, done.stderr) == (2, said)
    assert "- can be read only once" in run("watch", "-", folder=tmp_path).stderr
