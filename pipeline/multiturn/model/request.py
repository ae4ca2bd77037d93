"""What a provider is handed, and the messages that an API is sent of it."""

import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from msgspec import Struct, structs

from multiturn.errors import MultiturnError
from multiturn.files.media import Media
from multiturn.model import turns as model
from multiturn.model.settings import RequestSettings
from multiturn.model.turns import Call, Part, Parts, Role, Thinking, Tool, Turn, Turns
from multiturn.text import brief

DEFAULT_SYSTEM_PROMPT = "You are a careful assistant."
GUIDELINES_HEADING = "[[ ## Guidelines ## ]]"
Content = str | tuple[str | Media, ...]  # of a message
DEFAULT: Parts = (Part("text", DEFAULT_SYSTEM_PROMPT, stage="the provider"),)


class ChatMessage(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """One message of a chat prompt.

    Attributes:
        role: who speaks.
        content: the text; where there are images, documents or audio, the texts and these in order.
        tool_calls: the tools that the assistant calls.
        tool_call_id: the call whose result it is.
        is_error: whether that call failed.
        thinking: what the assistant thought before.
    """

    role: Role
    content: Content
    tool_calls: tuple[Call, ...] = ()
    tool_call_id: str | None = None
    is_error: bool = False
    thinking: tuple[Thinking, ...] = ()

    @property
    def text(self) -> str:
        """The content as text; for an image, a document or audio, what stands for it."""
        return turn_of(self).content


def message_of(turn: Turn) -> ChatMessage:
    """Return a turn as a message of a chat prompt."""
    if not turn.is_more:
        return ChatMessage(turn.role, content_of(turn))
    return ChatMessage(
        turn.role,
        content_of(turn),
        model.without_lines(structs.replace(call, changed_by=None) for call in turn.calls),
        turn.answers,
        turn.is_error,
        model.without_lines(turn.thinking),
    )


def content_of(turn: Turn) -> Content:
    """Return the content of a turn: text, or in order its texts and its media."""
    if not turn.has_media:
        return turn.content
    content: list[str | Media] = []
    for is_text, parts in groupby(turn.parts, lambda part: part.media is None):
        if is_text:
            content.append(model.joined(parts))
        else:
            content += [part.media for part in parts if part.media is not None]
    return tuple(content)


def pieces_of(turn: Turn) -> tuple[str | Media, ...]:
    """Return the content of a turn in pieces; none if there is nothing in it."""
    if turn.has_media:
        return tuple(content_of(turn))
    return (turn.content,) if turn.parts else ()


def part_of(content: str | Media) -> Part:
    """Return a piece of the content of a message as a part."""
    if isinstance(content, str):
        return Part("text", content)
    return Part("media", content.text, media=content)


def pieces_in(message: ChatMessage) -> tuple[str | Media, ...]:
    """Return the texts and the media of a message, in order; anything else in it is an error."""
    content: Any = message.content
    if isinstance(content, str):
        return (content,)
    for each in content if isinstance(content, tuple | list) else (content,):
        if each is content or not isinstance(each, str | Media):
            what = f"a message of the {message.role} has content of the type {type(each).__name__}"
            raise MultiturnError(f"{what}; it must be text, or a tuple of texts and Media")
    return tuple(content)


def as_text(part: Part) -> Part:
    """Return a part of a transcript, where media are the text that stands for them."""
    return part if part.media is None else structs.replace(part, kind="text", media=None)


def result_in_words(call_id: str | None, *, is_error: bool) -> str:
    """Return what readers see beside the role of a result; empty for another message.

    >>> result_in_words("c1", is_error=True)
    ', failed result of c1'
    """
    return "" if call_id is None else f", {'failed ' * is_error}result of {call_id}"


def turn_of(message: ChatMessage) -> Turn:
    """Return a message of a chat prompt as a turn."""
    return Turn(
        message.role,
        tuple(map(part_of, pieces_in(message))),
        None,
        message.thinking,
        message.tool_calls,
        message.tool_call_id,
        message.is_error,
    )


class InputFile(Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """A file that a case attaches.

    Attributes:
        path: as the suite wrote it.
        resolved_path: relative to the root, with ``/``.
        guideline: whether its text is in the system message.
        text: for an agent that wants the file itself, as the stages have left it.
        media: the image, document or audio that the file is; None for text.
    """

    path: str
    resolved_path: str
    guideline: bool = False
    text: str = ""
    media: Media | None = None


class Origins(Struct, frozen=True, eq=False):
    """The messages of a request, with the origins of their texts; any two compare equal."""

    sent: Turns
    question: Parts
    chat_prompt: tuple[ChatMessage, ...] | None
    system: str | None

    def is_of(self, request: "ProviderRequest") -> bool:
        """Return whether nobody has changed the request since."""
        return (
            request.chat_prompt is self.chat_prompt
            and request.system == self.system
            and request.question == model.joined(self.question)
        )

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, Origins)


class ProviderRequest(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """What the orchestrator hands a provider, and what it needs to go on from the answer.

    Attributes:
        question: the conversation as one text, for logs and for agent providers.
        guidelines: deprecated; for a provider that gets no ``chat_prompt``.
        chat_prompt: the messages for an LLM API; None where the pipeline gives none.
        system: the system message, for a ``chat_prompt`` that is missing or has none; empty if
            there is nothing to say. None in a request that no pipeline made.
        input_files: each attached file once.
        tools: what the model may call.
        metadata: the case's, with ``system_prompt`` where there is one.
        eval_id: the case's id.
        settings: what else shapes the answer; what it does not say is the target's own.
        suite: that of the case.
        conversation_id: groups the cases of one conversation.
        outcome: what the answer should achieve, in words.
        expected_messages: the answer a grader compares with, as the suite wrote it.
        execution: settings for whoever runs the case, the suite's and over them the case's.
        root: the folder that ``resolved_path`` of a file is relative to; empty without files.
        origins: where the texts come from; None in a request that no pipeline made.
    """

    question: str
    guidelines: tuple[str, ...] = ()
    chat_prompt: tuple[ChatMessage, ...] | None = None
    system: str | None = None
    input_files: tuple[InputFile, ...] = ()
    tools: tuple[Tool, ...] = ()
    metadata: Mapping[str, Any] = {}
    eval_id: str = ""
    settings: RequestSettings = RequestSettings()
    suite: str = ""
    conversation_id: Any = None
    outcome: Any = None
    expected_messages: Any = None
    execution: Any = None
    root: str = ""
    origins: Origins | None = None

    __repr__ = brief


class PreparedRequest(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """A request as a vendor's rules have left it: what its body is written of, and read as.

    Attributes:
        messages: in order, each as it is sent.
        system: the system message that the API takes apart from the messages.
        model: its name, or that of a deployment.
        tools: what the model may call.
        settings: what else shapes the answer; ``body`` has the keys that say nothing of all this.
        form: what else the form of the body depends on, by names that the vendor's own module says.
    """

    messages: Turns
    system: Turn | None = None
    model: str = ""
    tools: tuple[Tool, ...] = ()
    settings: RequestSettings = RequestSettings()
    form: Mapping[str, Any] = {}

    @property
    def spoken(self) -> Turns:
        """All messages, the system message first."""
        return (*([self.system] if self.system else []), *self.messages)


def as_sent(chat: Turns | None, system: Parts, question: Parts, default: Parts = DEFAULT) -> Turns:
    """Return the messages that an API is sent, before the repairs that its own rules require.

    Whoever sends or shows a prompt takes it from here (000, "ChatPrompt Field Handling" and "System
    Message Handling"): a chat with a system message is sent as it is, and one without gets it, or
    the default in place of a blank one, as its first message. Without a chat, the question is the
    only user message; an empty chat has none, so that every provider refuses it (C1).
    """
    turns = chat or ()
    for turn in turns:
        if turn.role == "system":
            return turns
    said = default if model.is_blank(model.joined(system)) else system
    others = (Turn("user", tuple(map(as_text, question))),) if chat is None else chat
    return (Turn("system", said), *others) if said else others


def plain_system(prompt: Part | None, guidelines: Iterable[Part]) -> Parts:
    """Return the system message of a pipeline that does not lay one out (000, 001).

    It is the system prompt, or the default one, and the guidelines.
    """
    spoken = (prompt,) if prompt is not None and not model.is_blank(prompt.text) else ()
    section = guideline_section(guidelines, "the provider", GUIDELINES_HEADING, "=== {path} ===")
    return (*(spoken or DEFAULT), *section) if section else spoken


def guideline_section(
    given: Iterable[Part], stage: str, heading: str, header: str, lone: str = "bare"
) -> list[Part]:
    """Return the guidelines that are not blank, below a heading that a stage adds.

    Each file has a header with its ``{path}`` or ``{name}``, but not a lone one if that is
    ``bare``. An empty heading or header is no line.
    """
    guidelines = [part for part in given if not model.is_blank(part.text)]
    parts = [Part("text", heading, "\n\n", stage=stage)] if guidelines and heading else []
    header = "" if lone == "bare" and len(guidelines) == 1 else header
    for part in guidelines:
        separator = "\n\n"
        if header and part.path is not None:
            names = {"{path}": part.path, "{name}": part.path.rpartition("/")[2]}
            line = "".join(names.get(each, each) for each in re.split(r"(\{\w+\})", header))
            shown = structs.replace(part, text=line, separator=separator, changed_by=None)
            parts.append(structs.replace(shown, stage=stage))
            separator = "\n"
        parts.append(structs.replace(part, separator=separator))
    return parts


def prompt_of(request: ProviderRequest) -> Turns:
    """Return the messages that an API is sent for a request, before its own repairs."""
    if request.origins is not None and request.origins.is_of(request):
        return request.origins.sent
    given = request.chat_prompt
    chat = None if given is None else tuple(map(turn_of, given))
    system: Parts = (Part("text", request.system or ""),)
    if request.system is None:
        guidelines = guidelines_with_files(request) if chat is None else []
        texts = [Part("text", text, path=file.path if file else None) for text, file in guidelines]
        system = plain_system(Part("text", spoken_prompt(request)), texts)
    return as_sent(chat, system, (Part("text", request.question),))


def question_of(request: ProviderRequest) -> Parts:
    """Return the transcript of a request in parts, with text in the place of media."""
    if request.origins is not None and request.origins.is_of(request):
        return tuple(map(as_text, request.origins.question))
    return (Part("text", request.question),)


def files_and_media(request: ProviderRequest) -> tuple[InputFile, ...]:
    """Return the files of a request, and as files the media that only its messages have."""
    files = list(request.input_files)
    known = {(file.media.digest, file.media.url) for file in files if file.media is not None}
    for message in request.chat_prompt or ():
        for media in pieces_in(message):
            if isinstance(media, Media) and (media.digest, media.url) not in known:
                known.add((media.digest, media.url))
                files.append(InputFile(media.name, "", media=media))
    return tuple(files)


def spoken_prompt(request: ProviderRequest) -> str:
    """Return the system prompt in a request's metadata; empty if there is none."""
    given = [request.metadata.get(name) for name in ("system_prompt", "systemPrompt")]
    return next((text for text in given if isinstance(text, str) and not model.is_blank(text)), "")


def guidelines_with_files(request: ProviderRequest) -> list[tuple[str, InputFile | None]]:
    """Return each guideline with its file, or None for one that is not a file's text."""
    files = [file for file in request.input_files if file.guideline]
    found = []
    for text in request.guidelines:
        at = next((at for at, file in enumerate(files) if file.text == text), None)
        found.append((text, None if at is None else files.pop(at)))
    return found
