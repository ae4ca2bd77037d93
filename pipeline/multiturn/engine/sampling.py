"""A sample of the cases: always the same ones, without holding a suite in memory."""

import os
from heapq import heappush, heappushpop

from msgspec import structs

from multiturn.engine.outcomes import read_cases
from multiturn.engine.selection import Sample, Selection
from multiturn.errors import MultiturnError, option
from multiturn.logs import warnings_to


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
    lowest: list[int] = []  # a heap of negative ranks: the highest rank is the first
    with warnings_to(lambda _: None):  # the second reading warns
        for outcome in read_cases(selection, set()):
            if not outcome.case_id:  # an error that belongs to no case
                continue
            total += 1
            rank = -sample.rank(names[outcome.suite], outcome.case_id)
            if len(lowest) < size:
                heappush(lowest, rank)
            else:
                heappushpop(lowest, rank)
    last = -lowest[0] if lowest else -1
    drawn = structs.replace(sample, last=last, size=len(lowest), total=total)
    return structs.replace(selection, sample=drawn)
