"""The cases of some suites at one time, converted: what a report shows, or compares with."""

import hashlib
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct
from msgspec.structs import replace

import multiturn_stages
from multiturn.engine.converting import ConvertedCase
from multiturn.engine.project import find_defaults
from multiturn.engine.revision import Revision, SmallPickler, git
from multiturn.engine.selection import Selection, one_name
from multiturn.engine.target import load_target
from multiturn.errors import MultiturnError
from multiturn.explaining.record import json_line
from multiturn.explaining.spans import Spans
from multiturn.files.paths import is_below, root_of
from multiturn.pipelines.pipeline import Pipeline
from multiturn.providers.base import TargetProvider
from multiturn.providers.targets import DEFAULT, environment, find_targets, read_target
from multiturn.report.images import images_in
from multiturn.snapshots.lists import target_text
from multiturn.snapshots.locations import Key, digest, name_in_root
from multiturn.snapshots.privilege import Promotion, in_order
from multiturn.snapshots.reviewed_case import ReviewedCase, review_outcome
from multiturn.snapshots.snapshot_file import snapshot_record
from multiturn.suites.suite_reader import STDIN

TargetThen = Callable[[], tuple[TargetProvider, str]]  # provider_then of a target
_SHIPPED = os.path.realpath(multiturn_stages.__path__[0])


def spans_shown(case: ReviewedCase) -> list[Spans]:
    """Return the question, each message of the prompt, and each definition of a tool."""
    return [case.question, *(message.shown for message in (*case.prompt, *case.tools))]


def digest_of(case: ReviewedCase) -> bytes:
    """Return a digest of all that a report compares: cases with the same one are the same.

    It is what the snapshot of a case records beside its name, the attached files, how they are
    promoted, what else is in the body that a target is sent, and what system messages are called
    there.
    """
    record = snapshot_record(case)
    del record["suite"], record["id"]
    files = {path: digest(file) for path, file in case.files.items()}
    sent = case.sent and (case.sent.parameters, case.sent.system_role)
    compared = record, files, sent, in_order(case.promoted)
    return hashlib.blake2b(json_line(compared), digest_size=16).digest()


class CaseSummary(Struct, frozen=True):
    """What is known of a case without its texts."""

    suite: str  # its path from the root
    id: str  # empty for an error that belongs to no case
    line: int = 0
    error: str = ""  # why it could not be converted
    digest: bytes = b""  # from digest_of
    promoted: frozenset[Promotion] = frozenset()
    files: tuple[tuple[str, str], ...] = ()  # the path and the digest of each attached file
    at: int = 0  # where its texts are in the file of the side

    @property
    def key(self) -> Key:
        """The suite and the id, which identify the case."""
        return self.suite, self.id


class SideStage(Struct, frozen=True):
    """A stage of a pipeline, as two sides are compared."""

    name: str  # of its function
    options: Mapping[str, str]  # their values, as Python writes them
    places: Mapping[str, str]  # where each option is written, and the stage, which is the option ""
    path: str  # of the file with its code
    code: str  # that file's text; empty for a stage that ships


class SidePipeline(Struct, frozen=True):
    """A pipeline, as two sides are compared."""

    name: str = ""
    stages: tuple[SideStage, ...] = ()
    target: str = ""  # whose prompts are compared; empty for the pipeline's
    lock: str = ""  # its target.lock
    sample: str = ""  # which part of the cases is compared; empty for all of them


class Image(Struct, frozen=True):
    """An image that a page may show."""

    digest: str
    data: bytes


# First the stages, then each case with its texts, pickled, after the images that are new in it.
SideItem = SidePipeline | Image | tuple[CaseSummary, bytes]


def side_items(
    outcomes: Iterable[ConvertedCase],
    selection: Selection,
    pipeline: Pipeline,
    on_error: Callable[[MultiturnError], None],
    provider: TargetProvider | None = None,
    *,
    has_images: bool = False,
) -> Iterator[SideItem]:
    """Yield what a side is made of: the outcomes of a pipeline for a selection.

    With a provider, its target's prompts are compared. ``has_images`` adds the bytes of images, for
    a page. A suite outside its root is an error.
    """
    yield SidePipeline(
        name=pipeline.name,
        stages=tuple(_stages_of(pipeline)),
        target="" if provider is None else provider.name,
        lock="" if provider is None else target_text(provider),
        sample="" if selection.sample is None else str(selection.sample),
    )
    given: set[str] = set()
    for outcome in outcomes:
        case, error = review_outcome(outcome, provider)
        if error is not None:
            root = selection.root or root_of(outcome.suite)
            suite = name_in_root(STDIN if outcome.suite == "-" else outcome.suite, root)
            yield CaseSummary(suite, error.case_id or "", error=str(error)), b""
            on_error(error)
        elif case is not None:
            for media in images_in(case) if has_images else ():
                if media.digest not in given:
                    given.add(media.digest)
                    yield Image(media.digest, media.data)
            entry = CaseSummary(
                *case.key,
                case.case.line,
                digest=digest_of(case),
                promoted=case.promoted,
                files=tuple((path, digest(file)) for path, file in case.files.items()),
            )
            small = BytesIO()
            SmallPickler(small).dump(case)
            yield entry, small.getvalue()


def provider_then(name: str, file: str | None, now: str | None) -> tuple[TargetProvider, str]:
    """Return the provider of a target in the folder of a revision, or why it is today's.

    ``file`` is the path of the targets file from the current folder, None for the nearest; ``now``
    that of today's file, for a revision that has no such target.
    """
    if now is None or name == DEFAULT:
        return load_target(name), ""
    today = Path(now)
    try:
        then = find_targets(file)
        if then is None:
            raise MultiturnError("there was no targets file")
        # .env is seldom committed; today's says what the revision does not.
        variables = environment(today)
        provider, why = read_target(then, name, sends=False, variables=variables), ""
    except MultiturnError as error:
        why = f"{error}; the prompts of that time are shown for the target as it is now"
        provider = read_target(today, name, sends=False)
    provider.default_system = find_defaults()[0].default_system
    return provider, why


def target_then(name: str | None, file: str | None) -> TargetThen | None:
    """Return how the process of a revision finds the target that is named."""
    if name is None:
        return None
    now = find_targets(file)
    if file is not None:
        is_inside = is_below(os.path.realpath(file), git("rev-parse", "--show-toplevel"))
        file = (os.path.relpath if is_inside else os.path.abspath)(file)  # no revision has others
    return partial(provider_then, name, file, None if now is None else os.path.abspath(now))


def side_items_at(
    revision: Revision, target: TargetThen | None = None, *, has_images: bool = False
) -> Iterator[SideItem]:
    """Yield the items of a revision, in the process that reads it; its errors are none now."""
    provider, why = (None, "") if target is None else target()
    yield from side_items(
        *(revision.cases, revision.selection, revision.pipeline, lambda _: None, provider),
        has_images=has_images,
    )
    for note in filter(None, [*revision.notes, why]):
        yield CaseSummary("", "", error=note), b""


class ReportSide:
    """The cases of some suites, and what is wrong beside the cases; the texts are in a file.

    The items come from ``side_items``, maybe in another process. Two suites of one name are an
    error.
    """

    def __init__(self, items: Iterable[SideItem], file: BinaryIO) -> None:
        self.pipeline = SidePipeline()
        self.cases: dict[Key, CaseSummary] = {}  # in the order of the suites
        self.errors: list[str] = []  # that belong to no case
        self.broken: set[str] = set()  # suites of which some case is not known
        self._file = file
        self._images: dict[str, tuple[int, int]] = {}  # where they are in the file, and their sizes
        for item in items:
            match item:
                case SidePipeline():
                    self.pipeline = item
                case Image(digest, data):
                    self._images[digest] = file.tell(), len(data)
                    file.write(data)
                case entry, texts:
                    if not entry.id:
                        self.broken.add(entry.suite)
                    if entry.error and (not entry.id or entry.key in self.cases):
                        self.errors.append(entry.error)
                    elif entry.key in self.cases:
                        raise one_name(entry.suite)
                    else:
                        self.cases[entry.key] = replace(entry, at=file.tell())
                        file.write(texts)

    def read(self, entry: CaseSummary | None) -> ReviewedCase | None:
        """Return the texts of a case; None if there is none, or it could not be converted."""
        if entry is None or entry.error:
            return None
        self._file.seek(entry.at)
        case: ReviewedCase = pickle.load(self._file)  # noqa: S301 - our own, in a file without a name
        return case

    def image(self, digest: str) -> bytes | None:
        """Return the bytes of an image; None if the items had none."""
        if digest not in self._images:
            return None
        at, size = self._images[digest]
        self._file.seek(at)
        return self._file.read(size)


def _stages_of(pipeline: Pipeline) -> Iterator[SideStage]:
    for step in pipeline.steps:
        path, code = step.stage.__code__.co_filename, ""
        if os.path.dirname(os.path.realpath(path)) != _SHIPPED:
            with suppress(OSError):  # of a module that was never a file
                code = Path(path).read_text(encoding="utf-8", errors="replace")
        names = ("", *step.options)
        places = {name: str(pipeline.places.get((step.name, name), "")) for name in names}
        options = {option: repr(value) for option, value in step.options.items()}
        yield SideStage(step.name, options, places, os.path.relpath(path), code)
