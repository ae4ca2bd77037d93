"""A layout of the tests' own, for tests that are about something else.

The default texts of a stage are tested where the stage is. Everywhere else pipelines have these
texts, so that another default leaves the expectations of those tests alone.
"""

from pathlib import Path
from typing import Any

from multiturn import Pipeline, load_pipeline

TEXTS: dict[str, dict[str, Any]] = {
    "embed_files": {"header": "=== {path} ==="},
    "extract_guidelines": {"marker": "<Attached: {path}>"},
    "consolidate_system": {
        "guidelines_heading": "[[ ## Guidelines ## ]]",
        "guideline_header": "=== {path} ===",
        "system_marker": "[System]: ",
    },
    "render_question": {
        "marker": "[{role}]: ",
        "separator": "\n",
        "call": "[Tool call {id}]: ",
        "result": "[Tool result {id}]: ",
    },
}


def laid_out(pipeline: Pipeline | str = "spec") -> Pipeline:
    """Return a pipeline whose stages write these texts, where it does not choose texts itself."""
    made = load_pipeline(pipeline) if isinstance(pipeline, str) else pipeline
    for step in made.steps:
        if step.name in TEXTS:
            made = made.configure(step.name, **{**TEXTS[step.name], **step.options})
    return made


def write_layout(folder: Path) -> None:
    """Let commands in a folder use the pipeline ``spec`` with these texts by default."""
    (folder / "layout.yaml").write_text(laid_out().to_yaml(), encoding="utf-8")
    (folder / "multiturn.toml").write_text('pipeline = "layout.yaml"', encoding="utf-8")
