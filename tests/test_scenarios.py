"""Every scenario of the specification: against its literal expectation, and as a snapshot."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from layout import laid_out
from multiturn import Pipeline, ProviderRequest, Step, load_pipeline, load_suite
from multiturn.documents.yaml_reader import read_documents
from multiturn_stages.render_tools import render_tools
from multiturn_stages.trim_history import trim_history
from prompt_snapshot import SNAPSHOTS, PromptSnapshot

PIPELINES = ("spec", "design", "shipped", "agentv")
SCENARIOS = {
    path.stem: next(read_documents(path.read_text(encoding="utf-8"), path.name)).value
    for path in sorted(Path(__file__).parent.glob("scenarios/*.yaml"))
}


def convert(folder: Path, scenario: dict[str, Any], pipeline: Pipeline) -> ProviderRequest:
    """Write a scenario's files and its case into a folder, and convert the case."""
    for path, text in scenario.get("files", {}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    suite = folder / "scenario.eval.yaml"
    suite.write_text(json.dumps(scenario["input"]), encoding="utf-8")
    (case,) = load_suite(suite, root=folder)
    for stage, options in scenario.get("configure", {}).items():
        pipeline = pipeline.configure(stage, **options)
    return pipeline.request(case)


def visible(request: ProviderRequest) -> dict[str, Any]:
    """Return the part of a request that scenarios speak of."""
    return {
        "question": request.question,
        "chat_prompt": msgspec.json.decode(msgspec.json.encode(request.chat_prompt)),
        "guidelines": list(request.guidelines),
    }


@pytest.mark.parametrize(
    ("pipeline", "name"),
    [
        pytest.param(pipeline, name, id=f"{pipeline} {name}")
        for pipeline in PIPELINES
        for name in SCENARIOS
    ],
)
def test_prompt(tmp_path: Path, pipeline: str, name: str, snapshot: SnapshotAssertion) -> None:
    scenario = SCENARIOS[name]
    readings = (pipeline, "shipped", "spec") if pipeline == "agentv" else (pipeline, "spec")
    reading = next(filter(scenario["expected"].get, readings))
    default = visible(convert(tmp_path, scenario, load_pipeline(pipeline)))
    assert {"title": scenario["title"], **default} == snapshot(extension_class=PromptSnapshot)
    found = visible(convert(tmp_path, scenario, laid_out(pipeline)))
    assert found == scenario["expected"][reading], f"tests/scenarios/{name}.yaml: {reading}"


HISTORY = SCENARIOS["a-history-with-tool-calls"]
MORE = {
    "trim_history": Step(trim_history, {"exchanges": 1}),
    "render_tools": Step(render_tools, {"definition": "[Tool {name}]: "}),
}


@pytest.mark.parametrize(
    ("pipeline", "name"),
    [
        pytest.param(pipeline, name, id=f"{pipeline} {name}")
        for pipeline in PIPELINES
        for name in MORE
    ],
)
def test_prompt_with(tmp_path: Path, pipeline: str, name: str, snapshot: SnapshotAssertion) -> None:
    """Of the stages that no pipeline has, at the end of each."""
    found = load_pipeline(pipeline)
    found = found.insert(MORE[name], after=found.steps[-1].name)
    shown = visible(convert(tmp_path, HISTORY, found))
    assert {"title": HISTORY["title"], **shown} == snapshot(extension_class=PromptSnapshot)


def test_no_snapshot_is_stale(pytestconfig: pytest.Config) -> None:
    wanted = {
        SNAPSHOTS / pipeline / f"{name}.yaml"
        for pipeline in PIPELINES
        for name in (*SCENARIOS, *MORE)
    }
    found = [path for pipeline in PIPELINES for path in (SNAPSHOTS / pipeline).rglob("*.*")]
    stale = [path for path in found if path not in wanted]
    if pytestconfig.getoption("update_snapshots"):
        for path in stale:
            path.unlink()
    else:
        assert stale == []
