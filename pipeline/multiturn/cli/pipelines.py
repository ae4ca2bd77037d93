"""The commands that show stages, and those for editors and shells: stages, schema, completion."""

from typing import TYPE_CHECKING

import click

from multiturn.cli import options as shared
from multiturn.cli.printing import echo, echo_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multiturn.pipelines.step import Step

_KINDS = ("suite", "pipeline", "targets", "check", "diff", "explain", "report", "snapshot")


@click.command(cls=shared.MultiturnCommand)
@click.argument(
    "pipeline", metavar="[PIPELINE]", required=False, shell_complete=shared.complete_pipeline
)
@shared.verbose_option
def stages(pipeline: str | None, verbose: bool) -> None:
    """List every stage, or those of a pipeline in their order.

    Each has its contract, which is what it requires, provides and consumes, and its options. With
    PIPELINE, the details of the stages that only this pipeline has follow.
    """
    from multiturn.pipelines.contract import contract_of, options_of, summary_of
    from multiturn.pipelines.pipeline_file import read_pipeline
    from multiturn.pipelines.registry import find_stage, installed_stages, name_of, stage_names

    shared.start_log(verbose)
    installed = installed_stages()
    known = {name: find_stage(name) for name in [*stage_names(), *sorted(installed)]}
    steps = () if pipeline is None else read_pipeline(pipeline).steps
    shown = {name_of(step.stage): step.stage for step in steps if step.stage not in known.values()}
    if shared.is_default("pipeline"):
        shown |= known
    else:
        _show_order(steps)
    for name, stage in shown.items():
        contract = contract_of(stage)
        of_package = f" of {installed[name].dist.name}" if name in installed else ""
        echo(click.style(name, bold=True) + of_package)
        echo(f"  {summary_of(stage)}")
        if contract:
            echo(f"  {contract.in_words()}")
        for option, details in options_of(stage).items():
            echo(f"  {option}: {details.in_words()}")
        echo()


def _show_order(steps: "Sequence[Step]") -> None:
    from multiturn.pipelines.contract import as_yaml_value, contract_of, ordered_facts

    kinds = ("requires", "provides", "consumes")
    rows: list[tuple[str, ...]] = [("", "stage", *kinds, "options")]
    for number, step in enumerate(steps, 1):
        contract = contract_of(step.stage)
        facts = [", ".join(ordered_facts(getattr(contract, k))) if contract else "?" for k in kinds]
        options = [f"{name}: {as_yaml_value(value)}" for name, value in step.options.items()]
        rows.append((str(number), step.name, *facts, ", ".join(options)))
    echo_table(rows)


@click.command(cls=shared.MultiturnCommand)
@click.argument("kind", metavar="KIND", type=click.Choice(_KINDS))
def schema(kind: str) -> None:
    """Print the JSON Schema of files, or of a command's output.

    Editors use the kinds suite, pipeline and targets to describe keys, to complete them, and to
    underline errors. The kinds check, diff, explain, report and snapshot are those of the lines
    that these commands print with --format json.
    """
    import json

    from multiturn.cli.schemas import SCHEMAS

    echo(json.dumps(SCHEMAS[kind](), indent=2, ensure_ascii=False))


@click.command(cls=shared.MultiturnCommand)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    It completes commands, options, and values such as the ids of cases.
    """
    from click.shell_completion import get_completion_class

    root = context.find_root()
    kind = get_completion_class(shell)
    if kind is not None:
        echo(kind(root.command, {}, "multiturn", "_MULTITURN_COMPLETE").source())
