"""What holds of any input: it gives a result, or a MultiturnError with a place.

Each function takes bytes, and raises what is neither. Hypothesis and make fuzz look for such bytes.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from multiturn import MultiturnError, load_pipeline, load_suite, load_target
from multiturn.engine.batch_state import BatchState
from multiturn.engine.defaults import find_defaults
from multiturn.engine.outcomes import outcomes
from multiturn.engine.selection import Selection
from multiturn.providers.results import read_stored
from multiturn.review.lock_files import PROMOTED, lock_text, read_promoted
from multiturn.review.report.comparison import compare
from multiturn.review.report.html import to_html
from multiturn.review.report.markdown import to_markdown
from multiturn.review.report.suites import ReviewedSuites, items
from multiturn.suites.patterns import guideline_matcher

_temporary = TemporaryDirectory()
_folder = Path(_temporary.name)
_pipeline = load_pipeline()
_REFUSED = MultiturnError("nothing is imported here")
_MARKUP = to_html(compare(ReviewedSuites([], BytesIO()))).count(b"<")


def suites(data: bytes) -> None:
    """Load a suite, YAML or JSON Lines by its first byte, and convert its cases."""
    path = _written("s.jsonl" if data[:1] == b"{" else "s.yaml", data)
    errors: list[MultiturnError] = []
    for case in load_suite(path, on_error=errors.append):
        try:
            _pipeline.request(case)
        except MultiturnError as error:
            errors.append(error)
    for each in errors:
        _check_place(each, path)


def pipelines(data: bytes) -> None:
    """Load a pipeline; an import path is refused, because any module that is there could run."""
    path = _written("pipeline.yaml", data)
    with _error_at(path), patch("multiturn.pipelines.registry.import_path", side_effect=_REFUSED):
        load_pipeline(path)


def targets(data: bytes) -> None:
    """Load a target."""
    path = _written("targets.yaml", data)
    with _error_at(path):
        load_target("t", file=str(path))


def patterns(data: bytes) -> None:
    """Match a path, the last line, against the other lines."""
    *lines, path = data.decode("utf-8", "surrogateescape").split("\n")
    try:
        guideline_matcher(tuple(lines))(path)
    except MultiturnError as error:
        if not error.what:
            raise AssertionError("an error without words") from error


def defaults(data: bytes) -> None:
    """Find the defaults of a project: in pyproject.toml, if it begins with a bracket."""
    path = _folder / "project" / ("pyproject.toml" if data[:1] == b"[" else "multiturn.toml")
    (path.parent / ".git").mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    with chdir(path.parent), _error_at(Path(path.name)):
        found, _ = find_defaults()
        for name in (*found.suites, found.root, found.snapshots, found.pipeline):
            os.path.realpath(name or ".")  # what can be a path
    path.unlink()


def states(data: bytes) -> None:
    """Read the state of batches, as --resume does."""
    path = _written("out.jsonl.batch", data)
    with _error_at(path):
        state = BatchState(str(path.with_suffix("")))
        state.waiting()
        for part in state.under_way:
            list(state.asked(part))


def results(data: bytes) -> None:
    """Read a file of results, as --resume does."""
    path = _written("results.jsonl", data)
    with _error_at(path):
        read_stored(str(path))


def locks(data: bytes) -> None:
    """Read a lock of promoted files; what is read is written again, and reads back the same."""
    path = _folder / "promoted.lock"
    with _error_at(path):
        lock = read_promoted(data.decode("utf-8", "replace"), str(path))
        filled = {suite: entries for suite, entries in lock.items() if entries}
        if read_promoted(lock_text(PROMOTED, lock), "again") != filled:
            raise AssertionError("a lock does not read back the same")


def reports(data: bytes) -> None:
    """Compare the suites before and after a NUL; no text of theirs becomes markup."""
    before, _, after = data.partition(b"\0")
    sides = []
    for suite in (before, after):
        path = str(_written("r.yaml", suite))
        selection = Selection((path,), frozenset({path}))
        found = outcomes(selection, _pipeline)
        sides.append(ReviewedSuites(items(found, selection, _pipeline, lambda _: None), BytesIO()))
    report = compare(sides[1], sides[0], "HEAD", _pipeline)
    if to_html(report).count(b"<") != _MARKUP:
        raise AssertionError("text became markup")
    to_markdown(report)


KINDS: dict[str, Callable[[bytes], None]] = {
    function.__name__: function
    for function in (
        *(suites, pipelines, targets, patterns, defaults, states, results, locks, reports),
    )
}


def _written(name: str, data: bytes) -> Path:
    path = _folder / name
    path.write_bytes(data)
    return path


@contextmanager
def _error_at(path: Path) -> Iterator[None]:
    try:
        yield
    except MultiturnError as error:
        _check_place(error, path)


def _check_place(error: MultiturnError, path: Path) -> None:
    if not str(error).startswith(str(path)):
        raise AssertionError(f"an error without a place: {str(error)!r}") from error
