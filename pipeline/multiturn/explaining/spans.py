"""The texts of a prompt in spans: stretches with one origin, read off a finished Conversion."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs, to_builtins

from multiturn.errors import Place
from multiturn.files.media import Media
from multiturn.model.case import Case
from multiturn.model.conversion import Conversion
from multiturn.model.request import as_text, message_of, result_in_words
from multiturn.model.turns import Part, Tool, Turn


class Span(Struct, frozen=True, gc=False):
    """A stretch of text with one origin.

    Attributes:
        text: as the model sees it.
        origin: where it comes from, in words.
        path: the file that it belongs to, if it is a file's text or the header above it.
        stage: which added it, empty if that is not known; None for text of a suite or a file.
        place: where the suite has the text, or attaches the file; nowhere for what a stage added.
        key: by which key the suite has it, such as ``input_messages[0].content``.
        changed_by: the last stage that changed it; None if none did.
        media: the image, document or audio for which the text stands; None for text.
    """

    text: str
    origin: str
    path: str = ""
    stage: str | None = None
    place: Place = Place()
    key: str = ""
    changed_by: str | None = None
    media: Media | None = None


Spans = tuple[Span, ...]
_BREAK = Span("\n", "between two parts (rule 6)", stage="")


def joined_text(spans: Spans) -> str:
    """Return the text that spans make."""
    return "".join([span.text for span in spans])


def file_of(span: Span) -> str:
    """Return the path of the file whose text a span is; empty if it is other text."""
    return span.path if span.stage is None else ""


def has_media(spans: Spans) -> bool:
    """Return whether anything in spans is more than text."""
    return any(span.media is not None for span in spans)


class Message(Struct, frozen=True, gc=False):
    """A message of an explained chat prompt: its content is the text of its spans.

    Attributes:
        role: the role.
        spans: the texts of the content, each with its origin.
        thinking: what the assistant thought before, likewise.
        calls: a line for each call of a tool, likewise.
        data: the calls and the thinking as they are sent, or the call that is answered; by the
            names of ``ChatMessage``.
    """

    role: str
    spans: Spans
    thinking: Spans = ()
    calls: Spans = ()
    data: Mapping[str, Any] = {}

    @property
    def title(self) -> str:
        """The role, and of a result the call that it answers."""
        answered = self.data.get("tool_call_id")
        return self.role + result_in_words(answered, is_error="is_error" in self.data)

    @property
    def shown(self) -> Spans:
        """All that a reader sees of it: the thinking, the content, and the calls."""
        if not self.thinking and not self.calls:
            return self.spans
        pieces = [spans for spans in (self.thinking, self.spans, self.calls) if spans]
        return tuple(span for piece in pieces for span in (_BREAK, *piece))[1:]


def question_spans(conversion: Conversion) -> Spans:
    """Return the question of a finished conversion in spans; there, media are text."""
    return spans_in([*map(as_text, conversion.transcript)], conversion.case)


def definitions_of(conversion: Conversion) -> tuple[Message, ...]:
    """Return the definition of each tool, as ``define`` does."""
    case = conversion.case
    suite = Place(case.suite or "the case")
    return tuple(
        define(tool, Span(tool.text, f"tools[{at}] of {suite}", place=case.where(tool.line)))
        for at, tool in enumerate(conversion.tools)
    )


def define(tool: Tool, span: Span) -> Message:
    """Return a tool, whose text is in a span, as a message for readers; its role says ``tool``."""
    data = {} if tool.strict is None else {"strict": tool.strict}
    return Message(tool.title, (span,), data=data)


def in_spans(turns: Iterable[Turn], case: Case) -> tuple[Message, ...]:
    """Return messages with the origin of each of their texts."""
    return tuple(_message(turn, case) for turn in turns)


def _message(turn: Turn, case: Case) -> Message:
    message = Message(turn.role, spans_in(turn.parts, case))
    if not turn.is_more:
        return message
    thinking, calls = spans_in(turn.thoughts, case), spans_in(turn.calls_shown, case)
    data = to_builtins(message_of(turn))
    del data["role"], data["content"]
    return structs.replace(message, thinking=thinking, calls=calls, data=data)


def spans_in(parts: Sequence[Part], case: Case) -> Spans:
    """Return the texts of parts, and those between them, with their origins."""
    spans: list[Span] = []
    above: Part | None = None
    for part in parts:
        path = part.resolved_path or ""
        # Nothing is sent between media and a text, whatever a stage has put there.
        is_beside = above is not None and (above.media or part.media) is not None
        if above is not None and (separator := "\n" if is_beside else part.separator):
            within = path if path == (above.resolved_path or "") else ""
            spans.append(Span(separator, _BREAK.origin, within, stage=""))
        if part.text:
            spans.append(_span(part, case, path))
        above = part
    return tuple(spans)


def _span(part: Part, case: Case, path: str) -> Span:
    origin, changed_by, media = origin_of(part, case), part.changed_by, part.media
    if part.stage is not None:
        return Span(part.text, origin, path, part.stage, media=media)
    place = case.place_of(part.message, part.content, part.key)
    if not place.line and part.line:  # a call, or a thought
        place = Place(case.file or case.suite, part.line)
    return Span(part.text, origin, path, None, place, suite_key(part, case), changed_by, media)


def suite_key(part: Part, case: Case) -> str:
    """Return the key by which a suite has a part's text; empty for what a stage added."""
    if part.message is None or part.key is not None:
        message = "" if part.message is None else f"{case.message_key(part.message)}."
        return f"{message}{part.key}" if part.key else ""
    segment = case.input_messages[part.message].segment_key(part.content)
    return f"{case.message_key(part.message)}.{segment}"


def origin_of(part: Part, case: Case) -> str:
    """Return where a part's text comes from, in words."""
    if part.stage is not None:
        about = f" for {part.resolved_path}" if part.resolved_path else ""
        return f"added by {part.stage or 'a stage'}{about}"
    changed = "" if part.changed_by is None else f", changed by {part.changed_by or 'a stage'}"
    if part.key is not None and part.message is None:
        return f"{part.key} of {Place(case.suite or 'the case')}{changed}"
    place = str(Place(case.file or case.suite or "the case", part.line))
    if part.message is not None and not part.line:
        key = part.key or f"content[{part.content}]"
        place = f"{place}: {case.message_key(part.message)}.{key}"
    moved = f", moved by {part.moved_by}" if part.moved_by else ""
    if part.resolved_path is not None:
        return f"{part.resolved_path}, attached at {place}{moved}{changed}"
    if part.message is None:
        return "unknown origin (added by a stage)"
    return place + moved + changed
