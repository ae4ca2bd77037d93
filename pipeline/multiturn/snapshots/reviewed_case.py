"""What a review needs of a converted case: snapshots, their lists and reports are made of it."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from multiturn.engine.converting import ConvertedCase
from multiturn.errors import MultiturnError, ProviderError
from multiturn.explaining import spans
from multiturn.explaining.explanation import preview_of
from multiturn.explaining.spans import Message, Spans
from multiturn.files.media import Media
from multiturn.model.case import Case
from multiturn.model.conversion import Conversion
from multiturn.model.request import ChatMessage, InputFile, ProviderRequest
from multiturn.model.settings import LARGEST_SCHEMA, RequestSettings
from multiturn.model.turns import Tool, without_lines
from multiturn.providers.base import TargetProvider
from multiturn.snapshots.attached_files import Attached
from multiturn.snapshots.locations import Key, suite_of
from multiturn.snapshots.privilege import Promotion, promotions_of

# What ``target.lock`` has as an example.
HI = ProviderRequest(question="Hi", chat_prompt=(ChatMessage("user", "Hi"),), system="")


class SentPrompt(Struct, frozen=True):
    """What a target is sent of a case."""

    messages: tuple[Message, ...]  # as the target gets them
    parameters: Mapping[str, Any]  # what else the body says
    repairs: tuple[str, ...]  # what the target's rules required
    shared: tuple[str, ...]  # those that its settings require in every case
    is_as_given: bool  # they are the messages before repairs, ids included, or the transcript
    system_role: str = ""  # what its system messages are called there, if the target says that


class ReviewedCase(Struct, frozen=True):
    """A converted case, as a review shows it; it pickles."""

    suite: str  # its path in the root
    case: Case  # as written, without what finds its files
    root: str  # the folder that paths of files are relative to; empty without files
    messages: tuple[Message, ...]  # of the chat prompt, or what is sent in its place
    chat: tuple[Message, ...] | None  # those of the chat prompt; None where the pipeline gives none
    settings: RequestSettings
    input_files: tuple[InputFile, ...]
    question: Spans
    folder: str | None  # where attached files are looked for first, from the root; None for nowhere
    # The attached files as they are on disk, by their paths in the root.
    files: Mapping[str, Attached]
    promoted: frozenset[Promotion]  # the files that reach a system message
    shown: frozenset[str]  # keys of the suite's texts that are in no message, but in the prompt
    tools: tuple[Message, ...] = ()  # the definitions of tools, each as a text
    tool_data: tuple[Tool, ...] = ()  # the same as data
    sent: SentPrompt | None = None  # to the target that is asked for; None without one

    @property
    def key(self) -> Key:
        """The suite and the id, which identify the case."""
        return self.suite, self.case.id

    @property
    def prompt(self) -> tuple[Message, ...]:
        """What the target gets; without one, the chat prompt, or what is sent in its place."""
        return self.messages if self.sent is None else self.sent.messages

    @property
    def judged(self) -> tuple[Message, ...]:
        """Where changes of privilege may be: the messages, and the definitions of tools."""
        return *self.messages, *self.tools


def reviewed_case(conversion: Conversion, provider: TargetProvider | None = None) -> ReviewedCase:
    """Return what a review needs of a finished conversion; nothing else of it looks at one.

    With a provider, the prompts of its target are shown; a ProviderError is its refusal.
    """
    case, files = conversion.case, conversion.case.files
    settings, prompt, chat = conversion.current_settings, conversion.prompt, conversion.chat
    parts = [part for turn in prompt for part in turn.parts]
    messages = spans.in_spans(prompt, case)
    return ReviewedCase(
        suite=suite_of(case),
        case=replace(case, files=None),
        root="" if files is None else files.root,
        messages=messages,
        chat=None if chat is None else messages[len(messages) - len(chat) :],
        tools=spans.definitions_of(conversion),
        tool_data=without_lines(conversion.tools),
        settings=settings,
        input_files=conversion.input_files,
        question=spans.question_spans(conversion),
        folder=None if files is None else os.path.relpath(files.folders[0], files.root),
        files=_files_on_disk(conversion, settings.schema_path),
        promoted=frozenset(promotions_of(conversion)),
        shown=frozenset(part.key for part in parts if part.key is not None),
        # No target is sent a captured request: it shows what was sent to a vendor already.
        sent=None if provider is None or case.sent is not None else sent_to(provider, conversion),
    )


def review_outcome(
    outcome: ConvertedCase, provider: TargetProvider | None = None
) -> tuple[ReviewedCase | None, MultiturnError | None]:
    """Return what a review needs of a case, or the error in its place; neither if not selected."""
    if outcome.conversion is None:
        return None, outcome.error
    try:
        return reviewed_case(outcome.conversion, provider), None
    except ProviderError as refusal:
        return None, refusal


def sent_to(provider: TargetProvider, conversion: Conversion) -> SentPrompt:
    """Return what a target is sent of a case; a ProviderError is its refusal."""
    case, preview = conversion.case, preview_of(conversion, provider)
    given = spans.in_spans(conversion.sent, case)
    messages = given if preview.messages is None else spans.in_spans(preview.messages, case)
    # An agent that gets nothing but the transcript gets what the snapshot has as the question.
    known: tuple[object, ...] = _said(given), [("user", conversion.question, {})]
    has_system = any(message.role == "system" for message in messages)
    return SentPrompt(
        messages=messages,
        parameters=preview.parameters,
        repairs=preview.repairs,
        shared=_shared_repairs(provider),
        is_as_given=_said(messages) in known,
        system_role=getattr(provider.settings, "system_role", "") if has_system else "",
    )


@lru_cache(maxsize=1)
def _shared_repairs(provider: TargetProvider) -> tuple[str, ...]:
    with suppress(ProviderError):  # it refuses every case for the same reason, and says so there
        return provider.preview(replace(HI, system="Hi")).repairs  # C9 is a case's own
    return ()


def _said(messages: Iterable[Message]) -> list[tuple[str, str, Any]]:
    """Return all that is sent of messages: also the ids of calls, which no text shows."""
    return [(each.role, spans.joined_text(each.spans), each.data) for each in messages]


def _files_on_disk(conversion: Conversion, schema: str) -> dict[str, Attached]:
    """Return each attached file as it is on disk (rule 3), by its path in the root."""
    files = conversion.case.files
    if files is None:
        return {}
    paths = [file.resolved_path for file in conversion.input_files if file.resolved_path]
    if schema:
        files.read(schema, LARGEST_SCHEMA)
        paths.append(schema)
    return {
        path: file.replace(path=path) if isinstance(file, Media) else file
        for path in paths
        if (file := files.known(path)) is not None
    }
