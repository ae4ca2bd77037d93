"""The command line. What a command needs is imported when it runs: help must be quick."""

import errno
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import click

if TYPE_CHECKING:
    from multiturn.assembly import Pipeline

Command = Callable[..., None]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="multiturn")
def main() -> None:
    """Turn eval suites into the chat prompts that LLM APIs expect."""


def pipeline_option(function: Command) -> Command:
    """Add ``--pipeline``."""
    return click.option(
        "--pipeline",
        metavar="NAME|FILE",
        default="spec",
        show_default=True,
        help="spec, design, shipped, or a YAML file that lists stages.",
    )(function)


def suite_options(function: Command) -> Command:
    """Add the arguments that say which cases a command is about."""
    decorators: list[Callable[[Command], Command]] = [
        click.argument("suites", metavar="SUITE...", nargs=-1, required=True),
        click.option(
            "--case",
            "case_ids",
            metavar="ID",
            multiple=True,
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
    from multiturn.batch import UnusableError
    from multiturn.declaration import load_pipeline
    from multiturn.errors import MultiturnError

    try:
        return load_pipeline(pipeline)
    except MultiturnError as error:
        raise UnusableError(str(error)) from error


def on_terminal() -> bool:
    """Whether standard output is a terminal that wants color."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


@main.command()
@suite_options
@pipeline_option
@click.option(
    "--format",
    "format_",
    type=click.Choice(["json", "yaml", "text"]),
    default="json",
    show_default=True,
    help="JSON lines, YAML for diffs, or text for reading.",
)
@click.option(
    "--output",
    metavar="FILE",
    help="Write here, whole or not at all.  [default: standard output]",
)
@click.option("--strict", is_flag=True, help="Fail if text is lost and no rule explains it.")
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Log each stage with its case and time, and text that poses as a marker.",
)
@click.option(
    "--log-format",
    type=click.Choice(["console", "json"]),
    default="console",
    show_default=True,
    help="How the log on standard error looks.",
)
def convert(
    pipeline: str,
    format_: str,
    output: str | None,
    strict: bool,
    verbose: bool,
    log_format: Literal["console", "json"],
    **which: Any,
) -> None:
    """Convert eval suites to chat prompts.

    SUITE is a YAML file, a folder (every *.eval.yaml and *.eval.yml below it), or - for standard
    input. A case that cannot be converted is reported and skipped; the exit code is then 1.
    """
    from multiturn.assembly import request_of
    from multiturn.batch import Batch, UnusableError
    from multiturn.logs import Settings, configure
    from multiturn.output import open_output
    from multiturn.progress import show_progress
    from multiturn.rendering import RENDERERS, record_of, to_colored_text

    configure(Settings("debug" if verbose else "warning", log_format))
    chosen = load(pipeline)
    batch = Batch(**which)
    colored = format_ == "text" and output is None and on_terminal()
    render = to_colored_text if colored else RENDERERS[format_]
    conversions = batch.conversions(chosen.logged() if verbose else chosen, strict=strict)
    try:
        with open_output(output) as file:
            for conversion in show_progress(conversions, "cases"):
                if verbose:
                    _warn_of_markers(conversion)
                file.write(render(record_of(conversion.case.suite, request_of(conversion))))
    except OSError as error:
        if output is None or error.errno == errno.EPIPE:
            raise
        raise UnusableError(f"cannot write {output!r}: {error.strerror}") from error
    batch.finish()


def _warn_of_markers(conversion: Any) -> None:
    from multiturn.logs import logger
    from multiturn_stages.guard_markers import guard_markers

    for notice in guard_markers(conversion).notices:
        if notice not in conversion.notices:
            logger().warning(notice.event, where=notice.where, why=notice.why)


from multiturn import cli_compose  # noqa: E402, F401 - it adds its commands to this one
