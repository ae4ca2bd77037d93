"""The texts of a prompt in spans: stretches with one origin, read off a finished Conversion."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from multiturn.errors import Place
from multiturn.model.case import Case
from multiturn.model.conversion import Conversion
from multiturn.model.turns import Part, Turn


class Span(Struct, frozen=True, gc=False):
    """A stretch of text with one origin.

    Attributes:
        text: as the model sees it.
        origin: where it comes from, in words.
        path: the file that it belongs to, if it is a file's text or the header above it.
        stage: the stage that added it, empty if that is not known; None for text of a suite or a
            file.
    """

    text: str
    origin: str
    path: str = ""
    stage: str | None = None


Spans = tuple[Span, ...]


def text_of(spans: Spans) -> str:
    """Return the text that spans make."""
    return "".join(span.text for span in spans)


class Message(Struct, frozen=True, gc=False):
    """A message of an explained chat prompt: its content is the text of its spans.

    Attributes:
        role: the role.
        spans: the texts of the content, each with its origin.
    """

    role: str
    spans: Spans


def question_of(conversion: Conversion) -> Spans:
    """Return the question of a finished conversion in spans."""
    return spans_in(conversion.transcript, conversion.case)


def messages_of(conversion: Conversion) -> tuple[Message, ...]:
    """Return the chat prompt of a conversion, or what is sent in its place, in spans."""
    return in_spans(conversion.prompt, conversion.case)


def in_spans(turns: Iterable[Turn], case: Case) -> tuple[Message, ...]:
    """Return messages with the origin of each of their texts."""
    return tuple(Message(turn.role, spans_in(turn.parts, case)) for turn in turns)


def spans_in(parts: Sequence[Part], case: Case) -> Spans:
    """Return the texts of parts, and those between them, with their origins."""
    spans: list[Span] = []
    above = None
    for number, part in enumerate(parts):
        path = part.resolved_path or ""
        if number and part.separator:
            origin = "between two parts (rule 6)"
            spans.append(Span(part.separator, origin, path if path == above else "", stage=""))
        if part.text:
            spans.append(Span(part.text, origin_of(part, case), path, stage=part.stage))
        above = path
    return tuple(spans)


def origin_of(part: Part, case: Case) -> str:
    """Return where a part's text comes from, in words."""
    if part.stage is not None:
        about = f" for {part.resolved_path}" if part.resolved_path else ""
        return f"added by {part.stage or 'a stage'}{about}"
    changed = "" if part.changed_by is None else f", changed by {part.changed_by or 'a stage'}"
    if part.key is not None:
        return f"{part.key} of {Place(case.suite or 'the case')}{changed}"
    place = str(Place(case.file or case.suite or "the case", part.line))
    if part.message is not None and not part.line:
        place = f"{place}: {case.message_key(part.message)}.content[{part.content}]"
    moved = f", moved by {part.moved_by}" if part.moved_by else ""
    if part.resolved_path is not None:
        return f"{part.resolved_path}, attached at {place}{moved}{changed}"
    if part.message is None:
        return "unknown origin (added by a stage)"
    return place + moved + changed
