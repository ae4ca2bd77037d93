"""Coverage-guided fuzzing: ``python tests/fuzz.py TARGET [options of libFuzzer]``.

The outcome of anything is a result or a MultiturnError with a place. Whatever else is raised, takes
over five seconds or over 500 MB ends the run, and leaves its input beside the corpus.
"""

import logging
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris
import structlog

with atheris.instrument_imports(include=["multiturn", "multiturn_stages", "yaml"]):
    from multiturn import MultiturnError, load_pipeline, load_suite, load_target
    from multiturn.pipelines.pipeline_file import parse_pipeline
    from multiturn.suites.patterns import guideline_matcher

ROOT = Path(__file__).parent.parent
CORPUS = ROOT / ".fuzz"
LIMITS = ("-timeout=5", "-rss_limit_mb=500", "-max_len=4096")
PATTERNS = ("**/*.instructions.md", "!vendor/**", "[!a-c]?{x,y{z,}}*.md", "../a/./b", "a\\b")
TARGETS = (
    "targets: [{name: t, provider: echo}, {name: u, provider: azure, api_key: ${{ NO_NAME }}}]"
)

_folder = Path(tempfile.mkdtemp())
_pipeline = load_pipeline()


def suites(data: bytes) -> None:
    """Load a suite, YAML or JSON Lines by its first byte, and convert its cases."""
    path = _folder / ("s.jsonl" if data[:1] == b"{" else "s.yaml")
    path.write_bytes(data)
    mistakes: list[MultiturnError] = []
    for case in load_suite(path, on_error=mistakes.append):
        try:
            _pipeline.request(case)
        except MultiturnError as error:
            mistakes.append(error)
    for mistake in mistakes:
        _check_place(str(mistake.where), path)


def pipelines(data: bytes) -> None:
    """Read a pipeline, as text: a file could import any module that is there."""
    path = _folder / "pipeline.yaml"
    try:
        parse_pipeline(data, str(path))
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


FUZZED: dict[str, Callable[[bytes], None]] = {
    function.__name__: function for function in (suites, pipelines, targets, patterns)
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
    found = [*ROOT.glob("tests/scenarios/*.yaml"), *ROOT.glob("examples/**/*.yaml")]
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
