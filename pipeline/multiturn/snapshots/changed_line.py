"""What is new in a case, and the line of a suite or a pipeline that has it, for annotations."""

import linecache
import re
from collections.abc import Iterator, Sequence
from os.path import basename

from multiturn.errors import Place
from multiturn.explaining.spans import Span
from multiturn.pipelines.pipeline import Pipeline
from multiturn.snapshots.reviewed_case import ReviewedCase
from multiturn.snapshots.snapshot_file import RecordedSnapshot, snapshot_record

_NARROWEST = 20  # characters of a line of a folded text


def new_spans(case: ReviewedCase, old: RecordedSnapshot) -> Iterator[tuple[str, Span, list[str]]]:
    """Yield the role and each span with what its old snapshot has in no message of that role.

    These are lines, or the path of a file.
    """
    known, data = _known(old), [each.data for each in old.messages]
    for message in case.judged:
        more = () if message.data in data else (*message.thinking, *message.calls)
        for span in (*message.spans, *more):
            texts = [span.path] if span.path and span.stage is None else _lines(span)
            if new := [text for text in texts if (message.role, text) not in known]:
                yield message.role, span, new


def new_lines(case: ReviewedCase, old: RecordedSnapshot, pipeline: Pipeline) -> Iterator[Place]:
    """Yield the lines of new texts and files, then of settings, and of options of the pipeline.

    What is gone has no line, and so have the settings of a target. The first arguments are those
    of ``new_spans``.
    """
    found, known = list(new_spans(case, old)), {text for _, text in _known(old)}
    patterns = {each.path: each.pattern for each in case.promoted}
    lines = [message.line for message in case.case.input_messages]
    for role, span, new in found:
        if span.stage is not None:
            continue
        first, texts = span.place.line, [basename(text) if span.path else text for text in new]
        if new[0] in known:  # with another role
            first, texts = max((n for n in lines if n <= first), default=1), [role]
            if role == "system" and (pattern := patterns.get(span.path)) is not None:
                first, texts = 1, [f"{quote}{pattern}" for quote in "\"' "]
        yield _line_with(span, first, texts)
    for key, value in snapshot_record(case).get("settings", {}).items():
        if value != old.settings.get(key):
            yield case.case.places.get(f"execution.{key}", Place())
    options = {step.name: step.options for step in pipeline.steps}
    for _, span, _ in found:
        for name, value in options.get(span.stage or "", {}).items():
            pieces = re.split(r"\{\w+\}", value) if isinstance(value, str) else [""]
            if any(pieces) and all(piece in span.text for piece in pieces):
                yield pipeline.places.get((span.stage or "", name), Place())


def _known(old: RecordedSnapshot) -> set[tuple[str, str]]:
    """Return each line and each file of a snapshot, with its role."""
    spans = ((message.role, span) for message in old.messages for span in message.spans)
    return {(role, text) for role, span in spans for text in (span.path, *_lines(span))}


def _lines(span: Span) -> list[str]:
    return [line.strip() for line in span.text.split("\n") if line.strip()]


def _line_with(span: Span, first: int, texts: Sequence[str]) -> Place:
    """Return the place of the first line, from one on, with one of some texts, or part of it."""
    place = span.place
    linecache.checkcache(place.file)
    most = None if first == 1 else span.text.count("\n") + len(span.text) // _NARROWEST + 3
    for number, line in enumerate(linecache.getlines(place.file)[first - 1 :][:most], first):
        written = line.strip()
        if any(text in line or (len(written) > 2 and written in text) for text in texts):
            return Place(place.file, number)
    return place if first == place.line else Place()
