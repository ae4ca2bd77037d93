"""A run of ``multiturn snapshot``: it updates a folder, or finds where it differs from suites.

What differs may be accepted one by one: each is written whole, and the lists follow from them.
Annotations are beside the line of a suite or a pipeline that has what is new.
"""

import linecache
import os
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence, Set
from contextlib import nullcontext
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace
from toolz import groupby, interleave

from multiturn.engine.converting import ConvertedCase
from multiturn.engine.project import PromptLimit
from multiturn.engine.selection import Selection, suite_names
from multiturn.errors import MultiturnError, Place, option
from multiturn.explaining.spans import Span, file_of
from multiturn.files.paths import root_of
from multiturn.pipelines.pipeline import Pipeline
from multiturn.providers.base import TargetProvider
from multiturn.snapshots import lists, snapshot_file
from multiturn.snapshots.changes import Change, FileChange, State, group_changes, prompt_growth
from multiturn.snapshots.folder import SnapshotFolder
from multiturn.snapshots.locations import Key, folder_of, legal_path, location_of, name_in_root
from multiturn.snapshots.privilege import PrivilegeChange, privilege_changes, target_changes
from multiturn.snapshots.renames import renames
from multiturn.snapshots.reviewed_case import ReviewedCase, review_outcome
from multiturn.snapshots.snapshot_file import RecordedSnapshot
from multiturn.text import number_of

_FOLDER = "snapshots"
_STATES: tuple[State, ...] = ("new", "changed", "renamed", "removed")
_ORIGINS = 3  # that are named
_UNREADABLE = "the recorded snapshot cannot be read, so changes of privilege are not known"
_NARROWEST = 20  # characters of a line of a folded text


class Scope:
    """The suites of a run, and the folders that stand for all suites below them.

    A suite outside its root, two of one name, or of several repositories are errors.
    """

    def __init__(
        self, selection: Selection, arguments: tuple[str, ...], snapshots: str | None
    ) -> None:
        self._root = selection.root
        self.snapshots = snapshots or self._default_folder(arguments)
        # The path of each suite in its root, by the path that was named or found.
        self.names = suite_names(selection, lambda path: name_in_root(path, self._root_of(path)))
        # The root of each folder, and how the names of the suites below it begin. Those in no root
        # are left out: the name of a suite does not say that it was below.
        self.folders: list[tuple[str, str]] = []
        for path in filter(os.path.isdir, arguments):
            root = self._root_of(path)
            if self._root is not None or os.path.exists(os.path.join(root, ".git")):
                real, top = os.path.realpath(path), os.path.realpath(root)
                prefix = "" if real == top else f"{name_in_root(path, root)}/"
                self.folders.append((top, prefix))

    def is_removed(self, suite: str) -> bool:
        """Return whether a suite was below a folder that the command names, and no longer is."""
        beside = os.path.dirname(os.path.realpath(self.snapshots))
        if os.path.isfile(os.path.join(beside, suite)):  # of another root
            return False
        return any(
            suite.startswith(prefix) and not os.path.isfile(os.path.join(root, suite))
            for root, prefix in self.folders
        )

    def _default_folder(self, arguments: Iterable[str]) -> str:
        """Return the folder of snapshots beside ``.git``, wherever below it the command is run."""
        roots = {os.path.realpath(self._root_of(path)) for path in arguments}
        tops = sorted(root for root in roots if os.path.exists(os.path.join(root, ".git")))
        if self._root is not None or not tops:
            return _FOLDER
        if len(roots) > 1:
            what = f"the suites are in several roots, as {' and '.join(sorted(roots)[:2])}"
            raise MultiturnError(f"{what}; name the folder of their snapshots (--dir)")
        return os.path.relpath(os.path.join(*tops, _FOLDER))

    def _root_of(self, path: str) -> str:
        return self._root or root_of(path)


class SnapshotRun(Struct, frozen=True, kw_only=True):
    """What a run of ``multiturn snapshot`` is asked for."""

    selection: Selection  # the cases
    scope: Scope  # their suites, and the folders that were named
    check: bool  # write nothing
    inline: bool  # repeat the texts of attached files
    pipeline: Pipeline  # which converts them
    provider: TargetProvider | None = None  # of the target whose prompts are recorded, too
    resolve: bool = False  # write lists anew that have a merge conflict

    def refuse_nothing(self) -> None:
        """Raise the error of a path where no suite is, unless its snapshots are to be removed."""
        missing = self.selection.missing
        for path, error in missing.items():
            if not os.path.isdir(path):
                raise error
        folder = SnapshotFolder(self.scope.snapshots)
        if not self.selection.suites and not any(map(folder.case_of, self.candidates(folder))):
            raise next(iter(missing.values()))

    def candidates(self, folder: SnapshotFolder) -> Iterator[str]:
        """Yield the names of what may be snapshots of its suites."""
        for suite in self.scope.names.values():
            yield from folder.snapshots(folder_of(suite))
        for _, prefix in self.scope.folders:
            yield from folder.snapshots(legal_path(prefix), below=True)


class SnapshotUpdate:
    """What a run finds and, unless it is a check, writes; with ``--strict``, not after an error.

    Of a check of whole suites, some of what is different may be accepted; only that is written. A
    list has the entry of a file as it was until the new one is accepted, and until no snapshot that
    is left as it was names the file. A list that is torn is an error, and so are snapshots that
    would stay, and were made for another target.
    """

    def __init__(
        self,
        run: SnapshotRun,
        outcomes: Iterable[ConvertedCase],
        on_error: Callable[[MultiturnError], None],
    ) -> None:
        self.run, self.folder = run, SnapshotFolder(run.scope.snapshots)
        self._refuse_other_target()
        self.lists = lists.Lists(self.folder, resolve=run.resolve)
        self._places: dict[str, Place] = {}  # of cases, by the snapshots that there should be
        self.cases: dict[Key | None, ReviewedCase] = {}  # whose snapshots differ, in a check
        self._same = self._others = 0
        self.errors: list[MultiturnError] = []  # of cases
        self._broken: set[str] = set()  # suites with a case that could not be converted
        self.stale: dict[Key, str] = {}  # the snapshots of cases that are gone
        self.files: list[FileChange] = []  # of the folder that differ
        # In one line each: changes of privilege, then attached files that changed; empty for a run
        # that writes all of them.
        self.findings: list[Change] = []
        self.changes: list[Change] = []  # what a reviewer decides on, in a check
        self.pending: list[Change] = []  # those of them that are not accepted
        # What was pending before each acceptance, and the files that it wrote: then and now.
        self._accepted: list[tuple[list[Change], dict[str, tuple[str | None, str | None]]]] = []
        limit = PromptLimit(run.provider)
        for outcome in outcomes:
            if (error := self._add(outcome, limit)) is not None:
                self.errors.append(error)
                on_error(error)
        writes = not run.check and not (run.selection.strict and self.errors)
        # Another run may write other suites of the folder now: its entries must not be lost.
        with self.folder.alone() if writes else nullcontext():
            self._find()
            for file in self.files if writes else ():
                self._write(file)

    def _refuse_other_target(self) -> None:
        """Raise the error of a part of the cases, or of the suites, that have another target."""
        run, folder = self.run, self.folder
        recorded, name = lists.recorded_target(folder), run.provider.name if run.provider else ""
        if not recorded or recorded == name:
            return
        covered = {folder_of(suite) for suite in run.scope.names.values()}
        names = (n for n in folder.snapshots("", below=True) if os.path.dirname(n) not in covered)
        cases = filter(None, map(folder.case_of, names))
        if run.selection.is_partial or any(not run.scope.is_removed(suite) for suite, _ in cases):
            what = f"the snapshots are of the target {recorded!r}: name it with {option('target')}"
            what += ", or run this for all suites and cases"
            raise MultiturnError(what, where=folder.shown(lists.TARGET))

    def _add(self, outcome: ConvertedCase, limit: PromptLimit) -> MultiturnError | None:
        """Compare a case, and list its files; return what is wrong with it."""
        run, conversion = self.run, outcome.conversion
        case, error = review_outcome(outcome, run.provider)
        if error is not None:
            self._broken.add(run.scope.names[outcome.suite])
        if case is None or conversion is None:
            return error
        if run.resolve and (files := conversion.case.files) is not None:
            # The lists would have the digests of attached texts that are not merged yet.
            for path, file in case.files.items():
                if isinstance(file, str):
                    files.warn_of_conflict(path, file)
        error = self._compare(case, snapshot_file.snapshot_text(case, inline=run.inline))
        if run.check:
            error = error or limit.error_of(conversion)
        self.lists.add(case, inline=run.inline)
        return error

    def _compare(self, case: ReviewedCase, new: str) -> MultiturnError | None:
        """Compare a case with its snapshot; return an error if the new one must not be written."""
        name, where = location_of(*case.key), case.case.where()
        shown = self.folder.shown(name)
        if name in self._places:
            what = f"its snapshot would replace another case's, {shown}; give it another id"
            return MultiturnError(what, where=where)
        self._places[name] = where
        old = self.folder.read(name) or ""
        if old == new:
            self._same += 1
            return None
        if old.strip() and snapshot_file.recorded_case(old) is None:
            return MultiturnError("this is not a snapshot; move it away", where=shown)
        self.files.append(FileChange(shown, case.key, old, new))
        if self.run.check or self.run.resolve:
            self.cases[case.key] = case
        return None

    def _find(self) -> None:
        """Find what has changed, and the snapshots of cases that are gone."""
        run, is_partial = self.run, self.run.selection.is_partial
        self.lists.read()
        if not is_partial:
            self.stale = dict(self._stale())
        self.files = list(self._with_renames())
        if not is_partial:
            others = self._uncovered_suites(self.lists.left() if run.check else None)
            self.files += self.lists.changes(others)
            self._others = len(self.lists.also_of(others) - self._broken)
            old = self.folder.read(lists.TARGET) or ""
            new = lists.target_text(run.provider) if run.provider else ""
            if old != new:
                self.files.append(FileChange(self.folder.shown(lists.TARGET), None, old, new))
        if run.check or run.resolve or is_partial:
            self._judge()
        self._recorded, self.pending = self.lists.recorded, list(self.changes)

    def _write(self, file: FileChange) -> None:
        """Write the new text of a file; remove what should not be there."""
        old, new = map(self.folder.name_of, file.names)
        if file.new:
            self.folder.write(new, file.new)
        if old != new or not file.new:
            self.folder.remove(old)

    def _uncovered_suites(self, wanted: Set[tuple[str, str]] | None) -> lists.Suites:
        """Return the suites that this run does not cover, and that have a file, by their snapshots.

        It finds one suite for each of the wanted entries, by list and path; for None, all suites.
        """
        found: lists.Suites = {}
        covered = {folder_of(suite) for suite in {*self.run.scope.names.values()} - self._broken}
        names = () if wanted == set() else self.folder.snapshots("", below=True)
        folders = groupby(os.path.dirname, names)
        # The first ones of all suites often have all files.
        for name in interleave(folders[each] for each in folders if each not in covered):
            if wanted is not None and wanted <= found.keys():
                break
            text = self.folder.read(name) or ""
            case = snapshot_file.recorded_case(text)
            if case is not None and case not in self.stale and location_of(*case) == name:
                lists.add_files(found, case[0], text)
        return found

    def _stale(self) -> Iterator[tuple[Key, str]]:
        """Yield the snapshots of cases that are gone; none of a suite that has an error."""
        scope = self.run.scope
        suites = set(scope.names.values())
        for name in self.run.candidates(self.folder):
            case = None if name in self._places else self.folder.case_of(name)
            if case is None:
                continue
            suite = case[0]
            if suite not in self._broken if suite in suites else scope.is_removed(suite):
                yield case, self.folder.read(name) or ""

    def _with_renames(self) -> Iterator[FileChange]:
        """Yield the changes of snapshots: changed ones, new and renamed ones, removed ones."""
        files = sorted(self.files, key=lambda file: not file.old)
        new = {each.case: each.new for each in files if each.case and not each.old}
        renamed, removed = renames(self.stale, new), dict(self.stale)
        for file in files:
            was = renamed.get(file.case) if file.case else None
            if was is None:
                yield file
            else:
                old_name = self.folder.shown(location_of(*was))
                yield replace(file, old=removed.pop(was), old_name=old_name)
        for key, old in removed.items():
            yield FileChange(self.folder.shown(location_of(*key)), key, old, "")

    def _judge(self) -> None:
        """Find what is to be said of the files, and, for a check, what a reviewer decides on."""
        check, is_partial = self.run.check, self.run.selection.is_partial
        promoted, of_cases = self.lists.privileges(), self.lists.privileges_of_cases()
        named = {(each.words, each.path): [*cases] for each, cases in promoted.items()}
        compared: list[tuple[FileChange, str, str]] = []
        for at, file in enumerate(self.files):
            if file.case is None and self.folder.name_of(file.name) != lists.TARGET:  # only digests
                continue
            # All that is asked of a text is asked before the next one, so that it is parsed once.
            (old, was), (new, now) = (
                (snapshot_file.read_snapshot(text), snapshot_file.plain_text(text))
                for text in file.texts
            )
            self.lists.known |= old.named
            case = self.cases.get(file.case)
            of_case = of_cases.get(file.case, [])
            listed = {each.path for each in of_case if each.is_new}  # they are named already
            is_judged = (check or self.run.resolve) and file.new
            found: list[PrivilegeChange] = []
            if is_judged and file.case is None:  # target.lock, which may have a merge conflict
                sides = map(snapshot_file.read_snapshot, lists.sides_of(file.old))
                ours, theirs = (list(target_changes(it.settings, new.settings)) for it in sides)
                found = [each for each in ours if each in theirs]
            elif is_judged:
                found = list(_privileges(old, new, case, listed))
            if case and file.old and not old.messages:
                found.append(PrivilegeChange(of_list=_UNREADABLE))
            for each in found:
                named.setdefault((each.words, each.path), []).extend(filter(None, [file.case]))
            found += (each for each in of_case if each.is_new)
            growth = _growth(file, old, case) if check and file.case else None
            words = tuple(each.words for each in found)
            self.files[at] = replace(file, privileges=words, growth=growth)
            compared.append((self.files[at], was, now))
        self.findings = [
            Change(kind="privilege", what=words, cases=tuple(cases), path=path, privileges=(words,))
            for (words, path), cases in sorted(named.items(), key=lambda e: e[0][0] != _UNREADABLE)
        ]
        differing = () if is_partial else {file.case for file in self.files}
        self.findings += self.lists.unrecorded(differing)
        if check:
            changed = () if is_partial else self.lists.changed_files(self.files)
            self.changes = group_changes(compared, changed)

    def place_of(self, change: Change) -> Place:
        """Return the first line that has made a change; nowhere if it has none."""
        where = self._places.get(location_of(*change.cases[0])) if change.cases else None
        if where is None:
            return Place()
        suite = os.path.realpath(where.file)
        root = suite.removesuffix(change.cases[0][0])
        if change.path and root != suite:
            where = Place(os.path.relpath(root + change.path), change.line)
        # A file whose old text is not shown may be as it was, and only attached in another way.
        case = self.cases.get(change.cases[0])
        if case and (change.kind == "changed" or (change.path and not change.is_compared)):
            old = snapshot_file.read_snapshot(self.folder.read(location_of(*case.key)) or "")
            found = (place for place in _new_lines(case, old, self.run.pipeline) if place.line)
            return next(found, where if change.path else Place())
        return where

    @property
    def summary(self) -> str:
        """One line for the end of the run."""
        counts = Counter(file.state for file in self.files if file.case)
        number = counts.total() + self._same
        states = (f"{counts[state]:,} {state}" for state in _STATES if counts[state])
        clauses = [
            f"{number_of(number, 'snapshot')}: {', '.join([*states, f'{self._same:,} same'])}"
        ]
        removed = {each.case[0] for each in self.files if each.case and not each.new}
        if gone := sorted(removed.difference(self.run.scope.names.values())):
            clauses.append(f"{number_of(len(gone), 'suite')} removed: {', '.join(gone)}")
        if self.errors:
            clauses.append(f"{len(self.errors):,} failed")
        is_partial = self.run.selection.is_partial
        if self.run.check:
            if self.changes and not is_partial:  # with --case, nothing is accepted
                clauses.append(f"{number_of(len(self.changes), 'difference')} to decide on")
            if self.files or self.findings:
                first = "fix the errors, " if self.errors else ""
                others = ", for all cases," if self.findings else ""
                how = others if is_partial else ", or with --review,"
                what = f"run snapshot without --check{how} and commit the result"
                clauses.append(f"if intended, {first}{what}")
            return "; ".join(clauses)
        if names := [self.folder.name_of(each.name) for each in self.files if each.case is None]:
            others = f", also for {number_of(self._others, 'other suite')}" * bool(self._others)
            changed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
            clauses.append(f"{changed} changed{others}")
        outdated = {lists.PROMOTED if each.privileges else lists.FILES for each in self.findings}
        if outdated and is_partial:
            listed = " and ".join(sorted(outdated, reverse=True))
            clauses.append(f"to update {listed}, run it for all cases")
        return "; ".join(clauses)

    def of_keys(self, keys: Iterable[str]) -> list[Change]:
        """Return the differences that have these keys; a key of none is an error."""
        known = {change.key: change for change in self.pending}
        for key in keys:
            if key not in known:
                what = f"no difference has the key {key!r}; snapshot --check --format json"
                raise MultiturnError(f"{what}, for the same suites, has those that there are")
        return [known[key] for key in dict.fromkeys(keys)]

    def origins_of(self, change: Change) -> list[str]:
        """Return where the new texts of a difference come from, in words, by its first case."""
        case = self.cases.get(change.cases[0]) if change.cases else None
        if change.path or case is None:
            return list(change.causes)
        found = _new_spans(case, snapshot_file.read_snapshot(change.files[0].old))
        return list(dict.fromkeys(span.origin for _, span, _ in found))[:_ORIGINS]

    def accept(self, chosen: Sequence[Change]) -> None:
        """Write the snapshots of some differences, and the lists, if no file has changed since."""
        with self.folder.alone():
            self.lists.read()
            self._refuse_changed(chosen)
            pending, replaced = self.pending, dict[str, str | None]()
            self.pending = [each for each in self.pending if each not in chosen]
            others = self._uncovered_suites(self.lists.left())
            for file in chain(*(each.files for each in self.pending)):
                if file.case:  # its snapshot is left as it was
                    lists.add_files(others, file.case[0], file.old)
            listed = self.lists.changes(others, {each.path for each in self.pending})
            for file in (*chain(*(each.files for each in chosen)), *listed):
                for name in map(self.folder.name_of, reversed(file.names)):
                    replaced.setdefault(name, self.folder.read(name))
                self._write(file)
            written = {name: (text, self.folder.read(name)) for name, text in replaced.items()}
            self._accepted.append((pending, written))

    def take_back(self) -> None:
        """Write the files as they were before the last acceptance, if none has changed since."""
        pending, written = self._accepted.pop()
        with self.folder.alone():
            for name, (_, now) in written.items():
                if self.folder.read(name) != now:
                    raise _changed(self.folder.shown(name))
            for name, (was, _) in written.items():
                if was is None:
                    self.folder.remove(name)
                else:
                    self.folder.write(name, was)
        self.pending = pending

    def _refuse_changed(self, chosen: Iterable[Change]) -> None:
        for file in chain(*(each.files for each in chosen)):
            # What a renamed case is called now has no snapshot yet.
            old, new = map(self.folder.name_of, file.names)
            for name, text in {new: "", old: file.old}.items():
                if (self.folder.read(name) or "") != text:
                    raise _changed(self.folder.shown(name))
        for each in chosen:
            then, now = self._recorded, self.lists.recorded
            if any(then[name].get(each.path) != now[name].get(each.path) for name in now):
                raise _changed(each.path)


def _privileges(
    old: RecordedSnapshot, new: RecordedSnapshot, case: ReviewedCase | None, listed: Container[str]
) -> Iterator[PrivilegeChange]:
    """Yield the changes of privilege in a case, of a new one the body, or in what a target says."""
    yield from target_changes(old.settings, new.settings)
    judged = case.judged if case and old.messages else ()
    for each in privilege_changes(old.messages, judged, listed):
        # Of a file in full, a snapshot does not say whether it was in a system message.
        if each.role:
            is_unknown = each.stage is None and not each.was and each.path in old.in_full
        else:
            is_unknown = each.path in new.guidelines
        if not is_unknown:
            yield each


def _growth(file: FileChange, old: RecordedSnapshot, case: ReviewedCase | None) -> float | None:
    """Return by how much the prompt of a changed, new or removed case grows."""
    if file.old and not old.messages:  # somebody has edited it
        return None
    # Where a snapshot has a guideline in full, its path stands beside it, and adds nothing.
    inline = dict.fromkeys(old.guidelines, "")
    now, files = (case.judged, case.files) if case else ((), {})
    return prompt_growth(old.messages, now, {}, {**files, **inline})


def _changed(where: str) -> MultiturnError:
    return MultiturnError("it has changed meanwhile; run the command again", where=where)


def _new_spans(case: ReviewedCase, old: RecordedSnapshot) -> Iterator[tuple[str, Span, list[str]]]:
    """Yield the role and each span with its lines, or its file, that are new in that role."""
    known, data = _known(old), [each.data for each in old.messages]
    for message in case.judged:
        more = () if message.data in data else (*message.thinking, *message.calls)
        for span in (*message.spans, *more):
            texts = [file_of(span)] if file_of(span) else _lines(span)
            if new := [text for text in texts if (message.role, text) not in known]:
                yield message.role, span, new


def _new_lines(case: ReviewedCase, old: RecordedSnapshot, pipeline: Pipeline) -> Iterator[Place]:
    """Yield the lines of new texts and files, then of settings, and of options of the pipeline."""
    found, known = list(_new_spans(case, old)), {text for _, text in _known(old)}
    patterns = {each.path: each.pattern for each in case.promoted}
    lines = [message.line for message in case.case.input_messages]
    for role, span, new in found:
        if span.stage is not None:
            continue
        first = span.place.line
        texts = [os.path.basename(text) if span.path else text for text in new]
        if new[0] in known:  # with another role
            first, texts = max((n for n in lines if n <= first), default=1), [role]
            if role == "system" and (pattern := patterns.get(span.path)) is not None:
                first, texts = 1, [f"{quote}{pattern}" for quote in "\"' "]
        yield _line_with(span, first, texts)
    for key, value in snapshot_file.snapshot_record(case).get("settings", {}).items():
        if value != old.settings.get(key):
            yield case.case.places.get(f"execution.{key}", Place())
    options = {step.name: step.options for step in pipeline.steps}
    for _, span, _ in found:
        for name, value in options.get(span.stage or "", {}).items():
            pieces = re.split(r"\{\w+\}", value) if isinstance(value, str) else [""]
            if any(pieces) and all(piece in span.text for piece in pieces):
                yield pipeline.places.get((span.stage or "", name), Place())


def _known(old: RecordedSnapshot) -> set[tuple[str, str]]:
    """Return each line and each file of a snapshot, with its role."""
    spans = ((message.role, span) for message in old.messages for span in message.spans)
    return {(role, text) for role, span in spans for text in (span.path, *_lines(span))}


def _lines(span: Span) -> list[str]:
    return [line.strip() for line in span.text.split("\n") if line.strip()]


def _line_with(span: Span, first: int, texts: Sequence[str]) -> Place:
    """Return the place of the first line, from one on, with one of some texts, or part of it."""
    place = span.place
    linecache.checkcache(place.file)
    most = None if first == 1 else span.text.count("\n") + len(span.text) // _NARROWEST + 3
    for number, line in enumerate(linecache.getlines(place.file)[first - 1 :][:most], first):
        written = line.strip()
        if any(text in line or (len(written) > 2 and written in text) for text in texts):
            return Place(place.file, number)
    return place if first == place.line else Place()
