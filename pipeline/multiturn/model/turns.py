"""Turns and their parts, which know where their text is from; and checks of them."""

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from msgspec import Struct, ValidationError, convert, structs

from multiturn.files.media import Media

if TYPE_CHECKING:
    from multiturn.model.case import TestMessage


class Tool(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """A tool that the model may call.

    Attributes:
        name: what calls name.
        description: what it does, for the model.
        parameters: a JSON Schema of the arguments, which are an object.
        strict: whether the vendor shall hold arguments to the schema; None where nobody says.
        line: one-based line in the suite; 0 without a suite.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = {}
    strict: bool | None = None
    line: int = 0

    @property
    def title(self) -> str:
        """What readers call its definition, such as ``tool weather``."""
        return f"tool {self.name}"

    @property
    def text(self) -> str:
        """The definition as a reader sees it: the description, and the schema as JSON."""
        schema = json.dumps(self.parameters, indent=2, ensure_ascii=False)
        return "\n".join(filter(None, (self.description, schema)))


class Call(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """A call of a tool by the assistant.

    Attributes:
        id: what its result names; unique in a conversation.
        name: the tool's.
        arguments: a JSON object. Stages must not change it in place.
        signature: what a vendor signed the call with (Gemini's ``thoughtSignature``).
        line: one-based line in the suite; 0 without a suite.
        changed_by: the last stage that changed it; the call as written is in the case.
    """

    id: str
    name: str
    arguments: Mapping[str, Any] = {}
    signature: str = ""
    line: int = 0
    changed_by: str | None = None

    @property
    def text(self) -> str:
        """The call as a reader sees it, in one line, such as ``weather({"city": "Paris"})``."""
        return f"{self.name}({json.dumps(self.arguments, ensure_ascii=False)})"


class Thinking(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """A block of what a model thought before it spoke, for the vendor that it comes from.

    Attributes:
        text: what it thought; empty where the vendor has hidden it.
        signature: by which the vendor knows the text; it holds for the text as it was. Of OpenAI's
            models, the id of the reasoning item; a block of the same id is more of its summary.
        data: the thought in a form that only the vendor reads.
        vendor: whose model thought: ``anthropic``, ``gemini`` or ``openai``.
        line: one-based line in the suite; 0 without a suite.
    """

    text: str = ""
    signature: str = ""
    data: str = ""
    vendor: str = "anthropic"
    line: int = 0

    @property
    def shown(self) -> str:
        """The thinking as a reader sees it, marked as such: it is no part of what was said."""
        return f"(thinking) {self.text}" if self.text else "(hidden thinking)"


Placed = TypeVar("Placed", Tool, Call, Thinking)


def without_lines(written: Iterable[Placed]) -> tuple[Placed, ...]:
    """Return tools, calls or thinking without their lines in the suite, which nobody is sent."""
    return tuple([structs.replace(each, line=0) for each in written])


def unpaired(messages: "Iterable[Turn | TestMessage]") -> tuple[int, str, str]:
    """Return the first call or result that lacks the other: its index, its id, what is wrong.

    A call at the end may wait for its result. What is wrong is empty where all is well.
    """
    asked: dict[str, int] = {}
    answered: set[str] = set()
    last = -1  # the last message that is no result
    for at, message in enumerate(messages):
        if message.answers is not None:
            if message.answers not in asked:
                what = "has a result, but is not made before it; correct tool_call_id"
                return at, message.answers, what
            if message.answers in answered:
                return at, message.answers, "has two results; keep one of them"
            answered.add(message.answers)
        elif message.role != "tool":
            last = at
        for call in message.calls:
            if call.id in asked:
                return at, call.id, "is there twice; give each an id of its own"
            asked[call.id] = at
    for name, at in asked.items():
        if name not in answered and at < last:
            return at, name, "has no result; add a message with its tool_call_id"
    return -1, "", ""


Role = Literal["system", "user", "assistant", "tool"]
ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool")


def is_blank(text: str) -> bool:
    """Whether a text has only white space, and so is no content (rule 2)."""
    return not text or text.isspace()


InTurn = Literal["text", "file", "reference", "media"]
# The last three are for ``map_parts`` only.
PartKind = Literal[InTurn, "argument", "description", "thinking"]


class Part(Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """A piece of a turn, and where it comes from.

    Attributes:
        kind: ``text``, ``file`` (not yet embedded), ``reference`` (the marker of a guideline) or
            ``media``. The function of ``map_parts`` gets others, too, which are in no turn.
        text: what the reader of the turn sees; of media, what stands for them.
        separator: the text before it; ignored for the first part of a turn.
        message: index in ``input_messages``.
        content: index of the segment in that message's content.
        line: one-based line of the segment in the suite.
        path: path of the attached file, as the suite wrote it.
        resolved_path: that file's path relative to the root, with ``/``.
        key: the key that holds this text in the suite, where it is not a segment of a message.
        stage: the stage that added this text; None for text of a suite or a file.
        moved_by: the stage that moved this text out of the message where the suite has it.
        changed_by: the last stage that changed this text; the text as written is in the case.
        media: the image, document or audio that this part is; None for text.
    """

    kind: PartKind
    text: str
    separator: str = "\n"
    message: int | None = None
    content: int | None = None
    line: int = 0
    path: str | None = None
    resolved_path: str | None = None
    key: str | None = None
    stage: str | None = None
    moved_by: str | None = None
    changed_by: str | None = None
    media: Media | None = None

    @property
    def is_content(self) -> bool:
        """Whether it keeps its turn alive: text that is not blank, any file or media (rule 2)."""
        if self.kind == "text":
            return self.resolved_path is not None or not is_blank(self.text)
        return self.kind != "reference"

    @property
    def origin(self) -> tuple[Any, ...] | None:
        """What identifies the text of a suite or a file; None for text that a stage added."""
        if self.stage is not None:
            return None
        origin = (self.message, self.content, self.key, self.resolved_path)
        return None if origin == (None, None, None, None) else origin


def as_json(content: Mapping[str, Any]) -> str:
    """Return structured content as it is put into a prompt (rule 1)."""
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)


def separate_first(separator: str, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return the parts with another separator before the first."""
    return (structs.replace(parts[0], separator=separator), *parts[1:]) if parts else ()


def joined(parts: Iterable[Part]) -> str:
    """Return the parts' texts, joined by their separators."""
    pieces: list[str] = []
    for part in parts:
        pieces += (part.separator, part.text)
    return "".join(pieces[1:])


class Turn(Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """A message on its way through the pipeline.

    The assistant thinks, speaks and calls tools, in this order.

    Attributes:
        role: who speaks.
        parts: its content in order.
        message: index in ``input_messages``; None for a turn that a stage made.
        thinking: what the assistant thought before.
        calls: the tools that the assistant calls.
        answers: the id of the call whose result this tool turn is.
        is_error: whether that call failed.
    """

    role: Role
    parts: tuple[Part, ...] = ()
    message: int | None = None
    thinking: tuple[Thinking, ...] = ()
    calls: tuple[Call, ...] = ()
    answers: str | None = None
    is_error: bool = False

    @property
    def content(self) -> str:
        """The texts of the parts, joined by their separators."""
        return self.parts[0].text if len(self.parts) == 1 else joined(self.parts)

    @property
    def has_media(self) -> bool:
        """Whether anything in it is more than text."""
        # any() would take longer, here and below, and each message is asked several times.
        for part in self.parts:  # noqa: SIM110
            if part.media is not None:
                return True
        return False

    @property
    def thoughts(self) -> tuple[Part, ...]:
        """A part for each block of thinking, as a reader sees it."""
        return tuple(
            Part("text", each.shown, "\n", self.message, None, each.line, key=f"thinking[{at}]")
            for at, each in enumerate(self.thinking)
        )

    @property
    def calls_shown(self) -> tuple[Part, ...]:
        """A part for each call, as a reader sees it."""
        return tuple(
            Part(
                "text",
                call.text,
                message=self.message,
                line=call.line,
                key=f"tool_calls[{at}]",
                changed_by=call.changed_by,
            )
            for at, call in enumerate(self.calls)
        )

    @property
    def is_more(self) -> bool:
        """Whether it is more than its parts: no turn with calls, a result or thinking is empty."""
        return bool(self.calls or self.thinking) or self.answers is not None

    @property
    def has_content(self) -> bool:
        """Whether anything in it is more than a reference or blank text."""
        for part in self.parts:
            if part.is_content:
                return True
        return self.is_more

    @property
    def says_something(self) -> bool:
        """Whether anything in it is more than blank text."""
        return self.has_content or any(part.kind == "reference" for part in self.parts)


Turns = tuple[Turn, ...]
Parts = tuple[Part, ...]
_Made = TypeVar("_Made", Turn, Part)

_KINDS: tuple[str, ...] = get_args(InTurn)


def check_turns(turns: Any) -> None:
    """Raise a ValueError that says what a stage made, if that is not turns."""
    for turn in _all_of(Turn, turns):
        if turn.role not in ROLES:
            raise ValueError(f"a turn with the role {turn.role!r}; choose from: {', '.join(ROLES)}")
        check_parts(turn.parts)
        check_fields(turn)
        for name in ("calls", "thinking"):
            if getattr(turn, name) and turn.role != "assistant":
                raise ValueError(
                    f"{name} in a turn of the role {turn.role}; they are the assistant's"
                )
        if turn.answers is not None and turn.role != "tool":
            raise ValueError(f"a Turn of the role {turn.role} that answers a call; write role tool")


def check_parts(parts: Any) -> None:
    """Raise a ValueError that says what a stage made, if that is not parts."""
    for part in _all_of(Part, parts):
        if part.kind not in _KINDS:
            raise ValueError(f"a Part of the kind {part.kind!r}; choose from: {', '.join(_KINDS)}")
        check_fields(part)
        media = part.media
        if (part.kind == "media") is not (media is not None):
            raise ValueError(f"a Part of the kind {part.kind!r} whose media is {kind_of(media)}")
        if media is None:
            continue
        if not media.has_bytes and media.url is None:
            what = "without its bytes; to change media, use media.replace() or Media.of()"
            raise ValueError(f"{media.text} {what}")
        if part.text != media.text:  # the transcript would name other media than an API is sent
            raise ValueError(
                f"a Part whose text is {part.text!r}, and its media are {media.text};"
                " give it text=media.text, too"
            )


def _all_of(kind: type[_Made], made: Any) -> Iterable[_Made]:
    if not isinstance(made, (tuple, list)):
        raise ValueError(f"{kind_of(made)} in place of a tuple of {kind.__name__.lower()}s")
    for each in made:
        if not isinstance(each, kind):
            raise ValueError(f"{kind_of(each)} in place of a {kind.__name__}")
    return made


def check_fields(made: Struct) -> None:
    """Raise a ValueError that names the first field of a struct that has a wrong type."""
    try:
        convert(structs.asdict(made), type(made))
    except ValidationError as error:
        name, _, index = str(error).rpartition("$.")[2].rstrip("]`").partition("[")
        wrong = getattr(made, name)
        wrong = wrong[int(index)] if index else wrong
        raise ValueError(f"a {type(made).__name__} whose {name} is {kind_of(wrong)}") from None


def kind_of(value: object) -> str:
    """Return a value's type in words, for errors."""
    name = type(value).__name__
    article = "an" if name[0] in "aeiouAEIOU" else "a"
    return "None" if value is None else f"{article} {name}"
