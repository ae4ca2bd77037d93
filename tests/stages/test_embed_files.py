"""embed_files: a file becomes text where it stood: a header line, then its text (rule 3)."""

from typing import Any

import pytest
from msgspec.structs import replace

from multiturn.testing import conversion, file, reference
from multiturn_stages.embed_files import embed_files
from shown import Run, contents

CODE = file("./code.js", "console.log('test')")
EMPTY = file("empty.txt", "")
X = file("x/y", "X")


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([], id="a turn without parts"),
        pytest.param(["Hi", "{path}", reference("a.md")], id="text and markers"),
        pytest.param([replace(X, kind="text")], id="a file that is embedded already"),
    ],
)
def test_leaves_alone(run_stage: Run, pieces: Any) -> None:
    before = conversion(("user", *pieces))
    assert run_stage(embed_files, before, system_header="") == before


@pytest.mark.parametrize(
    ("pieces", "options", "expected"),
    [
        pytest.param(
            ["a", CODE, "b", file("x", "1\n2"), "c"],
            *({}, "a\n=== ./code.js ===\nconsole.log('test')\nb\n=== x ===\n1\n2\nc"),
            id="files stand where they stood, under their paths as written",
        ),
        pytest.param([EMPTY, "b"], {}, "=== empty.txt ===\n\nb", id="an empty file has a header"),
        pytest.param([EMPTY, "b"], {"header": ""}, "\nb", id="an empty file without a header"),
        pytest.param(
            *([file("%s {role}", "{path}")], {"header": "{path} %s {0} {}"}),
            "%s {role} %s {0} {}\n{path}",
            id="only {path} is special in a header, and nothing in a file or its path",
        ),
        pytest.param(
            *([X, "b"], {"header": "<file>", "footer": "</{path} {0}>"}),
            "<file>\nX\n</x/y {0}>\nb",
            id="a footer is a line below the text",
        ),
        pytest.param([X], {"header": "", "footer": "-"}, "X", id="a bare file has no footer"),
    ],
)
def test_rewrites(run_stage: Run, pieces: Any, options: Any, expected: str) -> None:
    (turn,) = run_stage(embed_files, conversion(("user", *pieces)), **options).turns
    assert (turn.role, turn.content) == ("user", expected)
    assert {part.kind for part in turn.parts} == {"text"}
    assert turn.has_content


def test_what_the_stage_wrote_says_so(run_stage: Run) -> None:
    (turn,) = run_stage(embed_files, conversion(("user", "a", CODE)), footer="---").turns
    assert [(part.text, part.stage, part.path) for part in turn.parts] == [
        ("a", None, None),
        ("=== ./code.js ===", "embed_files", "./code.js"),
        ("console.log('test')", None, "./code.js"),
        ("---", "embed_files", "./code.js"),
    ]


@pytest.mark.parametrize(
    ("options", "system", "user"),
    [
        pytest.param({}, "=== s ===\nS", "=== u ===\nU", id="under a header like any other"),
        pytest.param(
            {"system_header": "", "footer": "---"}, "S", "=== u ===\nU\n---", id="bare, no footer"
        ),
        pytest.param(
            *({"system_header": "# {path}", "header": "", "footer": "---"}, "# s\nS\n---", "U"),
            id="under a header of its own, with a footer",
        ),
    ],
)
def test_system_header(run_stage: Run, options: Any, system: str, user: str) -> None:
    before = conversion(("system", file("s", "S")), ("user", file("u", "U")))
    result = run_stage(embed_files, before, **options)
    assert contents(result.turns) == [("system", system), ("user", user)]
