"""Pipelines as YAML: what loads, and what is refused at which place."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from multiturn import Case, MultiturnError, PipelineError, TestMessage, load_pipeline

Write = Callable[[str | bytes], Path]

SIX = [
    "resolve_segments",
    "extract_guidelines",
    "consolidate_system",
    "embed_files",
    "filter_empty",
    "render_question",
]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a pipeline file."""

    def write_file(text: str | bytes) -> Path:
        path = tmp_path / "mine.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write_file


def refused(path: Path | str, error: type[MultiturnError] = PipelineError) -> str:
    """Load what is no pipeline, and return the message without the path of its folder."""
    with pytest.raises(error) as caught:
        load_pipeline(path)
    return str(caught.value).replace(f"{Path(path).parent}/", "")


# --- what loads


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        pytest.param("spec", [(stage, {}) for stage in SIX], id="spec"),
        pytest.param(
            "design",
            [
                ("resolve_segments", {}),
                ("extract_guidelines", {}),
                ("consolidate_system", {"sections": ("prompt", "guidelines", "messages")}),
                ("embed_files", {"system_header": ""}),
                ("filter_empty", {"references_only": "keep"}),
                ("render_question", {}),
            ],
            id="design",
        ),
        pytest.param(
            "shipped",
            [
                ("resolve_segments", {}),
                ("extract_guidelines", {}),
                (
                    "consolidate_system",
                    {
                        "sections": ("prompt", "guidelines", "messages"),
                        "later_system": "assistant",
                        "references": "omit",
                    },
                ),
                ("embed_files", {}),
                ("filter_empty", {"references_only": "drop"}),
                ("render_question", {}),
                ("omit_lone_prompt", {}),
            ],
            id="shipped",
        ),
    ],
)
def test_the_pipelines_that_ship(name: str, steps: list[tuple[str, dict[str, Any]]]) -> None:
    pipeline = load_pipeline(name)
    assert pipeline.name == name
    assert [(step.name, dict(step.options)) for step in pipeline.steps] == steps


def test_spec_is_the_default() -> None:
    assert load_pipeline().name == "spec"


@pytest.mark.parametrize("as_", [pytest.param(str, id="a str"), pytest.param(Path, id="a Path")])
def test_a_path_may_be(write: Write, as_: Callable[[Path], str | Path]) -> None:
    path = write("stages: [resolve_segments, embed_files]")
    pipeline = load_pipeline(as_(path))
    assert [step.name for step in pipeline.steps] == ["resolve_segments", "embed_files"]


def test_a_path_may_be_relative(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write("stages: [resolve_segments, embed_files]").parent)
    assert [step.name for step in load_pipeline("mine.yaml").steps][:1] == ["resolve_segments"]


def test_a_name_that_ships_is_not_looked_for_as_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spec").write_text("stages: [resolve_segments, embed_files]")
    monkeypatch.chdir(tmp_path)
    assert [step.name for step in load_pipeline("spec").steps] == SIX
    assert [step.name for step in load_pipeline("./spec").steps] == [
        "resolve_segments",
        "embed_files",
    ]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        pytest.param("stages:\n  - resolve_segments\n  - embed_files", {}, id="a name"),
        pytest.param(
            "stages:\n  - resolve_segments:\n  - embed_files",
            {},
            id="a name with nothing behind it",
        ),
        pytest.param(
            "stages: [resolve_segments: {}, embed_files]", {}, id="a name without options"
        ),
        pytest.param(
            "stages:\n  - resolve_segments:\n      max_file_bytes: 5\n      missing_file: warn\n"
            "  - embed_files\n",
            {"max_file_bytes": 5, "missing_file": "warn"},
            id="a name with options",
        ),
        pytest.param(
            "stages:\r\n  - resolve_segments:\r\n      max_file_bytes: 5\r\n  - embed_files",
            {"max_file_bytes": 5},
            id="CRLF line ends",
        ),
        pytest.param(
            b"\xef\xbb\xbfstages: [resolve_segments, embed_files]",
            {},
            id="a byte-order mark in front",
        ),
        pytest.param(
            "# Mine.\n---\nstages: [resolve_segments, embed_files]\n...\n", {}, id="one document"
        ),
        pytest.param('"stages": ["resolve_segments", "embed_files"]', {}, id="JSON"),
    ],
)
def test_reads(write: Write, text: str | bytes, options: dict[str, Any]) -> None:
    step, _ = load_pipeline(write(text)).steps
    assert (step.name, dict(step.options)) == ("resolve_segments", options)


def test_an_option_takes_effect(write: Write) -> None:
    stages = [*SIX[:5], "render_question: {marker: '{role} > '}"]
    pipeline = load_pipeline(write("stages:\n" + "".join(f"  - {stage}\n" for stage in stages)))
    case = Case(id="x", input_messages=(TestMessage("user", "Hi"), TestMessage("tool", "4")))
    assert pipeline.request(case).question == "User > Hi\nTool > 4"


# --- mistakes in a file


def test_all_mistakes_are_reported_together(write: Write) -> None:
    message = refused(
        write(
            "title: Mine\n"  # no such key
            "stages:\n"
            "  - extract_guidelines\n"  # before what it needs
            "  - resolve_segments: {missing_fil: warn}\n"  # no such option
            "  - embed_files: {header: 5}\n"  # an option of another type
            "  - render_questions\n"  # no such stage
            "color: red\n"  # no such key
        )
    )
    lines = message.splitlines()
    assert len(lines) == 6
    for line, words in (
        (1, ["unknown key", '"title"']),
        (3, ["extract_guidelines (1)", "resolve_segments (2)", "move it after"]),
        (4, ['unknown option "missing_fil"', 'did you mean "missing_file"?']),
        (5, ['option "header"', "embed_files"]),
        (6, ['unknown stage "render_questions"', 'did you mean "render_question"?']),
        (7, ["unknown key", '"color"']),
    ):
        (found,) = (text for text in lines if text.startswith(f"mine.yaml:{line}:"))
        assert re.match(r"mine\.yaml:\d+:\d+: ", found)
        assert all(word in found for word in words), found


def test_the_error_holds_each_mistake(write: Write) -> None:
    path = write("stages:\n  - extract_guidelines\n  - embed_file\n")
    with pytest.raises(PipelineError) as caught:
        load_pipeline(path)
    assert [str(error).count("mine.yaml:") for error in caught.value.errors] == [1, 1]


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        pytest.param(
            "stages:\n  - embed_file",
            "mine.yaml:2:5: ",
            'unknown stage "embed_file"; did you mean "embed_files"?',
            id="an unknown stage, and a near one",
        ),
        pytest.param(
            "stages:\n  - resolve_segments\n  - sing",
            "mine.yaml:3:5: ",
            'unknown stage "sing"; choose from: consolidate_system, embed_files',
            id="an unknown stage, and all that there are",
        ),
        pytest.param(
            "stages: [resolve_segments, Embed_Files]",
            "mine.yaml:1:28: ",
            'unknown stage "Embed_Files"',
            id="a stage in another case",
        ),
        pytest.param(
            "stages:\n  - resolve_segments: {unknown_typ: warn}",
            "mine.yaml:2:",
            'unknown option "unknown_typ" of resolve_segments; did you mean "unknown_type"?',
            id="an unknown option",
        ),
        pytest.param(
            "stages:\n  - resolve_segments: {unknown_type: maybe}",
            "mine.yaml:2:",
            'option "unknown_type" of resolve_segments',
            id="a word that an option does not know",
        ),
        pytest.param(
            "stages:\n  - resolve_segments: {max_file_bytes: '5'}",
            "mine.yaml:2:",
            'option "max_file_bytes" of resolve_segments',
            id="an option of another type",
        ),
        pytest.param(
            "stages:\n  - resolve_segments\n  - embed_files\n  - extract_guidelines",
            "mine.yaml:4:5: ",
            "extract_guidelines (3) requires files, but embed_files (2) has already",
            id="a wrong order",
        ),
        pytest.param(
            "stages: [resolve_segments]\nstage: []\n",
            "mine.yaml:2:",
            'unknown key "stage"; did you mean "stages"?',
            id="an unknown key",
        ),
        pytest.param(
            "stages: [resolve_segments]\nextra:\n  - embed_files\n",
            "mine.yaml:2:",
            'unknown key "extra"',
            id="an unknown key, its value below it",
        ),
        pytest.param("stage: [x]", "mine.yaml:1:1: ", '"stages" or "extends"', id="no stages"),
        pytest.param("stages: []", "mine.yaml:1:9: ", '"stages"', id="an empty list of stages"),
        pytest.param("stages:", "mine.yaml:1:", '"stages"', id="stages of nothing"),
        pytest.param("stages: embed_files", "mine.yaml:1:9: ", '"stages"', id="stages as text"),
        pytest.param(
            "stages:\n  embed_files: {}", "mine.yaml:2:3: ", '"stages"', id="stages as a mapping"
        ),
        pytest.param(
            "stages:\n  - [resolve_segments]",
            "mine.yaml:2:5: ",
            "a stage is its name",
            id="a stage as a list",
        ),
        pytest.param("stages: [5]", "mine.yaml:1:10: ", "a stage is its name", id="a number"),
        pytest.param("stages: [~]", "mine.yaml:1:10: ", "a stage is its name", id="null"),
        pytest.param("stages: [{}]", "mine.yaml:1:10: ", "a stage is its name", id="no name"),
        pytest.param(
            "stages:\n  - resolve_segments: {}\n    embed_files: {}",
            "mine.yaml:2:5: ",
            "a stage is its name",
            id="two names in one mapping",
        ),
        pytest.param(
            "stages:\n  - resolve_segments: [missing_file]",
            "mine.yaml:2:23: ",
            "options must be a mapping",
            id="options as a list",
        ),
        pytest.param(
            "stages:\n  - resolve_segments: warn",
            "mine.yaml:2:23: ",
            "options must be a mapping",
            id="options as text",
        ),
        pytest.param("", "mine.yaml", "a pipeline is one mapping", id="an empty file"),
        pytest.param("# Mine.\n", "mine.yaml", "a pipeline is one mapping", id="a comment only"),
        pytest.param("- embed_files", "mine.yaml", "a pipeline is one mapping", id="a list"),
        pytest.param("embed_files", "mine.yaml", "a pipeline is one mapping", id="a text"),
        pytest.param(
            "stages: [resolve_segments]\n---\nstages: [resolve_segments]\n",
            "mine.yaml",
            "a pipeline is one mapping",
            id="several documents",
        ),
    ],
)
def test_refuses(write: Write, text: str, place: str, words: str) -> None:
    found = [line for line in refused(write(text)).splitlines() if words in line]
    assert found
    assert found[0].startswith(place)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        pytest.param("stages: !!seq [embed_files", "mine.yaml:", "not YAML", id="no YAML"),
        pytest.param(
            "stages:\n  - !stage embed_files", "mine.yaml:2:5: ", "'!stage'", id="a tag on a name"
        ),
        pytest.param(
            "stages:\n  - !!python/name:os.system x",
            "mine.yaml:2:5: ",
            "python/name:os.system",
            id="a tag that names Python",
        ),
        pytest.param(
            "stages:\n  - !!python/object/apply:os.system [ls]",
            "mine.yaml:2:5: ",
            "python/object/apply:os.system",
            id="a tag that calls Python",
        ),
        pytest.param(
            "!pipeline\nstages: [embed_files]", "mine.yaml:1:1: ", "'!pipeline'", id="a tag on top"
        ),
        pytest.param(
            "stages: [resolve_segments]\nstages: [embed_files]\n",
            "mine.yaml:2:1: ",
            "'stages' stands twice",
            id="a key that stands twice",
        ),
        pytest.param(
            "stages:\n  - resolve_segments:\n      missing_file: warn\n      missing_file: error\n",
            "mine.yaml:4:7: ",
            "'missing_file' stands twice",
            id="an option that stands twice",
        ),
        pytest.param(
            "stages: [*none]", "mine.yaml:1:10: ", "*none", id="an alias without an anchor"
        ),
    ],
)
def test_refuses_what_is_not_plain_yaml(write: Write, text: str, place: str, words: str) -> None:
    message = refused(write(text), MultiturnError)
    assert message.startswith(place)
    assert words in message


# --- files that cannot be read


def test_refuses_a_file_that_is_missing(tmp_path: Path) -> None:
    assert "missing.yaml" in refused(tmp_path / "missing.yaml", MultiturnError)


def test_suggests_a_name_near_the_one_that_is_missing() -> None:
    assert 'did you mean "shipped"?' in refused("shiped", MultiturnError)


def test_names_the_pipelines_there_are() -> None:
    message = refused("nothing-like-it", MultiturnError)
    assert all(name in message for name in ("nothing-like-it", "spec", "design", "shipped"))


def test_refuses_a_file_that_is_not_utf_8(write: Write) -> None:
    message = refused(write("stages: [Müll]".encode("latin-1")), MultiturnError)
    assert message.startswith("mine.yaml")
    assert "UTF-8" in message


def test_refuses_a_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").mkdir()
    message = refused(tmp_path / "mine.yaml", MultiturnError)
    assert message.startswith("mine.yaml: ")


# --- a name is all there is


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("os.path", id="a module below a module"),
        pytest.param("os", id="a module"),
        pytest.param("planted", id="a module beside the pipeline"),
        pytest.param("planted.stage", id="an attribute of it"),
        pytest.param("./planted.py", id="its file"),
        pytest.param("multiturn_stages.planted", id="what looks like a stage of ours"),
        pytest.param("..planted", id="a relative import"),
        pytest.param("multiturn_stages.embed_files", id="a stage with its package"),
        pytest.param("__init__", id="the package itself"),
        pytest.param("", id="no name"),
    ],
)
@pytest.mark.parametrize(
    "entry",
    [
        pytest.param('stages: ["{}"]', id="in a list"),
        pytest.param('stages:\n  - "{}": {{header: x}}', id="with options"),
        pytest.param("stages:\n  - '{}'", id="on its own line"),
    ],
)
def test_nothing_is_imported(
    write: Write, monkeypatch: pytest.MonkeyPatch, entry: str, name: str
) -> None:
    path = write(entry.format(name))
    planted = path.parent / "planted.py"
    planted.write_text("raise SystemExit('the planted module was imported')")
    monkeypatch.syspath_prepend(path.parent)
    monkeypatch.chdir(path.parent)
    load_pipeline("shipped")  # so that the stages that ship are imported by now
    before = set(sys.modules)
    assert f'unknown stage "{name}"' in refused(path)
    assert set(sys.modules) == before


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("stages: [os:system]", id="a list in one line"),
        pytest.param("stages:\n  - os.path", id="a list of lines"),
        pytest.param("stages: [os: system]", id="what YAML reads as a mapping"),
        pytest.param("stages: [os: {system: ls}]", id="a name with options"),
        pytest.param("import: os\nstages: [resolve_segments]", id="a key of its own"),
    ],
)
def test_python_is_refused(write: Write, text: str) -> None:
    load_pipeline("shipped")
    before = set(sys.modules)
    assert refused(write(text)).startswith("mine.yaml:")
    assert set(sys.modules) == before
