"""What travels through a pipeline: immutable structs, from the suite's case to the request."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any, Generic, TypeVar

from msgspec import Struct, structs

from multiturn.logs import Notice
from multiturn.model import turns as model
from multiturn.model.case import Case, TestMessage
from multiturn.model.request import DEFAULT, InputFile, as_sent, plain_system
from multiturn.model.settings import RequestSettings
from multiturn.model.turns import Call, Part, Parts, Thinking, Tool, Turn, Turns
from multiturn.text import brief


class Edit(Struct, frozen=True):
    """A change of a view, and of nothing else: what ``edit_chat`` and ``edit_question`` choose."""

    name: str  # ``chat``, a view of turns, or ``question``, a view of parts
    function: Callable[..., Any]
    options: Mapping[str, Any] = {}
    stage: str = ""
    why: str = ""  # the reason for what it does to roles of messages, which explain shows

    def __call__(self, shown: Any) -> Any:
        """Return what a view shows, edited."""
        edited, is_chat = self.function(shown, **self.options), self.name == "chat"
        try:
            (model.check_turns if is_chat else model.check_parts)(edited)
        except ValueError as error:
            raise ValueError(f"{self.function.__name__} returned {error}") from None
        parts = [part for turn in shown for part in turn.parts] if is_chat else shown
        sign = signing(parts, self.stage)
        if is_chat:
            return signed_turns(edited, shown, sign, self.stage)
        return tuple(map(sign, edited))


def edited_chats(conversion: "Conversion") -> list[tuple[Edit, Turns, Turns]]:
    """Return each edit of the chat, with the chat before and after it, the last one first."""
    found: list[tuple[Edit, Turns, Turns]] = []
    edits = [edit for edit in conversion.edits if edit.name == "chat"]
    if edits and conversion.chat_view and (chat := conversion.chat_view(conversion)) is not None:
        for edit in edits:
            before, chat = chat, edit(chat)
            found.append((edit, before, chat))
    return found[::-1]


def captured(conversion: "Conversion") -> Turns:
    """Return the messages of a captured request as they were sent: its view of the chat."""
    return conversion.turns


Sign = Callable[[Part], Part]


def signing(before: Iterable[Part], stage: str) -> Sign:
    """Return what puts a stage's name on a text or media that was not there before it ran."""
    texts: dict[Any, set[Any]] = {}
    for part in before:
        texts.setdefault(part.origin, set()).add(part.media or part.text)
    anywhere = set().union(*texts.values())

    def sign(part: Part) -> Part:
        is_anonymous = part.origin is None and part.stage is None
        if (part.media or part.text) in texts.get(part.origin, anywhere) and not is_anonymous:
            return part
        if part.origin is None:
            return structs.replace(part, stage=stage)
        return structs.replace(part, changed_by=stage)

    return sign


def calls_of(turns: Iterable[Turn]) -> dict[str, Call]:
    """Return the calls of turns by their ids."""
    return {call.id: call for turn in turns for call in turn.calls}


def signed_turns(turns: Turns, before: Turns, sign: Sign, stage: str) -> Turns:
    """Return turns with a stage's name on each text and call that was not there before it ran."""
    known, kept, made = calls_of(before), set(map(id, before)), list[Turn]()
    for turn in turns:
        if id(turn) not in kept:
            calls = tuple(
                call if call == known.get(call.id) else structs.replace(call, changed_by=stage)
                for call in turn.calls
            )
            turn = structs.replace(turn, calls=calls, parts=tuple(map(sign, turn.parts)))
        made.append(turn)
    return tuple(made)


def mapped(parts: Parts, function: Callable[[Part], Part]) -> Parts:
    """Return parts as a function changes them; media, and what stages have added, stay."""
    changed = tuple(
        part if part.stage is not None or part.media is not None else function(part)
        for part in parts
    )
    try:
        model.check_parts(changed)
    except ValueError as error:
        raise TypeError(f"the function given to map_parts returned {error}") from None
    return changed


def asked(function: Callable[[Part], Part], part: Part) -> str:
    """Return the text that a function gives to a part that is in no turn."""
    given = function(part)
    text = given.text if isinstance(given, Part) else None
    if not isinstance(text, str) or structs.replace(given, text=part.text) != part:
        raise TypeError(
            "the function given to map_parts may change only the text of a part of the kind"
            f" {part.kind!r}, and returns the part"
        )
    return text


def mapped_json(value: Any, at: Part, function: Callable[[Part], Part]) -> Any:
    """Return a value of JSON with each text in it as a function of ``map_parts`` gives it.

    Of the arguments of a call, all strings and keys are texts, and of a tool the descriptions;
    ``at`` is the part for them, of the kind ``argument`` or ``description``, with the path.
    """
    path, is_tool = str(at.key), at.kind == "description"
    if isinstance(value, str):
        is_text = not is_tool or path.endswith(".description")
        return asked(function, structs.replace(at, text=value)) if is_text else value
    if isinstance(value, list | tuple):
        places = (structs.replace(at, key=f"{path}[{number}]") for number in range(len(value)))
        return [mapped_json(*each, function) for each in zip(value, places, strict=True)]
    if not isinstance(value, Mapping):
        return value
    found: dict[str, Any] = {}
    for name, child in value.items():
        below = f"{path}.{name}" if name.isidentifier() else f"{path}[{json.dumps(name)}]"
        part = structs.replace(at, text=name, key=below)
        new = name if is_tool else asked(function, part)
        if new in found:
            raise ValueError(f"two keys of {path} become one: {new[:60]!r}")
        found[new] = mapped_json(child, part, function)
    return found


def calls_mapped(turn: Turn, function: Callable[[Part], Part]) -> Turn:
    """Return a turn with the texts in its calls' arguments as a function of parts gives them."""
    calls = []
    for at, call in enumerate(turn.calls):
        key = f"tool_calls[{at}].arguments"
        part = Part("argument", "", message=turn.message, line=call.line, key=key)
        calls.append(structs.replace(call, arguments=mapped_json(call.arguments, part, function)))
    return structs.replace(turn, calls=tuple(calls))


DROPPED = "text.dropped"  # the event of what a stage drops on purpose

_VIEWS = frozenset(("chat", "question", "transcript", "input_files"))

_Shown = TypeVar("_Shown")


class _Once(Generic[_Shown]):
    """A property that is made once; functools' takes a lock each time, before Python 3.12."""

    def __init__(self, make: Callable[[Any], _Shown]) -> None:
        self._make, self._name, self.__doc__ = make, make.__name__, make.__doc__

    def __get__(self, conversion: Any, _: type | None = None) -> _Shown:
        if conversion is None:
            return self  # type: ignore[return-value]  # as documentation asks for it
        made = conversion.__dict__[self._name] = self._make(conversion)
        return made


# A view is a frozen struct that is called with a conversion, so that it compares and pickles.
ChatView = Callable[["Conversion"], Turns | None]
QuestionView = Callable[["Conversion"], Parts]


class Conversion(Struct, frozen=True, dict=True, repr_omit_defaults=True):
    """One case on its way to a request; a stage takes one and returns a new one.

    ``chat``, ``question`` and ``input_files`` show its turns, guidelines and system prompt.

    Attributes:
        case: what is converted.
        turns: the messages in their order, of all roles.
        guidelines: the guidelines' texts for the system message, in their order.
        system_prompt: ``metadata.systemPrompt`` of the case or the suite.
        tools: what the model may call.
        settings: what else shapes the answer, where a stage has changed that; None for the case's.
        notices: what the stages noticed, for the log.
        chat_view: how the turns make the chat; None until a stage chooses it.
        question_view: how the turns make the question; None until a stage chooses it.
        edits: what is changed of what the views show, and of nothing else, in this order.
        markers: how lines of the prompt begin that the pipeline adds, such as ``[User]:``.
        stage: the stage that a pipeline is running, by which changes of text are signed.
        altered: the last stage that changed what is no text: a tool, by None and its name; the
            ``role`` or ``is_error`` of a message, by its index and that word; the settings, by None
            and None; a turn that is gone, by its index in ``input_messages`` and None; media that
            are gone, by that and the index in the message's content.
    """

    case: Case
    turns: Turns = ()
    guidelines: Parts = ()
    system_prompt: Part | None = None
    tools: tuple[Tool, ...] = ()
    settings: RequestSettings | None = None
    notices: tuple[Notice, ...] = ()
    chat_view: ChatView | None = None
    question_view: QuestionView | None = None
    edits: tuple[Any, ...] = ()  # of the type Edit, which is internal
    markers: tuple[str, ...] = ()
    stage: str = ""
    altered: Mapping[tuple[int | None, int | str | None], str] = {}

    __repr__ = brief

    @_Once
    def chat(self) -> Turns | None:
        """The turns an API receives; None without a view, or where the view leaves them out."""
        view = self.chat_view
        return None if view is None else self._edited("chat", view(self))

    @_Once
    def transcript(self) -> Parts:
        """The parts of the question; none without a view."""
        view = self.question_view
        return () if view is None else self._edited("question", view(self))

    @_Once
    def question(self) -> str:
        """The transcript, as text; empty without a view."""
        return model.joined(self.transcript)

    @_Once
    def system(self) -> Parts:
        """The system message, also of a chat that a view leaves out; none with nothing to say."""
        chat = self.chat
        if chat is None and (left_out := getattr(self.chat_view, "left_out", None)):
            chat = left_out(self)
            try:
                model.check_turns(chat or ())
            except ValueError as error:
                raise ValueError(f"its chat_view left out {error}") from None
            chat = self._edited("chat", chat)
        if chat is None:
            return plain_system(self.system_prompt, self.guidelines)
        if chat and chat[0].role == "system":
            return chat[0].parts
        return plain_system(self.system_prompt, ())  # it is sent before a chat that has none

    def _edited(self, name: str, shown: Any) -> Any:
        """Return what a view shows as the edits leave it; None where it shows nothing."""
        for edit in self.edits:
            if edit.name == name and shown is not None:
                shown = edit(shown)
        return shown

    @property
    def current_settings(self) -> RequestSettings:
        """The settings of the request: those that a stage has set, else the case's."""
        return self.case.settings if self.settings is None else self.settings

    @property
    def prompt(self) -> Turns:
        """The chat; without one, the messages that are sent in its place."""
        return as_sent(self.chat, self.system, self.transcript, ())

    @_Once
    def sent(self) -> Turns:
        """The messages that an API is sent, before the repairs that its own rules require."""
        default = DEFAULT if self.case.sent is None else ()
        return as_sent(self.chat, self.system, self.transcript, default)

    @_Once
    def input_files(self) -> tuple[InputFile, ...]:
        """Each attached file once, as the first message that attaches it has it; and all media."""
        attached = [
            part
            for part in parts_of(self)
            if (part.resolved_path is not None or part.media is not None) and part.stage is None
        ]
        if not attached:
            return ()
        attached.sort(key=lambda part: (part.message is None, part.message or 0, part.content or 0))
        guidelines = {part.resolved_path for part in self.guidelines}
        files: dict[tuple[str, ...], InputFile] = {}
        for part in attached:
            path, media = part.resolved_path or "", part.media
            text = part.text if media is None else ""
            name = part.path or (path if media is None else media.name)
            file = InputFile(name, path, path in guidelines, text, media)
            same = (name, media.digest) if media is not None and not path else (path,)
            files.setdefault(same, file)
        return tuple(files.values())

    def replace(self, **changes: Any) -> "Conversion":
        """Return a copy with some attributes changed.

        Raises:
            TypeError: ``chat``, ``question`` or another view is given; views show the turns.
        """
        for view in _VIEWS & changes.keys():
            use = "edit_chat, edit_question, map_parts or a view of your own"
            raise TypeError(f"{view} shows the turns as they are; use {use}")
        return structs.replace(self, **changes)

    def map_parts(self, function: Callable[[Part], Part]) -> "Conversion":
        """Return a copy with each text of the suite and of files changed by a function.

        The texts are those of the turns, the guidelines and the system prompt; the strings and the
        keys in the arguments of calls (parts of the kind ``argument``), the descriptions of tools
        (``description``) and what the model thought (``thinking``). Names, ids, numbers, paths and
        media are not texts, and what stages have added stays. Thinking that changes is dropped,
        because its signature would not hold.

        Args:
            function: takes a part and returns it, or a copy with another text. Of the three kinds
                above, ``key`` is the JSON path, and only the text may change.

        Raises:
            TypeError: the function returned something else than a part.
            ValueError: two keys of a call's arguments become one.
        """
        notices, prompt = list(self.notices), self.system_prompt

        why = f"the stage {self.stage or 'that ran'} changed its text, which was signed"

        def change(turn: Turn) -> Turn:
            parts, kept = mapped(turn.parts, function), []
            for block, shown in zip(turn.thinking, turn.thoughts, strict=True):
                part = structs.replace(shown, kind="thinking", text=block.text)
                if asked(function, part) == block.text:
                    kept.append(block)
                else:
                    notices.append(_forgotten(self.case, turn.message, block, why))
            return calls_mapped(structs.replace(turn, parts=parts, thinking=tuple(kept)), function)

        turns, tools = tuple(map(change, self.turns)), []
        for at, tool in enumerate(self.tools):
            part = Part("description", "", line=tool.line, key=f"tools[{at}]")
            said = {"description": tool.description, "parameters": tool.parameters}
            said = {name: value for name, value in said.items() if value}
            tools.append(structs.replace(tool, **mapped_json(said, part, function)))
        return structs.replace(
            self,
            turns=turns,
            guidelines=mapped(self.guidelines, function),
            system_prompt=None if prompt is None else mapped((prompt,), function)[0],
            tools=tuple(tools),
            notices=tuple(notices),
        )

    @property
    def exchanges(self) -> tuple[Turns, ...]:
        """The turns in groups: each a turn of the user, and what follows until the next one.

        A user's turn between a call and its result begins no group. What comes before the first
        turn of the user is in the first group, and system messages are in none.
        """
        groups: list[list[Turn]] = []
        answered, waiting, is_begun = {turn.answers for turn in self.turns}, set[str](), False
        for turn in (turn for turn in self.turns if turn.role != "system"):
            is_asking = turn.role == "user"
            if not groups or (is_asking and is_begun and not waiting):
                groups.append([])
            groups[-1].append(turn)
            is_begun |= is_asking
            waiting |= {call.id for call in turn.calls if call.id in answered}
            waiting -= {turn.answers or ""}
        return tuple(map(tuple, groups))

    def drop(self, dropped: "Droppable | Iterable[Droppable | Turns]", why: str) -> "Conversion":
        """Return a copy without some turns, parts, calls or tools, which says why they are gone.

        ``explain`` gives the reason and the stage, a record has them among its ``notices``, and
        ``--strict`` does not take them for lost. With a guideline, its references go; with a call
        its result, and with a result its call.

        Args:
            dropped: turns, parts, calls or tools of this Conversion; or some of its exchanges.
            why: the reason, such as ``only the last 10 messages are kept``.

        Raises:
            ValueError: one of them is not in this Conversion, or there is no reason.
        """
        given = (dropped,) if isinstance(dropped, Turn | Part | Call | Tool) else dropped
        items = [item for each in given for item in (each if isinstance(each, tuple) else (each,))]
        calls = (call for turn in self.turns for call in turn.calls)
        inside = {id(item) for item in (*self.turns, *parts_of(self), *calls, *self.tools)}
        if not all(id(item) in inside for item in items):
            raise ValueError("drop takes turns, parts, calls and tools of this Conversion")
        if model.is_blank(why):
            raise ValueError("drop takes a reason, which explain shows")
        items += _following(items, self)
        turns = (item for item in items if isinstance(item, Turn))
        joined = (each for turn in turns for each in _joined(self.case, turn))
        why += f" (the stage {self.stage})" * bool(self.stage)
        notices = (_notice(self.case, item, why) for item in [*items, *joined])
        return _without(self, items).replace(notices=(*self.notices, *notices))

    def replace_turns(
        self, old: Turn | Iterable[Turn], new: Turn | Iterable[Turn], why: str = ""
    ) -> "Conversion":
        """Return a copy with other turns in the place of some: joined, rewritten, or taken away.

        ``explain`` finds a text by the ``message`` and the ``content`` of its part, so let parts
        that move keep them.

        Args:
            old: turns of this Conversion, such as those of an exchange.
            new: what stands where the first of them was.
            why: the reason for what only ``old`` has, such as a call or a role; else it is lost.

        Raises:
            ValueError: a turn is not in this Conversion, or a call would be without its result, or
                a result without its call.
        """
        gone, made = ((each,) if isinstance(each, Turn) else (*each,) for each in (old, new))
        model.check_turns(made)
        ids = set(map(id, gone))
        if not gone or not ids.issubset(map(id, self.turns)):
            raise ValueError("replace_turns takes turns of this Conversion")
        if made == tuple(turn for turn in self.turns if id(turn) in ids):
            return self  # also where a system message stands between them
        turns = [turn for turn in self.turns if id(turn) not in ids]
        at = next(at for at, turn in enumerate(self.turns) if id(turn) in ids)
        turns[at:at] = made
        if apart := _apart(turns) - _apart(self.turns):
            what = f"replace_turns would leave only the call {min(apart)!r}, or only its result"
            raise ValueError(f"{what}; have both in the new turns, or neither")
        reason = why + f" (the stage {self.stage})" * bool(self.stage)
        notices = _losses(self.case, gone, made, reason) if why else ()
        return structs.replace(self, turns=tuple(turns), notices=(*self.notices, *notices))

    def edit_chat(self, function: Callable[..., Turns], **options: Any) -> "Conversion":
        """Return a copy whose chat, and nothing else, is what a function makes of it.

        The function runs when the chat is asked for, on the turns as they are then.

        Args:
            function: takes the chat's turns and the options, and returns turns. It is defined at
                the top of a module, so that views can be compared and pickled.
            options: keyword arguments of the function.

        Raises:
            ValueError: no stage has chosen a chat view yet.
            TypeError: the function is not at the top of a module.
        """
        return self._with_edit("chat", self.chat_view, function, options)

    def edit_question(self, function: Callable[..., Parts], **options: Any) -> "Conversion":
        """Do the same for the question; the function takes and returns the parts of it."""
        return self._with_edit("question", self.question_view, function, options)

    def _with_edit(self, name: str, view: Any, function: Any, options: Any) -> "Conversion":
        """Return a copy with one more edit; itself if the stage has already made that edit."""
        if view is None:
            raise ValueError(
                f"edit_{name} needs a {name} view, and no stage has chosen one yet;"
                f' declare @stage(requires={{"{name}"}})'
            )
        if not isinstance(function, FunctionType) or not function.__qualname__.isidentifier():
            raise TypeError(
                f"edit_{name} takes a function at the top of a module, because it is sent to other"
                " processes by its name; give what it needs as options"
            )
        edit = Edit(name, function, options, self.stage)
        return self if edit in self.edits else structs.replace(self, edits=(*self.edits, edit))


def parts_of(conversion: Conversion) -> list[Part]:
    """Return the parts of a conversion's turns, its guidelines and its system prompt."""
    found = [part for turn in conversion.turns for part in turn.parts]
    found += conversion.guidelines
    if conversion.system_prompt is not None:
        found.append(conversion.system_prompt)
    return found


def _apart(turns: Sequence[Turn]) -> set[str]:
    """Return the ids of calls without a result, and of results without a call."""
    return {*calls_of(turns)} ^ {turn.answers for turn in turns if turn.answers is not None}


Droppable = Turn | Part | Call | Tool


def _without(conversion: Conversion, items: Iterable[Droppable]) -> Conversion:
    """Return a conversion without some items, nor turns that had calls and have nothing left."""
    gone = set(map(id, items))

    def left(parts: Parts) -> Parts:
        return tuple(part for part in parts if id(part) not in gone)

    turns = []
    for turn in conversion.turns:
        calls = tuple(call for call in turn.calls if id(call) not in gone)
        shorter = structs.replace(turn, parts=left(turn.parts), calls=calls)
        if id(turn) not in gone and (shorter.parts or shorter.is_more or not turn.calls):
            turns.append(shorter)
    return structs.replace(
        conversion,
        turns=tuple(turns),
        guidelines=left(conversion.guidelines),
        system_prompt=None if id(conversion.system_prompt) in gone else conversion.system_prompt,
        tools=tuple(tool for tool in conversion.tools if id(tool) not in gone),
    )


def _following(items: Iterable[Droppable], conversion: Conversion) -> Iterator[Droppable]:
    """Yield the references to those items that are guidelines; results of calls; and calls."""
    given = {id(item): item for item in items}
    paths = {part.resolved_path for part in conversion.guidelines if id(part) in given} - {None}
    turns = [item for item in given.values() if isinstance(item, Turn)]
    calls = {item.id for item in given.values() if isinstance(item, Call)} | {*calls_of(turns)}
    answered = {turn.answers for turn in turns}
    for turn in (turn for turn in conversion.turns if id(turn) not in given):
        if turn.answers in calls:
            yield turn
        yield from (call for call in turn.calls if call.id in answered and id(call) not in given)
        for part in turn.parts:
            if part.kind == "reference" and part.resolved_path in paths:
                yield part


def _joined(case: Case, turn: Turn) -> Iterator[Part | Call]:
    """Yield the parts and calls of a turn that another message than its own had."""
    own = () if turn.message is None else case.input_messages[turn.message].calls
    yield from (part for part in turn.parts if part.origin and part.message != turn.message)
    yield from (call for call in turn.calls if call.id not in {each.id for each in own})


def _losses(case: Case, gone: Turns, made: Turns, why: str) -> Iterator[Notice]:
    """Yield a notice of each text, call, thinking and role of turns that others do not keep."""
    kept = {part.origin for turn in made for part in turn.parts}
    calls = calls_of(made)
    thought = {(turn.message, block) for turn in made for block in turn.thinking}
    for turn in gone:
        lost: list[Droppable] = [call for call in turn.calls if call.id not in calls]
        lost += [part for part in turn.parts if part.origin and part.origin not in kept]
        yield from (_notice(case, each, why) for each in lost)
        for block in turn.thinking:
            if (turn.message, block) not in thought:
                yield _forgotten(case, turn.message, block, why)
    # The reason for another role is none for the texts, which a later stage may drop.
    for at, what, _ in altered(by_message(gone), made):
        where = case.where(case.input_messages[at].line, f"{case.message_key(at)}.{what}")
        yield Notice("turn.changed", where, why, at, is_warning=False)


def _forgotten(case: Case, message: int | None, block: Thinking, why: str) -> Notice:
    """Return the notice of a block of thinking that is dropped."""
    key = ""
    if message is not None:
        blocks = case.input_messages[message].thinking
        at = blocks.index(block) if block in blocks else 0
        key = f"{case.message_key(message)}.thinking[{at}]"
    return Notice("thinking.dropped", case.where(block.line, key), why, message, is_warning=False)


def _notice(case: Case, item: Droppable, why: str) -> Notice:
    """Return the notice of what is dropped on purpose."""
    if isinstance(item, Tool | Call):
        where = case.where(item.line, item_key(case, item))
        return Notice(DROPPED, where, why, is_warning=False)
    if isinstance(item, Turn):
        line = item.parts[0].line if item.parts else 0
        item = Part("text", "", message=item.message, line=line)
    key = item.key or ""
    if item.key is None and item.message is not None:
        key = case.message_key(item.message)
    return Notice(
        DROPPED, case.where(item.line, key), why, item.message, item.content, is_warning=False
    )


def item_key(case: Case, item: Tool | Call) -> str:
    """Return what errors call a tool or a call of a case; empty for one that a stage added."""
    if isinstance(item, Tool):
        names = [tool.name for tool in case.tools]
        return f"tools[{names.index(item.name)}]" if item.name in names else ""
    for index, message in enumerate(case.input_messages):
        for at, call in enumerate(message.calls):
            if call.id == item.id:
                return f"{case.message_key(index)}.tool_calls[{at}]"
    return ""


def by_message(turns: Iterable[Turn]) -> dict[int, Turn]:
    """Return the turn that has each message of the suite, or the first of its texts."""
    found: dict[int, Turn] = {}
    for turn in turns:
        stays = (part.message for part in turn.parts if part.stage is part.moved_by is None)
        for message in (turn.message, *stays):
            if message is not None:
                found.setdefault(message, turn)
    return found


def altered(
    before: Mapping[int, Turn | TestMessage], after: Iterable[Turn]
) -> Iterator[tuple[int, str, Turn]]:
    """Yield each change of a message's ``role`` or ``is_error``, with the turn that has it now."""
    turns = by_message(after)
    for at, was in before.items():
        if (now := turns.get(at)) is not None:
            if was.role != now.role:
                yield at, "role", now
            if was.is_error and not now.is_error:
                yield at, "is_error", now
