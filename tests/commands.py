"""Commands run inside this process: a tenth of the time of a process of their own."""

import importlib
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path

from click.testing import CliRunner

from multiturn import output


def run(
    *arguments: str, folder: Path, given: str = "", env: Mapping[str, str | None] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a command in a folder, and leave nothing of what it imported or set.

    Signals, pipes, terminals and what happens at a process's end need ``test_cli.start``.
    """
    from multiturn.cli.group import main

    modules, path = set(sys.modules), [*sys.path]
    sys.path.insert(0, str(folder))  # as for python -m
    importlib.invalidate_caches()
    try:
        with chdir(folder):
            done = CliRunner().invoke(main, arguments, input=given, env=env, prog_name="multiturn")
    finally:
        sys.path[:] = path
        output._settings = None
        for name in sys.modules.keys() - modules:
            if _is_below(name, folder):
                del sys.modules[name]
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


def _is_below(name: str, folder: Path) -> bool:
    file = getattr(sys.modules[name], "__file__", None)
    return file is not None and os.path.realpath(file).startswith(os.path.realpath(folder))
