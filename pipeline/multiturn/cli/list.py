"""The command that lists suites and their cases."""

from functools import lru_cache
from heapq import nlargest
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import click

from multiturn.cli import options as shared
from multiturn.cli.printing import echo, echo_lines
from multiturn.errors import MultiturnError, cut
from multiturn.text import in_line, number_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from multiturn.model.conversion import Conversion
    from multiturn.model.tokens import Tokens

_MOST_CASES = 10
_MOST_PARTS = 5  # of a case

Sized = tuple["Conversion", "Tokens", dict[str, int]]


@shared.suite_command("list")
@shared.flag(
    "--tokens",
    help="Show the largest prompts, and what makes them large: files, guidelines and messages.",
)
@shared.target_options(
    "With --tokens: count what this target is sent, as its model does; else tokens are estimated."
    " No key is needed.",
    "preview_target",
)
@shared.case_format_option
def list_cases(options: shared.SuiteOptions, tokens: bool) -> None:
    """List suites and their cases.

    Of each case: its id, messages, attached files, images and other media, and guidelines.

    SUITE is what convert takes. Cases are read, and converted only with --tokens, --strict or a
    pipeline of your own. A case with an error is reported and skipped; the exit code is then 1.
    """
    from multiturn.explaining.record import to_json

    if (options.target or options.targets_file) and not tokens:
        raise click.UsageError("--target and --targets are for --tokens; add it")
    conversions = options.conversions(only_files=not tokens)
    sized = _sized(conversions, options) if tokens else ()
    if options.format_ == "json":
        counted = (
            {**_entry(it), "tokens": size.count, "parts": parts} for it, size, parts in sized
        )
        for entry in counted if tokens else map(_entry, conversions):
            echo(to_json(entry), nl=False)
    elif tokens:
        _show_largest(sized)
    else:
        _show(conversions)


def _sized(conversions: "Iterable[Conversion]", options: shared.SuiteOptions) -> "Iterable[Sized]":
    """Yield each case with its size; one that the target refuses is a failure."""
    from multiturn.engine.target import load_target
    from multiturn.explaining.explanation import size_of
    from multiturn.providers.targets import DEFAULT

    provider = load_target(options.target or DEFAULT, file=options.targets_file, sends=False)
    count = lru_cache(256)(provider.tokenizer.count)  # guidelines are in many cases
    for conversion in conversions:
        try:
            yield conversion, *size_of(conversion, provider, count)
        except MultiturnError as error:
            options.failures.add(error)


def _show_largest(sized: "Iterable[Sized]") -> None:
    """Print the number of all tokens, and the largest cases with their largest parts."""
    from multiturn.cli.sending import without_media

    total = cases = media = 0
    is_exact = True
    largest: list[tuple[int, str, dict[str, int]]] = []
    for conversion, size, parts in sized:
        cases += 1
        total += size.count
        media += size.media
        is_exact &= size.is_exact
        name = f"{conversion.case.suite} · {conversion.case.id}"
        found = [*largest, (size.count, name, parts)]
        largest = nlargest(_MOST_CASES, found, key=itemgetter(0))
    about = "" if is_exact else "about "
    more = f"; the {len(largest)} largest:" if len(largest) < cases else ""
    all_cases = f"{number_of(cases, 'case')}{without_media(media)}{more}"
    echo(f"{about}{number_of(total, 'token')} in {all_cases}")
    width = len(f"{largest[0][0]:,}") if largest else 0
    for tokens, name, parts in largest:
        echo(f"{tokens:>{width},}  {click.style(in_line(name), bold=True)}")
        for what, number in [*parts.items()][:_MOST_PARTS]:
            echo(f"{number:>{width},}    {in_line(what)}")


def _show(conversions: "Iterable[Conversion]") -> None:
    """Print the cases below the names of their suites: messages, files, and guidelines last."""
    for suite, cases in groupby(conversions, lambda conversion: conversion.case.suite):
        echo(click.style(in_line(suite), bold=True))
        echo_lines(map(_line, cases))


def _line(conversion: "Conversion") -> str:
    """Return what is shown of a case."""
    said = [number_of(len(conversion.case.input_messages), "message")]
    for file in sorted(conversion.input_files, key=lambda file: file.guideline):
        kind = "file" if file.media is None else file.media.kind
        # An address may be of any length.
        said.append(f"{'guideline' if file.guideline else kind} {cut(file.path)}")
    return in_line(f"  {conversion.case.id}: {', '.join(said)}")


def _entry(conversion: "Conversion") -> dict[str, object]:
    """Return what JSON says of a case."""
    case, files = conversion.case, conversion.input_files
    media = [file.media for file in files if file.media is not None]
    return {
        "suite": case.suite,
        "id": case.id,
        "file": case.file,
        "line": case.line,
        "messages": [message.role for message in case.input_messages],
        "files": [f.resolved_path for f in files if f.resolved_path and not f.guideline],
        "guidelines": [file.resolved_path for file in files if file.guideline],
        **({"media": media} if media else {}),
    }
