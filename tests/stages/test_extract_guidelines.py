"""extract_guidelines: a file that matches a pattern becomes a reference (rules 4 and 5)."""

from typing import Any

import pytest

from multiturn.testing import conversion, file
from multiturn_stages.extract_guidelines import extract_guidelines
from shown import Run, contents

RULES = ("**/*.instructions.md",)
PYTHON = file("python.instructions.md", "Use type hints.")


@pytest.mark.parametrize(
    ("piece", "patterns"),
    [
        pytest.param(PYTHON, (), id="without patterns every file stays"),
        pytest.param(file("a.js", "x"), RULES, id="a file that matches no pattern"),
        pytest.param("python.instructions.md", RULES, id="text that looks like a path"),
    ],
)
def test_leaves_alone(run_stage: Run, piece: Any, patterns: Any) -> None:
    before = conversion(("user", "Hi", piece), guideline_patterns=patterns)
    assert run_stage(extract_guidelines, before) == before


DOCS = {"resolved_path": "docs/rules.md"}


@pytest.mark.parametrize(
    ("piece", "patterns", "marker", "expected"),
    [
        pytest.param(
            *(PYTHON, RULES, "<Attached: {path}>", "<Attached: python.instructions.md>"),
            id="** stands for no folder too",
        ),
        pytest.param(
            *(file("rules.md", "x", **DOCS), ["docs/*"], "({path}, {path})"),
            "(rules.md, rules.md)",
            id="a path relative to the root",
        ),
        pytest.param(
            *(file("./rules.md", "x", **DOCS), ["*.md"], "<{path}>", "<./rules.md>"),
            id="a path as written, without ./",
        ),
        pytest.param(
            *(file("%s {role}.md", "{path}"), ["*"], "%s {} {0} {path}", "%s {} {0} %s {role}.md"),
            id="only {path} is special in a marker, and nothing in a path",
        ),
        pytest.param(file("a.md", ""), ["*"], "", "", id="an empty file, and no marker"),
    ],
)
def test_rewrites(run_stage: Run, piece: Any, patterns: Any, marker: str, expected: str) -> None:
    messages = ("user", "Hi", piece, "there")
    before = conversion(messages, guidelines=["G."], guideline_patterns=tuple(patterns))
    result = run_stage(extract_guidelines, before, marker=marker)
    assert contents(result.turns) == [("user", f"Hi\n{expected}\nthere")]
    assert [part.kind for part in result.turns[0].parts] == ["text", "reference", "text"]
    assert [(part.kind, part.path, part.text) for part in result.guidelines] == [
        ("text", None, "G."),
        ("text", piece.path, piece.text),
    ]


def test_collects_from_every_role_in_order(run_stage: Run) -> None:
    roles = ["user", "system", "assistant", "tool"]
    messages = [(role, file(f"{role}.md", f"from {role}"), file("x.js")) for role in roles]
    before = conversion(*messages, guideline_patterns=("*.md",))
    result = run_stage(extract_guidelines, before)
    assert [part.text for part in result.guidelines] == [f"from {role}" for role in roles]
    assert contents(result.turns) == [(role, f"<Attached: {role}.md>\n") for role in roles]
    assert [found.path for found in result.input_files if not found.guideline] == ["x.js"]


def test_collects_a_file_attached_under_two_spellings_once(run_stage: Run) -> None:
    before = conversion(
        ("user", file("./a.md", "x"), file("a.md", "x")),
        ("user", file("../root/a.md", "x", resolved_path="a.md")),
        guideline_patterns=("a.md",),
    )
    result = run_stage(extract_guidelines, before)
    assert [(part.path, part.text) for part in result.guidelines] == [("./a.md", "x")]
    assert contents(result.turns) == [
        ("user", "<Attached: ./a.md>\n<Attached: a.md>"),
        ("user", "<Attached: ../root/a.md>"),
    ]
