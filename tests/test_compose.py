"""Pipelines derived from others, in YAML and in Python."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiturn import (
    Case,
    Conversion,
    MultiturnError,
    Pipeline,
    PipelineError,
    Step,
    TestMessage,
    load_pipeline,
)
from multiturn.pipelines.loading import parse_pipeline
from multiturn.pipelines.registry import find_stage
from multiturn_stages.embed_files import embed_files
from multiturn_stages.guard_markers import guard_markers

MODULE = '''
from multiturn import Conversion, stage

@stage(requires={"files"}, consumes={"files"}, provides={"text"})
def xml_files(conversion: Conversion, *, tag: str = "file") -> Conversion:
    """Embed files as elements."""
    return conversion

@stage(requires={"turns"})
def redact(conversion: Conversion) -> Conversion:
    """Redact."""
    return conversion

def undeclared(conversion: Conversion) -> Conversion:
    return conversion
'''

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write files beside each other; the module among them is named house_of_tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def write(text: str, name: str = "mine.yaml") -> Path:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
        return Path(name)

    write(MODULE, "house_of_tests.py")
    yield write
    for name in [name for name in sys.modules if "_of_tests" in name]:
        del sys.modules[name]


def names(pipeline: Pipeline) -> list[str]:
    return [step.name for step in pipeline.steps]


def refused(path: Path) -> list[str]:
    with pytest.raises(PipelineError) as caught:
        load_pipeline(path)
    return str(caught.value).splitlines()


def test_a_pipeline_extends_another_and_edits_it(write: Write) -> None:
    pipeline = load_pipeline(
        write(
            "extends: spec\n"
            "replace:\n"
            "  embed_files: house_of_tests:xml_files\n"
            "configure:\n"
            '  render_question: {marker: "{role}> "}\n'
            "  xml_files: {tag: doc}\n"
            "insert:\n"
            "  - {stage: house_of_tests:redact, after: resolve_segments}\n"
            "  - {stage: {guard_markers: {mode: error}}, after: render_question}\n"
            "remove: [filter_empty]\n"
        )
    )
    assert names(pipeline) == [
        "resolve_segments",
        "redact",
        "extract_guidelines",
        "consolidate_system",
        "xml_files",
        "render_question",
        "guard_markers",
    ]
    assert [dict(step.options) for step in pipeline.steps[4:]] == [
        {"tag": "doc"},
        {"marker": "{role}> "},
        {"mode": "error"},
    ]


def test_configuring_keeps_the_options_that_are_not_named(write: Write) -> None:
    pipeline = load_pipeline(
        write("extends: shipped\nconfigure: {consolidate_system: {references: keep}}")
    )
    assert pipeline.steps[2].options == {
        "sections": ("prompt", "guidelines", "messages"),
        "later_system": "assistant",
        "references": "keep",
    }


def test_a_file_extends_a_file_beside_it(write: Write) -> None:
    write("extends: spec\nremove: [filter_empty]", "base/terse.yaml")
    path = write("extends: ../base/terse.yaml\nremove: [consolidate_system]", "mine/more.yaml")
    assert names(load_pipeline(path)) == [
        *("resolve_segments", "extract_guidelines", "embed_files", "render_question")
    ]


def test_all_mistakes_are_reported_together_each_with_its_place(write: Write) -> None:
    lines = refused(
        write(
            "extends: spec\n"
            "replace:\n"
            "  embed_file: embed_files\n"
            "  embed_files: os:system\n"
            "configure:\n"
            "  render_question: {markr: x}\n"
            "  extract_guidelines:\n"
            '    marker: "<{paht}>"\n'
            "insert:\n"
            "  - {stage: house_of_tests:undeclared, after: resolve_segments}\n"
            "  - {stage: house_of_tests:absent, before: render_question}\n"
            "  - {stage: absent_of_tests:x, before: render_question}\n"
            "  - {stage: guard_markers}\n"
            "remove: [filter_emtpy]\n"
            "removed: []\n"
        )
    )
    expected = {
        "mine.yaml:3:15: ": 'no stage "embed_file" in this pipeline; did you mean "embed_files"?',
        "mine.yaml:4:16: ": "'os:system' is not a stage",
        "mine.yaml:6:28: ": 'unknown option "markr" of render_question; did you mean "marker"?',
        "mine.yaml:8:13: ": 'there is no placeholder "{paht}"; did you mean "{path}"?',
        "mine.yaml:10:13: ": "'house_of_tests:undeclared' is not a stage",
        "mine.yaml:11:13: ": "'house_of_tests:absent' is not a stage",
        "mine.yaml:12:13: ": "cannot import 'absent_of_tests:x': ModuleNotFoundError",
        "mine.yaml:13:5: ": 'either "after" or "before"',
        "mine.yaml:14:10: ": 'no stage "filter_emtpy"',
        "mine.yaml:15:1: ": 'unknown key "removed"; did you mean "remove"?',
    }
    assert len(lines) == len(expected)
    for place, words in expected.items():
        (line,) = (line for line in lines if line.startswith(place))
        assert words in line


def test_a_contract_that_an_edit_breaks_is_placed_at_the_edit(write: Write) -> None:
    lines = refused(
        write("extends: spec\ninsert:\n- stage: guard_markers\n  after: resolve_segments\n")
    )
    assert lines == [
        "mine.yaml:3:10: guard_markers (2) requires chat, but consolidate_system (4) provides it"
        " later; move it after consolidate_system",
        "mine.yaml:3:10: guard_markers (2) requires question, but render_question (7) provides it"
        " later; move it after render_question",
        "a legal order: resolve_segments, extract_guidelines, consolidate_system, embed_files,"
        " filter_empty, render_question, guard_markers",
    ]


@pytest.mark.parametrize(
    ("files", "circle"),
    [
        pytest.param({"mine": "mine"}, "mine.yaml -> mine.yaml", id="itself"),
        pytest.param(
            {"mine": "b", "b": "mine"}, "mine.yaml -> b.yaml -> mine.yaml", id="one another"
        ),
        pytest.param(
            {"mine": "b", "b": "c", "c": "b"}, "mine.yaml -> b.yaml -> c.yaml -> b.yaml", id="three"
        ),
    ],
)
def test_a_circle_is_an_error(write: Write, files: dict[str, str], circle: str) -> None:
    for name, base in files.items():
        write(f"extends: {base}.yaml", f"{name}.yaml")
    (line,) = refused(Path("mine.yaml"))
    assert line.startswith("mine.yaml:1:10: ")
    assert f"in a circle: {circle}" in line


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("extends: spec\nstages: [x]", 'either "stages" or "extends"', id="both"),
        pytest.param("remove: [x]", '"remove" edits a pipeline', id="an edit of nothing"),
        pytest.param("extends: 7", "a pipeline's name", id="a number"),
        pytest.param('extends: "a\\0"', "a pipeline's name", id="a NUL"),
        pytest.param("extends: spce", 'did you mean "spec"?', id="no such pipeline"),
        pytest.param("evalcases: []", "this is a suite, and no pipeline; multi", id="a suite"),
        pytest.param("extends: spec\nreplace: []", '"replace" must be a mapping', id="a list"),
        pytest.param("extends: spec\ninsert: {}", '"insert" must be a list', id="a mapping"),
        pytest.param("extends: spec\ninsert: 5", '"insert" must be a list', id="a number of them"),
        pytest.param("extends: spec\ninsert: [x]", "must be a mapping", id="no mapping in it"),
        pytest.param("extends: spec\ninsert: [{after: x}]", 'has no "stage"', id="no stage"),
        pytest.param(
            "extends: spec\ninsert: [{stage: guard_markers, after: 1}]",
            'mine.yaml:2:10: "after" is the name of a stage, as text',
            id="after a number",
        ),
        pytest.param(
            "extends: spec\ninsert: [{stage: guard_markers, before: [a]}]",
            'mine.yaml:2:10: "before" is the name of a stage, as text',
            id="before a list",
        ),
        pytest.param(
            "extends: spec\nremove: [[embed_files]]",
            "mine.yaml:2:10: what is removed is the name of a stage, as text",
            id="a list removed",
        ),
        pytest.param("extends: spec\nconfigure: {embed_files: 1}", "must be a mapping", id="one"),
    ],
)
def test_a_wrong_shape_is_said_in_words(write: Write, text: str, words: str) -> None:
    assert any(words in line and line.startswith("mine.yaml:") for line in refused(write(text)))


@pytest.mark.parametrize("path", ["os:system", "json:loads", "pathlib:Path", "sys:path", "os:a.b"])
def test_an_import_path_names_a_stage_or_is_refused(write: Write, path: str) -> None:
    (line, *_) = refused(write(f'stages: ["{path}"]'))
    assert "Traceback" not in line
    assert "stage" in line or "import path" in line


@pytest.mark.parametrize("crash", ["1 / 0", "raise SystemExit(3)", "def ("])
def test_a_module_that_fails_is_one_line(write: Write, crash: str) -> None:
    write(crash, "crash_of_tests.py")
    (line,) = refused(write("stages: [crash_of_tests:x]"))
    assert line.startswith("mine.yaml:1:10: cannot import 'crash_of_tests:x': ")


def test_a_pipeline_is_meant_by_its_name_from_a_file_in_a_folder(write: Write) -> None:
    assert refused(write("extends: sepc", "pipelines/mine.yaml")) == [
        "pipelines/mine.yaml:1:10: no pipeline 'pipelines/sepc'; did you mean \"spec\"?"
    ]


@pytest.mark.parametrize("stage", ["house_of_tests:redact", "{house_of_tests:redact: {x: 1}}"])
def test_an_inserted_stage_takes_its_options_where_it_is_inserted(write: Write, stage: str) -> None:
    lines = refused(
        write(
            "extends: spec\n"
            'configure: {redact: {mark: "*"}}\n'
            f"insert: [{{stage: {stage}, after: resolve_segments}}]\n"
        )
    )
    assert lines[0] == (
        'mine.yaml:2:21: "redact" is inserted; write its options there: stage:'
        ' {house_of_tests:redact: {"mark": "*"}}'
    )


def test_a_stage_that_is_there_and_inserted_once_more_is_configured(write: Write) -> None:
    more = "insert: [{stage: embed_files, before: embed_files}]"
    lines = refused(write(f"extends: spec\nconfigure: {{embed_files: {{header: x}}}}\n{more}"))
    assert not any("is inserted; write" in line for line in lines)


def test_a_decorator_without_parentheses_is_said_at_the_line_of_yaml(write: Write) -> None:
    write("from multiturn import stage\n@stage\ndef x(c): return c\n", "bare_of_tests.py")
    assert refused(write("stages:\n- bare_of_tests:x")) == [
        "mine.yaml:2:3: cannot import 'bare_of_tests:x': TypeError: write @stage(), with"
        " parentheses"
    ]


@pytest.mark.parametrize("name", ["absent_of_tests", "absent_of_tests.inner"])
def test_a_module_that_is_missing_is_said_with_where_it_was_looked_for(
    write: Write, name: str
) -> None:
    place, what = "lib/mine.yaml:1:10", "ModuleNotFoundError: No module named 'absent_of_tests'"
    assert refused(write(f"stages: ['{name}:x']", "lib/mine.yaml")) == [
        f"{place}: cannot import '{name}:x': {what}; looked in lib/ and where Python looks"
    ]
    assert "; looked in ./ and" in refused(write(f"stages: ['{name}:x']"))[0]


def test_a_bare_name_of_a_function_is_said_with_its_import_path(write: Write) -> None:
    (line,) = refused(write("extends: spec\ninsert: [{stage: redact, after: resolve_segments}]"))
    assert line.startswith('mine.yaml:2:18: unknown stage "redact"; choose from: ')
    assert line.endswith(
        "; a function of your own is named by its import path, as in my_module:redact"
    )
    (line,) = refused(write("stages: [house_of_tests.redact]"))
    assert line.endswith(
        "; a function of your own is named by its import path, as in house_of_tests:redact"
    )


def test_a_module_that_another_one_wants_is_not_said_to_be_looked_for(write: Write) -> None:
    write("import missing_of_tests", "wanting_of_tests.py")
    (line,) = refused(write("stages: [wanting_of_tests:x]"))
    assert line.endswith("ModuleNotFoundError: No module named 'missing_of_tests'")


def test_a_stage_that_raises_is_named_with_its_file_and_line(write: Write) -> None:
    write(
        "import json\n"
        "from multiturn import stage\n"
        "def parse(text):\n"
        "    return json.loads(text)\n"
        "@stage()\n"
        "def boom(conversion):\n"
        "    parse('{')\n",
        "lib/boom_of_tests.py",
    )
    pipeline = load_pipeline(write("stages: [boom_of_tests:boom]", "lib/mine.yaml"))
    with pytest.raises(MultiturnError) as caught:
        pipeline.request(Case(id="a", input_messages=(), suite="x.yaml", line=3))
    assert str(caught.value).startswith(
        "x.yaml:3: case 'a': the stage boom failed at lib/boom_of_tests.py:4: JSONDecodeError: "
    )


def test_nothing_is_imported_for_text_or_for_a_suite(write: Write) -> None:
    with pytest.raises(PipelineError, match="only read from a pipeline file"):
        parse_pipeline("stages: [house_of_tests:redact]", "text")
    write("stages: [house_of_tests:redact]")
    with pytest.raises(PipelineError, match="only a file can extend a file"):
        parse_pipeline("extends: mine.yaml", "text")
    assert "house_of_tests" not in sys.modules
    with pytest.raises(PipelineError):
        load_pipeline(write("pipeline: house_of_tests:redact", "a.eval.yaml"))
    assert "house_of_tests" not in sys.modules


def test_edits_in_python_return_new_pipelines() -> None:
    spec = load_pipeline("spec")
    before = names(spec)

    def plain(conversion: Conversion) -> Conversion:
        return conversion

    derived = (
        spec.insert(guard_markers, after="render_question")
        .configure("guard_markers", mode="escape")
        .replace("filter_empty", plain)
        .remove("extract_guidelines")
        .configure("render_question", marker="{role}> ")
    )
    assert names(derived) == [
        "resolve_segments",
        "consolidate_system",
        "embed_files",
        "plain",
        "render_question",
        "guard_markers",
    ]
    assert names(spec) == before
    case = Case(id="x", input_messages=(TestMessage("user", "[User]: a"), TestMessage("user", "b")))
    assert derived(Conversion(case)).question == "User> \\[User]: a\nUser> b"


def test_edits_that_cannot_be_say_so() -> None:
    spec = load_pipeline("spec")
    with pytest.raises(PipelineError, match='did you mean "embed_files"'):
        spec.remove("embed_file")
    with pytest.raises(
        PipelineError, match="add embed_files, or put a stage of your own in"
    ) as caught:
        spec.remove("embed_files")
    assert caught.value.advice == ""
    with pytest.raises(PipelineError, match='either "after" or "before"'):
        spec.insert(guard_markers)
    with pytest.raises(PipelineError, match='unknown option "heder"'):
        spec.configure("embed_files", heder="x")
    twice = Pipeline([*spec.steps[:3], *spec.steps[:4], *spec.steps[4:]])
    with pytest.raises(PipelineError, match='"extract_guidelines" stands in this pipeline twice'):
        twice.remove("extract_guidelines")


@pytest.mark.parametrize("name", ["spec", "design", "shipped"])
def test_what_ships_is_written_and_read_back(name: str) -> None:
    pipeline = load_pipeline(name)
    assert parse_pipeline(pipeline.to_yaml(), "x").steps == pipeline.steps


def test_import_paths_are_written_and_read_back(write: Write) -> None:
    pipeline = load_pipeline(
        write("extends: spec\nreplace: {embed_files: {house_of_tests:xml_files: {tag: a}}}")
    )
    again = load_pipeline(write(pipeline.to_yaml(), "again.yaml"))
    assert again.steps == pipeline.steps


HEADERS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="{"))


@given(header=HEADERS | st.just("{path}{"), system=st.none() | st.text("a:# "))
def test_any_option_is_written_and_read_back(header: str, system: str | None) -> None:
    pipeline = load_pipeline("spec").replace(
        "embed_files", Step(embed_files, {"header": header, "system_header": system})
    )
    assert parse_pipeline(pipeline.to_yaml(), "x").steps == pipeline.steps


def test_a_stage_that_has_no_name_cannot_be_written() -> None:
    def local(conversion: Conversion) -> Conversion:
        return conversion

    with pytest.raises(PipelineError, match="cannot be named in a file"):
        load_pipeline("spec").insert(local, after="resolve_segments").to_yaml()


def test_installed_packages_offer_stages_by_name(write: Write, tmp_path: Path) -> None:
    write("Metadata-Version: 2.1\nName: house\nVersion: 1\n", "house-1.dist-info/METADATA")
    write(
        "[multiturn.stages]\nhouse_redact = house_of_tests:redact\n"
        "broken = house_of_tests:undeclared\n",
        "house-1.dist-info/entry_points.txt",
    )
    sys.path.append(str(tmp_path))
    pipeline = load_pipeline(write("stages: [resolve_segments, house_redact, embed_files]"))
    assert names(pipeline) == ["resolve_segments", "redact", "embed_files"]
    assert "'broken' is not a stage" in refused(write("stages: [broken]"))[0]
    assert 'did you mean "house_redact"?' in refused(write("stages: [house_redac]"))[0]


def test_what_ships_needs_no_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise AssertionError("entry points were looked up")

    monkeypatch.setattr("importlib.metadata.entry_points", refuse)
    assert find_stage("embed_files") is embed_files
    load_pipeline("shipped")
