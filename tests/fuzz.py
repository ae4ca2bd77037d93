"""Coverage-guided fuzzing: whatever is read gives a result, or a MultiturnError.

``make fuzz`` runs each target for a bounded time. Anything else that is raised, a hang of ten
seconds and more memory than 512 MB end a run, and leave the input in a file named ``crash-...``.
"""

import logging
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris
import structlog

with atheris.instrument_imports(include=["multiturn", "multiturn_stages"]):
    from multiturn import Conversion, MultiturnError, load_pipeline, load_suite, load_target
    from multiturn.assembly import request_of
    from multiturn.declaration import parse_pipeline
    from multiturn.patterns import guideline_matcher
    from multiturn.rendering import record_of, to_json, to_yaml

ROOT = Path(__file__).parent.parent
SPEC = load_pipeline("spec")
FOLDER = Path(tempfile.mkdtemp(prefix="multiturn-fuzz-"))
(FOLDER / ".git").mkdir()


def has_place(error: MultiturnError, name: str = "") -> None:
    """Make sure that an error says where."""
    assert name in str(error) if name else error.where, error


def suites(data: bytes, ending: str = "yaml") -> None:
    """Load a suite, convert each case, and render it."""
    path = FOLDER / f"suite.{ending}"
    path.write_bytes(data)
    mistakes: list[MultiturnError] = []
    for case in load_suite(path, on_error=mistakes.append):
        try:
            record = record_of(case.suite, request_of(SPEC(Conversion(case))))
        except MultiturnError as error:
            has_place(error)
            continue
        to_json(record)
        to_yaml(record)
    for mistake in mistakes:
        has_place(mistake)


def json_lines(data: bytes) -> None:
    """The same for a suite in JSON Lines."""
    suites(data, "jsonl")


def pipelines(data: bytes) -> None:
    """Declare a pipeline."""
    try:
        parse_pipeline(data, "p.yaml").to_yaml()
    except MultiturnError as error:
        has_place(error, "p.yaml")


def targets(data: bytes) -> None:
    """Look for a target, and build its provider."""
    path = FOLDER / "targets.yaml"
    path.write_bytes(data)
    try:
        repr(load_target("t", file=str(path)))
    except MultiturnError as error:
        has_place(error)


def patterns(data: bytes) -> None:
    """Match a path against patterns."""
    provider = atheris.FuzzedDataProvider(data)
    given = tuple(provider.ConsumeUnicode(30) for _ in range(provider.ConsumeIntInRange(1, 3)))
    path = provider.ConsumeUnicode(200)
    try:
        matches = guideline_matcher(given)
    except MultiturnError:
        return
    matches(path, path)


TARGETS: dict[str, Callable[[bytes], None]] = {
    function.__name__: function for function in (suites, json_lines, pipelines, targets, patterns)
}
LINE = b'{"id": "a", "input_messages": [{"role": "user", "content": ["Hi", {"type": "file"}]}]}'
SEEDS = {
    "suites": [*(ROOT / "examples").rglob("*.eval.yaml"), *(ROOT / "tests/scenarios").iterdir()],
    "pipelines": [*(ROOT / "pipeline/multiturn/pipelines").iterdir(), ROOT / "examples/terse.yaml"],
    "targets": [ROOT / "examples/targets.yaml"],
}


def main() -> None:
    """Fuzz the target that is named first; the other arguments are libFuzzer's."""
    name = sys.argv.pop(1)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    corpus = FOLDER / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(SEEDS.get(name, [])):
        text = seed.read_bytes().replace(b"name: claude", b"name: t")
        (corpus / str(number)).write_bytes(text)
    (corpus / "case").write_bytes(LINE)
    os.environ["AZURE_OPENAI_API_KEY"] = "key-123456"
    atheris.Setup([*sys.argv, str(corpus)], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
