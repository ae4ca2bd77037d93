"""What is different between the two sides of a report, each difference once."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from msgspec import Struct

from multiturn.errors import quoted
from multiturn.files.media import Media
from multiturn.report.comparison import Comparison, Report, promoted_in
from multiturn.snapshots.attached import Attached, change_in_words, media_in, new_in_words
from multiturn.snapshots.changes import FileChange
from multiturn.snapshots.differences import ChangedText, Difference, Differences, Facts, known_of
from multiturn.snapshots.growth import occurrences, prompt_growth, text_growth
from multiturn.snapshots.locations import Key, digest, location_of
from multiturn.snapshots.plain_text import plain_text_of, with_short_digests
from multiturn.snapshots.promotion import changes_of_privilege
from multiturn.snapshots.reviewed_case import ReviewedCase
from multiturn.snapshots.snapshot_file import record_of
from multiturn.snapshots.target_lock import LOCK
from multiturn.snapshots.text_diff import compare_texts
from multiturn.text import number_of


class _File(Struct):
    """An attached file that is not as before, or one that is new."""

    new: Attached
    old: Attached | None = None  # None for one that no case of its cases attached before
    cases: list[Key] = []
    growth: float = 0
    causes: dict[str, None] = {}


def overview(report: Report) -> list[Difference]:
    """Return each difference of a report once, the dangerous ones first.

    They are those of ``snapshot --check``, if the snapshots are those of the revision that the
    report compares with. Cases that failed are in none.
    """
    found = Overview(report)
    for comparison in report.comparisons:
        if found.takes(comparison):
            found.add(comparison, *report.texts(comparison))
    return found.differences()


def titled(differences: Sequence[Difference]) -> Iterator[tuple[Difference, str, str]]:
    """Yield each difference with its title, and which one of that title it is if there are more."""
    titles = list(map(_title, differences))
    numbers, seen = Counter(titles), Counter[str]()
    cases: dict[str, set[Key]] = {}
    for title, each in zip(titles, differences, strict=True):
        cases.setdefault(title, set()).update(each.cases)
    for title, each in zip(titles, differences, strict=True):
        seen[title] += 1
        many = number_of(len(cases[title]), "case")
        share = f" ({seen[title]:,} of {numbers[title]:,}, in {many})"
        yield each, title, share if numbers[title] > 1 else ""


def _title(difference: Difference) -> str:
    """Name a difference: by its file, by its cause, or by the first line that it changes."""
    if difference.what:
        return difference.what
    if difference.kind != "changed":
        return f"{number_of(len(difference.cases), 'case')} {difference.kind}"
    if len(difference.causes) == 1:
        return difference.causes[0]
    if len(difference.cases) == 1:
        # Its first line may have changed in many other cases, too.
        return f"{difference.causes[0]}, and {len(difference.causes) - 1} more"
    runs = (run for is_changed, run in groupby(difference.lines, _is_changed) if is_changed)
    first = list(next(runs, ()))
    old, new = (next((line[1:].strip() for line in first if line[0] == sign), "") for sign in "-+")
    if old and new:
        return f"{quoted(old)} → {quoted(new)}"
    return f"{quoted(new)} is new" if new else f"{quoted(old)} is gone"


def _is_changed(line: str) -> bool:
    return line[0] in "-+"


def diff_of(report: Report, comparison: Comparison) -> list[str]:
    """Return the lines of a diff of a case and its files; none where one side is all there is."""
    old, new = report.texts(comparison)
    if old is None or new is None:
        return []
    texts = (plain_text_of(record_of(side, inline=True)) for side in (old, new))
    return with_short_digests(compare_texts(*texts)[1])


class Overview:
    """Collects the differences of a report, case by case; see ``overview``."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.locks = [promoted_in(side) for side in (report.then, report.now) if side]
        changes = changes_of_privilege(*self.locks) if report.then else ()
        self.promoted = {change.path: change for change in changes}
        self.shared = [side.stages.shared if side else {} for side in (report.then, report.now)]
        self.files: dict[str, _File] = {}
        self.media_before: dict[str, str] = {}  # digests, by path
        self.attached_before: set[str] = set()  # files, by cases that are not the same
        self.found = Differences()

    def differences(self) -> list[Difference]:
        """Return the differences of the cases that were added."""
        return self.found.found(self.texts())

    def takes(self, comparison: Comparison) -> bool:
        """Return whether a case may have a difference."""
        return self.report.then is not None and comparison.status not in ("failed", "same")

    def add(
        self, comparison: Comparison, old: ReviewedCase | None, new: ReviewedCase | None
    ) -> None:
        """Add what is different in a case."""
        was, files = (side.files if side else {} for side in (old, new))
        self.attached_before.update(was)
        self.media_before |= {path: media.digest for path, media in media_in(was).items()}
        promoted = {each.path for each in new.promoted} & self.promoted.keys() if new else set()
        changed = [p for p in files if was.get(p) != files[p] or p in promoted]
        for path in changed:
            self.add_file(path, comparison, was.get(path), new)
        if (change := self.change(comparison, old, new)) is None:
            return
        # A file that changed has a difference of its own, with its cause and its privilege.
        own_causes = {comparison.files.get(path) for path in changed}
        others = [each for each in comparison.causes if each not in own_causes]
        own = {each.what for each in self.promoted.values() if not each.is_new}
        privileges = [str(p) for p in comparison.privileges if p.identity not in own]
        before, after = ((*side.prompt, *side.tools) if side else () for side in (old, new))
        growth = prompt_growth(before, after, was, {**was, **files})
        facts = Facts(privileges, others or comparison.causes, growth)
        self.found.add(change, facts, change.old, change.new)

    def change(
        self, comparison: Comparison, old: ReviewedCase | None, new: ReviewedCase | None
    ) -> FileChange | None:
        """Return how the snapshot of a case differs; None if only files that it names do."""
        sides = list(zip((old, new), self.shared, strict=True))
        records = [case and record_of(case, shared=shared) for case, shared in sides]
        key, was = comparison.case.key, comparison.was
        name = location_of(*key)
        if records[0] == records[1] and self.shared[0] != self.shared[1]:
            records, name = [case and record_of(case) for case, _ in sides], LOCK
        if records[0] == records[1]:
            return None
        before, now = (plain_text_of(record) if record else "" for record in records)
        if before == now and was is None:  # only the size of an image or the like
            return None
        return FileChange(name, key, before, now, location_of(*was.key) if was else "")

    def add_file(
        self, path: str, comparison: Comparison, old: Attached | None, new: ReviewedCase | None
    ) -> None:
        """Add a file with another text, or one that is new, as a case attaches it."""
        assert new is not None  # noqa: S101 - it attaches the file
        file = self.files.setdefault(path, _File(new.files[path], old))
        if file.old is None and old is not None:
            file.old, file.cases = old, []
        if old == file.old:
            file.cases.append(new.key)
        # A new file counts in the prompt of a new case.
        if isinstance(old, str) and isinstance(file.new, str):
            number = occurrences(path, file.new, new.prompt)
            file.growth += text_growth(old, file.new, number)
        if path in comparison.files:
            file.causes[comparison.files[path]] = None

    def texts(self) -> Iterator[ChangedText]:
        """Yield the files with another text, and those that no case attached before."""
        self._look_at_the_same_cases()
        for path, file in self.files.items():
            then, now = (lock.get(path, ()) for lock in self.locks)
            then = then if now else ()
            change = self.promoted.get(path)
            if file.old is None and path in self.attached_before:
                continue
            media = isinstance(file.new, Media) or isinstance(file.old, Media)
            yield ChangedText(
                path=path,
                cases=file.cases,
                what=change.what if change else self.what(path, file),
                old=file.old,
                new=file.new,
                recorded=known_of((*then, *([] if file.old is None else [digest(file.old)]))),
                wanted=known_of((*now, digest(file.new))),
                growth=None if file.old in (None, file.new) or media else file.growth,
                causes=tuple(file.causes),
                privileges=[change.what] if change else [],
            )

    def what(self, path: str, file: _File) -> str:
        """Return in words how a file has changed."""
        if file.old is None:
            return new_in_words(path, file.new, self.media_before)
        return change_in_words(path, file.old, file.new)

    def _look_at_the_same_cases(self) -> None:
        """Find the files that only look new, because cases that are the same have them."""
        new = {path for path, file in self.files.items() if file.old is None}
        for comparison in self.report.comparisons:
            if not new - self.attached_before:
                return
            if comparison.status == "same":
                old, _ = self.report.texts(comparison)
                self.attached_before.update(old.files if old else ())
