"""Completion of arguments and options in shells: quick, and silent about errors.

Shells run multiturn for each completion, as they do for every program of click. Ids are completed,
too, although that reads suites: they are long, and nobody knows them by heart.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

import click

from multiturn.errors import MultiturnError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_MOST_CASES = 2_000  # are read for a completion: nobody waits for more
_SAFE = re.compile(r"[\w./+-]+")  # a shell takes it as text; a suite may hold anything else


def complete_pipeline(
    context: click.Context, _: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Return the pipelines that ship; the shell adds files."""
    from click.shell_completion import CompletionItem

    from multiturn.pipelines.pipeline_file import pipeline_names

    names = _offered(pipeline_names(), incomplete)
    return [CompletionItem(incomplete, type="file"), *map(CompletionItem, names)]


def complete_case(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the ids in the suites that the line names so far."""
    # click leaves arguments unread while the option after them has no value.
    suites = context.params.get("suites") or context.args
    return _offered(islice(_case_ids(suites), _MOST_CASES), incomplete)


def complete_target(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the names in the targets file; nothing else in it is looked at."""
    from multiturn.providers.targets import target_names

    try:
        return _offered(target_names(context.params.get("targets_file")), incomplete)
    except MultiturnError:
        return []


def _offered(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete) and _SAFE.fullmatch(name)]


def _case_ids(paths: Iterable[str]) -> Iterator[str]:
    """Yield the ids of the cases that can be read."""
    from multiturn.engine.project import load_suite
    from multiturn.logs import LogSettings, configure

    configure(LogSettings("error"))
    for path in paths:
        if path == "-":  # the shell's own
            continue
        try:
            cases = load_suite(path, guideline_patterns=(), on_error=lambda _: None)
            yield from (case.id for case in cases)
        except MultiturnError:
            pass
