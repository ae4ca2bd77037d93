"""The command that shows what another pipeline would change."""

import sys
from typing import TYPE_CHECKING

import click

from multiturn.cli import options as shared
from multiturn.cli.printing import echo, say_summary
from multiturn.errors import MultiturnError
from multiturn.text import number_of

if TYPE_CHECKING:
    from multiturn.explaining.record import Record


@click.command(cls=shared.MultiturnCommand)
@shared.suite_options
@shared.defaulted(
    "--from",
    "old",
    metavar="PIPELINE",
    default="spec",
    shell_complete=shared.complete_pipeline,
    help="The pipeline to compare with.",
)
@click.option(
    "--to",
    "new",
    metavar="PIPELINE",
    required=True,
    shell_complete=shared.complete_pipeline,
    help="The pipeline whose changes are shown.",
)
@shared.preview_options
@shared.quiet_option
@shared.case_format_option
def diff(options: shared.SuiteOptions, old: str, new: str) -> None:
    """Show what another pipeline would change.

    Each case that differs is shown as a unified diff; the exit code is then 1.
    """
    from multiturn.cli.lines import DiffLine
    from multiturn.cli.rendering import record_with
    from multiturn.engine.converting import read_cases
    from multiturn.explaining.record import to_json
    from multiturn.pipelines.pipeline_file import read_pipeline

    provider, failures = options.provider(), options.failures
    before, after = read_pipeline(old), read_pipeline(new)
    compared = same = 0
    for read in read_cases(options.select()):
        first = read.converted(before, strict=options.strict)
        second = read.converted(after, strict=options.strict) if first.error is None else first
        if second.error is not None:
            failures.add(second.error)
        elif first.conversion is not None and second.conversion is not None:
            pair = first.conversion, second.conversion
            try:
                one, other = (record_with(each, provider) for each in pair)
            except MultiturnError as error:
                failures.add(error)
                continue
            compared += 1
            changes = _as_diff(one, other, old, new)
            same += not changes
            if options.format_ == "json":
                found = first.conversion.case
                line = DiffLine(found.suite, found.id, click.unstyle(changes) or None)
                echo(to_json(line), nl=False)
            else:
                echo(changes, nl=False)
    if options.format_ == "text":
        say_summary(f"{number_of(compared, 'case')}: {same:,} same, {compared - same:,} differ")
    if same < compared:
        sys.exit(1)


def _as_diff(before: "Record", after: "Record", old: str, new: str) -> str:
    """Draw the difference of two records of a case as a unified diff; empty if none."""
    from multiturn.cli.rendering import as_text_diff
    from multiturn.explaining.record import to_yaml

    name = f"{before['suite']} · {before['id']}"
    first, second = (to_yaml(record).decode() for record in (before, after))
    return as_text_diff(first, second, f"{name} · {old}", f"{name} · {new}")
