"""What commands print for programs with ``--format json``: a struct for each line."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct

from multiturn.errors import MultiturnError
from multiturn.explaining.explanation import Explanation
from multiturn.explaining.spans import Span

if TYPE_CHECKING:
    from multiturn.report.comparison import Report

Severity = Literal["error", "warning", "note"]
Suite = Annotated[str, Meta(description="path of the suite, from the root if that is a project's.")]
CaseId = Annotated[str, Meta(description="id of the case.")]
File = Annotated[str | None, Meta(description="path of the file; null if it is about none.")]
_Line = Annotated[
    int | None, Meta(description="line of the file, from 1; null for the whole file.")
]


class CheckLine(Struct, frozen=True):
    """What `multiturn check` prints of an error, a warning or a note.

    Attributes:
        severity: only an error makes the exit code 1; a note names a target's repair.
        column: column of the line, from 1; null for all.
        id: id of the case; null if it belongs to none.
        message: what is wrong, and what would be right.
    """

    severity: Severity
    file: File
    line: _Line
    column: int | None
    id: str | None
    message: str


class DiffLine(Struct, frozen=True):
    """What `multiturn diff` prints of a case.

    Attributes:
        diff: a unified diff of what convert writes as YAML; null for none.
    """

    suite: Suite
    id: CaseId
    diff: str | None


class ExplainedMedia(Struct, frozen=True):
    """An image, a document or audio.

    Attributes:
        kind: image, document or audio.
        media_type: such as image/png; null for an address.
        size: in bytes; null for an address.
        digest: SHA-256 of the bytes, in hexadecimal; null for an address.
        path: of its file, or its name, as the suite has it; null for none.
        url: the address; null for bytes.
        detail: how closely to look; null for the default.
    """

    kind: str
    media_type: str | None
    size: int | None
    digest: str | None
    path: str | None
    url: str | None
    detail: str | None


class ExplainedSpan(Struct, frozen=True):
    """A stretch of text with one origin.

    Attributes:
        text: as the model sees it.
        origin: where it comes from, in words.
        path: path of its file, from the root; null for none.
        file: the file that has it, or attaches its file; null for none.
        line: line of that file, from 1.
        column: column of that line, from 1.
        key: the key that has it in the suite.
        stage: the stage that added it; empty if that is not known.
        changed_by: the last stage that changed it; null if none did.
        media: what the text stands for; null for text.
    """

    text: str
    origin: str
    path: str | None
    file: str | None = None
    line: int | None = None
    column: int | None = None
    key: str | None = None
    stage: str | None = None
    changed_by: str | None = None
    media: ExplainedMedia | None = None


class ExplainedMessage(Struct, frozen=True):
    """A message of the chat prompt.

    Attributes:
        role: system, user, assistant or tool.
        spans: its content, in order.
    """

    role: str
    spans: tuple[ExplainedSpan, ...]


class ExplainedSegment(Struct, frozen=True):
    """What became of a segment of the input, or of a text that is in no message.

    Attributes:
        segment: which one it is, by the keys of the suite.
        fate: what became of it; shown where it was written.
        why: the stage and the rule; empty if it is shown.
    """

    file: File
    line: _Line
    segment: str
    fate: str
    why: str


class ExplainLine(Struct, frozen=True):
    """What `multiturn explain` prints of a case.

    Attributes:
        chat_prompt: the messages; null where the pipeline gives no chat prompt.
        system: the system message that is sent where there is no chat prompt.
        question: the texts of the question, in order.
        segments: in the order of the case.
        target: whose messages these are; null for the pipeline's own.
        repairs: what the rules of the target required.
        settings: by name; the text is JSON, and empty for one of the suite that is left out.
        tools: what the model may call, by name; the text is JSON.
    """

    suite: Suite
    id: CaseId
    chat_prompt: tuple[ExplainedMessage, ...] | None
    system: tuple[ExplainedSpan, ...]
    question: tuple[ExplainedSpan, ...]
    segments: tuple[ExplainedSegment, ...]
    target: str | None = None
    repairs: tuple[str, ...] = ()
    settings: dict[str, ExplainedSpan] = {}
    tools: dict[str, ExplainedSpan] = {}


class ReportLine(Struct, frozen=True, kw_only=True):
    """What `multiturn report` prints of a case; without suite and id, of what is in none.

    Attributes:
        suite: path of the suite, from the root.
        id: id of the case.
        line: line of the case in the suite, from 1.
        status: what has become of it; null if nothing is compared.
        was_suite: of a renamed case: its suite then.
        was_id: of a renamed case: its id then.
        causes: what changed its texts, in words; or the pipeline.
        privilege_changes: the changes of privilege, in words.
        diff: lines that differ, as in Markdown; null for none, or for one side.
        error: why it failed.
    """

    suite: str | None = None
    id: str | None = None
    line: int | None = None
    status: Literal["failed", "changed", "renamed", "added", "removed", "same"] | None
    was_suite: str | None = None
    was_id: str | None = None
    causes: tuple[str, ...] = ()
    privilege_changes: tuple[str, ...] = ()
    diff: str | None = None
    error: str | None = None


class SnapshotCase(Struct, frozen=True):
    """A case that a line is about.

    Attributes:
        suite: path of the suite, from the root.
    """

    suite: str
    id: CaseId


class SnapshotLine(Struct, frozen=True, kw_only=True):
    """What `multiturn snapshot --check` prints of what is not as the snapshots have it.

    Attributes:
        kind: failed: a case cannot be converted; privilege: a change of privilege; text: an
            attached file changed; else what has become of a file of the folder.
        key: of the difference, for snapshot --accept, which takes all lines with it; null for a
            list, which follows from the others, and with --case.
        file: path of the snapshot or list; of an attached file, from the root.
        was_file: of a renamed one: its path then.
        cases: that have it.
        what: what it is, in words.
        diff: unified diff; null if one side has no file.
        growth: about how many tokens prompts grow by; null if that is not known.
    """

    kind: Literal["failed", "privilege", "text", "new", "changed", "renamed", "removed"]
    key: str | None = None
    file: str | None = None
    was_file: str | None = None
    cases: tuple[SnapshotCase, ...] = ()
    what: str | None = None
    diff: str | None = None
    growth: int | None = None


def message_without_place(error: MultiturnError) -> str:
    """Return what is wrong, without file and line."""
    return ": ".join(filter(None, (error.where.label, error.what)))


def explain_line(found: Explanation) -> ExplainLine:
    """Return the line of an explanation."""
    messages = (ExplainedMessage(it.role, (*map(_span, it.shown),)) for it in found.chat or ())
    return ExplainLine(
        suite=found.suite,
        id=found.id,
        chat_prompt=None if found.chat is None else tuple(messages),
        system=tuple(map(_span, found.system)),
        question=tuple(map(_span, found.question)),
        segments=tuple(
            ExplainedSegment(
                it.where.file or None, it.where.line or None, it.where.label, it.fate, it.why
            )
            for it in found.fates
        ),
        target=found.target or None,
        repairs=found.repairs,
        settings={name: _span(span) for name, span in found.settings.items()},
        tools={name: _span(span) for name, span in found.tools.items()},
    )


def _span(span: Span) -> ExplainedSpan:
    """Return a span, with null for what is empty."""
    values: list[Any] = [each or None for each in (span.path, *span.place[:3], span.key)]
    values += (span.stage, span.changed_by)
    if span.media is not None:
        names = ExplainedMedia.__struct_fields__
        of_media: Iterator[Any] = (getattr(span.media, name) or None for name in names)
        values.append(ExplainedMedia(*of_media))
    return ExplainedSpan(span.text, span.origin, *values)


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
