"""The schemas say of a document what the loaders say."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from structlog.testing import capture_logs

from commands import run
from multiturn import MultiturnError, load_pipeline, load_suite, load_target
from multiturn.cli.json_schema import SCHEMAS
from multiturn.documents.yaml_events import read_documents
from multiturn.providers.targets import ALIASES, KINDS, target_names

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
DOCS = ROOT / "docs"
DRAWN = {kind: schema() for kind, schema in SCHEMAS.items()}  # before tests install stages
VALIDATORS = {kind: Draft202012Validator(schema) for kind, schema in DRAWN.items()}

CASE = "evalcases:\n- id: a\n  input_messages:\n  - "
CONTENT = f"{CASE}role: user\n    content: "
TARGET = "- name: t\n  provider: "
AZURE = f"{TARGET}azure\n  endpoint: https://x\n  api_key: abcdef\n  model: m\n"


def refusals(kind: str, text: str) -> list[tuple[str, str]]:
    """Return the places of a document that its schema refuses, and why."""
    (document,) = read_documents(text, kind)
    errors = VALIDATORS[kind].iter_errors(document.value)
    return [(error.json_path, error.message) for error in errors]


def trouble(kind: str, text: str, folder: Path) -> str:
    """Return what the loader refuses a document for, or warns of; empty if it takes it."""
    path = folder / "document.yaml"
    path.write_text(text)
    with capture_logs() as logs:
        try:
            if kind == "suite":
                pipeline = load_pipeline("spec")
                for case in load_suite(path):
                    pipeline.request(case)
            elif kind == "pipeline":
                load_pipeline(path)
            else:
                for name in target_names(str(path))[1:]:
                    load_target(name, file=str(path))
        except MultiturnError as error:
            return str(error)
    return " ".join(log["event"] for log in logs)


# --- what there is


def files() -> Iterator[Any]:
    suites = [*EXAMPLES.glob("*.eval.yaml"), EXAMPLES / "greeting.yaml"]
    shipped = (ROOT / "pipeline/multiturn/pipelines").glob("*.yaml")
    for kind, paths in (
        ("suite", suites),
        ("pipeline", [EXAMPLES / "terse.yaml", *shipped]),
        ("targets", [EXAMPLES / "targets.yaml"]),
    ):
        for path in paths:
            yield pytest.param(kind, path.read_text(encoding="utf-8"), id=path.name)
    for path in (ROOT / "tests/scenarios").glob("*.yaml"):
        (scenario,) = read_documents(path.read_text(encoding="utf-8"), path.name)
        yield pytest.param("suite", json.dumps(scenario.value["input"]), id=path.stem)


@pytest.mark.parametrize(("kind", "text"), list(files()))
def test_every_example_and_every_scenario_is_valid(kind: str, text: str) -> None:
    assert refusals(kind, text) == []


def test_the_mistakes_in_the_docs_are_underlined() -> None:
    blocks = {
        name: re.search(rf"^# {name}\n(.*?)^```", (DOCS / page).read_text(), re.M | re.S)[1]  # type: ignore[index]
        for page, name in (("suites.md", "broken.eval.yaml"), ("pipelines.md", "late.yaml"))
    }
    assert [path for path, _ in refusals("suite", blocks["broken.eval.yaml"])] == [
        "$.evalcases[1].input_messages[0].content"
    ]
    ((path, what),) = refusals("pipeline", blocks["late.yaml"])
    assert path == "$.stages[1].embed_files"
    assert "heder" in what


@pytest.mark.parametrize("kind", ["suite", "pipeline", "targets"])
def test_a_schema_is_printed_as_json_in_its_dialect(kind: str, tmp_path: Path) -> None:
    done = run("schema", kind, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    schema = json.loads(done.stdout)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert "multiturn" in schema["title"]
    assert done.stdout.startswith('{\n  "$schema"')


# --- descriptions


def keys(schema: dict[str, Any], part: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield every key that an editor may offer, and what is said of it."""
    if isinstance(part, list):
        for item in part:
            yield from keys(schema, item, place)
    if not isinstance(part, dict):
        return
    closed = part.get("additionalProperties") is False
    for word, value in part.items():
        if word != "properties":
            yield from keys(schema, value, f"{place}/{word}")
            continue
        for key, details in value.items():
            if closed:
                definition = schema["$defs"].get(details.get("$ref", "").rpartition("/")[2], {})
                yield f"{place}/{key}", {**definition, **details}.get("description", "")
            yield from keys(schema, details, f"{place}/{key}")


@pytest.mark.parametrize("kind", ["suite", "pipeline", "targets"])
def test_every_key_has_a_description(kind: str) -> None:
    schema = DRAWN[kind]
    said = dict(keys(schema, schema))
    assert len(said) > 20
    assert [key for key, text in said.items() if not text.strip()] == []


@pytest.mark.parametrize(
    ("kind", "definition", "key", "text"),
    [
        pytest.param("suite", "case", "id", "unique in the file, taken as written.", id="a case"),
        pytest.param(
            "pipeline",
            "options_of_filter_empty",
            "references_only",
            "what to do with a turn that holds nothing but guidelines' markers;"
            " `drop_unless_alone` keeps such turns where the conversation has no other (rule 8).",
            id="an option of a stage, over two lines",
        ),
        pytest.param("targets", "azure", "endpoint", "`https://NAME.openai.azure.com`.", id="own"),
        pytest.param(
            "targets", "codex", "timeout_seconds", "how long one case may take.", id="overridden"
        ),
        pytest.param(
            "targets",
            "azure",
            "timeout_seconds",
            "how long one attempt may take.",
            id="inherited",
        ),
    ],
)
def test_a_description_is_that_of_the_docstring(
    kind: str, definition: str, key: str, text: str
) -> None:
    assert DRAWN[kind]["$defs"][definition]["properties"][key]["description"] == text


HOUSE = """\
from datetime import date
from typing import Annotated

from msgspec import Meta, Struct

from multiturn import Conversion, stage


class Level(Struct):
    number: Annotated[int, Meta(ge=1)]


class Strange:
    pass


@stage(requires={"turns"})
def soften(
    conversion: Conversion,
    *,
    level: Level = Level(1),
    since: date = date(2026, 1, 31),
    strange: Strange = Strange(),
    bare=float("inf"),
) -> Conversion:
    \"\"\"Soften.

    Args:
        level: how far to go.
    \"\"\"
    return conversion
"""


def test_the_stage_of_an_installed_package_is_there_with_its_options(tmp_path: Path) -> None:
    (tmp_path / "house_of_schema.py").write_text(HOUSE)
    info = tmp_path / "house-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: house\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[multiturn.stages]\nsoft = house_of_schema:soften\n")
    done = run("schema", "pipeline", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    schema = json.loads(done.stdout)
    validator = Draft202012Validator(schema)

    def takes(options: Any) -> bool:
        return validator.is_valid({"stages": [{"soft": options}]})

    assert takes({"level": {"number": 1}, "since": "2026-01-31", "strange": 1, "bare": [1]})
    assert not takes({"level": {"number": 0}})
    assert not takes({"levle": {"number": 1}})
    properties = schema["$defs"]["options_of_soft"]["properties"]
    assert properties["level"]["description"] == "how far to go."
    assert properties["since"]["default"] == "2026-01-31"

    (tmp_path / "house_of_schema.py").write_text("import no_such_module")
    done = run("schema", "pipeline", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "Error: cannot import 'soft': ModuleNotFoundError: No module named 'no_such_module'\n"
    )


def test_a_default_is_the_one_that_counts() -> None:
    kinds = DRAWN["targets"]["$defs"]
    assert kinds["vscode-insiders"]["properties"]["executable"]["default"] == "code-insiders"
    assert kinds["vscode"]["properties"]["executable"]["default"] == "code"
    assert kinds["anthropic"]["properties"]["timeout_seconds"]["default"] == 600
    assert kinds["codex"]["properties"]["timeout_seconds"]["default"] == 1800
    header = DRAWN["pipeline"]["$defs"]["options_of_embed_files"]["properties"]["header"]
    assert header["default"] == "=== {path} ==="


# --- what the loaders take


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        pytest.param("suite", "input_messages: [{role: user, content: Hi}]", id="a bare case"),
        pytest.param(
            "suite",
            "evalcases: ~\nid: ~\ninput_messages: [{role: user, content: Hi}]",
            id="a bare case without what it may leave out",
        ),
        pytest.param(
            "suite",
            "guidelines: [x]\noutcome: [x]\ninput_messages: [{role: tool, content: x}]",
            id="keys of suites and cases in a bare case",
        ),
        pytest.param("suite", "evalcases: []", id="no cases"),
        pytest.param(
            "suite",
            "$schema: agentv-eval-v2\nname: x\nversion: 1.0\ndescription: ~\ntarget: {a: [1]}\n"
            "evaluators: [{name: x}]\nmetadata: ~\nguidelines: ~\nevalcases: []",
            id="all that AgentV has at the top",
        ),
        pytest.param(
            "suite",
            "metadata: {any: [{thing: 1}], systemPrompt: Hi, system_prompt: ~}\n"
            "execution: {temperature: 0, max_output_tokens: ~, target: [1], evaluators: 1}\n"
            "evalcases: []",
            id="free metadata, and all of execution",
        ),
        pytest.param("suite", "execution: [x]\nevalcases: []", id="execution as a list"),
        pytest.param("suite", CONTENT.replace("id: a", "id: 010") + "Hi", id="a number as id"),
        pytest.param("suite", CONTENT.replace("id: a", "id: true") + "Hi", id="a boolean as id"),
        pytest.param("suite", CONTENT + "''", id="empty content"),
        pytest.param("suite", CONTENT + "[]", id="no content"),
        pytest.param("suite", CONTENT + "[Hi, {type: text, value: x}, {a: 1}]", id="segments"),
        pytest.param("suite", CONTENT + "[{type: text, value: x, lang: py}]", id="more in them"),
        pytest.param("suite", CONTENT + "{type: text, value: x}", id="one segment"),
        pytest.param("suite", CONTENT + "{value: 5, other: [1]}", id="structured content"),
        pytest.param("pipeline", "stages: [resolve_segments, embed_files]", id="a stage by name"),
        pytest.param("pipeline", "stages: [resolve_segments: , embed_files]", id="without options"),
        pytest.param(
            "pipeline", "stages: [{resolve_segments: {}}, embed_files]", id="with no option"
        ),
        pytest.param(
            "pipeline",
            "stages: [{resolve_segments: {missing_file: warn, max_file_bytes: 5}},"
            " {'multiturn_stages.embed_files:embed_files': {header: x}}]",
            id="an import path with options",
        ),
        pytest.param("pipeline", "extends: spec", id="nothing different"),
        pytest.param(
            "pipeline",
            "extends: spec\nconfigure: {embed_files: {header: '#', system_header: ~}}\n"
            "insert: [{stage: {guard_markers: {mode: escape}}, after: render_question}]\n"
            "remove: [filter_empty]",
            id="every edit but replace",
        ),
        pytest.param(
            "pipeline",
            "extends: spec\nreplace: {embed_files: {embed_files: {header: x}}}",
            id="replace",
        ),
        pytest.param(
            "pipeline",
            "extends: spec\nreplace: {embed_files: 'mine_of_schema:embed_files'}\n"
            "configure: {embed_files: {depth: 2}}",
            id="a stage of one's own by a name that ships",
        ),
        pytest.param("targets", "[]", id="no targets"),
        pytest.param("targets", "$schema: agentv-targets-v2.2\ntargets: []\nmore: 1", id="more"),
        pytest.param("targets", AZURE, id="azure"),
        pytest.param("targets", AZURE.replace("azure\n", "azure-openai\n"), id="an alias"),
        pytest.param("targets", AZURE + "  version: 2024\n  system_role: developer", id="version"),
        pytest.param("targets", AZURE + "  system_role: ${{ ROLE }}", id="a word by variable"),
        pytest.param("targets", AZURE + "  temperature: '0.5'\n  max_retries: 3", id="numbers"),
        pytest.param(
            "targets",
            AZURE + "  timeout_seconds: '0.5'\n  max_retries: '0'\n  max_output_tokens: '1e3'",
            id="numbers within bounds",
        ),
        pytest.param("targets", AZURE + "  timeout_seconds: inf", id="for ever"),
        pytest.param("targets", AZURE + "  temperature: '-1.5'", id="a number without bounds"),
        pytest.param("targets", AZURE + "  temperature: ~", id="null"),
        pytest.param("targets", AZURE + "  max_retries: ${{ FIVE }}", id="a number by variable"),
        pytest.param("targets", AZURE + "  max_retries: 1${{ FIVE }}", id="partly by variable"),
        pytest.param(
            "targets",
            f"{TARGET}anthropic\n  api_key: abcdef\n  model: m\n  prefill: ${{{{ YES }}}}",
            id="a boolean by variable",
        ),
        pytest.param(
            "targets",
            f"{TARGET}anthropic\n  api_key: abcdef\n  model: m\n  prefill: false",
            id="a boolean",
        ),
        pytest.param(
            "targets",
            f"{TARGET}codex-cli\n  args: [--x, 5, true]\n  env: {{A: 1, B: '${{{{ FIVE }}}}'}}\n"
            "  cwd: ~",
            id="an agent",
        ),
        pytest.param("targets", f"{TARGET}${{{{ KIND }}}}\n  args: []", id="provider by variable"),
        pytest.param("targets", "[{name: 007, provider: vscode-insiders}]", id="a number as name"),
    ],
)
def test_what_a_loader_takes_is_valid(
    kind: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"ROLE": "system", "FIVE": "5", "YES": "true", "KIND": "codex"}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "mine_of_schema.py").write_text(
        "from multiturn import Conversion, stage\n"
        "@stage(requires={'files'}, consumes={'files'}, provides={'text'})\n"
        "def embed_files(conversion: Conversion, *, depth: int = 1) -> Conversion:\n"
        "    return conversion\n"
    )
    assert trouble(kind, text, tmp_path) == ""
    assert refusals(kind, text) == []


# --- what they refuse, or warn of


@pytest.mark.parametrize(
    ("kind", "text", "path", "word"),
    [
        pytest.param("suite", "[]", "$", "object", id="a list"),
        pytest.param("suite", "{}", "$", "evalcases", id="neither suite nor case"),
        pytest.param("suite", "evalcases: {a: 1}", "$.evalcases", "array", id="cases by name"),
        pytest.param("suite", "evalcases: ~", "$.evalcases", "array", id="null for cases"),
        pytest.param(
            "suite",
            "evalcases: []\ninput_messages: [{role: user, content: Hi}]",
            "$.evalcases",
            "null",
            id="a suite and a case",
        ),
        pytest.param("suite", "evalcases: []\nguidelnes: []", "$", "guidelnes", id="top typo"),
        pytest.param("suite", "evalcases: []\noutcome: x", "$", "outcome", id="a case's key"),
        pytest.param("suite", "evalcases: []\nguidelines: x", "$.guidelines", "array", id="text"),
        pytest.param(
            "suite", "evalcases: []\nguidelines: [5]", "$.guidelines[0]", "string", id="a number"
        ),
        pytest.param(
            "suite",
            "evalcases: []\nguideline_patterns: {a: b}",
            "$.guideline_patterns",
            "array",
            id="patterns",
        ),
        pytest.param("suite", "evalcases: []\nmetadata: [x]", "$.metadata", "object", id="a list."),
        pytest.param(
            "suite",
            "evalcases: []\nmetadata: {systemPrompt: 5}",
            "$.metadata.systemPrompt",
            "string",
            id="a prompt that is no text",
        ),
        pytest.param(
            "suite",
            "evalcases: []\nmetadata: {systemPrompt: a, system_prompt: b}",
            "$.metadata.system_prompt",
            "null",
            id="two prompts",
        ),
        pytest.param(
            "suite",
            "evalcases: []\nexecution: {temperature: hot}",
            "$.execution.temperature",
            "number",
            id="a hot temperature",
        ),
        pytest.param(
            "suite",
            "evalcases: []\nexecution: {max_output_tokens: 1.5}",
            "$.execution.max_output_tokens",
            "integer",
            id="half a token",
        ),
        pytest.param(
            "suite",
            "evalcases: []\nexecution: {temprature: 0}",
            "$.execution",
            "temprature",
            id="a typo in execution",
        ),
        pytest.param(
            "suite",
            CONTENT.replace("id: a", "id: a\n  execution: {temprature: 0}") + "Hi",
            "$.evalcases[0].execution",
            "temprature",
            id="a typo in a case's execution",
        ),
        pytest.param(
            "suite",
            "evalcases: []\nexecution: {max_output_tokens: 0}",
            "$.execution.max_output_tokens",
            "minimum",
            id="no token",
        ),
        pytest.param("suite", "evalcases: [x]", "$.evalcases[0]", "object", id="a case of text"),
        pytest.param(
            "suite", CONTENT.replace("id: a", "id: ~") + "Hi", "$.evalcases[0].id", "", id="no id"
        ),
        pytest.param(
            "suite",
            CONTENT.replace("id: a", "id: ' '") + "Hi",
            "$.evalcases[0].id",
            "",
            id="a blank id",
        ),
        pytest.param(
            "suite",
            CONTENT.replace("id: a", "id: [a]") + "Hi",
            "$.evalcases[0].id",
            "",
            id="a list of ids",
        ),
        pytest.param(
            "suite",
            CONTENT.replace("id: a", "outcome: a") + "Hi",
            "$.evalcases[0]",
            "id",
            id="a case without id",
        ),
        pytest.param(
            "suite",
            CONTENT.replace("id: a", "id: a\n  outcom: x") + "Hi",
            "$.evalcases[0]",
            "outcom",
            id="a typo in a case",
        ),
        pytest.param(
            "suite", "evalcases: [{id: a}]", "$.evalcases[0]", "input_messages", id="no messages"
        ),
        pytest.param(
            "suite",
            "evalcases: [{id: a, input_messages: []}]",
            "$.evalcases[0].input_messages",
            "",
            id="zero messages",
        ),
        pytest.param("suite", "input_messages: x", "$.input_messages", "array", id="a bare text"),
        pytest.param(
            "suite", CASE + "Hi", "$.evalcases[0].input_messages[0]", "object", id="text."
        ),
        pytest.param(
            "suite", CASE + "role: user", "$.evalcases[0].input_messages[0]", "content", id="mute"
        ),
        pytest.param(
            "suite",
            CASE + "{role: usr, content: Hi}",
            "$.evalcases[0].input_messages[0].role",
            "usr",
            id="a role that is none",
        ),
        pytest.param(
            "suite",
            CASE + "{role: user, content: Hi, contents: Ho}",
            "$.evalcases[0].input_messages[0]",
            "contents",
            id="a typo in a message",
        ),
        pytest.param(
            "suite",
            CONTENT + "true",
            "$.evalcases[0].input_messages[0].content",
            "string",
            id="a boolean is no content",
        ),
        pytest.param(
            "suite",
            CONTENT + "[5]",
            "$.evalcases[0].input_messages[0].content[0]",
            "string",
            id="a number is no segment",
        ),
        pytest.param(
            "suite",
            CONTENT + "[Hi, {type: flie, value: x}]",
            "$.evalcases[0].input_messages[0].content[1].type",
            "flie",
            id="a typo in a type",
        ),
        pytest.param(
            "suite",
            CONTENT + "{type: flie, value: x}",
            "$.evalcases[0].input_messages[0].content.type",
            "flie",
            id="a typo in the type of one segment",
        ),
        pytest.param(
            "suite",
            CONTENT + "[{type: file, vlaue: x}]",
            "$.evalcases[0].input_messages[0].content[0]",
            "value",
            id="a segment without value",
        ),
        pytest.param(
            "suite",
            CONTENT + "[{type: text, value: 5}]",
            "$.evalcases[0].input_messages[0].content[0].value",
            "string",
            id="a number as value",
        ),
        pytest.param("pipeline", "[]", "$", "object", id="a list of stages"),
        pytest.param("pipeline", "{}", "$", "stages", id="no stages"),
        pytest.param("pipeline", "stages: []", "$.stages", "", id="an empty list of stages"),
        pytest.param("pipeline", "extends: spec\nstages: [a]", "$", "['a']", id="both"),
        pytest.param("pipeline", "extends: [spec]", "$.extends", "spec", id="extends a list"),
        pytest.param("pipeline", "extends: spec\nremov: [a]", "$", "remov", id="a wrong edit"),
        pytest.param("pipeline", "extends: spec\nremove: []", "$.remove", "", id="remove nothing"),
        pytest.param(
            "pipeline",
            "stages: [resolve_segments]\nremove: [filter_empty]",
            "$",  # jsonschema places a value that must not be there at what holds it
            "['filter_empty']",
            id="edits of nothing",
        ),
        pytest.param("pipeline", "stages: [embed_flies]", "$.stages[0]", "flies", id="a name"),
        pytest.param("pipeline", "stages: ['a b:c']", "$.stages[0]", "a b:c", id="a wrong path"),
        pytest.param(
            "pipeline",
            "stages: [{embed_files: {}, filter_empty: {}}]",
            "$.stages[0]",
            "",
            id="two stages in one",
        ),
        pytest.param(
            "pipeline",
            "stages: [{embed_flies: {}}]",
            "$.stages[0]",
            "embed_flies",
            id="a wrong name with options",
        ),
        pytest.param(
            "pipeline",
            "stages: [{embed_files: [x]}]",
            "$.stages[0].embed_files",
            "object",
            id="a list of options",
        ),
        pytest.param(
            "pipeline",
            "stages: [{embed_files: {header: 5}}]",
            "$.stages[0].embed_files.header",
            "string",
            id="an option of another type",
        ),
        pytest.param(
            "pipeline",
            "extends: spec\nconfigure: {render_question: {marker: '{rol}> '}}",
            "$.configure.render_question.marker",
            "{rol}",
            id="a placeholder that is none",
        ),
        pytest.param(
            "pipeline",
            "stages: [{filter_empty: {references_only: dorp}}]",
            "$.stages[0].filter_empty.references_only",
            "dorp",
            id="a choice that is none",
        ),
        pytest.param(
            "pipeline",
            "extends: spec\nconfigure: {embed_files: {heder: x}}",
            "$.configure.embed_files",
            "heder",
            id="a typo in configure",
        ),
        pytest.param(
            "pipeline",
            "extends: spec\nconfigure: {embed_flies: {header: x}}",
            "$.configure",
            "embed_flies",
            id="a stage that spec does not have",
        ),
        pytest.param(
            "pipeline",
            "extends: spec\nconfigure: {embed_files: ~}",
            "$.configure.embed_files",
            "object",
            id="configure with nothing",
        ),
        pytest.param(
            "pipeline",
            "extends: spec\nreplace: {embed_files: embed_flies}",
            "$.replace.embed_files",
            "embed_flies",
            id="replace with no stage",
        ),
        pytest.param(
            "pipeline",
            "extends: spec\ninsert: [{stage: guard_markers}]",
            "$.insert[0]",
            "",
            id="inserted nowhere",
        ),
        pytest.param(
            "pipeline",
            "extends: spec\ninsert: [{stage: guard_markers, after: a, before: b}]",
            "$.insert[0]",
            "",
            id="inserted twice",
        ),
        pytest.param(
            "pipeline",
            "extends: spec\ninsert: [{stage: guard_markers, behind: filter_empty}]",
            "$.insert[0]",
            "behind",
            id="inserted behind",
        ),
        pytest.param(
            "pipeline",
            "extends: spec\ninsert: [{after: filter_empty}]",
            "$.insert[0]",
            "stage",
            id="nothing inserted",
        ),
        pytest.param("targets", "name: t", "$", "targets", id="a mapping without targets"),
        pytest.param("targets", "targets: t", "$.targets", "array", id="targets are no list"),
        pytest.param("targets", "[t]", "$[0]", "object", id="a target is text"),
        pytest.param("targets", "targets: [{name: t}]", "$.targets[0]", "provider", id="no kind"),
        pytest.param("targets", "[{provider: echo}]", "$[0]", "name", id="no name"),
        pytest.param("targets", "[{name: [t], provider: echo}]", "$[0].name", "", id="names"),
        pytest.param("targets", "[{name: echo, provider: codex}]", "$[0].name", "echo", id="echo"),
        pytest.param("targets", TARGET + "azrue", "$[0].provider", "azrue", id="a typo"),
        pytest.param("targets", TARGET + "azure\n  model: m", "$[0]", "endpoint", id="no endpoint"),
        pytest.param("targets", AZURE + "  endpont: x", "$[0]", "endpont", id="a typo in a key"),
        pytest.param("targets", AZURE + "  args: []", "$[0]", "args", id="a key of another kind"),
        pytest.param(
            "targets", TARGET + "codex-cli\n  model: m\n  arg: []", "$[0]", "arg", id="by an alias"
        ),
        pytest.param(
            "targets", AZURE.replace(": m\n", ": [m]\n"), "$[0].model", "string", id="a list here"
        ),
        pytest.param("targets", AZURE.replace(": m\n", ": ~\n"), "$[0].model", "", id="a null"),
        pytest.param(
            "targets", AZURE + "  max_retries: often", "$[0].max_retries", "often", id="often"
        ),
        *(
            pytest.param(
                "targets", f"{AZURE}  {key}: {value}", f"$[0].{key}", word, id=f"{key} {value}"
            )
            for key, value, word in (
                ("max_output_tokens", "0", "minimum"),
                ("max_output_tokens", "'0'", "'0'"),
                ("max_output_tokens", "'0.5'", "'0.5'"),
                ("max_retries", "-1", "minimum"),
                ("max_retries", "'-1'", "'-1'"),
                ("max_retries", "'nan'", "'nan'"),
                ("timeout_seconds", "0", "minimum"),
                ("timeout_seconds", "'0.0'", "'0.0'"),
                ("timeout_seconds", "'-inf'", "'-inf'"),
                ("timeout_seconds", "'NaN'", "'NaN'"),
            )
        ),
        pytest.param(
            "targets", AZURE.replace("abcdef", "''"), "$[0].api_key", "''", id="an empty key"
        ),
        pytest.param(
            "targets", AZURE.replace("abcdef", "' '"), "$[0].api_key", "' '", id="a blank key"
        ),
        pytest.param(
            "targets", AZURE + "  system_role: user", "$[0].system_role", "user", id="a wrong word"
        ),
        pytest.param(
            "targets",
            AZURE.replace("abcdef", "${{ A-KEY }}"),
            "$[0].api_key",
            "A-KEY",
            id="no variable's name",
        ),
        pytest.param(
            "targets", TARGET + "codex\n  args: --fast", "$[0].args", "array", id="text is no list"
        ),
        pytest.param(
            "targets", TARGET + "codex\n  env: [A]", "$[0].env", "object", id="list is no mapping"
        ),
        pytest.param(
            "targets", TARGET + "codex\n  env: {A: [b]}", "$[0].env.A", "string", id="a list in env"
        ),
    ],
)
def test_what_a_loader_refuses_or_warns_of_is_underlined_where_it_stands(
    kind: str, text: str, path: str, word: str, tmp_path: Path
) -> None:
    assert trouble(kind, text, tmp_path) != ""
    found = refusals(kind, text)
    assert path in [place for place, _ in found]
    assert any(word in what for place, what in found if place == path)


# --- whatever a suite or a target holds

MISSING = object()
VALUES: list[Any] = [
    *(MISSING, None, True, 5, 0.5, "", " ", "Hi", [], {}, ["Hi"], [5], [[]], [{}], {"a": 1}),
    *({"type": "text", "value": "x"}, {"type": "text"}, {"type": "image", "value": "x"}),
    *([{"type": "text", "value": 5}], [{"type": None}], [{"value": "x"}], ["Hi", {"a": [1]}]),
    *({"systemPrompt": "x"}, {"systemPrompt": 5}, {"systemPrompt": "a", "system_prompt": "b"}),
    *({"systemPrompt": None, "system_prompt": "b"}, {"temperature": 1}, {"temperature": "1"}),
    *({"max_output_tokens": 5}, {"max_output_tokens": None}, {"max_output_tokens": True}),
    *([{"role": "user", "content": "Hi"}], [{"role": "user"}], [{"role": "bot", "content": "Hi"}]),
]
SUITE_KEYS = [
    *("$schema", "id", "name", "evalcases", "input_messages", "metadata", "guidelines"),
    *("execution", "outcome", "conversation_id", "expected_messages", "evaluators", "typo"),
]
MESSAGE_KEYS = ["role", "content", "typo"]


@st.composite
def suites(draw: st.DrawFn) -> Any:
    """A good suite or bare case in which up to three values are something else."""
    message = {"role": "user", "content": "Hi"}
    case: dict[str, Any] = {"id": "a", "input_messages": [message]}
    suite = draw(st.sampled_from([case, {"evalcases": [case]}]))
    for _ in range(draw(st.integers(0, 3))):
        part, keys = draw(
            st.sampled_from([(suite, SUITE_KEYS), (case, SUITE_KEYS), (message, MESSAGE_KEYS)])
        )
        key, value = draw(st.sampled_from(keys)), draw(st.sampled_from(VALUES))
        part.pop(key, None)
        if value is not MISSING:
            part[key] = value
    return suite


@given(suites())
@example({"input_messages": [{"role": "user", "content": "Hi"}], "evalcases": None})
def test_a_suite_is_valid_exactly_if_it_converts_without_a_warning(
    tmp_path_factory: pytest.TempPathFactory, suite: Any
) -> None:
    text = json.dumps(suite)
    found = trouble("suite", text, tmp_path_factory.getbasetemp())
    assert (refusals("suite", text) == []) == (found == ""), found


SETTINGS: list[Any] = [
    *(None, True, False, 1, 0, 5, -1, 0.5, "", "x", "5", "-5", "1e3", "0.5", "05", "+5", ".5"),
    *("true", "TRUE", "null", "inf", "Infinity", "4.10", [], ["a", 5], [None], {}),
    *("${{ FIVE }}", "a${{FIVE}}b", "${{ FIVE", "${{ NO-NAME }}", "$ {{ }}", "\n", {"A": 1}),
    *({"A": None}, {"A": "${{ FIVE }}"}, {"A": []}, [["a"]], ["${{ FIVE }}"]),
]
SETTING_KEYS = sorted({key for kind in KINDS.values() for key in kind.settings.__struct_fields__})
NEEDED = {"name": "t", "api_key": "abcdef", "model": "m", "endpoint": "e"}


@given(
    st.sampled_from([*KINDS, *ALIASES]),
    st.dictionaries(st.sampled_from(SETTING_KEYS), st.sampled_from(SETTINGS), max_size=3),
)
@example("anthropic", {"prefill": 1})
@example("anthropic", {"prefill": "TRUE"})
@example("azure", {"timeout_seconds": "inf", "temperature": "null"})
def test_a_target_that_loads_without_a_warning_is_valid(
    tmp_path_factory: pytest.TempPathFactory, provider: str, settings: dict[str, Any]
) -> None:
    known = KINDS[ALIASES.get(provider, provider)].settings.__struct_fields__
    target = {**NEEDED, "provider": provider, **settings}
    target = {key: value for key, value in target.items() if key in known}
    text = json.dumps([target])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIVE", "5")
        found = trouble("targets", text, tmp_path_factory.getbasetemp())
    assert found or refusals("targets", text) == []
