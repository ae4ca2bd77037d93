"""The heart of every command: one iterator of what became of each selected case."""

from collections.abc import Iterator

from msgspec import Struct, structs

from multiturn.documents.json_lines import Lines
from multiturn.engine.selection import Selection
from multiturn.errors import MultiturnError
from multiturn.files.finding import Texts
from multiturn.logs import warn
from multiturn.model.case import Case
from multiturn.model.conversion import Conversion
from multiturn.pipelines.pipeline import Pipeline
from multiturn.suites.discovery import stay_inside
from multiturn.suites.guideline_patterns import UNUSED_PATTERN as UNUSED_PATTERN
from multiturn.suites.suite_reader import SuiteItem, SuiteReader

# Cases are read, then converted, some at a time: a processor's caches do not hold the code for
# both, and to take turns with each case takes a quarter longer.
_MOST_AHEAD, _MOST_SIZE = 64, 250_000


class Outcome(Struct, frozen=True):
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

    def converted(self, pipeline: Pipeline, *, strict: bool) -> "Outcome":
        """Return the outcome of a pipeline; if strict, text lost without a rule is an error."""
        if self.case is None:
            return self
        try:
            conversion = converted(self.case, pipeline, strict=strict)
        except MultiturnError as error:
            return structs.replace(self, error=error)
        return structs.replace(self, conversion=conversion)


def converted(case: Case, pipeline: Pipeline, *, strict: bool) -> Conversion:
    """Return what a pipeline makes of a case; if strict, text lost without a rule is an error."""
    conversion = pipeline(Conversion(case))
    if strict:
        _refuse_losses(conversion)
    for guideline in conversion.guidelines:
        if guideline.resolved_path is not None and case.files is not None:
            case.files.warn_of_conflict(guideline.resolved_path, guideline.text)
    return conversion


def _refuse_losses(conversion: Conversion) -> None:
    from multiturn.engine.explanation import explain

    lost = [fate for fate in explain(conversion).fates if fate.fate == "lost"]
    if lost:
        more = f"; {len(lost) - 1} more: see multiturn explain" if lost[1:] else ""
        raise MultiturnError(f"lost: {lost[0].why}{more}", where=lost[0].where)


def outcomes(
    selection: Selection, pipeline: Pipeline, seen: set[str] | None = None
) -> Iterator[Outcome]:
    """Yield what became of each selected case, in the order of the suites; holds few at a time.

    ``seen`` gets the id of every case, selected or not, so that the caller can check that the
    selected ids are among them; without it, this raises a MultiturnError at the end.
    """
    for outcome in read_cases(selection, seen):
        yield outcome.converted(pipeline, strict=selection.strict)


def read_cases(selection: Selection, seen: set[str] | None = None) -> Iterator[Outcome]:
    """Yield the outcome of reading each selected case; ``seen`` is as for ``outcomes``."""
    texts, ids = Texts(), set[str]() if seen is None else seen
    for suite in selection.suites:
        has = selection.within(suite)
        for outcome in read_suite(selection, suite, texts):
            if selection.case_ids and outcome.case_id:
                ids.add(outcome.case_id)
            if has(outcome.case_id):
                yield outcome
    if seen is None:
        selection.check_ids(ids)


def read_suite(
    selection: Selection,
    suite: str,
    texts: Texts,
    lines: Lines | None = None,
    name: str | None = None,
) -> Iterator[Outcome]:
    """Yield the outcome of reading every case of a suite, selected or not.

    ``lines`` of a ``.jsonl`` file are read, or all; ``name`` is used in place of the path.
    """
    try:
        if suite not in selection.named:
            stay_inside(suite, selection.root)
        patterns = selection.guideline_patterns
        reader = SuiteReader(suite, selection.root, patterns, texts, name)
        for found in _read_ahead(reader, lines):
            if isinstance(found, Case):
                yield Outcome(suite, found)
            elif isinstance(found, MultiturnError):
                yield Outcome(suite, error=found)
            elif not (selection.is_partial and found.event == UNUSED_PATTERN):
                try:
                    warn(found)
                except MultiturnError as error:
                    yield Outcome(suite, error=error)
    except MultiturnError as error:
        yield Outcome(suite, error=error)


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
