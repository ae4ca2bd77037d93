"""embed_files: a file becomes text where it stood: a header line, then its text (rule 3)."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from multiturn import Conversion
from multiturn.testing import conversion, file, reference
from multiturn_stages.embed_files import embed_files
from shown import contents

Build = Callable[..., Conversion]

CODE = file("./code.js", "console.log('test')")
EMPTY = file("empty.txt", "")
X = file("x/y", "X")


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([], id="a turn without parts"),
        pytest.param(["Hi", "{path}"], id="text"),
        pytest.param([reference("a.md")], id="the marker of a guideline"),
        pytest.param(
            [replace(file("a.md", "embedded"), kind="text")], id="a file that is embedded already"
        ),
    ],
)
def test_leaves_alone(run_stage: Build, pieces: Any) -> None:
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
        pytest.param([EMPTY], {}, "=== empty.txt ===\n", id="an empty file keeps its header"),
        pytest.param([EMPTY, "b"], {}, "=== empty.txt ===\n\nb", id="an empty file, text below"),
        pytest.param([EMPTY, "b"], {"header": ""}, "\nb", id="an empty file without a header"),
        pytest.param(
            [file("%s {role}", "{path} === %s")],
            *({}, "=== %s {role} ===\n{path} === %s"),
            id="placeholders in a file or its path are text",
        ),
        pytest.param([X], {"header": "--- {path}"}, "--- x/y\nX", id="another header"),
        pytest.param([X], {"header": "%s {0} {}"}, "%s {0} {}\nX", id="only {path} is special"),
        pytest.param([X], {"header": ""}, "X", id="an empty header is no line"),
        pytest.param(
            *([X, "b"], {"header": "<file>", "footer": "</file>"}, "<file>\nX\n</file>\nb"),
            id="a footer stands on a line below the text",
        ),
        pytest.param(
            *([X], {"footer": "{path} {0} {path}"}, "=== x/y ===\nX\nx/y {0} x/y"),
            id="only {path} is special in a footer",
        ),
        pytest.param([X], {"header": "", "footer": "-"}, "X", id="a bare file has no footer"),
    ],
)
def test_rewrites(run_stage: Build, pieces: Any, options: Any, expected: str) -> None:
    (turn,) = run_stage(embed_files, conversion(("user", *pieces)), **options).turns
    assert (turn.role, turn.content) == ("user", expected)
    assert {part.kind for part in turn.parts} == {"text"}
    assert turn.has_content


def test_what_the_stage_wrote_says_so(run_stage: Build) -> None:
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
        pytest.param({"system_header": ""}, "S", "=== u ===\nU", id="bare"),
        pytest.param(
            {"system_header": "", "footer": "---"}, "S", "=== u ===\nU\n---", id="without a footer"
        ),
        pytest.param(
            *({"system_header": "# {path}", "header": "", "footer": "---"}, "# s\nS\n---", "U"),
            id="with a footer of its own",
        ),
    ],
)
def test_system_header(
    run_stage: Build, options: dict[str, str | None], system: str, user: str
) -> None:
    before = conversion(("system", file("s", "S")), ("user", file("u", "U")))
    result = run_stage(embed_files, before, **options)
    assert contents(result.turns) == [("system", system), ("user", user)]
