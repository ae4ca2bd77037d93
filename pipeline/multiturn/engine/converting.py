"""The heart of every command: one iterator of what became of each selected case."""

import os
from collections.abc import Iterator
from heapq import nsmallest

from msgspec import Struct, structs

from multiturn.documents.json_lines import Lines
from multiturn.engine.selection import Sample, Selection
from multiturn.errors import MultiturnError, option
from multiturn.files.finding import Texts
from multiturn.logs import warn, warnings_to
from multiturn.model.case import Case
from multiturn.model.conversion import Conversion
from multiturn.pipelines.pipeline import Pipeline
from multiturn.suites.discovery import stay_inside
from multiturn.suites.guideline_patterns import UNUSED_PATTERN as UNUSED_PATTERN
from multiturn.suites.suite_reader import SuiteItem, SuiteReader

# Cases are read, then converted, some at a time: a processor's caches do not hold the code for
# both, and to take turns with each case takes a quarter longer.
_MOST_AHEAD, _MOST_SIZE = 64, 250_000


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

    def converted(self, pipeline: Pipeline, *, strict: bool) -> "ConvertedCase":
        """Return what a pipeline makes of it; if strict, text lost without a rule is an error."""
        if self.case is None:
            return self
        try:
            conversion = convert_case(self.case, pipeline, strict=strict)
        except MultiturnError as error:
            return structs.replace(self, error=error)
        return structs.replace(self, conversion=conversion)


def convert_case(case: Case, pipeline: Pipeline, *, strict: bool) -> Conversion:
    """Return what a pipeline makes of a case; if strict, text lost without a rule is an error."""
    conversion = pipeline(Conversion(case))
    if strict:
        from multiturn.explaining.explanation import explain

        lost = [fate for fate in explain(conversion).fates if fate.fate == "lost"]
        if lost:
            more = f"; {len(lost) - 1} more: see multiturn explain" if lost[1:] else ""
            raise MultiturnError(f"lost: {lost[0].why}{more}", where=lost[0].where)
    for guideline in conversion.guidelines:
        if guideline.resolved_path is not None and case.files is not None:
            case.files.warn_of_conflict(guideline.resolved_path, guideline.text)
    return conversion


def convert_cases(
    selection: Selection, pipeline: Pipeline, seen: set[str] | None = None
) -> Iterator[ConvertedCase]:
    """Yield what became of each selected case, in the order of the suites; holds few at a time.

    ``seen`` gets the id of every case, selected or not, so that the caller can check that the
    selected ids are among them; without it, this raises a MultiturnError at the end.
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
        reader = SuiteReader(suite, selection.root, selection.guideline_patterns, texts, name)
        for found in _read_ahead(reader, lines):
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


def _read_ahead(reader: SuiteReader, lines: Lines | None) -> Iterator[SuiteItem]:
    """Yield what a reader does, after it has read 64 cases, or large ones of some size."""
    ahead: list[SuiteItem] = []
    size = 0
    try:
        for item in reader.read(lines):
            ahead.append(item)
            size += reader.size
            if len(ahead) >= _MOST_AHEAD or size > _MOST_SIZE:
                yield from ahead
                ahead, size = [], 0
    except MultiturnError as error:
        ahead.append(error)
    yield from ahead


def sampled(selection: Selection, size: int, seed: int = 1) -> Selection:
    """Return a selection of at most ``size`` of the selected cases: those with the lowest ranks.

    The rank of a case depends on nothing else. So a case that is added to the suites changes
    nothing, or takes the place of one other case, and one that is removed leaves its place to one.
    The suites are read twice: here only ids are looked at, and at most ``size`` ranks are kept.

    Raises:
        ValueError: ``size`` is below 1.
        MultiturnError: a suite can be read only once.
    """
    if size < 1:
        raise ValueError("sample must be 1 or more")
    for path in selection.suites:
        if not os.path.isfile(path):
            what = f"{option('sample')} reads suites twice, and {path!r} can be read only once"
            raise MultiturnError(f"{what}; write it to a file")
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
