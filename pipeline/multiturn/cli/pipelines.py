"""The commands that look into pipelines: stages, show, explain, diff."""

import sys

import click

from multiturn.cli.completion import complete_pipeline
from multiturn.cli.failures import Failures
from multiturn.cli.options import (
    Asked,
    format_option,
    pipeline_option,
    quiet_option,
    say_summary,
    start_log,
    suite_options,
    verbose_option,
)
from multiturn.text import number_of

_format_option = format_option(
    "text", "json", help="Text for reading, or a line of JSON for each case."
)


@click.command()
@click.argument("pipeline", metavar="[PIPELINE]", required=False, shell_complete=complete_pipeline)
def stages(pipeline: str | None) -> None:
    """List every stage with its options and its contract.

    The stages that only PIPELINE has come first, then those that ship and those of packages.
    """
    from multiturn.pipelines.contract import contract_of, options_of, summary_of
    from multiturn.pipelines.pipeline_file import load_pipeline
    from multiturn.pipelines.registry import find_stage, installed_stages, name_of, stage_names

    others = {name: find_stage(name) for name in [*stage_names(), *sorted(installed_stages())]}
    steps = load_pipeline(pipeline).steps if pipeline else ()
    own = {name_of(step.stage): step.stage for step in steps if step.stage not in others.values()}
    for name, stage in {**own, **others}.items():
        contract = contract_of(stage)
        click.secho(name, bold=True)
        click.echo(f"  {summary_of(stage)}")
        if contract:
            click.echo(f"  {contract.in_words()}")
        for option, details in options_of(stage).items():
            click.echo(f"  {option}: {details.in_words()}")
        click.echo()


@click.command()
@click.argument("pipeline", metavar="PIPELINE", shell_complete=complete_pipeline)
@verbose_option
def show(pipeline: str, verbose: bool) -> None:
    """Show the stages of a pipeline.

    They are in order, each with what it requires, provides and consumes, and its options.
    """
    from multiturn.cli.drawing import as_table
    from multiturn.pipelines.pipeline_file import load_pipeline

    start_log(verbose)
    click.echo(as_table(load_pipeline(pipeline)), nl=False)


@click.command()
@suite_options
@pipeline_option
@_format_option
def explain(asked: Asked, pipeline: str, format_: str) -> None:
    """Show where each text of a prompt comes from.

    Segments that are not where they were written are listed, too: moved, merged, referenced or
    dropped, by which stage and rule.
    """
    from multiturn.cli.drawing import as_explanation
    from multiturn.cli.lines import explain_line
    from multiturn.engine.outcomes import outcomes
    from multiturn.pipelines.pipeline_file import load_pipeline
    from multiturn.prompts.record import to_json

    chosen, failures = load_pipeline(pipeline), Failures(debug=asked.debug)
    for conversion in failures.conversions(outcomes(asked.select(), chosen)):
        if format_ == "json":
            click.echo(to_json(explain_line(conversion)), nl=False)
        else:
            click.echo(as_explanation(conversion))
    failures.finish()


@click.command()
@suite_options
@click.option(
    "--from",
    "old",
    metavar="PIPELINE",
    default="spec",
    show_default=True,
    shell_complete=complete_pipeline,
    help="The pipeline to compare with.",
)
@click.option(
    "--to",
    "new",
    metavar="PIPELINE",
    required=True,
    shell_complete=complete_pipeline,
    help="The pipeline whose changes are shown.",
)
@quiet_option
@_format_option
def diff(asked: Asked, old: str, new: str, format_: str) -> None:
    """Show what another pipeline would change.

    Each case that differs is shown as a unified diff; the exit code is then 1.
    """
    from multiturn.cli.drawing import as_diff
    from multiturn.cli.lines import DiffLine
    from multiturn.engine.outcomes import cases
    from multiturn.pipelines.pipeline_file import load_pipeline
    from multiturn.prompts.record import to_json

    before, after = load_pipeline(old), load_pipeline(new)
    failures = Failures(debug=asked.debug)
    compared = same = 0
    for case in cases(asked.select()):
        first = case.converted(before, strict=asked.strict)
        second = case.converted(after, strict=asked.strict) if first.error is None else first
        if second.error is not None:
            failures.add(second.error)
        elif first.conversion is not None and second.conversion is not None:
            compared += 1
            changes = as_diff(first.conversion, second.conversion, old, new)
            same += not changes
            if format_ == "json":
                found = first.conversion.case
                line = DiffLine(found.suite, found.id, click.unstyle(changes) or None)
                click.echo(to_json(line), nl=False)
            else:
                click.echo(changes, nl=False)
    if format_ == "text":
        say_summary(f"{number_of(compared, 'case')}: {same} same, {compared - same} differ")
    failures.finish()
    sys.exit(same < compared)
