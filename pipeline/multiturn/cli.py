"""The command line. What a command needs is imported when it runs: help must be quick."""

import errno
import os
import sys
from typing import TYPE_CHECKING, Literal

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multiturn.assembly import Pipeline
    from multiturn.errors import MultiturnError
    from multiturn.rendering import Record


class UnusableError(click.ClickException):
    """What was asked for cannot be done at all: exit code 2, as for a wrong option."""

    exit_code = 2


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="multiturn")
def main() -> None:
    """Turn eval suites into the chat prompts that LLM APIs expect."""


@main.command()
@click.argument("suites", metavar="SUITE...", nargs=-1, required=True)
@click.option(
    "--pipeline",
    metavar="NAME|FILE",
    default="spec",
    show_default=True,
    help="spec, design, shipped, or a YAML file that lists stages.",
)
@click.option("--case", "case_ids", metavar="ID", multiple=True, help="Only this case; repeatable.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["json", "yaml", "text"]),
    default="json",
    show_default=True,
    help="JSON lines, YAML for diffs, or text for reading.",
)
@click.option(
    "--output", metavar="FILE", help="Write here, whole or not at all.  [default: standard output]"
)
@click.option(
    "--root",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    help="Read attached files inside DIR only.  [default: nearest parent with .git, else the"
    " suite's folder]",
)
@click.option(
    "--guidelines",
    metavar="GLOB",
    multiple=True,
    help="Attached files that match are guidelines; replaces the suite's patterns. Repeatable.",
)
@click.option("-v", "--verbose", is_flag=True, help="Log each stage with its case and time.")
@click.option(
    "--log-format",
    type=click.Choice(["console", "json"]),
    default="console",
    show_default=True,
    help="How the log on standard error looks.",
)
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def convert(
    suites: tuple[str, ...],
    pipeline: str,
    case_ids: tuple[str, ...],
    format_: str,
    output: str | None,
    root: str | None,
    guidelines: tuple[str, ...],
    verbose: bool,
    log_format: Literal["console", "json"],
    debug: bool,
) -> None:
    """Convert eval suites to chat prompts.

    SUITE is a YAML file, a folder (every *.eval.yaml and *.eval.yml below it), or - for standard
    input. A case that cannot be converted is reported and skipped; the exit code is then 1.
    """
    from multiturn.declaration import load_pipeline
    from multiturn.errors import MultiturnError
    from multiturn.logs import Settings, configure
    from multiturn.output import open_output
    from multiturn.patterns import guideline_matcher
    from multiturn.progress import show_progress
    from multiturn.rendering import RENDERERS, to_colored_text
    from multiturn.suite import find_suites

    configure(Settings("debug" if verbose else "warning", log_format))
    try:
        chosen = load_pipeline(pipeline)
        paths = list(find_suites(suites))
        guideline_matcher(guidelines)
    except MultiturnError as error:
        raise UnusableError(str(error)) from error
    run = _Run(chosen.logged() if verbose else chosen, case_ids, debug)
    on_terminal = output is None and sys.stdout.isatty() and "NO_COLOR" not in os.environ
    render = to_colored_text if format_ == "text" and on_terminal else RENDERERS[format_]
    try:
        with open_output(output) as file:
            for record in show_progress(run.records(paths, root, guidelines or None), "cases"):
                file.write(render(record))
            run.check_case_ids()
    except OSError as error:
        if output is None or error.errno == errno.EPIPE:
            raise
        raise UnusableError(f"cannot write {output!r}: {error.strerror}") from error
    if run.failures:
        sys.exit(1)


class _Run:
    """One run of ``convert``: which cases are wanted, and which failed."""

    def __init__(self, pipeline: "Pipeline", case_ids: tuple[str, ...], debug: bool) -> None:
        self.pipeline = pipeline
        self.case_ids = frozenset(case_ids)
        self.debug = debug
        self.ids: set[str] = set()
        self.failures = 0

    def records(
        self, paths: list[str], root: str | None, guidelines: tuple[str, ...] | None
    ) -> "Iterator[Record]":
        from multiturn.errors import MultiturnError
        from multiturn.files import Texts
        from multiturn.rendering import record_of
        from multiturn.suite import load_suite

        texts = Texts()
        for path in paths:
            for case in load_suite(
                path, root=root, guideline_patterns=guidelines, texts=texts, on_error=self.report
            ):
                if not self.wants(case.id):
                    continue
                try:
                    request = self.pipeline.request(case)
                except MultiturnError as error:
                    self.report(error)
                else:
                    yield record_of(case.suite, request)

    def wants(self, case_id: str | None) -> bool:
        """Tell whether a case was asked for; what belongs to no case always counts."""
        if case_id is None or not self.case_ids:
            return True
        self.ids.add(case_id)
        return case_id in self.case_ids

    def report(self, error: "MultiturnError") -> None:
        """Say on standard error why a case, or the rest of a suite, was skipped."""
        if not self.wants(error.case_id):
            return
        self.failures += 1
        if self.debug:
            import traceback

            traceback.print_exception(error)
        else:
            click.echo(str(error), err=True)

    def check_case_ids(self) -> None:
        """Refuse ids that no suite has."""
        from multiturn.errors import did_you_mean

        for case_id in sorted(self.case_ids - self.ids):
            raise UnusableError(f"no case {case_id!r}; {did_you_mean(case_id, sorted(self.ids))}")
