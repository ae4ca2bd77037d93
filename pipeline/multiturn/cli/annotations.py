"""Annotations of GitHub Actions, for ``--format github``."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from multiturn.cli.lines import Severity
from multiturn.cli.printing import echo
from multiturn.errors import Place
from multiturn.files.paths import root_of
from multiturn.text import visible

_COMMAND = re.compile(r"((?:^|[\r\n])\s*):(?=:)")


def annotation(where: Place, message: str, *, title: str, severity: Severity) -> str:
    """Return the workflow command of an annotation.

    The file is named from the top of its repository. Escapes are those of the toolkit:
    https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts
    """
    file = os.path.realpath(where.file)
    top = root_of(file)
    is_in_git = where.file and os.path.exists(os.path.join(top, ".git"))
    properties = {
        "title": title,
        "file": os.path.relpath(file, top) if is_in_git else where.file,
        "line": where.line,
        "col": where.column,
    }
    written = ",".join(
        f"{name}={_escaped(str(value)).replace(':', '%3A').replace(',', '%2C')}"
        for name, value in properties.items()
        if value
    )
    command = "notice" if severity == "note" else severity
    return f"::{command} {written}::{_escaped(message)}"


def without_commands(text: str) -> str:
    r"""Return lines that a runner of GitHub Actions does not take for commands.

    It looks for ``::name`` after blanks at a line's start, and for ``##[name]`` anywhere:
    https://github.com/actions/runner/blob/main/src/Runner.Common/ActionCommand.cs

    >>> print(without_commands("a ##[stop-commands]t\n    ::stop-commands::t"))
    a #\x23[stop-commands]t
        \x3a:stop-commands::t
    """
    return _COMMAND.sub(r"\1\\x3a", text).replace("##[", r"#\x23[")


class _WithoutCommands:
    """A text stream to which no line that is written is a command to a runner."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(without_commands(text))

    def __getattr__(self, name: str) -> Any:
        """Return what else the stream has, but not the bytes below it."""
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self._stream, name)


def protect_runner() -> None:
    """Let no text on standard error be a command to a runner, from now on."""
    sys.stderr = cast("TextIO", _WithoutCommands(sys.stderr))


@contextmanager
def no_commands() -> Iterator[None]:
    """Keep GitHub Actions from running a line of a prompt as a workflow command."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        yield
        return
    token = os.urandom(32).hex()
    echo(f"::stop-commands::{token}")
    try:
        yield
    finally:
        echo(f"::{token}::")


def _escaped(text: str) -> str:
    shown = visible(text).replace("%", "%25").replace("\n", "%0A")  # no other line end is left
    return without_commands(shown)
