"""One side of a comparison: the cases of some suites, converted, with their texts in a file."""

import hashlib
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from textwrap import indent
from typing import BinaryIO

from msgspec import Struct
from msgspec.structs import replace

import multiturn_stages
from multiturn.engine.outcomes import Outcome
from multiturn.engine.provenance import Message, Spans, messages_of, question_of, text_of
from multiturn.engine.revision import Revision
from multiturn.engine.selection import Selection
from multiturn.errors import MultiturnError
from multiturn.files import root_of
from multiturn.model import Case, Conversion
from multiturn.pipelines.pipeline import Pipeline, request_of
from multiturn.request import ProviderRequest
from multiturn.review.promotion import Promotion, promotions_of
from multiturn.review.snapshots import name_in_root, suite_of, texts_of_files
from multiturn.suites.suite import STDIN

_SHIPPED = os.path.realpath(multiturn_stages.__path__[0])
Section = list[tuple[str, str]]  # texts with their names


class Reviewed(Struct, frozen=True, kw_only=True):
    """The texts of a case, as a report shows them."""

    case: Case  # as written, without what finds its files
    request: ProviderRequest
    messages: tuple[Message, ...]  # of the chat prompt, or what providers make one of
    question: Spans
    files: Mapping[str, str]  # the attached files as they are on disk, by their paths in the root
    shown: frozenset[str]  # keys of the suite's texts that are in no message, but in the prompt

    @property
    def chat(self) -> tuple[Message, ...] | None:
        """The chat prompt; None where the pipeline gives none."""
        return None if self.request.chat_prompt is None else self.messages

    @property
    def texts(self) -> list[Spans]:
        """The question, and each message of the chat prompt."""
        return [self.question, *(message.spans for message in self.chat or ())]

    @property
    def sections(self) -> tuple[Section, Section, Section]:
        """The prompt, the transcript and the attached files."""
        prompt = [] if self.chat is not None else [("no chat prompt", "")]
        prompt += [(message.role, text_of(message.spans)) for message in self.messages]
        files = [
            (f"{f.path} ({f.resolved_path}{', a guideline' * f.guideline})", f.text)
            for f in self.request.input_files
        ]
        return prompt, [("transcript", text_of(self.question))], files


def section_text(section: Section) -> str:
    """Return texts to compare by lines, indented below their names."""
    return "".join(f"{name}:\n{indent(text, '  ')}\n" for name, text in section)


class Entry(Struct, frozen=True):
    """What is known of a case without its texts."""

    suite: str  # its path from the root
    id: str  # empty for an error that belongs to no case
    line: int = 0
    error: str = ""  # why it could not be converted
    digest: bytes = b""  # of its sections: two cases with the same one are the same
    promoted: frozenset[Promotion] = frozenset()
    at: int = 0  # where its texts are in the file of the side


class Stage(Struct, frozen=True):
    """A stage of a pipeline, as two sides are compared."""

    name: str  # of its function
    options: Mapping[str, str]  # their values, as Python writes them
    places: Mapping[str, str]  # where each option is written, and the stage, which is the option ""
    path: str  # of the file with its code
    code: str  # that file's text; empty for a stage that ships


class Stages(Struct, frozen=True):
    """A pipeline, as two sides are compared."""

    pipeline: str = ""  # its name
    stages: tuple[Stage, ...] = ()


Item = Stages | tuple[Entry, bytes]  # first the stages, then each case with its texts, pickled


def items(
    outcomes: Iterable[Outcome],
    selection: Selection,
    pipeline: Pipeline,
    on_error: Callable[[MultiturnError], None],
) -> Iterator[Item]:
    """Yield what a side is made of: the outcomes of a pipeline for a selection.

    Raises:
        MultiturnError: a suite is outside its root.
    """
    yield Stages(pipeline.name, tuple(_stages_of(pipeline)))
    for outcome in outcomes:
        if (error := outcome.error) is not None:
            root = selection.root or root_of(outcome.suite)
            suite = name_in_root(STDIN if outcome.suite == "-" else outcome.suite, root)
            yield Entry(suite, error.case_id or "", error=str(error)), b""
            on_error(error)
        elif outcome.conversion is not None:
            texts, case = review(outcome.conversion), outcome.conversion.case
            said = repr(texts.sections).encode("utf-8", "surrogatepass")
            entry = Entry(
                suite_of(case),
                case.id,
                case.line,
                digest=hashlib.blake2b(said, digest_size=16).digest(),
                promoted=frozenset(promotions_of(outcome.conversion)),
            )
            yield entry, pickle.dumps(texts)


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
    """

    def __init__(self, items: Iterable[Item], file: BinaryIO) -> None:
        self.stages = Stages()
        self.cases: dict[tuple[str, str], Entry] = {}  # by suite and id, in the order of the suites
        self.errors: list[str] = []  # that belong to no case
        self.broken: set[str] = set()  # suites of which some case is not known
        self._file = file
        for item in items:
            if isinstance(item, Stages):
                self.stages = item
            else:
                self._add(*item)

    def _add(self, entry: Entry, texts: bytes) -> None:
        key = entry.suite, entry.id
        if not entry.id:
            self.broken.add(entry.suite)
        if entry.error and (not entry.id or key in self.cases):
            self.errors.append(entry.error)
        elif key in self.cases:
            what = f"two suites are {entry.suite!r} in their roots"
            raise MultiturnError(f"{what}; name a root that holds both (--root)")
        else:
            self.cases[key] = replace(entry, at=self._file.tell())
            self._file.write(texts)

    def read(self, entry: Entry) -> Reviewed:
        """Return the texts of a case that could be converted."""
        self._file.seek(entry.at)
        case: Reviewed = pickle.load(self._file)  # noqa: S301 - our own, in a file without a name
        return case


def review(conversion: Conversion) -> Reviewed:
    """Return what a report shows of a finished conversion."""
    case = conversion.case
    parts = [part for turn in conversion.prompt for part in turn.parts]
    return Reviewed(
        case=replace(case, files=None),
        request=request_of(conversion),
        messages=messages_of(conversion),
        question=question_of(conversion),
        files=texts_of_files(conversion),
        shown=frozenset(part.key for part in parts if part.key is not None),
    )


def _stages_of(pipeline: Pipeline) -> Iterator[Stage]:
    """Yield the stages of a pipeline, as two sides are compared."""
    for step in pipeline.steps:
        path, code = step.stage.__code__.co_filename, ""
        if os.path.dirname(os.path.realpath(path)) != _SHIPPED:
            with suppress(OSError):  # of a module that was never a file
                code = Path(path).read_text(encoding="utf-8", errors="replace")
        places = {
            option: str(pipeline.places.get((step.name, option), ""))
            for option in ("", *step.options)
        }
        options = {option: repr(value) for option, value in step.options.items()}
        yield Stage(step.name, options, places, os.path.relpath(path), code)
