"""What ``snapshot --check`` prints for programs with ``--format json``."""

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from click import unstyle
from msgspec import Meta, Struct

from multiturn.cli.lines import CaseId
from multiturn.errors import MultiturnError

if TYPE_CHECKING:
    from multiturn.snapshots.differences import Difference
    from multiturn.snapshots.findings import Finding, Update
    from multiturn.snapshots.locations import Key


class SnapshotCase(Struct, frozen=True):
    """A case that a line is about."""

    suite: Annotated[str, Meta(description="path of the suite, from the root.")]
    id: CaseId


class SnapshotLine(Struct, frozen=True, kw_only=True):
    """What `multiturn snapshot --check` prints of what is not as the snapshots have it."""

    kind: Annotated[
        Literal["failed", "privilege", "text", "new", "changed", "renamed", "removed"],
        Meta(
            description="failed: a case cannot be converted; privilege: a change of privilege;"
            " text: an attached file changed; else what has become of a file of the folder."
        ),
    ]
    key: Annotated[
        str | None,
        Meta(
            description="of the difference, for snapshot --accept, which takes all lines with it;"
            " null for a list, which follows from the others, and with --case."
        ),
    ] = None
    file: Annotated[
        str | None,
        Meta(description="path of the snapshot or list; of an attached file, from the root."),
    ] = None
    was_file: Annotated[str | None, Meta(description="of a renamed one: its path then.")] = None
    cases: Annotated[tuple[SnapshotCase, ...], Meta(description="that have it.")] = ()
    what: Annotated[str | None, Meta(description="what it is, in words.")] = None
    diff: Annotated[str | None, Meta(description="unified diff; null if one side has no file.")] = (
        None
    )
    growth: Annotated[
        int | None,
        Meta(description="about how many tokens prompts grow by; null if that is not known."),
    ] = None


def snapshot_lines(update: "Update", errors: Iterable[MultiturnError]) -> Iterator[SnapshotLine]:
    """Yield the lines of what a check of snapshots has found, with the errors of cases."""
    from multiturn.cli.changes import diff_of

    # With --case, nothing is accepted.
    differences = () if update.is_partial else update.differences
    texts = [*_file_lines(differences), *_finding_lines(update.findings, differences)]
    yield from sorted(texts, key=lambda line: line.kind != "privilege")
    for error in errors:
        yield SnapshotLine(kind="failed", file=error.where.file or None, what=str(error))
    known = {change.name: each.key for each in differences for change in each.changes}
    for change in update.changes:
        yield SnapshotLine(
            kind=change.state,
            key=known.get(change.name),
            file=change.name,
            was_file=change.old_name or None,
            cases=_cases([change.case] if change.case else []),
            diff=unstyle(diff_of(change)) or None,
            growth=_tokens(update.growths.get(change.case) if change.case else None),
        )


def _file_lines(differences: "Iterable[Difference]") -> Iterator[SnapshotLine]:
    for each in differences:
        if each.kind == "file":
            yield SnapshotLine(
                kind="privilege" if each.privileges else "text",
                key=each.key,
                file=each.path,
                cases=_cases(each.cases),
                what=each.what,
                diff="\n".join(each.lines) if each.is_compared else None,
                growth=_tokens(each.growth),
            )


def _finding_lines(
    findings: "Iterable[Finding]", differences: "Sequence[Difference]"
) -> Iterator[SnapshotLine]:
    """Yield a line for each difference that has what a finding is about, but not of files."""
    files = {each.path: each for each in differences if each.kind == "file"}
    for finding in findings:
        of_file = files.get(finding.path)
        if of_file and (not finding.is_privilege or finding.what in of_file.privileges):
            continue
        left = set(finding.cases)
        for each in differences:
            if finding.what in each.privileges and (cases := left.intersection(each.cases)):
                left -= cases
                yield _finding_line(finding, each.key, cases)
        if left:
            yield _finding_line(finding, None, left)


def _finding_line(finding: "Finding", key: str | None, cases: "Container[Key]") -> SnapshotLine:
    return SnapshotLine(
        kind="privilege" if finding.is_privilege else "text",
        key=key,
        file=finding.path or None,
        cases=_cases(case for case in finding.cases if case in cases),
        what=finding.what,
    )


def _cases(keys: "Iterable[Key]") -> tuple[SnapshotCase, ...]:
    return tuple(SnapshotCase(suite, case_id) for suite, case_id in keys)


def _tokens(growth: float | None) -> int | None:
    return None if growth is None else round(growth)
