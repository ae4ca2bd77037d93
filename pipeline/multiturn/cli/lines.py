"""What commands print for programs with ``--format json``: a struct for each line."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from multiturn.engine.explanation import Explanation
from multiturn.engine.spans import Spans
from multiturn.errors import MultiturnError
from multiturn.files.media import Media

if TYPE_CHECKING:
    from multiturn.report.comparison import Report

Severity = Literal["error", "warning", "note"]
Suite = Annotated[str, Meta(description="path of the suite, from the root if that is a project's.")]
CaseId = Annotated[str, Meta(description="id of the case.")]
File = Annotated[str | None, Meta(description="path of the file; null if it is about none.")]
_Line = Annotated[
    int | None, Meta(description="line of the file, from 1; null for the whole file.")
]


class CheckLine(Struct, frozen=True, kw_only=True):
    """What `multiturn check` prints of an error, a warning or a note."""

    severity: Annotated[
        Severity,
        Meta(description="only an error makes the exit code 1; a note names a target's repair."),
    ]
    file: File
    line: _Line
    column: Annotated[int | None, Meta(description="column of the line, from 1; null for all.")]
    id: Annotated[str | None, Meta(description="id of the case; null if it belongs to none.")]
    message: Annotated[str, Meta(description="what is wrong, and what would be right.")]


class DiffLine(Struct, frozen=True):
    """What `multiturn diff` prints of a case."""

    suite: Suite
    id: CaseId
    diff: Annotated[
        str | None,
        Meta(description="a unified diff of what convert writes as YAML; null for none."),
    ]


class ExplainedMedia(Struct, frozen=True):
    """An image, a document or audio."""

    kind: Annotated[str, Meta(description="image, document or audio.")]
    media_type: Annotated[str | None, Meta(description="such as image/png; null for an address.")]
    size: Annotated[int | None, Meta(description="in bytes; null for an address.")]
    digest: Annotated[
        str | None, Meta(description="SHA-256 of the bytes, in hexadecimal; null for an address.")
    ]
    path: Annotated[
        str | None,
        Meta(description="of its file, or its name, as the suite has it; null for none."),
    ]
    url: Annotated[str | None, Meta(description="the address; null for bytes.")]
    detail: Annotated[str | None, Meta(description="how closely to look; null for the default.")]


class ExplainedSpan(Struct, frozen=True):
    """A stretch of text with one origin."""

    text: Annotated[str, Meta(description="as the model sees it.")]
    origin: Annotated[str, Meta(description="where it comes from, in words.")]
    path: Annotated[str | None, Meta(description="path of its file, from the root; null for none.")]
    file: Annotated[
        str | None, Meta(description="the file that has it, or attaches its file; null for none.")
    ] = None
    line: Annotated[int | None, Meta(description="line of that file, from 1.")] = None
    column: Annotated[int | None, Meta(description="column of that line, from 1.")] = None
    key: Annotated[str | None, Meta(description="the key that has it in the suite.")] = None
    stage: Annotated[
        str | None, Meta(description="the stage that added it; empty if that is not known.")
    ] = None
    changed_by: Annotated[
        str | None, Meta(description="the last stage that changed it; null if none did.")
    ] = None
    media: Annotated[
        ExplainedMedia | None, Meta(description="what the text stands for; null for text.")
    ] = None


class ExplainedMessage(Struct, frozen=True):
    """A message of the chat prompt."""

    role: Annotated[str, Meta(description="system, user, assistant or tool.")]
    spans: Annotated[tuple[ExplainedSpan, ...], Meta(description="its content, in order.")]


class ExplainedSegment(Struct, frozen=True):
    """What became of a segment of the input, or of a text that is in no message."""

    file: File
    line: _Line
    segment: Annotated[str, Meta(description="which one it is, by the keys of the suite.")]
    fate: Annotated[str, Meta(description="what became of it; shown where it was written.")]
    why: Annotated[str, Meta(description="the stage and the rule; empty if it is shown.")]


class ExplainLine(Struct, frozen=True):
    """What `multiturn explain` prints of a case."""

    suite: Suite
    id: CaseId
    chat_prompt: Annotated[
        tuple[ExplainedMessage, ...] | None,
        Meta(description="the messages; null where the pipeline gives no chat prompt."),
    ]
    system: Annotated[
        tuple[ExplainedSpan, ...],
        Meta(description="the system message that is sent where there is no chat prompt."),
    ]
    question: Annotated[tuple[ExplainedSpan, ...], Meta(description="the transcript, in order.")]
    segments: Annotated[tuple[ExplainedSegment, ...], Meta(description="in the order of the case.")]
    target: Annotated[
        str | None, Meta(description="whose messages these are; null for the pipeline's own.")
    ] = None
    repairs: Annotated[
        tuple[str, ...], Meta(description="what the rules of the target required.")
    ] = ()


class ReportLine(Struct, frozen=True, kw_only=True):
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
    privilege_changes: Annotated[
        tuple[str, ...], Meta(description="the changes of privilege, in words.")
    ] = ()
    diff: Annotated[
        str | None,
        Meta(description="lines that differ, as in Markdown; null for none, or for one side."),
    ] = None
    error: Annotated[str | None, Meta(description="why it failed.")] = None


def check_line(error: MultiturnError, severity: Severity) -> CheckLine:
    """Return the line of an error, or of a warning."""
    where = error.where
    return CheckLine(
        severity=severity,
        file=where.file or None,
        line=where.line or None,
        column=where.column or None,
        id=error.case_id,
        message=message_without_place(error),
    )


def message_without_place(error: MultiturnError) -> str:
    """Return what is wrong, without file and line."""
    return ": ".join(filter(None, (error.where.label, error.what)))


def explain_line(found: Explanation) -> ExplainLine:
    """Return the line of an explanation."""
    messages = None
    if found.chat is not None:
        messages = tuple(ExplainedMessage(each.role, _spans(each.shown)) for each in found.chat)
    segments = tuple(
        ExplainedSegment(
            each.where.file or None,
            each.where.line or None,
            each.where.label,
            each.fate,
            each.why,
        )
        for each in found.fates
    )
    system, question = _spans(found.system), _spans(found.question)
    target = found.target or None
    return ExplainLine(
        found.suite, found.id, messages, system, question, segments, target, found.repairs
    )


def _spans(spans: Spans) -> tuple[ExplainedSpan, ...]:
    return tuple(
        ExplainedSpan(
            span.text,
            span.origin,
            span.path or None,
            span.place.file or None,
            span.place.line or None,
            span.place.column or None,
            span.key or None,
            span.stage,
            span.changed_by,
            None if span.media is None else _media(span.media),
        )
        for span in spans
    )


def _media(media: Media) -> ExplainedMedia:
    return ExplainedMedia(
        media.kind,
        media.media_type or None,
        media.size if media.digest else None,
        media.digest or None,
        media.path,
        media.url,
        media.detail,
    )


def report_lines(report: "Report") -> Iterator[ReportLine]:
    """Yield the lines of a report, those that are of no case first."""
    from multiturn.report.comparison import diff_lines

    for error in report.errors:
        yield ReportLine(status="failed", error=error)
    if report.pipeline:
        yield ReportLine(status="changed", causes=report.pipeline)
    for each in report.comparisons:
        case, was = each.case, each.was
        yield ReportLine(
            suite=case.suite,
            id=case.id,
            line=case.line or None,
            status=each.status if report.then or case.error else None,
            was_suite=was.suite if was else None,
            was_id=was.id if was else None,
            causes=each.causes,
            privilege_changes=tuple(map(str, each.privileges)),
            diff="\n".join(diff_lines(report, each)) or None if each.causes else None,
            error=case.error or None,
        )
