"""One side of a comparison: the cases of some suites, converted, with their texts in a file."""

import hashlib
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from textwrap import indent
from typing import BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from multiturn.engine.outcomes import Outcome
from multiturn.engine.revision import Revision
from multiturn.engine.selection import Selection
from multiturn.errors import MultiturnError
from multiturn.files import find_root
from multiturn.model import Case, Conversion, InputFile, ProviderRequest
from multiturn.pipelines.pipeline import Pipeline, request_of
from multiturn.prompts.provenance import Message, Spans, spans_of, text_of
from multiturn.review.lockfile import Promotion, promotions_of
from multiturn.review.report.stages import Stage, stages_of
from multiturn.review.snapshots import name_in_root, suite_of
from multiturn.suites.suite import STDIN


class Reviewed(Struct, frozen=True, kw_only=True):
    """The texts of a case, as a report shows them.

    Attributes:
        chat: the chat prompt; None where the pipeline gives none.
        question: the transcript.
        request: what a provider gets.
        files: the text of each attached file as it was read, by its path from the root.
        guidelines: those of them that are guidelines.
        patterns: that decide it.
        keys: the texts of the suite that stand in no message, as written, by their keys.
        shown: those of the keys whose texts are in the prompt.
        messages: each message as written, role and content, with its line.
    """

    chat: tuple[Message, ...] | None = None
    question: Spans = ()
    request: ProviderRequest | None = None
    files: Mapping[str, str] = {}
    guidelines: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = ()
    keys: Mapping[str, str] = {}
    shown: frozenset[str] = frozenset()
    messages: tuple[tuple[tuple[str, object], int], ...] = ()

    @property
    def sections(self) -> tuple[str, ...]:
        """The prompt, the transcript and the attached files as texts to compare by lines."""
        question = ("transcript", text_of(self.question))
        prompt = [(message.role, text_of(message.spans)) for message in self.chat or ()]
        files: tuple[InputFile, ...] = ()
        if self.request is not None:
            files = self.request.input_files
            if self.chat is None:  # providers make one of these
                system = self.request.metadata.get("system_prompt", "")
                prompt = [("system prompt", system)] * bool(system)
                prompt += [("guideline", text) for text in self.request.guidelines]
        named = [(f"{file.path} ({file.resolved_path})", file.text) for file in files]
        return _indented(prompt), _indented([question]), _indented(named)

    @property
    def texts(self) -> list[Spans]:
        """The question, and each message of the chat prompt."""
        return [self.question, *(message.spans for message in self.chat or ())]


def _indented(texts: Iterable[tuple[str, str]]) -> str:
    """Return texts, indented below their names."""
    return "".join(f"{name}:\n{indent(text, '  ')}\n" for name, text in texts)


class Entry(Struct, frozen=True):
    """What is known of a case without its texts.

    Attributes:
        suite: its path from the root.
        id: of the case; empty for an error that belongs to no case.
        line: of the case in the suite.
        error: why it could not be converted.
        digest: of all that a prompt has; two cases with the same one are the same.
        promoted: the files that reach a system message.
        at: where its texts are in the file of the side.
    """

    suite: str
    id: str
    line: int = 0
    error: str = ""
    digest: bytes = b""
    promoted: frozenset[Promotion] = frozenset()
    at: int = 0


Item = str | Stage | tuple[Entry, bytes]


def items(
    outcomes: Iterable[Outcome],
    selection: Selection,
    pipeline: Pipeline,
    on_error: Callable[[MultiturnError], None],
) -> Iterator[Item]:
    """Yield the name of a pipeline, its stages, then each case with its texts, pickled.

    Args:
        outcomes: what became of the selected cases.
        selection: of which their suites are.
        pipeline: which has converted them.
        on_error: called with each error.

    Raises:
        MultiturnError: a suite is outside its root.
    """
    yield pipeline.name
    yield from stages_of(pipeline)
    for outcome in outcomes:
        if (error := outcome.error) is not None:
            real = os.path.realpath(outcome.suite)
            root = selection.root or str(find_root(Path(real).parent))
            suite = name_in_root(STDIN if outcome.suite == "-" else outcome.suite, root)
            yield Entry(suite, error.case_id or "", error=str(error)), b""
            on_error(error)
        elif outcome.conversion is not None:
            yield entry_of(outcome.conversion), pickle.dumps(review(outcome.conversion))


def items_of(revision: Revision) -> Iterator[Item]:
    """Yield the items of a revision, in the process that reads it; its errors are none now."""
    yield from items(revision.outcomes, revision.selection, revision.pipeline, lambda _: None)
    yield from ((Entry("", "", error=note), b"") for note in revision.notes)


class Side:
    """The cases of some suites, and what is wrong beside the cases; the texts are in a file.

    Args:
        items: as ``items`` gives them, maybe in another process.
        file: empty; for the texts, until they are read.

    Raises:
        MultiturnError: two suites have one name.

    Attributes:
        pipeline: the name of what converts them.
        stages: of the pipeline.
        cases: by suite and id, in the order of the suites.
        errors: that belong to no case.
        broken: the suites of which some case is not known.
    """

    def __init__(self, items: Iterable[Item], file: BinaryIO) -> None:
        self.pipeline = ""
        self.stages: list[Stage] = []
        self.cases: dict[tuple[str, str], Entry] = {}
        self.errors: list[str] = []
        self.broken: set[str] = set()
        self._file = file
        for item in items:
            if isinstance(item, str):
                self.pipeline = item
                continue
            if isinstance(item, Stage):
                self.stages.append(item)
                continue
            entry, texts = item
            key = entry.suite, entry.id
            if not entry.id:
                self.broken.add(entry.suite)
            if entry.error and (not entry.id or key in self.cases):
                self.errors.append(entry.error)
            elif key in self.cases:
                what = f"two suites are {entry.suite!r} in their roots"
                raise MultiturnError(f"{what}; name a root that holds both (--root)")
            else:
                self.cases[key] = replace(entry, at=file.tell())
                file.write(texts)

    def read(self, entry: Entry) -> Reviewed:
        """Return the texts of a case that could be converted."""
        self._file.seek(entry.at)
        case: Reviewed = pickle.load(self._file)  # noqa: S301 - our own, in a file without a name
        return case


def entry_of(conversion: Conversion) -> Entry:
    """Return the entry of a finished conversion.

    Raises:
        MultiturnError: the suite is outside its root.
    """
    case, chat = conversion.case, conversion.chat
    if chat is not None:
        prompt = [(str(turn.role), turn.content) for turn in chat]
    else:  # providers make one of these
        parts = (*conversion.guidelines, conversion.system_prompt)
        prompt = [("", part.text if part else "") for part in parts]
    files = [(f.path, f.resolved_path, f.guideline, f.text) for f in conversion.input_files]
    said = repr((chat is None, prompt, conversion.question, files))
    return Entry(
        suite_of(case),
        case.id,
        case.line,
        digest=hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).digest(),
        promoted=frozenset(promotions_of(conversion)),
    )


def review(conversion: Conversion) -> Reviewed:
    """Return what a report shows of a finished conversion."""
    case, chat = conversion.case, conversion.chat
    messages, question = spans_of(conversion)
    parts = [part for turn in chat or conversion.turns for part in turn.parts]
    keys, request = case.keyed_texts, request_of(conversion)
    return Reviewed(
        chat=messages,
        question=question,
        request=replace(request, outcome=None, expected_messages=None, execution=None),
        files={file.resolved_path: _as_read(file, case) for file in conversion.input_files},
        guidelines=frozenset(f.resolved_path for f in conversion.input_files if f.guideline),
        patterns=case.guideline_patterns,
        keys=keys,
        shown=frozenset(part.key for part in parts if part.key is not None)
        if chat is not None
        else frozenset(keys),
        messages=tuple(((m.role, m.content), m.line) for m in case.input_messages),
    )


def _as_read(file: InputFile, case: Case) -> str:
    """Return a file's text as it is on disk: what a stage has changed has another cause."""
    return file.text if case.files is None else case.files.read(file.resolved_path, sys.maxsize)
