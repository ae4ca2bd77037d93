"""What is different between two sides, and why: changed cases, grouped by cause."""

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from multiturn.review.diff import shared_ends
from multiturn.review.report.side import Reviewed, Side

Status = Literal["failed", "changed", "added", "removed", "same"]
STATUSES: tuple[Status, ...] = ("failed", "changed", "added", "removed", "same")
_UNKNOWN = "it is not among the cases that can be read; the suite has an error"


class Comparison(Struct, frozen=True):
    """A case, now and then.

    Attributes:
        status: ``failed`` if it cannot be converted now.
        now: the case; None if it was removed.
        then: the case at the other revision; None if it was not there, or is not looked at.
        causes: what changed it: one, unless several things that it is made of have changed.
    """

    status: Status
    now: Reviewed | None
    then: Reviewed | None = None
    causes: tuple[str, ...] = ()

    @property
    def case(self) -> Reviewed:
        """The case, as it is, or else as it was."""
        case = self.now or self.then
        assert case is not None  # noqa: S101 - one of them is there
        return case

    @property
    def promoted(self) -> frozenset[str]:
        """The files that are in a system message now, and were not."""
        now, then = self.now, self.then
        if now is None or (then is not None and now.promoted == then.promoted):
            return frozenset()
        return now.promoted - (then.promoted if then else frozenset())


def compare(now: Side, then: Side | None) -> list[Comparison]:
    """Return each case with its status, in an order for reading.

    What has failed comes first. Then what has changed: first cases that no single cause explains,
    then the causes, the one of most cases first. Then what was added, removed, or is the same.

    Args:
        now: the cases as they are.
        then: as they were; None to take them as they are.
    """
    found = []
    for key, case in now.cases.items():
        before = then.cases.get(key) if then else None
        if then and before is None and case.suite in then.broken:
            before = Reviewed(suite=case.suite, id=case.id, error=_UNKNOWN)
        found.append(_compared(case, before, now, then))
    if then is not None:
        for key, case in then.cases.items():
            if key in now.cases:
                continue
            if case.suite in now.broken:
                lost = Reviewed(suite=case.suite, id=case.id, line=case.line, error=_UNKNOWN)
                found.append(Comparison("failed", lost, case))
            else:
                found.append(Comparison("removed", None, case))
    sizes: dict[tuple[str, ...], int] = {}
    for comparison in found:
        sizes[comparison.causes] = sizes.get(comparison.causes, 0) + 1
    first = {causes: at for at, causes in enumerate(sizes)}

    def order(comparison: Comparison) -> tuple[int, bool, int, int]:
        causes = comparison.causes
        return STATUSES.index(comparison.status), len(causes) < 2, -sizes[causes], first[causes]

    return sorted(found, key=order)  # stable: the order of the suites within each cause


def _compared(now: Reviewed, then: Reviewed | None, here: Side, there: Side | None) -> Comparison:
    if now.error:
        return Comparison("failed", now, then)
    if there is None:
        return Comparison("same", now)
    if then is None:
        return Comparison("added", now)
    if now.snapshot == then.snapshot:
        return Comparison("same", now, then)
    return Comparison("changed", now, then, tuple(_causes(now, then, here, there)))


def _causes(now: Reviewed, then: Reviewed, here: Side, there: Side) -> Iterator[str]:
    """Yield what is different in what a prompt is made of."""
    rest = True
    for cause in _own_causes(now, then):
        rest = False
        yield cause
    if here.pipeline != there.pipeline:
        yield "the pipeline"
    elif rest:
        yield "the code of a stage"


def _own_causes(now: Reviewed, then: Reviewed) -> Iterator[str]:
    if then.error:
        yield f"{now.suite}: it could not be converted before"
        return
    for path in sorted(now.files.keys() & then.files.keys()):
        if now.files[path] != then.files[path]:
            yield f"{path} {_lines(then.files[path], now.files[path])}"
    for key in sorted(now.shown | then.shown):
        if now.keys.get(key) != then.keys.get(key):
            yield f"{key} of {now.suite}"
    if [text for text, _ in now.messages] != [text for text, _ in then.messages]:
        yield f"{now.suite} line {_line(now, then)}: the messages of {now.id!r}"
    else:
        # The same words can find another file: one was put nearer, or is gone.
        yield from (f"{path} is there" for path in sorted(now.files.keys() - then.files.keys()))
        yield from (f"{path} is gone" for path in sorted(then.files.keys() - now.files.keys()))
    others = now.guidelines & then.files.keys() != then.guidelines & now.files.keys()
    if others and now.patterns != then.patterns:
        yield f"guideline patterns: {_listed(then.patterns)} → {_listed(now.patterns)}"


def _lines(then: str, now: str) -> str:
    """Say which lines of a file have changed, in one range; a deletion is where it was."""
    old, new = then.split("\n"), now.split("\n")
    head, tail = shared_ends(old, new)
    first, last = head + 1, max(len(new) - tail, head + 1)
    return f"line {first}" if first == last else f"lines {first}–{last}"  # noqa: RUF001 - a range


def _line(now: Reviewed, then: Reviewed) -> int:
    """Return the line of the first message that is new, or else of the case."""
    known = {text for text, _ in then.messages}
    return next((line for text, line in now.messages if text not in known), now.line)


def _listed(patterns: tuple[str, ...]) -> str:
    return ", ".join(patterns) or "none"
