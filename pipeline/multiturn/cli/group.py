"""The command line. What a command needs is imported when it runs: help must be quick."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import click

from multiturn.cli import exit_code
from multiturn.documents.output import standard_output
from multiturn.errors import MultiturnError, options_as
from multiturn.text import in_line, may_color, visible

# The commands by what they are for, and the function of each.
_GROUPS = {
    "Suites": {
        "init": "init.init",
        "import": "import_.import_",
        "capture": "capture.capture_requests",
        "list": "list.list_cases",
        "check": "check.check",
        "convert": "convert.convert_suites",
        "watch": "watch.watch",
        "run": "run.run_suites",
        "batch": "run.batch",
    },
    "Review": {
        "snapshot": "snapshot.snapshot",
        "report": "report.report",
        "explain": "explain.explain_prompts",
        "diff": "diff.diff",
    },
    "Pipelines, editors and shells": {
        "stages": "pipelines.stages",
        "schema": "pipelines.schema",
        "completion": "pipelines.completion",
    },
}
_COMMANDS = {name: function for group in _GROUPS.values() for name, function in group.items()}
_UNUSABLE = 2  # what click returns for a wrong option
_NO_READER = 141
_WIDTH = 66  # of what help says of a command


class _Commands(click.Group):
    """Imports the one command that runs, and ends with the exit codes of other Unix tools."""

    def list_commands(self, _: click.Context) -> list[str]:
        return [*_COMMANDS]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            self.commands = dict.fromkeys(_COMMANDS, self)  # the names that click suggests
            return None
        module, function = _COMMANDS[name].split(".")
        command: click.Command = getattr(import_module(f"multiturn.cli.{module}"), function)
        return command

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        try:
            with options_as("--{}"):
                code = super().main(args, *rest, **{**options, "standalone_mode": False})
        except click.ClickException as error:
            # A message may quote the name of a file; but help has lines of its own.
            if not isinstance(error, click.exceptions.NoArgsIsHelpError):
                error.message = in_line(error.message)  # type: ignore[misc]
            error.show()
            code = error.exit_code
        except click.Abort:  # Ctrl-C
            code = exit_code()
        except OSError as error:
            # Whatever opens a file names it; a write to standard output does not.
            if error.filename is None:
                _drop_output()
                _fail(f"cannot write to standard output: {error.strerror}")
            _fail(f"cannot open {error.filename!r}: {error.strerror}")
        sys.exit(code)

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by what they are for, in place of the options, on one screen."""
        formatter.write_paragraph()
        for title, group in _GROUPS.items():
            formatter.write(f"{title}:\n")
            with formatter.indentation():
                commands = [self.get_command(context, name) for name in group]
                rows = [(f"{c.name:11}", c.get_short_help_str(_WIDTH)) for c in commands if c]
                formatter.write_dl(rows)

    def invoke(self, context: click.Context) -> None:
        try:
            super().invoke(context)
        except KeyboardInterrupt:
            raise click.Abort from None  # click would print an empty line first
        except BrokenPipeError:
            _drop_output()
            sys.exit(_NO_READER)
        except MultiturnError as error:
            _fail(str(error))


def _fail(message: str) -> NoReturn:
    click.echo(f"Error: {visible(message)}", err=True)
    sys.exit(_UNUSABLE)


def _drop_output() -> None:
    """Redirect standard output to the null device."""
    # Python flushes it at exit, and would report the error that ended the command once more.
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (standard_output(), sys.stdout):  # click prints help to the second
        os.dup2(null, stream.fileno())


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    options_metavar="[--version] [--help]",
    subcommand_metavar="COMMAND ...",
)
@click.version_option(package_name="multiturn")
@click.pass_context
def command_line(context: click.Context) -> None:
    """Turn eval suites into the chat prompts that LLM APIs expect."""
    from msgspec.structs import asdict

    from multiturn.engine.project import find_defaults
    from multiturn.logs import LogSettings, configure

    configure(LogSettings())
    context.color = None if may_color() else False  # None: if it is a terminal
    found, context.obj = find_defaults()
    values = {key: value for key, value in asdict(found).items() if value}
    context.default_map = dict.fromkeys(_COMMANDS, values)
    if found.target is not None:  # run takes several
        context.default_map["run"] = {**values, "target": (found.target,)}
