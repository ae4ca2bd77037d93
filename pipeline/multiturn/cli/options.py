"""What the commands share: the options that say which cases and which pipeline."""

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from multiturn.cli.completion import complete_case, complete_pipeline

if TYPE_CHECKING:
    from multiturn.pipelines.pipeline import Pipeline

Command = Callable[..., None]
PATH = click.Path()  # shells complete it


def pipeline_option(function: Command) -> Command:
    """Add ``--pipeline``."""
    return click.option(
        "--pipeline",
        metavar="NAME|FILE",
        default="spec",
        show_default=True,
        shell_complete=complete_pipeline,
        help="spec, design, shipped, or a YAML file that lists stages.",
    )(function)


def suite_options(function: Command) -> Command:
    """Add the arguments that say which cases a command is about."""
    decorators: list[Callable[[Command], Command]] = [
        click.argument("suites", metavar="SUITE...", type=PATH, nargs=-1, required=True),
        click.option(
            "--case",
            "case_ids",
            metavar="ID",
            multiple=True,
            shell_complete=complete_case,
            help="Only this case. Repeatable.",
        ),
        click.option(
            "--root",
            metavar="DIR",
            type=click.Path(exists=True, file_okay=False),
            help="Read attached files inside DIR only.  [default: the nearest folder above the"
            " suite with .git, else the suite's own]",
        ),
        click.option(
            "--guidelines",
            metavar="GLOB",
            multiple=True,
            help="Attached files that match are guidelines; replaces the suites' own patterns."
            " Repeatable.",
        ),
        click.option("--debug", is_flag=True, help="Show tracebacks."),
    ]
    for decorate in reversed(decorators):
        function = decorate(function)
    return function


def load(pipeline: str) -> "Pipeline":
    """Load a pipeline, or end with exit code 2."""
    from multiturn.engine.batch import UnusableError
    from multiturn.errors import MultiturnError
    from multiturn.pipelines.loading import load_pipeline

    try:
        return load_pipeline(pipeline)
    except MultiturnError as error:
        raise UnusableError(str(error)) from error


def on_terminal() -> bool:
    """Whether standard output is a terminal that wants color."""
    return sys.stdout is not None and sys.stdout.isatty() and "NO_COLOR" not in os.environ
