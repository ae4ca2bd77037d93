"""Run a command, so that a process that is forked from this one has imported what that takes."""

from pathlib import Path
from tempfile import TemporaryDirectory

import commands

with TemporaryDirectory() as folder:
    commands.run("convert", "-", folder=Path(folder), given="input_messages: []")
