"""Where each text of a prompt comes from, and what became of each segment of the input.

All of it is read off the finished Conversion, so a run that does not ask pays nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Literal

from msgspec import Struct

from multiturn.engine.spans import Message, Spans, messages_of, question_of, spans_in
from multiturn.errors import MultiturnError, Place
from multiturn.model.case import PROMPT_KEY, Case, first_other, segments_of
from multiturn.model.checks import kind_of
from multiturn.model.conversion import DROPPED, Conversion
from multiturn.model.turns import Part, Turn, as_json, is_blank, joined
from multiturn.text import number_of, visible


class Fate(Struct, frozen=True):
    """What became of one segment of the input.

    Attributes:
        where: the segment's place in the suite.
        fate: ``shown`` where it stood, ``merged`` into the system message, ``moved`` there by a
            stage, ``referenced`` where the same text was moved before, ``changed`` by a stage,
            ``dropped`` by a rule, or ``lost``: text is missing from the prompt and nothing
            explains why.
        why: the stage and the rule.
    """

    where: Place
    fate: Literal["shown", "merged", "moved", "referenced", "changed", "dropped", "lost"]
    why: str = ""


class Explanation(Struct, frozen=True):
    """Where the texts of a conversion come from, and what became of its input.

    As text, it is what ``multiturn explain`` prints.

    Attributes:
        suite: of the case.
        id: of the case.
        chat: the messages of the chat prompt; None where the pipeline leaves it out.
        system: the system message that is sent before the question where there is no chat prompt.
        question: the transcript.
        fates: one for each segment of ``input_messages``, in order; then one for each text beside
            the messages that is not in the prompt as it was written.
        target: the target that gets ``chat`` as it is here; empty for the pipeline's own.
        repairs: what the rules of that target required.
    """

    suite: str
    id: str
    chat: tuple[Message, ...] | None
    system: Spans
    question: Spans
    fates: tuple[Fate, ...]
    target: str = ""
    repairs: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return one line: a notebook shows ``_repr_html_``, and ``print`` shows all of it."""
        case = " · ".join(filter(None, (self.suite, self.id)))
        parts = [
            number_of(len(self.chat), "message") if self.chat is not None else "no chat prompt"
        ]
        if lost := sum(fate.fate == "lost" for fate in self.fates):
            parts.append(f"{number_of(lost, 'text')} lost")
        return f"<Explanation of {visible(case)!r}: {', '.join(parts)}; print() shows it>"

    def _repr_html_(self) -> str:
        """Return the text for a notebook, which would break its lines otherwise."""
        import html

        return f"<pre>{html.escape(str(self))}</pre>"

    def __str__(self) -> str:
        """Return each text below its origin, then what is not where, or as, it was written."""
        title = " · ".join(filter(None, (self.suite, self.id, self.target)))
        lines = [title.replace("\n", "\\n"), *(f"  repaired {repair}" for repair in self.repairs)]
        for message in self.chat or ([Message("system", self.system)] if self.system else ()):
            lines += [message.title, *_lines(message.shown)]
        if self.question or not self.target:
            lines += ["question", *_lines(self.question)]
        for heading, is_meant in (("where", False), ("as", True)):
            fates = [
                f"  {fate.where}: {fate.fate}, {fate.why}"
                for fate in self.fates
                if fate.fate != "shown" and (fate.fate == "changed") == is_meant
            ]
            lines += [f"not {heading} it was written", *fates] if fates else []
        return visible("\n".join(lines)) + "\n"


def _lines(spans: Spans) -> Iterator[str]:
    for span in spans:
        if span.text.strip("\n"):
            yield f"  {span.origin}"
            yield from (f"  | {line}".rstrip() for line in span.text.split("\n"))


def explain(conversion: Conversion) -> Explanation:
    """Return where the texts of a finished conversion come from, and where its input went."""
    if not isinstance(conversion, Conversion):
        what = "explain takes what a pipeline returns, as in explain(pipeline(Conversion(case)))"
        raise TypeError(f"{what}, not {kind_of(conversion)}")
    case, has_chat = conversion.case, conversion.chat is not None
    return Explanation(
        suite=case.suite,
        id=case.id,
        chat=messages_of(conversion) if has_chat else None,
        system=() if has_chat else spans_in(conversion.system, case),
        question=question_of(conversion),
        fates=tuple(_fates(conversion)),
    )


def _fates(conversion: Conversion) -> Iterator[Fate]:
    """Follow each segment, and each text that is not in a message, to where it is now."""
    case, prompt, notices = conversion.case, conversion.prompt, conversion.notices
    sent = [part for turn in prompt for part in turn.parts]
    for index, message in enumerate(case.input_messages):
        for number, key, segment, line in segments_of(message):
            where = case.where(line, f"{case.message_key(index)}.{key}")
            yield _fate(conversion, sent, where, (index, number), segment)
    for key, text in case.keyed_texts.items():
        where, found = case.where(key=key), [part for part in sent if part.key == key]
        if found:
            fate = _as_written(where, found, text)
            if fate is not None:
                yield fate
        elif is_blank(text):
            yield Fate(where, "dropped", "blank text is no content (rule 2)")
        elif why := next((n.why for n in notices if n.event == DROPPED and n.where == where), ""):
            yield Fate(where, "dropped", why)
        elif key == PROMPT_KEY and (explicit := _explicit(prompt)):
            has_leading = min(explicit) < first_other(case)
            by = (
                "a system message that leads replaces" if has_leading else "system messages replace"
            )
            yield Fate(where, "dropped", f"{by} it (rule 7)")
        else:
            yield Fate(where, "lost", "no section of the system message holds it")


def _explicit(prompt: Iterable[Turn]) -> list[int]:
    """Return the indexes of the suite's system messages that a prompt has as such."""
    systems = (turn for turn in prompt if turn.role == "system")
    parts = (part for turn in systems for part in turn.parts if not part.moved_by)
    return [part.message for part in parts if part.message is not None]


def _as_written(where: Place, parts: Sequence[Part], text: str | None) -> Fate | None:
    """Return the fate of a text that the prompt has in other words than the suite; else None."""
    stages = dict.fromkeys(part.changed_by for part in parts if part.changed_by)
    if stages:
        return Fate(where, "changed", f"by {', '.join(stages)}")
    said = joined(parts)  # a file says the same with and without the newlines at its end
    if text is None or text in (said, said.rstrip("\n"), "".join(part.text for part in parts)):
        return None
    return Fate(where, "lost", "its text is missing from the prompt, and no stage explains why")


def _fate(
    conversion: Conversion,
    sent: Sequence[Part],
    where: Place,
    segment: tuple[int, int],
    content: object,
) -> Fate:
    case, path = conversion.case, _resolved(conversion.case, content)
    parts = [part for part in sent if part.stage is None]
    stays = [part for part in parts if not part.moved_by and _is_of(part, segment, path)]
    if stays:
        changed = _as_written(where, stays, _written(content, path, case))
        if changed is not None:
            return changed
        systems = [t for t in conversion.prompt if t.role == "system" and t.message is None]
        if any(stays[0] in turn.parts for turn in systems):
            return Fate(where, "merged", "into one system message (rule 7)")
        return Fate(where, "shown")
    guideline = next((g for g in conversion.guidelines if path and g.resolved_path == path), None)
    if guideline is not None:
        if is_blank(guideline.text):
            return Fate(where, "dropped", "a blank guideline is none (rule 2)")
        moved = [part for part in parts if part.resolved_path == path and part.moved_by]
        if not moved:
            return Fate(where, "lost", "a guideline that no section of the system message holds")
        if (guideline.message, guideline.content) != segment:
            return Fate(where, "referenced", f"moved by {guideline.moved_by} once (rule 4)")
        changed = _as_written(where, moved, _written(content, path, case))
        return changed or Fate(where, "moved", f"by {guideline.moved_by} (rule 4)")
    for notice in conversion.notices:
        is_loss = notice.event in ("segment.left_out", DROPPED)
        if is_loss and notice.message == segment[0] and notice.content in (segment[1], None):
            return Fate(where, "dropped", notice.why)
    match content:
        case str(text) | {"type": "text", "value": str(text)} if is_blank(text):
            return Fate(where, "dropped", "blank text is no content (rule 2)")
    if conversion.chat is None and not conversion.question:
        return Fate(where, "lost", "the pipeline gives neither a chat prompt nor a question")
    stage = dict(conversion.dropped).get(segment[0])
    who = "a stage" if stage is None else f"the stage {stage}"
    return Fate(where, "lost", f"no rule explains it; {who} took it away")


def _is_of(part: Part, segment: tuple[int, int], path: str | None) -> bool:
    """Return whether a part is a segment's, or at least of the file that it attaches."""
    if part.message is None:
        return path is not None and part.resolved_path == path
    return (part.message, part.content) == segment


def _resolved(case: Case, content: object) -> str | None:
    match content:
        case {"type": "file", "value": str(path)} if case.files is not None:
            with suppress(MultiturnError):
                return case.files.find(path)
    return None


def _written(content: object, path: str | None, case: Case) -> str | None:
    """Return what the suite, or the file, says in a segment; None where that is not known."""
    match content:
        case str(text) | {"type": "text", "value": str(text)}:
            return text
        case {"type": "file"}:
            return case.files.known(path) if case.files is not None and path is not None else None
        case dict(structured):
            return as_json(structured)
    return None
