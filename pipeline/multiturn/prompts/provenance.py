"""Where each character of a prompt comes from, and what became of each segment of the input.

All of it is read off the finished Conversion, so a run that does not ask pays nothing.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct

from multiturn.errors import MultiturnError, Place
from multiturn.model import Case, Conversion
from multiturn.turns import Part, Turn, is_blank


class Span(Struct, frozen=True, gc=False):
    """A stretch of text with one origin.

    Attributes:
        text: as the model sees it.
        origin: where it comes from, in words.
        path: the file that it belongs to, if it is a file's text or the header above it.
        changed: whether the text that this one is compared with lacks it.
    """

    text: str
    origin: str
    path: str = ""
    changed: bool = False


Spans = tuple[Span, ...]


def text_of(spans: Spans) -> str:
    """Return the text that spans make."""
    return "".join(span.text for span in spans)


class Message(Struct, frozen=True, gc=False):
    """A message of a chat prompt: its content is the text of its spans."""

    role: str
    spans: Spans


class Fate(Struct, frozen=True):
    """What became of one segment of the input.

    Attributes:
        where: the segment's place in the suite.
        fate: ``shown`` where it stood, ``merged`` into the system message, ``moved`` there by a
            stage, left as a reference to what was moved before (``referenced``), ``dropped`` by
            a rule, or ``lost``: no rule explains that it is gone.
        why: the stage and the rule.
    """

    where: Place
    fate: Literal["shown", "merged", "moved", "referenced", "dropped", "lost"]
    why: str = ""


class Explanation(Struct, frozen=True):
    """Where the texts of a conversion come from, and what became of its input.

    Attributes:
        chat: the messages of the chat prompt; None where the pipeline leaves it out.
        question: the transcript.
        fates: one for each segment of ``input_messages``, in order.
    """

    chat: tuple[Message, ...] | None
    question: Spans
    fates: tuple[Fate, ...]


def explain(conversion: Conversion) -> Explanation:
    """Return where the texts of a finished conversion come from, and where its input went."""
    chat, question = spans_of(conversion)
    return Explanation(chat, question, tuple(_fates(conversion)))


def spans_of(conversion: Conversion) -> tuple[tuple[Message, ...] | None, Spans]:
    """Return the chat prompt and the question of a finished conversion in spans."""
    case, chat = conversion.case, conversion.chat
    question = tuple(_spans(conversion.transcript, case))
    if chat is None:
        return None, question
    return tuple(Message(turn.role, tuple(_spans(turn.parts, case))) for turn in chat), question


def _spans(parts: Iterable[Part], case: Case) -> Iterator[Span]:
    above = None
    for number, part in enumerate(parts):
        path = part.resolved_path or ""
        if number and part.separator:
            origin = "between two parts (rule 6)"
            yield Span(part.separator, origin, path if path == above else "")
        if part.text:
            yield Span(part.text, origin_of(part, case), path)
        above = path


def origin_of(part: Part, case: Case) -> str:
    """Return where a part's text comes from.

    >>> case = Case(id="a", input_messages=(), suite="evals/review.eval.yaml")
    >>> part = Part("text", "Be brief.", path="p.md", resolved_path="prompts/p.md", line=31)
    >>> origin_of(part, case)
    'prompts/p.md, attached at evals/review.eval.yaml:31'
    """
    suite = case.suite or "the case"
    if part.stage is not None:
        about = f" for {part.resolved_path}" if part.resolved_path else ""
        return f"added by {part.stage or 'a stage'}{about}"
    changed = "" if part.changed_by is None else f", changed by {part.changed_by or 'a stage'}"
    if part.key is not None:
        return f"{part.key} of {suite}{changed}"
    place = f"{suite}:{part.line}" if part.line else suite
    if part.message is not None and not part.line:
        place = f"{suite}: input_messages[{part.message}].content[{part.content}]"
    moved = f", moved by {part.moved_by}" if part.moved_by else ""
    if part.resolved_path is not None:
        return f"{part.resolved_path}, attached at {place}{moved}{changed}"
    return place + moved + changed if part.message is not None else "a stage that does not say so"


def _fates(conversion: Conversion) -> Iterator[Fate]:
    """Follow each segment from the suite to where it is now."""
    case = conversion.case
    for index, message in enumerate(case.input_messages):
        content = message.content
        segments = content if isinstance(content, list) else [content]
        for number, segment in enumerate(segments):
            line = message.content_lines[number] if message.content_lines else message.line
            key = f"[{number}]" if segments is content else ""
            where = case.where(line, f"input_messages[{index}].content{key}")
            yield _fate(conversion, where, (index, number), segment)
    prompt, chat = conversion.system_prompt, conversion.chat
    if prompt is None or chat is None:
        return
    if all(part.key != prompt.key for turn in chat for part in turn.parts):
        explicit = any(turn.role == "system" for turn in chat)
        yield Fate(
            case.where(key=prompt.key or ""),
            "dropped" if explicit or is_blank(prompt.text) else "lost",
            "system messages take its place (rule 7)" if explicit else "",
        )


def _turns(conversion: Conversion) -> tuple[Turn, ...]:
    """Return the turns that a model gets to see, in the chat or else in the transcript."""
    if conversion.chat is not None:
        return conversion.chat
    return conversion.turns if conversion.question else ()


def _fate(conversion: Conversion, where: Place, segment: tuple[int, int], written: object) -> Fate:
    found = [
        (turn, part)
        for turn in _turns(conversion)
        for part in turn.parts
        if (part.message, part.content) == segment
    ]
    stays = [turn for turn, part in found if part.kind != "reference" and not part.moved_by]
    if stays:
        if stays[0].role == "system" and stays[0].message is None:
            return Fate(where, "merged", "into one system message (rule 7)")
        return Fate(where, "shown")
    path = _resolved(conversion, written)
    guideline = next((g for g in conversion.guidelines if path and g.resolved_path == path), None)
    if guideline is not None:
        reaches_model = conversion.chat is None or any(
            part.resolved_path == path and part.moved_by
            for turn in conversion.chat
            for part in turn.parts
        )
        if not reaches_model:
            return Fate(where, "lost", "a guideline that no section of the system message holds")
        if (guideline.message, guideline.content) == segment:
            return Fate(where, "moved", f"by {guideline.moved_by} (rule 4)")
        return Fate(where, "referenced", f"moved by {guideline.moved_by} once (rule 4)")
    for notice in conversion.notices:
        if notice.event == "segment.left_out" and (notice.message, notice.content) == segment:
            return Fate(where, "dropped", notice.why)
    match written:
        case str(text) | {"type": "text", "value": str(text)} if is_blank(text):
            return Fate(where, "dropped", "blank text is no content (rule 2)")
    if conversion.chat is None and not conversion.question:
        return Fate(where, "lost", "the pipeline gives neither a chat prompt nor a question")
    return Fate(where, "lost", "no rule explains it; a stage took it away")


def _resolved(conversion: Conversion, written: object) -> str | None:
    match written:
        case {"type": "file", "value": str(path)} if conversion.case.files is not None:
            try:
                return conversion.case.files.find(path)
            except MultiturnError:
                return None
    return None
