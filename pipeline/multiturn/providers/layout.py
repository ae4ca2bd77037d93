"""The repairs that make a chat prompt follow the rules of a vendor.

A repaired prompt is a different experiment, so results name each repair. A prompt that cannot be
repaired without changing its meaning is refused before anything is sent.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import dropwhile, groupby, pairwise, takewhile
from typing import Any, NamedTuple

from msgspec import structs

from multiturn.errors import RefusedError, quoted
from multiturn.files.media import MEDIA_KINDS, Media, MediaKind
from multiturn.model import turns as model
from multiturn.model.request import ProviderRequest
from multiturn.model.settings import RequestSettings
from multiturn.providers.models import Abilities, Verdict, words_of
from multiturn.providers.rules import RULES, Rule, broken
from multiturn.text import first_of, number_of

_MERGE_LATER = "later_system: merge of consolidate_system avoids it"


def _merged(turns: Sequence[model.Turn]) -> model.Turn:
    """Return one message of several of one role, with blank lines between."""
    if len(turns) == 1:
        return turns[0]
    empty = (model.Part("text", ""),)  # a message without parts has its blank line, too
    given = (turn.parts or (() if turn.is_more else empty) for turn in turns)
    parts = (part for each in given for part in model.separate_first("\n\n", each))
    return model.Turn(turns[0].role, tuple(parts), None, turns[0].thinking, turns[-1].calls)


def _runs(turns: Iterable[model.Turn]) -> Iterator[list[model.Turn]]:
    """Yield neighbors of one role that can be one turn: it thinks, then speaks, then calls."""
    run: list[model.Turn] = []
    for turn in turns:
        if run and (turn.answers is not None or turn.thinking or run[-1].calls):
            yield run
            run = []
        run.append(turn)
    yield run


class Layout:
    """The messages of a chat prompt, while they are changed to follow a vendor's rules."""

    def __init__(self, prompt: Iterable[model.Turn], rules: Mapping[str, Rule] = RULES) -> None:
        self.messages = list(prompt)
        self.has_more = any(message.is_more for message in self.messages)
        self.has_media = any(message.has_media for message in self.messages)
        self.system: model.Turn | None = None  # what the API takes apart from the messages
        self.rules = rules  # by their ids
        self.repairs: list[str] = []
        self.refusals: dict[str, list[str]] = {}  # how to avoid each, by rule
        self.doubts: list[str] = []  # what the request uses, and is not known of the model

    def repair(self, rule: str, what: str) -> None:
        """Record a repair."""
        self.repairs.append(f"{rule}: {what}")

    def refuse(self, rule: str, advice: str) -> None:
        """Record a rule that no repair can meet, and how to avoid that."""
        self.refusals.setdefault(rule, []).append(advice)

    def done(self) -> tuple[str, ...]:
        """Return the repairs; rules that are broken are a RefusedError that names them all."""
        if self.refusals:
            refusals = self.refusals.items()
            errors = (broken(rule, "; ".join(found), self.rules) for rule, found in refusals)
            raise RefusedError("; ".join(errors))
        return tuple(self.repairs)

    def has_later_system(self) -> bool:
        """Return whether a system message stands after the conversation began."""
        return any(message.role == "system" for message in self._after_system())

    def _after_system(self) -> Iterator[model.Turn]:
        """Return the messages from the first on that is not the system's."""
        return dropwhile(lambda message: message.role == "system", self.messages)

    def take_system(self, rule: str, blank: str, advice: str = "") -> None:
        """Make the system messages the one that the API takes apart from the messages.

        One after another role's message is refused; ``blank`` is the rule that refuses empty text.
        """
        if self.has_later_system():
            what = f"one stands after the conversation began; {_MERGE_LATER}{advice}"
            self.refuse(rule, what)
        self.take_first_system(rule, blank)

    def take_first_system(self, rule: str, blank: str) -> None:
        """Make those at the beginning the system message that the API takes apart."""
        first = list(takewhile(lambda message: message.role == "system", self.messages))
        self.messages = self.messages[len(first) :]
        if len(first) > 1:
            self.repair(rule, f"merged {len(first)} system messages")
        system = _merged(first) if first else None
        if system and model.is_blank(system.content):
            self.repair(blank, "left out an empty system message")
            system = None
        self.system = system

    def merge_system(self, rule: str) -> None:
        """Merge all system messages into one, the first message, with blank lines between."""
        system = [message for message in self.messages if message.role == "system"]
        if len(system) > 1 or system != self.messages[: len(system)]:
            others = [message for message in self.messages if message.role != "system"]
            self.messages = [_merged(system), *others]
            count = f"{len(system)} system messages" if len(system) > 1 else "a system message"
            self.repair(rule, f"sent {count} as the first message")

    def tools_as_user(self, rule: str) -> None:
        """Make tool messages that answer no call the user's: no API takes them as they are."""
        for at, message in enumerate(self.messages):
            if message.role == "tool" and message.answers is None:
                marker = model.Part("text", "[Tool]: ", stage=f"rule {rule}")
                parts = (marker, *model.separate_first("", message.parts))
                self.messages[at] = model.Turn("user", parts, message.message)
                self.repair(rule, "sent a tool message as a user message that begins with [Tool]:")

    def system_as_user(self, rule: str) -> None:
        """Make system messages the user's."""
        for at, message in enumerate(self.messages):
            if message.role == "system":
                self.messages[at] = structs.replace(message, role="user")
                self.repair(rule, "sent a system message as a user message")

    def drop_blank(self, rule: str) -> None:
        """Remove blank messages, and blank texts beside calls, thinking or media, or of results."""
        kept: list[model.Turn] = []
        for message in self.messages:
            if message.has_media:
                kept.append(self._without_blank_texts(message, rule))
            elif not model.is_blank(message.content):
                kept.append(message)
            elif not message.is_more:
                self.repair(rule, f"left out an empty {message.role} message")
            else:
                if message.content:
                    self.repair(rule, f"left out the empty text of the {message.role}")
                kept.append(structs.replace(message, parts=()))
        self.messages = kept

    def _without_blank_texts(self, message: model.Turn, rule: str) -> model.Turn:
        """Return a message with media without the blank texts beside them."""
        kept: list[model.Part] = []
        for is_text, run in groupby(message.parts, lambda part: part.media is None):
            parts = tuple(run)
            if not is_text or not model.is_blank(text := model.joined(parts)):
                kept += parts
            elif text:
                self.repair(rule, f"left out an empty text beside media of the {message.role}")
        return structs.replace(message, parts=tuple(kept))

    def merge_runs(self, rule: str) -> None:
        """Join neighboring messages of one role by a blank line; results stay apart."""
        merged: list[model.Turn] = []
        for role, neighbors in groupby(self.messages, lambda message: message.role):
            run = list(neighbors)
            merged += map(_merged, _runs(run))
            if len(run) > 1 and role != "tool":
                self.repair(rule, f"merged {len(run)} neighboring {role} messages")
        self.messages = merged

    def trim_end(self, rule: str) -> None:
        """Cut the white space at the end of the last message."""
        last = self.messages[-1]
        parts = list(last.parts)
        while parts and model.is_blank(parts[-1].text):
            parts.pop()
        parts[-1:] = [structs.replace(part, text=part.text.rstrip()) for part in parts[-1:]]
        if tuple(parts) != last.parts:
            self.messages[-1] = structs.replace(last, parts=tuple(parts))
            self.repair(rule, f"cut the white space at the end of the {last.role} message")

    def alternate(self, rule: str) -> None:
        """Merge neighbors of one role; refuse what makes user and assistant not alternate."""
        self.merge_runs(rule)
        if self.has_later_system():
            what = "a system message stands after the conversation began"
            self.refuse(rule, f"{what}; set later_system: merge in the target")
        self.want_user_first(rule)

    def doubt_template(self, abilities: Abilities) -> None:
        """Note where a model's own chat template would refuse a prompt, if the server uses it."""
        roles = [message.role for message in self._after_system()]
        expected = (["user", "assistant"] * len(roles))[: len(roles)]
        if (roles != expected or len(self.messages) - len(roles) > 1) and abilities.rows("roles"):
            what = f"the chat template of {abilities.name} wants user and assistant to alternate"
            advice = "set roles: alternate, or roles: any"
            self.doubts.append(f"{what}, if the server uses it; {advice}")
        if len(roles) < len(self.messages) and abilities.rows("system"):
            what = f"the chat template of {abilities.name} takes no system message"
            advice = "set system_role: user, or roles: any"
            self.doubts.append(f"{what}, if the server uses it; {advice}")

    def want_turns(self, rule: str) -> None:
        """Refuse a prompt without a user or an assistant message."""
        turns = (message for message in self.messages if message.role != "system")
        if not any(turn.is_more or not model.is_blank(turn.content) for turn in turns):
            self.refuse(rule, "add a user message")

    def want_user_first(self, rule: str) -> None:
        """Refuse a prompt whose first message, after those of the system, is not the user's."""
        first = next(self._after_system(), None)
        if first is not None and first.role != "user":
            self.refuse(rule, "begin with a user message")

    def judge(self, verdict: Verdict, advice: str = "") -> bool:
        """Return whether a request may use a feature of a model; note a doubt, or refuse it."""
        if verdict.takes is None:
            self.doubts.append(verdict.doubt)
        elif not verdict.takes:
            advice = advice or words_of(verdict.feature)[1]
            self.refuse(verdict.rule, advice + verdict.objection)
        return verdict.takes is not False

    def judge_known(self, verdict: Verdict) -> None:
        """Judge a feature only where somebody says something of it."""
        if verdict.takes is False or verdict.rows:
            self.judge(verdict)

    def want_user_last(self, abilities: Abilities) -> bool:
        """Refuse a prompt that ends with the assistant, unless the model may take it.

        Return whether there is such a message that is sent.
        """
        if not self.messages or self.messages[-1].role != "assistant":
            return False
        return self.judge(abilities.takes("final_assistant"))

    def want_system_in_place(self, abilities: Abilities) -> None:
        """Refuse a later system message where the model takes none, or not there."""
        # The first one may be a system message: what was before it was blank.
        roles = ["", *(message.role for message in self.messages), "assistant"]
        for before, role, after in zip(roles, roles[1:], roles[2:], strict=False):
            is_fit = before in ("user", "tool") and after == "assistant"
            if role == "system" and not is_fit:
                self.refuse("A10", _MERGE_LATER)
        self.want_known_later_system(abilities, f"the model takes none; {_MERGE_LATER}")

    def want_known_later_system(self, abilities: Abilities, advice: str) -> None:
        """Refuse a system message that is not the first message where the model takes none."""
        if any(message.role == "system" for message in self.messages[1:]):
            self.judge(abilities.takes("later_system"), advice)


# What Gemini takes in place of a signature, as Google's own clients spell it.
STAND_IN = "skip_thought_signature_validator"
_LONGEST_ID = 40  # of those that are made here
_LONGEST_STEM = 30  # of what a number is counted for


class Names(NamedTuple):
    """Which ids of calls, or names of tools, a vendor takes."""

    rule: str
    pattern: re.Pattern[str]  # of a whole one


def keep_thinking(layout: Layout, vendor: str, takes: Callable[[model.Thinking], object]) -> None:
    """Leave out the thinking of other vendors, and what a vendor does not take back (T8)."""

    def why(block: model.Thinking) -> str:
        if block.vendor != vendor:
            return "from another vendor"
        return "" if takes(block) else "without a signature"

    leave_out_thinking(layout, "T8", ([*map(why, each.thinking)] for each in layout.messages))


def leave_out_thinking(layout: Layout, rule: str, reasons: Iterable[list[str]]) -> None:
    """Leave out blocks of thinking, and messages that were nothing else.

    The reasons are for each message those of its blocks, empty for one that stays.
    """
    kept: list[model.Turn] = []
    lost: Counter[str] = Counter()  # number of blocks by the reason
    for message, whys in zip(layout.messages, reasons, strict=True):
        if any(whys):
            lost.update(filter(None, whys))
            thinking = [block for block, why in zip(message.thinking, whys, strict=True) if not why]
            message = structs.replace(message, thinking=tuple(thinking))
            if model.is_blank(message.content) and not message.is_more:
                continue  # so that no API gets a message which says nothing
        kept.append(message)
    for reason, count in lost.items():
        layout.repair(rule, f"left out {number_of(count, 'block')} of thinking {reason}")
    if gone := len(layout.messages) - len(kept):
        layout.repair(rule, f"left out {number_of(gone, 'message')} with nothing but thinking")
    layout.messages = kept


def doubt_description(layout: Layout, settings: RequestSettings) -> None:
    """Note a description of the answer's JSON Schema that a vendor's bodies cannot have."""
    if getattr(settings.response_format, "description", ""):
        what = "the description of response_format is not sent to this vendor"
        layout.doubts.append(f"{what}; write it in the schema")


def pair_results(layout: Layout, *, is_asked: bool = True) -> None:
    """Move each result directly after its call; refuse a call or result without the other (T3).

    Calls in the last message may wait, unless a model is asked.
    """
    messages = layout.messages
    _, name, what = model.unpaired(messages)
    if any(message.calls and message.role != "assistant" for message in messages):
        layout.refuse("T3", "only an assistant message calls tools")
    if what:
        layout.refuse("T3", f"the call {name!r} {what}")
        return
    caller = {call.id: at for at, message in enumerate(messages) for call in message.calls}
    results: dict[int, list[model.Turn]] = {}
    for message in messages:
        if message.answers is not None:
            results.setdefault(caller.pop(message.answers), []).append(message)
    last = len(messages) - 1
    for name in (name for name, at in caller.items() if is_asked or at < last):
        layout.refuse("T3", f"the call {name!r} has no result; add a message with its tool_call_id")
    ordered: list[model.Turn] = []
    for at, message in enumerate(messages):
        if message.answers is None:
            ordered += (message, *results.get(at, ()))
    if ordered != messages:
        layout.repair("T3", "moved the results of calls directly after them")
    layout.messages = ordered


def rename_ids(layout: Layout, ids: Names) -> None:
    """Give calls that a vendor would refuse for their ids others, and their results, too."""
    given = [call.id for message in layout.messages for call in message.calls]
    refused = [name for name in given if not ids.pattern.fullmatch(name)]
    if not refused:
        return
    taken, named = set(given), {name: name for name in given}
    numbers: Counter[str] = Counter()  # the last one after each stem: thousands may share one
    for name in refused:
        stem = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:_LONGEST_ID] or "call"
        new = stem
        while new in taken:
            numbers[stem[:_LONGEST_STEM]] += 1
            number = str(numbers[stem[:_LONGEST_STEM]] + 1)
            new = f"{stem[: _LONGEST_ID - 1 - len(number)]}_{number}"
        taken.add(new)
        named[name] = new
    for at, message in enumerate(layout.messages):
        if message.calls:
            calls = tuple(structs.replace(call, id=named[call.id]) for call in message.calls)
            layout.messages[at] = structs.replace(message, calls=calls)
        elif message.answers is not None:
            answers = named.get(message.answers, message.answers)
            layout.messages[at] = structs.replace(message, answers=answers)
    layout.repair(ids.rule, f"renamed the ids of {number_of(len(refused), 'call')}")


def tell_errors(layout: Layout, rule: str) -> None:
    """Begin the results of failed calls with ``error:``, as the transcript does."""
    for at, message in enumerate(layout.messages):
        if message.is_error:
            mark = model.Part("text", "error: ", stage=f"rule {rule}")
            parts = (mark, *model.separate_first("", message.parts))
            layout.messages[at] = structs.replace(message, parts=parts, is_error=False)
            layout.repair(rule, "began the result of a call that failed with error:")


def name_joined(layout: Layout, rule: str, *, with_user: bool = False) -> None:
    """Name the results that are sent as one message, and the user's next message with them."""
    for is_result, run in groupby(layout.messages, lambda message: message.answers is not None):
        if is_result and (count := len(list(run))) > 1:
            layout.repair(rule, f"sent {count} results as one message")
    for before, after in pairwise(layout.messages):
        if with_user and before.answers is not None and after.role == "user":
            layout.repair(rule, "sent results and the user message after them as one message")


def want_signatures(layout: Layout, abilities: Abilities, *, skips: bool) -> None:
    """Refuse a call that lacks the signature which the model needs (T5), or send a stand-in.

    The model checks the first call of each message since the last one of the user.
    """
    messages = layout.messages
    last = max((at for at, each in enumerate(messages) if each.role == "user"), default=-1)
    unsigned = [
        at
        for at, message in enumerate(messages)
        if at > last and message.calls and not message.calls[0].signature
    ]
    if not unsigned:
        return
    verdict = abilities.takes("unsigned_calls")
    if verdict.takes or not skips:
        advice = "add it to the call; or set thought_signature: skip in the target"
        layout.judge(verdict, advice)
        return
    for at in unsigned:
        first, *others = messages[at].calls
        calls = (structs.replace(first, signature=STAND_IN), *others)
        messages[at] = structs.replace(messages[at], calls=calls)
    layout.repair("T5", f"sent a stand-in for the signature of {number_of(len(unsigned), 'call')}")


def want_names(layout: Layout, request: ProviderRequest, names: Names) -> None:
    """Refuse tools, and calls of tools, whose names a vendor does not take."""
    given = [tool.name for tool in request.tools]
    if layout.has_more:
        given += [call.name for message in layout.messages for call in message.calls]
    for name in dict.fromkeys(given):
        if not names.pattern.fullmatch(name):
            layout.refuse(names.rule, f"rename {name!r}")


_BY_NAME = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")


def schemas_in(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a JSON Schema, and those inside it; not what only looks like one, as an example."""
    if isinstance(schema, list):
        for each in schema:
            yield from schemas_in(each)
    elif isinstance(schema, Mapping):
        yield schema
        for key, value in schema.items():
            if key in _BY_NAME and isinstance(value, Mapping):
                yield from schemas_in([*value.values()])  # its keys are names, not keywords
            elif key not in ("const", "default", "enum", "examples"):
                yield from schemas_in(value)


_FEATURES: dict[MediaKind, str] = {  # by which models differ
    "image": "images",
    "document": "documents",
    "audio": "audio",
}


def media_in(turns: Iterable[model.Turn]) -> Iterator[Media]:
    """Yield the media of turns."""
    return (part.media for turn in turns for part in turn.parts if part.media is not None)


def want_size(layout: Layout, rule: str, most: int) -> None:
    """Refuse a request with more bytes of media, in base64, than a vendor takes."""
    if (size := sum(map(_in_base64, media_in(layout.messages)))) > most:
        layout.refuse(rule, f"this one has {size:,} bytes of media in base64")


def want_images(layout: Layout, rule: str, most: int) -> None:
    """Refuse images of more bytes, in base64, than a vendor takes."""
    images = dict.fromkeys(each for each in media_in(layout.messages) if each.kind == "image")
    sizes = [(image, size) for image in images if (size := _in_base64(image)) > most]
    if sizes:
        large = first_of([f"{quoted(image.name)} has {size:,}" for image, size in sizes])
        layout.refuse(rule, f"{large} bytes in base64")


def _in_base64(media: Media) -> int:
    return (media.size + 2) // 3 * 4


def want_kinds(
    layout: Layout, abilities: Abilities, kinds: tuple[MediaKind, ...] = MEDIA_KINDS
) -> None:
    """Refuse media of these kinds that the model does not take, or note a doubt."""
    first = {media.kind: media for media in reversed([*media_in(layout.messages)])}
    for kind, feature in ((kind, _FEATURES[kind]) for kind in kinds if kind in first):
        advice = f"leave out {quoted(first[kind].name)}, or use a model that takes {feature}"
        layout.judge(abilities.takes(feature), advice)


def want_user_media(layout: Layout, rule: str) -> None:
    """Refuse media in messages of the assistant."""
    found = media_in(turn for turn in layout.messages if turn.role == "assistant")
    if names := dict.fromkeys(quoted(media.name) for media in found):
        layout.refuse(rule, f"attach {first_of([*names])} to a message of the user")


def want_types(layout: Layout, rule: str, takes: Callable[[Media], bool], advice: str) -> None:
    """Refuse media that an API takes in no message; the advice says what to write."""
    wrong = dict.fromkeys(media for media in media_in(layout.messages) if not takes(media))
    if wrong:
        names = [f"{quoted(each.name)} ({each.media_type or 'an address'})" for each in wrong]
        layout.refuse(rule, f"{advice} in place of {first_of(names)}")


def without_detail(layout: Layout) -> None:
    """Name the repair where an API knows no ``detail`` of an image (M3)."""
    for media in dict.fromkeys(media for media in media_in(layout.messages) if media.detail):
        layout.repair("M3", f"left out the detail {media.detail} of {media.name!r}")


def move_from_results(
    layout: Layout, takes: Callable[[model.Turn, Media], bool], rule: str = "T6"
) -> None:
    """Send the media of results in a user message after them, if they are not taken there."""
    turns: list[model.Turn] = []
    for is_result, run in groupby(layout.messages, lambda turn: turn.answers is not None):
        moved: list[model.Part] = []
        for turn in run:
            parts, said = list[model.Part](), list(turn.parts)
            for at, part in enumerate(turn.parts if is_result else ()):
                if (media := part.media) and not takes(turn, media):
                    parts.append(part)
                    told = f"The {media.kind} {media.name} is in the next message of the user."
                    said[at] = model.Part("text", told, part.separator, stage=f"rule {rule}")
            if parts:
                of_call = f"From the result of the call {turn.answers}:"
                moved += (model.Part("text", of_call, stage=f"rule {rule}"), *parts)
                turn = structs.replace(turn, parts=tuple(said))
                count = number_of(len(parts), "file")
                layout.repair(rule, f"sent {count} of a result in a user message after it")
            turns.append(turn)
        if moved:
            turns.append(model.Turn("user", tuple(moved)))
    layout.messages = turns
