"""Where each text of a prompt comes from, and what became of each segment of the input.

All of it is read off the finished Conversion, so a run that does not ask pays nothing.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, structs, to_builtins
from toolz import groupby

from multiturn.errors import MultiturnError, Place, ProviderError
from multiturn.explaining import spans
from multiturn.explaining.spans import Message, Span, Spans
from multiturn.files.media import FILE_TYPES, Media, is_address
from multiturn.model import conversion as conversions
from multiturn.model.case import PROMPT_KEY, Case, TestMessage, segments_of
from multiturn.model.conversion import DROPPED, Conversion
from multiturn.model.request import ProviderRequest
from multiturn.model.settings import SETTINGS, RequestSettings
from multiturn.model.turns import Part, as_json, is_blank, joined, kind_of, without_lines
from multiturn.pipelines.pipeline import request_of
from multiturn.suites.streaming import Extent
from multiturn.text import visible

if TYPE_CHECKING:
    from multiturn.model.tokens import Tokens
    from multiturn.providers.base import Preview, TargetProvider

_Segment = tuple[int | None, int | None]  # indexes of a message and of a segment in it


FateName = Literal["shown", "merged", "moved", "referenced", "changed", "dropped", "lost"]


class Fate(Struct, frozen=True):
    """What became of a segment of the input, a call, a block of thinking, a role or a tool.

    Attributes:
        where: its place in the suite.
        fate: ``shown`` where it stood, ``merged`` into the system message, ``moved`` there by a
            stage, ``referenced`` where the same text was moved before, ``changed`` by a stage,
            ``dropped`` by a rule, or ``lost``: text is missing from the prompt and nothing
            explains why; or a stage changed a role, or a tool away, and does not say why.
        why: the stage and the rule.
    """

    where: Place
    fate: FateName
    why: str = ""


_Fate = tuple[FateName, str]  # of a text, and why
_SHOWN: _Fate = ("shown", "")


def fates_of(conversion: Conversion) -> Iterator[Fate]:
    """Follow each segment, and each text that is not in a message, to where it is now."""
    case, sent = conversion.case, _Sent(conversion)
    for index, message in enumerate(case.input_messages):
        for number, segment, line in segments_of(message):
            where = case.where(line, f"{case.message_key(index)}.{message.segment_key(number)}")
            yield Fate(where, *sent.fate((index, number), segment))
        yield from sent.fates_of_calls(index, message)
    yield from _fates_of_roles(conversion)
    yield from sent.fates_of_tools()
    for key, text in case.keyed_texts.items():
        where = case.where(key=key)
        if fate := sent.fate_of_key(where, key, text):
            yield Fate(where, *fate)


class _Sent:
    """What is sent of a conversion, by where it is from: a case may have 100,000 segments."""

    def __init__(self, conversion: Conversion) -> None:
        self.conversion, self.prompt = conversion, conversion.prompt
        parts = [part for turn in self.prompt for part in turn.parts]
        self.of_key = groupby(attrgetter("message", "key"), parts)
        own, by_file = [part for part in parts if part.stage is None], attrgetter("resolved_path")
        stays = [part for part in own if not part.moved_by]
        self.moved = groupby(by_file, (part for part in own if part.moved_by))
        self.of_segment = groupby(attrgetter("message", "content"), stays)
        self.of_file = groupby(by_file, (part for part in stays if part.message is None))
        merged = (turn for turn in self.prompt if turn.role == "system" and turn.message is None)
        self.merged = {id(part) for turn in merged for part in turn.parts}
        # Of several with one path, the first.
        self.guidelines = {each.resolved_path: each for each in reversed(conversion.guidelines)}
        notices, events = conversion.notices[::-1], ("segment.left_out", DROPPED)  # the first wins
        self.losses: dict[_Segment, str] = {
            (each.message, each.content): each.why for each in notices if each.event in events
        }
        self.noticed: dict[tuple[str, Place], _Fate] = {
            (each.event, each.where): ("dropped", each.why) for each in notices if each.why
        }
        # Without a chat, the question has the calls.
        said = self.prompt if conversion.chat is not None else conversion.turns
        self.calls = conversions.calls_of(said)
        self.thinking = {(turn.message, block) for turn in said for block in turn.thinking}

    def fate_of_key(self, where: Place, key: str, text: str) -> _Fate | None:
        """Return the fate of a text beside the messages; None if it is there as it was written."""
        if shown := self.of_key.get((None, key)):
            return _as_written(shown, text)
        if is_blank(text):
            return "dropped", "blank text is no content (rule 2)"
        if fate := self.noticed.get((DROPPED, where)):
            return fate
        system = (part for turn in self.prompt if turn.role == "system" for part in turn.parts)
        is_own = (part.message is not None and not part.moved_by for part in system)
        if key == PROMPT_KEY and any(is_own):
            return "dropped", "system messages replace it (rule 7)"
        return "lost", "no section of the system message holds it"

    def fate(self, segment: tuple[int, int], content: object) -> _Fate:
        """Return the fate of a segment, by what is sent of it."""
        case = self.conversion.case
        path, written = _written(content, case)
        stays = [*self.of_segment.get(segment, ()), *self.of_file.get(path or "", ())]
        if stays:
            merged: _Fate = ("merged", "into one system message (rule 7)")
            is_merged = id(stays[0]) in self.merged
            return _as_written(stays, written) or (merged if is_merged else _SHOWN)
        if path is None or path not in self.guidelines:
            return self._gone(*segment, written if path is None else None)
        guideline, moved = self.guidelines[path], self.moved.get(path)
        if is_blank(guideline.text):
            return "dropped", "a blank guideline is none (rule 2)"
        if moved is None:
            return "lost", "a guideline that no section of the system message holds"
        if (guideline.message, guideline.content) != segment:
            return "referenced", f"moved by {guideline.moved_by} once (rule 4)"
        return _as_written(moved, written) or ("moved", f"by {guideline.moved_by} (rule 4)")

    def fates_of_calls(self, index: int, message: TestMessage) -> Iterator[Fate]:
        """Yield the fates of a message's thinking and calls."""
        case = self.conversion.case
        key = case.message_key(index)
        for at, block in enumerate(message.thinking):
            where = case.where(block.line, f"{key}.thinking[{at}]")
            gone = self.noticed.get(("thinking.dropped", where)) or self._gone(index)
            yield Fate(where, *(_SHOWN if (index, block) in self.thinking else gone))
        for at, call in enumerate(message.calls):
            where, sent = case.where(call.line, f"{key}.tool_calls[{at}]"), self.calls.get(call.id)
            text = self.of_key.get((index, f"tool_calls[{at}]"))  # where there is no chat
            found = text[0] if text else sent
            fate = _SHOWN
            if found is None:
                fate = self.noticed.get((DROPPED, where)) or self._gone(index)
            elif found.changed_by is not None:
                fate = "changed", f"by {found.changed_by}"
            yield Fate(where, *fate)

    def fates_of_tools(self) -> Iterator[Fate]:
        """Yield the fate of each tool of the case that is not there as it was written."""
        case, now = self.conversion.case, {tool.name: tool for tool in self.conversion.tools}
        for at, tool in enumerate(case.tools):
            where = case.where(tool.line, f"tools[{at}]")
            text = self.of_key.get((None, f"tools[{at}]"))
            stage = text[0].changed_by if text else self.conversion.altered.get((None, tool.name))
            if tool.name not in now and not text:
                lost = f"no rule explains it; {_who(stage)} took the tool away"
                yield Fate(where, *self.noticed.get((DROPPED, where), ("lost", lost)))
            elif now.get(tool.name) != tool:
                yield Fate(where, "changed", f"by {stage or 'a stage'}")

    def _gone(self, message: int, at: int | None = None, text: object = None) -> _Fate:
        """Return the fate of what is not sent; ``text`` is what the suite has of it."""
        if loss := self.losses.get((message, at)) or self.losses.get((message, None)):
            return "dropped", loss
        if isinstance(text, str) and is_blank(text):
            return "dropped", "blank text is no content (rule 2)"
        if self.conversion.chat is None and not self.conversion.question:
            return "lost", "the pipeline gives neither a chat prompt nor a question"
        by = self.conversion.altered
        stage = by.get((message, at)) or by.get((message, None))
        for edit, before, _ in conversions.edited_chats(self.conversion) if stage is None else ():
            parts = (part for turn in before for part in turn.parts)
            if any((part.message, part.content) == (message, at) for part in parts):
                stage = edit.stage
                break
        return "lost", f"no rule explains it; {_who(stage)} took it away"


def _who(stage: str | None) -> str:
    return f"the stage {stage}" if stage else "a stage"


def _fates_of_roles(conversion: Conversion) -> Iterator[Fate]:
    """Yield a fate for each message whose role a stage changed, or that failed and does no more."""
    # A notice of the stage about the message is the reason.
    case, about = conversion.case, (each for each in conversion.notices if each.content is None)
    whys = {each.message: each.why for each in about if each.event != "thinking.dropped"}
    messages = dict(enumerate(case.input_messages))
    found = [
        (conversion.altered.get((at, what)), "", at, what, turn)
        for at, what, turn in conversions.altered(messages, conversion.turns)
    ]
    for edit, before, after in conversions.edited_chats(conversion):
        now = conversions.altered(conversions.by_message(before), after)
        found += ((edit.stage, edit.why, *it) for it in now)
    for stage, meant, at, what, turn in found:
        did = f"made it a message of the {turn.role}" if what == "role" else f"cleared {what}"
        lost: _Fate = ("lost", f"{_who(stage)} {did}, and does not say why")
        where = case.where(messages[at].line, f"{case.message_key(at)}.{what}")
        why = whys.get(at) or meant
        yield Fate(where, *(("changed", why) if why else lost))


def _as_written(parts: Sequence[Part], text: str | Media | None) -> _Fate | None:
    """Return the fate of what the prompt has in another form than the suite; else None."""
    stages = dict.fromkeys(part.changed_by for part in parts if part.changed_by)
    if stages:
        return "changed", f"by {', '.join(stages)}"
    if isinstance(text, Media):
        digests = {part.media.digest for part in parts if part.media is not None}
        text = None if text.digest in digests else text.text
    said = joined(parts)  # a file says the same with and without the newlines at its end
    if text is None or text in (said, said.rstrip("\n"), "".join(part.text for part in parts)):
        return None
    return "lost", "its text is missing from the prompt, and no stage explains why"


def _written(content: object, case: Case) -> tuple[str | None, str | Media | None]:
    """Return the file of a segment, and what that, or the suite, has; None where not known."""
    match content:
        case str(text) | {"type": "text", "value": str(text)}:
            return None, text
        case {"type": kind, "value": str(value)} if kind in FILE_TYPES and case.files is not None:
            with suppress(MultiturnError):
                if not is_address(value, kind):
                    path = case.files.find(value)
                    return path, case.files.known(path)
        case dict(structured) if structured.get("type") not in FILE_TYPES:
            return None, as_json(structured)
    return None, None


def _tools_of(conversion: Conversion) -> dict[str, Span]:
    case, found = conversion.case, {}
    for tool in conversion.tools:
        stage, key = conversion.altered.get((None, tool.name)), conversions.item_key(case, tool)
        place = Place(case.file or case.suite, tool.line) if key else Place()
        found[tool.name] = _value(without_lines([tool])[0], key, place, stage)
    return found


def _value(value: Any, key: str, place: Place, stage: str | None) -> Span:
    """Return a setting or a tool; without a key, a stage has added it."""
    plain = to_builtins(value)
    text = json.dumps(plain, ensure_ascii=False, indent=2 if isinstance(plain, dict) else None)
    by, text = stage or "a stage", "" if value is None else text
    if not key:
        return Span(text, f"added by {by}", stage=stage or "")
    changed = f", changed by {by}" if stage else ""
    return Span(text, f"{place}: {key}{changed}", "", None, place, key, stage)


def _settings_of(
    conversion: Conversion, sent: RequestSettings, provider: "TargetProvider | None" = None
) -> dict[str, Span]:
    """Return the settings that are sent, and those of the suite that are not."""
    case, asked, found = conversion.case, conversion.current_settings, {}
    for name in SETTINGS:
        given, now, value = (getattr(each, name) for each in (case.settings, asked, sent))
        if given is now is value is None:
            continue
        stage = conversion.altered.get((None, None)) if given != now else None
        known, key = case.places.get(f"execution.{name}", Place()), f"execution.{name}"
        place = Place(known.file or case.file or case.suite, known.line)
        if now is None and stage is None and provider is not None:
            key, place = f"target {provider.name!r}", provider.place._replace(column=0)
        found[name] = _value(value, "" if given is None and stage else key, place, stage)
    return found


class Explanation(Struct, frozen=True):
    """Where the texts of a conversion come from, and what became of its input.

    As text, it is what ``multiturn explain`` prints.

    Attributes:
        suite: of the case.
        id: of the case.
        chat: the messages of the chat prompt; None where the pipeline leaves it out.
        system: the system message that is sent before the question where there is no chat prompt.
        question: the conversation as one text.
        fates: of each segment of ``input_messages``, in order; then of each text beside the
            messages that is not in the prompt as it was written.
        target: the target that gets ``chat`` as it is here; empty for the pipeline's own.
        repairs: what the rules of that target required.
        settings: those that are sent, by name; the text is JSON, and empty of one that is left out.
        tools: what the model may call, likewise.
    """

    suite: str
    id: str
    chat: tuple[Message, ...] | None
    system: Spans
    question: Spans
    fates: tuple[Fate, ...]
    target: str = ""
    repairs: tuple[str, ...] = ()
    settings: Mapping[str, Span] = {}
    tools: Mapping[str, Span] = {}

    def __repr__(self) -> str:
        """Return one line: a notebook shows ``_repr_html_``, and ``print`` shows all of it."""
        case = " · ".join(filter(None, (self.suite, self.id)))
        return f"<Explanation of {visible(case)!r}; print() shows it>"

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
        for heading, values in (("settings", self.settings), ("tools", self.tools)):
            lines += [heading] if values else []
            for name, span in values.items():
                text = f"{name}: {span.text or 'left out'}"
                lines += _lines([structs.replace(span, text=text)])
        fates = [f"  {it.where}: {it.fate}, {it.why}" for it in self.fates if it.fate != "shown"]
        lines += ["not where or as it was written", *fates] if fates else []
        return visible("\n".join(lines)) + "\n"


def _lines(texts: Iterable[Span]) -> Iterator[str]:
    for span in texts:
        if span.text.strip("\n"):
            facts = "" if span.media is None else f": {span.media.facts}"
            yield f"  {span.origin}{facts}"
            yield from (f"  | {line}".rstrip() for line in span.text.split("\n"))


def within(found: Explanation, extent: Extent) -> Explanation | None:
    """Return what an explanation says of a stretch of a suite; None if that is nothing."""

    def held(texts: Spans) -> Spans:
        return tuple(span for span in texts if extent.holds(span.place))

    messages = (
        Message(each.role, held(each.spans), held(each.thinking), held(each.calls), each.data)
        for each in found.chat or ()
    )
    begun = extent._replace(around=frozenset())  # else the first setting is held for all others
    said = {
        "chat": None if found.chat is None else tuple(each for each in messages if each.shown),
        "system": held(found.system),
        "question": held(found.question),
        "fates": tuple(fate for fate in found.fates if extent.holds(fate.where)),
        "settings": {name: it for name, it in found.settings.items() if begun.holds(it.place)},
        "tools": {name: it for name, it in found.tools.items() if extent.holds(it.place)},
    }
    return structs.replace(found, **said) if any(said.values()) else None


def explain(conversion: Conversion) -> Explanation:
    """Return where the texts of a finished conversion come from, and where its input went."""
    if not isinstance(conversion, Conversion):
        what = "explain takes what a pipeline returns, as in explain(pipeline(Conversion(case)))"
        raise TypeError(f"{what}, not {kind_of(conversion)}")
    case, has_chat = conversion.case, conversion.chat is not None
    return Explanation(
        suite=case.suite,
        id=case.id,
        chat=spans.in_spans(conversion.prompt, case) if has_chat else None,
        system=() if has_chat else spans.spans_in(conversion.system, case),
        question=spans.question_spans(conversion),
        fates=tuple(fates_of(conversion)),
        settings=_settings_of(conversion, conversion.current_settings),
        tools=_tools_of(conversion),
    )


def preview_of(
    conversion: Conversion, provider: "TargetProvider", request: ProviderRequest | None = None
) -> "Preview":
    """Return what a target would be sent of a finished conversion, or of its request.

    A ProviderError is the target's refusal, with its place in the suite.
    """
    case, request = conversion.case, request or request_of(conversion)
    try:
        return provider.preview(request)
    except ProviderError as error:
        raise error.at(case.where(), case.id) from None


def explain_for(conversion: Conversion, provider: "TargetProvider") -> Explanation:
    """Return where the texts come from that a target would be sent."""
    preview = preview_of(conversion, provider)
    sent: dict[str, Any] = {"target": provider.name, "repairs": preview.repairs}
    if preview.settings is not None:
        sent["settings"] = _settings_of(conversion, preview.settings, provider)
    if preview.messages is not None:
        chat = spans.in_spans(preview.messages, conversion.case)
        sent |= {"chat": chat, "system": (), "question": ()}
    return structs.replace(explain(conversion), **sent)


def size_of(
    conversion: Conversion, provider: "TargetProvider", count: Callable[[str], int]
) -> tuple["Tokens", dict[str, int]]:
    """Return the tokens of what a target would be sent; ``count`` counts those of a text.

    Beside those of the whole request, it returns their number by what has them, such as
    ``file notes.md``, the most first.
    """
    found: Counter[str] = Counter()
    guidelines = {file.resolved_path for file in conversion.input_files if file.guideline}
    turns = preview_of(conversion, provider).messages
    for message in spans.in_spans(conversion.sent if turns is None else turns, conversion.case):
        for span in message.shown:
            kind = "guideline" if span.path in guidelines else "file"
            what = f"{kind} {span.path}" if span.path else f"{message.role} messages"
            size = provider.abilities.image_tokens(span.media) if span.media else count(span.text)
            found[what] += size or 0
    found["tools"] = sum(count(tool.text) for tool in conversion.tools)
    tokens = provider.tokens(provider.wire(request_of(conversion)))
    return tokens, {what: number for what, number in found.most_common() if number}
