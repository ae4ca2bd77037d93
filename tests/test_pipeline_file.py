"""Pipelines as YAML: what loads, edits of other pipelines, and modules; errors are tables."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from multiturn import PipelineError, load_pipeline
from multiturn.pipelines.pipeline_file import pipeline_names
from multiturn_stages.embed_files import embed_files

MODULE = '''
from multiturn import Conversion, stage

@stage(requires={"files"}, consumes={"files"}, provides={"text"})
def xml_files(conversion: Conversion, *, tag: str = "file") -> Conversion:
    """Embed files as elements."""
    return conversion

@stage(requires={"turns"})
def redact(conversion: Conversion, *, mark: str = "<email>") -> Conversion:
    """Redact."""
    return conversion
'''
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write files into the current folder; in it is a module of stages, house_of_tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def write(text: str | bytes, name: str = "mine.yaml") -> Path:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return Path(name)

    write(MODULE, "house_of_tests.py")
    yield write
    for name in [name for name in sys.modules if "_of_tests" in name]:
        del sys.modules[name]


def steps(source: str | Path) -> dict[str, dict[str, Any]]:
    """Return the options of each stage of a pipeline, by its name, in the order of the stages."""
    return {step.name: dict(step.options) for step in load_pipeline(source).steps}


def refused(path: Path) -> str:
    with pytest.raises(PipelineError) as caught:
        load_pipeline(path)
    return str(caught.value)


# What loads


def test_a_source_is_a_name_or_a_path(write: Write) -> None:
    path = write("stages: [resolve_segments, embed_files]", "spec")
    assert load_pipeline().name == "spec"
    assert len(steps("spec")) == 6, "a name that ships is not looked for as a file"
    for source in ("./spec", path.absolute()):
        assert [*steps(source)] == ["resolve_segments", "embed_files"]
    with pytest.raises(TypeError, match="load_pipeline takes a name or a path, not 5"):
        load_pipeline(5)  # type: ignore[arg-type]


def test_an_entry_is_the_name_of_a_stage_with_its_options_if_any(write: Write) -> None:
    path = write("stages: [resolve_segments: {max_file_bytes: 5}, embed_files: , render_question]")
    assert steps(path) == {
        "resolve_segments": {"max_file_bytes": 5},
        "embed_files": {},
        "render_question": {},
    }


# Edits


def test_a_pipeline_extends_another_and_edits_it(write: Write) -> None:
    path = write(
        "extends: spec\n"
        "replace:\n"
        "  embed_files: house_of_tests:xml_files\n"
        "configure:\n"
        '  render_question: {marker: "{role}> "}\n'
        "  xml_files: {tag: doc}\n"
        "  redact: {mark: '*'}\n"
        "insert:\n"
        "  - {stage: house_of_tests:redact, after: resolve_segments}\n"
        "  - {stage: {guard_markers: {mode: error}}, after: render_question}\n"
        "remove: [filter_empty]\n"
    )
    assert list(steps(path).items()) == [
        ("resolve_segments", {}),
        ("redact", {"mark": "*"}),
        ("extract_guidelines", {}),
        ("consolidate_system", {}),
        ("xml_files", {"tag": "doc"}),
        ("render_question", {"marker": "{role}> "}),
        ("guard_markers", {"mode": "error"}),
    ]


def test_configuring_keeps_the_options_that_are_not_named(write: Write) -> None:
    path = write("extends: shipped\nconfigure: {consolidate_system: {references: keep}}")
    assert steps(path)["consolidate_system"] == {
        "sections": ("prompt", "guidelines", "messages"),
        "later_system": "assistant",
        "references": "keep",
    }


def test_a_file_extends_a_file_beside_it(write: Write) -> None:
    write("extends: spec\nremove: [filter_empty]", "base/terse.yaml")
    path = write("extends: ../base/terse.yaml\nremove: [consolidate_system]", "mine/more.yaml")
    expected = ["resolve_segments", "extract_guidelines", "embed_files", "render_question"]
    assert [*steps(path)] == expected


def test_each_stage_and_option_has_the_place_where_a_file_of_ones_own_names_it(
    write: Write,
) -> None:
    write("extends: spec\nconfigure:\n  embed_files: {header: '#'}", "base.yaml")
    path = write("extends: base.yaml\nreplace:\n  filter_empty: house_of_tests:redact")
    places = {key: str(place) for key, place in load_pipeline(path).places.items()}
    assert places["redact", ""] == "mine.yaml:3"
    assert places["embed_files", "header"] == "base.yaml:3"
    assert places["render_question", ""] == "base.yaml:1"


def test_only_so_many_files_extend_each_other(write: Write) -> None:
    for number in range(400):
        write(f"extends: p{number + 1}.yaml", f"p{number}.yaml")
    write("extends: spec", "p400.yaml")
    assert steps("p381.yaml") == steps("spec")
    what = (
        "p20.yaml:1:10: over 20 pipelines that extend each other; end the circle, if they form one"
    )
    assert refused(Path("p0.yaml")) == what


def test_an_error_holds_each_detail_with_its_place(write: Write) -> None:
    path = write("stages:\n  - extract_guidelines\n  - embed_file\n")
    with pytest.raises(PipelineError) as caught:
        load_pipeline(path)
    assert [(each.where.file, each.where.line) for each in caught.value.errors] == [
        ("mine.yaml", 3),
        ("mine.yaml", 2),
    ]


# Modules


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("planted", id="a module beside the pipeline"),
        pytest.param("./planted.py", id="its file"),
        pytest.param("multiturn_stages.planted", id="what looks like a stage that ships"),
    ],
)
def test_nothing_is_imported(write: Write, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    path = write(f'stages: [{{"{name}": {{header: x}}}}]')
    write("raise SystemExit('the planted module was imported')", "planted.py")
    monkeypatch.syspath_prepend(".")
    load_pipeline("shipped")  # so that the stages that ship are imported by now
    before = set(sys.modules)
    assert f'unknown stage "{name}"' in refused(path)
    assert set(sys.modules) == before


def test_installed_packages_offer_stages_by_name(write: Write, tmp_path: Path) -> None:
    write("Metadata-Version: 2.1\nName: house\nVersion: 1\n", "house-1.dist-info/METADATA")
    write(
        "[multiturn.stages]\nhouse_redact = house_of_tests:redact\n"
        "broken = house_of_tests:MODULE\nplain = os:getcwd\n",
        "house-1.dist-info/entry_points.txt",
    )
    sys.path.append(str(tmp_path))
    path = write("stages: [resolve_segments, house_redact, embed_files]")
    assert [*steps(path)] == ["resolve_segments", "redact", "embed_files"]
    assert "cannot import 'broken': AttributeError" in refused(write("stages: [broken]"))
    assert "'plain' is not a stage" in refused(write("stages: [plain]"))
    assert 'did you mean "house_redact"?' in refused(write("stages: [house_redac]"))


def test_what_ships_needs_no_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", None)
    assert load_pipeline("spec").steps[3].stage is embed_files


# Writing


@pytest.mark.parametrize("name", [*pipeline_names(), "mine.yaml"])
def test_a_pipeline_is_written_and_read_back(write: Write, name: str) -> None:
    write("extends: spec\nreplace: {embed_files: {house_of_tests:xml_files: {tag: a}}}")
    pipeline = load_pipeline(name)
    again = load_pipeline(write(pipeline.to_yaml(), "again.yaml"))
    assert again.steps == pipeline.steps
    assert "multiturn_stages" not in pipeline.to_yaml(), "what ships has a name"


HEADERS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="{"))


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(header=HEADERS | st.just("{path}{"), system=st.none() | st.text("a:# "))
def test_any_option_is_written_and_read_back(write: Write, header: str, system: str | None) -> None:
    options = {"header": header, "system_header": system}
    pipeline = load_pipeline("spec").configure("embed_files", **options)
    assert load_pipeline(write(pipeline.to_yaml())).steps == pipeline.steps
