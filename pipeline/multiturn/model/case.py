"""A case, as its suite has it."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, structs

from multiturn.errors import Place, cut, did_you_mean, quoted
from multiturn.files.finding import Files
from multiturn.files.media import Media
from multiturn.model.settings import NO_SETTINGS, RequestSettings
from multiturn.model.turns import ROLES, Call, Role, Thinking, Tool, Turns
from multiturn.text import brief, tuple_of_texts

MAX_CASE_SIZE = 10_000_000  # characters: a small suite can attach one large file very often
PROMPT_KEY = "metadata.systemPrompt"
CASES_KEYS = ("evalcases", "tests", "eval_cases", "cases")  # of a suite: ours, then other tools'
MESSAGES_KEYS = ("input_messages", "input", "messages")  # of a case, likewise


class TestMessage(Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """One entry of ``input_messages``, as the suite wrote it.

    Attributes:
        role: who speaks.
        content: text, a list of segments, or one mapping.
        line: one-based line of the message in the suite; 0 without a suite.
        content_lines: the line of each segment of ``content``.
        key: what errors call it, such as ``messages[0]``; empty for its place in a case.
        calls: the tools that the assistant calls.
        answers: the id of the call whose result it is.
        is_error: whether that call failed.
        thinking: what the assistant thought before.
        first_content: index of the first segment in the content as the suite wrote it.
        content_columns: the one-based column of each segment of ``content``.
    """

    __test__ = False  # not a class of tests, whatever pytest makes of its name

    role: Role
    content: Any
    line: int = 0
    content_lines: tuple[int, ...] = ()
    key: str = ""
    calls: tuple[Call, ...] = ()
    answers: str | None = None
    is_error: bool = False
    thinking: tuple[Thinking, ...] = ()
    first_content: int = 0
    content_columns: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return cut(super().__repr__())  # its text may be a whole image

    def segment_key(self, index: int | None) -> str:
        """Return what errors call a segment of the content."""
        return f"content[{index}]" if isinstance(self.content, list) else "content"


def segments_in(message: TestMessage) -> list[Any]:
    """Return the segments of a message's content."""
    return message.content if isinstance(message.content, list) else [message.content]


def segments_of(message: TestMessage) -> list[tuple[int, Any, int]]:
    """Return the index, the value and the line of each segment of a message's content."""
    segments, first = segments_in(message), message.first_content
    lines = message.content_lines or (message.line,) * len(segments)
    return [(first + at, segment, lines[at]) for at, segment in enumerate(segments)]


class Case(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """One eval case, with what its suite gives it.

    Attributes:
        id: unique in its suite.
        input_messages: the conversation.
        suite: path of the suite from the project's root, or as it was named; empty without one.
        file: path of the file that it is in, as errors name it.
        line: one-based line of the case in its file.
        system_prompt: ``metadata.systemPrompt`` of the case, else of the suite.
        guidelines: guideline texts given in the suite and in the case.
        guideline_patterns: globs; an attached file that matches one is a guideline.
        tools: what the model may call: the case's, else the suite's.
        metadata: the suite's, overlaid with the case's.
        outcome: what the answer should achieve, in words.
        conversation_id: groups the cases of one conversation.
        expected_messages: the answer a grader compares with, as the suite wrote it.
        execution: settings for a run of the case: the suite's, overlaid with the case's.
        settings: those of ``execution`` that shape the answer.
        hidden_characters: ``allow`` where the suite means characters that nobody sees.
        max_prompt_tokens: the most tokens that its prompt may have; None for any number.
        files: finds and reads attached files; None where nothing can be attached.
        places: where the suite has each text that is in no message, by its key.
        sent: of a captured request, the messages, to which no pipeline applies; else None.
    """

    id: str
    input_messages: tuple[TestMessage, ...]
    suite: str = ""
    file: str = ""
    line: int = 0
    system_prompt: str | None = None
    guidelines: tuple[str, ...] = ()
    guideline_patterns: tuple[str, ...] = ()
    tools: tuple[Tool, ...] = ()
    metadata: Mapping[str, Any] = {}
    outcome: Any = None
    conversation_id: Any = None
    expected_messages: Any = None
    execution: Any = None
    settings: RequestSettings = NO_SETTINGS
    hidden_characters: Literal["allow"] | None = None
    max_prompt_tokens: int | None = None
    files: Files | None = None
    places: Mapping[str, Place] = {}
    sent: Turns | None = None

    __repr__ = brief

    def __post_init__(self) -> None:
        """Refuse a text where a tuple is meant, and messages and settings that no suite has."""
        given = self.input_messages
        for message in given if isinstance(given, (tuple, list)) else [None]:
            if not isinstance(message, TestMessage):
                raise TypeError(
                    'input_messages is a tuple of TestMessage; write (TestMessage("user", "Hi"),)'
                )
            if message.role not in ROLES:
                hint = did_you_mean(str(message.role), ROLES)
                at = f"input_messages[{given.index(message)}]"
                raise ValueError(f"{at}: no role {message.role!r}; {hint}")
        if self.settings is not NO_SETTINGS:
            if not isinstance(self.settings, RequestSettings):
                what = "settings are a RequestSettings; write RequestSettings(temperature=0)"
                raise TypeError(what)
            self.settings.check()
        if not isinstance(self.guidelines, tuple) or not isinstance(self.guideline_patterns, tuple):
            for name in ("guidelines", "guideline_patterns"):
                structs.force_setattr(self, name, tuple_of_texts(name, getattr(self, name)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Carry the media that were read for this case, and not those of the whole suite."""
        messages = self.input_messages if self.files else ()
        segments = [each for message in messages for each in segments_in(message)]
        names = {str(each.get("value")) for each in segments if isinstance(each, dict)}
        media = self.files.read_media(names) if self.files else None
        return *super().__reduce__(), media

    def __setstate__(self, media: dict[str, tuple[str, Media]]) -> None:
        if self.files is not None:
            self.files.add_media(media)

    @property
    def keyed_texts(self) -> dict[str, str]:
        """The texts of the suite that are not in a message, by their keys."""
        texts = {f"guidelines[{number}]": text for number, text in enumerate(self.guidelines)}
        return texts if self.system_prompt is None else texts | {PROMPT_KEY: self.system_prompt}

    def message_key(self, index: int) -> str:
        """Return what errors call a message: the key and the index that the suite has."""
        return self.input_messages[index].key or f"input_messages[{index}]"

    def where(self, line: int = 0, key: str = "") -> Place:
        """Return the place of a line of this case, or of a key; ``key`` follows its id."""
        label = f"case {quoted(self.id)}: {key}" if key else f"case {quoted(self.id)}"
        known = None if line else self.places.get(key)
        file, at = (known.file, known.line) if known else (self.file or self.suite, self.line)
        return Place(file, line or at, 0, label)

    def place_of(self, message: int | None, content: int | None, key: str | None) -> Place:
        """Return where the suite has a segment of a message, or the text of a key."""
        if message is None or content is None:
            return self.places.get(key or "", Place())
        given = self.input_messages[message]
        at = content - given.first_content
        if not 0 <= at < len(given.content_columns):
            return Place()
        return Place(self.file or self.suite, given.content_lines[at], given.content_columns[at])
