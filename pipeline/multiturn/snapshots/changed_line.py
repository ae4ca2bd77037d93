"""The line of a suite or a pipeline that has changed a case, for annotations beside the code."""

import linecache
import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from os.path import basename

from multiturn.errors import Place
from multiturn.explaining.spans import Span
from multiturn.pipelines.pipeline import Pipeline
from multiturn.snapshots.reviewed_case import ReviewedCase
from multiturn.snapshots.snapshot_file import (
    recorded_messages,
    recorded_settings,
    snapshot_record,
)

_NARROWEST = 20  # characters of a line of a folded text


def changed_line(case: ReviewedCase, old: str, pipeline: Pipeline) -> Place:
    """Return the first line with what is new in a case; nowhere if there is none.

    What is gone has no line, and so have the settings of a target.

    Args:
        case: as it is.
        old: its recorded snapshot.
        pipeline: which has converted it.
    """
    stages = _of_stages(case, old, pipeline)
    found = chain(_of_texts(case, old), _of_settings(case, old), stages)
    return next((place for place in found if place.line), Place())


def _of_texts(case: ReviewedCase, old: str) -> Iterator[Place]:
    """Yield the lines of texts and files that no message of their role had."""
    known, data = _known(old), [message.data for message in recorded_messages(old)]
    roles_of_known = {text for _, text in known}
    patterns = {each.path: each.pattern for each in case.promoted}
    for message in case.judged:
        more = () if message.data in data else (*message.thinking, *message.calls)
        for span in (*message.spans, *more):
            texts = [] if span.stage is not None else [span.path] if span.path else _lines(span)
            new = [text for text in texts if (message.role, text) not in known]
            pattern = patterns.get(span.path) if message.role == "system" else None
            if new and new[0] not in roles_of_known:  # in none of another role, either
                yield _line_with(span, span.place.line, map(basename, new) if span.path else new)
            elif new and pattern is not None:
                yield _line_with(span, 1, [f"{quote}{pattern}" for quote in "\"' "])
            elif new:
                lines = (each.line for each in case.case.input_messages)
                line = max((line for line in lines if line <= span.place.line), default=0)
                yield _line_with(span, line, [message.role])


def _of_settings(case: ReviewedCase, old: str) -> Iterator[Place]:
    was, now = recorded_settings(old), snapshot_record(case).get("settings", {})
    for key in now:
        if now[key] != was.get(key):
            yield case.case.places.get(f"execution.{key}", Place())


def _of_stages(case: ReviewedCase, old: str, pipeline: Pipeline) -> Iterator[Place]:
    """Yield the lines of options by which stages have added texts."""
    known = _known(old)
    options = {step.name: step.options for step in pipeline.steps}
    for message in case.judged:
        for span in message.spans:
            if span.stage and any((message.role, text) not in known for text in _lines(span)):
                for name, value in options.get(span.stage, {}).items():
                    pieces = re.split(r"\{\w+\}", value) if isinstance(value, str) else [""]
                    if any(pieces) and all(piece in span.text for piece in pieces):
                        yield pipeline.places.get((span.stage, name), Place())


def _known(old: str) -> set[tuple[str, str]]:
    """Return each line and each file of a snapshot, with its role."""
    return {
        (message.role, text)
        for message in recorded_messages(old)
        for span in message.spans
        for text in (span.path, *_lines(span))
    }


def _lines(span: Span) -> list[str]:
    return [line.strip() for line in span.text.split("\n") if line.strip()]


def _line_with(span: Span, first: int, texts: Iterator[str] | Sequence[str]) -> Place:
    """Return the place of the first line, from one on, with one of some texts, or part of it."""
    place, texts = span.place, list(texts)
    linecache.checkcache(place.file)
    most = None if first == 1 else span.text.count("\n") + len(span.text) // _NARROWEST + 3
    lines = islice(linecache.getlines(place.file), first - 1, None)
    for number, line in enumerate(islice(lines, most), first):
        written = line.strip()
        if any(text in line or (len(written) > 2 and written in text) for text in texts):
            return Place(place.file, number)
    return place if first == place.line else Place()
