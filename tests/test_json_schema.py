"""The schemas say of a document what the loaders say."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from structlog.testing import capture_logs

from commands import run
from multiturn import MultiturnError, load_pipeline, load_suite, load_target
from multiturn.cli.schemas import SCHEMAS
from multiturn.documents.yaml_reader import read_documents
from multiturn.pipelines.contract import options_of
from multiturn.providers.targets import ALIASES, KINDS, target_names
from multiturn_stages.embed_files import embed_files

ROOT = Path(__file__).parent.parent
DRAWN = {kind: schema() for kind, schema in SCHEMAS.items()}  # before tests install stages
VALIDATORS = {kind: Draft202012Validator(schema) for kind, schema in DRAWN.items()}


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
            if "there is nothing to answer" not in error.what:  # no schema can say that
                return str(error)
    return " ".join(log["event"] for log in logs)


# --- what there is

EXAMPLES = {
    "suite": "examples/*.eval.yaml",
    "pipeline": "pipeline/multiturn/pipelines/*.yaml",
    "targets": "examples/targets.yaml",
}


@pytest.mark.parametrize("kind", EXAMPLES)
def test_every_example_is_valid(kind: str) -> None:
    for path in ROOT.glob(EXAMPLES[kind]):
        assert refusals(kind, path.read_text(encoding="utf-8")) == []


def test_the_input_of_every_scenario_is_valid() -> None:
    for path in (ROOT / "tests/scenarios").glob("*.yaml"):
        (scenario,) = read_documents(path.read_text(encoding="utf-8"), path.name)
        assert refusals("suite", json.dumps(scenario.value["input"])) == []


@pytest.mark.parametrize("kind", SCHEMAS)
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
    """Yield every key of a line, or that an editor may offer, and what is said of it."""
    for word, value in part.items() if isinstance(part, dict) else enumerate(part):
        if isinstance(value, dict | list):
            yield from keys(schema, value, f"{place}/{word}")
        if word == "properties" and (part.get("additionalProperties") is False or "title" in part):
            for key, details in value.items():
                definition = schema["$defs"].get(details.get("$ref", "").rpartition("/")[2], {})
                yield f"{place}/{key}", {**definition, **details}.get("description", "")


@pytest.mark.parametrize("kind", SCHEMAS)
def test_every_key_has_a_description(kind: str) -> None:
    schema = DRAWN[kind]
    said = dict(keys(schema, schema))
    assert len(said) > 2
    assert [key for key, text in said.items() if not text.strip()] == []


HOUSE = """\
from datetime import date
from multiturn import Conversion, stage

@stage(requires={"turns"})
def soften(
    conversion: Conversion,
    *,
    level: int = 1,
    since: date = date(2026, 1, 31),
    strange: object = object(),
) -> Conversion:
    \"\"\"Soften.

    Args:
        level: how far to go.
    \"\"\"
    return conversion
"""


def test_the_stage_of_an_installed_package_is_there_with_its_options(tmp_path: Path) -> None:
    info = tmp_path / "house-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: house\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[multiturn.stages]\nsoft = house_of_schema:soften\n")
    (tmp_path / "house_of_schema.py").write_text(HOUSE)
    schema = json.loads(run("schema", "pipeline", folder=tmp_path).stdout)
    is_valid = Draft202012Validator(schema).is_valid
    assert is_valid({"stages": [{"soft": {"level": 2, "since": "2026-01-31", "strange": 1}}]})
    assert not is_valid({"stages": [{"soft": {"level": "far"}}]})
    assert not is_valid({"stages": [{"soft": {"levle": 2}}]})
    properties = schema["$defs"]["options_of_soft"]["properties"]
    assert properties["level"]["description"] == "how far to go."
    assert properties["since"]["default"] == "2026-01-31"

    (tmp_path / "house_of_schema.py").write_text("import no_such_module")
    done = run("schema", "pipeline", folder=tmp_path)
    what = "cannot import 'soft': ModuleNotFoundError: No module named 'no_such_module'"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"Error: {what}\n")


def test_a_default_is_the_one_that_counts() -> None:
    kinds = DRAWN["targets"]["$defs"]
    assert kinds["vscode-insiders"]["properties"]["executable"]["default"] == "code-insiders"
    assert kinds["anthropic"]["properties"]["timeout_seconds"]["default"] == 600
    assert kinds["codex"]["properties"]["timeout_seconds"]["default"] == 1800
    header = DRAWN["pipeline"]["$defs"]["options_of_embed_files"]["properties"]["header"]
    assert header["default"] == options_of(embed_files)["header"].default
    assert "default" not in DRAWN["pipeline"]["properties"]["stages"]  # editors would insert it


# --- what the loaders take, refuse, or warn of

CASE = "evalcases:\n- {}\n  input_messages:\n  - role: user\n    content: Hi"
MESSAGE = "evalcases:\n- id: a\n  input_messages:\n  - {}"
TARGET = "- name: t\n  {}"
AZURE = "provider: azure\n  endpoint: https://x\n  api_key: abcdef\n  model: m\n  {}"
ANTHROPIC = "provider: anthropic\n  api_key: abcdef\n  model: m\n  {}"
CONTENT = MESSAGE.format("role: user\n    content: {}")
OPENAI = "provider: openai\n  model: m\n  {}"
AROUND = {  # what entries of the table are put into, and where they stand in it
    "suite": ("suite", "{}", ""),
    "case": ("suite", CASE, "$.evalcases[0]"),
    "message": ("suite", MESSAGE, "$.evalcases[0].input_messages[0]"),
    "content": ("suite", CONTENT, "$.evalcases[0].input_messages[0].content"),
    "pipeline": ("pipeline", "{}", ""),
    "targets": ("targets", "{}", ""),
    "target": ("targets", TARGET, "$[0]"),
    "azure": ("targets", TARGET.format(AZURE), "$[0]"),
    "anthropic": ("targets", TARGET.format(ANTHROPIC), "$[0]"),
    "openai": ("targets", TARGET.format(OPENAI), "$[0]"),
}


def table(name: str) -> Iterator[Any]:
    """Yield the kind and the text of each entry, then its place and what is said there."""
    (document,) = read_documents((ROOT / "tests/schemas.yaml").read_text(), "schemas.yaml")
    for around, entries in document.value[name].items():
        kind, text, above = AROUND[around]
        for title, entry, *place in entries:
            place[:1] = [above + below for below in place[:1]]
            margin = " " * len(text.partition("{}")[0].rpartition("\n")[2])
            indented = entry.replace("\n", "\n" + margin)
            yield pytest.param(kind, text.replace("{}", indented), *place, id=f"{around}: {title}")


@pytest.mark.parametrize(("kind", "text"), list(table("taken")))
def test_what_a_loader_takes_is_valid(
    kind: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"ROLE": "system", "FIVE": "5", "YES": "true", "KIND": "codex"}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "cases.yaml").write_text("[{id: a, input: Hi}]")
    (tmp_path / "mine_of_schema.py").write_text(
        "from multiturn import Conversion, stage\n"
        "@stage(requires={'files'}, consumes={'files'}, provides={'text'})\n"
        "def embed_files(conversion: Conversion, *, depth: int = 1) -> Conversion:\n"
        "    return conversion\n"
        "class Mine:\n"
        "    def __init__(self, **options: object) -> None: ...\n"
        "    async def invoke(self, request: object) -> None: ...\n"
    )
    assert trouble(kind, text, tmp_path) == ""
    assert refusals(kind, text) == []


@pytest.mark.parametrize(("kind", "text", "path", "word"), list(table("refused")))
def test_what_a_loader_refuses_or_warns_of_is_underlined_where_it_stands(
    kind: str, text: str, path: str, word: str, tmp_path: Path
) -> None:
    assert trouble(kind, text, tmp_path) != ""
    found = refusals(kind, text)
    assert path in [place for place, _ in found]
    assert any(word in what for place, what in found if place == path)


# --- whatever a target holds

SETTINGS: list[Any] = [
    *(None, True, False, 1, 0, 5, -1, 0.5, "", "x", "5", "-5", "1e3", "0.5", "05", "+5", ".5"),
    *("true", "TRUE", "null", "inf", "Infinity", "4.10", [], ["a", 5], [None], {}),
    *("${{ FIVE }}", "a${{FIVE}}b", "${{ FIVE", "${{ NO-NAME }}", "$ {{ }}", "\n", {"A": 1}),
    *({"A": None}, {"A": "${{ FIVE }}"}, {"A": []}, [["a"]], ["${{ FIVE }}"]),
]
SETTING_KEYS = sorted({key for kind in KINDS.values() for key in kind.settings.__struct_fields__})
NEEDED = {"name": "t", "api_key": "abcdef", "model": "m", "endpoint": "e"}


@settings(max_examples=50)
@given(
    st.sampled_from([*KINDS, *ALIASES]),
    st.dictionaries(st.sampled_from(SETTING_KEYS), st.sampled_from(SETTINGS), max_size=3),
)
@example("anthropic", {"model_takes": {"temperature": 1}})
@example("anthropic", {"model_takes": {"final_assistant": "TRUE"}})
@example("anthropic", {"prompt_caching": "1h"})
@example("gemini", {"tool_choice": {"name": "weather"}})
@example("openai", {"tool_choice": "required"})
@example("azure", {"timeout_seconds": "inf", "temperature": "null"})
def test_a_target_that_loads_without_a_warning_is_valid(
    tmp_path_factory: pytest.TempPathFactory, provider: str, written: dict[str, Any]
) -> None:
    known = KINDS[ALIASES.get(provider, provider)].settings.__struct_fields__
    target = {**NEEDED, "provider": provider, **written}
    target = {key: value for key, value in target.items() if key in known}
    text = json.dumps([target])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIVE", "5")
        found = trouble("targets", text, tmp_path_factory.getbasetemp())
    assert found or refusals("targets", text) == []
