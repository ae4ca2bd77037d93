"""Conversions for people to read: explanations and diffs."""

from collections.abc import Iterable

import click

from multiturn.cli.rendering import role_heading
from multiturn.engine.provenance import explain
from multiturn.engine.record import record_of, to_yaml
from multiturn.model import Conversion
from multiturn.pipelines.pipeline import request_of
from multiturn.review.diff import unified_diff
from multiturn.text import visible
from multiturn.turns import ROLES


def as_explanation(conversion: Conversion) -> str:
    """Draw where the texts of a conversion come from, and what became of each segment."""
    lines: list[str] = []
    heading = ""
    for line in str(explain(conversion)).split("\n"):
        if not line.startswith(" "):
            heading = line
            lines.append(
                role_heading(line) if line in ROLES else click.style(line, bold=bool(line))
            )
        else:
            is_origin = not line.startswith("  |") and not heading.startswith("not ")
            lines.append(click.style(line, dim=True) if is_origin else line)
    return "\n".join(lines)


def as_diff(before: Conversion, after: Conversion, old: str, new: str) -> str:
    """Draw the difference of two conversions of a case as a unified diff; empty if none."""
    name = f"{before.case.suite} · {before.case.id}"
    first, second = (
        to_yaml(record_of(request_of(item), item.notices)).decode() for item in (before, after)
    )
    return as_text_diff(first, second, f"{name} · {old}", f"{name} · {new}")


def as_text_diff(before: str, after: str, old: str, new: str) -> str:
    """Draw the difference of two texts, with their names, as a unified diff; empty if none."""
    return colored(unified_diff(before, after, old, new))


def colored(lines: Iterable[str]) -> str:
    """Draw the lines of a unified diff."""
    colors = {"+": "green", "-": "red", "@": "cyan"}
    return "".join(click.style(visible(line), fg=colors.get(line[0])) + "\n" for line in lines)
