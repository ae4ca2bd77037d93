"""What a provider is handed: the request, its messages and its files."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from multiturn.text import brief
from multiturn.turns import Role


class ChatMessage(Struct, frozen=True, gc=False):
    """One message of a chat prompt."""

    role: Role
    content: str


class InputFile(Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """A file that a case attaches.

    Attributes:
        path: as the suite wrote it.
        resolved_path: relative to the root, with ``/``.
        guideline: whether its text is in the system message.
        text: for an agent that wants the file itself, as the stages have left it.
    """

    path: str
    resolved_path: str
    guideline: bool = False
    text: str = ""


class ProviderRequest(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """What the orchestrator hands a provider, and what it needs to go on from the answer.

    Attributes:
        question: the transcript, for logs and for agent providers.
        guidelines: deprecated; for a provider that gets no ``chat_prompt``.
        chat_prompt: the messages for an LLM API; None where the pipeline gives none.
        input_files: each attached file once.
        metadata: the case's, with ``system_prompt`` where there is one.
        eval_id: the case's id.
        temperature: how freely the model may choose; None for the target's own.
        max_output_tokens: the longest answer; None for the target's own.
        suite: that of the case.
        conversation_id: groups the cases of one conversation.
        outcome: what the answer should achieve, in words.
        expected_messages: the answer a grader compares with, as the suite wrote it.
        execution: settings for whoever runs the case, the suite's and over them the case's.
        root: the folder that ``resolved_path`` of a file is relative to; empty without files.
    """

    question: str
    guidelines: tuple[str, ...] = ()
    chat_prompt: tuple[ChatMessage, ...] | None = None
    input_files: tuple[InputFile, ...] = ()
    metadata: Mapping[str, Any] = {}
    eval_id: str = ""
    temperature: float | None = None
    max_output_tokens: int | None = None
    suite: str = ""
    conversation_id: Any = None
    outcome: Any = None
    expected_messages: Any = None
    execution: Any = None
    root: str = ""

    __repr__ = brief
