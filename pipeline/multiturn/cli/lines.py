"""What commands print for programs: a struct for each line of JSON, and annotations of GitHub."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from multiturn.errors import MultiturnError
from multiturn.files import find_root
from multiturn.model import Conversion
from multiturn.prompts.provenance import Fate, Spans, explain
from multiturn.prompts.record import utf8
from multiturn.text import visible

if TYPE_CHECKING:
    from multiturn.review.report.comparison import Report

Suite = Annotated[str, Meta(description="path of the suite, as it was named or found.")]
CaseId = Annotated[str, Meta(description="id of the case.")]
File = Annotated[str | None, Meta(description="path of the file; null if it is about none.")]
Line = Annotated[int | None, Meta(description="line of the file, from 1; null for the whole file.")]


class Finding(Struct, frozen=True, kw_only=True):
    """What `multiturn check` prints of an error or a warning."""

    severity: Annotated[
        Literal["error", "warning"], Meta(description="only an error makes the exit code 1.")
    ]
    file: File
    line: Line
    column: Annotated[int | None, Meta(description="column of the line, from 1; null for all.")]
    id: Annotated[str | None, Meta(description="id of the case; null if it belongs to none.")]
    message: Annotated[str, Meta(description="what is wrong, and what would be right.")]


class Compared(Struct, frozen=True):
    """What `multiturn diff` prints of a case."""

    suite: Suite
    id: CaseId
    diff: Annotated[
        str | None,
        Meta(description="a unified diff of what convert writes as YAML; null for no difference."),
    ]


class ExplainedSpan(Struct, frozen=True):
    """A stretch of text with one origin."""

    text: Annotated[str, Meta(description="as the model sees it.")]
    origin: Annotated[str, Meta(description="where it comes from, in words.")]
    path: Annotated[
        str | None,
        Meta(description="path, from the root, of the file that it belongs to; null for none."),
    ]


class ExplainedMessage(Struct, frozen=True):
    """A message of the chat prompt."""

    role: Annotated[str, Meta(description="system, user, assistant or tool.")]
    spans: Annotated[tuple[ExplainedSpan, ...], Meta(description="its content, in order.")]


class ExplainedSegment(Struct, frozen=True):
    """What became of a segment of the input, or of a text that is in no message."""

    file: File
    line: Line
    segment: Annotated[str, Meta(description="which one it is, by the keys of the suite.")]
    fate: Annotated[str, Meta(description="what became of it; shown where it was written.")]
    why: Annotated[str, Meta(description="the stage and the rule; empty if it is shown.")]


class Explained(Struct, frozen=True):
    """What `multiturn explain` prints of a case."""

    suite: Suite
    id: CaseId
    chat_prompt: Annotated[
        tuple[ExplainedMessage, ...] | None,
        Meta(description="the messages; null where the pipeline gives no chat prompt."),
    ]
    question: Annotated[tuple[ExplainedSpan, ...], Meta(description="the transcript, in order.")]
    segments: Annotated[tuple[ExplainedSegment, ...], Meta(description="in the order of the case.")]


class Reported(Struct, frozen=True, kw_only=True):
    """What `multiturn report` prints of a case; without suite and id, of what is in none."""

    suite: Annotated[str | None, Meta(description="path of the suite, from the root.")] = None
    id: Annotated[str | None, Meta(description="id of the case.")] = None
    line: Annotated[int | None, Meta(description="line of the case in the suite, from 1.")] = None
    status: Annotated[
        Literal["failed", "changed", "renamed", "added", "removed", "same"] | None,
        Meta(description="what has become of it; null if nothing is compared."),
    ]
    was_suite: Annotated[str | None, Meta(description="of a renamed case: its suite then.")] = None
    was_id: Annotated[str | None, Meta(description="of a renamed case: its id then.")] = None
    causes: Annotated[
        tuple[str, ...], Meta(description="what changed its texts, in words; or the pipeline.")
    ] = ()
    dangers: Annotated[
        tuple[str, ...], Meta(description="what speaks with another voice now, in words.")
    ] = ()
    diff: Annotated[
        str | None,
        Meta(description="lines that differ, as the summary has them; null for none, or one side."),
    ] = None
    error: Annotated[str | None, Meta(description="why it failed.")] = None


def finding(error: MultiturnError, severity: Literal["error", "warning"]) -> Finding:
    """Return the line of an error, or of a warning."""
    where = error.where
    return Finding(
        severity=severity,
        file=utf8(where.file) or None,
        line=where.line or None,
        column=where.column or None,
        id=error.case_id,
        message=utf8(": ".join(filter(None, (where.label, error.what)))),
    )


def explained(conversion: Conversion) -> Explained:
    """Return the line of an explanation."""
    case, found = conversion.case, explain(conversion)
    messages = None
    if found.chat is not None:
        messages = tuple(ExplainedMessage(each.role, _spans(each.spans)) for each in found.chat)
    segments = tuple(map(_segment, found.fates))
    return Explained(utf8(case.suite), case.id, messages, _spans(found.question), segments)


def _spans(spans: Spans) -> tuple[ExplainedSpan, ...]:
    return tuple(
        ExplainedSpan(span.text, utf8(span.origin), utf8(span.path) or None) for span in spans
    )


def _segment(fate: Fate) -> ExplainedSegment:
    where = fate.where
    file, line = utf8(where.file) or None, where.line or None
    return ExplainedSegment(file, line, where.label, fate.fate, utf8(fate.why))


def reported(report: "Report") -> Iterator[Reported]:
    """Yield the lines of a report, those that are of no case first."""
    from multiturn.review.report.markdown import difference

    for error in report.errors:
        yield Reported(status="failed", error=utf8(error))
    if report.pipeline:
        yield Reported(status="changed", causes=report.pipeline)
    for each in report.comparisons:
        case, was = each.case, each.then
        is_renamed = each.status == "renamed" and was is not None
        yield Reported(
            suite=utf8(case.suite),
            id=case.id,
            line=case.line or None,
            status=each.status if report.then or each.error else None,
            was_suite=utf8(was.suite) if was and is_renamed else None,
            was_id=was.id if was and is_renamed else None,
            causes=tuple(map(utf8, each.causes)),
            dangers=tuple(utf8(text) for _, text in each.dangers),
            diff="\n".join(difference(report, each)) or None if each.causes else None,
            error=utf8(each.error) or None,
        )


def annotation(found: Finding, title: str) -> str:
    """Return the command by which GitHub shows a finding beside a line of a pull request.

    The file is named from the top of its repository. Escapes are those of the toolkit:
    https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts
    """
    properties = {
        "title": title,
        "file": found.file and _from_top(found.file),
        "line": found.line,
        "col": found.column,
    }
    written = ",".join(
        f"{name}={_escaped(visible(str(value))).replace(':', '%3A').replace(',', '%2C')}"
        for name, value in properties.items()
        if value is not None
    )
    return f"::{found.severity} {written}::{_escaped(visible(found.message))}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\n", "%0A")  # no other line end is left


def _from_top(path: str) -> str:
    """Return a path from the top of its repository; as it is, if it is in none."""
    real = os.path.realpath(path)
    top = find_root(Path(os.path.dirname(real)))
    return os.path.relpath(real, top) if os.path.exists(top / ".git") else path
