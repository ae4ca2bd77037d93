"""What pages of Markdown show, for the tests that see whether it is true."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import commands

BIN = Path(sys.executable).parent


def environment() -> dict[str, str]:
    """Return the environment for commands of a page: without a key, and with our programs."""
    rest = {key: value for key, value in os.environ.items() if key != "ANTHROPIC_API_KEY"}
    return {**rest, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}


def blocks(text: str, language: str = r"\w+") -> list[str]:
    """Return the blocks of code in a language, or in any."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def sessions(text: str) -> list[tuple[str, str]]:
    """Return each command in the console blocks of a page, with the output shown below it."""
    shown = "".join(blocks(text, "console"))
    return re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", shown, re.MULTILINE)


def said(command: str, folder: Path) -> str:
    """Run a command of a page, and return what it prints; ours runs inside this process."""
    ours = re.fullmatch(
        r"((?:\w+=\w+ )*)multiturn ([^|>&;$*]*)(?:(>|\| (?:head|tail)) (\S+))?", command
    )
    if ours is None:
        done = subprocess.run(
            command, shell=True, cwd=folder, env=environment(), capture_output=True, text=True
        )
        return done.stdout + done.stderr
    given, words, then, operand = ours.groups()
    env = {"ANTHROPIC_API_KEY": None, **dict(each.split("=") for each in given.split())}
    done = commands.run(*shlex.split(words), folder=folder, env=env)
    shown = done.stdout.splitlines(keepends=True)
    if then == ">":
        (folder / operand).write_text(done.stdout, encoding="utf-8")
        shown = []
    elif then:
        shown = shown[: int(operand[1:])] if "head" in then else shown[-int(operand[1:]) :]
    return "".join(shown) + done.stderr


def printed(program: str, folder: Path) -> str:
    """Return what a program of a page prints; a warning is an error."""
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return done.stdout + done.stderr


def write_files(text: str, folder: Path) -> None:
    """Write each file that a page shows under its name."""
    for block in blocks(text):
        name = re.match(r"# ([\w./-]+)\n", block)
        if name:
            path = folder / name[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block)


def shell_command(text: str, beginning: str) -> list[str]:
    """Return the words of the one command of a page's shell blocks that begins so."""
    lines = "".join(blocks(text, "sh")).splitlines()
    (command,) = (line for line in lines if line.startswith(beginning))
    return shlex.split(command)


def program(text: str, beginning: str) -> str:
    """Return the one Python program of a page that begins so."""
    (found,) = (block for block in blocks(text, "python") if block.startswith(beginning))
    return found
