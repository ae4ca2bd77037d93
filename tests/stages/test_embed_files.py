"""embed_files: a file becomes text where it stood: a header line, then its text (rule 3)."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from multiturn import Conversion
from multiturn.testing import conversion, file, reference
from multiturn_stages.consolidate_system import consolidate_system
from multiturn_stages.embed_files import embed_files

Build = Callable[..., Conversion]
Read = Callable[..., list[tuple[str, str]]]

CODE = file("./code.js", "console.log('test')")
EMPTY = file("empty.txt", "")


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([], id="a turn without parts"),
        pytest.param(["Hi", "{path}"], id="text"),
        pytest.param(["=== a.js ==="], id="text that looks like a header"),
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
    ("pieces", "expected"),
    [
        pytest.param(
            ["Review this:", CODE],
            "Review this:\n=== ./code.js ===\nconsole.log('test')",
            id="a file stands under its path as written",
        ),
        pytest.param(
            ["a", CODE, "b", file("x", "1\n2"), "c"],
            "a\n=== ./code.js ===\nconsole.log('test')\nb\n=== x ===\n1\n2\nc",
            id="files stand where they stood",
        ),
        pytest.param([EMPTY], "=== empty.txt ===\n", id="an empty file keeps its header"),
        pytest.param(
            [EMPTY, "end"], "=== empty.txt ===\n\nend", id="an empty file, and text below"
        ),
        pytest.param(
            [CODE, CODE],
            "=== ./code.js ===\nconsole.log('test')\n=== ./code.js ===\nconsole.log('test')",
            id="a file attached twice is embedded twice",
        ),
        pytest.param(
            [file("%s {role}", "{path} === %s")],
            "=== %s {role} ===\n{path} === %s",
            id="placeholders in a file or its path are text",
        ),
        pytest.param([file("{path}", "x")], "=== {path} ===\nx", id="a path named {path}"),
        pytest.param([file("a", " \n x ")], "=== a ===\n \n x ", id="white space is kept"),
        pytest.param([file("a", "")], "=== a ===\n", id="nothing is added to an empty file"),
    ],
)
@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
def test_rewrites(run_stage: Build, contents: Read, role: str, pieces: Any, expected: str) -> None:
    before = conversion((role, *pieces))
    result = run_stage(embed_files, before)
    assert contents(result.turns) == [(role, expected)]
    assert {part.kind for part in result.turns[0].parts} == {"text"}


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
        pytest.param(
            {"system_header": None, "header": "# {path}"},
            "# s\nS",
            "# u\nU",
            id="None follows the header of all",
        ),
        pytest.param({"system_header": ""}, "S", "=== u ===\nU", id="bare"),
        pytest.param(
            {"system_header": "# {path}", "header": ""}, "# s\nS", "U", id="under its own header"
        ),
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
    run_stage: Build,
    contents: Read,
    options: dict[str, str | None],
    system: str,
    user: str,
) -> None:
    before = conversion(("system", file("s", "S")), ("user", file("u", "U")))
    result = run_stage(embed_files, before, **options)
    assert contents(result.turns) == [("system", system), ("user", user)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, "=== x/y.js ===\ntext", id="a header and no footer"),
        pytest.param({"header": "--- {path}"}, "--- x/y.js\ntext", id="another header"),
        pytest.param({"header": "{path}\n{path}"}, "x/y.js\nx/y.js\ntext", id="the path twice"),
        pytest.param({"header": "%s {0} {}"}, "%s {0} {}\ntext", id="only {path} is special"),
        pytest.param({"header": ""}, "text", id="an empty header is no line"),
        pytest.param(
            {"header": "<file path={path}>", "footer": "</file>"},
            "<file path=x/y.js>\ntext\n</file>",
            id="a footer stands on a line below the text",
        ),
        pytest.param(
            {"footer": "{path} %s {0} {path}"},
            "=== x/y.js ===\ntext\nx/y.js %s {0} x/y.js",
            id="only {path} is special in a footer",
        ),
        pytest.param({"header": "", "footer": "</file>"}, "text", id="a bare file has no footer"),
    ],
)
def test_header_and_footer(run_stage: Build, options: dict[str, str], expected: str) -> None:
    before = conversion(("user", "a", file("x/y.js", "text"), "b"), ("user", "a", EMPTY, "b"))
    turn, empty = run_stage(embed_files, before, **options).turns
    assert turn.content == f"a\n{expected}\nb"
    of_empty = expected.replace("text", "").replace("x/y.js", "empty.txt")
    assert empty.content == f"a\n{of_empty}\nb"
    assert empty.has_content


@pytest.mark.parametrize("later_system", ["merge", "assistant", "keep"])
def test_a_file_of_a_system_message_keeps_its_header_wherever_the_message_goes(
    run_stage: Build, later_system: str
) -> None:
    before = conversion(("user", "Hi"), ("system", "One.", file("s", "S")))
    result = run_stage(embed_files, before, header="", system_header="# {path}")
    chat = run_stage(consolidate_system, result, later_system=later_system).chat
    assert chat is not None
    assert any(turn.content.endswith("One.\n# s\nS") for turn in chat)


@pytest.mark.parametrize(
    ("options", "system"),
    [
        pytest.param({"system_header": ""}, "One.\n\nS", id="bare"),
        pytest.param({}, "One.\n\n=== s ===\nS", id="under a header"),
    ],
)
def test_a_file_keeps_its_distance_from_the_section_above(
    run_stage: Build, options: dict[str, str], system: str
) -> None:
    before = conversion(("system", "One."), ("system", file("s", "S")))
    result = consolidate_system(run_stage(embed_files, before, **options))
    assert result.chat is not None
    assert result.chat[0].content == system
