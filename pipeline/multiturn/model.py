"""What travels through a pipeline: immutable structs, from the suite's case to the request."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from msgspec import Struct, structs

from multiturn.files import Files

Role = Literal["system", "user", "assistant", "tool"]
ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool")


def is_blank(text: str) -> bool:
    """Whether a text has only white space, and so is no content (rule 2)."""
    return not text or text.isspace()


class TestMessage(Struct, frozen=True, gc=False):
    """One entry of ``input_messages``, as the suite wrote it.

    Attributes:
        role: who speaks.
        content: text, a list of segments, or one mapping.
        line: one-based line of the message in the suite; 0 without a suite.
        content_lines: the line of each segment of ``content``.
    """

    __test__ = False  # not a class of tests, whatever pytest makes of its name

    role: Role
    content: Any
    line: int = 0
    content_lines: tuple[int, ...] = ()


class Case(Struct, frozen=True, kw_only=True):
    """One eval case, with what its suite gives it.

    Attributes:
        id: unique in its suite.
        input_messages: the conversation.
        suite: path of the suite, as errors and results name it; empty without one.
        line: one-based line of the case in the suite.
        system_prompt: ``metadata.systemPrompt`` of the case, else of the suite.
        guidelines: guideline texts given in the suite and in the case.
        guideline_patterns: globs; an attached file that matches one is a guideline.
        metadata: the suite's, overlaid with the case's.
        outcome: what the answer should achieve, in words.
        conversation_id: groups the cases of one conversation.
        expected_messages: the answer a grader compares with, as the suite wrote it.
        execution: settings for whoever runs the case, as the suite wrote them.
        temperature: that of ``execution``.
        max_output_tokens: that of ``execution``.
        files: finds and reads attached files; None where nothing can be attached.
    """

    id: str
    input_messages: tuple[TestMessage, ...]
    suite: str = ""
    line: int = 0
    system_prompt: str | None = None
    guidelines: tuple[str, ...] = ()
    guideline_patterns: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = {}
    outcome: Any = None
    conversation_id: Any = None
    expected_messages: Any = None
    execution: Any = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    files: Files | None = None

    def where(self, line: int = 0) -> str:
        """Return ``suite:line: case 'id'``, the beginning of every message about this case."""
        place = f"{self.suite}:{line or self.line}: " if self.suite else ""
        return f"{place}case {self.id!r}"


class Part(Struct, frozen=True, gc=False):
    """A piece of a turn, and where it comes from.

    Attributes:
        kind: ``text``, ``file`` (not yet embedded) or ``reference`` (stands for a guideline).
        text: what the reader of the turn sees.
        glue: joins it to the part before; the first part of a turn has no use for it.
        message: index in ``input_messages``.
        content: index of the segment in that message's content.
        line: one-based line of the segment in the suite.
        path: path of the attached file, as the suite wrote it.
        resolved_path: that file's path relative to the root, with ``/``.
        key: the key that holds this text in the suite, where it is not in a message.
        stage: the stage that added this text, where neither the suite nor a file holds it.
        moved_by: the stage that took this text from where the suite has it to another message.
    """

    kind: Literal["text", "file", "reference"]
    text: str
    glue: str = "\n"
    message: int | None = None
    content: int | None = None
    line: int = 0
    path: str | None = None
    resolved_path: str | None = None
    key: str | None = None
    stage: str | None = None
    moved_by: str | None = None

    @property
    def is_content(self) -> bool:
        """Whether it keeps its turn alive: text that is not blank, or any file (rule 2)."""
        if self.kind == "text":
            return self.resolved_path is not None or not is_blank(self.text)
        return self.kind == "file"


def glue_first(glue: str, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return the parts with another glue before the first."""
    return (structs.replace(parts[0], glue=glue), *parts[1:]) if parts else ()


def glued(parts: Iterable[Part]) -> str:
    """Return the parts' texts, each behind its glue but for the first."""
    pieces: list[str] = []
    for part in parts:
        pieces += (part.glue, part.text)
    return "".join(pieces[1:])


class Turn(Struct, frozen=True, gc=False):
    """A message on its way through the pipeline.

    Attributes:
        role: who speaks.
        parts: its content in order.
        message: index in ``input_messages``; None for a turn that a stage made.
    """

    role: Role
    parts: tuple[Part, ...] = ()
    message: int | None = None

    @property
    def content(self) -> str:
        """The parts' texts, glued."""
        if len(self.parts) == 1:
            return self.parts[0].text
        return glued(self.parts)

    @property
    def has_content(self) -> bool:
        """Whether any part is more than a reference or blank text."""
        return any(part.is_content for part in self.parts)


class InputFile(Struct, frozen=True, gc=False):
    """A file that a case attaches.

    Attributes:
        path: as the suite wrote it.
        resolved_path: relative to the root, with ``/``.
        guideline: whether its text is in the system message.
        text: what was read, for an agent that wants the file itself.
    """

    path: str
    resolved_path: str
    guideline: bool = False
    text: str = ""


class Notice(Struct, frozen=True):
    """Something about a segment that goes into the log.

    Attributes:
        event: a dotted name, such as ``segment.left_out``.
        where: the place in the suite.
        why: what was noticed, and what to do about it.
        message: index in ``input_messages``.
        content: index of the segment in that message's content.
    """

    event: str
    where: str
    why: str
    message: int | None = None
    content: int | None = None


class Conversion(Struct, frozen=True):
    """One case on its way to a request; a stage takes one and returns a new one.

    Attributes:
        case: what is converted.
        turns: the messages in their order, all roles.
        chat: the turns an API receives; None until a stage lays them out, or if there are none.
        guidelines: the texts for the system message, as parts that know their file.
        question: the transcript.
        input_files: each attached file once.
        transcript: the parts that the question is made of, where a stage says so.
        notices: what the stages noticed, for the log.
    """

    case: Case
    turns: tuple[Turn, ...] = ()
    chat: tuple[Turn, ...] | None = None
    guidelines: tuple[Part, ...] = ()
    question: str = ""
    input_files: tuple[InputFile, ...] = ()
    transcript: tuple[Part, ...] = ()
    notices: tuple[Notice, ...] = ()

    def replace(self, **changes: Any) -> "Conversion":
        """Return a copy with some attributes changed."""
        return structs.replace(self, **changes)


class ChatMessage(Struct, frozen=True, gc=False):
    """One message of a chat prompt."""

    role: Role
    content: str


class ProviderRequest(Struct, frozen=True, kw_only=True):
    """What the orchestrator hands a provider.

    Attributes:
        question: the transcript, for logs and for agent providers.
        guidelines: deprecated; for a provider that gets no ``chat_prompt``.
        chat_prompt: the messages for an LLM API; None where the pipeline gives none.
        input_files: each attached file once.
        metadata: the case's, with ``system_prompt`` where there is one.
        eval_id: the case's id.
        temperature: how freely the model may choose; None for the target's own.
        max_output_tokens: the longest answer; None for the target's own.
    """

    question: str
    guidelines: tuple[str, ...] = ()
    chat_prompt: tuple[ChatMessage, ...] | None = None
    input_files: tuple[InputFile, ...] = ()
    metadata: Mapping[str, Any] = {}
    eval_id: str = ""
    temperature: float | None = None
    max_output_tokens: int | None = None
