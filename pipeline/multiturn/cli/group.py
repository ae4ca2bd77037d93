"""The command line. What a command needs is imported when it runs: help must be quick."""

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from multiturn.cli.convert import convert
from multiturn.cli.editor import completion, schema
from multiturn.cli.pipelines import check, diff, explain, show, stages
from multiturn.cli.report import report
from multiturn.cli.run import run
from multiturn.cli.snapshot import snapshot

INTERRUPTED = 130  # 128 and the signal's number, as a shell says it
_NO_READER = 141


class _Commands(click.Group):
    """Ends as other Unix tools do; click ends with 1 after Ctrl-C and a closed pipe."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        try:
            code = super().main(args, *rest, **{**options, "standalone_mode": False})
        except click.ClickException as error:
            error.show()
            code = error.exit_code
        except click.Abort:  # Ctrl-C before the command is known
            code = INTERRUPTED
        sys.exit(code)

    def invoke(self, context: click.Context) -> None:
        from multiturn.cli.failures import UnusableError, writing
        from multiturn.errors import MultiturnError

        try:
            with writing(None):
                super().invoke(context)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            # What is still in the buffer must not fail once more at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(_NO_READER)
        except MultiturnError as error:
            raise UnusableError(str(error)) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="multiturn")
def main() -> None:
    """Turn eval suites into the chat prompts that LLM APIs expect."""
    from multiturn.logs import Settings, configure

    configure(Settings())


for command in (
    *(convert, run, snapshot, report),
    *(check, stages, show, explain, diff),
    *(schema, completion),
):
    main.add_command(command)
