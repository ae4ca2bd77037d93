"""Where each text of a prompt comes from, and what became of each segment of the input.

All of it is read off the finished Conversion, so a run that does not ask pays nothing.
"""

from collections.abc import Iterator

from msgspec import Struct, structs

from multiturn.engine.fates import Fate, fates_of
from multiturn.engine.spans import Message, Spans, messages_of, question_of, spans_in
from multiturn.model.conversion import Conversion
from multiturn.model.turns import kind_of
from multiturn.suites.streaming import Extent
from multiturn.text import number_of, visible


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
            facts = "" if span.media is None else f": {span.media.facts}"
            yield f"  {span.origin}{facts}"
            yield from (f"  | {line}".rstrip() for line in span.text.split("\n"))


def within(found: Explanation, extent: Extent) -> Explanation | None:
    """Return what an explanation says of a stretch of a suite; None if that is nothing."""

    def held(spans: Spans) -> Spans:
        return tuple(span for span in spans if extent.holds(span.place))

    chat = None
    if found.chat is not None:
        each_held = (
            structs.replace(
                message,
                spans=held(message.spans),
                thinking=held(message.thinking),
                calls=held(message.calls),
            )
            for message in found.chat
        )
        chat = tuple(message for message in each_held if message.shown)
    fates = tuple(fate for fate in found.fates if extent.holds(fate.where))
    system, question = held(found.system), held(found.question)
    if not (chat or fates or system or question):
        return None
    return structs.replace(found, chat=chat, fates=fates, system=system, question=question)


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
        fates=tuple(fates_of(conversion)),
    )
