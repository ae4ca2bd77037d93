"""What is different between two sides: case by case with the causes, and each change once."""

from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from multiturn.engine.costs import KeptPrefixes
from multiturn.files.media import Media
from multiturn.pipelines.pipeline import Pipeline
from multiturn.providers.base import TargetProvider
from multiturn.report.causes import UNKNOWN_CODE, Cause, Undoing, pipeline_changes
from multiturn.report.sides import CaseSummary, ReportSide
from multiturn.snapshots import attached_files, changes, privilege, snapshot_file
from multiturn.snapshots.changes import Change, FileChange
from multiturn.snapshots.lists import FILES, PROMOTED, TARGET, FoundFiles
from multiturn.snapshots.locations import Key, location_of
from multiturn.snapshots.privilege import PrivilegeChange
from multiturn.snapshots.renames import renames
from multiturn.snapshots.reviewed_case import ReviewedCase
from multiturn.snapshots.snapshot_file import snapshot_record, snapshot_text
from multiturn.snapshots.text_diff import compare_texts
from multiturn.text import number_of

CaseTexts = tuple[ReviewedCase | None, ReviewedCase | None]  # of a case, as it was and as it is
Status = Literal["failed", "changed", "renamed", "added", "removed", "same"]
# Shown at once: a browser would need longer to lay out thousands of them than the rest of the page.
MOST_PRIVILEGES = 20
STATUSES: tuple[Status, ...] = get_args(Status)
_UNKNOWN = "it cannot be read, because its suite has an error"


class Comparison(Struct, frozen=True):
    """A case, now and then."""

    status: Status  # failed if it cannot be converted now; renamed even if its texts differ
    now: CaseSummary | None  # None if it was removed
    then: CaseSummary | None = None  # None if it was not there, or nothing is compared
    causes: tuple[str, ...] = ()  # what has changed its texts, in words
    privileges: tuple[PrivilegeChange, ...] = ()
    change: FileChange | None = None  # of its snapshot

    @property
    def case(self) -> CaseSummary:
        """The case, as it is, or else as it was."""
        case = self.now or self.then
        assert case is not None  # noqa: S101 - one of them is there
        return case

    @property
    def was(self) -> CaseSummary | None:
        """The case as it was if it has another name now; else None."""
        return self.then if self.status == "renamed" else None


class Report(Struct):
    """What a report shows."""

    now: ReportSide
    then: ReportSide | None  # None to show the cases as they are
    against: str  # the revision of ``then``, as it is shown
    pipeline: tuple[str, ...]  # what has changed in it
    # By status; the changed ones with several causes, then the others, the most frequent cause
    # first; then in the order of the suites.
    comparisons: list[Comparison]
    errors: list[str]  # that belong to no case
    # Each change once, the dangerous ones first. They are those of ``snapshot --check``, if the
    # snapshots are those of the revision. Cases that failed are in none.
    changes: list[Change] = []
    growth: str = ""  # what they cost, in words
    media: tuple[Media, ...] = ()  # that have changed, as they were and as they are

    @property
    def sample(self) -> str:
        """Which part of the cases this is about, in words; empty for all of them."""
        sample = self.now.pipeline.sample
        return f"a sample of the cases: {sample}" if sample else ""

    @property
    def shown(self) -> str:
        """The name of the pipeline, and of the target whose prompts are shown."""
        pipeline = self.now.pipeline
        return f"{pipeline.name} for {pipeline.target}" if pipeline.target else pipeline.name

    def texts(self, comparison: Comparison) -> CaseTexts:
        """Return a case as it was, if it is another one now, and as it is; None for nothing."""
        then = comparison.then if comparison.status != "same" else None
        return self.then.read(then) if self.then else None, self.now.read(comparison.now)

    def privileges(self) -> dict[str, set[int]]:
        """Return each change of privilege once, in words, with the places of the comparisons."""
        changes: dict[str, tuple[list[PrivilegeChange], set[int]]] = {}
        for at, comparison in enumerate(self.comparisons):
            for change in comparison.privileges:
                same, places = changes.setdefault(change.words, ([], set()))
                same.append(change)
                places.add(at)
        found: dict[str, set[int]] = {}
        # Files that get a privilege come first.
        for same, places in sorted(changes.values(), key=lambda each: not each[0][0].is_new):
            # Its cause is one that all of these have, and one of them has no other.
            change = min(same, key=lambda each: len(each.causes))
            if not all(set(change.causes) <= {*each.causes} for each in same):
                change = replace(change, causes=())
            found.setdefault(str(change), set()).update(places)
        return found


def compare(
    now: ReportSide,
    then: ReportSide | None = None,
    against: str = "",
    pipeline: Pipeline | None = None,
    provider: TargetProvider | None = None,
    take_texts: Callable[[Comparison, CaseTexts], None] = lambda *_: None,
) -> Report:
    """Compare the cases as they are with those of a revision, or take them as they are.

    Args:
        now: the cases as they are.
        then: those of the revision; None to compare nothing.
        against: the revision, as it is shown.
        pipeline: which has converted the cases of ``now``; it finds the causes of changes.
        provider: of the target whose prompts are compared; None for those of the pipeline.
        take_texts: called for each case that has changed, while its texts are in memory.
    """
    if then is None or pipeline is None:
        cases = [Comparison("failed" if c.error else "same", c) for c in now.cases.values()]
        return Report(now, then, against, (), _in_order(cases), list(now.errors))
    undoing = Undoing(pipeline, pipeline_changes(then.pipeline, now.pipeline), provider)
    sides = _Sides(now, then, undoing, provider)
    comparisons = _in_order([sides.completed(each, take_texts) for each in sides.comparisons()])
    others = [f"at {against}: {each}" for each in then.errors if each not in now.errors]
    words = [change.words for change in undoing.changes]
    if now.pipeline.name != then.pipeline.name:
        words.insert(0, f"{now.pipeline.name} in place of {then.pipeline.name}")
    changed = [comparison.change for comparison in comparisons if comparison.change]
    changed += sides.of_lock
    compared = ((each, each.old, each.new) for each in changed)
    found = changes.group_changes(compared, sides.files.changed_files(changed))
    tokens = changes.total_growth(each.growth for each in found)
    growth = changes.growth_in_words(tokens, 1) if tokens and round(tokens) else ""
    return Report(
        *(now, then, against, tuple(words), comparisons, [*now.errors, *others], found),
        growth="; ".join(filter(None, (growth, sides.kept.in_words if sides.kept else ""))),
        media=tuple(each for each in sides.files.contents() if isinstance(each, Media)),
    )


def _in_order(comparisons: list[Comparison]) -> list[Comparison]:
    sizes = Counter(comparison.causes for comparison in comparisons)
    first = {causes: at for at, causes in enumerate(sizes)}

    def order(comparison: Comparison) -> tuple[int, int, int, int]:
        status, why = STATUSES.index(comparison.status), comparison.causes
        return status, -min(len(why), 2), -sizes[why], first[why]

    return sorted(comparisons, key=order)


class _Sides:
    """What is different between two sides, case by case."""

    def __init__(
        self, now: ReportSide, then: ReportSide, undoing: Undoing, provider: TargetProvider | None
    ) -> None:
        self.now, self.then, self.undoing = now, then, undoing
        self.files = files_of(then, now)
        self.promoted = self.files.privileges_of_cases()
        locks = (snapshot_file.read_snapshot(side.pipeline.lock) for side in (then, now))
        self.of_target = list(privilege.target_changes(*(each.settings for each in locks)))
        self.of_lock: list[FileChange] = []  # ``target.lock``, for each case that it changes
        self.kept = KeptPrefixes(provider) if provider and provider.has_cache else None

    def comparisons(self) -> Iterator[Comparison]:
        """Yield each case of both sides, those of now first."""
        now, then = self.now, self.then
        names = _renames(now, then)
        for key, case in now.cases.items():
            was = then.cases.get(names.get(key, key))
            if was is None and case.suite in then.broken:
                was = CaseSummary(*key, error=_UNKNOWN)
            if case.error:
                yield Comparison("failed", case, was)
            elif key in names:
                yield Comparison("renamed", case, was)
            elif was is None or case.digest != was.digest:
                yield Comparison("changed" if was else "added", case, was)
            else:
                yield Comparison("same", case, was)
        renamed = set(names.values())
        for key, case in then.cases.items():
            if key not in now.cases and key not in renamed:
                if case.suite in now.broken:
                    yield Comparison("failed", replace(case, error=_UNKNOWN), case)
                else:
                    yield Comparison("removed", None, case)

    def completed(self, comparison: Comparison, take_texts: Callable[..., None]) -> Comparison:
        """Return a comparison with what is different in the case, and why; its texts are taken."""
        now, then = comparison.now, comparison.then
        if comparison.status in ("failed", "same"):
            return comparison
        new, old = self.now.read(now), self.then.read(then)
        promoted = self.promoted.get(now.key, []) if now else []
        paths = {each.path for each in promoted}
        listed = {each.path for each in promoted if each.is_new}
        was, files = (side.files if side else {} for side in (old, new))
        self.files.known |= was
        found: list[Cause] = []
        privileges: list[PrivilegeChange] = []
        if new:
            self.files.add_texts(new)
        if now and new and (then is None or now.digest != then.digest):
            for each in promoted:
                text = attached_files.text_to_review(files.get(each.path, ""))
                privileges.append(replace(each, text=text) if each.is_new else each)
            privileges += privilege.body_changes(old and old.settings.body, new.settings.body)
            if then is not None:
                found = list(self.undoing.causes(now, then, new, old))
                privileges += self._other_privileges(new, old, [c.words for c in found], listed)
        before, after = ((*side.tools, *side.prompt) if side else () for side in (old, new))
        if old and new and self.kept:
            self.kept.add(new.suite, before, after)
        why = tuple(each.words for each in found)
        of_target: list[PrivilegeChange] = []
        change = self._snapshot_change(comparison, old, new)
        then_lock, lock = self.then.pipeline.lock, self.now.pipeline.lock
        if old and new and then_lock != lock and old.sent != new.sent:
            of_target = self.of_target
            of_lock = FileChange(
                *(TARGET, comparison.case.key, then_lock, lock),
                privileges=tuple(map(str, of_target)),
                causes=(f"settings of the target {self.undoing.target}",),
                growth=0.0,
            )
            self.of_lock.append(of_lock)
        comparison = replace(comparison, causes=why, privileges=(*privileges, *of_target))
        take_texts(comparison, (old, new))  # first: texts that are written need no other UTF-8
        if change is not None:
            # A file that changed has a change of its own, with its cause and its privilege.
            changed = [p for p in files if was.get(p) != files[p] or p in paths]
            others = tuple(each.words for each in found if each.file not in changed)
            change = replace(
                change,
                privileges=tuple(str(e) for e in privileges if e.is_new or e not in promoted),
                causes=others or why,
                growth=changes.prompt_growth(before, after, was, {**was, **files}),
            )
            comparison = replace(comparison, change=change)
        return comparison

    def _snapshot_change(
        self, comparison: Comparison, old: ReviewedCase | None, new: ReviewedCase | None
    ) -> FileChange | None:
        """Return how the snapshot of a case differs; None if it does not."""
        key, was = comparison.case.key, comparison.was
        records = [case and snapshot_record(case) for case in (old, new)]
        if records[0] == records[1]:
            return None
        before, after = (snapshot_file.plain_text_of(each) if each else "" for each in records)
        if before == after and was is None:  # only the size of an image or the like
            return None
        old_name = location_of(*was.key) if was else ""
        return FileChange(location_of(*key), key, before, after, old_name)

    def _other_privileges(
        self, new: ReviewedCase, old: ReviewedCase | None, why: list[str], named: Container[str]
    ) -> Iterator[PrivilegeChange]:
        """Yield the other changes of privilege in a case, and what made them.

        Left out are the files that are named already, and what a stage adds if the stages are the
        same: where there is a second guideline, for one, both get headers.
        """
        pipeline = self.undoing.changes
        have_changed = pipeline or UNKNOWN_CODE in why
        for change in privilege.privilege_changes(old.judged if old else (), new.judged, named):
            if change.stage is None or have_changed:
                by_stage = {each.words for each in pipeline if each.stage == (change.stage or None)}
                of_stage = (each for each in why if each in by_stage)
                yield replace(change, causes=tuple(of_stage) or tuple(why))


def _renames(now: ReportSide, then: ReportSide) -> dict[Key, Key]:
    """Return what the cases were called that have another id or suite now."""
    removed, added = (
        {
            key: snapshot_text(texts)
            for key, case in side.cases.items()
            if key not in other.cases and case.suite not in other.broken
            if (texts := side.read(case)) is not None
        }
        for side, other in ((then, now), (now, then))
    )
    return renames(removed, added)


def files_of(then: ReportSide, now: ReportSide) -> FoundFiles:
    """Return the attached files of a side, beside those of another one."""
    found = FoundFiles({PROMOTED: {}, FILES: {}})
    for side in (then, now):
        found = FoundFiles(found.found)
        for case in side.cases.values():
            found.add_entries(case.key, case.promoted, case.files)
    return found


def titled(found: Sequence[Change]) -> Iterator[tuple[Change, str, str]]:
    """Yield each change with its title, and which one of that title it is if there are more."""
    titles = list(map(_title, found))
    numbers, seen = Counter(titles), Counter[str]()
    cases: dict[str, set[Key]] = {}
    for title, each in zip(titles, found, strict=True):
        cases.setdefault(title, set()).update(each.cases)
    for title, each in zip(titles, found, strict=True):
        seen[title] += 1
        many = number_of(len(cases[title]), "case")
        share = f" ({seen[title]:,} of {numbers[title]:,}, in {many})"
        yield each, title, share if numbers[title] > 1 else ""


def _title(change: Change) -> str:
    """Name a change: by its file, by its cause, or by the first line that it changes."""
    if change.what:
        return change.what
    if change.kind != "changed":
        return f"{number_of(len(change.cases), 'case')} {change.kind}"
    if len(change.causes) == 1:
        return change.causes[0]
    if len(change.cases) == 1:
        # Its first line may have changed in many other cases, too.
        return f"{change.causes[0]}, and {len(change.causes) - 1} more"
    return change.words


def diff_lines(report: Report, comparison: Comparison) -> list[str]:
    """Return the lines of a diff of a case and its files; none where one side is all there is."""
    old, new = report.texts(comparison)
    if old is None or new is None:
        return []
    texts = (snapshot_file.plain_text_of(snapshot_record(side, inline=True)) for side in (old, new))
    return snapshot_file.with_short_digests(compare_texts(*texts)[1])
