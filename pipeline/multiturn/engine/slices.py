"""Suites in slices: each is converted by itself, on any executor, and joined to one whole."""

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, field

from multiturn.documents.json_lines import Lines, is_json_lines, split_lines
from multiturn.engine.converting import ConvertedCase, read_suite
from multiturn.engine.selection import Selection
from multiturn.errors import MultiturnError, Place, options_as, spelling, trace_of
from multiturn.files.finding import Texts
from multiturn.logs import Notice, warnings_to
from multiturn.model.conversion import Conversion
from multiturn.pipelines.pipeline import Pipeline
from multiturn.suites.suite_reader import duplicate_id

if TYPE_CHECKING:
    from concurrent.futures import Future

SLICE_SIZE = 2**20  # bytes of a JSON Lines suite


class Slice(NamedTuple):
    """A suite, or some lines of one: what one process converts in one go."""

    suite: str  # what errors call it
    url: str  # where it is read: a path, or a URL that fsspec reads
    lines: Lines | None = None  # which lines; None for the whole suite


class ConversionJob(Struct, frozen=True):
    """How slices are converted."""

    selection: Selection  # which cases; its suites are of no importance
    pipeline: Pipeline  # what converts them
    # makes what is written of a conversion; a function that pickles
    render: Callable[[Conversion], bytes]
    debug: bool = False  # errors bring their tracebacks
    spelling: str = field(default_factory=spelling)  # of options, in errors


class RenderedCase(NamedTuple):
    """What became of one case: its text, an error, or neither where it is not selected.

    A warning is an item of its own; it has no place.
    """

    case_id: str | None
    place: Place | None = None
    text: bytes | None = None
    error: MultiturnError | None = None
    traceback: str = ""
    notice: Notice | None = None


def slices_of(
    suite: str, url: str, size: int = SLICE_SIZE, open_: Callable[[str, str], Any] = open
) -> Iterator[Slice]:
    """Yield the slices of a suite, in their order; one that cannot be read is one slice.

    Those of a JSON Lines suite are of about ``size`` bytes.
    """
    lines: list[Lines] = []
    if is_json_lines(url) and ("://" in url or os.path.isfile(url)):
        with (
            contextlib.suppress(OSError, ValueError, ImportError),  # its conversion fails, too
            open_(url, "rb") as file,
        ):
            lines = list(split_lines(file, size))
    yield from [Slice(suite, url, each) for each in lines] or [Slice(suite, url)]


def convert_slice(job: ConversionJob, part: Slice) -> list[RenderedCase]:
    """Convert the selected cases of a slice; an id may be that of another slice's case."""
    found: list[RenderedCase] = []
    warnings = warnings_to(lambda notice: found.append(RenderedCase(notice.case_id, notice=notice)))
    selection = job.selection
    try:
        with warnings, options_as(job.spelling), _local(part) as (path, lines):
            has = selection.within(part.suite)
            for each in read_suite(selection, path, Texts(), lines, part.suite):
                if has(each.case_id):
                    each = each.converted(job.pipeline, strict=selection.strict)
                found.append(render_case(job, each))
    except MultiturnError as error:  # it is elsewhere, and cannot be read
        found.append(RenderedCase(None, error=error))
    return found


def render_case(job: ConversionJob, converted: ConvertedCase) -> RenderedCase:
    """Return what is written of a case, or the error in its place."""
    text, error, case = None, converted.error, converted.case
    try:
        if converted.conversion is not None:
            text = job.render(converted.conversion)
    except MultiturnError as failure:
        error = failure
    place, trace = None, ""
    if case is not None:
        place = Place(case.file or case.suite, case.line, 1)
    if error is not None:
        place = place or Place(error.where.file, error.where.line, 1)
        trace = trace_of(error) if job.debug else ""
        # A plain error: one of a stage's own may not pickle.
        error = MultiturnError(error.what, where=error.where, case_id=error.case_id)
    return RenderedCase(converted.case_id, place, text, error, trace)


@contextlib.contextmanager
def _local(part: Slice) -> Iterator[tuple[str, Lines | None]]:
    """Give a path and the lines to read there; what is elsewhere is copied."""
    path = part.url.removeprefix("file://")
    if "://" not in path:
        yield path, part.lines
        return
    import tempfile

    import fsspec

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, os.path.basename(part.url))
        start, end, before = part.lines or Lines()
        try:
            with fsspec.open(part.url, "rb") as source, open(path, "wb") as copy:
                source.seek(start)
                copy.write(source.read(-1 if end is None else end - start))
        except (OSError, ValueError, ImportError) as error:
            raise MultiturnError(f"cannot read it: {error}", where=part.suite) from None
        yield path, None if part.lines is None else Lines(0, None, before)


def results_in_order(
    submit: Callable[[Slice], "Future[list[RenderedCase]]"], slices: Iterable[Slice], ahead: int
) -> Iterator[tuple[Slice, list[RenderedCase]]]:
    """Yield each slice with what became of its cases; at most ``ahead`` are under way."""
    waiting: deque[tuple[Slice, Future[list[RenderedCase]]]] = deque()
    for part in slices:
        waiting.append((part, submit(part)))
        if len(waiting) == ahead:
            first, future = waiting.popleft()
            yield first, future.result()
    for first, future in waiting:
        yield first, future.result()


def checked_slices(
    selection: Selection, results: Iterable[tuple[Slice, list[RenderedCase]]]
) -> Iterator[list[RenderedCase]]:
    """Yield what is said of the selected cases of each slice: texts, errors and warnings.

    Ids that several slices of a suite have are errors, and what all of them say is said once. At
    the end, a selected id that no case has is a MultiturnError.
    """
    seen, suite = set[str](), ""
    for part, found in results:
        if part.suite != suite:
            suite = part.suite
            lines: dict[str, int] = {}  # of its cases so far, by their ids
            said: set[str] = set()  # of the whole suite, by this slice or another
        items = []
        has = selection.within(part.suite)
        for item in found:
            case_id, place = item.case_id, item.place
            if case_id and place is not None:
                if case_id in lines:
                    item = RenderedCase("", error=duplicate_id(case_id, lines[case_id], place))
                else:
                    lines[case_id] = place.line
                if selection.case_ids:
                    seen.add(case_id)
            if item.text is not None:
                items.append(item)
            elif (item.error or item.notice) and has(item.case_id):
                what = str(item.error) if item.notice is None else item.notice.why
                if item.case_id is not None or what not in said:
                    items.append(item)
                said.add(what)
        yield items
    selection.check_ids(seen)
