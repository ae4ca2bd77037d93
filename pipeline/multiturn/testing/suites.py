"""Tests of suites: the cases of suites for pytest, and the files of ``multiturn snapshot``."""

import glob
import os
from collections.abc import Hashable, Iterator
from typing import Any, Never

import pytest
from syrupy.data import Snapshot, SnapshotCollection, SnapshotCollections
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from syrupy.location import PyTestLocation

from multiturn.capture.recording import Recording
from multiturn.capture.server import CaptureServer
from multiturn.engine.converting import read_suite
from multiturn.engine.project import (
    chosen_suites,
    find_defaults,
    from_project,
    load_pipeline,
    project_masks,
)
from multiturn.engine.selection import Selection, select
from multiturn.engine.target import load_target
from multiturn.errors import MultiturnError
from multiturn.files.finding import Texts
from multiturn.files.paths import StrPath, root_of
from multiturn.model.case import Case
from multiturn.model.conversion import Conversion
from multiturn.pipelines.pipeline import Pipeline
from multiturn.snapshots import lists
from multiturn.snapshots.folder import SnapshotFolder
from multiturn.snapshots.locations import digest, folder_of, location_of, name_in_root, suite_of
from multiturn.snapshots.reviewed_case import reviewed_case
from multiturn.snapshots.snapshot_file import plain_text, read_snapshot, snapshot_text
from multiturn.snapshots.text_diff import compare_texts
from multiturn.text import visible

# The snapshots that there should be, by suite; among them None, where an id is not known.
_wanted: dict[str, set[str | None]] = {}
_shown: dict[Hashable, str] = {}  # the case for which each difference was shown
_texts: dict[tuple[str, str, str], str] = {}  # compared so far, by folder, suite and id
_places: dict[str, tuple[SnapshotFolder, str]] = {}  # of snapshot files, by their paths
_LIST = "\n#"  # begins the list of files; no line of a snapshot does


class BrokenCase:
    """Stands for a case that cannot be loaded: a test that uses it fails with the reason."""

    def __init__(self, error: MultiturnError) -> None:
        self.error = error

    def __getattr__(self, name: str) -> Never:
        if name.startswith("__"):  # Python and pytest ask for these, not the test
            raise AttributeError(name)
        raise self.error


def cases(
    *globs: str,
    root: StrPath | None = None,
    guideline_patterns: tuple[str, ...] | None = None,
) -> list[Any]:
    """Return the cases of suites, for ``pytest.mark.parametrize``.

    Each has an id that names its suite and its own id. What cannot be loaded is a case, too: its
    test fails with the message, and the others run.

    Args:
        globs: which suites; ``**`` stands for any number of folders. Relative to the root, where
            one is given, else to the current folder. By default the project's suites.
        root: attached files are read inside it only; by default the project's, else the nearest
            folder above each suite that holds ``.git``, else the suite's own.
        guideline_patterns: used instead of those of the suites.

    Raises:
        MultiturnError: a glob matches no file, a suite is outside its root, there is no such
            root, or a pattern is not one.
        TypeError: there is no glob, and the project has no suites.
    """
    folder = os.path.abspath(root or ".")
    found = [os.path.join(folder, path) for each in globs for path in _matches(each, folder)]
    suites = tuple(dict.fromkeys(map(os.path.realpath, found)))
    with from_project(suites=suites or None, root=root) as project:
        named = chosen_suites(project, 'cases("evals/**/*.eval.yaml")')
        selection = select(named, root=project.root, guideline_patterns=guideline_patterns)
    texts = Texts()
    return [param for path in selection.suites for param in _params(path, selection, texts)]


def convert(case: Case | BrokenCase, pipeline: StrPath | Pipeline | None = None) -> Conversion:
    """Return what a pipeline makes of a case, to be compared with a ``PromptSnapshot``.

    Args:
        case: one of ``cases``.
        pipeline: a name, a file, or a pipeline; by default the project's, else ``spec``.

    Raises:
        pytest.fail.Exception: the case cannot be loaded or converted, or the pipeline not loaded.
    """
    try:
        if isinstance(case, BrokenCase):
            raise case.error
        if not isinstance(pipeline, Pipeline):
            pipeline = load_pipeline(pipeline)
        return pipeline(Conversion(case))
    except MultiturnError as error:
        pytest.fail(visible(str(error)), pytrace=False)


@pytest.fixture
def capture(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recording]:
    """Take the requests of a test in the place of the vendors, as ``multiturn capture`` does.

    SDKs of the test, and programs that it starts, find the server by variables. ``write`` writes
    the requests to a file, and ``changes`` yields how they differ from those of one.
    """
    recording = Recording(project_masks())
    with CaptureServer(recording) as server:
        for name, value in server.environment(os.environ).items():
            monkeypatch.setenv(name, value)
        yield recording


class PromptSnapshot(SingleFileSnapshotExtension):
    """A syrupy extension that stores a Conversion where ``multiturn snapshot`` does.

    The folder is the project's ``snapshots``, else ``snapshots`` in pytest's root; for another,
    derive a class whose ``snapshot_dirname`` says which folder of that root. As the command does,
    it keeps the digests of files in ``files.lock``, or with ``inline_snapshots`` their texts in
    snapshots, and with ``snapshot_target`` what that target is sent. Only snapshots of suites that
    ``cases`` has loaded can be unused, and only where each case of the suite has an id.
    """

    snapshot_dirname = ""
    file_extension = "yaml"
    _write_mode = WriteMode.TEXT

    def serialize(self, data: Any, **_: Any) -> str:
        """Return the text of the snapshot file, and below it what the locks have of the case."""
        if not isinstance(data, Conversion):
            raise TypeError("a PromptSnapshot is compared with what convert(case) returns")
        defaults = find_defaults()[0]
        inline, target = defaults.inline_snapshots, defaults.snapshot_target
        provider = None if target is None else load_target(target, sends=False)
        case = reviewed_case(data, provider)
        digests = {} if inline else {path: (digest(text),) for path, text in case.files.items()}
        text = _with_files(snapshot_text(case, inline=inline), digests)
        text += lists.target_text(provider) if provider else ""
        if _texts.setdefault((self.snapshot_dirname, *case.key), text) != text:
            what = f"two prompts would share the snapshot of the case {case.case.id!r}"
            raise MultiturnError(f"{what}; give one of them a snapshot_dirname of its own")
        return text

    @classmethod
    def get_location(cls, *, test_location: PyTestLocation, index: Any = 0) -> str:
        """Return the path of the snapshot file of the test's case."""
        case = _case(test_location)
        if case is None:
            raise MultiturnError("a PromptSnapshot needs a test that is parametrized with cases()")
        folder = SnapshotFolder(cls.dirname(test_location=test_location))
        name = location_of(suite_of(case), case.id)
        _places[path := folder.path_of(name)] = folder, name
        return path

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        """Return the folder of all snapshots."""
        config, folder = test_location.item.config, str(cls.snapshot_dirname)
        if not folder:  # not from the current folder, which a test may have changed
            found = find_defaults(config.invocation_params.dir)[0].snapshots
            folder = "snapshots" if found is None else os.path.abspath(found)
        return str(config.rootpath / folder)

    discovery_dirname = dirname

    @classmethod
    def matches_test_location(
        cls, *, test_location: PyTestLocation, snapshot_location: str
    ) -> bool:
        """Return whether a snapshot file is that of the test's case."""
        return _case(test_location) is not None and (
            snapshot_location == cls.get_location(test_location=test_location)
        )

    @classmethod
    def write_snapshot_collection(
        cls, *, snapshot_collection: SnapshotCollection, **_: Any
    ) -> None:
        """Write the file, and what the locks have of it, each whole or not at all."""
        (snapshot,) = snapshot_collection
        folder, name = _places[snapshot_collection.location]
        text, of_target, target = str(snapshot.data).partition(lists.TARGET_COMMENT)
        text, begins, files = text.partition(_LIST)
        folder.write(name, text + begins[:1])
        with folder.alone():  # pytest-xdist has several processes
            if files:
                lock = _recorded_files(folder)
                lock |= lists.read_lock(lists.FILES, begins + files, name)
                folder.write(lists.FILES, lists.lock_text(lists.FILES, lock))
            if of_target:
                folder.write(lists.TARGET, of_target + target)

    def read_snapshot_data_from_location(self, *, snapshot_location: str, **_: Any) -> str | None:
        """Return what is recorded, as ``serialize`` does; None if nothing is."""
        folder, name = _places[snapshot_location]
        text, case = folder.read(name), folder.case_of(name)
        if text is None or case is None:
            return text
        recorded = _recorded_files(folder)
        text = _with_files(
            text, {path: recorded.get(path, ()) for path in read_snapshot(text).named}
        )
        has_target = find_defaults()[0].snapshot_target
        return text + (folder.read(lists.TARGET) or "") if has_target else text

    def diff_lines(self, serialized_data: Any, snapshot_data: Any) -> Iterator[str]:
        """Yield the difference; a test that has the same one as an earlier test is skipped."""
        old, new = str(snapshot_data), str(serialized_data)
        changed, _ = compare_texts(_as_compared(old), _as_compared(new))
        place = ", ".join(new.split("\n")[1:3])
        first = _shown.setdefault(changed, place)
        if first != place:
            pytest.skip(f"the same difference as that of {first}")
        yield from super().diff_lines(serialized_data, snapshot_data)

    def discover_snapshots(self, *, test_location: PyTestLocation, **_: Any) -> SnapshotCollections:
        """Return the snapshots of cases that are gone; syrupy cannot tell whose others are."""
        folder = SnapshotFolder(self.dirname(test_location=test_location))
        stale = SnapshotCollections()
        for suite, wanted in _wanted.items():
            for name in () if None in wanted else folder.snapshots(folder_of(suite)):
                case = None if name in wanted else folder.case_of(name)
                if case is not None and case[0] == suite:
                    collection = SnapshotCollection(location=folder.path_of(name))
                    collection.add(Snapshot(name=name))
                    stale.add(collection)
        return stale


def _recorded_files(folder: SnapshotFolder) -> dict[str, tuple[str, ...]]:
    return lists.read_lock(lists.FILES, folder.read(lists.FILES), folder.shown(lists.FILES))


def _as_compared(text: str) -> str:
    """Return what ``serialize`` returns as differences are compared."""
    snapshot, begins, rest = text.partition(_LIST)
    return plain_text(snapshot + begins[:1]) + begins + rest


def _with_files(text: str, digests: lists.Lock) -> str:
    """Return the text of a snapshot, and below it a list of the files that it names."""
    return text + lists.lock_text(lists.FILES, digests) if digests else text


def _case(test_location: PyTestLocation) -> Case | None:
    """Return the case that a test is about, if it is about one."""
    params = getattr(getattr(test_location.item, "callspec", None), "params", {})
    cases = [value for value in params.values() if isinstance(value, Case)]
    if len(cases) > 1:
        raise MultiturnError("a PromptSnapshot needs a test of one case; this one has several")
    return next(iter(cases), None)


def _matches(pattern: str, folder: str) -> list[str]:
    paths = sorted(glob.glob(pattern, root_dir=folder, recursive=True))
    files = [path for path in paths if os.path.isfile(os.path.join(folder, path))]
    if not files:
        what = f"no suite matches {pattern!r} in {folder}; name another root, or its files"
        raise MultiturnError(f"{what}, as **/*.eval.yaml")
    return files


def _params(path: str, selection: Selection, texts: Texts) -> list[Any]:
    suite = name_in_root(path, selection.root or root_of(path))
    params: list[Any] = []
    wanted: set[str | None] = set()
    for outcome in read_suite(selection, path, texts):
        case: Case | BrokenCase | None = outcome.case
        name = case_id = outcome.case_id
        if outcome.error is not None:
            case, case_id = BrokenCase(outcome.error), outcome.error.case_id
            name = name or "error"
        wanted.add(location_of(suite, case_id) if case_id else None)
        params.append(pytest.param(case, id=f"{suite} {name}"))
    _wanted.setdefault(suite, set()).update(wanted)
    return params
