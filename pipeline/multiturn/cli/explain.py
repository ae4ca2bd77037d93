"""The command that shows where each text of a prompt comes from."""

from typing import TYPE_CHECKING

import click

from multiturn.cli import options as shared
from multiturn.cli.printing import echo, say_line
from multiturn.errors import MultiturnError, OptionError

if TYPE_CHECKING:
    from multiturn.explaining.explanation import Explanation


@shared.suite_command("explain")
@shared.preview_options
@shared.case_format_option
@click.option(
    "--at",
    "line",
    type=click.IntRange(1),
    metavar="LINE",
    help="Show only what becomes of this line of the suite.",
)
def explain_prompts(options: shared.SuiteOptions, line: int | None) -> None:
    """Show where each text of a prompt comes from.

    Segments that are not where they were written are listed, too: moved, merged, referenced or
    dropped, by which stage and rule. --at takes a line of one suite: a text, or all that begins
    there, such as a message or a case.
    """
    from multiturn.cli.lines import explain_line
    from multiturn.explaining.explanation import explain, explain_for, within
    from multiturn.explaining.record import to_json
    from multiturn.suites.streaming import extent_at

    provider, extent = options.provider(), None
    if line is not None:
        suites = options.select().suites
        if len(suites) != 1 or suites[0] == "-":
            raise OptionError("--at takes a line of one suite; name its file")
        extent = extent_at(suites[0], line)
    shown = 0
    for conversion in options.conversions():
        try:
            found = explain_for(conversion, provider) if provider else explain(conversion)
        except MultiturnError as error:
            options.failures.add(error)
            continue
        part = found if extent is None else within(found, extent)
        if part is None:
            continue
        if options.format_ == "json":
            echo(to_json(explain_line(part)), nl=False)
        else:
            echo(as_explanation(part))
        shown += 1
    if not shown and extent is not None:
        say_line(f"{extent.file}:{line}: no text of a prompt is written here")


def as_explanation(explanation: "Explanation") -> str:
    """Draw where the texts of a case come from, and what became of each segment."""
    from multiturn.cli.rendering import role_heading
    from multiturn.model.turns import ROLES

    def drawn(line: str) -> str:
        if line in ROLES:
            return role_heading(line)
        is_text = not line or line.startswith("  |")
        return line if is_text else click.style(line, **{"dim" if line[0] == " " else "bold": True})

    return "\n".join(map(drawn, str(explanation).split("\n")))
