"""Unified diffs in color."""

from collections.abc import Iterable, Iterator

import click

from multiturn.snapshots.text_diff import unified_diff
from multiturn.text import in_line, visible

_COLORS = {"+": "green", "-": "red", "@": "cyan"}


def as_text_diff(before: str, after: str, old: str, new: str) -> str:
    """Draw the difference of two texts, with their names, as a unified diff; empty if none."""
    lines = colored_lines(unified_diff(before, after, in_line(old), in_line(new)))
    return "".join(f"{line}\n" for line in lines)


def colored_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a unified diff as they are drawn."""
    return (click.style(visible(line), fg=_COLORS.get(line[0])) for line in lines)
