"""One side of a comparison: the cases of some suites, converted, with their texts in a file."""

import hashlib
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from multiturn.engine.outcomes import Outcome
from multiturn.engine.revision import Then
from multiturn.engine.selection import Selection
from multiturn.errors import MultiturnError
from multiturn.files import find_root
from multiturn.model import Case, Conversion, InputFile, ProviderRequest
from multiturn.pipelines.pipeline import Pipeline, request_of
from multiturn.prompts.provenance import Message, Spans, spans_of, text_of
from multiturn.review.lockfile import promotions_of
from multiturn.review.report.stages import Stage, stages_of
from multiturn.review.snapshots import name_in_root, suite_of
from multiturn.suites.suite import STDIN


class Reviewed(Struct, frozen=True, kw_only=True):
    """A case as a report shows it.

    Attributes:
        error: why it could not be converted; the rest is then empty.
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

    error: str = ""
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
    def sections(self) -> tuple[list[str], ...]:
        """The lines of the prompt, of the transcript, and of the list of attached files."""
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
        return _lines(prompt), _lines([question]), _lines(named)

    @property
    def texts(self) -> list[Spans]:
        """The question, and each message of the chat prompt."""
        return [self.question, *(message.spans for message in self.chat or ())]


def _lines(texts: Iterable[tuple[str, str]]) -> list[str]:
    """Return texts as lines, indented below their names."""
    return [
        line
        for name, text in texts
        for line in (f"{name}:", *(f"  {line}" for line in text.split("\n")))
    ]


class Entry(Struct, frozen=True):
    """What is known of a case without reading it.

    Attributes:
        suite: its path from the root.
        id: of the case.
        line: of the case in the suite.
        digest: of all that a prompt has; two cases with the same one are the same.
        failed: whether it could not be converted.
        promoted: the files that reach a system message.
        at: where the case is in the file of the side.
    """

    suite: str
    id: str
    line: int
    digest: bytes = b""
    failed: bool = False
    promoted: frozenset[str] = frozenset()
    at: int = 0


class Item(Struct, frozen=True):
    """A case on its way to its side, which may be in another process.

    Attributes:
        entry: of the case; its id is empty if an error belongs to no case.
        case: the case, pickled.
        error: why it failed.
    """

    entry: Entry
    case: bytes
    error: str = ""


class Side:
    """The cases of some suites, and what is wrong beside the cases; the texts are in a file.

    Args:
        pipeline: the name of what converts them.
        file: empty; for the texts, until they are read.

    Attributes:
        stages: of the pipeline.
        cases: by suite and id, in the order of the suites.
        errors: that belong to no case.
        broken: the suites of which some case is not known.
    """

    def __init__(self, pipeline: str, file: BinaryIO) -> None:
        self.pipeline = pipeline
        self.stages: tuple[Stage, ...] = ()
        self.cases: dict[tuple[str, str], Entry] = {}
        self.errors: list[str] = []
        self.broken: set[str] = set()
        self._file = file

    def add(self, item: Item) -> None:
        """Add a case.

        Raises:
            MultiturnError: two suites have one name.
        """
        entry = item.entry
        key = entry.suite, entry.id
        if not entry.id:
            self.broken.add(entry.suite)
        if item.error and (not entry.id or key in self.cases):
            self.errors.append(item.error)
            return
        if key in self.cases:
            what = f"two suites are {entry.suite!r} in their roots"
            raise MultiturnError(f"{what}; name a root that holds both (--root)")
        self.cases[key] = replace(entry, at=self._file.tell())
        self._file.write(item.case)

    def read(self, entry: Entry) -> Reviewed:
        """Return a case of this side."""
        self._file.seek(entry.at)
        case: Reviewed = pickle.load(self._file)  # noqa: S301 - our own, in a file without a name
        return case


def collect(
    outcomes: Iterable[Outcome],
    selection: Selection,
    pipeline: Pipeline,
    file: BinaryIO,
    on_error: Callable[[MultiturnError], None],
) -> Side:
    """Return the cases of a side; those that fail are in it, too.

    Args:
        outcomes: what became of the selected cases.
        selection: of which their suites are.
        pipeline: which has converted them.
        file: as for ``Side``.
        on_error: called with each error.

    Raises:
        MultiturnError: a suite is outside its root, or two suites have one name.
    """
    side = Side(pipeline.name, file)
    side.stages = stages_of(pipeline)
    for item in _items(outcomes, selection, on_error):
        side.add(item)
    return side


def collect_then(
    items: Iterable[Item | tuple[Stage, ...] | str], pipeline: str, file: BinaryIO
) -> Side:
    """Return the side of a revision.

    Args:
        items: what ``items_then`` gives in the process that reads the revision.
        pipeline: the name of what converts the cases.
        file: as for ``Side``.
    """
    side = Side(pipeline, file)
    for item in items:
        if isinstance(item, Item):
            side.add(item)
        elif isinstance(item, tuple):
            side.stages = item
        else:
            side.errors.append(item)
    return side


def items_then(then: Then) -> Iterator[Item | tuple[Stage, ...] | str]:
    """Yield what makes the side of a revision; what was wrong then is no failure now."""
    yield stages_of(then.pipeline)
    yield from _items(then.outcomes, then.selection, lambda _: None)
    yield from then.notes


def _items(
    outcomes: Iterable[Outcome], selection: Selection, on_error: Callable[[MultiturnError], None]
) -> Iterator[Item]:
    for outcome in outcomes:
        if (error := outcome.error) is not None:
            real = os.path.realpath(outcome.suite)
            root = selection.root or str(find_root(Path(real).parent))
            suite = name_in_root(STDIN if outcome.suite == "-" else outcome.suite, root)
            case = pickle.dumps(Reviewed(error=str(error)))
            yield Item(Entry(suite, error.case_id or "", 0, failed=True), case, str(error))
            on_error(error)
        elif outcome.conversion is not None:
            yield Item(entry_of(outcome.conversion), pickle.dumps(review(outcome.conversion)))


def entry_of(conversion: Conversion) -> Entry:
    """Return what is known of a finished conversion without reading it.

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
        promoted=frozenset(entry.path for entry in promotions_of(conversion)),
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
