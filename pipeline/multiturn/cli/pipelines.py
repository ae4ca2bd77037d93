"""The commands that show stages, pipelines and schemas: stages, show, schema."""

import click

from multiturn.cli.completion import complete_pipeline
from multiturn.cli.options import start_log, verbose_option
from multiturn.text import visible

_KINDS = ("suite", "pipeline", "targets", "check", "diff", "explain", "report", "snapshot")


@click.command()
@click.argument("pipeline", metavar="[PIPELINE]", required=False, shell_complete=complete_pipeline)
def stages(pipeline: str | None) -> None:
    """List every stage with its options and its contract.

    The stages that only PIPELINE has come first, then those that ship and those of packages.
    """
    from multiturn.pipelines.contract import contract_of, options_of, summary_of
    from multiturn.pipelines.pipeline_file import read_pipeline
    from multiturn.pipelines.registry import find_stage, installed_stages, name_of, stage_names

    others = {name: find_stage(name) for name in [*stage_names(), *sorted(installed_stages())]}
    steps = read_pipeline(pipeline).steps if pipeline else ()
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
@click.argument("pipeline", metavar="[PIPELINE]", default="spec", shell_complete=complete_pipeline)
@verbose_option
def show(pipeline: str, verbose: bool) -> None:
    """Show the stages of a pipeline, by default spec.

    They are in order, each with what it requires, provides and consumes, and its options.
    """
    from multiturn.pipelines.contract import as_yaml_value, contract_of, ordered_facts
    from multiturn.pipelines.pipeline_file import read_pipeline

    start_log(verbose)
    rows: list[tuple[str, ...]] = [("", "stage", "requires", "provides", "consumes", "options")]
    for number, step in enumerate(read_pipeline(pipeline).steps, 1):
        contract = contract_of(step.stage)
        facts = ("requires", "provides", "consumes")
        cells = [
            ", ".join(ordered_facts(getattr(contract, kind))) if contract else "?" for kind in facts
        ]
        options = ", ".join(
            f"{name}: {as_yaml_value(value)}" for name, value in step.options.items()
        )
        rows.append((str(number), step.name, *cells, options))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo(visible("  ".join(map(str.ljust, row, widths)).rstrip()))


@click.command()
@click.argument("kind", metavar="KIND", type=click.Choice(_KINDS))
def schema(kind: str) -> None:
    """Print the JSON Schema of files, or of a command's output.

    Editors use the kinds suite, pipeline and targets to describe keys, to complete them, and to
    underline errors. The kinds check, diff, explain, report and snapshot are those of the lines
    that these commands print with --format json.
    """
    import json

    from multiturn.cli.schemas import SCHEMAS

    click.echo(json.dumps(SCHEMAS[kind](), indent=2, ensure_ascii=False))
