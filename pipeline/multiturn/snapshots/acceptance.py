"""Accepting changes one by one: each is written whole, and the lists follow from them."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from multiturn.engine.converting import ConvertedCase
from multiturn.errors import MultiturnError
from multiturn.explaining.spans import joined_text
from multiturn.snapshots.changes import Change, FileChange
from multiturn.snapshots.lists import OtherSuites, RecordedLists, read_lists
from multiturn.snapshots.snapshot_file import recorded_messages
from multiturn.snapshots.snapshot_run import SnapshotRun, SnapshotUpdate, write_change

_ORIGINS = 3  # that are named


class Acceptance:
    """The differences that a run finds, of which some are accepted.

    A list has the entry of a file as it was until the new one is accepted, and until no snapshot
    that is left as it was names the file.

    Args:
        run: a check of whole suites; nothing is written but what is accepted.
        outcomes: of its selection.
        on_error: gets the errors of cases.

    Attributes:
        update: what the run has found.
        pending: the differences that are not accepted, the dangerous ones first.
    """

    def __init__(
        self,
        run: SnapshotRun,
        outcomes: Iterable[ConvertedCase],
        on_error: Callable[[MultiturnError], None],
    ) -> None:
        self.update = SnapshotUpdate(run, outcomes, on_error)
        self._folder = self.update.folder
        self._recorded = read_lists(self._folder)
        self.update.find()
        self.pending = list(self.update.changes)
        # What was pending before each acceptance, and the files that it wrote: then and now.
        self._accepted: list[tuple[list[Change], dict[str, tuple[str | None, str | None]]]] = []

    def of_keys(self, keys: Iterable[str]) -> list[Change]:
        """Return the differences that have these keys.

        Raises:
            MultiturnError: a key is of none.
        """
        known = {change.key: change for change in self.pending}
        for key in keys:
            if key not in known:
                what = f"no difference has the key {key!r}; snapshot --check --format json"
                raise MultiturnError(f"{what}, for the same suites, has those that there are")
        return [known[key] for key in dict.fromkeys(keys)]

    def origins_of(self, change: Change) -> list[str]:
        """Return where the new texts of a difference come from, in words, by its first case."""
        file = next(iter(change.files), None)
        if change.path or file is None or file.case is None:
            return list(change.causes)
        recorded = recorded_messages(file.old)
        known = {span.path for message in recorded for span in message.spans}
        before = "\n".join(joined_text(message.spans) for message in recorded)
        origins = (
            span.origin
            for message in self.update.messages.get(file.case, ())
            for span in message.spans
            if span.text.strip() and span.text.strip("\n") not in before
            if span.stage is not None or not span.path or span.path not in known
        )
        return list(dict.fromkeys(origins))[:_ORIGINS]

    def suites_of(self, change: Change) -> list[str]:
        """Return the suites that attach the file of a difference, also those not selected."""
        attaching, path = self._others().attaching, change.path
        return sorted({suite for suite, _ in change.cases} | attaching.get(path, set()))

    def accept(self, chosen: Sequence[Change]) -> None:
        """Write the snapshots of some differences, and then the lists.

        Raises:
            MultiturnError: a file in the folder has changed since the run has read it. Then nothing
                is written.
        """
        with self._folder.alone():
            recorded = read_lists(self._folder)
            self._refuse_changed(chosen, recorded)
            pending, replaced = self.pending, dict[str, str | None]()
            self.pending = [each for each in self.pending if each not in chosen]
            for file in _files_of(chosen):
                self._write(file, replaced)
            for file in self.update.lists.changes(
                recorded, self._others(), self._folder, {each.path for each in self.pending}
            ):
                self._write(file, replaced)
            written = {name: (text, self._folder.read(name)) for name, text in replaced.items()}
            self._accepted.append((pending, written))

    def take_back(self) -> None:
        """Write the files as they were before the last acceptance.

        Raises:
            MultiturnError: one of them has changed since. Then nothing is written.
        """
        pending, written = self._accepted.pop()
        with self._folder.alone():
            for name, (_, now) in written.items():
                if self._folder.read(name) != now:
                    raise _changed(self._folder.shown(name))
            for name, (was, _) in written.items():
                if was is None:
                    self._folder.remove(name)
                else:
                    self._folder.write(name, was)
        self.pending = pending

    def _write(self, file: FileChange, replaced: dict[str, str | None]) -> None:
        is_gone = file.case and (file.old_name or not file.new)
        for name in (file.location, file.old_location) if is_gone else (file.location,):
            replaced.setdefault(name, self._folder.read(name))
        write_change(self._folder, file)
        if is_gone:
            self._folder.remove(file.old_location)

    def _others(self) -> OtherSuites:
        """Return the files of other suites, and of snapshots that are left as they were."""
        others = self.update.uncovered_suites()
        for file in _files_of(self.pending):
            if file.case:
                others.add(file.case[0], file.old)
        return others

    def _refuse_changed(self, chosen: Iterable[Change], recorded: RecordedLists) -> None:
        for file in _files_of(chosen):
            expected = {file.old_location: file.old}
            if file.old_name:  # what it is called now has no snapshot yet
                expected[file.location] = ""
            for name, text in expected.items():
                if (self._folder.read(name) or "") != text:
                    raise _changed(self._folder.shown(name))
        for each in chosen:
            before, now = (
                (lists.promoted.get(each.path), lists.files.get(each.path))
                for lists in (self._recorded, recorded)
            )
            if before != now:
                raise _changed(each.path)


def _files_of(changes: Iterable[Change]) -> Iterator[FileChange]:
    for change in changes:
        yield from change.files


def _changed(where: str) -> MultiturnError:
    return MultiturnError("it has changed meanwhile; run the command again", where=where)
