"""Coverage-guided fuzzing: ``python tests/fuzz.py TARGET [options of libFuzzer]``.

The outcome of anything is a result or a MultiturnError with a place. Whatever else is raised, takes
over five seconds or over 500 MB ends the run, and leaves its input beside the corpus.
"""

import logging
import sys
import tempfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import atheris
import structlog

with atheris.instrument_imports(include=["multiturn", "multiturn_stages", "yaml"]):
    from multiturn import MultiturnError, load_pipeline, load_suite, load_target
    from multiturn.engine.outcomes import outcomes
    from multiturn.engine.selection import Selection
    from multiturn.pipelines.pipeline_file import _PipelineFile
    from multiturn.providers.results import read_stored
    from multiturn.review.lists import PROMOTED, lock_text, read_promoted
    from multiturn.review.report.comparison import compare
    from multiturn.review.report.html import to_html
    from multiturn.review.report.markdown import to_markdown
    from multiturn.review.report.side import Side, items
    from multiturn.suites.patterns import guideline_matcher

ROOT = Path(__file__).parent.parent
CORPUS = ROOT / ".fuzz"
LIMITS = ("-timeout=5", "-rss_limit_mb=500", "-max_len=4096")
PATTERNS = ("**/*.instructions.md", "!vendor/**", "[!a-c]?{x,y{z,}}*.md", "../a/./b", "a\\b")
TARGETS = (
    "targets: [{name: t, provider: echo}, {name: u, provider: azure, api_key: ${{ NO_NAME }}}]"
)

RESULT = (
    b'{"suite": "a.yaml", "id": "a", "target": "t", "digest": "d", "output": "x", "error": null}\n'
)

_folder = Path(tempfile.mkdtemp())
_pipeline = load_pipeline()
_MARKUP = to_html(compare(Side([], BytesIO()))).count(b"<")


def suites(data: bytes) -> None:
    """Load a suite, YAML or JSON Lines by its first byte, and convert its cases."""
    path = _folder / ("s.jsonl" if data[:1] == b"{" else "s.yaml")
    path.write_bytes(data)
    errors: list[MultiturnError] = []
    for case in load_suite(path, on_error=errors.append):
        try:
            _pipeline.request(case)
        except MultiturnError as error:
            errors.append(error)
    for each in errors:
        _check_place(str(each.where), path)


def pipelines(data: bytes) -> None:
    """Read a pipeline, as text: a file could import any module that is there."""
    path = _folder / "pipeline.yaml"
    try:
        _PipelineFile(str(path), None, ()).read(data)
    except MultiturnError as error:
        _check_place(str(error), path)


def targets(data: bytes) -> None:
    """Load a target."""
    path = _folder / "targets.yaml"
    path.write_bytes(data)
    try:
        load_target("t", file=str(path))
    except MultiturnError as error:
        _check_place(str(error.where), path)


def patterns(data: bytes) -> None:
    """Match a path, the last line, against the other lines."""
    *lines, path = data.decode("utf-8", "surrogateescape").split("\n")
    try:
        guideline_matcher(tuple(lines))(path)
    except MultiturnError as error:
        if not error.what:
            raise AssertionError("an error without words") from error


def results(data: bytes) -> None:
    """Read a file of results, as --resume does."""
    path = _folder / "results.jsonl"
    path.write_bytes(data)
    try:
        read_stored(str(path))
    except MultiturnError as error:
        _check_place(str(error.where), path)


def locks(data: bytes) -> None:
    """Read a lock of promoted files; what is read is written again, and reads back the same."""
    path = _folder / "promoted.lock"
    try:
        lock = read_promoted(data.decode("utf-8", "replace"), str(path))
    except MultiturnError as error:
        _check_place(str(error.where), path)
        return
    filled = {suite: entries for suite, entries in lock.items() if entries}
    if read_promoted(lock_text(PROMOTED, lock), "again") != filled:
        raise AssertionError("a lock does not read back the same")


def reports(data: bytes) -> None:
    """Compare the suites before and after a NUL; no text of theirs becomes markup."""
    before, _, after = data.partition(b"\0")
    path = _folder / "r.yaml"
    selection = Selection((str(path),), frozenset({str(path)}))
    sides = []
    for suite in (before, after):
        path.write_bytes(suite)
        found = outcomes(selection, _pipeline)
        cases = items(found, selection, _pipeline, lambda _: None)
        sides.append(Side(cases, BytesIO()))
    report = compare(sides[1], sides[0], "HEAD")
    if to_html(report).count(b"<") != _MARKUP:
        raise AssertionError("text became markup")
    to_markdown(report)


FUZZED: dict[str, Callable[[bytes], None]] = {
    function.__name__: function
    for function in (suites, pipelines, targets, patterns, results, locks, reports)
}


def seeds(name: str) -> list[bytes]:
    """Return what a target's corpus begins with."""
    if name == "patterns":
        return [f"{pattern}\na/b.instructions.md".encode() for pattern in PATTERNS]
    if name == "pipelines":
        shipped = (ROOT / "pipeline/multiturn/pipelines").glob("*.yaml")
        return [path.read_bytes() for path in (*shipped, ROOT / "examples/terse.yaml")]
    if name == "targets":
        return [(ROOT / "examples/targets.yaml").read_bytes(), TARGETS.encode()]
    if name == "results":
        return [RESULT, RESULT * 2, RESULT[:-9]]
    if name == "locks":
        return [path.read_bytes() for path in ROOT.glob("snapshots/**/promoted.lock")]
    found = [*ROOT.glob("tests/scenarios/*.yaml"), *ROOT.glob("examples/**/*.yaml")]
    if name == "reports":
        suites = [path.read_bytes() for path in sorted(ROOT.glob("examples/*.yaml"))]
        return [before + b"\0" + after for before in suites for after in suites]
    json_lines = b'{"id": "a", "input_messages": [{"role": "user", "content": ["x"]}]}\n'
    return [json_lines, *(path.read_bytes() for path in sorted(found))]


def main() -> None:
    """Fuzz what the first argument names; libFuzzer takes the others."""
    if len(sys.argv) < 2 or sys.argv[1] not in FUZZED:
        sys.exit(f"usage: fuzz.py {'|'.join(FUZZED)} [-max_total_time=SECONDS] [-runs=N]")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    name = sys.argv[1]
    corpus = CORPUS / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(name)):
        (corpus / f"seed-{number}").write_bytes(seed)
    options = [f"-artifact_prefix={CORPUS}/{name}-", *LIMITS, *sys.argv[2:], str(corpus)]
    atheris.Setup([sys.argv[0], *options], FUZZED[name])
    atheris.Fuzz()


def _check_place(where: str, path: Path) -> None:
    if not where.startswith(str(path)):
        raise AssertionError(f"an error without a place: {where!r}")


if __name__ == "__main__":
    main()
