"""extract_guidelines: a file that matches a pattern becomes a reference (rules 4 and 5)."""

from collections.abc import Callable
from typing import Any

import pytest

from multiturn import Conversion
from multiturn.testing import conversion, file
from multiturn_stages.extract_guidelines import extract_guidelines
from shown import contents

Build = Callable[..., Conversion]

RULES = ("**/*.instructions.md",)
PYTHON = file("python.instructions.md", "Use type hints.")


@pytest.mark.parametrize(
    ("piece", "patterns"),
    [
        pytest.param(PYTHON, (), id="without patterns every file stays"),
        pytest.param(file("a.js", "x"), RULES, id="a file that matches no pattern"),
        pytest.param("python.instructions.md", RULES, id="text that looks like a path"),
        pytest.param("<Attached: x.instructions.md>", RULES, id="text that looks like a marker"),
    ],
)
def test_leaves_alone(run_stage: Build, piece: Any, patterns: Any) -> None:
    before = conversion(("user", "Hi", piece), guideline_patterns=patterns)
    assert run_stage(extract_guidelines, before) == before


@pytest.mark.parametrize(
    ("piece", "patterns"),
    [
        pytest.param(PYTHON, RULES, id="** stands for no folder too"),
        pytest.param(
            file("rules.md", "x", resolved_path="docs/rules.md"),
            ("docs/*",),
            id="a path relative to the root",
        ),
        pytest.param(
            file("./rules.md", "x", resolved_path="docs/rules.md"),
            ("*.md",),
            id="a path as written, without ./",
        ),
    ],
)
def test_rewrites(run_stage: Build, piece: Any, patterns: Any) -> None:
    before = conversion(("user", "Hi", piece, file("a.js", "x")), guideline_patterns=patterns)
    result = run_stage(extract_guidelines, before)
    assert result.turns[0].content == f"Hi\n<Attached: {piece.path}>\nx"
    assert [part.kind for part in result.turns[0].parts] == ["text", "reference", "file"]
    assert [part.text for part in result.guidelines] == [piece.text]


def test_collects_from_every_role_in_order(run_stage: Build) -> None:
    roles = ["user", "system", "assistant", "tool"]
    before = conversion(
        *((role, file(f"{role}.md", f"from {role}")) for role in roles), guideline_patterns=("*",)
    )
    result = run_stage(extract_guidelines, before)
    assert [part.text for part in result.guidelines] == [f"from {role}" for role in roles]
    assert contents(result.turns) == [(role, f"<Attached: {role}.md>") for role in roles]


def test_collects_a_file_attached_under_two_spellings_once(run_stage: Build) -> None:
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


def test_the_guidelines_given_in_the_case_come_first(run_stage: Build) -> None:
    before = conversion(
        ("user", PYTHON), guidelines=("Be kind.", "Use type hints."), guideline_patterns=RULES
    )
    result = run_stage(extract_guidelines, before)
    assert [(part.path, part.text) for part in result.guidelines] == [
        (None, "Be kind."),
        (None, "Use type hints."),
        ("python.instructions.md", "Use type hints."),
    ]


def test_an_empty_guideline_file_is_a_guideline(run_stage: Build) -> None:
    before = conversion(("user", file("a.md", "")), guideline_patterns=("*.md",))
    result = run_stage(extract_guidelines, before)
    assert [(part.path, part.text) for part in result.guidelines] == [("a.md", "")]


def test_says_which_input_files_are_guidelines(run_stage: Build) -> None:
    before = conversion(
        ("user", file("a.js", "x"), PYTHON, file("b.js", "y")), guideline_patterns=RULES
    )
    result = run_stage(extract_guidelines, before)
    assert [(file.path, file.guideline) for file in result.input_files] == [
        ("a.js", False),
        ("python.instructions.md", True),
        ("b.js", False),
    ]


@pytest.mark.parametrize(
    ("marker", "path", "expected"),
    [
        pytest.param("({path}, {path})", "a.md", "(a.md, a.md)", id="the path is there twice"),
        pytest.param("%s {} {0}", "a.md", "%s {} {0}", id="only {path} is special"),
        pytest.param("", "a.md", "", id="no marker"),
        pytest.param("<{path}>", "%s {role}.md", "<%s {role}.md>", id="placeholders in a path"),
    ],
)
def test_marker(run_stage: Build, marker: str, path: str, expected: str) -> None:
    before = conversion(("user", file(path, "{path} %s")), guideline_patterns=("*",))
    result = run_stage(extract_guidelines, before, marker=marker)
    assert [(part.kind, part.text) for part in result.turns[0].parts] == [("reference", expected)]
    assert [part.text for part in result.guidelines] == ["{path} %s"]
