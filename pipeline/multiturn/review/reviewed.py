"""What a review needs of a converted case: snapshots, their lists and reports are made of it."""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from multiturn.case import Case
from multiturn.engine.provenance import Message, Spans, messages_of, question_of
from multiturn.model import Conversion
from multiturn.pipelines.pipeline import request_of
from multiturn.request import ProviderRequest
from multiturn.review.locations import Key, suite_of
from multiturn.review.promotion import Promotion, promotions_of


class ReviewedCase(Struct, frozen=True, kw_only=True):
    """A converted case, as a review shows it; it pickles."""

    suite: str  # its path in the root
    case: Case  # as written, without what finds its files
    request: ProviderRequest
    messages: tuple[Message, ...]  # of the chat prompt, or what is sent in its place
    question: Spans
    files: Mapping[str, str]  # the attached files as they are on disk, by their paths in the root
    promoted: frozenset[Promotion]  # the files that reach a system message
    shown: frozenset[str]  # keys of the suite's texts that are in no message, but in the prompt

    @property
    def key(self) -> Key:
        """The suite and the id, which identify the case."""
        return self.suite, self.case.id

    @property
    def chat(self) -> tuple[Message, ...] | None:
        """The chat prompt; None where the pipeline gives none."""
        chat = self.request.chat_prompt
        return None if chat is None else self.messages[: len(chat)]

    @property
    def system(self) -> Spans:
        """The first message, if it is the system message; else nothing."""
        first = self.messages[:1]
        return first[0].spans if first and first[0].role == "system" else ()


def review(conversion: Conversion) -> ReviewedCase:
    """Return what a review needs of a finished conversion; nothing else of it looks at one."""
    case = conversion.case
    parts = [part for turn in conversion.prompt for part in turn.parts]
    return ReviewedCase(
        suite=suite_of(case),
        case=replace(case, files=None),
        request=request_of(conversion),
        messages=messages_of(conversion),
        question=question_of(conversion),
        files=_files_on_disk(conversion),
        promoted=frozenset(promotions_of(conversion)),
        shown=frozenset(part.key for part in parts if part.key is not None),
    )


def _files_on_disk(conversion: Conversion) -> dict[str, str]:
    """Return the text of each attached file as it is on disk (rule 3), by its path in the root."""
    files = conversion.case.files
    paths = [file.resolved_path for file in conversion.input_files]
    known = {path: files.known(path) for path in paths} if files is not None else {}
    return {path: text for path, text in known.items() if text is not None}
