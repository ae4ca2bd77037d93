"""The command line. What a command needs is imported when it runs: help must be quick."""

import click

from multiturn.cli_compose import check, diff, explain, show, stages
from multiturn.cli_convert import convert
from multiturn.cli_run import run


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="multiturn")
def main() -> None:
    """Turn eval suites into the chat prompts that LLM APIs expect."""


for command in (convert, run, check, stages, show, explain, diff):
    main.add_command(command)
