"""Every error a user can meet: tables of what is written, and the exact words that come back.

A folder below ``errors`` is a kind: its files are tables, from the title of an error to an entry:

    text: the file that is wrong; its name stands in KINDS, unless the entry has ``name``
    encoding: of the text; UTF-8 unless told
    files: further files, by their paths
    bytes: further files, as texts whose characters are bytes
    command: run in place of what the kind does, as ``multiturn ...``
    options: keyword arguments for what the kind does
    errors: the messages, a line each; of a command, its standard error. ROOT stands for the root,
        STAGES for the names of the stages that ship
    each: in place of text and errors, the message of each of some texts

A new kind is a function below, named in KINDS.
"""

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from structlog.testing import capture_logs

import commands
from multiturn import MultiturnError, load_pipeline, load_suite, load_target
from multiturn.documents.yaml_reader import read_documents
from multiturn.engine.project import find_defaults
from multiturn.pipelines.registry import stage_names
from multiturn.providers.prices import price_of
from multiturn.providers.results import StoredResults
from multiturn.suites.guideline_patterns import guideline_matcher

SPEC = load_pipeline("spec")
STAGES = ", ".join(stage_names())


def convert(name: str, **options: Any) -> list[str]:
    """Return the errors of a suite, then of its cases as they become requests."""
    errors: list[MultiturnError] = []
    for case in load_suite(name, on_error=errors.append, **options):
        try:
            SPEC.request(case)
        except MultiturnError as error:
            errors.append(error)
    return [str(error) for error in errors]


def warn(name: str) -> list[str]:
    """Return the warnings of a suite."""
    with capture_logs() as logs:
        list(load_suite(name, on_error=lambda _: None))
    return [f"{log['where']}: warning: {log['why']}" for log in logs]


def show(name: str) -> list[str]:
    done = commands.run("stages", name, folder=Path.cwd())
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr.removeprefix("Error: ").splitlines()


def raised(load: Callable[..., object]) -> Callable[..., list[str]]:
    """Return a function that gives the lines of what another one raises."""

    def lines(*arguments: Any, **options: Any) -> list[str]:
        with pytest.raises(MultiturnError) as caught:
            load(*arguments, **options)
        return str(caught.value).splitlines()

    return lines


class Kind(NamedTuple):
    """What is done with the entries of a folder, and the name of the file that is wrong."""

    run: Callable[..., list[str]]
    name: str


KINDS = {
    "defaults": Kind(raised(lambda _: find_defaults()), "multiturn.toml"),
    "files": Kind(convert, "x.eval.yaml"),
    "json_lines": Kind(convert, "x.jsonl"),
    "patterns": Kind(raised(lambda name: guideline_matcher((Path(name).read_text(),))), "x.txt"),
    "pipelines": Kind(show, "mine.yaml"),
    "prices": Kind(raised(lambda name: price_of("m", name)), "prices.yaml"),
    "results": Kind(raised(StoredResults), "results.jsonl"),
    "suites": Kind(convert, "x.eval.yaml"),
    "targets": Kind(
        raised(lambda name, target="az": load_target(target, file=name)), "targets.yaml"
    ),
    "warnings": Kind(warn, "x.eval.yaml"),
    "yaml": Kind(
        raised(lambda name: list(read_documents(Path(name).read_bytes(), name))), "x.yaml"
    ),
}
TABLES = Path(__file__).parent / "errors"


def entries() -> Iterator[Any]:
    """Yield each entry, or each text of one, with the kind that it is of."""
    for path in sorted(TABLES.glob("*/*.yaml")):
        for document in read_documents(path.read_bytes(), str(path)):
            for title, entry in document.value.items():
                name = f"{path.parent.name}/{path.stem}: {title}"
                for text, error in entry.get("each", {}).items():
                    each = {**entry, "text": text, "errors": f"{error}\n"}
                    yield pytest.param(path.parent.name, each, id=f"{name} {text!a}")
                if "each" not in entry:
                    yield pytest.param(path.parent.name, entry, id=name)


@pytest.mark.parametrize(("kind", "entry"), [*entries()])
def test_error(kind: str, entry: dict[str, Any], root: Path) -> None:
    run, usual_name = KINDS[kind]
    name = entry.get("name", usual_name)
    files = {path: text.encode() for path, text in entry.get("files", {}).items()}
    files |= {path: text.encode("latin-1") for path, text in entry.get("bytes", {}).items()}
    if "text" in entry:
        files[name] = entry["text"].encode(entry.get("encoding", "utf-8"))
    for path, data in files.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(data)
    if "command" in entry:
        done = commands.run(*shlex.split(entry["command"])[1:], folder=root)
        assert done.returncode in (1, 2)
        errors = done.stderr
    else:
        errors = "".join(f"{error}\n" for error in run(name, **entry.get("options", {})))
    assert errors.replace(str(root), "ROOT").replace(STAGES, "STAGES") == entry["errors"]


def test_every_folder_of_tables_is_a_kind() -> None:
    assert {path.name for path in TABLES.iterdir()} == KINDS.keys()
