"""The heart of every command: one iterator of what became of each selected case.

A suite may be cut into slices: each is converted by itself, on any executor.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field, structs

from multiturn.documents.json_lines import Lines, is_json_lines, split_lines
from multiturn.engine.hidden_texts import warn_of_hidden
from multiturn.engine.selection import Sample, Selection
from multiturn.errors import MultiturnError, Place, option, options_as, spelling, trace_of
from multiturn.files.finding import Texts
from multiturn.logs import Notice, warn, warnings_to
from multiturn.model.case import Case, segments_in
from multiturn.model.conversion import Conversion
from multiturn.pipelines.pipeline import Pipeline
from multiturn.pipelines.pipeline_file import DEFAULT_PIPELINE, read_pipeline
from multiturn.suites.discovery import CAPTURED, stay_inside
from multiturn.suites.guideline_patterns import UNUSED_PATTERN
from multiturn.suites.keys import UnknownKey, unknown_key
from multiturn.suites.suite_reader import SuiteReader, duplicate_id

if TYPE_CHECKING:
    from concurrent.futures import Future

Convert = Callable[[Conversion], Conversion]  # a pipeline


class ConvertedCase(Struct, frozen=True):
    """What became of one case."""

    suite: str  # path of its suite, as it was named or found
    # the case; None where it could not be read, or an error belongs to no case
    case: Case | None = None
    # what a pipeline made of it; None where none has run, or it failed
    conversion: Conversion | None = None
    error: MultiturnError | None = None  # why there is no case or no conversion

    @property
    def case_id(self) -> str | None:
        """The case's id; None where an error belongs to no case."""
        if self.error is not None:
            return self.error.case_id
        return None if self.case is None else self.case.id

    def converted(self, pipeline: Convert, *, strict: bool) -> "ConvertedCase":
        """Return what a pipeline makes of it; if strict, text lost without a rule is an error."""
        if self.case is None:
            return self
        try:
            conversion = convert_case(self.case, pipeline, strict=strict)
        except MultiturnError as error:
            return ConvertedCase(self.suite, self.case, error=error)
        return ConvertedCase(self.suite, self.case, conversion)


def convert_case(case: Case, pipeline: Convert, *, strict: bool) -> Conversion:
    """Return what a pipeline makes of a case; if strict, text lost without a rule is an error."""
    conversion = pipeline(Conversion(case))
    if strict:
        from multiturn.explaining.explanation import explain

        lost = [fate for fate in explain(conversion).fates if fate.fate == "lost"]
        if lost:
            more = f"; {len(lost) - 1} more: see multiturn explain" if lost[1:] else ""
            raise MultiturnError(f"lost: {lost[0].why}{more}", where=lost[0].where)
    warn_of_hidden(conversion)
    for guideline in conversion.guidelines:
        if guideline.resolved_path is not None and case.files is not None:
            case.files.warn_of_conflict(guideline.resolved_path, guideline.text)
    return conversion


def with_files(conversion: Conversion) -> Conversion:
    """Return a conversion with the files of its case, as the default pipeline has them."""
    if conversion.case.sent is not None:
        return _pipeline()(conversion)
    for message in conversion.case.input_messages:
        if isinstance(message.content, str):  # as most are
            continue
        for segment in segments_in(message):
            if isinstance(segment, dict) and segment.get("type") != "text":
                resolve, extract = _pipeline().steps[:2]
                return extract(resolve(conversion))
    return conversion


_pipeline = cache(lambda: read_pipeline(DEFAULT_PIPELINE))


def convert_cases(
    selection: Selection, pipeline: Convert, seen: set[str] | None = None
) -> Iterator[ConvertedCase]:
    """Yield what became of each selected case, in the order of the suites; holds few at a time.

    A selected id that no case has is an error at the end; with ``seen``, which gets the id of every
    case, the caller checks that.
    """
    for each in read_cases(selection, seen):
        yield each.converted(pipeline, strict=selection.strict)


def read_cases(selection: Selection, seen: set[str] | None = None) -> Iterator[ConvertedCase]:
    """Yield each selected case as it was read; ``seen`` is as for ``convert_cases``."""
    texts, ids = Texts(), set[str]() if seen is None else seen
    for suite in selection.suites:
        has = selection.within(suite)
        for each in read_suite(selection, suite, texts):
            if selection.case_ids and each.case_id:
                ids.add(each.case_id)
            if has(each.case_id):
                yield each
    if seen is None:
        selection.check_ids(ids)


def read_suite(
    selection: Selection,
    suite: str,
    texts: Texts,
    lines: Lines | None = None,
    name: str | None = None,
) -> Iterator[ConvertedCase]:
    """Yield every case of a suite as it was read, selected or not.

    ``lines`` of a ``.jsonl`` file are read, or all; ``name`` is used in place of the path.
    """
    try:
        if suite not in selection.named:
            stay_inside(suite, selection.root)
        kind: type[SuiteReader] = SuiteReader
        if suite.endswith(CAPTURED):
            from multiturn.capture.suite import CapturedSuite

            kind = CapturedSuite
        reader = kind(suite, selection.root, selection.guideline_patterns, texts, name)
        for found in reader.read(lines):
            if isinstance(found, Case):
                yield ConvertedCase(suite, found)
            elif isinstance(found, MultiturnError):
                yield ConvertedCase(suite, error=found)
            elif not (selection.is_partial and found.event == UNUSED_PATTERN):
                try:
                    warn(found)
                except MultiturnError as error:
                    yield ConvertedCase(suite, error=error)
    except MultiturnError as error:
        yield ConvertedCase(suite, error=error)


def sampled(selection: Selection, size: int, seed: int = 1) -> Selection:
    """Return a selection of at most ``size`` of the selected cases: those with the lowest ranks.

    So a case that is added to the suites takes the place of one other case at most, and one that is
    removed leaves its place to one. The suites are read twice: here only for the ids. A suite that
    can be read only once is an error, and a ``size`` below 1 is a ValueError.
    """
    if size < 1:
        raise ValueError("sample must be 1 or more")
    selection.check_files(f"{option('sample')} reads suites")
    sample, total = Sample(seed), 0
    names = {path: selection.name_of(path) for path in selection.suites}

    def ranks() -> Iterator[int]:
        nonlocal total
        for each in read_cases(selection, set()):
            if each.case_id:  # else it is an error that belongs to no case
                total += 1
                yield sample.rank(names[each.suite], each.case_id)

    with warnings_to(lambda _: None):  # the second reading warns
        lowest = nsmallest(size, ranks())
    last = lowest[-1] if lowest else -1
    drawn = structs.replace(sample, last=last, size=len(lowest), total=total)
    return structs.replace(selection, sample=drawn)


SLICE_SIZE = 2**20  # bytes of a JSON Lines suite


class Slice(Struct, frozen=True):
    """A suite, or some lines of one: what one process converts in one go."""

    suite: str  # what errors call it
    url: str  # where it is read: a path, or a URL that fsspec reads
    lines: Lines | None = None  # which lines; None for the whole suite
    is_last: bool = True  # of its suite


class ConversionJob(Struct, frozen=True):
    """How slices are converted."""

    selection: Selection  # which cases; its suites are of no importance
    pipeline: Pipeline  # what converts them
    # makes what is written of a conversion; a function that pickles
    render: Callable[[Conversion], bytes]
    debug: bool = False  # errors bring their tracebacks
    spelling: str = field(default_factory=spelling)  # of options, in errors


class RenderedCase(Struct, frozen=True):
    """What became of one case: its text, an error, or neither where it is not selected."""

    case_id: str | None
    file: str | None = None  # which has the case, on the line; None for an item of its own
    line: int = 0
    text: bytes | None = None
    error: MultiturnError | None = None
    traceback: str = ""
    notice: Notice | None = None  # an item of its own


def slices_of(
    suite: str, url: str, size: int = SLICE_SIZE, open_: Callable[[str, str], Any] = open
) -> Iterator[Slice]:
    """Yield a suite's slices, of about ``size`` bytes of JSON Lines; any other suite is one."""
    lines: list[Lines] = []
    if is_json_lines(url) and ("://" in url or os.path.isfile(url)):
        with (
            suppress(OSError, ValueError, ImportError),  # its conversion fails, too
            open_(url, "rb") as file,
        ):
            lines = list(split_lines(file, size))
    yield from (Slice(suite, url, each, is_last=False) for each in lines[:-1])
    yield Slice(suite, url, lines[-1] if lines else None)


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
    file, line, trace = None, 0, ""
    if error is not None:
        file, line = error.where.file, error.where.line
        trace = trace_of(error) if job.debug else ""
        # A plain error: one of a stage's own may not pickle.
        error = MultiturnError(error.what, where=error.where, case_id=error.case_id)
    if case is not None:
        file, line = case.file or case.suite, case.line
    return RenderedCase(converted.case_id, file, line, text, error, trace)


@contextmanager
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

    Ids that several slices of a suite have are errors, and what all of them say is said once.
    """
    seen, suite = set[str](), ""
    keys: dict[tuple[str, str], UnknownKey] = {}  # of all slices of the suite, said with the last
    for part, found in results:
        if part.suite != suite:
            suite, keys = part.suite, {}
            lines: dict[str, int] = {}  # of its cases so far, by their ids
            said: set[str] = set()  # of the whole suite, by this slice or another
        items = []
        has = selection.within(part.suite)
        for item in found:
            case_id = item.case_id
            if case_id and item.file is not None:
                if case_id in lines:
                    place = Place(item.file, item.line, 1)
                    item = RenderedCase("", error=duplicate_id(case_id, lines[case_id], place))
                else:
                    lines[case_id] = item.line
                if selection.case_ids:
                    seen.add(case_id)
            if item.text is not None:
                items.append(item)
            elif isinstance(new := item.notice, UnknownKey):
                old = keys.get((new.key, new.advice))
                where, times = (new.where, 0) if old is None else (old.where, old.times)
                merged = unknown_key(new.key, where, new.advice, times + new.times)
                keys[new.key, new.advice] = merged
            elif (item.error or item.notice) and has(item.case_id):
                what = str(item.error or item.notice)
                if item.case_id is not None or what not in said:
                    items.append(item)
                said.add(what)
        if part.is_last:
            items += [RenderedCase("", notice=notice) for notice in keys.values()]
        yield items
    selection.check_ids(seen)
