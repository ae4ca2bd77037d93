"""The command that shows what another pipeline would change."""

import sys

import click

from multiturn.cli import options as shared
from multiturn.cli.printing import echo, say_summary
from multiturn.errors import MultiturnError
from multiturn.text import number_of


@shared.suite_command(has_pipeline=False)
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
    from multiturn.cli.rendering import as_text_diff
    from multiturn.engine.converting import read_cases
    from multiturn.explaining.record import record_for, to_json, to_yaml
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
                texts = [to_yaml(record_for(each, provider)).decode() for each in pair]
            except MultiturnError as error:
                failures.add(error)
                continue
            compared += 1
            found = first.conversion.case
            names = (f"{found.suite} · {found.id} · {each}" for each in (old, new))
            changes = as_text_diff(*texts, *names)
            same += not changes
            if options.format_ == "json":
                line = DiffLine(found.suite, found.id, click.unstyle(changes) or None)
                echo(to_json(line), nl=False)
            else:
                echo(changes, nl=False)
    if options.format_ == "text":
        say_summary(f"{number_of(compared, 'case')}: {same:,} same, {compared - same:,} differ")
    if same < compared:
        sys.exit(1)
