"""The commands for editors and shells: schema, completion."""

import click

_KINDS = ("suite", "pipeline", "targets", "check", "diff", "explain", "report", "snapshot")


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


@click.command()
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
        click.echo(kind(root.command, {}, "multiturn", "_MULTITURN_COMPLETE").source())
