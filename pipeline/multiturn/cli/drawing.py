"""Conversions for people to read: explanations and diffs."""

from collections.abc import Iterable, Iterator

import click

from multiturn.cli.rendering import role_heading
from multiturn.engine.explanation import Explanation
from multiturn.engine.record import Record, to_yaml
from multiturn.model.turns import ROLES
from multiturn.review.diff import unified_diff
from multiturn.text import in_line, visible


def as_explanation(explanation: Explanation) -> str:
    """Draw where the texts of a case come from, and what became of each segment."""
    lines: list[str] = []
    heading = ""
    for line in str(explanation).split("\n"):
        if not line.startswith(" "):
            heading = line
            lines.append(
                role_heading(line) if line in ROLES else click.style(line, bold=bool(line))
            )
        else:
            is_origin = not line.startswith("  |") and not heading.startswith("not ")
            lines.append(click.style(line, dim=True) if is_origin else line)
    return "\n".join(lines)


def as_diff(before: Record, after: Record, old: str, new: str) -> str:
    """Draw the difference of two records of a case as a unified diff; empty if none."""
    name = f"{before['suite']} · {before['id']}"
    first, second = (to_yaml(record).decode() for record in (before, after))
    return as_text_diff(first, second, f"{name} · {old}", f"{name} · {new}")


def as_text_diff(before: str, after: str, old: str, new: str) -> str:
    """Draw the difference of two texts, with their names, as a unified diff; empty if none."""
    return colored(unified_diff(before, after, in_line(old), in_line(new)))


def colored(lines: Iterable[str]) -> str:
    """Draw the lines of a unified diff."""
    return "".join(f"{line}\n" for line in colored_lines(lines))


def colored_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a unified diff as they are drawn."""
    colors = {"+": "green", "-": "red", "@": "cyan"}
    return (click.style(visible(line), fg=colors.get(line[0])) for line in lines)
